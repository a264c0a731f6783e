//! Problems with a log: kinds, places and counts.

mod complaint_summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use super::{BadLineTreatment, LogError, WorkloadLogSettings};

/// A kind of problem with a line, or with a log as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogComplaintKind {
    ColumnCount,
    /// A column that is read holds no number.
    NotANumber,
    /// A number is outside what its column allows.
    OutOfRange,
    /// A column that should hold a date and a time does not.
    NotADate,
    /// The submit time, or the start or end of a failure, is not given.
    UnknownTime,
    /// The job was submitted before its predecessor.
    BackInTime,
    /// The failure was repaired before it started.
    EndBeforeStart,
    /// The run time is -1.
    UnknownRunTime,
    /// The allocated and the requested processors are both -1.
    UnknownProcessors,
    /// The job held, or asked for, no processor.
    ZeroProcessors,
    /// The job held more processors than the grid has.
    TooManyProcessors,
    /// The line is one burst of a job that was swapped out; the job as a whole
    /// has a line of its own.
    PartialExecution,
    /// The compressed stream breaks off, or the last line does.
    Truncated,
    /// The log holds fewer jobs than its header announces.
    FewerThanAnnounced,
}

/// The treatment of a line with a complaint under [`BadLineTreatment::Skip`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComplaintTreatment {
    /// The line is left out.
    Skipped,
    /// The entry is kept; the caller sorts (see [`super::read_swf`]).
    Kept,
    /// The complaint is about no whole line: the log itself is incomplete. Entries read before are
    /// kept, half a line is not.
    Incomplete,
}

impl LogComplaintKind {
    /// Returns the treatment of the line under [`BadLineTreatment::Skip`].
    pub fn treatment(self) -> ComplaintTreatment {
        match self {
            Self::BackInTime => ComplaintTreatment::Kept,
            Self::Truncated | Self::FewerThanAnnounced => ComplaintTreatment::Incomplete,
            Self::ColumnCount
            | Self::NotANumber
            | Self::OutOfRange
            | Self::NotADate
            | Self::UnknownTime
            | Self::EndBeforeStart
            | Self::UnknownRunTime
            | Self::UnknownProcessors
            | Self::ZeroProcessors
            | Self::TooManyProcessors
            | Self::PartialExecution => ComplaintTreatment::Skipped,
        }
    }

    /// Returns what a person can do about it, as a clause.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::ColumnCount | Self::NotANumber | Self::OutOfRange | Self::NotADate => {
                "correct or remove the line"
            }
            Self::UnknownTime | Self::UnknownRunTime | Self::UnknownProcessors => {
                "fill in the value or remove the line"
            }
            Self::ZeroProcessors | Self::PartialExecution => "remove the line",
            Self::BackInTime => "sort the log by submit time",
            Self::EndBeforeStart => "exchange the two dates or remove the line",
            Self::TooManyProcessors => "choose a larger grid or remove the line",
            Self::Truncated | Self::FewerThanAnnounced => "fetch the whole file again",
        }
    }
}

impl fmt::Display for LogComplaintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ColumnCount => "wrong column count",
            Self::NotANumber => "not a number",
            Self::OutOfRange => "number out of range",
            Self::NotADate => "not a date",
            Self::UnknownTime => "unknown time",
            Self::BackInTime => "goes back in time",
            Self::EndBeforeStart => "ends before it starts",
            Self::UnknownRunTime => "unknown run time",
            Self::UnknownProcessors => "unknown processors",
            Self::ZeroProcessors => "zero processors",
            Self::TooManyProcessors => "more processors than the grid has",
            Self::PartialExecution => "partial execution",
            Self::Truncated => "truncated file",
            Self::FewerThanAnnounced => "fewer jobs than announced",
        })
    }
}

/// A problem with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogComplaint {
    /// The line, from 1; for the log as a whole, its last line.
    pub line: u64,
    pub kind: LogComplaintKind,
    /// The value or column concerned, for people.
    pub detail: String,
}

impl fmt::Display for LogComplaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} ({})", self.line, self.kind, self.detail)
    }
}

/// A complaint whose line is not yet known to its maker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnplacedComplaint {
    pub(super) kind: LogComplaintKind,
    pub(super) detail: String,
}

impl UnplacedComplaint {
    pub(super) fn new(kind: LogComplaintKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
        }
    }

    /// Makes a complaint about `line`.
    pub(super) fn at_line(self, line: u64) -> LogComplaint {
        LogComplaint {
            line,
            kind: self.kind,
            detail: self.detail,
        }
    }
}

/// The count of one kind of complaint, with its first cases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct LogComplaintTally {
    count: u64,
    kept: Vec<LogComplaint>,
}

/// All problems with a log: every case is counted, the first of each kind are kept in full. Its
/// `Display` is a summary of one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogComplaints {
    lines_read: u64,
    tallies: BTreeMap<LogComplaintKind, LogComplaintTally>,
}

impl LogComplaints {
    /// Entry lines read in whole, bad ones included; no comments, no blank lines.
    pub fn lines_read(&self) -> u64 {
        self.lines_read
    }

    /// Returns the number of complaints of `kind`.
    pub fn count(&self, kind: LogComplaintKind) -> u64 {
        self.tallies.get(&kind).map_or(0, |tally| tally.count)
    }

    /// Returns the number of lines that were left out.
    pub fn lines_skipped(&self) -> u64 {
        self.with_treatment(ComplaintTreatment::Skipped)
            .map(|(_, tally)| tally.count)
            .sum()
    }

    /// Returns true if there is no complaint.
    pub fn is_empty(&self) -> bool {
        self.tallies.is_empty()
    }

    /// Returns the complaints kept in full, kind by kind, in the order of their lines.
    pub fn kept_in_full(&self) -> impl Iterator<Item = &LogComplaint> {
        self.tallies.values().flat_map(|tally| &tally.kept)
    }

    /// Counts one whole entry line, good or bad.
    pub(super) fn count_line(&mut self) {
        self.lines_read += 1;
    }

    /// Records a complaint, or turns it into the error that ends the reading.
    pub(super) fn record_complaint(
        &mut self,
        complaint: LogComplaint,
        reading: &WorkloadLogSettings,
    ) -> Result<(), LogError> {
        let BadLineTreatment::Skip { kept_per_kind_max } = reading.on_bad else {
            return Err(LogError::Refused {
                file: reading.file.clone(),
                complaint,
            });
        };
        let tally = self.tallies.entry(complaint.kind).or_default();
        tally.count += 1;
        if tally.kept.len() < kept_per_kind_max {
            tally.kept.push(complaint);
        }
        Ok(())
    }

    fn with_treatment(
        &self,
        treatment: ComplaintTreatment,
    ) -> impl Iterator<Item = (&LogComplaintKind, &LogComplaintTally)> {
        self.tallies
            .iter()
            .filter(move |(kind, _)| kind.treatment() == treatment)
    }
}
