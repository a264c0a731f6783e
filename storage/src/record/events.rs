//! What happened to a job, unit by unit: records of their own, in a ring.

use cospan_domain::ids::JobId;
use cospan_domain::job::event::JobEvent;
use cospan_domain::job::state::Job;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::RecordError;
use super::frame::{self, FrameParts, damaged_record};
use super::job::{cut_spec, each, from_wire, to_wire};
use super::keys;
use super::spec_text::CutSpec;
use super::v1;
use crate::port::{Journal, KeyChange, StoreError};

/// Most values that the events of one unit take.
pub(super) const MAX_VALUES: usize = 4;

/// What happened in one unit.
#[derive(Serialize, Deserialize)]
struct Events<E = v1::event::JobEvent> {
    revision: u64,
    events: Vec<E>,
}

/// A job's last events as they were written, oldest first, and its specification, if that was
/// written without texts that stand elsewhere.
#[derive(Debug, Clone, Default)]
pub struct EventTexts {
    /// What stands between the brackets of their list.
    events: String,
    cut: Option<CutSpec>,
}

impl EventTexts {
    /// The list of all of them.
    pub(super) fn list(&self) -> String {
        ["[", &self.events, "]"].concat()
    }

    /// The specification as the archive can keep it, too.
    pub(super) fn cut_spec(&self) -> Option<&CutSpec> {
        self.cut.as_ref()
    }
}

/// The events of one unit. What stood in their slot before may have had more
/// values: those stay, and are passed over.
pub(super) fn write(
    to: &mut Vec<KeyChange>,
    new: &Job,
    events: &[JobEvent],
) -> Result<(), RecordError> {
    let begin = to.len();
    let base = keys::events(new.id, new.revision);
    let mut record = Events {
        revision: new.revision,
        events: to_wire(events),
    };
    frame::write(to, &base, &record, 0, None)?;
    if to.len() - begin > MAX_VALUES {
        record
            .events
            .iter_mut()
            .for_each(v1::event::JobEvent::shorten);
        to.truncate(begin);
        frame::write(to, &base, &record, 0, None)?;
    }
    Ok(())
}

/// A job's last events, oldest first, with the revision that they led to.
///
/// # Errors
/// The store cannot be read, or what it has is not an event.
pub fn history(journal: &dyn Journal, id: JobId) -> Result<Vec<(u64, Vec<JobEvent>)>, StoreError> {
    let mut history = Vec::new();
    for (base, parts) in events(journal, id)? {
        let record: Events = parts.read(&base)?;
        let events = from_wire(record.events).map_err(|problem| damaged_record(&base, problem))?;
        history.push((record.revision, events));
    }
    history.sort_by_key(|(revision, _)| *revision);
    Ok(history)
}

/// The same without a look into them, for the archive.
///
/// # Errors
/// The store cannot be read, or what it has is no list of events.
pub fn history_texts(journal: &dyn Journal, job: &Job) -> Result<EventTexts, StoreError> {
    let mut records: Vec<(u64, String)> = Vec::new();
    for (base, parts) in events(journal, job.id)? {
        let record = match events_text(parts.text()) {
            Some((revision, events)) => (revision, events.to_owned()),
            None => {
                let record: Events<Box<RawValue>> = parts.read(&base)?;
                let texts: Vec<&str> = record.events.iter().map(|event| event.get()).collect();
                (record.revision, texts.join(","))
            }
        };
        records.push(record);
    }
    records.sort_by_key(|(revision, _)| *revision);
    let events = joined(records.iter().map(|(_, events)| &**events));
    Ok(EventTexts {
        events,
        cut: cut_spec(journal, job)?,
    })
}

/// Lists without their brackets as one; of an empty one there is nothing.
fn joined<'a>(lists: impl Iterator<Item = &'a str>) -> String {
    lists
        .filter(|list| !list.is_empty())
        .collect::<Vec<_>>()
        .join(",")
}

/// The revision and the events, without the brackets around them, of a record that was written
/// as [`write`] writes it: to read it as JSON is most of the work of archiving.
fn events_text(record: &[u8]) -> Option<(u64, &str)> {
    let record = str::from_utf8(record)
        .ok()?
        .strip_prefix("{\"revision\":")?;
    let (revision, events) = record.split_once(",\"events\":[")?;
    Some((revision.parse().ok()?, events.strip_suffix("]}")?))
}

/// The events of all units of a job that are kept, unread.
fn events(journal: &dyn Journal, id: JobId) -> Result<Vec<(String, FrameParts)>, StoreError> {
    let mut records: Vec<(String, FrameParts)> = Vec::new();
    each(journal, &keys::history(id), &mut |stored, base, chunk| {
        // In order: the values of one record follow each other.
        if records.last().is_none_or(|(last, _)| last != base) {
            records.push((base.into(), FrameParts::default()));
        }
        let Some((_, parts)) = records.last_mut() else {
            return Ok(());
        };
        parts.take(&stored.key, chunk, &stored.value)
    })?;
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
            let record = Events {
                revision: 47,
                events: events.to_vec(),
            };
            let mut text = Vec::new();
            json::append(&mut text, &record).unwrap();
            let read: Events<Box<RawValue>> = serde_json::from_slice(&text).unwrap();
            let read: Vec<&str> = read.events.iter().map(|event| event.get()).collect();
            assert_eq!(events_text(&text), Some((47, &*read.join(","))));
        }
    }

    #[test]
    fn an_empty_list_leaves_no_comma() {
        assert_eq!(joined(["", "1,2", "", "3", ""].into_iter()), "1,2,3");
    }

    #[test]
    fn a_record_that_was_written_in_another_way_is_not_cut() {
        for text in [
            "{\"revision\": 1,\"events\":[]}",
            "{\"events\":[],\"revision\":1}",
            "{\"revision\":1,\"events\":[]",
            "",
        ] {
            assert_eq!(events_text(text.as_bytes()), None, "{text}");
        }
    }
}
