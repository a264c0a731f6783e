//! The reasons why an upload cannot continue.

use cospan_domain::units::Bytes;
use thiserror::Error;

/// The reason why an upload cannot continue.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum UploadError {
    #[error("this server takes no uploads")]
    Off,
    #[error("a file of {} is larger than the {} that may be uploaded", Bytes(*.size), Bytes(*.most))]
    TooLarge { size: u64, most: u64 },
    #[error(
        "{} more would exceed the {} that one key may upload; this one has {}",
        Bytes(*.size), Bytes(*.most), Bytes(*.has)
    )]
    Quota { size: u64, has: u64, most: u64 },
    #[error("this key has uploaded {most} files, the most allowed")]
    TooMany { most: u64 },
    #[error(
        "the disk of the server's data directory has room for {} more, not for {}",
        Bytes(*.free), Bytes(*.size)
    )]
    DiskFull { size: u64, free: u64 },
    #[error("the next piece begins at byte {arrived}, and not at {offset}")]
    Elsewhere { offset: u64, arrived: u64 },
    #[error("the piece ends at byte {ends} of a file that was announced with {size}")]
    TooMuch { ends: u64, size: u64 },
    #[error("it was given up")]
    GivenUp,
    #[error("the server cannot keep it: {0}")]
    Io(#[from] std::io::Error),
}
