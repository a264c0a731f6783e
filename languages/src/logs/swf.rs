//! Job logs in Standard Workload Format, version 2.2 (Chapin and others,
//! "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers",
//! JSSPP 1999): 18 columns a job, -1 for what is not known, and a header of
//! comments `; Key: value`.

mod header;
mod row;
#[cfg(test)]
mod tests;

use std::io::Read;

use cospan_domain::units::DurationMs;

use super::complaints::{LogComplaintKind, LogComplaints, UnplacedComplaint};
use super::source::{LogLines, NextLogLine};
use super::{LogError, WorkloadLogSettings};

pub use header::SwfHeader;
pub use row::{SwfJob, SwfJobStatus};

/// A log held in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwfLog {
    /// Facts from the comments.
    pub header: SwfHeader,
    /// The jobs by submit time; those submitted at once stay in the order of
    /// the log.
    pub jobs: Vec<SwfJob>,
    pub complaints: LogComplaints,
}

/// Reads a whole log and sorts it by submit time.
///
/// `processors_max` is the size of the grid the jobs are meant for, if larger
/// jobs are to be complained about.
///
/// # Errors
/// As [`SwfReader`].
pub fn read_swf(
    source: impl Read,
    reading: WorkloadLogSettings,
    processors_max: Option<u32>,
) -> Result<SwfLog, LogError> {
    let mut reader = SwfReader::new(source, reading, processors_max)?;
    let mut jobs = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    jobs.sort_by_key(|job| job.submitted);
    Ok(SwfLog {
        header: reader.header,
        jobs,
        complaints: reader.complaints,
    })
}

/// Reads a log job by job, in the order of its lines.
///
/// The iterator ends at the end of the log or after the first error. Jobs may
/// go back in time (each such job is complained about); [`read_swf`] sorts.
///
/// # Errors
/// [`LogError::Unreadable`] if the source fails, [`LogError::LineTooLong`],
/// [`LogError::Refused`] if asked for, and at the end [`LogError::Empty`] if
/// there was no usable job.
pub struct SwfReader<'a> {
    lines: LogLines<'a>,
    reading: WorkloadLogSettings,
    processors_max: Option<u32>,
    header: SwfHeader,
    complaints: LogComplaints,
    last: Option<SwfJobTime>,
    is_done: bool,
}

/// Number and submit time of a job, to compare its successor with.
struct SwfJobTime {
    number: u64,
    submitted: DurationMs,
}

impl<'a> SwfReader<'a> {
    /// Starts a reading: reads the comments before the first job.
    ///
    /// # Errors
    /// [`LogError::Unreadable`] or [`LogError::LineTooLong`].
    pub fn new(
        source: impl Read + 'a,
        reading: WorkloadLogSettings,
        processors_max: Option<u32>,
    ) -> Result<Self, LogError> {
        let lines = LogLines::new(source, &reading)?;
        let mut reader = Self {
            lines,
            reading,
            processors_max,
            header: SwfHeader::default(),
            complaints: LogComplaints::default(),
            last: None,
            is_done: false,
        };
        reader.next_job_line()?;
        reader.lines.step_back();
        Ok(reader)
    }

    /// Returns the facts from the comments read so far; normally all of them stand before the first
    /// job.
    pub fn header(&self) -> &SwfHeader {
        &self.header
    }

    /// Returns the complaints so far.
    pub fn complaints(&self) -> &LogComplaints {
        &self.complaints
    }

    /// Goes to the next job line, past comments and blank lines.
    fn next_job_line(&mut self) -> Result<NextLogLine, LogError> {
        loop {
            let found = self.lines.next_line(&self.reading)?;
            let NextLogLine::Line { .. } = found else {
                return Ok(found);
            };
            let text = self.lines.line_text();
            match text.strip_prefix(';') {
                Some(comment) => self.header.read_comment(comment),
                None if text.is_empty() => {}
                None => return Ok(found),
            }
        }
    }

    fn next_job(&mut self) -> Result<Option<SwfJob>, LogError> {
        loop {
            let is_ended = match self.next_job_line()? {
                NextLogLine::Line { ended } => ended,
                NextLogLine::Cut => {
                    self.record_fault(UnplacedComplaint::new(
                        LogComplaintKind::Truncated,
                        "compressed data break off",
                    ))?;
                    return self.check_end();
                }
                NextLogLine::End => return self.check_end(),
            };
            match row::parse_job_line(&self.lines.line_text()).and_then(|job| self.check_size(job))
            {
                Err(fault) if !is_ended && may_be_half_a_line(&fault) => {
                    let detail = format!("the last line breaks off: {}", fault.detail);
                    self.record_fault(UnplacedComplaint::new(LogComplaintKind::Truncated, detail))?;
                }
                Err(fault) => {
                    self.complaints.count_line();
                    self.record_fault(fault)?;
                }
                Ok(job) => {
                    self.complaints.count_line();
                    self.check_order(&job)?;
                    return Ok(Some(job));
                }
            }
        }
    }

    fn check_size(&self, job: SwfJob) -> Result<SwfJob, UnplacedComplaint> {
        match self.processors_max {
            Some(max) if job.processors > max => {
                let detail = format!("{} instead of {max}", job.processors);
                Err(UnplacedComplaint::new(
                    LogComplaintKind::TooManyProcessors,
                    detail,
                ))
            }
            _ => Ok(job),
        }
    }

    /// Compares a good job with its predecessor. Not with the latest so far: one job far in the
    /// future would then make all later ones wrong.
    fn check_order(&mut self, job: &SwfJob) -> Result<(), LogError> {
        let SwfJob {
            number, submitted, ..
        } = *job;
        let earlier_than = self.last.replace(SwfJobTime { number, submitted });
        match earlier_than.filter(|last| submitted < last.submitted) {
            None => Ok(()),
            Some(last) => {
                let detail = format!(
                    "job {number} was submitted at {submitted}, job {} before it at {}",
                    last.number, last.submitted
                );
                self.record_fault(UnplacedComplaint::new(LogComplaintKind::BackInTime, detail))
            }
        }
    }

    fn check_end(&mut self) -> Result<Option<SwfJob>, LogError> {
        let found = self.complaints.lines_read();
        if let Some(announced) = self.header.jobs_announced().filter(|jobs| found < *jobs) {
            let detail = format!("{found} instead of {announced}");
            self.record_fault(UnplacedComplaint::new(
                LogComplaintKind::FewerThanAnnounced,
                detail,
            ))?;
        }
        if self.last.is_none() {
            let file = self.reading.file.clone();
            let summary = self.complaints.to_string();
            return Err(LogError::Empty { file, summary });
        }
        Ok(None)
    }

    fn record_fault(&mut self, fault: UnplacedComplaint) -> Result<(), LogError> {
        self.complaints
            .record_complaint(fault.at_line(self.lines.line_number()), &self.reading)
    }
}

/// Returns true for a fault that half a line would show.
fn may_be_half_a_line(fault: &UnplacedComplaint) -> bool {
    matches!(
        fault.kind,
        LogComplaintKind::ColumnCount | LogComplaintKind::NotANumber
    )
}

impl Iterator for SwfReader<'_> {
    type Item = Result<SwfJob, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.next_job().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}
