//! Slurm's accounting, which keeps jobs that Slurm itself does not know any more.
//!
//! Slurm forgets a job some minutes after its end. If we ask later than that, and find no record of
//! the wrapper, the accounts say whether it was preempted, its node failed, or its time was over.
//! Each attempt is asked about once, unless it runs by the accounts; and if nobody keeps accounts we
//! do not ask again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cospan_domain::ids::AttemptTag;
use tokio::time::Instant;

use super::SlurmSite;
use super::attempt_numbers::AttemptNumbers;
use super::queue::SlurmJob;
use crate::agent::{SiteAgentAnswer, SiteAgentRequest};
use crate::attempt_end::BatchJobState;

/// The most attempts that one query names.
const ASKED_MAX: usize = 64;

/// The time after which a job that runs by the accounts is asked about again.
const RUNS_FOR: Duration = Duration::from_secs(30);

/// The seconds after its limit in which a job may still run by the accounts. Of one that a killed
/// controller forgot they hear nothing any more, and it would run for ever.
const OVER_LIMIT_S: u64 = 600;

/// The attempts asked about, and the jobs found.
#[derive(Debug, Default)]
pub(super) struct SlurmAccountingCache {
    /// True if nobody keeps accounts.
    unkept: bool,
    asked: BTreeMap<AttemptTag, Instant>,
    kept: BTreeMap<AttemptTag, SlurmJob>,
}

impl SlurmAccountingCache {
    /// Forgets an attempt that is removed.
    pub(super) fn forget_tag(&mut self, tag: AttemptTag) {
        self.asked.remove(&tag);
        self.kept.remove(&tag);
    }

    /// Returns true if they say something of an attempt.
    pub(super) fn knows(&self, tag: AttemptTag) -> bool {
        self.kept.contains_key(&tag)
    }

    fn is_to_be_asked(&self, tag: AttemptTag) -> bool {
        let Some(asked_at) = self.asked.get(&tag) else {
            return !self.unkept;
        };
        let runs = self.kept.get(&tag).is_some_and(SlurmJob::is_active);
        runs && asked_at.elapsed() >= RUNS_FOR
    }

    /// Notes an answer about these attempts.
    fn note_answer(&mut self, asked: &[AttemptTag], kept: Vec<SlurmJob>, unkept: bool) {
        self.unkept = unkept;
        let now = Instant::now();
        for tag in asked {
            self.asked.insert(*tag, now);
            self.kept.remove(tag);
        }
        for job in kept {
            let known = self.kept.get(&job.tag);
            if known.is_none_or(|known| known.submitted_at < job.submitted_at) {
                self.kept.insert(job.tag, job);
            }
        }
    }
}

impl SlurmSite {
    /// Returns what the accounts say of these attempts, which Slurm does not know and which
    /// recorded no end. Accounts that do not answer are no reason to know nothing of the rest.
    pub(super) async fn ask_accounting(&self, lost: &[AttemptTag]) -> Vec<SlurmJob> {
        let ask: Vec<AttemptTag> = {
            let accounts = &self.lock_reports().accounts;
            let new = lost.iter().filter(|tag| accounts.is_to_be_asked(**tag));
            new.copied().take(ASKED_MAX).collect()
        };
        if !ask.is_empty() {
            let words: Vec<String> = ask.iter().map(AttemptTag::to_string).collect();
            let words = ["accounts"]
                .into_iter()
                .chain(words.iter().map(String::as_str));
            let words: Vec<&str> = words.collect();
            if let Ok(answer) = self
                .agent
                .send_request(&words, SiteAgentRequest::default())
                .await
            {
                let kept = self.read_accounts(&answer, &ask);
                let unkept = answer.values_of("unkept").next().is_some();
                self.lock_reports().accounts.note_answer(&ask, kept, unkept);
            }
        }
        let heard = self.lock_reports();
        lost.iter()
            .filter_map(|tag| heard.accounts.kept.get(tag).cloned())
            .collect()
    }
}

