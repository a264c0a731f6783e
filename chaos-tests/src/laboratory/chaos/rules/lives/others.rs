//! What follows from what others know: of input and outputs, of sites that are silent, and
//! of one that is emptied.

use std::sync::Arc;

use cospan_domain::claim::ClaimSchedule;
use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::job::command::{Inputs, Rejection, Sight, Stranded};
use cospan_domain::job::event::Happened;
use cospan_domain::job::spec::{Collect, OnUnreachable};
use cospan_domain::job::state::{AbortCause, Component, Ending, Job, Phase, RestartStep, Run};
use cospan_domain::units::{DurationMs, Timestamp};

use super::super::records::indexed;
use super::record::runs;
use super::story::{AND, NOT, Story, asked, lives, name};

/// Outputs that go to a site and are not there yet: of which component, their position, their
/// path and that site.
fn open_outputs(job: &Job) -> Vec<(ComponentIndex, u32, String, SiteName)> {
    let mut open = Vec::new();
    for (index, c) in indexed(job) {
        let outputs = asked(job, index).map(|asked| asked.outputs.as_slice()).unwrap_or_default();
        for (at, (output, state)) in (0..).zip(outputs.iter().zip(&c.collected)) {
            if let (Collect::ToSite { site, .. }, false) = (&output.collect, state.done) {
                open.push((index, at, output.path.to_string(), site.clone()));
            }
        }
    }
    open
}

pub(super) fn is_collected(job: &Job) -> bool {
    open_outputs(job).is_empty()
}

/// Whether an output of a component is still to be brought to a site.
pub(super) fn awaits_outputs(job: &Job, component: ComponentIndex) -> bool {
    open_outputs(job).iter().any(|(index, ..)| *index == component)
}

