//! Ctrl-C: says how to go on, removes what is half written, ends what else was begun, and ends with
//! 130.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::iterator::Signals;

use super::exit::CliExit;
use super::out::note;
use crate::signals;

/// What to do when the user interrupts.
#[derive(Default)]
struct InterruptPlan {
    hint: Option<String>,
    half_written: Option<PathBuf>,
    last_act: Option<Box<dyn FnOnce() + Send>>,
}

static PLAN: Mutex<InterruptPlan> = Mutex::new(InterruptPlan {
    hint: None,
    half_written: None,
    last_act: None,
});

/// An interruption is being carried out, and will end the process.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

fn plan() -> MutexGuard<'static, InterruptPlan> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens from now on for Ctrl-C, and for all else that would end the process.
///
/// # Errors
/// The system does not let us.
pub(crate) fn listen() -> std::io::Result<()> {
    let mut caught = signals::catch_unless_ignored()?;
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || {
            if signals::wait_for_end(&mut caught).is_some() {
                UNDER_WAY.store(true, Ordering::Release);
                let plan = std::mem::take(&mut *plan());
                if let Some(file) = plan.half_written {
                    // It may be gone already, which is what is wanted.
                    let _ = std::fs::remove_file(file);
                }
                if let Some(hint) = plan.hint {
                    note(&format!("\n{hint}"));
                }
                if let Some(act) = plan.last_act {
                    end_at_the_next(caught);
                    act();
                }
                std::process::exit(CliExit::Interrupted as i32);
            }
        })?;
    Ok(())
}

/// A second signal ends at once.
fn end_at_the_next(mut caught: Signals) {
    std::thread::spawn(move || {
        if signals::wait_for_end(&mut caught).is_some() {
            std::process::exit(CliExit::Interrupted as i32);
        }
    });
}

/// Returns if the user did not interrupt. Else what was interrupted may have failed for it, and ends
/// with the process, when what is to be ended has ended.
pub(crate) fn give_way() {
    while UNDER_WAY.load(Ordering::Acquire) {
        std::thread::park();
    }
}

/// What to do last if the user interrupts from now on. It may take a while.
pub(crate) fn set_last_act(act: impl FnOnce() + Send + 'static) {
    plan().last_act = Some(Box::new(act));
}

/// What to say if the user interrupts from now on.
pub(crate) fn set_hint(hint: impl Into<String>) {
    plan().hint = Some(hint.into());
}

/// What to remove if the user interrupts from now on; `None` for nothing.
pub(crate) fn set_half_written(file: Option<PathBuf>) {
    plan().half_written = file;
}
