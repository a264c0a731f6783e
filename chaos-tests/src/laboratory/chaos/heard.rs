//! Judges whether what a site told is taken up: once the control plane has heard that an
//! attempt is over, its job says so soon, whatever else was being written at that moment. And
//! whether a site that says nothing is given up: a job waits for it as long as it may, not longer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cospan_domain::ids::Tag;
use cospan_domain::job::spec::OnUnreachable;
use cospan_domain::job::state::Phase;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::Observation;

use super::history::Seen;
use crate::laboratory::reign::Reign;

/// Between two looks.
const EVERY: DurationMs = DurationMs(15_000);
/// Long enough for the slowest disk, and for an actor that is built anew.
const TAKEN_UP: DurationMs = DurationMs(60_000);
/// A job whose patience is over gives up a silent site so soon.
const GIVEN_UP: DurationMs = DurationMs(300_000);

/// Looks again and again, as long as it is polled.
pub(super) async fn watch(reign: Reign, seen: Rc<RefCell<Seen>>) {
    let (mut over, mut silent) = (Pending::default(), Pending::default());
    loop {
        reign.until(reign.clock.now() + EVERY).await;
        let now = reign.clock.now();
        let late = over.look(heard_to_be_over(&reign), now, TAKEN_UP).into_iter();
        let late = late.map(|(tag, since)| {
            format!("what was heard is not taken up: {tag}, over by {}", since.0)
        });
        seen.borrow_mut().violations.extend(late);
        let late = silent.look(waited_for(&reign), now, GIVEN_UP).into_iter();
        let late = late.map(|(tag, since)| {
            format!("a silent site is not given up: {tag}, due by {}", since.0)
        });
        seen.borrow_mut().violations.extend(late);
    }
}

/// What is to be done, and since when without a pause.
#[derive(Debug, Default)]
struct Pending(BTreeMap<Tag, Timestamp>);

impl Pending {
    /// What has been so for too long; it is told once.
    fn look(
        &mut self,
        now_so: Vec<Tag>,
        now: Timestamp,
        most: DurationMs,
    ) -> Vec<(Tag, Timestamp)> {
        self.0.retain(|tag, _| now_so.contains(tag));
        let mut late = Vec::new();
        for tag in now_so {
            let since = *self.0.entry(tag).or_insert(now);
            if since + most < now {
                late.push((tag, since));
                self.0.insert(tag, now);
            }
        }
        late
    }
}

/// Attempts whose sites are silent for longer than their jobs wait.
fn waited_for(reign: &Reign) -> Vec<Tag> {
    let (view, shared, now) = (reign.plane.view(), reign.plane.shared(), reign.plane.now());
    if reign.plane.isolated() {
        return Vec::new();
    }
    let silent = shared
        .board
        .sites()
        .into_iter()
        .filter_map(|(name, report)| Some((name, report.contact.unreachable_since()?)));
    let silent: BTreeMap<_, _> = silent.collect();
    if silent.is_empty() {
        return Vec::new();
    }
    let patient = view.jobs.values().filter_map(|job| {
        let runs = matches!(job.phase, Phase::Starting { .. } | Phase::Running { .. });
        let OnUnreachable::RerunAfter(patience) = job.spec.on_unreachable else { return None };
        // One that must not run twice waits.
        (runs && job.held.is_none() && job.spec.rerunnable).then_some((job, patience))
    });
    let due = patient.flat_map(|(job, patience)| {
        let due = job.indexed().filter(|(_, component)| {
            let site = component.placement.as_ref().map(|placement| &placement.site);
            let since = site.and_then(|site| silent.get(site));
            component.run.may_live()
                && !component.given_back
                && since.is_some_and(|since| *since + patience < now)
        });
        due.map(|(index, _)| job.tag(shared.instance, index)).collect::<Vec<_>>()
    });
    due.collect()
}

/// Attempts that may live as far as their jobs know, and are over as their sites told.
fn heard_to_be_over(reign: &Reign) -> Vec<Tag> {
    let (view, shared) = (reign.plane.view(), reign.plane.shared());
    let jobs = view.jobs.values().filter(|job| !job.is_final() && job.held.is_none());
    let living = jobs.flat_map(|job| {
        let living = job.indexed().filter(|(_, component)| component.run.may_live());
        living.map(|(index, component)| (job.tag(shared.instance, index), component))
    });
    let over = living.filter(|(tag, component)| {
        let site = component.placement.as_ref().map(|placement| &placement.site);
        let report = site.and_then(|site| shared.board.site(site));
        report.is_some_and(|report| {
            let told = report.observations.get(tag).map(|(_, observation)| observation);
            matches!(
                told,
                Some(Observation::Exited(_) | Observation::Void | Observation::Vanished { .. })
            )
        })
    });
    over.map(|(tag, _)| tag).collect()
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Attempt, ComponentIndex, InstanceId, JobId};

    use super::*;

    #[test]
    fn only_what_is_so_for_long_without_a_pause_is_late() {
        let (instance, job) = (InstanceId::from_random(1), JobId(1));
        let tag = Tag { instance, job, component: ComponentIndex(0), attempt: Attempt(1) };
        let mut pending = Pending::default();
        let mut late =
            |now_so: &[Tag], at| pending.look(now_so.to_vec(), Timestamp(at), TAKEN_UP).len();
        assert_eq!((late(&[tag], 0), late(&[tag], TAKEN_UP.0)), (0, 0));
        assert_eq!(late(&[tag], TAKEN_UP.0 + 1), 1);
        assert_eq!((late(&[], TAKEN_UP.0 + 2), late(&[tag], 2 * TAKEN_UP.0 + 2)), (0, 0));
    }
}
