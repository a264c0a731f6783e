//! Jobs as records.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::{Component, Job};
use cospan_domain::job::spec::JobSpec;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::RecordError;
use super::common_texts::{LoadedCommonTexts, RequestCommonTexts};
use super::events::{self, EventTexts};
use super::frame::{self, PartialRecord, damaged_record_error};
use super::json::WrittenJson;
use super::keys::{self, BLOCK, HISTORY, JobRecordPart};
pub use super::spec_text::SpecTextCache;
use super::spec_text::{CutSpec, LastReadSpec, parse_spec, spec_to_text};
use super::v1::job_head::StoredJobHead;
use super::v1::{self, RecordProblem, WireConversion};
use crate::port::{Journal, KeyChange, KeyVersion, MAX_CHANGES, StoreError, StoredValue};

/// Largest specification that is accepted, in bytes as written: what a job needs when it is placed,
/// and the event of that, must fit into one unit.
pub const MAX_SPEC_BYTES: usize = 2 << 20;

/// A job at its submission.
#[derive(Serialize, Deserialize)]
pub(super) struct SubmissionRecord {
    pub(super) spec: v1::spec::JobSpec,
    pub(super) head: StoredJobHead,
    /// The first job of the request that has the texts of the specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    common: Option<u64>,
}

/// A birth whose specification stays text when read: equal ones are parsed once.
#[derive(Deserialize)]
struct SubmissionRecordText<'a> {
    #[serde(borrow)]
    spec: &'a RawValue,
    head: StoredJobHead,
    #[serde(default)]
    common: Option<u64>,
}

/// A birth whose specification is already text when written: equal ones are written once.
#[derive(Serialize)]
struct WrittenSubmissionRecord<'a> {
    spec: WrittenJson<'a>,
    head: StoredJobHead,
    #[serde(skip_serializing_if = "Option::is_none")]
    common: Option<u64>,
}

/// Reads the specification of a live job as it was written, if some of its texts are stored
/// elsewhere.
pub(super) fn read_cut_spec(
    journal: &dyn Journal,
    job: &Job,
) -> Result<Option<CutSpec>, StoreError> {
    if job.spec.long_texts().next().is_none() {
        return Ok(None);
    }
    let what = keys::spec_key(job.id);
    let mut parts = PartialRecord::default();
    visit_values(journal, &what, &mut |stored, _, chunk| {
        parts.take_value(&stored.key, chunk, &stored.value)
    })?;
    let birth: SubmissionRecordText = parts.read_record(&what)?;
    Ok(birth.common.map(|common| CutSpec {
        text: birth.spec.get().to_owned(),
        common,
    }))
}

#[derive(Serialize, Deserialize)]
pub(super) struct ComponentBlock {
    pub(super) components: Vec<v1::component::Component>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ArchivedRecord {
    #[serde(flatten)]
    birth: SubmissionRecord,
    pub(super) components: Vec<v1::component::Component>,
    events: Vec<v1::event::JobEvent>,
}

/// An archived job whose events are, or stay, text: they are kept as they were written.
#[derive(Serialize)]
struct WrittenArchivedRecord<'a> {
    spec: WrittenJson<'a>,
    head: &'a StoredJobHead,
    #[serde(skip_serializing_if = "Option::is_none")]
    common: Option<u64>,
    components: Vec<v1::component::Component>,
    events: WrittenJson<'a>,
}

/// A job that left the live state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedJob {
    /// The job as it ended.
    pub job: Job,
    /// The last events of the job.
    pub events: Vec<JobEvent>,
}

/// Returns the changes that store an accepted job. Its revision must be 1.
///
/// # Errors
/// Fails if it is larger than [`MAX_SPEC_BYTES`].
pub fn submission_changes(job: &Job) -> Result<Vec<KeyChange>, RecordError> {
    let mut changes = Vec::new();
    add_submission(
        &mut changes,
        job,
        &mut SpecTextCache::default(),
        &RequestCommonTexts::default(),
    )?;
    Ok(changes)
}

