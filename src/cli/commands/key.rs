//! `cospan key ...`: works on the key file, so it needs no server.

use cospan_domain::ids::KeyName;
use serde_json::json;

use crate::api::v1::Instant;
use crate::cli::args_operate::KeyCommand;
use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::out::{columns, note};
use crate::cli::when::{clock, now};

/// Makes, lists and removes keys.
pub(crate) fn run(context: &mut Context, command: &KeyCommand) -> Result<Exit, CliError> {
    let located = context.config()?;
    let keys = context.keys(&located);
    let named = |name: &str| {
        KeyName::new(name).map_err(|error| CliError::usage(error.to_string(), "correct the name"))
    };
    match command {
        KeyCommand::Add { name } => {
            let token = keys.add(&named(name)?, now())?;
            let answer = json!({ "name": name, "token": token.secret() });
            context.out.answer(&answer, |_| format!("{}\n", token.secret()))?;
            note("this is shown only now; its owner sets COSPAN_TOKEN to it");
        }
        KeyCommand::List => {
            let list: Vec<_> = keys
                .list()?
                .into_iter()
                .map(|key| (key.name.to_string(), Instant(key.created), key.fingerprint()))
                .collect();
            let answer: Vec<_> = list
                .iter()
                .map(|(name, created, print)| {
                    json!({ "name": name, "created": created, "fingerprint": print })
                })
                .collect();
            context.out.answer(&answer, |_| {
                let rows: Vec<Vec<String>> = list
                    .iter()
                    .map(|(name, at, print)| vec![name.clone(), clock(*at), print.clone()])
                    .collect();
                match rows.as_slice() {
                    [] => "no keys; the server makes the first one when it starts\n".into(),
                    rows => columns(&["NAME", "MADE", "FINGERPRINT"], rows),
                }
            })?;
        }
        KeyCommand::Remove { name } => {
            keys.remove(&named(name)?)?;
            context.out.answer(&json!({ "removed": name }), |_| format!("key {name} removed\n"))?;
        }
    }
    Ok(Exit::Done)
}
