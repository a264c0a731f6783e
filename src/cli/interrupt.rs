//! Ctrl-C: says how to go on, removes what is half written, and ends with 130.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::exit::Exit;
use super::out::note;

/// What to do when the user interrupts.
#[derive(Debug, Default)]
struct Plan {
    hint: Option<String>,
    half_written: Option<PathBuf>,
}

static PLAN: Mutex<Plan> = Mutex::new(Plan { hint: None, half_written: None });

fn plan() -> MutexGuard<'static, Plan> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for Ctrl-C from now on.
///
/// # Errors
/// The system does not let us.
pub(crate) fn listen() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        if signals.forever().next().is_some() {
            let plan = std::mem::take(&mut *plan());
            if let Some(file) = plan.half_written {
                // It may be gone already, which is what is wanted.
                let _ = std::fs::remove_file(file);
            }
            if let Some(hint) = plan.hint {
                note(&format!("\n{hint}"));
            }
            std::process::exit(Exit::Interrupted as i32);
        }
    })?;
    Ok(())
}

/// What to say if the user interrupts from now on.
pub(crate) fn set_hint(hint: impl Into<String>) {
    plan().hint = Some(hint.into());
}

/// What to remove if the user interrupts from now on; `None` for nothing.
pub(crate) fn set_half_written(file: Option<PathBuf>) {
    plan().half_written = file;
}
