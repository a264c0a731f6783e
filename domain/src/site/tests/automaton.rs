//! The count of errors and the breaker, as the paper and the guide state them: over outcomes as
//! first told.

use std::collections::BTreeSet;

use super::*;
use crate::ids::JobId;
use crate::site::site_command::ProbeOutcome;
use crate::site::site_state::Breaker;
use crate::units::DurationMs;

const AN_HOUR: DurationMs = DurationMs(3_600_000);

pub(super) struct BreakerModel {
    pub(super) errors: u32,
    pub(super) breaker: Breaker,
    /// Whose jobs the errors are that are counted.
    owners: BTreeSet<Option<KeyName>>,
    /// Whose jobs' errors a probe of our own looks into, and its number.
    probed: Option<(KeyName, u32)>,
    probes: u32,
    /// Whose job failed the last probe since it opened.
    reopened_by: Option<KeyName>,
    /// Attempts that have told how they ended.
    known: BTreeSet<AttemptId>,
    /// Jobs that have moved it since the count was zero, or since it opened.
    moved_by: BTreeSet<JobId>,
    parameters: SiteParameters,
}

impl BreakerModel {
    pub(super) fn new(parameters: SiteParameters) -> Self {
        let known = BTreeSet::new();
        let moved_by = BTreeSet::new();
        Self {
            errors: 0,
            breaker: Breaker::Closed,
            owners: BTreeSet::new(),
            probed: None,
            probes: 0,
            reopened_by: None,
            known,
            moved_by,
            parameters,
        }
    }

    fn is_probe(&self, attempt: AttemptId) -> bool {
        matches!(&self.breaker, Breaker::HalfOpen { running, .. } if running.contains(&attempt))
    }

    /// Whether the command is carried out; `forced`: whether an operator says that the site is
    /// usable.
    pub(super) fn apply_command(
        &mut self,
        command: &SiteCommand,
        forced: Option<bool>,
        now: Timestamp,
    ) -> bool {
        match command {
            SiteCommand::RecordError {
                attempt,
                owner,
                class,
                isolated,
                jitter,
                ..
            } => {
                // A fault of the job, or of ours, tells nothing of the site.
                if !class.charges_site() || self.known.contains(attempt) || *isolated {
                    self.known
                        .extend(Some(*attempt).filter(|_| class.charges_site()));
                    self.end_probe(*attempt);
                    return true;
                }
                self.known.insert(*attempt);
                let moves = self.moved_by.insert(attempt.job);
                if self.is_probe(*attempt) {
                    self.errors += 1;
                    let again = owner.is_some() && self.reopened_by == *owner;
                    self.open_breaker(u32::from(moves && !again), *jitter, now);
                    self.reopened_by = owner.clone().or(self.reopened_by.take());
                } else if moves {
                    self.count_error(owner.as_ref(), *jitter, now);
                } else {
                    self.end_probe(*attempt);
                }
            }
            SiteCommand::RecordSuccess { attempt } => self.record_success(*attempt),
            SiteCommand::OwnProbeOver {
                number,
                outcome,
                jitter,
                ..
            } if self.probed.take_if(|(_, own)| *own == number.0).is_some() => match outcome {
                ProbeOutcome::Failed => {
                    self.moved_by.clear();
                    self.open_breaker(1, *jitter, now);
                }
                ProbeOutcome::Succeeded => self.reset_errors(),
                ProbeOutcome::Inconclusive => {}
            },
            SiteCommand::EndProbe {
                probe,
                outcome,
                jitter,
            } if self.is_probe(*probe) => match outcome {
                ProbeOutcome::Succeeded => self.record_success(*probe),
                ProbeOutcome::Failed => self.open_breaker(1, *jitter, now),
                ProbeOutcome::Inconclusive => self.end_probe(*probe),
            },
            SiteCommand::ReconcileProbes { live } => {
                if let Breaker::HalfOpen { running, .. } = &mut self.breaker {
                    running.retain(|probe| live.contains(probe));
                }
            }
            SiteCommand::Operate {
                what: OperatorCommand::ResetErrors,
                ..
            } => {
                self.breaker = Breaker::Closed;
                self.reset_errors();
            }
            // While an operator's verdict holds, nothing is a probe.
            SiteCommand::StartProbe {
                probe, may_probe, ..
            } => {
                return forced.unwrap_or_else(|| self.start_probe(*probe, *may_probe, now));
            }
            _ => {}
        }
        true
    }

