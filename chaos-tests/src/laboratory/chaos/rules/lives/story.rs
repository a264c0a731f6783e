//! What happens to a job, event after event, and what a failure leads to: a site is charged,
//! one component is restarted or the whole round is given up, and the job is tried again or
//! not.
//!
//! Texts for people are told by what they must name, with [`AND`] in between.

use std::sync::Arc;

use cospan_domain::claim::ClaimSchedule;
use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::job::event::Happened;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::{ComponentSpec, Request};
use cospan_domain::job::state::{
    AbortCause, AfterAbort, Charge, Component, Ending, Job, Phase, RestartStep, Run,
};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};

use super::super::records::indexed;
use super::record::{self, runs};

/// Between the things that a text must name.
pub(super) const AND: char = '|';
/// Before what it must not name.
pub(super) const NOT: char = '~';
/// A component that is restarted alone does not wait longer between two tries.
const LONGEST_PAUSE: DurationMs = DurationMs(60_000);

pub(super) struct Story<'a> {
    pub(super) job: Job,
    pub(super) parameters: &'a JobParameters,
    pub(super) now: Timestamp,
    /// Only a look says that something was waited for in vain.
    pub(super) looks: bool,
    pub(super) events: Vec<Happened>,
}

pub(super) fn lives(run: &Run) -> bool {
    !matches!(run, Run::Idle | Run::Ended { .. })
}

/// It is restarted alone, has no processors, and its input does not keep it from having any.
pub(super) fn waits_for_processors(c: &Component) -> bool {
    let staging = c.restart.as_ref().is_none_or(|r| r.step == RestartStep::Staging);
    matches!(c.run, Run::Idle) && c.charge.is_none() && !staging
}

/// What was asked for a component.
pub(super) fn asked(job: &Job, index: ComponentIndex) -> Option<&ComponentSpec> {
    match job.spec.request {
        Request::Flexible(_) => job.spec.components.first(),
        _ => job.spec.components.get(index.0 as usize),
    }
}

/// The name it was given; where a flexible request has several parts, with their number.
pub(super) fn name(job: &Job, index: ComponentIndex) -> String {
    let given = asked(job, index).map(|asked| asked.name.to_string()).unwrap_or_default();
    match job.spec.request {
        Request::Flexible(_) if job.components.len() > 1 => format!("{given}-{}", index.0 + 1),
        _ => given,
    }
}

