//! Parses lines of a log in Standard Workload Format, each of which describes a job.

use cospan_domain::units::DurationMs;

use super::super::complaints::{LogComplaintKind, UnplacedComplaint};

/// The way a job ended (column 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwfJobStatus {
    /// 0: it failed.
    Failed,
    /// 1: it ran to its end.
    Completed,
    /// 5: it was cancelled, before or after its start.
    Cancelled,
    /// -1: the log does not say.
    Unknown,
}

/// A job of a log. What the log leaves open (-1) is `None`.
///
/// Run time and processors are always known: a line without them is a
/// complaint, not a job. A run time of zero is allowed; logs hold such jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwfJob {
    /// The job's number in the log, usually from 1.
    pub number: u64,
    /// Submit time, since the start of the log.
    pub submitted: DurationMs,
    /// Time in the queue of the machine that was logged.
    pub wait: Option<DurationMs>,
    /// Wall clock time between start and end.
    pub run_time: DurationMs,
    /// Processors allocated or, where the log does not say, requested; at least 1.
    pub processors: u32,
    /// Processors requested.
    pub requested_processors: Option<u32>,
    /// The user's run time estimate or limit.
    pub requested_time: Option<DurationMs>,
    /// The way the job ended.
    pub status: SwfJobStatus,
    /// The user's number.
    pub user: Option<u32>,
    /// The group's number.
    pub group: Option<u32>,
    /// The queue's number; 0 is often the interactive one.
    pub queue: Option<u32>,
    /// The partition's number.
    pub partition: Option<u32>,
    /// The number of the job this one had to wait for.
    pub preceding_job: Option<u64>,
    /// Time between the end of the preceding job and the submission of this one.
    pub think_time: Option<DurationMs>,
}

const COLUMNS: usize = 18;

/// A column that is read: its index from 0, and its name.
#[derive(Clone, Copy)]
struct SwfColumn(usize, &'static str);

const NUMBER: SwfColumn = SwfColumn(0, "job number");
const SUBMIT_TIME: SwfColumn = SwfColumn(1, "submit time");
const WAIT_TIME: SwfColumn = SwfColumn(2, "wait time");
const RUN_TIME: SwfColumn = SwfColumn(3, "run time");
const ALLOCATED: SwfColumn = SwfColumn(4, "allocated processors");
const REQUESTED: SwfColumn = SwfColumn(7, "requested processors");
const REQUESTED_TIME: SwfColumn = SwfColumn(8, "requested time");
const STATUS: SwfColumn = SwfColumn(10, "status");
const USER: SwfColumn = SwfColumn(11, "user");
const GROUP: SwfColumn = SwfColumn(12, "group");
const QUEUE: SwfColumn = SwfColumn(14, "queue");
const PARTITION: SwfColumn = SwfColumn(15, "partition");
const PRECEDING_JOB: SwfColumn = SwfColumn(16, "preceding job");
const THINK_TIME: SwfColumn = SwfColumn(17, "think time");

/// Parses a line that is neither blank nor a comment. Unused columns (average processor time,
/// memory, executable) are ignored.
pub(super) fn parse_job_line(line: &str) -> Result<SwfJob, UnplacedComplaint> {
    let row = SwfRow::split_columns(line)?;
    // The status comes first, because a burst has no submit time and its run time is only a part.
    let status = row.parse_status()?;
    let number = row.parse_whole(NUMBER)?;
    Ok(SwfJob {
        number: number.ok_or_else(|| row.make_complaint(LogComplaintKind::OutOfRange, NUMBER))?,
        submitted: row.require_duration(SUBMIT_TIME, LogComplaintKind::UnknownTime)?,
        wait: row.parse_duration(WAIT_TIME)?,
        run_time: row.require_duration(RUN_TIME, LogComplaintKind::UnknownRunTime)?,
        processors: row.parse_processors()?,
        requested_processors: row.parse_count(REQUESTED)?,
        requested_time: row.parse_duration(REQUESTED_TIME)?,
        status,
        user: row.parse_count(USER)?,
        group: row.parse_count(GROUP)?,
        queue: row.parse_count(QUEUE)?,
        partition: row.parse_count(PARTITION)?,
        preceding_job: row.parse_whole(PRECEDING_JOB)?,
        think_time: row.parse_duration(THINK_TIME)?,
    })
}

struct SwfRow<'a>([&'a str; COLUMNS]);

