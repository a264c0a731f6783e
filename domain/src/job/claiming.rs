//! Decides when a job's processors are claimed, and which components still wait for theirs.

use crate::acquisition::ClaimTimeLimits;
use crate::claim::{ClaimParameters, ClaimSchedule, MAX_PREEMPTIONS};
use crate::ids::ComponentIndex;
use crate::job::job_parameters::JobParameters;
use crate::job::job_state::{
    AttemptState, Component, ComponentRestart, Job, JobPhase, RestartStep,
};
use crate::units::{DurationMs, PerMillion, Timestamp};

/// Aborted rounds after which a job claims all of its components or none.
const ROUNDS_UNTIL_ATOMIC: u32 = 2;
/// Rounds that held processors in vain after which estimated transfer times are taken to be too
/// short.
const ROUNDS_IN_GOOD_FAITH: u32 = 4;
/// The most doublings of such a time.
const MOST_DOUBLINGS: u32 = 6;

impl Component {
    /// Returns true if it is restarted alone, waits for processors, and its input is there.
    pub fn awaits_restart_claim(&self) -> bool {
        matches!(self.run, AttemptState::Idle)
            && self.charge.is_none()
            && self
                .restart
                .as_ref()
                .is_some_and(|restart: &ComponentRestart| restart.step != RestartStep::Staging)
    }

    /// Returns true if it is restarted alone, and it is time to try for its processors.
    pub fn is_restart_claim_due(&self, now: Timestamp) -> bool {
        self.awaits_restart_claim() && self.restart.as_ref().is_some_and(|r| r.not_before <= now)
    }

    /// Returns true if its processors are held or requested, and not being given back.
    pub fn is_claimed(&self) -> bool {
        self.run.may_live() && !self.given_back
    }
}

impl Job {
    /// Returns the limits for the claims of its round: the longest of its sites counts.
    pub fn claim_limits(&self, parameters: &JobParameters) -> ClaimTimeLimits {
        let placements = self.components.iter().filter_map(|c| c.placement.as_ref());
        parameters.claim_limits_at(placements.map(|placement| &placement.site))
    }

    /// Returns the claiming times of its round; `None` before its first placement.
    pub fn claim_schedule(&self, parameters: &ClaimParameters) -> Option<ClaimSchedule> {
        let placed_at = self.instants.placed?;
        let start = self.instants.start_estimate?;
        let missed = self.setbacks.missed_starts;
        let l = (0..missed).fold(parameters.l, |l, _| parameters.lower_l(l));
        Some(ClaimSchedule {
            placed_at,
            transfer_time: start.since(placed_at),
            l,
            min_step: parameters.min_claim_step,
        })
    }

    /// Returns the time of its next claiming try (JCT); `None` while it waits for none. A job whose
    /// input is there claims at once, and no job claims earlier than it could hold its processors
    /// until the start.
    pub fn next_claim_time(&self, parameters: &JobParameters) -> Option<Timestamp> {
        if !self.awaits_claim() {
            return None;
        }
        if matches!(self.phase, JobPhase::Running { .. }) {
            let waiting = self.components.iter().filter(|c| c.awaits_restart_claim());
            return waiting
                .filter_map(|c| c.restart.as_ref())
                .map(|r| r.not_before)
                .min();
        }
        let begins = self.last_reservation_begin();
        if let Some(begins) = begins.filter(|_| self.shared_reservation().is_none()) {
            return Some(self.next_claim.map_or(begins, |next| next.max(begins)));
        }
        // Processors of a shared reservation serve other jobs while its input is under way.
        let time = self.unreserved_claim_time(parameters)?;
        Some(begins.map_or(time, |begins| time.max(begins)))
    }

    fn unreserved_claim_time(&self, parameters: &JobParameters) -> Option<Timestamp> {
        let schedule = self.claim_schedule(&parameters.claim)?;
        match self.next_claim {
            Some(next) => Some(next),
            None if self.inputs_here => Some(schedule.placed_at),
            None => {
                let held_until_start =
                    schedule.start_time() - self.claim_limits(parameters).max_hold;
                let first = schedule.first_try_time().max(held_until_start);
                Some(first + self.extra_claim_delay(schedule.transfer_time))
            }
        }
    }