fn unwritable_error(job: &Job) -> impl Fn(serde_json::Error) -> RecordError {
    let id = job.id;
    move |error| RecordError::Unwritable {
        what: format!("job {id}"),
        problem: error.to_string(),
    }
}

/// Adds the changes of one of many jobs, without the texts that it shares with them.
pub(super) fn add_submission(
    changes: &mut Vec<KeyChange>,
    job: &Job,
    texts: &mut SpecTextCache,
    commons: &RequestCommonTexts,
) -> Result<(), RecordError> {
    let (cut, elsewhere) = match commons.cut_spec(&job.spec) {
        None => (None, 0),
        Some((wire, JobId(common), bytes)) => {
            let text = spec_to_text(&wire).map_err(unwritable_error(job))?;
            (Some(CutSpec { text, common }), bytes)
        }
    };
    let birth = WrittenSubmissionRecord {
        spec: match &cut {
            Some(cut) => WrittenJson(&cut.text),
            None => texts
                .write_or_reuse(&job.spec)
                .map_err(unwritable_error(job))?,
        },
        head: StoredJobHead::from_job(job),
        common: cut.as_ref().map(|cut| cut.common),
    };
    let begin = changes.len();
    frame::write_record(
        changes,
        &keys::spec_key(job.id),
        &birth,
        0,
        Some(KeyVersion(0)),
    )?;
    let values = changes[begin..]
        .iter()
        .filter_map(|change| change.value.as_ref());
    let bytes: usize = elsewhere + values.map(|value| value.len()).sum::<usize>();
    if bytes > MAX_SPEC_BYTES {
        let problem = format!(
            "it takes {bytes} bytes as written, at most {MAX_SPEC_BYTES} are kept; cut the job up, or put long lists into a file"
        );
        return Err(RecordError::Unwritable {
            what: format!("job {}", job.id),
            problem,
        });
    }
    Ok(())
}

/// Returns the changes from one revision of a job to the next: its head, the blocks of components
/// that differ, and the events between. Guarded by the head's version, which is the number of units
/// since the submission.
///
/// # Errors
/// Fails if they are more than fit into one unit.
pub fn update_changes(
    old: &Job,
    new: &Job,
    events: &[JobEvent],
) -> Result<Vec<KeyChange>, RecordError> {
    let expected = Some(head_version(old));
    // Most often the head, one block and the events.
    let mut changes = Vec::with_capacity(3);
    frame::write_record(
        &mut changes,
        &keys::head_key(new.id),
        &StoredJobHead::from_job(new),
        1,
        expected,
    )?;
    let blocks = old
        .components
        .len()
        .max(new.components.len())
        .div_ceil(BLOCK);
    for index in 0..blocks {
        let before = block_of(&old.components, index);
        let after = block_of(&new.components, index);
        if before != after {
            write_block(&mut changes, &keys::block_key(new.id, index), before, after)?;
        }
    }
    if !events.is_empty() {
        events::write_events(&mut changes, new, events)?;
    }
    check_unit_size(|| format!("a change of job {}", new.id), changes)
}

/// Returns the version of the head of a job in this revision; 0 while it is as submitted.
pub fn head_version(job: &Job) -> KeyVersion {
    KeyVersion(job.revision.saturating_sub(1))
}

fn block_of(components: &[Component], index: usize) -> &[Component] {
    let from = (index * BLOCK).min(components.len());
    let to = (from + BLOCK).min(components.len());
    &components[from..to]
}

fn is_default_block(block: &[Component]) -> bool {
    block
        .iter()
        .all(|component| *component == Component::default())
}

fn write_block(
    to: &mut Vec<KeyChange>,
    base: &str,
    before: &[Component],
    after: &[Component],
) -> Result<(), RecordError> {
    let count = if is_default_block(before) {
        0
    } else {
        count_values(base, before)?
    };
    if is_default_block(after) {
        to.extend(frame::removal_changes(base, count, None));
        return Ok(());
    }
    frame::write_record(
        to,
        base,
        &ComponentBlock {
            components: list_to_wire(after),
        },
        count,
        None,
    )
}

