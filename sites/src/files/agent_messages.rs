//! The JSON files that the control plane and its agents write for each other.
//!
//! An agent may be older or younger than the control plane that asks for its state, so fields
//! are added and never renamed.

use std::path::PathBuf;

use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, IdentifierError, RelPath};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::port::{CopyBlame, InspectedFile};

/// Longest detail of an outcome, which keeps that within its reserved space.
const DETAIL_MAX: usize = 2_000;

/// The request to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CopyAgentRequest {
    /// The root of the site that has the file.
    pub(super) source_root: PathBuf,
    /// The name of its directory of attempts.
    pub(super) source_attempts: String,
    /// The place of the file there.
    pub(super) place: WrittenFilePlace,
    /// The copy has failed if no byte moves for this long.
    pub(super) stall_ms: u64,
    /// The content that must arrive; `None` to find out what the file is.
    pub(super) expected: Option<ExpectedContent>,
    /// For a part of a file: what that file is, and the first byte of the part.
    #[serde(default)]
    pub(super) cut: Option<ChunkOrigin>,
    /// The link, and the bandwidth to keep to, in bits per second.
    pub(super) limit: Option<LinkBandwidthLimit>,
    /// The agent ends when its standard output, a pipe, is closed at the other end: nobody else
    /// wants what it finds out.
    #[serde(default)]
    pub(super) leased: bool,
}

/// The content that must arrive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ExpectedContent {
    pub(super) digest: String,
    pub(super) size_bytes: u64,
}

/// The origin of a chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ChunkOrigin {
    /// The file that the source must be.
    pub(super) file: ExpectedContent,
    pub(super) offset_bytes: u64,
}

/// A link's name and bandwidth.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LinkBandwidthLimit {
    pub(super) link: String,
    pub(super) bits_per_second: u64,
}

/// [`FilePlace`] as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenFilePlace {
    Store { digest: String },
    User { path: String },
    Output { tag: String, path: String },
}

/// The outcome of an agent, if it lived to write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CopyAgentOutcome {
    Inspected {
        digest: String,
        size_bytes: u64,
        directory: bool,
    },
    Failed {
        blame: WrittenCopyBlame,
        detail: String,
    },
}

/// [`CopyBlame`] as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenCopyBlame {
    Source,
    Destination,
    Process,
}

/// The progress of an agent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct CopyAgentProgress {
    pub(super) done_bytes: u64,
    /// The size of the file, if it is one.
    #[serde(default)]
    pub(super) of_bytes: Option<u64>,
}

impl From<&FilePlace> for WrittenFilePlace {
    fn from(place: &FilePlace) -> Self {
        match place {
            FilePlace::Store(digest) => Self::Store {
                digest: digest.to_string(),
            },
            FilePlace::User(path) => Self::User {
                path: path.to_string(),
            },
            FilePlace::Output(tag, path) => Self::Output {
                tag: tag.to_string(),
                path: path.to_string(),
            },
        }
    }
}

impl TryFrom<&WrittenFilePlace> for FilePlace {
    type Error = IdentifierError;

    fn try_from(place: &WrittenFilePlace) -> Result<Self, IdentifierError> {
        Ok(match place {
            WrittenFilePlace::Store { digest } => Self::Store(digest.parse()?),
            WrittenFilePlace::User { path } => Self::User(RelPath::new(path)?),
            WrittenFilePlace::Output { tag, path } => {
                Self::Output(tag.parse::<AttemptTag>()?, RelPath::new(path)?)
            }
        })
    }
}

impl From<Content> for ExpectedContent {
    fn from(content: Content) -> Self {
        Self {
            digest: content.digest.to_string(),
            size_bytes: content.size.0,
        }
    }
}

impl ExpectedContent {
    pub(super) fn parse_content(&self) -> Result<Content, IdentifierError> {
        let digest: Digest = self.digest.parse()?;
        Ok(Content {
            digest,
            size: Bytes(self.size_bytes),
        })
    }
}

impl From<WrittenCopyBlame> for CopyBlame {
    fn from(blame: WrittenCopyBlame) -> Self {
        match blame {
            WrittenCopyBlame::Source => Self::Source,
            WrittenCopyBlame::Destination => Self::Destination,
            WrittenCopyBlame::Process => Self::Process,
        }
    }
}

impl CopyAgentOutcome {
    /// Makes a failure, and cuts its text to the space for it.
    pub(super) fn from_failure(blame: WrittenCopyBlame, detail: &str) -> Self {
        Self::Failed {
            blame,
            detail: detail.chars().take(DETAIL_MAX / 6).collect(),
        }
    }

    /// Makes the outcome of an inspection.
    pub(super) fn from_inspected(found: &InspectedFile) -> Self {
        Self::Inspected {
            digest: found.content.digest.to_string(),
            size_bytes: found.content.size.0,
            directory: found.directory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_as_it_was_written_and_checked_again() {
        for place in [
            FilePlace::Store(Digest([3; 32])),
            FilePlace::User(RelPath::new("a/b c").unwrap()),
            FilePlace::Output(
                "cabcdefgh-1-2-3".parse().unwrap(),
                RelPath::new("out/result").unwrap(),
            ),
        ] {
            let text = serde_json::to_string(&WrittenFilePlace::from(&place)).unwrap();
            let back: WrittenFilePlace = serde_json::from_str(&text).unwrap();
            assert_eq!(FilePlace::try_from(&back), Ok(place));
        }
        assert!(
            FilePlace::try_from(&WrittenFilePlace::User {
                path: "../x".into()
            })
            .is_err()
        );
    }
}