    /// Returns how much later than it could it claims while its input is under way. A round that is
    /// aborted gives up what was transferred for it, so with estimates that are always a little too
    /// short it would begin anew for ever. Once the input is there it claims, however early that
    /// is.
    fn extra_claim_delay(&self, transfer_time: DurationMs) -> DurationMs {
        // Other rounds were aborted before they held processors, or for faults of sites.
        let in_vain = self.setbacks.rounds.min(self.setbacks.missed_starts);
        let rounds = in_vain.saturating_sub(ROUNDS_IN_GOOD_FAITH);
        DurationMs(
            transfer_time
                .0
                .saturating_mul((1 << rounds.min(MOST_DOUBLINGS)) - 1),
        )
    }

    /// Returns the time by which a component that was claimed at `since` must be at its gate. A
    /// component in its site's queue has the patience of its round, however often it is submitted.
    pub fn ready_deadline(
        &self,
        component: &Component,
        since: Timestamp,
        claims: ClaimTimeLimits,
    ) -> Timestamp {
        let acquisition = component.acquisition();
        let from = if acquisition.waits_in_site_queue() {
            self.instants.placed
        } else {
            None
        };
        from.unwrap_or(since) + acquisition.ready_within(claims)
    }

    /// Returns the time at which a claimed component has waited, or held its processors, for long
    /// enough.
    pub fn claim_deadline(
        &self,
        component: &Component,
        since: Timestamp,
        claims: ClaimTimeLimits,
    ) -> Timestamp {
        match component.run {
            AttemptState::AtGate { since, .. } => since + component.acquisition().max_hold(claims),
            _ => self.ready_deadline(component, since, claims),
        }
    }

    /// Returns true if a component is still to be claimed, and none is being given back.
    pub fn awaits_claim(&self) -> bool {
        match self.phase {
            JobPhase::Placed { .. } => true,
            JobPhase::Claiming { .. } => {
                self.unclaimed_components().next().is_some()
                    && !self.components.iter().any(|c| c.given_back)
            }
            JobPhase::Running { .. } => self.components.iter().any(Component::awaits_restart_claim),
            _ => false,
        }
    }

    /// Iterates over components that wait for processors and have none yet.
    pub fn unclaimed_components(&self) -> impl Iterator<Item = ComponentIndex> + '_ {
        let runs = matches!(self.phase, JobPhase::Running { .. });
        let idle = self
            .indexed_components()
            .filter(|(_, c)| matches!(c.run, AttemptState::Idle));
        idle.map(|(index, _)| index)
            .filter(move |index| runs || !self.begins_later(*index))
    }

    /// Returns true if a component that is restarted alone waits for its input.
    pub fn has_staging_restart(&self) -> bool {
        self.components
            .iter()
            .filter_map(|c| c.restart.as_ref())
            .any(|restart: &ComponentRestart| restart.step == RestartStep::Staging)
    }

    /// Iterates over components that are restarted alone and have not begun again.
    pub fn restarting_components(&self) -> impl Iterator<Item = ComponentIndex> + '_ {
        self.indexed_components()
            .filter(|(_, c)| c.restart.is_some())
            .map(|(index, _)| index)
    }

    /// Returns true if it may be preempted by a job of a higher priority: not for ever, and not if
    /// its payload may have begun and must not run twice.
    pub fn may_be_preempted(&self) -> bool {
        let may_run_again = self.spec.rerunnable || self.start_at.is_none();
        // Reserved processors belong to nobody else.
        let is_promised = self.last_reservation_begin().is_some();
        may_run_again && !is_promised && self.setbacks.preemptions < MAX_PREEMPTIONS
    }

    /// Returns T for this job: a job that was aborted again and again takes all or nothing.
    pub fn claim_threshold(&self, parameters: &ClaimParameters) -> PerMillion {
        if self.setbacks.rounds >= ROUNDS_UNTIL_ATOMIC {
            PerMillion::ONE
        } else {
            parameters.threshold
        }
    }
}
