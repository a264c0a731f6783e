//! `cospan login` and `cospan logout`: the server and the key of a user.

use std::io::{BufRead, IsTerminal};

use serde_json::json;

use crate::cli::args::LoginArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::saved_login::SavedLogin;
use cospan_client::{Client, ServerAddress};

/// Keeps a server and a key, once the server has taken the key.
pub(crate) fn log_in(
    context: &mut CommandContext,
    args: &LoginArgs,
) -> Result<CliExitCode, CliError> {
    let address: ServerAddress = args.address.parse().map_err(|problem| {
        CliError::usage_error(
            format!("{}: {problem}", args.address),
            "write an address like https://cospan.example.org:7440",
        )
    })?;
    let given = context.global.ca_certificate.as_ref();
    let given = given.or(context.environment.ca_certificate.as_ref());
    let ca_certificate = match given {
        None => None,
        Some(file) => Some(
            std::path::absolute(file)
                .map_err(|error| CliError::file_error("find", file, &error))?,
        ),
    };
    let token = match &context.environment.token {
        Some(token) => token.clone(),
        None => read_token()?,
    };
    let client = Client::new(address, Some(token.clone()), ca_certificate.as_deref())?;
    client.list_sites()?;
    let login = SavedLogin {
        server: args.address.clone(),
        token,
        ca_certificate,
    };
    let file = login.write(&context.environment)?;
    let shown = file.display().to_string();
    let answer = json!({ "server": args.address, "file": shown });
    context.out.print_answer(&answer, |_| {
        format!(
            "commands go to {} from now on, with the key in {shown}\n",
            args.address
        )
    })?;
    Ok(CliExitCode::Done)
}

/// Forgets server and key.
pub(crate) fn log_out(context: &mut CommandContext) -> Result<CliExitCode, CliError> {
    let removed = SavedLogin::remove(&context.environment)?;
    let answer = json!({ "removed": removed });
    context.out.print_answer(&answer, |_| {
        let said = if removed {
            "the key is forgotten; the server still takes it"
        } else {
            "there was no login"
        };
        format!("{said}\n")
    })?;
    Ok(CliExitCode::Done)
}

/// Reads the key, without an echo where somebody types it.
fn read_token() -> Result<String, CliError> {
    let read = if std::io::stdin().is_terminal() {
        rpassword::prompt_password("key: ")
    } else {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    };
    let token = read.map_err(|error| {
        CliError::usage_error(
            format!("cannot read the key: {error}"),
            "write it to standard input, or set COSPAN_TOKEN",
        )
    })?;
    let token = token.trim();
    if token.is_empty() {
        return Err(CliError::usage_error(
            "no key was given",
            "write it to standard input, or set COSPAN_TOKEN; `cospan key add NAME` on the \
             server's machine makes one",
        ));
    }
    Ok(token.to_owned())
}
