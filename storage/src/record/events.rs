//! Events of a job, unit by unit: records of their own, in a ring.

use cospan_domain::ids::JobId;
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::Job;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::RecordError;
use super::frame::{self, PartialRecord, damaged_record_error};
use super::job::{list_from_wire, list_to_wire, read_cut_spec, visit_values};
use super::keys;
use super::spec_text::CutSpec;
use super::v1;
use crate::port::{Journal, KeyChange, StoreError};

/// Most values for the events of one unit.
pub(super) const MAX_VALUES: usize = 4;

/// The events of one unit.
#[derive(Serialize, Deserialize)]
struct UnitEvents<E = v1::event::JobEvent> {
    revision: u64,
    events: Vec<E>,
}

/// A job's last events as they were written, oldest first, and its specification, if some of its
/// texts are stored elsewhere.
#[derive(Debug, Clone, Default)]
pub struct EventTexts {
    /// The events as a JSON list, without its brackets.
    events: String,
    cut: Option<CutSpec>,
}

impl EventTexts {
    /// Returns the list of all events.
    pub(super) fn events_json(&self) -> String {
        ["[", &self.events, "]"].concat()
    }

    /// Returns the specification in the form that the archive can keep, too.
    pub(super) fn cut_spec(&self) -> Option<&CutSpec> {
        self.cut.as_ref()
    }
}

/// Adds the events of one unit. The previous events in this slot may have had more values: those
/// stay, and are ignored.
pub(super) fn write_events(
    to: &mut Vec<KeyChange>,
    new: &Job,
    events: &[JobEvent],
) -> Result<(), RecordError> {
    let begin = to.len();
    let base = keys::events_key(new.id, new.revision);
    let mut record = UnitEvents {
        revision: new.revision,
        events: list_to_wire(events),
    };
    frame::write_record(to, &base, &record, 0, None)?;
    if to.len() - begin > MAX_VALUES {
        record
            .events
            .iter_mut()
            .for_each(v1::event::JobEvent::drop_input_sources);
        to.truncate(begin);
        frame::write_record(to, &base, &record, 0, None)?;
    }
    Ok(())
}

/// Reads a job's last events, oldest first, with the revision that each unit led to.
///
/// # Errors
/// Fails if the store cannot be read, or its content is not an event.
pub fn read_history(
    journal: &dyn Journal,
    id: JobId,
) -> Result<Vec<(u64, Vec<JobEvent>)>, StoreError> {
    let mut history = Vec::new();
    for (base, parts) in event_records(journal, id)? {
        let record: UnitEvents = parts.read_record(&base)?;
        let events = list_from_wire(record.events)
            .map_err(|problem| damaged_record_error(&base, problem))?;
        history.push((record.revision, events));
    }
    history.sort_by_key(|(revision, _)| *revision);
    Ok(history)
}

/// Reads the same without parsing the events, for the archive.
///
/// # Errors
/// Fails if the store cannot be read, or its content is not a list of events.
pub fn read_history_texts(journal: &dyn Journal, job: &Job) -> Result<EventTexts, StoreError> {
    let mut records: Vec<(u64, String)> = Vec::new();
    for (base, parts) in event_records(journal, job.id)? {
        let record = match split_record(parts.text()) {
            Some((revision, events)) => (revision, events.to_owned()),
            None => {
                let record: UnitEvents<Box<RawValue>> = parts.read_record(&base)?;
                let texts: Vec<&str> = record.events.iter().map(|event| event.get()).collect();
                (record.revision, texts.join(","))
            }
        };
        records.push(record);
    }
    records.sort_by_key(|(revision, _)| *revision);
    let events = join_lists(records.iter().map(|(_, events)| &**events));
    Ok(EventTexts {
        events,
        cut: read_cut_spec(journal, job)?,
    })
}

/// Joins lists without brackets, leaving out empty ones.
fn join_lists<'a>(lists: impl Iterator<Item = &'a str>) -> String {
    lists
        .filter(|list| !list.is_empty())
        .collect::<Vec<_>>()
        .join(",")
}

/// Returns the revision and the events, without their brackets, of a record as written by
/// [`write_events`]: parsing it as JSON is most of the work of archiving.
fn split_record(record: &[u8]) -> Option<(u64, &str)> {
    let record = str::from_utf8(record)
        .ok()?
        .strip_prefix("{\"revision\":")?;
    let (revision, events) = record.split_once(",\"events\":[")?;
    Some((revision.parse().ok()?, events.strip_suffix("]}")?))
}

/// Returns the stored events of all units of a job, unread.
fn event_records(
    journal: &dyn Journal,
    id: JobId,
) -> Result<Vec<(String, PartialRecord)>, StoreError> {
    let mut records: Vec<(String, PartialRecord)> = Vec::new();
    visit_values(
        journal,
        &keys::history_prefix(id),
        &mut |stored, base, chunk| {
            // In order: the values of one record follow each other.
            if records.last().is_none_or(|(last, _)| last != base) {
                records.push((base.into(), PartialRecord::default()));
            }
            let Some((_, parts)) = records.last_mut() else {
                return Ok(());
            };
            parts.take_value(&stored.key, chunk, &stored.value)
        },
    )?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::json;

    #[test]
    fn events_are_cut_out_of_their_record_as_reading_it_would() {
        let lists: [&[&str]; 4] = [
            &[],
            &["{}"],
            &["\"]}\"", "[[1]]"],
            &["1", ",\"events\":[", "2"],
        ];
        for events in lists {
            let record = UnitEvents {
                revision: 47,
                events: events.to_vec(),
            };
            let mut text = Vec::new();
            json::append_json(&mut text, &record).unwrap();
            let read: UnitEvents<Box<RawValue>> = serde_json::from_slice(&text).unwrap();
            let read: Vec<&str> = read.events.iter().map(|event| event.get()).collect();
            assert_eq!(split_record(&text), Some((47, &*read.join(","))));
        }
    }

    #[test]
    fn an_empty_list_leaves_no_comma() {
        assert_eq!(join_lists(["", "1,2", "", "3", ""].into_iter()), "1,2,3");
    }

    #[test]
    fn a_record_that_was_written_in_another_way_is_not_cut() {
        for text in [
            "{\"revision\": 1,\"events\":[]}",
            "{\"events\":[],\"revision\":1}",
            "{\"revision\":1,\"events\":[]",
            "",
        ] {
            assert_eq!(split_record(text.as_bytes()), None, "{text}");
        }
    }
}