impl Story<'_> {
    pub(super) fn tell(&mut self, what: Happened) {
        self.job = record::after(&self.job, self.now, &what);
        self.events.push(what);
    }

    pub(super) fn part(&self, index: ComponentIndex) -> Option<&Component> {
        self.job.components.get(index.0 as usize)
    }

    pub(super) fn indexes(&self) -> Vec<ComponentIndex> {
        indexed(&self.job).map(|(index, _)| index).collect()
    }

    pub(super) fn is_in_vain(&self, until: Timestamp) -> bool {
        self.looks && until <= self.now
    }

    /// Whether its attempt is being ended, alone or with its round.
    pub(super) fn ends(&self, index: ComponentIndex) -> bool {
        let aborts = matches!(self.job.phase, Phase::Aborting { .. });
        aborts || self.part(index).is_some_and(|c| c.given_back)
    }

    pub(super) fn is_over(&mut self, component: ComponentIndex, how: Ending) {
        if let Some(attempt) = self.part(component).map(|c| c.attempt) {
            self.tell(Happened::AttemptEnded { component, attempt, how });
        }
    }

    /// Its site did something wrong.
    pub(super) fn blame(&mut self, component: ComponentIndex, detail: Arc<str>) {
        let Some(c) = self.part(component) else { return };
        if let Some(placement) = &c.placement {
            let charge = Charge { site: placement.site.clone(), attempt: c.attempt, detail };
            self.tell(Happened::SiteCharged { component, charge });
        }
    }

    /// Its site works, and has no room for its input.
    pub(super) fn shun(&mut self, component: ComponentIndex) {
        let Some(c) = self.part(component) else { return };
        let site: Option<&SiteName> = c.placement.as_ref().map(|placement| &placement.site);
        if site.is_some_and(|site| !c.avoid.contains(site)) {
            self.tell(Happened::SiteAvoided { component });
        }
    }

    /// Its site failed an attempt that was not to be ended.
    pub(super) fn failed_by_site(&mut self, component: ComponentIndex, detail: Arc<str>) {
        self.blame(component, detail.clone());
        self.set_back(Some(component), AbortCause::SiteError { component, detail });
    }

    /// The component is restarted, if its job runs and wants that and may; else the round is
    /// given up. What is being ended already fails no more.
    pub(super) fn set_back(&mut self, who: Option<ComponentIndex>, why: AbortCause) {
        let alone = self.job.spec.run.restart_scope == RestartScope::Component && runs(&self.job);
        if let Some(component) = who.filter(|_| alone) {
            if self.ends(component) {
                return;
            }
            let unlucky = matches!(why, AbortCause::ClaimLost { .. } | AbortCause::Drained { .. });
            let again = match self.what_then(&why) {
                _ if unlucky => Some(self.next_search(component)),
                AfterAbort::Requeue { not_before } => Some(not_before),
                AfterAbort::Fail { .. } | AfterAbort::Cancel { .. } => None,
            };
            if let Some(next_claim) = again {
                self.tell(Happened::ComponentFailed { component, why, next_claim });
                return;
            }
        }
        let then = self.what_then(&why);
        self.tell(Happened::RoundAborted { why, then });
    }

    /// Failures have budgets, and between two tries a pause that doubles. What may have begun
    /// and must not run twice has no other try.
    fn what_then(&self, why: &AbortCause) -> AfterAbort {
        let (job, p, back) = (&self.job, self.parameters, &self.job.setbacks);
        let own = |component, detail: &str| format!("{}{AND}{detail}", name(job, component));
        let fail = |reason: String| AfterAbort::Fail { reason: reason.into() };
        if job.start_at.is_some() && !job.spec.rerunnable {
            return fail(match why {
                AbortCause::Application { component, detail } => own(*component, detail),
                _ => "must not run twice".to_owned(),
            });
        }
        let tries = job.spec.max_claim_tries.or(p.claim.max_claim_tries);
        let retries = if job.spec.rerunnable { job.spec.max_retries } else { 0 };
        let (spent, budget, first, count, reason) = match why {
            AbortCause::ClaimLost { detail, .. } => {
                let reason = format!("{} claims{AND}{detail}", back.claims + 1);
                (back.claims, tries, p.claim_backoff, back.missed_starts + 1, reason)
            }
            AbortCause::InputLost { detail } => {
                let most = Some(p.max_input_losses);
                (back.inputs, most, p.site_backoff, back.inputs + 1, detail.to_string())
            }
            AbortCause::Application { component, detail } => {
                let (errors, reason) = (back.own_errors, own(*component, detail));
                (errors, Some(retries), p.site_backoff, errors + 1, reason)
            }
            AbortCause::Preempted { .. } | AbortCause::Drained { .. } | AbortCause::Cancelled => {
                return AfterAbort::Requeue { not_before: self.now };
            }
            AbortCause::SiteError { .. }
            | AbortCause::StartMissed { .. }
            | AbortCause::Unreachable { .. } => {
                (0, None, p.site_backoff, back.site_errors.max(1), String::new())
            }
        };
        if budget.is_some_and(|most| spent >= most) {
            return fail(reason);
        }
        // Each round of each job is spread otherwise.
        let spread = job.id.0 + (u64::from(job.round.0) * (1 << 32));
        AfterAbort::Requeue { not_before: self.now + p.backoff(first, count, spread) }
    }

    /// When processors are looked for again for a component that is restarted alone.
    pub(super) fn next_search(&self, index: ComponentIndex) -> Timestamp {
        let p = self.parameters;
        let restart = self.part(index).and_then(|c| c.restart.as_ref());
        let failed = restart.map_or(0, |restart| restart.tries);
        let pause = p.backoff(p.claim_backoff, failed + 1, self.job.id.0);
        Timestamp(self.now.0 + pause.0.min(LONGEST_PAUSE.0))
    }

    /// L falls with each start that was missed.
    pub(super) fn schedule(&self) -> Option<ClaimSchedule> {
        let (job, p) = (&self.job, &self.parameters.claim);
        let (placed_at, start) = (job.instants.placed?, job.instants.start_estimate?);
        let l = match u64::from(job.setbacks.missed_starts) * u64::from(p.l_step.0) {
            _ if job.setbacks.missed_starts == 0 => p.l.0,
            fallen => u64::from(p.l.0).saturating_sub(fallen).max(u64::from(p.l_min.0)) as u32,
        };
        Some(ClaimSchedule {
            placed_at,
            transfer_time: DurationMs(start.0.saturating_sub(placed_at.0)),
            l: PerMillion(l),
            min_step: p.min_claim_step,
        })
    }

    /// The try after one that was planned for then, if the round has another: soon, where its
    /// input is there.
    pub(super) fn next_try(&self, planned: Timestamp) -> Option<Timestamp> {
        let (job, p) = (&self.job, self.parameters);
        let most = job.spec.max_claim_tries.or(p.claim.max_claim_tries);
        if most.is_some_and(|most| job.setbacks.claims >= most) {
            return None;
        }
        let next = self.schedule()?.next_try(planned, self.now)?;
        let soon = self.now + p.backoff_max;
        Some(if job.inputs_here && soon < next { soon } else { next })
    }

    /// When processors are to be claimed, if any are.
    pub(super) fn claim_time(&self) -> Option<Timestamp> {
        let job = &self.job;
        let any = |so: fn(&Component) -> bool| job.components.iter().any(so);
        match job.phase {
            Phase::Running { .. } => {
                let waiting = job.components.iter().filter(|c| waits_for_processors(c));
                return waiting.filter_map(|c| Some(c.restart.as_ref()?.not_before)).min();
            }
            Phase::Placed { .. } => {}
            Phase::Claiming { .. }
                if any(|c| matches!(c.run, Run::Idle)) && !any(|c| c.given_back) => {}
            _ => return None,
        }
        let schedule = self.schedule()?;
        if job.next_claim.is_some() || job.inputs_here {
            return job.next_claim.or(Some(schedule.placed_at));
        }
        let start = schedule.placed_at.0 + schedule.transfer_time.0;
        let holdable = Timestamp(start.saturating_sub(self.parameters.hold_max.0));
        Some(schedule.first_try().max(holdable))
    }
}
