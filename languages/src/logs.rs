//! Readers of job logs and node failure logs.
//!
//! A log is read from any [`std::io::Read`], plain or compressed with gzip or xz; its first bytes
//! decide which of the three, not its name. Reading streams: memory does not grow with the log.
//!
//! A line that cannot be used is never skipped in silence. The caller chooses
//! ([`BadLineTreatment`]): either it ends the reading, or it is skipped and counted, and the
//! [`LogComplaints`] say how often, where and why.
//!
//! Deliberately absent: opening files by path, and any repair of a log.

mod complaints;
mod failures;
mod source;
mod swf;

use std::io;

use thiserror::Error;

pub use complaints::{ComplaintTreatment, LogComplaint, LogComplaintKind, LogComplaints};
pub use failures::{FailureCause, FailureLogReader, LoggedFailure};
pub use source::LINE_BYTES_MAX;
pub use swf::{SwfHeader, SwfJob, SwfJobStatus, SwfLog, SwfReader, read_swf};

/// The treatment of lines that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLineTreatment {
    /// Go on, and treat the line as [`LogComplaintKind::treatment`] says.
    Skip {
        /// Number of complaints of each kind that are kept in full; all are counted.
        kept_per_kind_max: usize,
    },
    /// The first complaint ends the reading with [`LogError::Refused`].
    Refuse,
}

/// The settings for reading one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadLogSettings {
    /// The log's name, for messages only.
    pub file: String,
    /// The treatment of lines that cannot be used.
    pub on_bad: BadLineTreatment,
}

impl WorkloadLogSettings {
    /// Skips bad lines and keeps the first ten complaints of each kind.
    pub fn skipping_bad_lines(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            on_bad: BadLineTreatment::Skip {
                kept_per_kind_max: 10,
            },
        }
    }

    /// Stops at the first bad line.
    pub fn refusing_bad_lines(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            on_bad: BadLineTreatment::Refuse,
        }
    }
}

/// The reason why a log could not be read to its end.
#[derive(Debug, Error)]
pub enum LogError {
    /// The source failed, or its compressed data are damaged (a stream that
    /// merely stops early is a [`LogComplaintKind::Truncated`] instead).
    #[error("cannot read {file} beyond line {line}: {source}; check the file, or fetch it again")]
    Unreadable {
        /// The log's name.
        file: String,
        /// The last line read, from 1; 0 if there was none.
        line: u64,
        /// The error of the source.
        source: io::Error,
    },
    /// A line is longer than [`LINE_BYTES_MAX`].
    #[error(
        "{file}, line {line}: longer than {LINE_BYTES_MAX} bytes, so this is no job log; check the \
         file name"
    )]
    LineTooLong {
        /// The log's name.
        file: String,
        /// The line, from 1.
        line: u64,
    },
    /// A line cannot be used and [`BadLineTreatment::Refuse`] was asked for.
    #[error("{file}, {complaint}; {}, or allow bad lines to be skipped", .complaint.kind.remedy())]
    Refused {
        /// The log's name.
        file: String,
        /// The problem, and its line.
        complaint: LogComplaint,
    },
    /// The log holds nothing that can be used.
    #[error("{file} has no usable entry ({summary}); check the file name")]
    Empty {
        /// The log's name.
        file: String,
        /// A summary of what was skipped, as [`LogComplaints`] prints it.
        summary: String,
    },
    /// A table lacks a column that is needed.
    #[error("{file} has no column \"{column}\"; check that its first line names the columns")]
    ColumnMissing {
        /// The log's name.
        file: String,
        /// The name of the missing column.
        column: &'static str,
    },
}
