//! `cospan doctor`: checks what usually goes wrong, and collects what helps.

mod bundle;

use std::path::Path;

use serde::Serialize;

use super::configuration::wrong_roots;
use crate::cli::args_operate::DoctorArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{color_state, format_columns, print_note};
use cospan_client::Client;
use cospan_server::config::LoadedConfigFile;
use cospan_server::data_directory::{self, DataDirectoryError};
use cospan_server::file_system::{existing_ancestor, is_in_memory};
use cospan_server::serve::server_file::RunningServerInfo;

/// Disk space below this is too little for a store that grows.
const LITTLE_DISK_BYTES: u64 = 1_000_000_000;
/// Largest tolerated difference between the server's clock and ours.
const MOST_SKEW_S: u64 = 5;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckVerdict {
    Good,
    Odd,
    Bad,
}

/// A check.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DoctorCheck {
    pub(super) what: &'static str,
    pub(super) verdict: CheckVerdict,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl DoctorCheck {
    fn passed(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            verdict: CheckVerdict::Good,
            found: found.into(),
            remedy: None,
        }
    }

    fn warned(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self {
            what,
            verdict: CheckVerdict::Odd,
            found: found.into(),
            remedy,
        }
    }

    fn not_passed(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            verdict: CheckVerdict::Bad,
            ..Self::warned(what, found, remedy)
        }
    }

    fn from_error(what: &'static str, error: &CliError) -> Self {
        let remedy = error
            .remedy
            .clone()
            .unwrap_or_else(|| "correct it, then check again".into());
        Self::not_passed(what, error.message.clone(), remedy)
    }
}

/// The checks that were made, and the exit code.
struct DoctorReport {
    checks: Vec<DoctorCheck>,
    exit: CliExitCode,
    located: Option<LoadedConfigFile>,
    client: Option<Client>,
}

/// Checks the installation.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &DoctorArgs,
) -> Result<CliExitCode, CliError> {
    let examination = examine_installation(context);
    if let Some(file) = &args.bundle {
        bundle::write_bundle(file, context, &examination)?;
    }
    context
        .out
        .print_answer(&examination.checks, |checks| format_checks(checks))?;
    if let Some(file) = &args.bundle {
        print_note(&format!(
            "everything is in {}; read it before you send it",
            file.display()
        ));
    }
    Ok(examination.exit)
}

fn examine_installation(context: &CommandContext) -> DoctorReport {
    let mut all = DoctorReport {
        checks: Vec::new(),
        exit: CliExitCode::Done,
        located: None,
        client: None,
    };
    match context.config() {
        Ok(located) => {
            all.checks.push(check_configuration(&located));
            all.located = Some(located);
        }
        Err(error) => {
            all.checks
                .push(DoctorCheck::from_error("configuration", &error));
            all.exit = error.exit;
        }
    }
    if let Some(located) = &all.located {
        let directory = located.loaded.config.data_directory(&context.environment);
        all.checks.push(check_disk(&directory));
        all.checks.extend(check_roots(context, located));
        all.checks.push(check_key(context, located));
    }
    check_server(context, &mut all);
    if all.exit == CliExitCode::Done
        && all
            .checks
            .iter()
            .any(|check| check.verdict == CheckVerdict::Bad)
    {
        all.exit = CliExitCode::Usage;
    }
    all
}

fn check_configuration(located: &LoadedConfigFile) -> DoctorCheck {
    const WHAT: &str = "configuration";
    let file = located.file.as_ref().map(|file| file.display().to_string());
    match (file, located.loaded.warnings.len()) {
        (None, _) => DoctorCheck::warned(
            WHAT,
            "no file found: all settings have their defaults, and there are no sites",
            "name one with --config or COSPAN_CONFIG; `cospan config show` prints a first one",
        ),
        (Some(file), 0) => DoctorCheck::passed(WHAT, file),
        (Some(file), n) => DoctorCheck::warned(
            WHAT,
            format!("{file} has {n} warnings"),
            "see `cospan config check`",
        ),
    }
}

fn check_roots(context: &CommandContext, located: &LoadedConfigFile) -> Vec<DoctorCheck> {
    let wrong = wrong_roots(context, located).into_iter();
    wrong
        .map(|wrong| {
            DoctorCheck::not_passed(
                "root",
                wrong,
                "correct it: no server starts with such a root",
            )
        })
        .collect()
}

