//! Removes large trees in a thread of its own: that takes time, and nobody waits for it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::removal;

/// The queue of trees to be removed, and the thread that removes them.
#[derive(Debug, Default)]
pub(super) struct TreeRemover(Arc<Mutex<TreeRemovalQueue>>);

/// A tree that waits costs only its name: descriptors are few, and all attempts need them.
#[derive(Debug, Default)]
struct TreeRemovalQueue {
    trees: BTreeSet<CString>,
    runs: bool,
}

impl TreeRemover {
    /// Removes trees in a directory, one after the other. A tree that stays is logged,
    /// and tried again at the next start. The directory is the same each time, and
    /// opened if no thread is at it.
    pub(super) fn queue_trees(
        &self,
        trees: Vec<CString>,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<()> {
        let mut queue = lock_queue(&self.0);
        queue.trees.extend(trees);
        if queue.runs || queue.trees.is_empty() {
            return Ok(());
        }
        let all = self.0.clone();
        let directory = open()?;
        std::thread::Builder::new()
            .name("cospan-sweep".to_owned())
            .spawn(move || {
            while let Some(tree) = next_tree(&all) {
                if let Err(error) = removal::remove_name(directory.as_fd(), &tree, u64::MAX) {
                    warn!(?tree, %error, "what an attempt left cannot be removed; remove it by hand");
                }
            }
        })?;
        queue.runs = true;
        Ok(())
    }
}

/// Takes the next tree; if there is none, no thread is at it any more.
fn next_tree(queue: &Mutex<TreeRemovalQueue>) -> Option<CString> {
    let mut queue = lock_queue(queue);
    let next = queue.trees.pop_first();
    queue.runs = next.is_some();
    next
}

fn lock_queue(queue: &Mutex<TreeRemovalQueue>) -> MutexGuard<'_, TreeRemovalQueue> {
    // The queue is consistent at each moment.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_waits_for_others_takes_no_descriptor() {
        let busy = TreeRemovalQueue {
            runs: true,
            ..TreeRemovalQueue::default()
        };
        let sweeper = TreeRemover(Arc::new(Mutex::new(busy)));
        for tree in [c"one", c"other", c"one"] {
            sweeper
                .queue_trees(vec![tree.to_owned()], || panic!("it is opened"))
                .unwrap();
        }
        assert_eq!(lock_queue(&sweeper.0).trees.len(), 2);
    }

    #[test]
    fn trees_wait_for_the_next_turn_if_their_directory_cannot_be_opened_now() {
        let sweeper = TreeRemover::default();
        sweeper
            .queue_trees(vec![c"one".to_owned()], || {
                Err(io::Error::from(rustix::io::Errno::MFILE))
            })
            .unwrap_err();
        let queue = lock_queue(&sweeper.0);
        assert!(queue.trees.contains(c"one") && !queue.runs);
    }
}
