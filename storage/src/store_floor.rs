//! The least state that a store must have reached, as known from elsewhere, and the gap to it.

use std::fmt;

use cospan_domain::ids::{Epoch, InstanceId, JobId, Seq};

use crate::port::{KeyVersion, StoreError, StoreKey, StoredValue};
use crate::record::{keys, small_records};

/// The progress of a store. As a floor: it has reached at least this; 0 where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFloor {
    /// The highest epoch that is known to be durable; 0 for a store not yet begun.
    pub epoch: Epoch,
    /// The last unit that is known to be durable.
    pub seq: Seq,
    /// Job ids below this one are given out, or may be.
    pub next_job: JobId,
    /// Number of live jobs.
    pub live_jobs: u64,
}

/// The counts of jobs in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoreJobCounts {
    /// The first job id that was never given out.
    pub(crate) next_job: JobId,
    /// Number of live jobs.
    pub(crate) live_jobs: u64,
}

impl StoreJobCounts {
    /// Reads the next job id from a value that is about to be written, or was found.
    pub(crate) fn note_next_job(&mut self, key: &[u8], version: KeyVersion, value: &[u8]) {
        if key != keys::NEXT_JOB.as_bytes() {
            return;
        }
        // A damaged value is reported when it is loaded.
        if let Ok(next) = small_records::read_next_job(&StoredValue {
            key: StoreKey(key.into()),
            version,
            value: value.into(),
        }) {
            self.next_job = self.next_job.max(next);
        }
    }

    /// Counts a key that was added or removed.
    pub(crate) fn count_key(&mut self, key: &[u8], before: bool, now: bool) {
        if before != now && keys::is_spec_key(key) {
            if now {
                self.live_jobs = self.live_jobs.saturating_add(1)
            } else {
                self.live_jobs = self.live_jobs.saturating_sub(1)
            }
        }
    }

    pub(crate) fn to_floor(self, epoch: Epoch, seq: Seq) -> StoreFloor {
        StoreFloor {
            epoch,
            seq,
            next_job: self.next_job,
            live_jobs: self.live_jobs,
        }
    }
}

/// A floor, with the file that states it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownFloor {
    pub(crate) floor: StoreFloor,
    pub(crate) by: String,
}

impl KnownFloor {
    /// Combines the knowledge of two.
    pub(crate) fn combine(self, other: Self) -> Self {
        let a = self.floor;
        let b = other.floor;
        let floor = StoreFloor {
            epoch: a.epoch.max(b.epoch),
            seq: a.seq.max(b.seq),
            next_job: a.next_job.max(b.next_job),
            live_jobs: a.live_jobs.max(b.live_jobs),
        };
        let by = if (a.seq, a.epoch) >= (b.seq, b.epoch) {
            self.by
        } else {
            other.by
        };
        Self { floor, by }
    }

    /// Returns the gap of a store in this state, if anything is missing.
    pub(crate) fn find_gap(&self, place: &str, found: FoundStore) -> Option<StoreGap> {
        let is_whole = match found {
            FoundStore::Missing | FoundStore::Empty => self.floor.epoch == Epoch(0),
            // An epoch in which nothing was written loses nothing.
            FoundStore::Reached(reached) => reached.seq >= self.floor.seq,
            FoundStore::Of { instance, of } => instance == of,
        };
        (!is_whole).then(|| StoreGap {
            place: place.into(),
            by: self.by.clone(),
            known: self.floor,
            found,
        })
    }

    /// # Errors
    /// Fails with [`StoreError::Behind`], if anything is missing.
    pub(crate) fn check_complete(&self, place: &str, found: FoundStore) -> Result<(), StoreError> {
        match self.find_gap(place, found) {
            None => Ok(()),
            Some(gap) => Err(StoreError::Behind(Box::new(gap))),
        }
    }
}

/// The content of the place where a store should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundStore {
    /// No store.
    Missing,
    /// An empty directory.
    Empty,
    /// A store with this progress.
    Reached(StoreFloor),
    /// A store of a certain control plane.
    Of {
        /// Instance of the store.
        instance: InstanceId,
        /// Instance that it should have.
        of: InstanceId,
    },
}

