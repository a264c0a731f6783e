//! The values that a store keeps about itself, under keys that no unit may touch.

use std::str::FromStr;

use cospan_domain::ids::{Epoch, InstanceId, Seq};

use crate::envelope;
use crate::port::StoreError;

/// The format that this program writes. Earlier ones are read, and replaced at once.
///
/// | format | what is different |
/// |---|---|
/// | 1 | values are summed up by their BLAKE3 hashes |
/// | 2 | by their XXH3 hashes |
pub const FORMAT: u32 = 2;

/// Keys that begin with this are the store's own.
pub const RESERVED_PREFIX: &[u8] = b"m/store/";

pub(crate) const FORMAT_KEY: &[u8] = b"m/store/format";
pub(crate) const INSTANCE_KEY: &[u8] = b"m/store/instance";
pub(crate) const EPOCH_KEY: &[u8] = b"m/store/epoch";
pub(crate) const LEDGER_KEY: &[u8] = b"m/store/ledger";

/// The checksum of the whole store after a group.
///
/// It is written with every group. If an engine returns another set of values than some group left
/// behind, the sum does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoreChecksum {
    /// The last committed unit.
    pub(crate) seq: Seq,
    /// Number of keys, except format and ledger.
    pub(crate) keys: u64,
    /// Sum of their fingerprints, modulo 2^128.
    pub(crate) sum: u128,
}

impl StoreChecksum {
    /// Adds a new value.
    pub(crate) fn add(&mut self, key: &[u8], head: envelope::EnvelopeHead) {
        self.keys = self.keys.wrapping_add(1);
        self.sum = self.sum.wrapping_add(head.fingerprint(key));
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, key: &[u8], head: envelope::EnvelopeHead) {
        self.keys = self.keys.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(head.fingerprint(key));
    }

    pub(crate) fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.seq.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.keys.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse_ledger(bytes)
            .ok_or_else(|| damaged_own_key_error(LEDGER_KEY, "it is cut short"))
    }

    fn parse_ledger(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            seq: Seq(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)),
            keys: u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?),
            sum: u128::from_le_bytes(bytes.get(16..32)?.try_into().ok()?),
        })
    }
}

/// Parses a number or name that is kept as text.
pub(crate) fn parse_text<T: FromStr>(key: &[u8], value: &[u8]) -> Result<T, StoreError> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| damaged_own_key_error(key, "its content is not what it should be"))
}

/// Makes the error for one of the store's own keys.
pub(crate) fn damaged_own_key_error(key: &[u8], problem: &str) -> StoreError {
    StoreError::Damaged {
        place: key.escape_ascii().to_string(),
        problem: problem.into(),
    }
}

/// The owner of a store, as drawn at its creation, and the epoch of its ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreOwner {
    /// The control plane.
    pub(crate) instance: InstanceId,
    /// The epoch.
    pub(crate) epoch: Epoch,
}
