//! The stored record of an upload.

use std::collections::BTreeSet;
use std::path::Path;

use cospan_domain::ids::{Digest, KeyName, LogicalName, SiteName};
use serde::{Deserialize, Serialize};

use cospan_api::v1::text;

/// The version of the format.
const VERSION: u32 = 1;

/// The stored record of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadRecord {
    pub version: u32,
    /// The id: also the name of its files.
    pub id: String,
    /// The key that sends it.
    #[serde(with = "text")]
    pub owner: KeyName,
    /// The logical name that the file will get.
    #[serde(with = "text")]
    pub name: LogicalName,
    pub size_bytes: u64,
    /// Digest of the content.
    #[serde(with = "text")]
    pub digest: Digest,
    /// The site that will get it; any if `None`.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub site: Option<SiteName>,
    /// True if the name may stand for other content until now.
    #[serde(default)]
    pub replace: bool,
    /// Sites where some or all of it may lie: recorded before the first byte goes there.
    #[serde(default, with = "sites", skip_serializing_if = "BTreeSet::is_empty")]
    pub touched: BTreeSet<SiteName>,
    /// The site where it is a registered file.
    #[serde(
        default,
        with = "text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub placed: Option<SiteName>,
    /// True if it was given up: all that lies of it anywhere must be removed.
    #[serde(default)]
    pub given_up: bool,
}

impl UploadRecord {
    /// A new record, of which nothing has arrived.
    ///
    /// # Errors
    /// The system has no random numbers for its id.
    pub fn new(
        owner: KeyName,
        name: LogicalName,
        size_bytes: u64,
        digest: Digest,
    ) -> Result<Self, getrandom::Error> {
        let mut bits = [0u8; 16];
        getrandom::fill(&mut bits)?;
        Ok(Self {
            version: VERSION,
            id: bits.iter().map(|byte| format!("{byte:02x}")).collect(),
            owner,
            name,
            size_bytes,
            digest,
            site: None,
            replace: false,
            touched: BTreeSet::new(),
            placed: None,
            given_up: false,
        })
    }

    /// Returns true if bytes may still come.
    pub fn is_open(&self) -> bool {
        self.placed.is_none() && !self.given_up
    }

    /// Returns true if the upload is open, and `announced` announces the same.
    pub fn can_continue_as(&self, announced: &UploadRecord) -> bool {
        let alike = Self {
            id: self.id.clone(),
            touched: self.touched.clone(),
            ..announced.clone()
        };
        self.is_open() && *self == alike
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The file cannot be read, or comes from a newer version.
    pub fn load(file: &Path) -> std::io::Result<Self> {
        let record: Self = serde_json::from_slice(&std::fs::read(file)?)?;
        match record.version {
            VERSION => Ok(record),
            newer => Err(std::io::Error::other(format!("it has version {newer}"))),
        }
    }

    /// Writes the record durably.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, directory: &Path) -> std::io::Result<()> {
        let file = directory.join(format!("{}.json", self.id));
        cospan_durable::replace_file(&file, &serde_json::to_vec(self)?)
    }
}

/// Names of sites, as texts.
mod sites {
    use std::collections::BTreeSet;

    use cospan_domain::ids::SiteName;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        sites: &BTreeSet<SiteName>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(sites.iter().map(SiteName::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeSet<SiteName>, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        names
            .iter()
            .map(|name| SiteName::new(name).map_err(D::Error::custom))
            .collect()
    }
}
