//! Bytes by key, in order.
//!
//! Nearly all keys are those of jobs, and those of one job differ in their ends only. So
//! they lie together, and are found by how they begin, as a number: numbers are compared
//! far faster than bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::port::Key;

/// Longest beginning: as long as `j/` and the number of a job.
const BEGINNING: usize = 18;

/// How a key begins, filled up with zeros, and how long that is: in the order of keys.
type Beginning = (u128, u16, u8);

fn beginning(key: &[u8]) -> Beginning {
    let length = key.len().min(BEGINNING);
    let mut bytes = [0; BEGINNING];
    bytes[..length].copy_from_slice(&key[..length]);
    let (mut high, mut low) = ([0; 16], [0; 2]);
    high.copy_from_slice(&bytes[..16]);
    low.copy_from_slice(&bytes[16..]);
    (u128::from_be_bytes(high), u16::from_be_bytes(low), length as u8)
}

fn end(key: &[u8]) -> &[u8] {
    key.get(BEGINNING..).unwrap_or_default()
}

/// Bytes by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(BTreeMap<Beginning, Vec<(Key, Arc<[u8]>)>>);

impl Values {
    /// What is stored under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<[u8]>> {
        let alike = self.0.get(&beginning(key))?;
        let at = alike.binary_search_by(|(other, _)| end(&other.0).cmp(end(key))).ok()?;
        alike.get(at).map(|(_, bytes)| bytes)
    }

    /// Stores bytes under a key.
    pub(crate) fn insert(&mut self, key: Key, bytes: Arc<[u8]>) {
        let alike = self.0.entry(beginning(&key.0)).or_default();
        match alike.binary_search_by(|(other, _)| end(&other.0).cmp(end(&key.0))) {
            Ok(at) => alike[at].1 = bytes,
            Err(at) => alike.insert(at, (key, bytes)),
        }
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let beginning = beginning(key);
        let Some(alike) = self.0.get_mut(&beginning) else { return };
        if let Ok(at) = alike.binary_search_by(|(other, _)| end(&other.0).cmp(end(key))) {
            alike.remove(at);
        }
        if alike.is_empty() {
            self.0.remove(&beginning);
        }
    }

    /// What begins with `prefix`, in order.
    pub(crate) fn below(&self, prefix: &[u8]) -> impl Iterator<Item = &(Key, Arc<[u8]>)> {
        let all = self.0.range(beginning(prefix)..).flat_map(|(_, alike)| alike);
        let from = all.skip_while(move |(key, _)| *key.0 < *prefix);
        from.take_while(move |(key, _)| key.0.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys of jobs and others, short and long, some of which begin like others.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        let of_job = (0_u8..4, "[ehs]?[01]?").prop_map(|(id, part)| {
            format!("j/00000000000000{:02x}/{part}", id.wrapping_mul(85)).into_bytes()
        });
        let any = proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 0..20);
        prop_oneof![of_job, any]
    }

    proptest! {
        #[test]
        fn it_holds_and_shows_what_an_ordered_map_of_bytes_would(
            acts in proptest::collection::vec((keys(), proptest::option::of(0_u8..9)), 0..60),
            prefixes in proptest::collection::vec(keys(), 1..9),
        ) {
            let (mut values, mut model) = (Values::default(), BTreeMap::new());
            for (key, value) in acts {
                match value {
                    Some(value) => {
                        values.insert(Key(key.as_slice().into()), [value].into());
                        model.insert(key, value);
                    }
                    None => {
                        values.remove(&key);
                        model.remove(&key);
                    }
                }
            }
            let cut = |key: &Vec<u8>| key[..key.len() / 2].to_vec();
            let shorter: Vec<_> = prefixes.iter().map(cut).collect();
            for prefix in prefixes.iter().chain(&shorter).chain([&Vec::new()]) {
                prop_assert_eq!(values.get(prefix).map(|bytes| bytes[0]), model.get(prefix).copied());
                let shown: Vec<_> =
                    values.below(prefix).map(|(key, bytes)| (key.0.to_vec(), bytes[0])).collect();
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| key.starts_with(prefix))
                    .map(|(key, value)| (key.clone(), *value))
                    .collect();
                prop_assert_eq!(shown, expected);
            }
            for key in model.keys() {
                values.remove(key);
            }
            prop_assert!(values.0.is_empty(), "nothing is left where nothing is stored");
        }
    }
}
