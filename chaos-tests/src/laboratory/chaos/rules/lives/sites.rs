//! What follows from what sites say: answers to submissions, look-ups and gates, and their
//! status.

use std::sync::Arc;

use cospan_domain::ids::{Attempt, ComponentIndex, LrmId};
use cospan_domain::job::command::{Rejection, Sighting, SubmitAnswer};
use cospan_domain::job::event::Happened;
use cospan_domain::job::state::{AbortCause, Component, Ending, Phase, Run};
use cospan_domain::units::{DurationMs, Timestamp};

use super::story::{Story, lives};

type Told = Result<(), Rejection>;

impl Story<'_> {
    /// What is said of an attempt counts while it is the latest and may live.
    fn latest(&self, index: ComponentIndex, attempt: Attempt) -> Result<&Component, Rejection> {
        let latest = self.part(index).filter(|c| c.attempt == attempt && lives(&c.run));
        latest.ok_or(Rejection::Stale)
    }

    /// Nobody knows whether what was to be submitted when the actor died has left.
    pub(super) fn recover(&mut self, settle: &[DurationMs]) -> Told {
        for component in self.indexes() {
            let intended = self.part(component).is_some_and(|c| is_intended(&c.run));
            if intended {
                let sites_own = settle.get(component.0 as usize).copied();
                let settled_at = self.now + sites_own.unwrap_or(self.parameters.settle);
                self.tell(Happened::SubmissionUncertain { component, settled_at });
            }
        }
        Ok(())
    }

    pub(super) fn submitted(
        &mut self,
        component: ComponentIndex,
        attempt: Attempt,
        answer: SubmitAnswer,
    ) -> Told {
        let run = &self.latest(component, attempt)?.run;
        if !is_intended(run) && !matches!(run, Run::Uncertain { .. }) {
            return Err(Rejection::Stale);
        }
        let ends = self.ends(component);
        match answer {
            SubmitAnswer::Accepted(lrm_id) => {
                self.tell(Happened::AttemptSubmitted { component, lrm_id });
            }
            SubmitAnswer::Unknown(settle) => {
                let settled_at = self.now + settle;
                self.tell(Happened::SubmissionUncertain { component, settled_at });
            }
            // It works, and has no room: nobody is charged.
            SubmitAnswer::Full(detail) if !ends => {
                self.loses(component, detail.clone(), Some(Ending::NeverRan(detail)));
            }
            SubmitAnswer::Full(detail)
            | SubmitAnswer::Refused(detail)
            | SubmitAnswer::NotSent(detail) => {
                self.is_over(component, Ending::NeverRan(detail.clone()));
                if !ends {
                    self.failed_by_site(component, detail);
                }
            }
        }
        Ok(())
    }

    /// It takes two absences after it had settled to hold a submission for one that never
    /// arrived.
    pub(super) fn looked_up(
        &mut self,
        component: ComponentIndex,
        attempt: Attempt,
        asked_at: Timestamp,
        found: Option<LrmId>,
    ) -> Told {
        let Run::Uncertain { settled_at, absences, .. } = self.latest(component, attempt)?.run
        else {
            return Err(Rejection::Stale);
        };
        let counts = asked_at >= settled_at;
        let soon = self.now + self.parameters.look_up_interval;
        match found {
            Some(lrm_id) => self.tell(Happened::AttemptSubmitted { component, lrm_id }),
            None if counts && absences >= 1 && self.ends(component) => {
                self.is_over(component, Ending::NeverRan("never arrived".into()));
            }
            None if counts && absences >= 1 => self.tell(Happened::AttemptRenewed { component }),
            None if counts => {
                self.tell(Happened::AttemptAbsent { component, counts, look_at: soon });
            }
            // No later than it settles, and not in the past.
            None => {
                let look_at = soon.min(settled_at.max(self.now));
                self.tell(Happened::AttemptAbsent { component, counts, look_at });
            }
        }
        Ok(())
    }

    pub(super) fn sighted(
        &mut self,
        index: ComponentIndex,
        attempt: Attempt,
        asked_at: Timestamp,
        sighting: Sighting,
    ) -> Told {
        let run = self.latest(index, attempt)?.run.clone();
        match (sighting, self.ends(index)) {
            (Sighting::Absent, ends) => self.absent(index, &run, asked_at, ends)?,
            (Sighting::Pending, _) => {
                if matches!(run, Run::Submitted { absences, .. } if absences > 0) {
                    self.tell(Happened::AttemptSeen { component: index });
                }
            }
            (Sighting::Ready(_) | Sighting::Begun(_), true) => {}
            (Sighting::Ready(host), false) => {
                if matches!(run, Run::Submitted { .. }) {
                    self.tell(Happened::ComponentReady { component: index, host });
                }
            }
            (Sighting::Begun(host), false) => self.begun(index, &run, host),
            (Sighting::Succeeded, _) => {
                self.began_unseen(index);
                self.is_over(index, Ending::Succeeded);
            }
            (Sighting::Failed(_) | Sighting::Vanished(_), true) => {
                self.is_over(index, Ending::Killed);
            }
            (Sighting::Failed(detail), false) => {
                self.began_unseen(index);
                self.is_over(index, Ending::Failed(detail.clone()));
                let why = AbortCause::Application { component: index, detail };
                self.set_back(Some(index), why);
            }
            (Sighting::Void, _) => self.void(index),
            (Sighting::Vanished(detail), false) => {
                self.is_over(index, Ending::Lost(detail.clone()));
                self.failed_by_site(index, detail);
            }
        }
        self.ends_overdue(index, asked_at);
        Ok(())
    }

    /// What was shown when the site was asked, long after its wall time, is ended from here.
    fn ends_overdue(&mut self, component: ComponentIndex, asked_at: Timestamp) {
        let Some(Run::Running { since, .. }) = self.part(component).map(|c| &c.run) else { return };
        let margin = self.parameters.wall_margin.0;
        let over = since.0 + self.job.spec.wall_time.0 + margin;
        if over <= asked_at.0 && !self.ends(component) {
            let detail = "wall time".into();
            self.set_back(Some(component), AbortCause::Application { component, detail });
        }
    }

    fn begun(&mut self, component: ComponentIndex, run: &Run, host: Arc<str>) {
        if !matches!(self.job.phase, Phase::Starting { .. } | Phase::Running { .. }) {
            return;
        }
        if matches!(run, Run::Submitted { .. }) {
            self.tell(Happened::ComponentReady { component, host });
        }
        self.began_unseen(component);
    }

    /// Whatever runs or ran has passed its gate and begun.
    fn began_unseen(&mut self, component: ComponentIndex) {
        let run = self.part(component).map(|c| c.run.clone());
        if matches!(run, Some(Run::AtGate { .. })) {
            self.tell(Happened::GateOpened { component });
        }
        if matches!(run, Some(Run::AtGate { .. } | Run::Opened { .. })) {
            self.tell(Happened::ComponentBegan { component });
        }
    }

    fn void(&mut self, index: ComponentIndex) {
        let detail: Arc<str> = "gate was closed".into();
        match self.ends(index) {
            true => self.is_over(index, Ending::NeverRan(detail)),
            false => self.loses(index, detail.clone(), Some(Ending::NeverRan(detail))),
        }
    }

    /// A site that showed an attempt once, and knows it no more, lost it; one that only
    /// acknowledged it is asked twice. Not before it has settled.
    fn absent(
        &mut self,
        component: ComponentIndex,
        run: &Run,
        asked_at: Timestamp,
        ends: bool,
    ) -> Told {
        let (since, again) = match run {
            Run::Submitted { at, absences, .. } => (at, *absences == 0),
            Run::AtGate { since, .. } | Run::Running { since, .. } => (since, false),
            Run::Opened { at, .. } => (at, false),
            _ => return Err(Rejection::Stale),
        };
        if ends || asked_at.0 < since.0 + self.parameters.settle.0 {
            return Ok(());
        }
        match again {
            true => {
                let look_at = self.now;
                self.tell(Happened::AttemptAbsent { component, counts: true, look_at });
            }
            false => self.failed_by_site(component, "no longer knows".into()),
        }
        Ok(())
    }

    /// Gates are opened once the start is decided.
    pub(super) fn gate_answered(
        &mut self,
        component: ComponentIndex,
        attempt: Attempt,
        open: bool,
    ) -> Told {
        let at_gate = matches!(self.latest(component, attempt)?.run, Run::AtGate { .. });
        let begins = matches!(self.job.phase, Phase::Starting { .. } | Phase::Running { .. });
        match (at_gate && begins, open) {
            (false, _) => return Err(Rejection::Stale),
            (true, true) => self.tell(Happened::GateOpened { component }),
            (true, false) => self.void(component),
        }
        Ok(())
    }
}

fn is_intended(run: &Run) -> bool {
    matches!(run, Run::Intended { .. })
}
