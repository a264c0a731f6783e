//! Removes large trees in a thread of its own: they take their time, and nobody waits for them.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::removal;

/// What is to be removed, and whether somebody is at it.
#[derive(Debug, Default)]
pub(super) struct Sweeper(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    trees: VecDeque<(Arc<OwnedFd>, CString)>,
    runs: bool,
}

impl Sweeper {
    /// Has trees in a directory removed, one after the other. What stays is said, and tried again
    /// at the next start.
    pub(super) fn remove(&self, directory: OwnedFd, trees: Vec<CString>) -> io::Result<()> {
        let directory = Arc::new(directory);
        let mut queue = lock(&self.0);
        queue.trees.extend(trees.into_iter().map(|tree| (directory.clone(), tree)));
        if queue.runs || queue.trees.is_empty() {
            return Ok(());
        }
        let all = self.0.clone();
        let sweep = move || {
            while let Some((directory, tree)) = next(&all) {
                if let Err(error) = removal::remove(directory.as_fd(), &tree, u64::MAX) {
                    warn!(?tree, %error, "what an attempt left cannot be removed; remove it by hand");
                }
            }
        };
        std::thread::Builder::new().name("cospan-sweep".to_owned()).spawn(sweep)?;
        queue.runs = true;
        Ok(())
    }
}

/// The next tree; there being none, nobody is at it any more.
fn next(queue: &Mutex<Queue>) -> Option<(Arc<OwnedFd>, CString)> {
    let mut queue = lock(queue);
    let next = queue.trees.pop_front();
    queue.runs = next.is_some();
    next
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // It is whole at each moment.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
