//! Builds the control plane's state from the values of a store at its opening.

mod workers;

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::units::Bytes;

use super::batch::{self, UnclosedBatch};
use super::common_texts::{self, LoadedCommonTexts};
use super::frame::damaged_record_error;
use super::job::{LoadedJobParts, submission_changes};
use super::{keys, small_records, v1};
use crate::port::{StoreError, StoreKey, StoredValue};
use workers::{DecodeWorkerPool, DecodedJobs, JobDecoder, JobMemoryBudget, JobValues};

/// Everything that is live in a store.
#[derive(Debug, Default)]
pub struct LoadedRecords {
    /// Jobs, by id.
    pub jobs: Vec<Job>,
    /// Copies, by digest and site.
    pub copies: Vec<CopyRecord>,
    /// Sites, by name.
    pub sites: Vec<SiteRecord>,
    /// Logical files, by name.
    pub files: Vec<FileRecord>,
    /// The first job id that was never given out, if any was.
    pub next_job: Option<JobId>,
    /// Number of values of archived jobs; they are read one at a time.
    pub archived_values: u64,
    /// Keys of jobs that are in the archive, or were never accepted; to be deleted.
    pub remains: Vec<StoreKey>,
    /// Requests that were not completely written.
    pub batches: Vec<UnclosedBatch>,
}

/// Builds the state from values, shown in the order of their keys.
#[derive(Default)]
pub struct RecordLoader {
    loaded: LoadedRecords,
    current: Option<JobValues>,
    decoder: JobDecoder,
    decoded: DecodedJobs,
    workers: Option<DecodeWorkerPool>,
    room: Arc<JobMemoryBudget>,
    /// Shared texts of jobs that are already here.
    texts: LoadedCommonTexts,
    /// Requests whose texts these jobs need.
    wanted: BTreeSet<JobId>,
}

impl RecordLoader {
    /// Makes a loader that decodes jobs on `count` threads besides the reading one: damage of a job
    /// is then reported at the end. If jobs would take more than `most` of memory, as estimated, it
    /// keeps no more of them, and ends with an error.
    pub fn with_threads(count: usize, most: Bytes) -> Self {
        let room = Arc::new(JobMemoryBudget::new(most));
        Self {
            workers: Some(DecodeWorkerPool::start(count, &room)),
            room,
            ..Self::default()
        }
    }

    /// Takes the next value.
    ///
    /// # Errors
    /// Fails if it is damaged, of a newer version, or not one of ours.
    pub fn take_stored_value(&mut self, stored: StoredValue) -> Result<(), StoreError> {
        let key = &*stored.key.0;
        if key.starts_with(keys::JOBS) {
            return self.take_job(stored);
        }
        let loaded = &mut self.loaded;
        if key.starts_with(keys::ARCHIVE) {
            loaded.archived_values += 1;
        } else if key.starts_with(keys::COPIES) {
            loaded
                .copies
                .push(small_records::read_object::<_, v1::copy::CopyRecord>(
                    &stored,
                )?);
        } else if key.starts_with(keys::SITES) {
            loaded
                .sites
                .push(small_records::read_object::<_, v1::site::SiteRecord>(
                    &stored,
                )?);
        } else if key.starts_with(keys::FILES) {
            loaded
                .files
                .push(small_records::read_object::<_, v1::catalogue::FileRecord>(
                    &stored,
                )?);
        } else if key.starts_with(keys::BATCHES) {
            loaded.batches.push(batch::read_batch(&stored)?);
            loaded.remains.push(stored.key);
        } else if key == keys::NEXT_JOB.as_bytes() {
            loaded.next_job = Some(small_records::read_next_job(&stored)?);
        } else if key.starts_with(keys::TEXTS) {
            return self.take_text(stored);
        } else {
            return Err(unknown_key_error(&stored.key));
        }
        Ok(())
    }

    fn take_job(&mut self, stored: StoredValue) -> Result<(), StoreError> {
        let parsed = keys::split_chunk(&stored.key)
            .and_then(|(base, chunk)| Some((keys::parse_job_part(base)?, chunk)));
        let Some(((id, part), chunk)) = parsed else {
            return Err(unknown_key_error(&stored.key));
        };
        if self.current.as_ref().is_none_or(|current| current.id != id) {
            self.finish_job()?;
        }
        let current = self.current.get_or_insert_with(|| JobValues {
            id,
            assembly: LoadedJobParts::default(),
            keys: Vec::new(),
        });
        current.assembly.take_value(part, chunk, &stored)?;
        current.keys.push(stored.key);
        Ok(())
    }

    /// Takes a text. Texts come behind all jobs; most are of jobs in the archive.
    fn take_text(&mut self, stored: StoredValue) -> Result<(), StoreError> {
        self.decode_rest()?;
        let Some(((first, _), _)) = common_texts::parse_common_text_key(&stored.key) else {
            return Err(unknown_key_error(&stored.key));
        };
        if self.wanted.contains(&first) {
            self.texts.take_value(&stored)?;
        }
        if self.loaded.batches.iter().any(|batch| batch.first == first) {
            self.loaded.remains.push(stored.key);
        }
        Ok(())
    }

    /// Decodes all jobs that need no texts.
    fn decode_rest(&mut self) -> Result<(), StoreError> {
        self.finish_job()?;
        if let Some(workers) = self.workers.take() {
            self.decoded = workers.join_workers()?;
            self.decoder = JobDecoder::with_room(self.room.clone());
        }
        let waiting = self.decoded.waiting.iter().map(|(first, _)| *first);
        self.wanted.extend(waiting);
        Ok(())
    }

    fn finish_job(&mut self) -> Result<(), StoreError> {
        let Some(part) = self.current.take() else {
            return Ok(());
        };
        match &mut self.workers {
            Some(workers) => workers.take_job(part),
            None => self.decoder.take_job(part, &mut self.decoded)?,
        }
        Ok(())
    }

    /// Returns the state, once all values were taken.
    ///
    /// # Errors
    /// Fails if a job is damaged, or the jobs need too much memory.
    pub fn finish(mut self) -> Result<LoadedRecords, StoreError> {
        self.decode_rest()?;
        for (_, part) in std::mem::take(&mut self.decoded.waiting) {
            self.decoder
                .complete_job(part, &mut self.texts, &mut self.decoded)?;
        }
        self.room.check_room()?;
        self.loaded.jobs = self.decoded.jobs;
        if !self.wanted.is_empty() {
            self.loaded.jobs.sort_by_key(|job| job.id);
        }
        self.loaded.remains.extend(self.decoded.remains);
        let LoadedRecords {
            jobs,
            remains,
            batches,
            ..
        } = &mut self.loaded;
        // Never acknowledged and never placed: they have no other keys of their own.
        for job in jobs.iter() {
            if batches.iter().any(|batch| batch.contains(job.id)) {
                remains.extend(
                    submission_changes(job)
                        .into_iter()
                        .flatten()
                        .map(|change| change.key),
                );
            }
        }
        jobs.retain(|job| !batches.iter().any(|batch| batch.contains(job.id)));
        Ok(self.loaded)
    }
}

fn unknown_key_error(key: &StoreKey) -> StoreError {
    damaged_record_error(
        &format!("{key:?}"),
        "no program of this version writes such a key".into(),
    )
}
