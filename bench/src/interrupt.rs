//! Ctrl-C: what a bench began is ended first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cospan_server::signals;

/// The exit code of a program that its user interrupted.
const INTERRUPTED: i32 = 130;

static LAST_ACT: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// True while an interruption is being carried out; it will end the process.
static UNDER_WAY: AtomicBool = AtomicBool::new(false);

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
                let act = LAST_ACT
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                if let Some(act) = act {
                    // A second signal ends at once.
                    std::thread::spawn(move || {
                        if signals::wait_for_end(&mut caught).is_some() {
                            std::process::exit(INTERRUPTED);
                        }
                    });
                    act();
                }
                std::process::exit(INTERRUPTED);
            }
        })?;
    Ok(())
}

/// Returns if the user did not interrupt. Otherwise waits until the process ends.
pub(crate) fn give_way_to_interrupt() {
    while UNDER_WAY.load(Ordering::Acquire) {
        std::thread::park();
    }
}

/// Sets the last act of an interruption from now on. It may take a while.
pub(crate) fn run_at_interrupt(act: impl FnOnce() + Send + 'static) {
    *LAST_ACT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
}
