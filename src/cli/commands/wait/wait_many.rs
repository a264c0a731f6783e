//! Many jobs at once: they are read page by page, and one line shows their progress.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cospan_domain::units::DurationMs;

use super::{JobWaiter, POLL, WaitOutcome, format_outcome};
use crate::cli::context::PAGE;
use crate::cli::print::{color_state, print_note};
use cospan_api::v1::job::{JobRow, PhaseReport};
use cospan_client::{ClientError, JobFilter};
use cospan_printing::terminal;

/// More jobs than this are reported together.
pub(super) const MANY: usize = 10;
/// If more jobs than this did not finish, only their number is printed.
const NAMED: usize = 10;
/// Time between two lines where nobody watches.
const LINE: Duration = Duration::from_secs(30);

/// The numbers of jobs by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PhaseCounts {
    finished: usize,
    failed: usize,
    cancelled: usize,
    running: usize,
    waiting: usize,
}

impl PhaseCounts {
    fn of<'p>(phases: impl Iterator<Item = &'p str>) -> Self {
        let mut counts = Self::default();
        for phase in phases {
            *match phase {
                "finished" => &mut counts.finished,
                "failed" => &mut counts.failed,
                "cancelled" => &mut counts.cancelled,
                "starting" | "running" | "collecting" | "aborting" => &mut counts.running,
                _ => &mut counts.waiting,
            } += 1;
        }
        counts
    }

    fn count_ended(self) -> usize {
        self.finished + self.failed + self.cancelled
    }

    /// Formats the numbers of jobs that are done, running and failed, the pace, and the expected
    /// end, given the number of jobs that ended in this time.
    fn counts_line(self, ended_now: usize, within: Duration) -> String {
        let PhaseCounts {
            finished,
            failed,
            cancelled,
            running,
            waiting,
        } = self;
        let total = self.count_ended() + running + waiting;
        let mut line = format!("{finished} of {total} done, {running} running, {failed} failed");
        if cancelled > 0 {
            line.push_str(&format!(", {cancelled} cancelled"));
        }
        line.push_str(&format!(", {waiting} waiting"));
        let rate = ended_now as f64 / within.as_secs_f64().max(0.001);
        if ended_now > 0 && self.count_ended() < total {
            let seconds = ((total - self.count_ended()) as f64 / rate).round() as u64;
            let left = DurationMs::from_secs(seconds.max(1));
            line.push_str(&format!("; {}, about {left} left", format_pace(rate)));
        }
        line
    }
}

/// Formats a pace per second, minute or hour.
fn format_pace(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1.0 => format!("{rate:.1} a second"),
        rate if rate * 60.0 >= 1.0 => format!("{:.1} a minute", rate * 60.0),
        rate => format!("{:.1} an hour", rate * 3_600.0),
    }
}

/// Prints the progress of the jobs now and then.
pub(super) struct WaitProgress {
    total: usize,
    terminal: bool,
    begun: Instant,
    told: Option<Instant>,
    last: String,
    /// Number of jobs that had ended at the first look.
    before: Option<usize>,
    /// Duration of a look.
    look: Duration,
}

impl WaitProgress {
    pub(super) fn new(total: usize) -> Self {
        Self {
            total,
            terminal: terminal::has_live_errors(),
            begun: Instant::now(),
            told: None,
            last: String::new(),
            before: None,
            look: Duration::ZERO,
        }
    }

    /// Returns the time until the next look: looks take only a small part of a server's time.
    pub(super) fn poll_pause(&self) -> Duration {
        POLL.max(self.look * 4)
    }

    fn print_counts(&mut self, counts: PhaseCounts) {
        let before = *self.before.get_or_insert(counts.count_ended());
        let line = counts.counts_line(counts.count_ended() - before, self.begun.elapsed());
        let over = counts.count_ended() == self.total;
        let is_due = self.told.is_none_or(|told| told.elapsed() >= LINE);
        if self.terminal {
            let end = if over { "\n" } else { "" };
            terminal::print_error(&format!("{}{line}{end}", terminal::clear_line()));
        } else if line != self.last && (is_due || over) {
            print_note(&line);
            self.told = Some(Instant::now());
            self.last = line;
        }
    }
}

