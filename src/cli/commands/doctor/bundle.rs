//! The support bundle: one JSON document, without secrets.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::DoctorReport;
use crate::cli::context::CommandContext;
use crate::cli::exit::CliError;
use crate::cli::version;
use cospan_server::config::print_config;

/// Number of lines of the server's log in the bundle.
const LOG_LINES: &str = "500";

/// Writes the bundle.
pub(super) fn write_bundle(
    file: &Path,
    context: &CommandContext,
    examination: &DoctorReport,
) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(&build_bundle(context, examination))
        .map_err(|error| CliError::usage_error(error.to_string(), "leave out --bundle"))?;
    let text = remove_tokens(&text) + "\n";
    write_private(file, text.as_bytes())
        .map_err(|error| CliError::file_error("write", file, &error))
}

/// Writes a file that only its owner can read. Even without secrets it shows who computes what: its
/// owner decides who gets it.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    const MODE: u32 = 0o600;
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(MODE)
        .open(path)?;
    // An existing file keeps its mode until then; a device keeps it always.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    file.write_all(bytes)
}

fn build_bundle(context: &CommandContext, examination: &DoctorReport) -> Value {
    let environment = &context.environment;
    let client = examination.client.as_ref();
    let sites = client.map(|client| {
        client
            .list_sites()
            .map(|sites| json!(sites))
            .map_err(|error| error.to_string())
    });
    let store = client.map(|client| {
        client
            .describe_store()
            .map(|store| json!(store))
            .map_err(|error| error.to_string())
    });
    let metrics = client.map(|client| {
        client
            .get_text("/metrics")
            .map(Value::from)
            .map_err(|error| error.to_string())
    });
    json!({
        "version": version::long().lines().collect::<Vec<_>>(),
        "made_at": cospan_api::v1::Instant(crate::cli::local_time::now()),
        "checks": examination.checks,
        "configuration": examination.located.as_ref().map(|located| json!({
            "file": located.file,
            "in_effect": print_config(&located.loaded.config, false).lines().collect::<Vec<_>>(),
        })),
        // Only if they are set, not their values.
        "environment": {
            "COSPAN_CONFIG": environment.config.is_some(),
            "COSPAN_SERVER": environment.server.is_some(),
            "COSPAN_TOKEN": environment.token.is_some(),
            "COSPAN_LOG": environment.log.is_some(),
            "STATE_DIRECTORY": environment.state_directory.is_some(),
        },
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "system": std::fs::read_to_string("/proc/version").unwrap_or_default().trim(),
        "sites": value_or_problem(sites),
        "store": value_or_problem(store),
        "metrics": value_or_problem(metrics),
        "log": server_log(),
    })
}

fn value_or_problem(value: Option<Result<Value, String>>) -> Value {
    match value {
        Some(Ok(value)) => value,
        Some(Err(problem)) => json!({ "problem": problem }),
        None => Value::Null,
    }
}

/// Reads the last lines of the server's log from systemd's journal.
fn server_log() -> Vec<String> {
    let output = Command::new("journalctl")
        .args([
            "--unit",
            "cospan",
            "--lines",
            LOG_LINES,
            "--no-pager",
            "--output",
            "short-iso",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// Removes everything that looks like the secret of a key, wherever it came from.
fn remove_tokens(text: &str) -> String {
    const MARK: &str = "cospan_";
    const LEAST_HEX: usize = 32;
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, found) = rest.split_at(at + MARK.len());
        clean.push_str(before);
        let end = found
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(found.len());
        if end >= LEAST_HEX {
            clean.push_str("(hidden)");
            rest = &found[end..];
        } else {
            rest = found;
        }
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_server::keys::SecretToken;

    #[test]
    fn a_key_that_slipped_into_a_log_is_taken_out_and_metrics_stay() {
        let token = SecretToken::random().unwrap();
        let text = format!("cospan_jobs_total 7\nkey {} used\n", token.secret());
        let clean = remove_tokens(&text);
        assert_eq!(clean, "cospan_jobs_total 7\nkey cospan_(hidden) used\n");
    }
}
