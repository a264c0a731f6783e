//! Requests of many jobs, which are accepted as a whole although they take several units: the first
//! unit opens the batch, the last one closes it. A batch found open was never acknowledged, and
//! none of its jobs counts.

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;
use serde::{Deserialize, Serialize};

use super::RecordError;
use super::common_texts::RequestCommonTexts;
use super::frame::{self, PartialRecord, damaged_record_error};
use super::job::{SpecTextCache, add_submission};
use super::keys;
use crate::port::{JournalUnit, MAX_CHANGES, StoreError, StoredValue};

#[derive(Serialize, Deserialize)]
struct BatchMarker {
    jobs: u64,
}

/// Jobs with ids in a row whose batch was never closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnclosedBatch {
    /// The first of them.
    pub first: JobId,
    /// Number of jobs that there were to be.
    pub jobs: u64,
}

impl UnclosedBatch {
    /// Returns true if a job is one of them.
    pub fn contains(&self, job: JobId) -> bool {
        job.0 >= self.first.0 && job.0 - self.first.0 < self.jobs
    }
}

/// Makes the units that store jobs that were accepted together. Their ids must be consecutive.
///
/// # Errors
/// Fails if one of them is too large.
pub fn submission_units<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    texts: &mut SpecTextCache,
) -> Result<Vec<JournalUnit>, RecordError> {
    let jobs: Vec<&Job> = jobs.collect();
    let commons = RequestCommonTexts::from_jobs(&jobs);
    let mut changes = Vec::new();
    commons.write_texts(&mut changes)?;
    jobs.iter()
        .try_for_each(|job| add_submission(&mut changes, job, texts, &commons))?;
    let first = jobs.first().map(|job| job.id);
    let Some(first) = first.filter(|_| changes.len() > MAX_CHANGES) else {
        return Ok(vec![JournalUnit { changes }]);
    };
    let marker = keys::batch_key(first);
    let mut all = Vec::with_capacity(changes.len() + 2);
    frame::write_record(
        &mut all,
        &marker,
        &BatchMarker {
            jobs: jobs.len() as u64,
        },
        0,
        None,
    )?;
    all.extend(changes);
    all.extend(frame::removal_changes(&marker, 1, None));
    // The batch is opened and closed in different units: there are more changes than fit into one.
    Ok(all
        .chunks(MAX_CHANGES)
        .map(|part| JournalUnit {
            changes: part.to_vec(),
        })
        .collect())
}

/// Reads the marker of an open batch.
pub(super) fn read_batch(stored: &StoredValue) -> Result<UnclosedBatch, StoreError> {
    let what = format!("{:?}", stored.key);
    let first = keys::split_chunk(&stored.key).and_then(|(base, _)| keys::parse_batch_first(base));
    let first = first.ok_or_else(|| damaged_record_error(&what, "it names no job".into()))?;
    let mut parts = PartialRecord::default();
    parts.take_value(&stored.key, 0, &stored.value)?;
    let open: BatchMarker = parts.read_record(&what)?;
    Ok(UnclosedBatch {
        first,
        jobs: open.jobs,
    })
}
