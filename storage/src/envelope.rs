//! The envelope of every stored value: its version, and our own checksum.
//!
//! The engines have checksums of their own, but not over everything and not always. This one covers
//! key, version and value, so that a value that appears under another key or in another version is
//! noticed as well.

use twox_hash::XxHash3_128;

use crate::port::{KeyVersion, StoreError, StoreKey};

/// First byte of every stored value: the shape of the envelope.
const SHAPE: u8 = 1;
/// Bytes before the value: shape, version, checksum.
const HEADER_BYTES: usize = 1 + 8 + 4;

/// Version and checksum of a stored value, without the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnvelopeHead {
    /// Number of writes of its key.
    pub(crate) version: KeyVersion,
    crc: u32,
}

impl EnvelopeHead {
    /// Computes the head of `value` as stored under `key` in this version.
    pub(crate) fn from_value(key: &[u8], version: KeyVersion, value: &[u8]) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        let length = (key.len() as u32).to_le_bytes();
        hash_joined([&length, key, &version.0.to_le_bytes()], |head| {
            hasher.update(head)
        });
        hasher.update(value);
        Self {
            version,
            crc: hasher.finalize(),
        }
    }

    /// Returns a number that stands for (key, version, value) in the sum over the whole store.
    pub(crate) fn fingerprint(self, key: &[u8]) -> u128 {
        self.hash_named(key, XxHash3_128::oneshot)
    }

    /// Returns the same in stores of format 1. It took ten times as long, and a fingerprint need
    /// not withstand attackers: whoever can write a value can write the sum.
    pub(crate) fn fingerprint_of_format_1(self, key: &[u8]) -> u128 {
        let mut half = [0; 16];
        let hash = self.hash_named(key, blake3::hash);
        half.copy_from_slice(&hash.as_bytes()[..16]);
        u128::from_le_bytes(half)
    }

    fn hash_named<T>(self, key: &[u8], hash: impl FnOnce(&[u8]) -> T) -> T {
        hash_joined(
            [&self.version.0.to_le_bytes(), &self.crc.to_le_bytes(), key],
            hash,
        )
    }
}

/// Hashes several pieces as one: hashes take far longer over several short pieces.
fn hash_joined<T>(parts: [&[u8]; 3], hash: impl FnOnce(&[u8]) -> T) -> T {
    let length = parts.iter().map(|part| part.len()).sum();
    // Most keys are of jobs, and short.
    let mut short = [0; 64];
    let mut long = Vec::new();
    let whole = match short.get_mut(..length) {
        Some(short) => short,
        None => {
            long.resize(length, 0);
            &mut long[..]
        }
    };
    let mut rest = &mut *whole;
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    hash(whole)
}

/// Returns the bytes to store for a value, and its head.
pub(crate) fn seal_value(key: &[u8], version: KeyVersion, value: &[u8]) -> (EnvelopeHead, Vec<u8>) {
    let head = EnvelopeHead::from_value(key, version, value);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + value.len());
    bytes.push(SHAPE);
    bytes.extend_from_slice(&version.0.to_le_bytes());
    bytes.extend_from_slice(&head.crc.to_le_bytes());
    bytes.extend_from_slice(value);
    (head, bytes)
}

/// A function that opens stored bytes.
pub(crate) type EnvelopeOpener =
    for<'a> fn(&[u8], &'a [u8]) -> Result<(EnvelopeHead, &'a [u8]), StoreError>;

/// Returns the opener for memory of this process, or for other stores. Checking the checksums of
/// memory would be a large part of the work of a simulated control plane.
pub(crate) fn opener_for(is_memory: bool) -> EnvelopeOpener {
    if is_memory {
        open_unchecked
    } else {
        open_envelope
    }
}

/// Returns head and value of stored bytes, after checking that they are as sealed.
///
/// # Errors
/// Fails with [`StoreError::Damaged`], naming the key.
pub(crate) fn open_envelope<'a>(
    key: &[u8],
    stored: &'a [u8],
) -> Result<(EnvelopeHead, &'a [u8]), StoreError> {
    let (head, value) = open_unchecked(key, stored)?;
    if EnvelopeHead::from_value(key, head.version, value) != head {
        return Err(damaged_value_error(
            key,
            "its checksum does not fit its content",
        ));
    }
    Ok((head, value))
}

/// Returns the same without a check, where nothing can have changed them since.
///
/// # Errors
/// Fails if they are no stored value at all.
fn open_unchecked<'a>(
    key: &[u8],
    stored: &'a [u8],
) -> Result<(EnvelopeHead, &'a [u8]), StoreError> {
    let Some((header, value)) = stored.split_at_checked(HEADER_BYTES) else {
        return Err(damaged_value_error(key, "the value is cut short"));
    };
    let (shape, rest) = header.split_at(1);
    let (version, crc) = rest.split_at(8);
    if shape != [SHAPE] {
        return Err(damaged_value_error(
            key,
            "the value is of a shape that nobody wrote",
        ));
    }
    let (Ok(version), Ok(crc)) = (version.try_into(), crc.try_into()) else {
        return Err(damaged_value_error(key, "the value is cut short"));
    };
    let version = KeyVersion(u64::from_le_bytes(version));
    let crc = u32::from_le_bytes(crc);
    Ok((EnvelopeHead { version, crc }, value))
}

fn damaged_value_error(key: &[u8], problem: &str) -> StoreError {
    StoreError::Damaged {
        place: format!("{:?}", StoreKey(key.into())),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_is_part_of_checksum_and_fingerprint() {
        let long = [b'k'; 320];
        for length in 1..=long.len() {
            let key = &long[..length];
            let other = [&long[..length - 1], b"x"].concat();
            let (head, bytes) = seal_value(key, KeyVersion(7), b"value");
            assert!(open_envelope(&other, &bytes).is_err(), "{length}");
            assert_ne!(head.fingerprint(key), head.fingerprint(&other), "{length}");
        }
    }

    #[test]
    fn what_was_sealed_is_opened_as_it_was() {
        let (head, bytes) = seal_value(b"j/1/h", KeyVersion(7), b"value");
        assert_eq!(
            open_envelope(b"j/1/h", &bytes).unwrap(),
            (head, &b"value"[..])
        );
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed_and_named() {
        let (_, bytes) = seal_value(b"j/1/h", KeyVersion(7), b"value");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = open_envelope(b"j/1/h", &flipped).unwrap_err().to_string();
            assert!(
                error.contains("j/1/h") && error.contains("check"),
                "{error}"
            );
        }
        for length in 0..bytes.len() {
            assert!(open_envelope(b"j/1/h", &bytes[..length]).is_err());
        }
    }

    #[test]
    fn a_value_under_another_key_is_noticed() {
        let (_, bytes) = seal_value(b"j/1/h", KeyVersion(7), b"value");
        assert!(open_envelope(b"j/2/h", &bytes).is_err());
    }
}
