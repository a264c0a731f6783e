//! `cospan config ...`

use serde_json::json;

use super::config_init;
use crate::cli::args::OutputFormat;
use crate::cli::args_operate::ConfigCommand;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{print_note, warning_word};
use cospan_server::config::{LoadedConfigFile, print_config, print_reference};
use cospan_server::data_directory;
use cospan_server::site_roots;

/// Checks and shows the configuration.
pub(crate) fn run(
    context: &mut CommandContext,
    command: &ConfigCommand,
) -> Result<CliExitCode, CliError> {
    match command {
        ConfigCommand::Check => {
            let located = context.config()?;
            print_warnings(&located);
            let wrong = wrong_roots(context, &located);
            if !wrong.is_empty() {
                let remedy = "correct it, then check again: no server starts with such a root";
                return Err(CliError::usage_error(wrong.join("\n"), remedy));
            }
            let unknown = missing_site_keys(context, &located);
            unknown
                .iter()
                .for_each(|text| print_note(&format!("{}: {text}", warning_word())));
            let sites = located.loaded.config.site.len();
            let warnings = located.loaded.warnings.len() + unknown.len();
            let file = describe_place(&located);
            let answer = json!({ "file": file, "sites": sites, "warnings": warnings });
            context
                .out
                .print_answer(&answer, |_| format!("good: {file}, {sites} sites\n"))?;
        }
        ConfigCommand::Show { brief } => {
            let located = context.config()?;
            print_warnings(&located);
            let text = print_config(&located.loaded.config, !brief);
            match context.out.format() {
                OutputFormat::Table => {
                    let text = format!("# In effect, from {}.\n\n{text}", describe_place(&located));
                    context.out.print_bytes(text.as_bytes())?;
                }
                OutputFormat::Json | OutputFormat::Yaml => {
                    let value: toml::Table = toml::from_str(&text).map_err(|error| {
                        CliError::usage_error(error.to_string(), "print it without -o")
                    })?;
                    context.out.print_answer(&value, |_| String::new())?;
                }
            }
        }
        ConfigCommand::Init { file } => config_init::write_config(context, file.as_deref())?,
        ConfigCommand::Reference => context.out.print_bytes(print_reference().as_bytes())?,
    }
    Ok(CliExitCode::Done)
}

/// Lists invalid roots. What another account may see in another way counts only for the account
/// that the server has: the one that the data directory belongs to, or that can make it.
pub(super) fn wrong_roots(context: &CommandContext, located: &LoadedConfigFile) -> Vec<String> {
    let config = &located.loaded.config;
    let data = config.data_directory(&context.environment);
    let is_server_account = data_directory::is_ours(&data);
    let wrong = site_roots::find_wrong_roots(config, &data);
    let certain = wrong
        .iter()
        .filter(|wrong| is_server_account || !wrong.depends_on_account());
    certain.map(ToString::to_string).collect()
}

fn describe_place(located: &LoadedConfigFile) -> String {
    located.file.as_ref().map_or_else(
        || "the defaults (no file was found)".into(),
        |f| f.display().to_string(),
    )
}

fn print_warnings(located: &LoadedConfigFile) {
    let warnings = &located.loaded.warnings;
    if !warnings.is_empty() {
        print_note(&format!(
            "{}: this is allowed, but odd\n{warnings}",
            warning_word()
        ));
    }
}

/// Lists keys that sites name but that do not exist. Users who may not read the keys learn nothing
/// about them; and before the server has made its first key the list is empty.
fn missing_site_keys(context: &CommandContext, located: &LoadedConfigFile) -> Vec<String> {
    let known = context
        .key_directory(located)
        .list_keys()
        .unwrap_or_default();
    if known.is_empty() {
        return Vec::new();
    }
    let named = located.loaded.config.site.iter().flat_map(|site| {
        let keys = site.keys.iter().flatten();
        keys.map(move |key| (&site.name, key))
    });
    let unknown = named.filter(|(_, key)| known.iter().all(|known| known.name != **key));
    unknown
        .map(|(site, key)| {
            format!(
                "keys of site {site} names {key}, but there is no such key: create it with `cospan \
                 key add {key}`, or see `cospan key list`"
            )
        })
        .collect()
}
