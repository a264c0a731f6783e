//! Copies of contents at sites.

use std::sync::Arc;

use cospan_domain::ids::{AttemptTag, Digest, RelPath, SiteName};
use cospan_domain::transfer::copy_state::{self, CopyPhase as DomainPhase, CopyUsage};
use cospan_domain::transfer::file_place::FilePlace as DomainPlace;

use super::convert::{TextValue, wire_enum, wire_struct};
use super::spec::{Chunk, Content};

wire_struct!(CopyRecord = copy_state::CopyRecord {
    content: Content,
    site: TextValue<SiteName>,
    usage: Usage,
    phase: CopyPhase;
    chunk: Option<Chunk>,
    trouble: Trouble,
    latest: Option<Try>,
    leftovers: Vec<(u64, Source)>,
});

wire_enum!(Usage = CopyUsage { Needed, Unneeded { since: u64 } });

wire_enum!(CopyPhase = DomainPhase {
    Absent,
    Waiting { since: u64, not_before: u64, resume: Option<Try>, given_up: bool },
    Copying { since: u64, order: Try, started: bool },
    Stopping { since: u64, order: Try },
    Ready { at: u64, nonce: u64 },
    Deleting { since: u64, nonce: u64 },
});

wire_struct!(
    Try = copy_state::CopyTry {
        source: Source,
        nonce: u64
    }
);
wire_struct!(Source = copy_state::CopyTrySource { site: TextValue<SiteName>, place: StoredFilePlace });

wire_struct!(Trouble = copy_state::CopyFaults {
    ;
    tries: u32,
    destination: u32,
    excluded: Vec<TextValue<SiteName>>,
    last_error: Option<Arc<str>>,
    at_destination: bool,
});

impl Default for Trouble {
    fn default() -> Self {
        super::WireConversion::to_wire(&copy_state::CopyFaults::default())
    }
}

/// A place of a file at a site; an output is named by its attempt's tag and path.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum StoredFilePlace {
    Store(TextValue<Digest>),
    User(TextValue<RelPath>),
    Output(TextValue<AttemptTag>, TextValue<RelPath>),
}

impl super::WireConversion<StoredFilePlace> for DomainPlace {
    fn to_wire(&self) -> StoredFilePlace {
        match self {
            DomainPlace::Store(digest) => StoredFilePlace::Store(digest.to_wire()),
            DomainPlace::User(path) => StoredFilePlace::User(path.to_wire()),
            DomainPlace::Output(tag, path) => {
                StoredFilePlace::Output(tag.to_wire(), path.to_wire())
            }
        }
    }

    fn from_wire(wire: StoredFilePlace) -> Result<Self, super::RecordProblem> {
        use super::WireConversion;
        Ok(match wire {
            StoredFilePlace::Store(digest) => {
                DomainPlace::Store(WireConversion::from_wire(digest)?)
            }
            StoredFilePlace::User(path) => DomainPlace::User(WireConversion::from_wire(path)?),
            StoredFilePlace::Output(tag, path) => DomainPlace::Output(
                WireConversion::from_wire(tag)?,
                WireConversion::from_wire(path)?,
            ),
        })
    }
}
