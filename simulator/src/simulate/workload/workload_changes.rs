//! Notes about jobs that were left out of a workload, or changed.

use std::fmt;

use super::RawJob;
use cospan_languages::logs::LogComplaints;

/// Notes about a source of jobs: lines concern all of it, times and estimates only the jobs that
/// are used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobSourceNotes {
    /// Complaints about the log, if there was one. They include jobs larger than the grid or site,
    /// with their lines.
    pub log: Option<LogComplaints>,
    /// Jobs left out because the log has them before the chosen start.
    pub before_start: u64,
    /// Jobs left out because the log has them after the end of the simulation.
    pub after_end: u64,
    /// Jobs of the log without an estimate; it is taken to be the run time.
    pub estimates_missing: u64,
    /// Jobs of the log that ran longer than their estimate; kept as they are.
    pub estimates_too_short: u64,
    /// Jobs without run time; it is taken to be [`super::SHORTEST_RUN_TIME`].
    pub run_times_raised: u64,
}

impl JobSourceNotes {
    fn counted_kinds(&self) -> [(u64, &'static str); 5] {
        [
            (self.before_start, "submitted before the start, left out"),
            (self.after_end, "submitted after the end, left out"),
            (
                self.estimates_missing,
                "without estimate, taken to be the run time",
            ),
            (
                self.estimates_too_short,
                "longer than their estimate, to be killed then",
            ),
            (self.run_times_raised, "without run time, taken to be 1 ms"),
        ]
    }

    /// Returns true if all jobs were used as they are.
    pub fn is_empty(&self) -> bool {
        let counted = self.counted_kinds().iter().all(|(count, _)| *count == 0);
        counted && self.log.as_ref().is_none_or(LogComplaints::is_empty)
    }
}

impl JobSourceNotes {
    fn to_parts(&self) -> Vec<String> {
        let log = self.log.as_ref().map(LogComplaints::to_string);
        let counted = self
            .counted_kinds()
            .into_iter()
            .filter(|(count, _)| *count > 0);
        let counted = counted.map(|(count, what)| match count {
            1 => format!("1 job {what}"),
            _ => format!("{count} jobs {what}"),
        });
        log.into_iter().chain(counted).collect()
    }
}

impl fmt::Display for JobSourceNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join_complaints(&self.to_parts()))
    }
}

fn join_complaints(parts: &[String]) -> String {
    if parts.is_empty() {
        "nothing to complain about".into()
    } else {
        parts.join("; ")
    }
}

/// A job whose components can never run at the same time, even on an empty grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnplaceableJob {
    /// The number in the log, or from 1 if it comes from a model.
    pub job: u64,
    pub components: Vec<u32>,
}

impl UnplaceableJob {
    pub(super) fn new(job: &RawJob, components: Vec<u32>) -> Self {
        Self {
            job: job.number,
            components,
        }
    }
}

impl fmt::Display for UnplaceableJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.components.len();
        let most = self.components.first().copied().unwrap_or(0);
        let noun = if count == 1 {
            "component"
        } else {
            "components"
        };
        write!(
            f,
            "job {} needs {count} {noun} of up to {most} processors at once",
            self.job
        )?;
        f.write_str(", more than the grid has room for")
    }
}

/// Notes about jobs that were left out of a workload, or changed. The `Display` is one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadComplaints {
    /// Notes about the source.
    pub source: JobSourceNotes,
    /// Number of jobs that were left out because they can never be placed.
    pub unplaceable: u64,
    /// The first of them, as many as complaints of one kind are kept.
    pub unplaceable_kept: Vec<UnplaceableJob>,
}

impl WorkloadComplaints {
    /// Returns true if there are no problems.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty() && self.unplaceable == 0
    }
}

impl fmt::Display for WorkloadComplaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.source.to_parts();
        if self.unplaceable > 0 {
            let count = self.unplaceable;
            parts.push(format!(
                "{count} left out that no empty grid has room for{}",
                self.named_jobs()
            ));
        }
        f.write_str(&join_complaints(&parts))
    }
}

impl WorkloadComplaints {
    /// ` (job 3, 7 and 2 more)`
    fn named_jobs(&self) -> String {
        let kept: Vec<String> = self
            .unplaceable_kept
            .iter()
            .map(|kept| kept.job.to_string())
            .collect();
        let more = self.unplaceable.saturating_sub(kept.len() as u64);
        match (kept.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!(" (job {})", kept.join(", ")),
            (false, more) => format!(" (job {} and {more} more)", kept.join(", ")),
        }
    }
}
