//! `cospan serve`: logging, then the server itself.

use std::path::Path;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::background;
use crate::cli::args::{LogFormatArg, ServeArgs};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{print_note, warning_word};
use crate::cli::version;
use cospan_printing::terminal;
use cospan_printing::terminal::log_format::{JsonLogWriter, VisibleFields};
use cospan_server::config::sections::LogFormat;
use cospan_server::config::{Config, LoadedConfigFile};
use cospan_server::file_system::is_in_memory;
use cospan_server::http::MalformedRequestLayer;
use cospan_server::serve;

/// Told by a server that has nothing to run jobs on.
const NO_SITES: &str = "the configuration has no site, so every job is refused or waits; add a \
                        [[site]] to it (`cospan config init` writes an example, `cospan site add` \
                        adds a cluster under Slurm), then start the server again";

/// Serves until a signal ends it.
pub(crate) fn run(context: &mut CommandContext, args: &ServeArgs) -> Result<CliExitCode, CliError> {
    load_chaos_plan(args)?;
    let located = context.config()?;
    let lacks_sites = located.loaded.config.site.is_empty();
    if args.background {
        let data = located.loaded.config.data_directory(&context.environment);
        let started = background::start_background(context, &data)?;
        if lacks_sites {
            print_note(&format!("{}: {}", warning_word(), NO_SITES));
        }
        return Ok(started);
    }
    if args.detached {
        // A process that leads a session already needs no new one.
        let _ = rustix::process::setsid();
    }
    let signals = serve::server_signals::listen().map_err(|error| {
        CliError::usage_error(
            format!("cannot listen for signals: {error}"),
            "report this as a bug",
        )
    })?;
    log_to_stderr(context, &located)?;
    let config = &located.loaded.config;
    let data = config.data_directory(&context.environment);
    let file = located.file.as_ref().map(|file| file.display().to_string());
    tracing::info!(
        version = version::short(),
        configuration = file.as_deref().unwrap_or("defaults"),
        data = %data.display(),
        sites = config.site.len(),
        "starting"
    );
    if !located.loaded.warnings.is_empty() {
        tracing::warn!(
            "the configuration has warnings:\n{}",
            located.loaded.warnings
        );
    }
    if lacks_sites {
        tracing::warn!("{NO_SITES}");
    }
    if is_in_memory(&data) {
        tracing::warn!(
            data = %data.display(),
            "the data directory is in memory: a power cut would lose everything; set \
             server.data_directory to a place on a disk"
        );
    }
    serve::serve(config, &data, signals, || {
        if args.detached {
            reopen_log(&data);
        }
        report_changed_config(context, config)
    })
    .map_err(|error| CliError {
        exit: CliExitCode::Usage,
        message: format!("the server did not start: {error}"),
        remedy: Some("`cospan doctor` checks what usually goes wrong".into()),
        quiet: false,
    })?;
    Ok(CliExitCode::Done)
}

/// Goes on in a new file if the log was moved away.
fn reopen_log(data: &Path) {
    let reopened = background::open_log(data)
        .and_then(|log| rustix::stdio::dup2_stderr(log).map_err(std::io::Error::from));
    if let Err(error) = reopened {
        tracing::error!(%error, "SIGHUP: the log goes on in its old file");
    }
}

/// Reports changes of the configuration since the start. A configuration is applied as a whole or
/// not at all, so only a restart applies it; work at sites goes on meanwhile.
fn report_changed_config(context: &CommandContext, running: &Config) {
    match context.config() {
        Ok(located) if located.loaded.config == *running => {
            tracing::info!("SIGHUP: the configuration has not changed");
        }
        Ok(_) => {
            tracing::warn!("SIGHUP: the configuration has changed; restart the server to apply it")
        }
        Err(error) => tracing::error!(
            problem = error.message,
            "SIGHUP: the configuration has problems, and no server would start with it; this one goes on unchanged"
        ),
    }
}

/// Writes the log to standard error. Only a terminal gets colours.
fn log_to_stderr(context: &CommandContext, located: &LoadedConfigFile) -> Result<(), CliError> {
    let log = &located.loaded.config.log;
    let filter = context.environment.log.as_ref().unwrap_or(&log.filter);
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        CliError::usage_error(
            format!("COSPAN_LOG is {filter:?}: {error}"),
            "write a level, or levels by module: info,cospan_actors=debug",
        )
    })?;
    let json = match context.global.log_format {
        Some(format) => format == LogFormatArg::Json,
        None => log.format == LogFormat::Json,
    };
    let lines = tracing_subscriber::fmt::layer();
    let lines = if json {
        lines
            .json()
            .flatten_event(true)
            .with_writer(|| JsonLogWriter(std::io::stderr()))
            .boxed()
    } else {
        let lines = lines
            .with_ansi(terminal::has_live_errors())
            .with_writer(std::io::stderr);
        lines.fmt_fields(VisibleFields::default()).boxed()
    };
    let ready = tracing_subscriber::registry()
        .with(filter)
        .with(MalformedRequestLayer)
        .with(lines)
        .try_init();
    ready.map_err(|error| CliError::usage_error(format!("cannot log: {error}"), "report this"))
}

/// Refuses to start by accident: a build that fails on purpose must not be taken for one that does
/// not.
#[cfg(cospan_chaos)]
fn load_chaos_plan(args: &ServeArgs) -> Result<(), CliError> {
    if !args.allow_chaos {
        return Err(CliError::usage_error(
            "this build has planted faults and is for tests only",
            "install an ordinary build, or give --allow-chaos",
        ));
    }
    let plan = std::env::var("COSPAN_CHAOS_PLAN").unwrap_or_default();
    let coverage = std::env::var_os("COSPAN_CHAOS_COVERAGE").map(Into::into);
    cospan_actors::chaos::load_plan(&plan, coverage).map_err(|problem| {
        CliError::usage_error(
            format!("COSPAN_CHAOS_PLAN: {problem}"),
            "write kind:point:effect:passage[:in-flight], such as crash:before-effect:Submit:1",
        )
    })
}

#[cfg(not(cospan_chaos))]
fn load_chaos_plan(_: &ServeArgs) -> Result<(), CliError> {
    Ok(())
}
