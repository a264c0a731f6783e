//! What the control plane and its agents write for each other, as JSON.
//!
//! An agent may be older or younger than the control plane that asks how it is
//! doing, so fields are added and never renamed.

use std::path::PathBuf;

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, InvalidId, RelPath, Tag};
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::port::{CopyBlame, Inspected};

/// Longest text about what happened; keeps an outcome within its reserved space.
const DETAIL_MAX: usize = 2_000;

/// What an agent is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    /// Root of the site that has the file.
    pub(super) source_root: PathBuf,
    /// Name of its directory of attempts.
    pub(super) source_attempts: String,
    /// Where the file is there.
    pub(super) place: Place,
    /// No byte for so long counts as a failure.
    pub(super) stall_ms: u64,
    /// What is to arrive; `None` to find out what the file is.
    pub(super) expected: Option<Expected>,
    /// If it is to be cut from the file: from which byte of what.
    #[serde(default)]
    pub(super) cut: Option<Cut>,
    /// Link and bandwidth to keep to, in bits per second.
    pub(super) limit: Option<LinkLimit>,
}

/// What is to arrive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Expected {
    pub(super) digest: String,
    pub(super) size_bytes: u64,
}

/// From where a chunk is cut.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cut {
    /// What the source must be.
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
pub(super) enum Place {
    Store { digest: String },
    User { path: String },
    Output { tag: String, path: String },
}

/// How an agent ended, if it lived to say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Inspected {
        digest: String,
        size_bytes: u64,
        directory: bool,
    },
    Failed {
        blame: Blame,
        detail: String,
    },
}

/// [`CopyBlame`] as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Blame {
    Source,
    Destination,
    Process,
}

/// How far an agent is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) done_bytes: u64,
}

impl From<&FilePlace> for Place {
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

impl TryFrom<&Place> for FilePlace {
    type Error = InvalidId;

    fn try_from(place: &Place) -> Result<Self, InvalidId> {
        Ok(match place {
            Place::Store { digest } => Self::Store(digest.parse()?),
            Place::User { path } => Self::User(RelPath::new(path)?),
            Place::Output { tag, path } => Self::Output(tag.parse::<Tag>()?, RelPath::new(path)?),
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
    pub(super) fn content(&self) -> Result<Content, InvalidId> {
        let digest: Digest = self.digest.parse()?;
        Ok(Content {
            digest,
            size: Bytes(self.size_bytes),
        })
    }
}

impl From<Blame> for CopyBlame {
    fn from(blame: Blame) -> Self {
        match blame {
            Blame::Source => Self::Source,
            Blame::Destination => Self::Destination,
            Blame::Process => Self::Process,
        }
    }
}

impl Outcome {
    /// A failure, its text cut to what has space.
    pub(super) fn failed(blame: Blame, detail: &str) -> Self {
        Self::Failed {
            blame,
            detail: detail.chars().take(DETAIL_MAX / 6).collect(),
        }
    }

    /// What was found.
    pub(super) fn inspected(found: &Inspected) -> Self {
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
            let text = serde_json::to_string(&Place::from(&place)).unwrap();
            let back: Place = serde_json::from_str(&text).unwrap();
            assert_eq!(FilePlace::try_from(&back), Ok(place));
        }
        assert!(
            FilePlace::try_from(&Place::User {
                path: "../x".into()
            })
            .is_err()
        );
    }
}
