//! Ctrl-C: prints a hint how to continue, removes half-written files, and ends with 130.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::exit::CliExitCode;
use super::print::print_note;
use cospan_server::signals;

/// The actions for an interruption by the user.
#[derive(Default)]
struct InterruptActions {
    hint: Option<String>,
    half_written: Option<PathBuf>,
}

static PLAN: Mutex<InterruptActions> = Mutex::new(InterruptActions {
    hint: None,
    half_written: None,
});

/// True while an interruption is being carried out; it will end the process.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

fn lock_plan() -> MutexGuard<'static, InterruptActions> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to listen for Ctrl-C, and for all other signals that would end the process.
///
/// # Errors
///
/// The system does not allow it.
pub(crate) fn listen_for_signals() -> std::io::Result<()> {
    let mut caught = signals::catch_unless_ignored()?;
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || {
            if signals::wait_for_end(&mut caught).is_some() {
                UNDER_WAY.store(true, Ordering::Release);
                let plan = std::mem::take(&mut *lock_plan());
                if let Some(file) = plan.half_written {
                    // The file may be gone already, which is just as good.
                    let _ = std::fs::remove_file(file);
                }
                if let Some(hint) = plan.hint {
                    print_note(&format!("\n{hint}"));
                }
                std::process::exit(CliExitCode::Interrupted as i32);
            }
        })?;
    Ok(())
}

/// Returns if the user did not interrupt. Otherwise the interruption may have caused the caller's
/// error: waits until the process ends.
pub(crate) fn wait_if_interrupted() {
    while UNDER_WAY.load(Ordering::Acquire) {
        std::thread::park();
    }
}

/// Sets the hint that an interruption prints from now on.
pub(crate) fn set_interrupt_hint(hint: impl Into<String>) {
    lock_plan().hint = Some(hint.into());
}

/// Sets the file that an interruption removes from now on; `None` for no file.
pub(crate) fn set_partial_file(file: Option<PathBuf>) {
    lock_plan().half_written = file;
}
