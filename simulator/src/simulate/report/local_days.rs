//! `local.csv`: a row for each day of each site, on the experience of its own users.

use std::collections::BTreeMap;

use cospan_domain::reservation::flexco::bounded_slowdown;
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};

use super::ReportError;
use super::record::{RunRecord, SLOWDOWN_THRESHOLD};
use cospan_printing::csv_file::{CsvField, CsvFile};

const DAY: DurationMs = DurationMs::from_secs(86_400);
const HEADER: [&str; 7] = [
    "run",
    "seed",
    "site",
    "day",
    "jobs",
    "wait_s",
    "bounded_slowdown",
];

/// The experience of local users whose jobs were submitted on one day, and began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LocalUserDay {
    /// Days since the run began, from 0.
    pub day: u64,
    pub jobs: u64,
    /// Sum of their waits, milliseconds.
    pub wait_ms: u64,
    /// Sum of their bounded slowdowns.
    pub slowdown: f64,
}

impl LocalUserDay {
    /// Sums by day over jobs, each with its submission, begin and run time.
    pub fn sum_by_day(
        began: Timestamp,
        jobs: impl Iterator<Item = (Timestamp, Timestamp, DurationMs)>,
    ) -> Vec<Self> {
        let mut days: BTreeMap<u64, Self> = BTreeMap::new();
        for (submitted, start, run_time) in jobs {
            let day = submitted.since(began).0 / DAY.0;
            let none = Self {
                day,
                jobs: 0,
                wait_ms: 0,
                slowdown: 0.0,
            };
            let of = days.entry(day).or_insert(none);
            let wait = start.since(submitted);
            of.jobs += 1;
            of.wait_ms += wait.0;
            of.slowdown += bounded_slowdown(wait, run_time, SLOWDOWN_THRESHOLD);
        }
        days.into_values().collect()
    }
}

/// Writes the whole file, with a header. Waits and slowdowns are means over the jobs of the day.
///
/// # Errors
///
/// [`ReportError::Csv`] if a row cannot be written, which memory never refuses.
pub(super) fn local_csv(runs: &[RunRecord]) -> Result<Vec<u8>, ReportError> {
    let mut file = CsvFile::new();
    file.write_header(HEADER)?;
    for run in runs {
        for site in &run.sites {
            for LocalUserDay {
                day,
                jobs,
                wait_ms,
                slowdown,
            } in &site.local_days
            {
                let each = 1.0 / *jobs as f64;
                file.write_row([
                    CsvField::text(&run.label),
                    CsvField::number(run.seed),
                    CsvField::text(&site.name),
                    CsvField::number(day),
                    CsvField::number(jobs),
                    CsvField::number(format!("{:.3}", *wait_ms as f64 / 1e3 * each)),
                    CsvField::number(format!("{:.4}", slowdown * each)),
                ])?;
            }
        }
    }
    Ok(file.finish_file()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_local_users_are_summed_by_the_day_of_submission() {
        let at = |seconds: u64| Timestamp(seconds * 1_000);
        let hour = DurationMs::from_secs(3_600);
        let jobs = [
            (at(0), at(3_600), hour),
            (at(10), at(10), hour),
            (at(86_400), at(172_800), hour),
        ];
        let days = LocalUserDay::sum_by_day(at(0), jobs.into_iter());
        let day = |day, jobs, wait: u64, slowdown| {
            let wait_ms = wait * 1_000;
            LocalUserDay {
                day,
                jobs,
                wait_ms,
                slowdown,
            }
        };
        assert_eq!(days, [day(0, 2, 3_600, 3.0), day(1, 1, 86_400, 25.0)]);
    }
}
