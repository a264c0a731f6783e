//! Bytes by key, in order.
//!
//! Nearly all keys are those of jobs, and the keys of one job differ only in their ends. So they
//! lie together, and are found by their beginning, as a number: numbers are compared and hashed far
//! faster than bytes.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::port::StoreKey;

/// Longest beginning: as long as `j/` and the number of a job.
const BEGINNING: usize = 18;

/// The beginning of a key, padded with zeros, and its length: in the order of keys.
type KeyBeginning = (u128, u16, u8);

fn beginning_of(key: &[u8]) -> KeyBeginning {
    let length = key.len().min(BEGINNING);
    let mut bytes = [0; BEGINNING];
    bytes[..length].copy_from_slice(&key[..length]);
    let mut high = [0; 16];
    let mut low = [0; 2];
    high.copy_from_slice(&bytes[..16]);
    low.copy_from_slice(&bytes[16..]);
    (
        u128::from_be_bytes(high),
        u16::from_be_bytes(low),
        length as u8,
    )
}

/// The rest of a key. Nearly all rests are short, and are stored inline as numbers: following a
/// pointer for each would take longer than everything else.
#[derive(Debug, Clone)]
enum KeyTail {
    /// Padded with zeros, as a number in the order of the bytes, with its length.
    Short(u128, u8),
    Long(Box<[u8]>),
}

impl KeyTail {
    const SHORT: usize = 16;

    fn from_key(key: &[u8]) -> Self {
        let end = key.get(BEGINNING..).unwrap_or_default();
        let mut bytes = [0; Self::SHORT];
        match bytes.get_mut(..end.len()) {
            Some(place) => {
                place.copy_from_slice(end);
                KeyTail::Short(u128::from_be_bytes(bytes), end.len() as u8)
            }
            None => KeyTail::Long(end.into()),
        }
    }

    fn with_bytes<R>(&self, by: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            KeyTail::Short(number, length) => by(&number.to_be_bytes()[..usize::from(*length)]),
            KeyTail::Long(bytes) => by(bytes),
        }
    }

    /// Compares in the order of the bytes.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (KeyTail::Short(ours, length), KeyTail::Short(theirs, other)) => {
                (ours, length).cmp(&(theirs, other))
            }
            _ => self.with_bytes(|ours| other.with_bytes(|theirs| ours.cmp(theirs))),
        }
    }
}

/// Finds the place of an end among those with the same beginning.
fn find_tail(alike: &[(KeyTail, Box<[u8]>)], end: &KeyTail) -> Result<usize, usize> {
    alike.binary_search_by(|(other, _)| other.compare(end))
}

fn beginning_bytes((high, low, length): KeyBeginning) -> Vec<u8> {
    let mut bytes = high.to_be_bytes().to_vec();
    bytes.extend_from_slice(&low.to_be_bytes());
    bytes.truncate(usize::from(length));
    bytes
}

/// The ends of keys with the same beginning, in order, with the values.
type KeyTailValues = Vec<(KeyTail, Box<[u8]>)>;

/// Mixes the few numbers of a beginning: nobody chooses keys to do harm.
#[derive(Debug, Clone, Copy, Default)]
struct BeginningHasher(u64);

impl BeginningHasher {
    fn mix(&mut self, number: u64) {
        // The odd number next to 2^64 divided by the golden ratio spreads numbers that differ
        // little.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(SPREAD);
    }
}

impl Hasher for BeginningHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(u64::from(number));
    }

    fn write_u128(&mut self, number: u128) {
        self.mix(number as u64);
        self.mix((number >> 64) as u64);
    }
}

/// Bytes by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryValues {
    alike: HashMap<KeyBeginning, KeyTailValues, BuildHasherDefault<BeginningHasher>>,
    /// Beginnings in order: needed only to read many keys.
    order: BTreeSet<KeyBeginning>,
}

