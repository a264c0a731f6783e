//! Calls that go into a file system, which may hang.

use std::sync::Arc;
use std::time::Duration;

use cospan_domain::units::DurationMs;
use tokio::sync::Semaphore;

use crate::port::SiteError;

/// Calls that may be inside a site's file system at the same time. If it hangs, this many threads
/// hang with it and no more.
const CALLS_MAX: usize = 8;

/// Runs a site's work on its file system off the control thread. Clones have their turns in common.
#[derive(Debug, Clone)]
pub(crate) struct BlockingCalls {
    turns: Arc<Semaphore>,
    deadline: DurationMs,
}

impl BlockingCalls {
    /// Makes one whose calls take no longer than `deadline`.
    pub(crate) fn new(deadline: DurationMs) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(CALLS_MAX)),
            deadline,
        }
    }

    /// Does a piece of work within the deadline. Work that has begun is carried through even if
    /// nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, SiteError> + Send + 'static,
    ) -> Result<T, SiteError> {
        let deadline = Duration::from_millis(self.deadline.0);
        let turn = tokio::time::timeout(deadline, self.turns.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(SiteError::NotSent(
                "earlier calls hang in its file system".to_owned(),
            ));
        };
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        match tokio::time::timeout(deadline, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(SiteError::OutcomeUnknown(format!(
                "the call broke off: {error}"
            ))),
            Err(_) => Err(SiteError::OutcomeUnknown(format!(
                "no answer from its file system within {}",
                self.deadline
            ))),
        }
    }
}
