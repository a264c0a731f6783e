//! What follows from the record and the clock alone, after whatever was told.

use cospan_domain::ids::ComponentIndex;
use cospan_domain::job::event::Happened;
use cospan_domain::job::state::{AbortCause, AfterAbort, Component, Ending, Phase, Run};
use cospan_domain::units::Timestamp;

use super::others::is_collected;
use super::story::{Story, lives};

impl Story<'_> {
    /// Goes on until nothing more follows. Nothing is done for a job that is held.
    pub(super) fn go_on(&mut self) {
        let mut told = usize::MAX;
        while told != self.events.len() && self.job.held.is_none() {
            told = self.events.len();
            match self.job.phase.clone() {
                Phase::Queued { since, .. } => self.waits(since),
                Phase::Claiming { since } => self.claims(since),
                Phase::Starting { since } => self.starts(since),
                Phase::Running { .. } => self.runs(),
                Phase::Collecting { .. } if is_collected(&self.job) => {
                    self.tell(Happened::JobFinished);
                }
                Phase::Aborting { then, .. } => self.aborts(then),
                _ => {}
            }
        }
    }

    fn all(&self, so: impl Fn(&Component) -> bool) -> bool {
        self.job.components.iter().all(so)
    }

    fn waits(&mut self, since: Timestamp) {
        let picky = !self.all(|c| c.avoid.is_empty());
        if picky && self.is_in_vain(since + self.parameters.avoid_for) {
            self.tell(Happened::AvoidanceLapsed);
        }
    }

    /// The start is decided once all wait at their gates and all input is there.
    fn claims(&mut self, since: Timestamp) {
        let at_gate = |c: &Component| matches!(c.run, Run::AtGate { .. });
        if self.job.inputs_here && self.all(|c| at_gate(c) && !c.given_back) {
            let start_at = self.now + self.parameters.go_lead;
            return self.tell(Happened::GoDecided { start_at });
        }
        if self.all(|c| matches!(c.run, Run::Idle)) {
            return self.tell(Happened::ClaimReturned);
        }
        for index in self.indexes() {
            let Some(c) = self.part(index).filter(|c| !c.given_back) else { continue };
            let p = self.parameters;
            let (until, longest) = match c.run {
                Run::Idle => continue,
                Run::AtGate { since, .. } => (since + p.hold_max, p.hold_max),
                _ => (since + p.claim_timeout, p.claim_timeout),
            };
            if self.is_in_vain(until) {
                let missing = match (at_gate(c), self.all(at_gate)) {
                    (false, _) => "not running",
                    (true, true) => "input",
                    (true, false) => "others",
                };
                let detail = format!("{missing}|{longest}").into();
                return self.loses(index, detail, None);
            }
        }
    }

    /// A start that one misses is its site's fault, unless nobody was here to open gates.
    fn starts(&mut self, since: Timestamp) {
        let grace = self.parameters.go_grace;
        let indexes = self.indexes().into_iter();
        let missing: Vec<ComponentIndex> =
            indexes.filter(|index| !self.part(*index).is_some_and(|c| begun(&c.run))).collect();
        let Some(&first) = missing.first() else { return self.tell(Happened::JobStarted) };
        if !self.is_in_vain(since + grace) {
            return;
        }
        if self.now.0 < since.0 + 2 * grace.0 {
            missing.into_iter().for_each(|index| self.blame(index, "did not begin".into()));
        }
        self.set_back(Some(first), AbortCause::StartMissed { component: first });
    }

    fn runs(&mut self) {
        for index in self.indexes() {
            self.restarts(index);
        }
        let succeeded = |c: &Component| matches!(c.run, Run::Ended { how: Ending::Succeeded, .. });
        if self.all(succeeded) && self.all(|c| c.charge.is_none()) {
            self.tell(Happened::PayloadsSucceeded);
        }
    }

    /// One that is restarted waits for another site, for processors, at its gate and for its
    /// payload, and for none of these for ever.
    fn restarts(&mut self, component: ComponentIndex) {
        let p = self.parameters;
        let Some(c) = self.part(component).filter(|c| !c.given_back) else { return };
        let Some(restart) = &c.restart else { return };
        let (run, avoids) = (c.run.clone(), !c.avoid.is_empty());
        let lost = |detail: &str| AbortCause::ClaimLost { component, detail: detail.into() };
        let (until, why) = match run {
            Run::Idle => {
                if avoids && self.is_in_vain(restart.since + p.avoid_for) {
                    self.tell(Happened::ComponentAvoidanceLapsed { component });
                }
                return;
            }
            Run::Opened { at, .. } => (at + p.go_grace, AbortCause::StartMissed { component }),
            Run::AtGate { since, .. } => (since + p.hold_max, lost("gate")),
            _ => (restart.since + p.claim_timeout, lost("processors")),
        };
        if !self.is_in_vain(until) {
            return;
        }
        let opened = matches!(run, Run::Opened { .. });
        if opened && self.now < until + p.go_grace {
            self.blame(component, "did not begin".into());
        }
        self.set_back(Some(component), why);
    }

    /// Once nothing of the round lives, and sites' records have their errors.
    fn aborts(&mut self, then: AfterAbort) {
        if self.all(|c| !lives(&c.run) && c.charge.is_none()) {
            self.tell(match then {
                AfterAbort::Requeue { not_before } => Happened::JobRequeued { not_before },
                AfterAbort::Fail { reason } => Happened::JobFailed { reason },
                AfterAbort::Cancel { by } => Happened::JobCancelled { by },
            });
        }
    }
}

fn begun(run: &Run) -> bool {
    matches!(
        run,
        Run::Running { .. } | Run::Ended { how: Ending::Succeeded | Ending::Failed(_), .. }
    )
}