impl JobWaiter<'_> {
    /// Reads jobs page by page; a single job only if it is in no list, or has failed.
    pub(super) fn poll_many_jobs(&mut self, ids: &[u64]) -> Result<(), ClientError> {
        let begun = Instant::now();
        let mut missing: BTreeSet<u64> = ids.iter().copied().collect();
        let first = missing.first().copied();
        let last = missing.last().copied();
        let after = last.and_then(|last| last.checked_add(1));
        let mut filter = JobFilter {
            limit: PAGE,
            after,
            ..JobFilter::default()
        };
        loop {
            let page = self.client.list_jobs(&filter)?;
            for row in page.jobs.iter().filter(|row| missing.remove(&row.id)) {
                self.apply_row(row)?;
            }
            filter.after = page
                .next
                .filter(|next| first.is_some_and(|first| *next > first));
            if filter.after.is_none() || missing.is_empty() {
                break;
            }
        }
        for id in missing {
            let phase = self.client.phase(id)?;
            self.phases.insert(id, phase);
        }
        let counts = PhaseCounts::of(self.phases.values().map(|phase| phase.state.as_str()));
        if let Some(progress) = &mut self.many {
            progress.look = begun.elapsed();
            progress.print_counts(counts);
        }
        Ok(())
    }

    fn apply_row(&mut self, row: &JobRow) -> Result<(), ClientError> {
        let phase = match row.state.as_str() {
            // A row does not give the reason.
            "failed" => self.client.phase(row.id)?,
            _ => PhaseReport {
                state: row.state.clone(),
                since: row.since,
                not_before: None,
                start_estimate: None,
                reason: None,
                next: None,
                by: None,
            },
        };
        self.phases.insert(row.id, phase);
        Ok(())
    }
}

/// Formats the numbers of jobs by their end, and names those that did not finish.
pub(super) fn format_outcomes(outcomes: &[WaitOutcome]) -> String {
    let ended = ["finished", "failed", "cancelled"].map(|name| {
        let in_state = outcomes.iter().filter(|outcome| outcome.state == name);
        (name, in_state.count())
    });
    let others = outcomes.len() - ended.iter().map(|(_, count)| count).sum::<usize>();
    let mut parts: Vec<String> = ended
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {}", color_state(name)))
        .collect();
    if others > 0 {
        parts.push(format!("{others} not ended"));
    }
    let mut text = format!("{} jobs: {}\n", outcomes.len(), parts.join(", "));
    let bad: Vec<&WaitOutcome> = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.state.as_str(), "failed" | "cancelled"))
        .collect();
    bad.iter()
        .take(NAMED)
        .for_each(|outcome| text.push_str(&format_outcome(outcome)));
    if bad.len() > NAMED {
        let more = bad.len() - NAMED;
        text.push_str(&format!(
            "and {more} more; see: cospan list --all --state failed\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_how_far_a_sweep_is_how_fast_and_how_long_yet() {
        let counts = PhaseCounts {
            finished: 380,
            failed: 20,
            cancelled: 0,
            running: 16,
            waiting: 584,
        };
        assert_eq!(
            counts.counts_line(200, Duration::from_secs(100)),
            "380 of 1000 done, 16 running, 20 failed, 584 waiting; 2.0 a second, about 5m00s left"
        );
        // Nothing ended yet: nobody knows how fast it goes.
        assert!(
            counts
                .counts_line(0, Duration::from_secs(100))
                .ends_with("584 waiting")
        );
        let over = PhaseCounts {
            finished: 9,
            cancelled: 3,
            ..PhaseCounts::default()
        };
        let line = over.counts_line(12, Duration::from_secs(6));
        assert_eq!(
            line,
            "9 of 12 done, 0 running, 0 failed, 3 cancelled, 0 waiting"
        );
    }

    #[test]
    fn a_slow_sweep_is_told_by_the_hour() {
        assert_eq!(format_pace(3.25), "3.2 a second");
        assert_eq!(format_pace(0.5), "30.0 a minute");
        assert_eq!(format_pace(0.01), "36.0 an hour");
    }

    #[test]
    fn of_many_jobs_those_that_did_not_finish_are_named_but_not_all() {
        let outcomes: Vec<WaitOutcome> = (1..=100)
            .map(|id: u64| WaitOutcome {
                id,
                state: if id > 85 { "failed" } else { "finished" }.into(),
                reason: (id > 85).then(|| "exit code 3".into()),
                last_words: Vec::new(),
            })
            .collect();
        let text = terminal::without_styles(&format_outcomes(&outcomes));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "100 jobs: 85 finished, 15 failed");
        assert_eq!((lines.len(), lines[1]), (12, "job 86 failed: exit code 3"));
        assert!(lines[11].starts_with("and 5 more"));
    }
}