fn check_disk(directory: &Path) -> DoctorCheck {
    const WHAT: &str = "data directory";
    let name = directory.display();
    match data_directory::check_data_directory(directory) {
        // The user of this command need not be the server's user.
        Ok(()) | Err(DataDirectoryError::Foreign { .. }) => {}
        Err(error) => {
            return DoctorCheck::not_passed(
                WHAT,
                error.to_string(),
                "mend it as told: until then no server starts",
            );
        }
    }
    let place = existing_ancestor(directory);
    let free = match rustix::fs::statvfs(place) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => {
            return DoctorCheck::not_passed(
                WHAT,
                format!("cannot examine {}: {error}", place.display()),
                "check that its disk is there",
            );
        }
    };
    let shown = cospan_domain::units::Bytes(free);
    if is_in_memory(place) {
        return DoctorCheck::not_passed(
            WHAT,
            format!("{name} is in memory: a power cut would lose everything"),
            "set server.data_directory to a place on a disk",
        );
    }
    if free < LITTLE_DISK_BYTES {
        DoctorCheck::warned(
            WHAT,
            format!("{name} has {shown} left"),
            "make room on its disk",
        )
    } else {
        DoctorCheck::passed(WHAT, format!("{name}, {shown} left"))
    }
}

fn check_key(context: &CommandContext, located: &LoadedConfigFile) -> DoctorCheck {
    const WHAT: &str = "key";
    if context.environment.token.is_some() {
        return DoctorCheck::passed(WHAT, "in COSPAN_TOKEN");
    }
    let keys = context.key_directory(located);
    match keys.local_token() {
        Ok(Some(_)) => DoctorCheck::passed(WHAT, keys.token_file_path().display().to_string()),
        Ok(None) => DoctorCheck::warned(
            WHAT,
            "no key in COSPAN_TOKEN or beside the store",
            "start the server once as this user, or ask its operator for `cospan key add`",
        ),
        Err(error) => DoctorCheck::from_error(WHAT, &error.into()),
    }
}

fn check_server(context: &CommandContext, all: &mut DoctorReport) {
    let client = match context.client() {
        Ok(client) => client,
        Err(error) => {
            // Problems with configuration and key have been reported already.
            if all.exit == CliExitCode::Done {
                all.exit = error.exit;
            }
            return;
        }
    };
    const WHAT: &str = "server";
    match client.server_clock() {
        Ok(seconds) => {
            all.checks
                .push(DoctorCheck::passed(WHAT, client.address().to_string()));
            all.checks.push(check_clock(seconds));
            all.checks.push(check_access(&client));
            all.checks.extend(check_site_states(&client));
        }
        Err(error) => {
            let error = CliError::from(error);
            all.exit = error.exit;
            let here = all.located.as_ref().filter(|_| client.address().is_local());
            let looked = here.map(|located| {
                [
                    check_process(context, located),
                    check_store(context, located),
                ]
            });
            all.checks.push(report_silent_server(
                &error,
                here.is_some(),
                &all.checks,
                looked.as_ref(),
            ));
            all.checks.extend(looked.into_iter().flatten());
        }
    }
    all.client = Some(client);
}

/// Reports that the server is not reached, and the local checks that look for the reason.
fn report_silent_server(
    error: &CliError,
    here: bool,
    before: &[DoctorCheck],
    looked: Option<&[DoctorCheck; 2]>,
) -> DoctorCheck {
    let mut check = DoctorCheck::from_error("server", error);
    if error.exit != CliExitCode::Unreachable {
        return check;
    }
    let mut all = before.iter().chain(looked.into_iter().flatten());
    check.remedy = Some(match all.find(|check| check.verdict == CheckVerdict::Bad) {
        Some(bad) => format!("mend {} first, see below", bad.what),
        None if here => {
            "no check here keeps it from starting: run `cospan serve`, or `cospan serve \
             --background`; the end of its log says why it ended (`server.log` in the data \
             directory; under systemd `journalctl -u cospan -n 50`)"
                .into()
        }
        None => "it is on another machine: run `cospan doctor` there, and check address, port and \
                 firewall; --server or COSPAN_SERVER names another server"
            .into(),
    });
    check
}