/// Returns the number of values of a block. The block is only written out to count them if it may
/// need several.
fn count_values(base: &str, block: &[Component]) -> Result<usize, RecordError> {
    const BRACKETS: usize = 32;
    let most_bytes: usize = block.iter().map(v1::component::max_written_bytes).sum();
    if frame::fits_one_value(BRACKETS + most_bytes) {
        return Ok(1);
    }
    Ok(frame::record_to_values(
        base,
        &ComponentBlock {
            components: list_to_wire(block),
        },
    )?
    .len())
}

pub(super) fn list_to_wire<T: WireConversion<W>, W>(values: &[T]) -> Vec<W> {
    values.iter().map(T::to_wire).collect()
}

pub(super) fn list_from_wire<T: WireConversion<W>, W>(
    values: Vec<W>,
) -> Result<Vec<T>, RecordProblem> {
    values.into_iter().map(T::from_wire).collect()
}

fn check_unit_size(
    what: impl FnOnce() -> String,
    changes: Vec<KeyChange>,
) -> Result<Vec<KeyChange>, RecordError> {
    if changes.len() > MAX_CHANGES {
        let what = what();
        let changes = changes.len();
        return Err(RecordError::TooLarge {
            what,
            changes,
            max: MAX_CHANGES,
        });
    }
    Ok(changes)
}

/// Returns the units that move a job from the live state to the archive. The first is guarded and
/// does the essential part, and removes as much as it can of what nobody reads any more; the others
/// remove the rest. If they are lost, loading finds the rest again.
///
/// # Errors
/// Fails if the first unit is too large.
pub fn archive_units(job: &Job, events: &EventTexts) -> Result<Vec<Vec<KeyChange>>, RecordError> {
    let (whole, common) = match events.cut_spec() {
        Some(cut) => (None, Some(cut.common)),
        None => (
            Some(spec_to_text(&(*job.spec).to_wire()).map_err(unwritable_error(job))?),
            None,
        ),
    };
    let cut = events.cut_spec().map(|cut| cut.text.as_str());
    let spec = whole.as_deref().or(cut).unwrap_or_default();
    let birth = WrittenSubmissionRecord {
        spec: WrittenJson(spec),
        head: StoredJobHead::from_job(job),
        common,
    };
    let mut components: Vec<v1::component::Component> = list_to_wire(&job.components);
    components
        .iter_mut()
        .for_each(v1::component::Component::drop_input_sources);
    let events = events.events_json();
    let head = &birth.head;
    let events = WrittenJson(&events);
    let archived = WrittenArchivedRecord {
        spec: WrittenJson(spec),
        head,
        common,
        components,
        events,
    };
    let mut first = Vec::with_capacity(4);
    frame::write_record(&mut first, &keys::archived_key(job.id), &archived, 0, None)?;
    let born = match first.len() {
        // The record fits into one value.
        1 => 1,
        _ => frame::record_to_values(&keys::spec_key(job.id), &birth)?.len(),
    };
    let version = head_version(job);
    first.push(KeyChange {
        key: keys::chunk_key(&keys::head_key(job.id), 0),
        expected: Some(version),
        value: None,
    });
    // The head at the submission may have been shorter or longer by a value.
    let spec = Some(KeyVersion(1));
    first.extend(frame::removal_changes(
        &keys::spec_key(job.id),
        born + 1,
        spec,
    ));
    let mut first = check_unit_size(|| format!("the archive of job {}", job.id), first)?;
    let mut rest = rest_deletions(job);
    let later = rest.split_off(rest.len().min(MAX_CHANGES - first.len()));
    first.append(&mut rest);
    let later = later.chunks(MAX_CHANGES).map(<[KeyChange]>::to_vec);
    Ok(std::iter::once(first).chain(later).collect())
}

