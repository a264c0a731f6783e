//! `cospan config ...`

use serde_json::json;

use crate::cli::args::Format;
use crate::cli::args_operate::ConfigCommand;
use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::out::{note, warning_word};
use crate::config::{Located, reference, show};

/// Checks and shows the configuration.
pub(crate) fn run(context: &mut Context, command: &ConfigCommand) -> Result<Exit, CliError> {
    match command {
        ConfigCommand::Check => {
            let located = context.config()?;
            warn(&located);
            let sites = located.loaded.config.site.len();
            let warnings = located.loaded.warnings.len();
            let file = place(&located);
            let answer = json!({ "file": file, "sites": sites, "warnings": warnings });
            context.out.answer(&answer, |_| format!("good: {file}, {sites} sites\n"))?;
        }
        ConfigCommand::Show { brief } => {
            let located = context.config()?;
            warn(&located);
            let text = show(&located.loaded.config, !brief);
            match context.out.format() {
                Format::Table => {
                    let text = format!("# In effect, from {}.\n\n{text}", place(&located));
                    context.out.text(&text)?;
                }
                Format::Json | Format::Yaml => {
                    let value: toml::Table = toml::from_str(&text).map_err(|error| {
                        CliError::usage(error.to_string(), "print it without -o")
                    })?;
                    context.out.answer(&value, |_| String::new())?;
                }
            }
        }
        ConfigCommand::Reference => context.out.text(&reference())?,
    }
    Ok(Exit::Done)
}

fn place(located: &Located) -> String {
    located
        .file
        .as_ref()
        .map_or_else(|| "the defaults (no file was found)".into(), |f| f.display().to_string())
}

fn warn(located: &Located) {
    let warnings = &located.loaded.warnings;
    if !warnings.is_empty() {
        note(&format!("{}: this is allowed, but odd\n{warnings}", warning_word()));
    }
}
