//! `cospan key ...`: works on the key file, so it needs no server.

use cospan_domain::ids::KeyName;
use serde_json::json;

use crate::cli::args_operate::{KeyCommand, KeyRoleArgs};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::{format_clock, now};
use crate::cli::print::{format_columns, print_note};
use crate::cli::server_account::continue_as_server_account;
use cospan_api::v1::Instant;
use cospan_server::keys::{KeyDirectory, KeyInfo, KeyRoles};

pub(crate) fn run(
    context: &mut CommandContext,
    command: &KeyCommand,
) -> Result<CliExitCode, CliError> {
    let located = context.config()?;
    let data = located.loaded.config.data_directory(&context.environment);
    continue_as_server_account(&data, &located)?;
    let keys = context.key_directory(&located);
    match command {
        KeyCommand::Add { name, roles } => {
            let roles = KeyRoles::of(roles.iter().map(|role| role.role()))?;
            let token = keys.create_key(&parse_key_name(name)?, roles.clone(), now())?;
            let roles = role_names(&roles);
            let answer = json!({ "name": name, "token": token.secret(), "roles": roles });
            context
                .out
                .print_answer(&answer, |_| format!("{}\n", token.secret()))?;
            print_note("this secret is shown only now; its owner sets COSPAN_TOKEN to it");
        }
        KeyCommand::List => print_keys(context, &keys.list_keys()?)?,
        KeyCommand::Grant(args) => set_role(context, &keys, args, true)?,
        KeyCommand::Revoke(args) => set_role(context, &keys, args, false)?,
        KeyCommand::Remove { name } => {
            keys.remove_key(&parse_key_name(name)?)?;
            context.out.print_answer(&json!({ "removed": name }), |_| {
                format!("key {name} removed\n")
            })?;
        }
    }
    Ok(CliExitCode::Done)
}

fn parse_key_name(name: &str) -> Result<KeyName, CliError> {
    KeyName::new(name).map_err(|error| CliError::usage_error(error.to_string(), "correct the name"))
}

fn set_role(
    context: &mut CommandContext,
    keys: &KeyDirectory,
    args: &KeyRoleArgs,
    given: bool,
) -> Result<(), CliError> {
    let roles = keys.set_role(&parse_key_name(&args.name)?, args.role.role(), given)?;
    let answer = json!({ "name": args.name, "roles": role_names(&roles) });
    context
        .out
        .print_answer(&answer, |_| format!("key {} is {roles}\n", args.name))?;
    Ok(())
}

fn role_names(roles: &KeyRoles) -> Vec<String> {
    roles.iter().map(|role| role.to_string()).collect()
}

fn print_keys(context: &mut CommandContext, keys: &[KeyInfo]) -> std::io::Result<()> {
    let answer = keys.iter().map(|key| {
        let name = key.name.to_string();
        let created = Instant(key.created);
        let print = key.fingerprint();
        json!({ "name": name, "created": created, "fingerprint": print, "roles": role_names(&key.roles) })
    });
    context
        .out
        .print_answer(&answer.collect::<Vec<_>>(), |_| match keys {
            [] => "no keys; the server makes the first one at its start\n".into(),
            keys => {
                let rows: Vec<Vec<String>> = keys
                    .iter()
                    .map(|key: &KeyInfo| {
                        let made = format_clock(Instant(key.created));
                        vec![
                            key.name.to_string(),
                            made,
                            key.fingerprint(),
                            key.roles.to_string(),
                        ]
                    })
                    .collect();
                format_columns(&["NAME", "MADE", "FINGERPRINT", "ROLES"], &rows)
            }
        })
}
