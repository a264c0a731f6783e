//! The effects of injected faults on the control plane, gathered from the changes that it
//! committed.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::job::abort_cause_name;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{JobId, Round, SiteName};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::site::site_state::{Breaker, SiteRecord};
use cospan_domain::units::Timestamp;

use cospan_api::v1::chaos::{JobDeeds, SiteDeeds, StateSince};

/// Most states of a site that are kept.
const STATES_MAX: usize = 64;

/// All effects since a rehearsal began.
#[derive(Debug, Default)]
pub(super) struct RehearsalEffects {
    pub(super) jobs: JobDeeds,
    /// Jobs whose round was aborted, and that have neither begun again nor ended.
    set_back: BTreeSet<JobId>,
    sites: BTreeMap<SiteName, SiteDeeds>,
    pub(super) isolated: bool,
    pub(super) changes_missed: u64,
}

impl RehearsalEffects {
    /// Applies one committed change.
    pub(super) fn apply_change(&mut self, change: &JournalChange) {
        match change {
            JournalChange::Job { new, events, .. } => {
                events
                    .iter()
                    .for_each(|event| self.apply_job_event(new.id, event));
            }
            JournalChange::Site { old, new } => self.apply_site_change(old.as_deref(), new),
            _ => {}
        }
    }

    fn apply_job_event(&mut self, job: JobId, event: &JobEvent) {
        let jobs = &mut self.jobs;
        match &event.what {
            JobEventKind::SubmissionUncertain { .. } => jobs.submissions_uncertain += 1,
            JobEventKind::AttemptRenewed { .. } => jobs.attempts_renewed += 1,
            JobEventKind::RoundAborted { why, .. } => {
                *jobs
                    .rounds_aborted
                    .entry(abort_cause_name(why).to_owned())
                    .or_default() += 1;
                self.set_back.insert(job);
            }
            JobEventKind::JobPlaced { round, .. } if *round > Round(1) => jobs.placed_again += 1,
            JobEventKind::JobStarted => {
                jobs.started += 1;
                self.set_back.remove(&job);
            }
            JobEventKind::JobFinished => jobs.finished += 1,
            JobEventKind::JobFailed { .. } => jobs.failed += 1,
            JobEventKind::JobCancelled { .. } => jobs.cancelled += 1,
            _ => {}
        }
        if matches!(
            &event.what,
            JobEventKind::JobFinished
                | JobEventKind::JobFailed { .. }
                | JobEventKind::JobCancelled { .. }
        ) {
            self.set_back.remove(&job);
        }
    }

    fn apply_site_change(&mut self, old: Option<&SiteRecord>, new: &SiteRecord) {
        let before = old.map_or(&Breaker::Closed, |old| &old.breaker);
        let site = self.site_entry(&new.site);
        if new.breaker.trips() > before.trips() {
            site.breaker_opened += 1;
        }
        if new.breaker == Breaker::Closed && *before != Breaker::Closed {
            site.breaker_closed += 1;
        }
    }

    fn site_entry(&mut self, name: &SiteName) -> &mut SiteDeeds {
        self.sites.entry(name.clone()).or_insert_with(|| SiteDeeds {
            site: name.to_string(),
            ..SiteDeeds::default()
        })
    }

    /// Records the state of a site, and the errors charged to it so far.
    pub(super) fn record_state(
        &mut self,
        name: &SiteName,
        state: &str,
        charged: u64,
        now: Timestamp,
    ) {
        let site = self.site_entry(name);
        site.errors_charged = charged;
        let known = site.states.last().is_some_and(|last| last.state == state);
        if !known && site.states.len() < STATES_MAX {
            site.states.push(StateSince {
                at: now.into(),
                state: state.into(),
            });
        }
    }

    /// Lists the effects on sites, by name.
    pub(super) fn sites(&self) -> Vec<SiteDeeds> {
        self.sites.values().cloned().collect()
    }

    /// Counts the jobs that have not yet recovered from an aborted round.
    pub(super) fn count_set_back(&self) -> usize {
        self.set_back.len()
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::job_state::{AbortCause, AbortConsequence};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn apply_at_now(deeds: &mut RehearsalEffects, job: u64, what: JobEventKind) {
        deeds.apply_job_event(JobId(job), &JobEvent { at: NOW, what });
    }

    fn placed(round: u32) -> JobEventKind {
        let round = Round(round);
        let placements = Vec::new();
        JobEventKind::JobPlaced {
            round,
            placements,
            start_estimate: NOW,
            by: None,
        }
    }

    #[test]
    fn a_job_suffers_from_a_round_given_up_until_it_begins_again_or_ends() {
        let mut deeds = RehearsalEffects::default();
        for job in [1, 2] {
            apply_at_now(&mut deeds, job, placed(1));
            let then = AbortConsequence::Requeue { not_before: NOW };
            apply_at_now(
                &mut deeds,
                job,
                JobEventKind::RoundAborted {
                    why: AbortCause::Cancelled,
                    then,
                },
            );
        }
        assert_eq!((deeds.count_set_back(), deeds.jobs.placed_again), (2, 0));
        apply_at_now(&mut deeds, 1, placed(2));
        assert_eq!((deeds.count_set_back(), deeds.jobs.placed_again), (2, 1));
        apply_at_now(&mut deeds, 1, JobEventKind::JobStarted);
        apply_at_now(
            &mut deeds,
            2,
            JobEventKind::JobFailed {
                reason: "none".into(),
            },
        );
        assert_eq!(deeds.count_set_back(), 0);
        assert_eq!(
            deeds.jobs.rounds_aborted,
            BTreeMap::from([("cancelled".into(), 2)])
        );
        assert_eq!(
            (deeds.jobs.started, deeds.jobs.failed, deeds.jobs.finished),
            (1, 1, 0)
        );
    }

    #[test]
    fn each_opening_of_a_breaker_counts_even_if_it_opens_while_tried() {
        let open = |trips| Breaker::Open {
            since: NOW,
            probe_at: NOW,
            trips,
        };
        let running = BTreeSet::new();
        let half = Breaker::HalfOpen {
            since: NOW,
            allowed: 1,
            running,
            trips: 1,
        };
        let name: SiteName = "delft".parse().unwrap();
        let record = |breaker| SiteRecord {
            breaker,
            ..SiteRecord::new(name.clone())
        };
        let mut deeds = RehearsalEffects::default();
        deeds.apply_site_change(None, &record(open(1)));
        deeds.apply_site_change(Some(&record(open(1))), &record(half.clone()));
        deeds.apply_site_change(Some(&record(half)), &record(open(2)));
        deeds.apply_site_change(Some(&record(open(2))), &record(Breaker::Closed));
        let site = &deeds.sites()[0];
        assert_eq!((site.breaker_opened, site.breaker_closed), (2, 1));
    }

    #[test]
    fn a_state_is_kept_once_until_it_changes_and_no_list_grows_for_ever() {
        let mut deeds = RehearsalEffects::default();
        let name: SiteName = "delft".parse().unwrap();
        for at in 0..1_000 {
            let state = if at / 2 % 2 == 0 {
                "usable"
            } else {
                "unreachable"
            };
            deeds.record_state(&name, state, 3, Timestamp(at));
        }
        let site = &deeds.sites()[0];
        assert_eq!((site.states.len(), site.errors_charged), (STATES_MAX, 3));
        assert_eq!(site.states[1].at, Timestamp(2).into());
    }
}