/// The gap between a store and its floor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreGap {
    /// The store.
    pub place: String,
    /// The file that states the floor.
    pub by: String,
    /// The floor.
    pub known: StoreFloor,
    /// The content of the place.
    pub found: FoundStore,
}

impl StoreGap {
    /// Describes what is lost with it, in words.
    pub fn describe_loss(&self) -> String {
        let StoreFloor {
            seq,
            next_job,
            live_jobs,
            ..
        } = self.known;
        let jobs = match live_jobs {
            0 => String::new(),
            count => format!(", which left {count} live jobs"),
        };
        match self.found {
            FoundStore::Reached(found) => {
                let missing = seq.0.saturating_sub(found.seq.0);
                let numbers = if next_job > found.next_job {
                    format!(
                        "; jobs {} to {}, as far as they were given out, are not known",
                        found.next_job.0.max(1),
                        next_job.0 - 1
                    )
                } else {
                    String::new()
                };
                let now = found.live_jobs;
                format!("the last {missing} units{jobs}; {now} live jobs are there{numbers}")
            }
            FoundStore::Missing | FoundStore::Empty | FoundStore::Of { .. } => {
                format!("all {seq} units{jobs}; job ids below {next_job} may have been given out")
            }
        }
    }
}

impl fmt::Display for StoreGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            by,
            known,
            found,
        } = self;
        write!(f, "the store at {place} ")?;
        match found {
            FoundStore::Missing => write!(f, "is not there")?,
            FoundStore::Empty => write!(f, "is empty")?,
            FoundStore::Reached(found) => {
                write!(f, "ends with unit {} (epoch {})", found.seq, found.epoch)?;
            }
            FoundStore::Of { instance, of } => {
                write!(f, "is that of control plane {instance}, not that of {of}")?;
            }
        }
        let seq = known.seq;
        let epoch = known.epoch;
        write!(
            f,
            ", but it had reached unit {seq} (epoch {epoch}), as {by} says; missing are "
        )?;
        f.write_str(&self.describe_loss())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(epoch: u64, seq: u64) -> StoreFloor {
        StoreFloor {
            epoch: Epoch(epoch),
            seq: Seq(seq),
            next_job: JobId(65),
            live_jobs: 9,
        }
    }

    #[test]
    fn a_gap_says_what_is_missing_and_who_says_so() {
        let known = KnownFloor {
            floor: floor(3, 40),
            by: "/data/store.floor".into(),
        };
        let found = StoreFloor {
            next_job: JobId(33),
            live_jobs: 4,
            ..floor(2, 12)
        };
        let said = known
            .find_gap("/data/store", FoundStore::Reached(found))
            .unwrap()
            .to_string();
        for words in [
            "/data/store ends with unit 12",
            "unit 40 (epoch 3)",
            "/data/store.floor",
        ] {
            assert!(said.contains(words), "{said}");
        }
        for words in [
            "the last 28 units",
            "9 live jobs",
            "4 live jobs are there",
            "33 to 64",
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert!(
            known
                .find_gap("/", FoundStore::Reached(floor(1, 40)))
                .is_none(),
            "nothing is missing"
        );
        assert!(
            known
                .find_gap("/", FoundStore::Missing)
                .unwrap()
                .to_string()
                .contains("all 40 units")
        );
        assert!(
            KnownFloor::default()
                .find_gap("/", FoundStore::Missing)
                .is_none(),
            "it was never there"
        );
    }

    #[test]
    fn two_know_together_what_either_knows_and_name_the_one_that_knows_more() {
        let known = |floor, by: &str| KnownFloor {
            floor,
            by: by.into(),
        };
        let both = known(floor(3, 40), "floor").combine(known(floor(4, 39), "marker"));
        assert_eq!((both.floor, &*both.by), (floor(4, 40), "floor"));
        let both = known(StoreFloor::default(), "floor").combine(known(floor(1, 0), "marker"));
        assert_eq!((both.floor.epoch, &*both.by), (Epoch(1), "marker"));
    }
}
