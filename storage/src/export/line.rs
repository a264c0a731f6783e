//! The lines of an export.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::port::{KeyVersion, StoreKey, StoredValue};

/// Version of the stream.
pub(crate) const STREAM: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExportHeader {
    pub(crate) cospan_export: u32,
    pub(crate) format: u32,
    pub(crate) instance: String,
    pub(crate) epoch: u64,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExportEnd {
    /// Number of values.
    pub(crate) end: u64,
    #[serde(default)]
    pub(crate) damaged: u64,
    /// Hash of all bytes before this line.
    pub(crate) blake3: String,
}

/// Bytes in the form that is easiest to read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExportBytes {
    Text(String),
    Base64(String),
}

impl ExportBytes {
    fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => ExportBytes::Text(text.into()),
            Err(_) => ExportBytes::Base64(BASE64_STANDARD.encode(bytes)),
        }
    }

    fn decode(self) -> Result<Vec<u8>, String> {
        match self {
            ExportBytes::Text(text) => Ok(text.into_bytes()),
            ExportBytes::Base64(text) => BASE64_STANDARD
                .decode(text)
                .map_err(|error| error.to_string()),
        }
    }
}

/// A line with one value.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExportLine {
    key: ExportBytes,
    version: u64,
    value: ExportBytes,
}

impl ExportLine {
    pub(crate) fn from_stored(stored: &StoredValue) -> Self {
        Self {
            key: ExportBytes::from_bytes(&stored.key.0),
            version: stored.version.0,
            value: ExportBytes::from_bytes(&stored.value),
        }
    }

    pub(crate) fn decode(self) -> Result<StoredValue, String> {
        Ok(StoredValue {
            key: StoreKey(self.key.decode()?.into()),
            version: KeyVersion(self.version),
            value: self.value.decode()?.into(),
        })
    }
}