    /// One more error; so many of several owners open it, of one owner they are looked into.
    fn count_error(&mut self, owner: Option<&KeyName>, jitter: PerMillion, now: Timestamp) {
        self.errors += 1;
        self.owners.insert(owner.cloned());
        let is_enough = self.errors >= self.parameters.site_error_threshold;
        if self.breaker != Breaker::Closed || !is_enough {
            return;
        }
        let is_row = self.parameters.site_error_threshold > 1;
        match owner.filter(|_| self.owners.len() == 1 && is_row) {
            Some(owner) if self.probed.is_none() => {
                self.probes += 1;
                self.probed = Some((owner.clone(), self.probes));
            }
            Some(_) => {}
            None => {
                self.moved_by.clear();
                self.probed = None;
                self.open_breaker(1, jitter, now);
            }
        }
    }

    fn reset_errors(&mut self) {
        self.errors = 0;
        self.probed = None;
        self.reopened_by = None;
        self.moved_by.clear();
        self.owners.clear();
    }

    /// From then on it waits, twice as long each time, unless the same job says so again.
    fn open_breaker(&mut self, more: u32, jitter: PerMillion, now: Timestamp) {
        let trips = self.breaker.trips() + more;
        let probe_at = now + self.parameters.time_to_probe(trips, jitter);
        self.breaker = Breaker::Open {
            since: now,
            probe_at,
            trips,
        };
    }

    fn end_probe(&mut self, probe: AttemptId) {
        if let Breaker::HalfOpen { running, .. } = &mut self.breaker {
            running.remove(&probe);
        }
    }

    /// Success at the limit closes the breaker; before, twice as many jobs may try the site out.
    fn record_success(&mut self, attempt: AttemptId) {
        let was_probe = self.is_probe(attempt);
        self.end_probe(attempt);
        if self.known.contains(&attempt) {
            return;
        }
        if was_probe || self.errors > 0 {
            self.known.insert(attempt);
        }
        self.reset_errors();
        let Breaker::HalfOpen {
            allowed, running, ..
        } = &mut self.breaker
        else {
            return;
        };
        let limit = self.parameters.probe_limit;
        // A job has succeeded when all of its components have.
        if !was_probe || running.iter().any(|other| other.job == attempt.job) {
            return;
        }
        if *allowed == limit {
            self.breaker = Breaker::Closed;
            return;
        }
        *allowed = limit.min(*allowed * 2);
    }

    /// Jobs that may run twice try the site out, so many at a time; after an hour any may.
    fn start_probe(&mut self, probe: AttemptId, may_probe: bool, now: Timestamp) -> bool {
        match &mut self.breaker {
            Breaker::Closed => true,
            Breaker::Open {
                probe_at, trips, ..
            } => {
                let may = *probe_at <= now && (may_probe || *probe_at + AN_HOUR <= now);
                if may {
                    let running = [probe].into();
                    let trips = *trips;
                    self.breaker = Breaker::HalfOpen {
                        since: now,
                        allowed: 1,
                        running,
                        trips,
                    };
                }
                may
            }
            Breaker::HalfOpen {
                since,
                allowed,
                running,
                ..
            } => {
                let jobs: BTreeSet<JobId> = running.iter().map(|probe| probe.job).collect();
                let may = jobs.contains(&probe.job)
                    || jobs.len() < *allowed as usize && (may_probe || *since + AN_HOUR <= now);
                running.extend(Some(probe).filter(|_| may));
                may
            }
        }
    }
}