/// Checks if a server process uses the data directory although it does not answer.
fn check_process(context: &CommandContext, located: &LoadedConfigFile) -> DoctorCheck {
    const WHAT: &str = "process";
    let data = located.loaded.config.data_directory(&context.environment);
    match RunningServerInfo::find_running(&data) {
        Ok(None) => DoctorCheck::passed(WHAT, format!("no server runs with {}", data.display())),
        Ok(Some(RunningServerInfo {
            process, addresses, ..
        })) => DoctorCheck::not_passed(
            WHAT,
            format!(
                "process {process} serves {} at {}",
                data.display(),
                addresses.join(", ")
            ),
            "name that address with --server or COSPAN_SERVER; if it hangs there, `cospan stop` it",
        ),
        Err(error) => DoctorCheck::warned(WHAT, error.to_string(), "check the data directory"),
    }
}

/// Checks if the store keeps the server from starting.
fn check_store(context: &CommandContext, located: &LoadedConfigFile) -> DoctorCheck {
    const WHAT: &str = "store";
    let config = &located.loaded.config;
    let data = config.data_directory(&context.environment);
    let place = cospan_server::store_engines::store_place(&config.store, &data);
    match place.check_openable() {
        Ok(()) => DoctorCheck::passed(
            WHAT,
            format!("{}: a server can open it", place.place_text()),
        ),
        Err(error) => {
            let remedy = "mend this: until then `cospan serve` does not start";
            DoctorCheck::not_passed(WHAT, error.to_string(), remedy)
        }
    }
}

fn check_clock(server_s: Option<u64>) -> DoctorCheck {
    const WHAT: &str = "clock";
    let Some(theirs) = server_s else {
        return DoctorCheck::passed(WHAT, "the server does not send its time");
    };
    let apart = (crate::cli::local_time::now().0 / 1_000).abs_diff(theirs);
    if apart > MOST_SKEW_S {
        DoctorCheck::warned(
            WHAT,
            format!("the server's clock and this machine's differ by {apart} s"),
            "synchronize both with NTP",
        )
    } else {
        DoctorCheck::passed(WHAT, "agrees with the server's")
    }
}

fn check_access(client: &Client) -> DoctorCheck {
    const WHAT: &str = "access";
    match client
        .get_text("/readyz")
        .and_then(|_| client.describe_store())
    {
        Ok(store) => DoctorCheck::passed(
            WHAT,
            format!(
                "{} jobs, store {} ({})",
                store.jobs,
                cospan_domain::units::Bytes(store.size_bytes),
                store.engine
            ),
        ),
        Err(error) => DoctorCheck::from_error(WHAT, &error.into()),
    }
}

fn check_site_states(client: &Client) -> Vec<DoctorCheck> {
    const WHAT: &str = "site";
    let Ok(list) = client.list_sites() else {
        return Vec::new();
    };
    if list.sites.is_empty() {
        return vec![DoctorCheck::warned(
            WHAT,
            "there are no sites",
            "add a [[site]] to the configuration",
        )];
    }
    list.sites
        .iter()
        .map(|site: &cospan_api::v1::site::SiteReport| {
            let reason = site
                .reason
                .as_ref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            let found = format!("{} is {}{reason}", site.name, site.state);
            match site.state.as_str() {
                "usable" => DoctorCheck::passed(WHAT, found),
                _ => DoctorCheck::warned(
                    WHAT,
                    found,
                    format!("see `cospan site show {}`", site.name),
                ),
            }
        })
        .collect()
}

/// Formats checks for people: one line each, then the remedy.
pub(super) fn format_checks(checks: &[DoctorCheck]) -> String {
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| {
            let verdict = match check.verdict {
                CheckVerdict::Good => color_state("usable").replace("usable", "good"),
                CheckVerdict::Odd => color_state("unknown").replace("unknown", "odd"),
                CheckVerdict::Bad => color_state("failed").replace("failed", "BAD"),
            };
            let found = check.found.lines().next().unwrap_or_default().to_owned();
            vec![verdict, check.what.to_owned(), found]
        })
        .collect();
    let mut text = format_columns(&["", "CHECK", "FOUND"], &rows);
    for check in checks {
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!(
                "\n{}: {}\n  > {remedy}\n",
                check.what, check.found
            ));
        }
    }
    text
}
