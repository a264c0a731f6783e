//! `cospan quickstart`: runs the main job while the user watches.
//!
//! It is a client of a server that it starts, and uses nothing but the public interface; only the
//! death of a site is its own doing.

mod demo_directory;
mod demo_job;
mod demo_server;
mod demo_steps;
mod follow_job;
mod job_steps;
mod narrator;
mod processes;
mod quickstart_error;
mod quickstart_report;
pub mod testbed;

use std::path::PathBuf;
use std::sync::Arc;

pub use quickstart_error::QuickstartError;
pub use quickstart_report::QuickstartReport;

use demo_directory::{DemoDirectory, LocalSites};
use demo_server::DemoSharedState;
use demo_steps::QuickstartRun;
use narrator::DemoNarrator;

use cospan_printing::terminal;
use cospan_server::signals;

/// Exit code after Ctrl-C.
const EXIT_INTERRUPTED: i32 = 130;

/// The options of the command.
#[derive(Debug, Clone, Default)]
pub struct QuickstartOptions {
    /// Directory; a new one of our choice if not given.
    pub directory: Option<PathBuf>,
    /// Leave the server running.
    pub keep: bool,
    /// Print nothing on the way.
    pub silent: bool,
    /// Damage a fetched output before it is checked, to test the check.
    pub corrupt_output: bool,
}

/// Runs the main job and describes it. Whatever the result, no process is left, unless everything
/// went well and the server is to be kept.
///
/// The demonstration could not be done. Wrong outputs are no error, but are in the report.
pub fn run(options: &QuickstartOptions) -> Result<QuickstartReport, QuickstartError> {
    let demo = DemoDirectory::prepare(options.directory.as_deref())?;
    let shared = DemoSharedState::new(demo.clone(), Box::new(LocalSites));
    end_on_signals(shared.clone())?;
    let mut unwatched = DemoEndGuard(Some(shared.clone()));
    let report = QuickstartRun {
        demo,
        options,
        teller: DemoNarrator::new(options.silent),
    }
    .run_steps(&shared)?;
    unwatched.0 = None;
    Ok(report)
}

/// Ends everything after an error or a panic.
struct DemoEndGuard(Option<Arc<DemoSharedState>>);

impl Drop for DemoEndGuard {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(|shared| shared.end_all()) {
            print_note(&format!("error: {error}"));
        }
    }
}

fn end_on_signals(shared: Arc<DemoSharedState>) -> Result<(), QuickstartError> {
    let mut caught = signals::catch_unless_ignored().map_err(QuickstartError::Signals)?;
    let thread = std::thread::Builder::new().name("interrupt".into());
    thread
        .spawn(move || {
            if signals::wait_for_end(&mut caught).is_none() {
                return;
            }
            print_note("\ninterrupted: stopping the server and all that runs");
            let (_held, ended) = shared.end_and_remove();
            match ended {
                Ok(()) => print_note("nothing is left running"),
                Err(error) => print_note(&format!("error: {error}")),
            }
            std::process::exit(EXIT_INTERRUPTED);
        })
        .map(drop)
        .map_err(QuickstartError::Signals)
}

fn print_note(text: &str) {
    terminal::print_error(&format!("{text}\n"));
}
