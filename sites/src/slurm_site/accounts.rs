//! Slurm's accounting, which keeps jobs that Slurm itself does not know any more.
//!
//! Slurm forgets a job some minutes after its end. If we ask later than that, and find no record of
//! the wrapper, the accounts say whether it was preempted, its node failed, or its time was over.
//! Each attempt is asked about once, and if nobody keeps accounts we do not ask again.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::AttemptTag;

use super::SlurmSite;
use super::queue::SlurmJob;
use crate::agent::SiteAgentRequest;

/// The most attempts that one query names.
const ASKED_MAX: usize = 64;

/// The attempts asked about, and the jobs found.
#[derive(Debug, Default)]
pub(super) struct SlurmAccountingCache {
    /// True if nobody keeps accounts.
    unkept: bool,
    asked: BTreeSet<AttemptTag>,
    kept: BTreeMap<AttemptTag, SlurmJob>,
}

impl SlurmAccountingCache {
    /// Forgets an attempt that is removed.
    pub(super) fn forget_tag(&mut self, tag: AttemptTag) {
        self.asked.remove(&tag);
        self.kept.remove(&tag);
    }
}

impl SlurmSite {
    /// Returns what the accounts say of these attempts, which Slurm does not know and which
    /// recorded no end. Accounts that do not answer are no reason to know nothing of the rest.
    pub(super) async fn ask_accounting(&self, lost: &[AttemptTag]) -> Vec<SlurmJob> {
        let ask: Vec<AttemptTag> = {
            let accounts = &self.lock_reports().accounts;
            let new = lost
                .iter()
                .filter(|tag| !accounts.unkept && !accounts.asked.contains(tag));
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
                let root = self.config.root.to_str().unwrap_or_default();
                let kept: Vec<SlurmJob> = answer
                    .values_of("kept")
                    .filter_map(|line| parse_account_line(line, root, &ask))
                    .collect();
                let accounts = &mut self.lock_reports().accounts;
                accounts.unkept = answer.values_of("unkept").next().is_some();
                accounts.asked.extend(ask);
                for job in kept {
                    let known = accounts.kept.get(&job.tag);
                    if known.is_none_or(|known| known.submitted_at < job.submitted_at) {
                        accounts.kept.insert(job.tag, job);
                    }
                }
            }
        }
        let heard = self.lock_reports();
        lost.iter()
            .filter_map(|tag| heard.accounts.kept.get(tag).cloned())
            .collect()
    }
}

/// Parses a line of `sacct`: number, state, processors, times of submission, start and end,
/// directory, name. `None` if it is none of these attempts', or not over.
fn parse_account_line(line: &str, root: &str, asked: &[AttemptTag]) -> Option<SlurmJob> {
    let mut fields = line.splitn(8, '|');
    let number = fields.next()?;
    let state = fields.next()?;
    let processors = fields.next()?;
    let submitted = fields.next()?;
    let start = fields.next()?;
    let end = fields.next()?;
    let directory = fields.next()?;
    let name = fields.next()?;
    // "CANCELLED by 1000"
    let state = state.split(' ').next()?;
    // A job's comment is not always kept; its name has the tag as well.
    let tag = asked.iter().find(|tag| name.ends_with(&tag.to_string()))?;
    let line = format!(
        "{number}|{state}|None|{processors}|{submitted}|{start}|{end}|{directory}|{name}|{tag}"
    );
    SlurmJob::parse_job(&line, root).filter(|job| !job.is_active())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt_end::BatchJobState;

    const TAG: &str = "cabcdefgh-7-0-1";

    fn parse_state(line: &str) -> Option<BatchJobState> {
        let tag: AttemptTag = TAG.parse().unwrap();
        parse_account_line(line, "/r", &[tag]).map(|job| job.word)
    }

    #[test]
    fn accounts_tell_how_an_attempt_ended() {
        for (state, word) in [
            ("PREEMPTED", BatchJobState::Preempted),
            ("NODE_FAIL", BatchJobState::NodeFailed),
            ("TIMEOUT", BatchJobState::TimeLimit),
            ("CANCELLED by 1000", BatchJobState::Cancelled),
        ] {
            let line = format!("31|{state}|8|1795567550|1795567551|1795567559|/r|wave.{TAG}");
            assert_eq!(parse_state(&line), Some(word), "{state}");
        }
    }

    #[test]
    fn what_is_anothers_or_not_over_tells_nothing() {
        let line = format!("31|TIMEOUT|8|1795567550|1795567551|1795567559|/other|{TAG}");
        assert_eq!(parse_state(&line), None, "of another site");
        assert_eq!(
            parse_state(&line.replace("/other", "/r").replace("-7-", "-8-")),
            None
        );
        assert_eq!(
            parse_state(&line.replace("/other", "/r").replace("TIMEOUT", "RUNNING")),
            None
        );
        assert_eq!(parse_state("Slurm accounting storage is disabled"), None);
    }
}
