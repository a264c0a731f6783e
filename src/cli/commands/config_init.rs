//! `cospan config init`: writes a configuration to begin with.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::context::CommandContext;
use crate::cli::exit::CliError;

/// Writes a configuration with one local site, unless the file is there already.
pub(super) fn write_config(
    context: &mut CommandContext,
    file: Option<&Path>,
) -> Result<(), CliError> {
    let Some(file) = place_of_config(context, file) else {
        return Err(CliError::usage_error(
            "no place for the configuration: HOME is not set",
            "name a file: cospan config init ./cospan.toml",
        ));
    };
    let file =
        std::path::absolute(&file).map_err(|error| CliError::file_error("find", &file, &error))?;
    let root = site_root(context, &file);
    for directory in [file.parent(), root.parent()].into_iter().flatten() {
        fs::create_dir_all(directory)
            .map_err(|error| CliError::file_error("make", directory, &error))?;
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)
        .and_then(|mut to| to.write_all(example_config(&root).as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(CliError::usage_error(
                format!("{} is there already, and stays as it is", file.display()),
                "name another file, or change this one; `cospan config check` checks it",
            ));
        }
        Err(error) => return Err(CliError::file_error("write", &file, &error)),
    }
    let shown = file.display().to_string();
    context.out.print_answer(&json!({ "file": shown }), |_| {
        format!(
            "{shown} written\n  check  cospan config check\n  start  cospan serve --background\n"
        )
    })?;
    if !is_found_by_itself(context, &file) {
        let hint = format!("other commands find it with: export COSPAN_CONFIG={shown}");
        crate::cli::print::print_note(&hint);
    }
    Ok(())
}

/// The file that is named, else the one that other commands look for.
fn place_of_config(context: &CommandContext, file: Option<&Path>) -> Option<PathBuf> {
    let named = file.map(Path::to_path_buf);
    let named = named.or_else(|| context.global.config.clone());
    named
        .or_else(|| context.environment.config.clone())
        .or_else(|| user_config(context))
}

fn user_config(context: &CommandContext) -> Option<PathBuf> {
    let home = context.environment.config_home.as_ref();
    home.map(|home| home.join("cospan/cospan.toml"))
}

/// Returns true if commands without options read this file.
fn is_found_by_itself(context: &CommandContext, file: &Path) -> bool {
    let looked_for = context
        .environment
        .config
        .clone()
        .or_else(|| user_config(context));
    looked_for.is_some_and(|looked_for| looked_for == file)
}

/// A directory for the site: beside the data of other programs, or beside the configuration.
fn site_root(context: &CommandContext, file: &Path) -> PathBuf {
    let beside = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let base = context.environment.data_home.clone().unwrap_or(beside);
    base.join("cospan-sites/here")
}

fn example_config(root: &Path) -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let root = toml::Value::from(root.display().to_string());
    format!(
        r#"# A configuration to begin with. `cospan config show` lists all settings with their meanings.

[server]
# Where the server keeps jobs, keys and its log: on a disk, not in memory.
# data_directory = "/var/lib/cospan"

# A site on this machine: a directory and a number of processors.
[[site]]
name = "here"
kind = "local"
root = {root}
processors = {processors}

# A cluster under Slurm: `cospan site add --help`.
"#
    )
}
