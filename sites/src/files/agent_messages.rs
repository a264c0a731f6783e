//! The JSON files that the control plane and its agents write for each other.
//!
//! An agent may be older or younger than the control plane that asks for its state, so fields
//! are added and never renamed.

use std::path::PathBuf;

use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, InvalidId, RelPath};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::port::{CopyBlame, Inspected};

/// Longest detail of an outcome, which keeps that within its reserved space.
const DETAIL_MAX: usize = 2_000;

/// The request to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AgentOrder {
    /// The root of the site that has the file.
    pub(super) source_root: PathBuf,
    /// The name of its directory of attempts.
    pub(super) source_attempts: String,
    /// The place of the file there.
    pub(super) place: WirePlace,
    /// The copy has failed if no byte moves for this long.
    pub(super) stall_ms: u64,
    /// The content that must arrive; `None` to find out what the file is.
    pub(super) expected: Option<Expected>,
    /// For a part of a file: what that file is, and the first byte of the part.
    #[serde(default)]
    pub(super) cut: Option<ChunkCut>,
    /// The link, and the bandwidth to keep to, in bits per second.
    pub(super) limit: Option<LinkLimit>,
}

/// The content that must arrive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Expected {
    pub(super) digest: String,
    pub(super) size_bytes: u64,
}

/// The origin of a chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ChunkCut {
    /// The file that the source must be.
    pub(super) file: Expected,
    pub(super) offset_bytes: u64,
}

/// A link's name and bandwidth.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LinkLimit {
    pub(super) link: String,
    pub(super) bits_per_second: u64,
}

/// [`FilePlace`] as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WirePlace {
    Store { digest: String },
    User { path: String },
    Output { tag: String, path: String },
}

/// The outcome of an agent, if it lived to write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentOutcome {
    Inspected {
        digest: String,
        size_bytes: u64,
        directory: bool,
    },
    Failed {
        blame: WireBlame,
        detail: String,
    },
}

/// [`CopyBlame`] as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WireBlame {
    Source,
    Destination,
    Process,
}

/// The progress of an agent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct AgentProgress {
    pub(super) done_bytes: u64,
}

impl From<&FilePlace> for WirePlace {
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

impl TryFrom<&WirePlace> for FilePlace {
    type Error = InvalidId;

    fn try_from(place: &WirePlace) -> Result<Self, InvalidId> {
        Ok(match place {
            WirePlace::Store { digest } => Self::Store(digest.parse()?),
            WirePlace::User { path } => Self::User(RelPath::new(path)?),
            WirePlace::Output { tag, path } => {
                Self::Output(tag.parse::<AttemptTag>()?, RelPath::new(path)?)
            }
        })
    }
}

impl From<Content> for Expected {
    fn from(content: Content) -> Self {
        Self {
            digest: content.digest.to_string(),
            size_bytes: content.size.0,
        }
    }
}

impl Expected {
    pub(super) fn parse_content(&self) -> Result<Content, InvalidId> {
        let digest: Digest = self.digest.parse()?;
        Ok(Content {
            digest,
            size: Bytes(self.size_bytes),
        })
    }
}

impl From<WireBlame> for CopyBlame {
    fn from(blame: WireBlame) -> Self {
        match blame {
            WireBlame::Source => Self::Source,
            WireBlame::Destination => Self::Destination,
            WireBlame::Process => Self::Process,
        }
    }
}

impl AgentOutcome {
    /// Makes a failure, and cuts its text to the space for it.
    pub(super) fn from_failure(blame: WireBlame, detail: &str) -> Self {
        Self::Failed {
            blame,
            detail: detail.chars().take(DETAIL_MAX / 6).collect(),
        }
    }

    /// Makes the outcome of an inspection.
    pub(super) fn from_inspected(found: &Inspected) -> Self {
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
            let text = serde_json::to_string(&WirePlace::from(&place)).unwrap();
            let back: WirePlace = serde_json::from_str(&text).unwrap();
            assert_eq!(FilePlace::try_from(&back), Ok(place));
        }
        assert!(
            FilePlace::try_from(&WirePlace::User {
                path: "../x".into()
            })
            .is_err()
        );
    }
}
