//! Takes over records of another control plane: each attempt keeps the instance that made it,
//! because its tag at the site contains it.

use cospan_domain::ids::InstanceId;

use super::frame::{self, PartialRecord};
use super::job::{ArchivedRecord, ComponentBlock};
use super::keys::{self, JobRecordPart};
use crate::port::{KeyVersion, StoredValue};

/// Takes the values of a store in order of their keys, and returns them adopted.
#[derive(Debug)]
pub(crate) struct RecordAdopter {
    from: InstanceId,
    /// Values of the current record.
    record: Vec<StoredValue>,
}

impl RecordAdopter {
    /// Adopts the records of this control plane.
    pub(crate) fn new(from: InstanceId) -> Self {
        Self {
            from,
            record: Vec::new(),
        }
    }

    /// Takes the next value; returns the values of complete records.
    pub(crate) fn take_value(&mut self, stored: StoredValue) -> Vec<StoredValue> {
        let same = self
            .record
            .first()
            .is_some_and(|first| record_key_of(first) == record_key_of(&stored));
        let mut ready = if same { Vec::new() } else { self.take_rest() };
        if same || holds_components(&stored) {
            self.record.push(stored);
        } else {
            ready.push(stored);
        }
        ready
    }

    /// Returns the remaining values. A record that we do not know stays as it is: it is reported
    /// when the store is opened.
    pub(crate) fn take_rest(&mut self) -> Vec<StoredValue> {
        let record = std::mem::take(&mut self.record);
        self.sign_record(&record).unwrap_or(record)
    }

    fn sign_record(&self, record: &[StoredValue]) -> Option<Vec<StoredValue>> {
        let (base, _) = keys::split_chunk(&record.first()?.key)?;
        let mut parts = PartialRecord::default();
        for stored in record {
            let (_, chunk) = keys::split_chunk(&stored.key)?;
            parts.take_value(&stored.key, chunk, &stored.value).ok()?;
        }
        let values = if base.as_bytes().starts_with(keys::ARCHIVE) {
            let mut archived: ArchivedRecord = parts.read_record(base).ok()?;
            archived
                .components
                .iter_mut()
                .for_each(|component| component.sign_attempts(self.from));
            frame::record_to_values(base, &archived).ok()?
        } else {
            let mut block: ComponentBlock = parts.read_record(base).ok()?;
            block
                .components
                .iter_mut()
                .for_each(|component| component.sign_attempts(self.from));
            frame::record_to_values(base, &block).ok()?
        };
        let written = values.len();
        let values = values.into_iter().enumerate().map(|(chunk, value)| {
            let version = record
                .get(chunk)
                .map_or(KeyVersion(1), |stored| stored.version);
            StoredValue {
                key: keys::chunk_key(base, chunk),
                version,
                value,
            }
        });
        Some(values.chain(record.iter().skip(written).cloned()).collect())
    }
}

fn record_key_of(stored: &StoredValue) -> Option<&str> {
    keys::split_chunk(&stored.key).map(|(base, _)| base)
}

/// Returns true if a value is part of a record of components.
fn holds_components(stored: &StoredValue) -> bool {
    let Some((base, _)) = keys::split_chunk(&stored.key) else {
        return false;
    };
    let block =
        keys::parse_job_part(base).is_some_and(|(_, part)| matches!(part, JobRecordPart::Block(_)));
    block || base.as_bytes().starts_with(keys::ARCHIVE)
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Attempt, JobId, SiteName};
    use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Component};
    use cospan_domain::placed::Placement;
    use cospan_domain::units::{DurationMs, Timestamp};

    use super::super::v1::{WireConversion, component};
    use super::*;

    /// Components whose records take more than one value together.
    fn component_values(attempt: u32) -> Vec<StoredValue> {
        let how = AttemptEnding::Failed("x".repeat(2_000).into());
        let component = Component {
            attempt: Attempt(attempt),
            run: AttemptState::Ended {
                how,
                at: Timestamp(1),
            },
            placement: Some(Placement {
                site: SiteName::new("delft").unwrap(),
                sources: Vec::new(),
                transfer_time: DurationMs(0),
                share: None,
                acquisition: Default::default(),
            }),
            ..Component::default()
        };
        let components: Vec<component::Component> = vec![component.to_wire(); 60];
        block_values(&ComponentBlock { components })
    }

    fn block_values(block: &ComponentBlock) -> Vec<StoredValue> {
        let base = keys::block_key(JobId(7), 0);
        let values = frame::record_to_values(&base, block)
            .unwrap()
            .into_iter()
            .enumerate();
        let version = |chunk: usize| KeyVersion(chunk as u64 + 3);
        values
            .map(|(at, value)| StoredValue {
                key: keys::chunk_key(&base, at),
                version: version(at),
                value,
            })
            .collect()
    }

    fn adopt_values(from: InstanceId, values: Vec<StoredValue>) -> Vec<StoredValue> {
        let mut adoption = RecordAdopter::new(from);
        let mut taken: Vec<StoredValue> = values
            .into_iter()
            .flat_map(|stored| adoption.take_value(stored))
            .collect();
        taken.extend(adoption.take_rest());
        taken
    }

    fn read_components(values: &[StoredValue]) -> Vec<Component> {
        let mut parts = PartialRecord::default();
        for (chunk, stored) in values.iter().enumerate() {
            parts.take_value(&stored.key, chunk, &stored.value).unwrap();
        }
        let block: ComponentBlock = parts.read_record("block").unwrap();
        block
            .components
            .into_iter()
            .map(|wire| Component::from_wire(wire).unwrap())
            .collect()
    }

    #[test]
    fn every_attempt_keeps_the_tag_of_who_made_it_through_two_moves() {
        let [first, second, third] = [1, 2, 3].map(InstanceId::from_random);
        let before = component_values(4);
        assert!(before.len() > 1, "it takes several values");
        let once = adopt_values(first, before.clone());
        assert!(
            once.iter()
                .zip(&before)
                .all(|(new, old)| new.version == old.version)
        );
        let mut again: Vec<component::Component> = read_components(&once)
            .iter()
            .map(|component| component.to_wire())
            .collect();
        again.iter_mut().for_each(|component| component.attempt = 6);
        let twice = read_components(&adopt_values(
            second,
            block_values(&ComponentBlock { components: again }),
        ));
        assert_eq!(
            [1, 4, 5, 6, 7]
                .map(|attempt: u32| twice[59].instance_of_attempt(Attempt(attempt), third)),
            [first, first, second, second, third]
        );
    }

    #[test]
    fn what_is_no_record_of_components_stays_as_it_is() {
        let values: Vec<StoredValue> = [
            "f/a",
            "j/0000000000000007/b0000",
            "j/0000000000000007/h",
            "x",
        ]
        .into_iter()
        .map(|key| StoredValue {
            key: key.into(),
            version: KeyVersion(2),
            value: (*b"1 1 no").into(),
        })
        .collect();
        assert_eq!(
            adopt_values(InstanceId::from_random(1), values.clone()),
            values
        );
    }
}
