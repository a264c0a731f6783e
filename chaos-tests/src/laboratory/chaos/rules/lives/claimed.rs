//! What follows from tries to claim processors, and from losing them again.

use std::sync::Arc;

use cospan_domain::claim::ClaimTry;
use cospan_domain::ids::{ComponentIndex, JobId};
use cospan_domain::job::command::{Inputs, Rejection, Sight};
use cospan_domain::job::event::Happened;
use cospan_domain::job::state::{AbortCause, Component, Ending, Phase, RestartStep, Run};
use cospan_domain::units::{PerMillion, Timestamp};

use super::record::runs;
use super::story::{AND, Story, lives, name, waits_for_processors};

/// Rounds that a job gives up before it claims all or nothing.
const PATIENT_ROUNDS: u32 = 2;
/// A job that gave way so often is spared.
const MOST_PREEMPTIONS: u32 = 3;

impl Story<'_> {
    /// A plan that does not fit any more does nothing; one that fits counts once what others
    /// know was taken in, and only while it is still time.
    pub(super) fn claim(&mut self, plan: ClaimTry, sight: &Sight) -> Result<(), Rejection> {
        let planned = plan.start.iter().chain(plan.moves.iter().map(|(index, _)| index));
        let fits = planned.copied().all(|index| self.is_idle(index));
        if !fits || plan.round != self.job.round {
            return Err(Rejection::Stale);
        }
        let mut sight = sight.clone();
        if runs(&self.job) {
            // It may speak of the input of another site.
            sight.inputs = Inputs::Unknown;
        }
        self.look(&sight)?;
        match self.claim_time().filter(|planned| *planned <= self.now) {
            Some(_) if runs(&self.job) => self.search(plan),
            Some(planned) => self.try_all(plan, planned),
            None => {}
        }
        Ok(())
    }

    fn is_idle(&self, index: ComponentIndex) -> bool {
        self.part(index).is_some_and(|c| matches!(c.run, Run::Idle))
    }

    fn idle(&self) -> Vec<ComponentIndex> {
        self.indexes().into_iter().filter(|index| self.is_idle(*index)).collect()
    }

    /// Nothing is claimed that would be given back at once: all that is missing, or a part of
    /// it if there is another try for the rest.
    fn try_all(&mut self, plan: ClaimTry, planned: Timestamp) {
        let next = self.next_try(planned);
        let whole = plan.start.len() == self.idle().len();
        if whole || !plan.start.is_empty() && next.is_some() {
            for (component, placement) in plan.moves {
                self.tell(Happened::ComponentMoved { component, placement });
            }
            let every = plan.start.len() == self.job.components.len();
            self.tell(if every && plan.preempting.is_empty() {
                Happened::ClaimBegun
            } else {
                let (components, preempting) = (plan.start, plan.preempting);
                Happened::ComponentsClaimed { components, preempting }
            });
        }
        if let Some(&first) = self.idle().first() {
            let detail = name(&self.job, first).into();
            self.misses(first, next, detail);
        }
    }

    fn misses(&mut self, component: ComponentIndex, next: Option<Timestamp>, detail: Arc<str>) {
        match next {
            Some(next_claim) => self.tell(Happened::ClaimMissed { next_claim, detail }),
            None => {
                self.set_back(Some(component), AbortCause::ClaimLost { component, detail });
            }
        }
    }

    /// Places what is restarted alone, claims what has its input, and looks again later for
    /// what is left.
    fn search(&mut self, plan: ClaimTry) {
        let waits = |c: &Component| waits_for_processors(c);
        for (component, placement) in plan.moves {
            if self.part(component).is_some_and(waits) {
                self.tell(Happened::ComponentMoved { component, placement });
            }
        }
        let fed = |c: &Component| {
            waits(c) && c.restart.as_ref().is_some_and(|r| r.step == RestartStep::Staged)
        };
        let startable = plan.start.into_iter().filter(|index| self.part(*index).is_some_and(fed));
        let components: Vec<ComponentIndex> = startable.collect();
        if !components.is_empty() {
            self.tell(Happened::ComponentsClaimed { components, preempting: plan.preempting });
        }
        let now = self.now;
        let due =
            |c: &Component| waits(c) && c.restart.as_ref().is_some_and(|r| r.not_before <= now);
        let left = self.indexes().into_iter().find(|index| self.part(*index).is_some_and(due));
        if let Some(first) = left {
            let next_claim = self.next_search(first);
            let detail = name(&self.job, first).into();
            self.tell(Happened::ClaimMissed { next_claim, detail });
        }
    }

    /// A component does not get the processors that were claimed for it. While its job claims
    /// it gives back what it holds of them, with T = 1 all do, and another try is made;
    /// otherwise the round is lost. `over` tells how its attempt ended, if it has.
    pub(super) fn loses(
        &mut self,
        component: ComponentIndex,
        detail: Arc<str>,
        over: Option<Ending>,
    ) {
        let claims = matches!(self.job.phase, Phase::Claiming { .. });
        let lived = self.part(component).is_some_and(|c| lives(&c.run));
        let next = if claims && lived { self.next_try(self.now) } else { None };
        for index in self.indexes() {
            let goes = index == component || self.claims_all_or_nothing();
            let has = self.part(index).is_some_and(|c| lives(&c.run) && !c.given_back);
            if next.is_some() && goes && has {
                self.tell(Happened::ClaimGivenBack { component: index });
            }
        }
        if let Some(how) = over {
            self.is_over(component, how);
        }
        self.misses(component, next, detail);
    }

    fn claims_all_or_nothing(&self) -> bool {
        let whole = self.parameters.claim.threshold == PerMillion(1_000_000);
        whole || self.job.setbacks.rounds >= PATIENT_ROUNDS
    }

    /// Of two jobs that wait for each other one gives up its claim.
    pub(super) fn give_way(&mut self, component: ComponentIndex, to: JobId) {
        if matches!(self.job.phase, Phase::Claiming { .. }) {
            let detail = format!("{}{AND}{to}", name(&self.job, component)).into();
            self.set_back(Some(component), AbortCause::ClaimLost { component, detail });
        }
    }

    /// Who holds processors gives way to a higher class, unless it did so often, or has begun
    /// and must not run twice.
    pub(super) fn preempt(&mut self, by: JobId) -> Result<(), Rejection> {
        let once = self.job.start_at.is_some() && !self.job.spec.rerunnable;
        let spared = once || self.job.setbacks.preemptions >= MOST_PREEMPTIONS;
        match self.job.phase {
            Phase::Claiming { .. } | Phase::Starting { .. } | Phase::Running { .. } if !spared => {
                self.set_back(None, AbortCause::Preempted { by });
                Ok(())
            }
            _ => Err(Rejection::Stale),
        }
    }
}
