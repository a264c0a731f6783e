//! For root no mode of a file forbids anything.

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

/// Runs a test on a thread of its own, for which modes of files count: as nobody, if this is root.
/// Threads and processes that it starts are the same.
pub(crate) fn unprivileged(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        if geteuid().is_root() {
            let nobody = Uid::from_raw(65_534);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