impl Story<'_> {
    pub(super) fn look(&mut self, sight: &Sight) -> Result<(), Rejection> {
        if self.job.phase.kind().is_final() {
            return Err(Rejection::Ended);
        }
        match self.job.phase {
            Phase::Running { .. } => self.inputs_of_restarted(&sight.inputs),
            Phase::Placed { .. } | Phase::Claiming { .. } if !self.job.inputs_here => {
                self.inputs_of_all(&sight.inputs);
            }
            _ => {}
        }
        self.stranded(&sight.stranded);
        for (index, since) in &sight.unreachable {
            self.silent(*index, *since, false);
        }
        for (index, since) in &sight.removed {
            self.silent(*index, *since, true);
        }
        if let Some((component, to)) = sight.gives_way {
            self.give_way(component, to);
        }
        Ok(())
    }

    fn inputs_of_all(&mut self, inputs: &Inputs) {
        match inputs {
            Inputs::Unknown => {}
            Inputs::Here => self.tell(Happened::InputsArrived),
            Inputs::Lost { detail, components, at_site } => {
                let shun = components.iter().filter(|_| *at_site);
                shun.for_each(|index| self.shun(*index));
                self.set_back(None, AbortCause::InputLost { detail: detail.clone() });
            }
            Inputs::Expected(arrival) => self.late(*arrival),
        }
    }

    /// Input that is still far away when the job ought to start moves its start, and its
    /// claim with it: never earlier than it can be held until then.
    fn late(&mut self, arrival: Timestamp) {
        let Phase::Placed { start_estimate, .. } = self.job.phase else { return };
        let far = self.now.0 + self.parameters.hold_slack.0 < arrival.0;
        if self.now < start_estimate || !far {
            return;
        }
        let next = self.schedule().and_then(|schedule| {
            let transfer_time = DurationMs(arrival.0.saturating_sub(schedule.placed_at.0));
            ClaimSchedule { transfer_time, ..schedule }.next_try(self.now, self.now)
        });
        let holdable = Timestamp(arrival.0.saturating_sub(self.parameters.hold_max.0));
        let next_claim = holdable.max(next.unwrap_or(arrival));
        self.tell(Happened::StartPostponed { start_estimate: arrival, next_claim });
    }

    /// One fault counts once: the others that it concerns go elsewhere with the first.
    fn inputs_of_restarted(&mut self, inputs: &Inputs) {
        let step = |index: &ComponentIndex| Some(self.part(*index)?.restart.as_ref()?.step);
        let staging = |index: &ComponentIndex| step(index) == Some(RestartStep::Staging);
        let waiting: Vec<ComponentIndex> = self.indexes().into_iter().filter(staging).collect();
        match inputs {
            Inputs::Here if !waiting.is_empty() => self.tell(Happened::InputsArrived),
            Inputs::Lost { detail, components, at_site } => {
                let concerned = waiting.into_iter().filter(|index| components.contains(index));
                let concerned: Vec<ComponentIndex> = concerned.collect();
                let shun = concerned.iter().filter(|_| *at_site);
                shun.for_each(|index| self.shun(*index));
                for (at, component) in concerned.into_iter().enumerate() {
                    let detail = detail.clone();
                    let why = match at {
                        0 => AbortCause::InputLost { detail },
                        _ => AbortCause::ClaimLost { component, detail },
                    };
                    self.leaves(component, why);
                }
            }
            _ => {}
        }
    }

    /// Goes elsewhere for a reason that is not its own.
    fn leaves(&mut self, component: ComponentIndex, why: AbortCause) {
        if runs(&self.job) {
            self.set_back(Some(component), why);
        }
    }

    /// Once all outputs that are not where they belong cannot get there, the job has failed.
    fn stranded(&mut self, stranded: &[Stranded]) {
        if !matches!(self.job.phase, Phase::Collecting { .. }) {
            return;
        }
        let open = open_outputs(&self.job);
        let why = |index, at| stranded.iter().find(|(i, a, _)| (*i, *a) == (index, at));
        let all = open.iter().all(|(index, at, ..)| why(*index, *at).is_some());
        let Some((index, at, path, site)) = open.first().filter(|_| all) else { return };
        let detail = why(*index, *at).map(|(_, _, detail)| detail.to_string()).unwrap_or_default();
        let mut reason =
            [path.clone(), name(&self.job, *index), site.to_string(), detail].join("|");
        reason += &match open.len() - 1 {
            0 => format!("{AND}{NOT}more"),
            others => format!("{AND}{others} more"),
        };
        self.tell(Happened::JobFailed { reason: reason.into() });
    }

    /// How long a component waits for a site from which nothing is heard: what cannot have
    /// begun not at all, what may have as long as its user said; `None` is for ever.
    fn patience(&self, c: &Component) -> Option<DurationMs> {
        let spec = &self.job.spec;
        let passed = matches!(c.run, Run::AtGate { .. } | Run::Opened { .. } | Run::Running { .. });
        if self.job.start_at.is_none() || c.restart.is_some() && !passed {
            return Some(DurationMs(0));
        }
        match (spec.rerunnable, spec.on_unreachable) {
            (true, OnUnreachable::RerunAfter(time)) => Some(time),
            _ => None,
        }
    }

    /// A site does not answer, or is no longer in the configuration.
    fn silent(&mut self, component: ComponentIndex, since: Timestamp, removed: bool) {
        let Some(c) = self.part(component).cloned() else { return };
        let over = self.patience(&c).map(|patience| since + patience);
        if over.is_none_or(|over| self.now < over) {
            return;
        }
        let lived = lives(&c.run);
        let concerned = match self.job.phase {
            Phase::Starting { .. } => lived,
            Phase::Running { .. } => lived && !c.given_back,
            Phase::Collecting { .. } => awaits_outputs(&self.job, component),
            _ => false,
        };
        if concerned {
            let waited = DurationMs(self.now.0.saturating_sub(since.0));
            match c.placement.filter(|_| removed) {
                Some(placement) => {
                    let detail: Arc<str> = format!("{}{AND}{waited}", placement.site).into();
                    self.failed_by_site(component, detail);
                }
                None => {
                    self.blame(component, waited.to_string().into());
                    self.set_back(Some(component), AbortCause::Unreachable { component });
                }
            }
        }
        if lived && self.ends(component) {
            self.is_over(component, Ending::Abandoned);
        }
    }

    /// A site that is emptied is left with what has not begun.
    pub(super) fn leave_site(&mut self, site: &SiteName) -> Result<(), Rejection> {
        let there = |c: &Component| c.placement.as_ref().is_some_and(|p| p.site == *site);
        let goes = |c: &Component| {
            let step = c.restart.as_ref().map(|restart| restart.step);
            let bound = matches!(step, Some(RestartStep::Staging | RestartStep::Staged));
            there(c) && bound && matches!(c.run, Run::Idle)
        };
        let why = || AbortCause::Drained { site: site.clone() };
        match self.job.phase {
            Phase::Placed { .. } | Phase::Claiming { .. }
                if self.job.components.iter().any(there) =>
            {
                self.set_back(None, why());
                Ok(())
            }
            Phase::Running { .. } => {
                let leaving: Vec<ComponentIndex> =
                    indexed(&self.job).filter(|(_, c)| goes(c)).map(|(index, _)| index).collect();
                leaving.iter().for_each(|component| self.leaves(*component, why()));
                if leaving.is_empty() { Err(Rejection::Stale) } else { Ok(()) }
            }
            _ => Err(Rejection::Stale),
        }
    }
}