impl<'a> SwfRow<'a> {
    fn split_columns(line: &'a str) -> Result<Self, UnplacedComplaint> {
        let mut columns = [""; COLUMNS];
        let mut found = 0;
        for word in line.split_ascii_whitespace() {
            if let Some(column) = columns.get_mut(found) {
                *column = word;
            }
            found += 1;
        }
        if found != COLUMNS {
            let detail = format!("{found} instead of {COLUMNS}");
            return Err(UnplacedComplaint::new(
                LogComplaintKind::ColumnCount,
                detail,
            ));
        }
        Ok(Self(columns))
    }

    fn column_text(&self, column: SwfColumn) -> &'a str {
        self.0[column.0]
    }

    fn make_complaint(&self, kind: LogComplaintKind, column: SwfColumn) -> UnplacedComplaint {
        UnplacedComplaint::new(kind, format!("{} {:?}", column.1, self.column_text(column)))
    }

    fn parse_status(&self) -> Result<SwfJobStatus, UnplacedComplaint> {
        match self.parse_whole(STATUS)? {
            None => Ok(SwfJobStatus::Unknown),
            Some(0) => Ok(SwfJobStatus::Failed),
            Some(1) => Ok(SwfJobStatus::Completed),
            Some(2..=4) => Err(self.make_complaint(LogComplaintKind::PartialExecution, STATUS)),
            Some(5) => Ok(SwfJobStatus::Cancelled),
            Some(_) => Err(self.make_complaint(LogComplaintKind::OutOfRange, STATUS)),
        }
    }

    fn parse_processors(&self) -> Result<u32, UnplacedComplaint> {
        let allocated = self.parse_count(ALLOCATED)?;
        let column = if allocated.is_some() {
            ALLOCATED
        } else {
            REQUESTED
        };
        match self.parse_count(column)? {
            None => Err(self.make_complaint(LogComplaintKind::UnknownProcessors, column)),
            Some(0) => Err(self.make_complaint(LogComplaintKind::ZeroProcessors, column)),
            Some(processors) => Ok(processors),
        }
    }

    fn require_duration(
        &self,
        column: SwfColumn,
        kind: LogComplaintKind,
    ) -> Result<DurationMs, UnplacedComplaint> {
        self.parse_duration(column)?
            .ok_or_else(|| self.make_complaint(kind, column))
    }

    /// Parses a whole number from 0, or `None` for -1.
    fn parse_whole(&self, column: SwfColumn) -> Result<Option<u64>, UnplacedComplaint> {
        self.parse_whole_number(self.column_text(column), column)
    }

    fn parse_count(&self, column: SwfColumn) -> Result<Option<u32>, UnplacedComplaint> {
        let number = self.parse_whole(column)?.map(u32::try_from).transpose();
        number.map_err(|_| self.make_complaint(LogComplaintKind::OutOfRange, column))
    }

    /// Parses seconds, whole or with a decimal fraction, of which milliseconds are kept.
    fn parse_duration(&self, column: SwfColumn) -> Result<Option<DurationMs>, UnplacedComplaint> {
        let Some((secs, fraction)) = self.column_text(column).split_once('.') else {
            return Ok(self.parse_whole(column)?.map(DurationMs::from_secs));
        };
        if !is_digits(fraction) {
            return Err(self.make_complaint(LogComplaintKind::NotANumber, column));
        }
        let thousandths = fraction.bytes().chain(*b"00").take(3);
        let ms = thousandths.fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0'));
        let secs = self.parse_whole_number(secs, column)?;
        Ok(secs.map(|secs| DurationMs::from_secs(secs) + DurationMs(ms)))
    }

    /// Parses `text`, which is the value of `column` or its part before the decimal point.
    fn parse_whole_number(
        &self,
        text: &str,
        column: SwfColumn,
    ) -> Result<Option<u64>, UnplacedComplaint> {
        if text == "-1" {
            return Ok(None);
        }
        if !is_digits(text.strip_prefix('-').unwrap_or(text)) {
            return Err(self.make_complaint(LogComplaintKind::NotANumber, column));
        }
        let number = text
            .parse()
            .map_err(|_| self.make_complaint(LogComplaintKind::OutOfRange, column))?;
        Ok(Some(number))
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