impl MemoryValues {
    /// Returns the bytes under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let alike = self.alike.get(&beginning_of(key))?;
        let at = find_tail(alike, &KeyTail::from_key(key)).ok()?;
        alike.get(at).map(|(_, bytes)| &**bytes)
    }

    /// Stores bytes under a key.
    pub(crate) fn insert(&mut self, key: &[u8], bytes: Box<[u8]>) {
        let beginning = beginning_of(key);
        let alike = self.alike.entry(beginning).or_default();
        if alike.is_empty() {
            self.order.insert(beginning);
        }
        let end = KeyTail::from_key(key);
        match find_tail(alike, &end) {
            Ok(at) => alike[at].1 = bytes,
            Err(at) => alike.insert(at, (end, bytes)),
        }
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let beginning = beginning_of(key);
        let Some(alike) = self.alike.get_mut(&beginning) else {
            return;
        };
        if let Ok(at) = find_tail(alike, &KeyTail::from_key(key)) {
            alike.remove(at);
        }
        if alike.is_empty() {
            self.alike.remove(&beginning);
            self.order.remove(&beginning);
        }
    }

    /// Returns everything that begins with `prefix`, in order.
    pub(crate) fn values_with_prefix(&self, prefix: &[u8]) -> Vec<(StoreKey, Box<[u8]>)> {
        let (head, tail) = prefix.split_at(prefix.len().min(BEGINNING));
        let mut found = Vec::new();
        let mut add = |number: &KeyBeginning| {
            let begin = beginning_bytes(*number);
            let goes_on = begin.starts_with(head);
            if goes_on {
                let alike = self.alike.get(number).into_iter().flatten();
                let alike = alike.filter(|(end, _)| end.with_bytes(|end| end.starts_with(tail)));
                found.extend(alike.map(|(end, bytes)| {
                    let key = StoreKey(end.with_bytes(|end| [&begin, end].concat().into()));
                    (key, bytes.clone())
                }));
            }
            goes_on
        };
        match head.len() {
            // All such keys have the same beginning.
            BEGINNING => drop(add(&beginning_of(prefix))),
            _ => drop(self.order.range(beginning_of(prefix)..).all(add)),
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Keys of jobs and others, short and long, some of which begin like others.
    fn arbitrary_keys() -> impl Strategy<Value = Vec<u8>> {
        let of_job = (0_u8..4, "[ehs]?[01]{0,2}|[01]{15,18}").prop_map(|(id, part)| {
            format!("j/00000000000000{:02x}/{part}", id.wrapping_mul(85)).into_bytes()
        });
        let any = proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 0..20);
        prop_oneof![of_job, any]
    }

    proptest! {
        #[test]
        fn it_holds_and_shows_what_an_ordered_map_of_bytes_would(
            acts in proptest::collection::vec((arbitrary_keys(), proptest::option::of(0_u8..9)), 0..60),
            prefixes in proptest::collection::vec(arbitrary_keys(), 1..9),
        ) {
            let mut values = MemoryValues::default();
            let mut model = BTreeMap::new();
            for (key, value) in acts {
                match value {
                    Some(value) => {
                        values.insert(&key, [value].into());
                        model.insert(key, value);
                    }
                    None => {
                        values.remove(&key);
                        model.remove(&key);
                    }
                }
            }
            let shorter: Vec<_> = prefixes.iter().map(|key: &Vec<u8>| key[..key.len() / 2].to_vec()).collect();
            for prefix in prefixes.iter().chain(&shorter).chain([&Vec::new()]) {
                prop_assert_eq!(values.get(prefix).map(|bytes| bytes[0]), model.get(prefix).copied());
                let shown: Vec<_> =
                    values.values_with_prefix(prefix).iter().map(|(key, bytes)| (key.0.to_vec(), bytes[0])).collect();
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
            prop_assert!(values.alike.is_empty(), "nothing is left where nothing is stored");
            prop_assert!(values.order.is_empty(), "nor is its place");
        }
    }
}
