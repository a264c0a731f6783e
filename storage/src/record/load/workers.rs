//! Threads that decode jobs while the store is still being read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;
use cospan_domain::units::Bytes;

use super::super::common_texts::LoadedCommonTexts;
use super::super::frame::damaged_record_error;
use super::super::job::LoadedJobParts;
use super::super::spec_text::LastReadSpec;
use crate::port::{StoreError, StoreKey};

/// Jobs that are handed over together.
const BATCH: usize = 256;
/// Batches that may wait for a thread; beyond that the reader waits.
const WAITING: usize = 8;

/// The values of one job, and their keys.
pub(super) struct JobValues {
    pub(super) id: JobId,
    pub(super) assembly: LoadedJobParts,
    pub(super) keys: Vec<StoreKey>,
}

/// The result of decoding: jobs, and the remains of others.
#[derive(Default)]
pub(super) struct DecodedJobs {
    pub(super) jobs: Vec<Job>,
    pub(super) remains: Vec<StoreKey>,
    /// Jobs whose specifications were cut, with the request of their texts.
    pub(super) waiting: Vec<(JobId, JobValues)>,
}

/// The memory that jobs take, and may take together.
#[derive(Debug)]
pub(super) struct JobMemoryBudget {
    most: Bytes,
    bytes: AtomicU64,
    jobs: AtomicU64,
}

impl JobMemoryBudget {
    pub(super) fn new(most: Bytes) -> Self {
        Self {
            most,
            bytes: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
        }
    }

    /// Counts a job. Returns true if there is room for it and all before.
    fn admits(&self, job: &Job) -> bool {
        let Bytes(own) = job.spec.memory_footprint();
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.bytes
            .fetch_add(own, Ordering::Relaxed)
            .saturating_add(own)
            <= self.most.0
    }

    /// Fails if some jobs were left out for lack of room.
    pub(super) fn check_room(&self) -> Result<(), StoreError> {
        let most = self.most;
        let needed = Bytes(self.bytes.load(Ordering::Relaxed));
        if needed <= most {
            return Ok(());
        }
        Err(StoreError::TooLarge {
            jobs: self.jobs.load(Ordering::Relaxed),
            needed,
            most,
        })
    }
}

impl Default for JobMemoryBudget {
    fn default() -> Self {
        Self::new(Bytes(u64::MAX))
    }
}

/// Decodes one job after the other. Jobs without room are counted and left out.
#[derive(Default)]
pub(super) struct JobDecoder {
    last: LastReadSpec,
    room: Arc<JobMemoryBudget>,
}

impl JobDecoder {
    pub(super) fn with_room(room: Arc<JobMemoryBudget>) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    pub(super) fn take_job(
        &mut self,
        part: JobValues,
        to: &mut DecodedJobs,
    ) -> Result<(), StoreError> {
        if let Some(first) = part.assembly.request_of_texts(part.id)? {
            to.waiting.push((first, part));
            return Ok(());
        }
        self.complete_job(part, &mut LoadedCommonTexts::default(), to)
    }

    /// Decodes a job whose texts are there.
    pub(super) fn complete_job(
        &mut self,
        part: JobValues,
        texts: &mut LoadedCommonTexts,
        to: &mut DecodedJobs,
    ) -> Result<(), StoreError> {
        match part.assembly.build_job(part.id, &mut self.last, texts)? {
            Some(job) if self.room.admits(&job) => to.jobs.push(job),
            Some(_) => {}
            None => to.remains.extend(part.keys),
        }
        Ok(())
    }
}

type DecodeOutcome = Result<Vec<DecodedJobs>, StoreError>;

struct DecodeWorker {
    batches: SyncSender<Vec<JobValues>>,
    thread: JoinHandle<DecodeOutcome>,
}

/// Threads that take batches in turn.
pub(super) struct DecodeWorkerPool {
    lanes: Vec<DecodeWorker>,
    batch: Vec<JobValues>,
    sent: usize,
}

impl DecodeWorkerPool {
    /// Starts them.
    pub(super) fn start(count: usize, room: &Arc<JobMemoryBudget>) -> Self {
        Self {
            lanes: (0..count.max(1))
                .map(|_| {
                    let (batches, received) = sync_channel(WAITING);
                    let decoder = JobDecoder::with_room(room.clone());
                    DecodeWorker {
                        batches,
                        thread: std::thread::spawn(move || serve_batches(&received, decoder)),
                    }
                })
                .collect(),
            batch: Vec::new(),
            sent: 0,
        }
    }

    pub(super) fn take_job(&mut self, part: JobValues) {
        self.batch.push(part);
        if self.batch.len() == BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let lane = &self.lanes[self.sent % self.lanes.len()];
        self.sent += 1;
        // A thread that is gone gives its reason when it is joined.
        let _ = lane.batches.send(batch);
    }

    /// Returns everything decoded, in the order in which it was taken.
    pub(super) fn join_workers(mut self) -> Result<DecodedJobs, StoreError> {
        self.send();
        let mut lanes = Vec::with_capacity(self.lanes.len());
        for DecodeWorker { batches, thread } in self.lanes {
            drop(batches);
            lanes.push(
                thread
                    .join()
                    .unwrap_or_else(|_| {
                        Err(damaged_record_error(
                            "a job",
                            "its decoding panicked".into(),
                        ))
                    })?
                    .into_iter(),
            );
        }
        let mut all = DecodedJobs::default();
        let count = lanes.len();
        for turn in 0..self.sent {
            let decoded = lanes[turn % count].next().unwrap_or_default();
            all.jobs.extend(decoded.jobs);
            all.remains.extend(decoded.remains);
            all.waiting.extend(decoded.waiting);
        }
        Ok(all)
    }
}

fn serve_batches(batches: &Receiver<Vec<JobValues>>, mut decoder: JobDecoder) -> DecodeOutcome {
    let mut all = Vec::new();
    for batch in batches {
        let mut decoded = DecodedJobs::default();
        batch
            .into_iter()
            .try_for_each(|part| decoder.take_job(part, &mut decoded))?;
        all.push(decoded);
    }
    Ok(all)
}