/// Deletes blocks and events, whether they are there or not.
fn rest_deletions(job: &Job) -> Vec<KeyChange> {
    let blocks = (0..job.components.len().div_ceil(BLOCK)).flat_map(|index| {
        let base = keys::block_key(job.id, index);
        let count = count_values(&base, block_of(&job.components, index)).unwrap_or(1);
        frame::removal_changes(&base, count, None)
    });
    let values = if job.components.len() > BLOCK {
        events::MAX_VALUES
    } else {
        1
    };
    let slots = HISTORY.min(job.revision);
    let events = (0..slots).flat_map(|back| {
        frame::removal_changes(&keys::events_key(job.id, job.revision - back), values, None)
    });
    blocks.chain(events).collect()
}

/// Reads one live job; `None` if it is not there.
///
/// # Errors
/// Fails if the store cannot be read, or its content is not a job.
pub fn read_job(journal: &dyn Journal, id: JobId) -> Result<Option<Job>, StoreError> {
    let mut assembly = None::<LoadedJobParts>;
    visit_values(
        journal,
        &keys::job_prefix(id),
        &mut |stored, base, chunk| match keys::parse_job_part(base) {
            Some((_, part)) => assembly
                .get_or_insert_default()
                .take_value(part, chunk, stored),
            None => Err(damaged_record_error(base, "it is no part of a job".into())),
        },
    )?;
    let Some(assembly) = assembly else {
        return Ok(None);
    };
    let mut texts = assembly.read_common_texts(journal, id)?;
    assembly.build_job(id, &mut LastReadSpec::default(), &mut texts)
}

/// Reads one job from the archive; `None` if it is not there.
///
/// # Errors
/// Fails if the store cannot be read, or its content is not a job.
pub fn read_archived(journal: &dyn Journal, id: JobId) -> Result<Option<ArchivedJob>, StoreError> {
    let what = keys::archived_key(id);
    let mut parts = PartialRecord::default();
    let mut found = false;
    visit_values(journal, &what, &mut |stored, _, chunk| {
        found = true;
        parts.take_value(&stored.key, chunk, &stored.value)
    })?;
    if !found {
        return Ok(None);
    }
    let mut record: ArchivedRecord = parts.read_record(&what)?;
    if let Some(first) = record.birth.common.map(JobId) {
        let spec = &mut record.birth.spec;
        LoadedCommonTexts::read_named_texts(spec, journal, first)?.fill_spec(spec, first)?;
    }
    rebuild_archived(id, record)
        .map(Some)
        .map_err(|problem| damaged_record_error(&what, problem))
}

fn rebuild_archived(id: JobId, record: ArchivedRecord) -> Result<ArchivedJob, RecordProblem> {
    let components = list_from_wire(record.components)?;
    let spec = Arc::new(JobSpec::from_wire(record.birth.spec)?);
    let job = record.birth.head.into_job(id, spec, components)?;
    Ok(ArchivedJob {
        job,
        events: list_from_wire(record.events)?,
    })
}

