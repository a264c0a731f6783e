//! Placing into the queues of sites what nothing idle serves.

use std::sync::Arc;

use crate::acquire::{Acquisition, AcquisitionMode, AcquisitionOptions, QueueLimits};
use crate::placement::testing::{explained, grid, placed, site, site_of, sites_of, sizes};
use crate::placement::{GridSite, Hindrance, Outcome, PlacementRequest, Reason, SiteShape};
use crate::resources::Resources;
use crate::units::DurationMs;

/// A site of so many processors, all in use, so many of them by us; jobs may wait there.
fn busy(name: &str, total: u32, ours: u32) -> GridSite {
    let (total, ours) = (Resources::processors(total), Resources::processors(ours));
    let mut site = site_of(name, total, Resources::processors(0));
    let shape = site.shape.as_deref().cloned().unwrap();
    site.shape = Some(Arc::new(SiteShape { queues: true, ..shape }));
    GridSite { ours, ..site }
}

fn wants(mode: AcquisitionMode, request: PlacementRequest) -> PlacementRequest {
    let limits = QueueLimits { deadline: DurationMs(7), max_hold: DurationMs(3) };
    request.with_acquisition(AcquisitionOptions { mode, limits })
}

#[test]
fn where_nothing_is_idle_a_job_waits_in_the_queues_that_there_are() {
    let grid = grid([busy("A", 64, 0), busy("B", 32, 0), site("C", 8)]);
    let request = wants(AcquisitionMode::Auto, sizes(&[30, 30]));
    let plan = placed(&request, &grid).unwrap();
    assert_eq!(sites_of(&plan), ["A", "A"], "Worst-Fit, by what there is to wait for");
    let limits = request.acquisition().limits;
    assert!(plan.placements.iter().all(|p| p.acquisition == Acquisition::Queue(limits)));
}

#[test]
fn what_is_idle_is_claimed_rather_than_waited_for() {
    let grid = grid([busy("A", 64, 0), site("C", 8)]);
    let plan = placed(&wants(AcquisitionMode::Auto, sizes(&[8])), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["C"]);
    assert_eq!(plan.placements[0].acquisition, Acquisition::ClaimNow);
    let plan = placed(&wants(AcquisitionMode::Queued, sizes(&[8])), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["A"], "unless the job says so");
}

#[test]
fn a_job_that_wants_idle_processors_only_waits_for_them_here() {
    let grid = grid([busy("A", 64, 0)]);
    let refusal = placed(&wants(AcquisitionMode::Immediate, sizes(&[8])), &grid).unwrap_err();
    assert!(matches!(refusal.reason, Reason::NotEnoughIdle { .. }), "{refusal:?}");
}

#[test]
fn no_more_of_ours_waits_at_a_site_than_it_could_hold() {
    let grid = grid([busy("A", 64, 40), busy("B", 32, 0)]);
    let plan = placed(&wants(AcquisitionMode::Auto, sizes(&[20, 30])), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["A", "B"]);
    assert!(placed(&wants(AcquisitionMode::Auto, sizes(&[30, 30])), &grid).is_err());
}

#[test]
fn a_job_for_queues_is_told_which_sites_have_none() {
    let grid = grid([site("C", 8)]);
    let refusal = placed(&wants(AcquisitionMode::Queued, sizes(&[8])), &grid).unwrap_err();
    assert_eq!(refusal.reason, Reason::Closed(Hindrance::NoQueue));
}

#[test]
fn an_explanation_tells_of_the_way_that_was_taken() {
    let queue = grid([busy("A", 64, 0), site("C", 8)]);
    let (_, told) = explained(&wants(AcquisitionMode::Auto, sizes(&[30])), &queue);
    let outcomes = |told: &crate::placement::Recorder| -> Vec<bool> {
        told.verdicts.iter().map(|v| matches!(v.outcome, Outcome::Chosen)).collect()
    };
    assert_eq!(outcomes(&told), [true, false]);
    let (_, told) = explained(&wants(AcquisitionMode::Auto, sizes(&[65])), &queue);
    assert_eq!(told.verdicts.len(), 2, "what is idle, where no queue serves either");
}
