//! Judges whether what a site told is taken up: once the control plane has heard that an
//! attempt is over, its job says so soon, whatever else was being written at that moment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cospan_domain::ids::Tag;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::Observation;

use super::history::Seen;
use crate::laboratory::reign::Reign;

/// Between two looks.
const EVERY: DurationMs = DurationMs(15_000);
/// Long enough for the slowest disk, and for an actor that is built anew.
const TAKEN_UP: DurationMs = DurationMs(60_000);

/// Looks again and again, as long as it is polled.
pub(super) async fn watch(reign: Reign, seen: Rc<RefCell<Seen>>) {
    let mut since: BTreeMap<Tag, Timestamp> = BTreeMap::new();
    loop {
        reign.until(reign.clock.now() + EVERY).await;
        let (now, over) = (reign.clock.now(), heard_to_be_over(&reign));
        since.retain(|tag, _| over.contains(tag));
        for tag in over {
            let heard = *since.entry(tag).or_insert(now);
            if heard + TAKEN_UP < now {
                let text = format!("what was heard is not taken up: {tag}, over by {}", heard.0);
                seen.borrow_mut().violations.push(text);
                since.insert(tag, now);
            }
        }
    }
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