/// Visits each value below a prefix, with its record's key and its number within the record.
pub(super) fn visit_values(
    journal: &dyn Journal,
    prefix: &str,
    take: &mut dyn FnMut(&StoredValue, &str, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut result = Ok(());
    journal.scan(prefix.as_bytes(), &mut |stored| {
        result = match keys::split_chunk(&stored.key) {
            Some((base, chunk)) => take(&stored, base, chunk),
            None => Err(damaged_record_error(
                &format!("{:?}", stored.key),
                "it is no key".into(),
            )),
        };
        if result.is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    result
}

/// The parts of one job that is being loaded.
#[derive(Default)]
pub(super) struct LoadedJobParts {
    spec: Option<PartialRecord>,
    head: Option<(PartialRecord, KeyVersion)>,
    blocks: BTreeMap<usize, PartialRecord>,
}

impl LoadedJobParts {
    /// Takes one of its values.
    pub(super) fn take_value(
        &mut self,
        part: JobRecordPart,
        chunk: usize,
        stored: &StoredValue,
    ) -> Result<(), StoreError> {
        let parts = match part {
            JobRecordPart::Spec => self.spec.get_or_insert_default(),
            JobRecordPart::Head => {
                &mut self
                    .head
                    .get_or_insert((PartialRecord::default(), stored.version))
                    .0
            }
            JobRecordPart::Block(index) => self.blocks.entry(index).or_default(),
            JobRecordPart::Events => return Ok(()),
        };
        parts.take_value(&stored.key, chunk, &stored.value)
    }

    /// Returns the first job of the request that has its texts, if its specification was cut.
    pub(super) fn request_of_texts(&self, id: JobId) -> Result<Option<JobId>, StoreError> {
        Ok(self
            .read_cut_birth(id)?
            .and_then(|birth| birth.common)
            .map(JobId))
    }

    fn read_cut_birth(&self, id: JobId) -> Result<Option<SubmissionRecordText<'_>>, StoreError> {
        let parts = self
            .spec
            .as_ref()
            .filter(|parts| may_be_cut_spec(parts.text()));
        parts
            .map(|parts| parts.read_record(&keys::spec_key(id)))
            .transpose()
    }

    /// Reads the texts that it shares with its request.
    fn read_common_texts(
        &self,
        journal: &dyn Journal,
        id: JobId,
    ) -> Result<LoadedCommonTexts, StoreError> {
        match self.read_cut_birth(id)? {
            Some(SubmissionRecordText {
                spec,
                common: Some(first),
                ..
            }) => LoadedCommonTexts::read_named_texts(
                &mut parse_spec(spec.get(), id)?,
                journal,
                JobId(first),
            ),
            _ => Ok(LoadedCommonTexts::default()),
        }
    }

    /// Builds the job; `None` if these are the remains of an archived one.
    pub(super) fn build_job(
        self,
        id: JobId,
        last: &mut LastReadSpec,
        texts: &mut LoadedCommonTexts,
    ) -> Result<Option<Job>, StoreError> {
        let Some(parts) = self.spec else {
            return Ok(None);
        };
        let birth: SubmissionRecordText = parts.read_record(&keys::spec_key(id))?;
        let (head, version) = match self.head {
            Some((parts, version)) => (parts.read_record(&keys::head_key(id))?, version),
            None => (birth.head, KeyVersion(0)),
        };
        let mut components = vec![Component::default(); head.components as usize];
        for (index, parts) in self.blocks {
            fill_block(&mut components, index, &parts, id)?;
        }
        let commons = birth.common.map(|first| (texts, JobId(first)));
        let spec = last.read_or_reuse(birth.spec, id, commons)?;
        let job = head
            .into_job(id, spec, components)
            .map_err(|problem| damaged_record_error(&keys::job_prefix(id), problem))?;
        if head_version(&job) != version {
            let problem = format!("revision {} has version {}", job.revision, version.0);
            return Err(damaged_record_error(&keys::head_key(id), problem));
        }
        Ok(Some(job))
    }
}

/// Returns true if a record may be that of a cut specification: then it ends with the request of
/// its texts.
fn may_be_cut_spec(birth: &[u8]) -> bool {
    const END: &[u8] = b",\"common\":";
    let end = &birth[birth.len().saturating_sub(END.len() + 24)..];
    end.windows(END.len()).any(|part| part == END)
}

fn fill_block(
    components: &mut [Component],
    index: usize,
    parts: &PartialRecord,
    id: JobId,
) -> Result<(), StoreError> {
    let what = keys::block_key(id, index);
    let record: ComponentBlock = parts.read_record(&what)?;
    let from = (index * BLOCK).min(components.len());
    let to = (from + BLOCK).min(components.len());
    if record.components.len() != to - from {
        return Err(damaged_record_error(
            &what,
            "it has another number of components".into(),
        ));
    }
    for (place, component) in components[from..to].iter_mut().zip(record.components) {
        *place = Component::from_wire(component)
            .map_err(|problem| damaged_record_error(&what, problem))?;
    }
    Ok(())
}
