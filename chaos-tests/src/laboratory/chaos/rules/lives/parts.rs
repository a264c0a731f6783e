//! The components of a job after an event, field by field.

use cospan_domain::ids::{Attempt, ComponentIndex};
use cospan_domain::job::event::Happened;
use cospan_domain::job::spec::Request;
use cospan_domain::job::state::{
    Began, Collected, Component, Ending, Job, Restart, RestartStep, Run,
};
use cospan_domain::placed::Placement;
use cospan_domain::units::Timestamp;

use super::super::records::indexed;
use super::record::runs;

/// An event, and the component that it is looked at for.
struct About<'a> {
    job: &'a Job,
    at: Timestamp,
    what: &'a Happened,
    index: ComponentIndex,
    before: &'a Component,
}

pub(super) fn after(job: &Job, at: Timestamp, what: &Happened) -> Vec<Component> {
    if let Happened::JobPlaced { placements, .. } = what {
        return placed(job, placements);
    }
    let next = |(index, before)| About { job, at, what, index, before }.next();
    indexed(job).map(next).collect()
}

/// All begin anew where they are placed. Numbers of attempts never come twice, also where a
/// flexible request is split otherwise than before.
fn placed(job: &Job, placements: &[Placement]) -> Vec<Component> {
    let flexible = matches!(job.spec.request, Request::Flexible(_));
    let highest = job.components.iter().map(|c| c.attempt).max().unwrap_or_default();
    let place = |(at, placement): (usize, &Placement)| {
        let before = job.components.get(at).cloned().unwrap_or_default();
        let asked = job.spec.components.get(if flexible { 0 } else { at });
        let outputs = asked.map_or(0, |asked| asked.outputs.len());
        Component {
            placement: Some(placement.clone()),
            attempt: if flexible { highest } else { before.attempt },
            run: Run::Idle,
            given_back: false,
            charge: before.charge,
            avoid: Default::default(),
            collected: vec![Collected { content: None, done: false }; outputs],
            began: before.began,
            restart: None,
            origins: before.origins,
        }
    };
    placements.iter().enumerate().map(place).collect()
}