impl SlurmSite {
    fn read_accounts(&self, answer: &SiteAgentAnswer, asked: &[AttemptTag]) -> Vec<SlurmJob> {
        let root = self.config.root.to_str().unwrap_or_default();
        let asked: BTreeSet<AttemptTag> = asked.iter().copied().collect();
        let numbers = &self.lock_reports().numbers;
        answer
            .values_of("kept")
            .filter_map(|line| parse_account_line(line, root, numbers))
            .filter(|job| asked.contains(&job.tag))
            .collect()
    }
}

/// Parses a line of `sacct`: number, state, processors, times of submission, start and end, seconds
/// that it ran, minutes that it may run, directory, name. `None` if it is another's, or neither over
/// nor running.
fn parse_account_line(line: &str, root: &str, numbers: &AttemptNumbers) -> Option<SlurmJob> {
    let mut fields = line.splitn(10, '|');
    let number = fields.next()?;
    let state = fields.next()?;
    let processors = fields.next()?;
    let submitted = fields.next()?;
    let start = fields.next()?;
    let end = fields.next()?;
    let ran_s: Option<u64> = fields.next()?.parse().ok();
    let limit_min: Option<u64> = fields.next()?.parse().ok();
    let directory = fields.next()?;
    let name = fields.next()?;
    // "CANCELLED by 1000"
    let state = state.split(' ').next()?;
    // A job's comment is not always kept.
    let line =
        format!("{number}|{state}|None|{processors}|{submitted}|{start}|{end}|{directory}|{name}|");
    let job = SlurmJob::parse_job(&line, root, numbers)?;
    let is_overdue = match (ran_s, limit_min) {
        (Some(ran_s), Some(limit_min)) => {
            ran_s > limit_min.saturating_mul(60).saturating_add(OVER_LIMIT_S)
        }
        _ => false,
    };
    let counts = match job.word {
        BatchJobState::Running | BatchJobState::Completing => !is_overdue,
        _ => !job.is_active(),
    };
    counts.then_some(job)
}

#[cfg(test)]
mod tests {
    use cospan_domain::units::Timestamp;

    use super::*;

    const TAG: &str = "cabcdefgh-7-0-1";

    fn parse_state(line: &str) -> Option<BatchJobState> {
        let mut numbers = AttemptNumbers::default();
        numbers.note_number("cabcdefgh-9-0-1".parse().unwrap(), "39", Timestamp(1));
        parse_account_line(line, "/r", &numbers).map(|job| job.word)
    }

    fn account_line(number: u32, state: &str, ran_s: u64, name: &str) -> String {
        format!("{number}|{state}|8|1795567550|1795567551|1795567559|{ran_s}|10|/r|{name}")
    }

    #[test]
    fn accounts_tell_how_an_attempt_ended() {
        for (state, word) in [
            ("PREEMPTED", BatchJobState::Preempted),
            ("NODE_FAIL", BatchJobState::NodeFailed),
            ("TIMEOUT", BatchJobState::TimeLimit),
            ("CANCELLED by 1000", BatchJobState::Cancelled),
        ] {
            let line = account_line(31, state, 8, &format!("wave.{TAG}"));
            assert_eq!(parse_state(&line), Some(word), "{state}");
            assert_eq!(
                parse_state(&account_line(39, state, 8, "renamed")),
                Some(word),
                "{state}"
            );
        }
    }

    #[test]
    fn accounts_tell_what_runs_until_it_would_be_long_over() {
        let runs = |ran_s| parse_state(&account_line(31, "RUNNING", ran_s, TAG));
        assert_eq!(runs(8), Some(BatchJobState::Running));
        assert_eq!(runs(1_200), Some(BatchJobState::Running));
        assert_eq!(runs(1_201), None, "its limit was ten minutes");
        assert_eq!(parse_state(&account_line(31, "PENDING", 0, TAG)), None);
    }

    #[test]
    fn what_is_anothers_tells_nothing() {
        let line = account_line(31, "TIMEOUT", 8, TAG);
        assert_eq!(
            parse_state(&line.replace("/r|", "/other|")),
            None,
            "of another site"
        );
        assert_eq!(parse_state(&account_line(31, "TIMEOUT", 8, "wave")), None);
        assert_eq!(parse_state("Slurm accounting storage is disabled"), None);
    }
}
