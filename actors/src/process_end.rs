//! The end of the process: asked for, or because of a fault.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::supervision::ActorId;

/// Called when the process must end, with the reason.
pub type FatalErrorHandler = Box<dyn Fn(&str) + Send + Sync>;

/// Knowledge of whether the process is to end, and the way to end it.
pub struct ProcessEnd {
    on_fatal: FatalErrorHandler,
    stopping: AtomicBool,
}

impl ProcessEnd {
    /// Makes a process that goes on; `on_fatal` ends it.
    pub(crate) fn new(on_fatal: FatalErrorHandler) -> Self {
        Self {
            on_fatal,
            stopping: AtomicBool::new(false),
        }
    }

    /// Takes no new work from now on.
    pub fn begin_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns true once the control plane is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends the process because of an actor.
    pub(crate) fn end_process(&self, actor: &ActorId, problem: &str) {
        (self.on_fatal)(&format!("{actor}: {problem}"));
    }
}
