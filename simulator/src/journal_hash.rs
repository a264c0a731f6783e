//! The hash of everything that became durable.

use std::sync::{Mutex, MutexGuard, PoisonError};

use twox_hash::XxHash3_128;

/// The events of a run as one number: equal seeds give equal hashes.
#[derive(Default)]
pub struct EventHash {
    state: Mutex<EventHashState>,
}

#[derive(Default)]
struct EventHashState {
    hasher: XxHash3_128,
    /// Bytes still to be hashed: hashing many at once takes a fraction of the time.
    waiting: Vec<u8>,
}

impl EventHash {
    /// Small enough to stay in the processor's nearest cache.
    const MANY_BYTES: usize = 8 * 1_024;

    fn lock_state(&self) -> MutexGuard<'_, EventHashState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one record.
    pub fn add_record(&self, parts: &[&[u8]]) {
        let mut state = self.lock_state();
        for part in parts {
            state.waiting.extend_from_slice(&part.len().to_le_bytes());
            state.waiting.extend_from_slice(part);
        }
        if state.waiting.len() >= Self::MANY_BYTES {
            state.hash_waiting();
        }
    }

    /// The hash so far, in hexadecimal digits.
    pub fn hex_digest(&self) -> String {
        let mut state = self.lock_state();
        state.hash_waiting();
        format!("{:032x}", state.hasher.finish_128())[..16].to_owned()
    }
}

impl EventHashState {
    fn hash_waiting(&mut self) {
        self.hasher.write(&self.waiting);
        self.waiting.clear();
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
                (0..count).for_each(|number| hash.add_record(&[&number.to_le_bytes(), b"text"]));
                hash.add_record(&[&[last]]);
                hash.hex_digest()
            };
            assert_eq!(hash(1), hash(1));
            assert_ne!(hash(1), hash(2));
            assert_eq!(hash(1).len(), 16);
        }
    }

    #[test]
    fn where_a_part_ends_is_told_apart() {
        let hash = |parts: &[&[u8]]| {
            let hash = EventHash::default();
            hash.add_record(parts);
            hash.hex_digest()
        };
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
    }

    #[test]
    fn more_can_be_added_after_it_was_asked_for() {
        let hash = EventHash::default();
        hash.add_record(&[b"one"]);
        let before = hash.hex_digest();
        hash.add_record(&[b"two"]);
        assert_ne!(hash.hex_digest(), before);
    }
}