impl About<'_> {
    fn next(&self) -> Component {
        let before = self.before;
        let mut avoid = before.avoid.clone();
        match self.what {
            Happened::SiteCharged { charge, .. } if self.is_its() => {
                avoid.insert(charge.site.clone());
            }
            Happened::SiteAvoided { .. } if self.is_its() => {
                avoid.extend(before.placement.as_ref().map(|placement| placement.site.clone()));
            }
            Happened::ComponentAvoidanceLapsed { .. } if self.is_its() => avoid.clear(),
            Happened::AvoidanceLapsed => avoid.clear(),
            _ => {}
        }
        Component {
            placement: match self.what {
                Happened::ComponentMoved { placement, .. } if self.is_its() => {
                    Some(placement.clone())
                }
                _ => before.placement.clone(),
            },
            attempt: Attempt(before.attempt.0 + u32::from(self.is_claimed_anew())),
            run: self.run(),
            given_back: self.given_back(),
            charge: match self.what {
                Happened::SiteCharged { charge, .. } if self.is_its() => Some(charge.clone()),
                Happened::ChargeRecorded { .. } if self.is_its() => None,
                _ => before.charge.clone(),
            },
            avoid,
            collected: self.collected(),
            began: if self.begins() { self.began() } else { before.began.clone() },
            restart: self.restart(),
            origins: before.origins.clone(),
        }
    }

    /// Whether the event is one of this component.
    fn is_its(&self) -> bool {
        let component = match self.what {
            Happened::ComponentMoved { component, .. }
            | Happened::ClaimGivenBack { component }
            | Happened::ComponentFailed { component, .. }
            | Happened::AttemptRenewed { component }
            | Happened::AttemptSubmitted { component, .. }
            | Happened::SubmissionUncertain { component, .. }
            | Happened::AttemptAbsent { component, .. }
            | Happened::AttemptSeen { component }
            | Happened::SiteAvoided { component }
            | Happened::ComponentAvoidanceLapsed { component }
            | Happened::ComponentReady { component, .. }
            | Happened::GateOpened { component }
            | Happened::ComponentBegan { component }
            | Happened::SiteCharged { component, .. }
            | Happened::ChargeRecorded { component }
            | Happened::OutputFound { component, .. }
            | Happened::OutputCollected { component, .. } => component,
            Happened::AttemptEnded { component, attempt, .. } => {
                return *component == self.index && *attempt == self.before.attempt;
            }
            _ => return false,
        };
        *component == self.index
    }

    fn is_claimed_anew(&self) -> bool {
        match self.what {
            Happened::ClaimBegun => true,
            Happened::ComponentsClaimed { components, .. } => components.contains(&self.index),
            Happened::AttemptRenewed { .. } => self.is_its(),
            _ => false,
        }
    }

    fn lives(&self) -> bool {
        !matches!(self.before.run, Run::Idle | Run::Ended { .. })
    }

    fn begins(&self) -> bool {
        let ready = matches!(self.before.run, Run::AtGate { .. } | Run::Opened { .. });
        matches!(self.what, Happened::ComponentBegan { .. }) && self.is_its() && ready
    }

    fn began(&self) -> Option<Began> {
        let site = self.before.placement.as_ref()?.site.clone();
        Some(Began { site, attempt: self.before.attempt })
    }

    /// Whether what ends now was given back, so that the component may be claimed again. One
    /// that was given up as too late to begin, and succeeded all the same, is done.
    fn is_freed(&self, how: &Ending) -> bool {
        let done = matches!(how, Ending::Succeeded) && self.before.restart.is_some();
        self.before.given_back && !done
    }

    fn run(&self) -> Run {
        let before = &self.before.run;
        if self.is_claimed_anew() {
            return Run::Intended { at: self.at };
        }
        if !self.is_its() {
            return before.clone();
        }
        match self.what {
            Happened::AttemptEnded { how, .. } if self.is_freed(how) => Run::Idle,
            Happened::AttemptEnded { how, .. } => Run::Ended { how: how.clone(), at: self.at },
            Happened::ComponentFailed { .. } if !self.lives() => Run::Idle,
            Happened::AttemptSubmitted { lrm_id, .. } => {
                Run::Submitted { lrm_id: lrm_id.clone(), at: self.at, absences: 0 }
            }
            Happened::SubmissionUncertain { settled_at, .. } => {
                Run::Uncertain { settled_at: *settled_at, absences: 0, look_at: self.at }
            }
            _ => self.step(),
        }
    }

    /// The way of an attempt from its submission to its payload, and what is seen on it.
    fn step(&self) -> Run {
        let (before, at) = (self.before.run.clone(), self.at);
        match (self.what, before) {
            (
                Happened::AttemptAbsent { counts, look_at, .. },
                Run::Uncertain { settled_at, absences, .. },
            ) => {
                let absences = absences + u8::from(*counts);
                Run::Uncertain { settled_at, absences, look_at: *look_at }
            }
            (Happened::AttemptAbsent { counts, .. }, Run::Submitted { lrm_id, at, absences }) => {
                Run::Submitted { lrm_id, at, absences: absences + u8::from(*counts) }
            }
            (Happened::AttemptSeen { .. }, Run::Submitted { lrm_id, at, .. }) => {
                Run::Submitted { lrm_id, at, absences: 0 }
            }
            (
                Happened::ComponentReady { host, .. },
                Run::Submitted { lrm_id, .. }
                | Run::AtGate { lrm_id, .. }
                | Run::Opened { lrm_id, .. }
                | Run::Running { lrm_id, .. },
            ) => Run::AtGate { lrm_id, host: host.clone(), since: at },
            (Happened::GateOpened { .. }, Run::AtGate { lrm_id, host, .. }) => {
                Run::Opened { lrm_id, host, at }
            }
            (
                Happened::ComponentBegan { .. },
                Run::AtGate { lrm_id, host, .. } | Run::Opened { lrm_id, host, .. },
            ) => Run::Running { lrm_id, host, since: at },
            (_, before) => before,
        }
    }

    fn given_back(&self) -> bool {
        match self.what {
            Happened::RoundAborted { .. } => false,
            Happened::ClaimGivenBack { .. } if self.is_its() => true,
            Happened::ComponentFailed { .. } if self.is_its() => self.lives(),
            Happened::AttemptEnded { .. } if self.is_its() => false,
            _ => self.before.given_back,
        }
    }

    fn collected(&self) -> Vec<Collected> {
        let mut all = self.before.collected.clone();
        match self.what {
            Happened::OutputFound { output, content, .. } if self.is_its() => {
                all.iter_mut().skip(*output as usize).take(1).for_each(|state| {
                    state.content = Some(*content);
                });
            }
            Happened::OutputCollected { output, .. } if self.is_its() => {
                all.iter_mut().skip(*output as usize).take(1).for_each(|state| state.done = true);
            }
            _ => {}
        }
        all
    }

    /// A component that failed alone is on its way until its payload begins anew, or is found
    /// to have succeeded, or the whole round is given up.
    fn restart(&self) -> Option<Restart> {
        let since = self.at;
        let before = self.before.restart.clone();
        match self.what {
            Happened::RoundAborted { .. } => None,
            Happened::ComponentFailed { next_claim, .. } if self.is_its() => Some(Restart {
                step: RestartStep::ToPlace,
                since,
                tries: before.map_or(0, |before| before.tries + 1),
                not_before: *next_claim,
            }),
            Happened::AttemptEnded { how: Ending::Succeeded, .. } if self.is_its() => {
                before.filter(|_| self.is_freed(&Ending::Succeeded))
            }
            Happened::ComponentBegan { .. } if self.begins() => {
                before.filter(|_| self.before.given_back)
            }
            _ => before.map(|before| self.way(before)),
        }
    }

    fn way(&self, before: Restart) -> Restart {
        let since = self.at;
        match self.what {
            _ if !runs(self.job) => before,
            Happened::ComponentMoved { placement, .. } if self.is_its() => {
                let there = placement.sources.is_empty();
                let step = if there { RestartStep::Staged } else { RestartStep::Staging };
                Restart { step, since, ..before }
            }
            Happened::InputsArrived if before.step == RestartStep::Staging => {
                Restart { step: RestartStep::Staged, since, ..before }
            }
            Happened::ComponentsClaimed { .. } if self.is_claimed_anew() => {
                Restart { since, ..before }
            }
            // All that could have been claimed by then wait for the same next try.
            Happened::ClaimMissed { next_claim, .. } if self.waited_in_vain(&before) => {
                Restart { tries: before.tries + 1, not_before: *next_claim, ..before }
            }
            _ => before,
        }
    }

    fn waited_in_vain(&self, before: &Restart) -> bool {
        matches!(self.before.run, Run::Idle)
            && self.before.charge.is_none()
            && before.step != RestartStep::Staging
            && before.not_before <= self.at
    }
}
