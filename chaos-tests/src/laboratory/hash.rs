//! The hash of all that became durable.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What happened in a run, as one number: equal seeds give equal hashes.
#[derive(Debug, Default)]
pub struct EventHash {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is still to go in: much at once takes a fraction of the time.
    waiting: Vec<u8>,
    records: u64,
    /// A thread that hashes, so that the run need not: nothing in it depends on the hash.
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    work: SyncSender<Work>,
    /// Pieces that it is done with: memory that is warm, to be filled again.
    emptied: Receiver<Vec<u8>>,
}

enum Work {
    Add(Vec<u8>),
    /// Tell what it comes to so far.
    Tell(SyncSender<blake3::Hash>),
}

impl EventHash {
    const MANY_BYTES: usize = 64 * 1_024;
    /// Pieces that wait for the thread; a run that is faster waits for it.
    const PIECES_MAX: usize = 8;

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one record of what happened.
    pub fn add(&self, parts: &[&[u8]]) {
        let mut state = self.state();
        state.records += 1;
        for part in parts {
            state.waiting.extend_from_slice(&part.len().to_le_bytes());
            state.waiting.extend_from_slice(part);
        }
        if state.waiting.len() >= Self::MANY_BYTES {
            state.hand_over();
        }
    }

    /// The hash so far, in hexadecimal digits, and how many records went in.
    pub fn finish(&self) -> (String, u64) {
        let mut state = self.state();
        state.hand_over();
        let (tell, told) = sync_channel(1);
        let hash = state.thread.as_ref().and_then(|thread| {
            thread.work.send(Work::Tell(tell)).ok()?;
            told.recv().ok()
        });
        let digits = hash.map(|hash| hash.to_hex().chars().take(16).collect());
        (digits.unwrap_or_default(), state.records)
    }
}

impl State {
    fn hand_over(&mut self) {
        let thread = self.thread.get_or_insert_with(Thread::start);
        let empty = thread.emptied.try_recv().unwrap_or_default();
        let more = std::mem::replace(&mut self.waiting, empty);
        // It lives as long as it is sent to.
        let _ = thread.work.send(Work::Add(more));
    }
}

impl Thread {
    fn start() -> Self {
        let (work, todo) = sync_channel(EventHash::PIECES_MAX);
        let (done, emptied) = channel();
        std::thread::spawn(move || {
            let mut hasher = blake3::Hasher::new();
            for work in todo {
                match work {
                    Work::Add(mut more) => {
                        hasher.update(&more);
                        more.clear();
                        // Nobody fills it again once the run is over.
                        let _ = done.send(more);
                    }
                    // Whoever asked waits for it.
                    Work::Tell(tell) => drop(tell.send(hasher.finalize())),
                }
            }
        });
        Self { work, emptied }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_records_give_equal_hashes_however_many_there_are() {
        for count in [0_u64, 1, 30_000] {
            let hash = |last: u8| {
                let hash = EventHash::default();
                (0..count).for_each(|number| hash.add(&[&number.to_le_bytes(), b"text"]));
                hash.add(&[&[last]]);
                hash.finish()
            };
            assert_eq!(hash(1), hash(1));
            assert_ne!(hash(1), hash(2));
            assert_eq!(hash(1).1, count + 1);
            assert_eq!(hash(1).0.len(), 16);
        }
    }

    #[test]
    fn where_a_part_ends_is_told_apart() {
        let hash = |parts: &[&[u8]]| {
            let hash = EventHash::default();
            hash.add(parts);
            hash.finish().0
        };
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
    }

    #[test]
    fn more_can_be_added_after_it_was_asked_for() {
        let hash = EventHash::default();
        hash.add(&[b"one"]);
        let before = hash.finish();
        hash.add(&[b"two"]);
        assert_ne!(hash.finish(), before);
    }
}
