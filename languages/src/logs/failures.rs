//! Node failure logs in the form Los Alamos National Laboratory released them
//! (LA-UR-05-7318, "All systems failure/interrupt data 1996-2005"): comma
//! separated, the columns named in the first line, ordered by system and node.
//!
//! Deliberately absent: the install and production dates (half of them are
//! words), and the free text after each cause.

#[cfg(test)]
mod tests;
mod wall_clock;

use std::io::{self, Read};

use cospan_domain::units::Timestamp;
use csv::{ByteRecord, Reader, ReaderBuilder, Trim};

use super::complaints::{LogComplaintKind, LogComplaints, UnplacedComplaint};
use super::source::{LineEndTracker, decode_source, is_cut_off_error, unreadable_error};
use super::{LogError, WorkloadLogSettings};

/// The recorded cause of a failure; these are columns of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCause {
    /// Power, cooling, the building.
    Facilities,
    /// A part of the node.
    Hardware,
    /// Somebody's mistake.
    HumanError,
    /// The network.
    Network,
    /// The cause was investigated and not found.
    Undetermined,
    /// The operating system or other software.
    Software,
    /// The log names none.
    NotRecorded,
}

/// A failure of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedFailure {
    /// The machine's number in the log, 2 to 24.
    pub system: u32,
    /// The node's number within its machine, from 0.
    pub node: u32,
    /// When it failed: the local wall clock read as if it were UTC, to the minute.
    pub started: Timestamp,
    /// When it was repaired; not before `started`.
    pub repaired: Timestamp,
    /// The recorded cause; the first if several are named.
    pub cause: FailureCause,
}

/// Reads a failure log failure by failure, in the order of its lines: by
/// system and node, not by time.
///
/// # Errors
/// [`LogError::Unreadable`] if the source fails, [`LogError::Refused`] if asked
/// for, and at the end [`LogError::Empty`] if there was no usable failure.
pub struct FailureLogReader<'a> {
    rows: Reader<LineEndTracker<'a>>,
    row: ByteRecord,
    columns: FailureColumns,
    system: Option<u32>,
    reading: WorkloadLogSettings,
    complaints: LogComplaints,
    found: u64,
    is_done: bool,
}

impl<'a> FailureLogReader<'a> {
    /// Starts a reading. Rows of other machines than `system`, if given, are neither read nor
    /// complained about.
    ///
    /// # Errors
    /// [`LogError::Unreadable`], or [`LogError::ColumnMissing`] if the first
    /// line does not name the columns needed.
    pub fn new(
        source: impl Read + 'a,
        reading: WorkloadLogSettings,
        system: Option<u32>,
    ) -> Result<Self, LogError> {
        let plain =
            decode_source(source).map_err(|source| unreadable_error(&reading, 0, source))?;
        let mut rows = ReaderBuilder::new()
            .flexible(true)
            .trim(Trim::All)
            .from_reader(LineEndTracker::new(plain));
        let names = rows
            .byte_headers()
            .map_err(|error| unreadable_error(&reading, 0, to_io_error(error)))?;
        let columns =
            FailureColumns::find_columns(names).map_err(|column| LogError::ColumnMissing {
                file: reading.file.clone(),
                column,
            })?;
        let row = ByteRecord::new();
        let complaints = LogComplaints::default();
        Ok(Self {
            rows,
            row,
            columns,
            system,
            reading,
            complaints,
            found: 0,
            is_done: false,
        })
    }

    /// Returns the complaints so far.
    pub fn complaints(&self) -> &LogComplaints {
        &self.complaints
    }

    fn next_failure(&mut self) -> Result<Option<LoggedFailure>, LogError> {
        while self.next_row()? {
            let is_ended = !self.rows.get_ref().is_done_without_line_end();
            match self.columns.parse_row(&self.row, self.system) {
                Ok(None) => {}
                Ok(Some(failure)) => {
                    self.complaints.count_line();
                    self.found += 1;
                    return Ok(Some(failure));
                }
                Err(fault) if !is_ended && fault.kind == LogComplaintKind::ColumnCount => {
                    let detail = format!("the last line breaks off: {}", fault.detail);
                    self.record_fault(UnplacedComplaint::new(LogComplaintKind::Truncated, detail))?;
                }
                Err(fault) => {
                    self.complaints.count_line();
                    self.record_fault(fault)?;
                }
            }
        }
        if self.found == 0 {
            let file = self.reading.file.clone();
            let summary = self.complaints.to_string();
            return Err(LogError::Empty { file, summary });
        }
        Ok(None)
    }

    /// Reads the next row. Returns false at the end of the log, and where a compressed stream
    /// breaks off.
    fn next_row(&mut self) -> Result<bool, LogError> {
        let error = match self.rows.read_byte_record(&mut self.row) {
            Ok(is_row) => return Ok(is_row),
            Err(error) => to_io_error(error),
        };
        if !is_cut_off_error(&error) {
            return Err(unreadable_error(&self.reading, self.line_number(), error));
        }
        self.record_fault(UnplacedComplaint::new(
            LogComplaintKind::Truncated,
            "compressed data break off",
        ))?;
        Ok(false)
    }

