//! Judges every change while it becomes durable: listed transitions only, terminal is
//! final, the fold of the events is the record, and no record breaks a rule.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cospan_actors::journal::Change;
use cospan_domain::ids::JobId;
use cospan_domain::invariants::broken;
use cospan_domain::job::event::JobEvent;
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::state::{Job, PhaseKind};
use cospan_domain::job::table::allowed;
use cospan_domain::units::Timestamp;
use tokio::sync::broadcast::error::RecvError;

use crate::laboratory::reign::Reign;

/// What was seen of the jobs.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How each job ended, and when that became durable.
    pub(super) ended: BTreeMap<JobId, (PhaseKind, Timestamp)>,
    /// Jobs as they were last seen.
    pub(super) last: BTreeMap<JobId, std::sync::Arc<Job>>,
    /// What must not be.
    pub(super) violations: Vec<String>,
    /// The events of one job that is asked about, as a timeline.
    pub(super) timeline: Vec<(Timestamp, JobId, String)>,
    /// Durable changes.
    pub(super) changes: u64,
}

impl Seen {
    fn note(&mut self, change: &Change, now: Timestamp) {
        self.changes += 1;
        match change {
            Change::NewJobs(jobs) => {
                self.last.extend(jobs.iter().map(|job| (job.id, job.clone())));
            }
            Change::Job { old, new, events } => {
                self.judge(old, new, events);
                self.timeline
                    .extend(events.iter().map(|event| (now, new.id, format!("{:?}", event.what))));
                if new.is_final() && !old.is_final() {
                    self.ended.insert(new.id, (new.phase.kind(), now));
                }
                self.last.insert(new.id, new.clone());
            }
            _ => {}
        }
    }

    fn judge(&mut self, old: &Job, new: &Job, events: &[JobEvent]) {
        let mut folded = old.clone();
        for event in events {
            let from = folded.phase.kind();
            evolve(&mut folded, event);
            let (name, to) = (event.what.name(), folded.phase.kind());
            if !allowed(from, name, to) {
                self.break_rule(new, format!("{name} led from {from:?} to {to:?}"));
            }
        }
        folded.revision = new.revision;
        if folded != *new {
            self.break_rule(new, "its events do not give its record".to_owned());
        }
        for rule in broken(new) {
            self.break_rule(new, format!("its record breaks {rule}"));
        }
        if self.last.get(&new.id).is_some_and(|last| last.revision > old.revision) {
            self.break_rule(new, "it went back to an older record".to_owned());
        }
    }

    fn break_rule(&mut self, job: &Job, text: String) {
        self.violations.push(format!("job {}: {text}", job.id));
    }
}

/// Follows one reign for as long as it is polled.
pub(super) async fn follow(reign: Reign, seen: Rc<RefCell<Seen>>) {
    let mut changes = reign.plane.subscribe();
    loop {
        match changes.recv().await {
            Ok(committed) => seen.borrow_mut().note(&committed.change, reign.clock.now()),
            Err(RecvError::Lagged(missed)) => {
                seen.borrow_mut().violations.push(format!("{missed} changes were not judged"));
            }
            Err(RecvError::Closed) => return,
        }
    }
}