    fn record_fault(&mut self, fault: UnplacedComplaint) -> Result<(), LogError> {
        self.complaints
            .record_complaint(fault.at_line(self.line_number()), &self.reading)
    }

    fn line_number(&self) -> u64 {
        self.row.position().map_or(1, csv::Position::line)
    }
}

impl Iterator for FailureLogReader<'_> {
    type Item = Result<LoggedFailure, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.next_failure().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Converts the error and keeps its kind, which the plain conversion loses.
fn to_io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

const SYSTEM: &str = "System";
const NODE: &str = "nodenumz";
const STARTED: &str = "Prob Started";
const REPAIRED: &str = "Prob Fixed";
const CAUSES: [(&str, FailureCause); 6] = [
    ("Facilities", FailureCause::Facilities),
    ("Hardware", FailureCause::Hardware),
    ("Human Error", FailureCause::HumanError),
    ("Network", FailureCause::Network),
    ("Undetermined", FailureCause::Undetermined),
    ("Software", FailureCause::Software),
];

/// A column that is read: its index from 0, and its name.
#[derive(Clone, Copy)]
struct FailureColumn(usize, &'static str);

/// Indices of the columns needed.
struct FailureColumns {
    count: usize,
    system: FailureColumn,
    node: FailureColumn,
    started: FailureColumn,
    repaired: FailureColumn,
    causes: [(FailureColumn, FailureCause); 6],
}

impl FailureColumns {
    /// Finds the columns. The error is the name of the missing column.
    fn find_columns(names: &ByteRecord) -> Result<Self, &'static str> {
        let mut causes = [(FailureColumn(0, ""), FailureCause::NotRecorded); 6];
        for (cause, (name, meaning)) in causes.iter_mut().zip(CAUSES) {
            *cause = (find_column(names, name)?, meaning);
        }
        Ok(Self {
            count: names.len(),
            system: find_column(names, SYSTEM)?,
            node: find_column(names, NODE)?,
            started: find_column(names, STARTED)?,
            repaired: find_column(names, REPAIRED)?,
            causes,
        })
    }

    /// Parses a row; `None` for a row of another machine.
    fn parse_row(
        &self,
        row: &ByteRecord,
        of: Option<u32>,
    ) -> Result<Option<LoggedFailure>, UnplacedComplaint> {
        if row.len() != self.count {
            let detail = format!("{} instead of {}", row.len(), self.count);
            return Err(UnplacedComplaint::new(
                LogComplaintKind::ColumnCount,
                detail,
            ));
        }
        let system = parse_number(row, self.system)?;
        if of.is_some_and(|wanted| wanted != system) {
            return Ok(None);
        }
        let node = parse_number(row, self.node)?;
        let started = parse_date(row, self.started)?;
        let repaired = parse_date(row, self.repaired)?;
        if repaired < started {
            let dates = (
                column_text(row, self.repaired),
                column_text(row, self.started),
            );
            let detail = format!("repaired {}, started {}", dates.0, dates.1);
            return Err(UnplacedComplaint::new(
                LogComplaintKind::EndBeforeStart,
                detail,
            ));
        }
        Ok(Some(LoggedFailure {
            system,
            node,
            started,
            repaired,
            cause: self.parse_cause(row),
        }))
    }

    fn parse_cause(&self, row: &ByteRecord) -> FailureCause {
        let named = self
            .causes
            .iter()
            .find(|(column, _)| !column_text(row, *column).is_empty());
        named.map_or(FailureCause::NotRecorded, |(_, cause)| *cause)
    }
}

/// The error is the name of the column missing.
fn find_column(names: &ByteRecord, name: &'static str) -> Result<FailureColumn, &'static str> {
    let place = names.iter().position(|found| found == name.as_bytes());
    place.map(|place| FailureColumn(place, name)).ok_or(name)
}

fn column_text(row: &ByteRecord, column: FailureColumn) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(row.get(column.0).unwrap_or_default())
}

fn parse_number(row: &ByteRecord, column: FailureColumn) -> Result<u32, UnplacedComplaint> {
    let text = column_text(row, column);
    text.parse().map_err(|_| {
        let detail = format!("{} {text:?}", column.1);
        UnplacedComplaint::new(LogComplaintKind::NotANumber, detail)
    })
}

fn parse_date(row: &ByteRecord, column: FailureColumn) -> Result<Timestamp, UnplacedComplaint> {
    let text = column_text(row, column);
    if text.is_empty() {
        return Err(UnplacedComplaint::new(
            LogComplaintKind::UnknownTime,
            column.1,
        ));
    }
    wall_clock::parse_wall_clock(&text).ok_or_else(|| {
        let detail = format!("{} {text:?}", column.1);
        UnplacedComplaint::new(LogComplaintKind::NotADate, detail)
    })
}
