//! Flexible jobs that are promised a start: divided over their sites, and divided anew.

use std::sync::Arc;

use super::job_world::site;
use super::reservations::ReservationWorld;
use crate::acquisition::{AlternativeShape, MoldingOptions};
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::{JobPhase, PhaseKind};
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placed::Placement;
use crate::reservation::flexco::FlexPlan;
use crate::reservation::reservation_length;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const MINUTE: DurationMs = DurationMs::from_secs(60);

type DivisionFacts = Result<Vec<&'static str>, JobRejection>;

/// Where parts would go: at a site so many.
pub(super) type PartsAtSites<'a> = &'a [(usize, u32)];

pub(super) fn placements_of_parts(parts: PartsAtSites<'_>) -> Vec<Placement> {
    parts
        .iter()
        .map(|(at, count): &(usize, u32)| Placement {
            site: site(*at),
            sources: Vec::new(),
            transfer_time: DurationMs::ZERO,
            share: Some(*count),
            acquisition: Default::default(),
        })
        .collect()
}

impl ReservationWorld {
    /// A job of six processors for an hour, or three for two hours, with an overhead of a fifth,
    /// and two sites of four.
    pub(super) fn with_flexible_job(flexible: bool) -> Self {
        let mut story = Self::new_flexible(1, HOUR + HOUR, 2, flexible);
        let mut spec = (*story.world.job.spec).clone();
        spec.request = RequestType::Flexible(FlexibleBounds::default());
        spec.components[0].resources = Resources::processors(6);
        let shapes = vec![AlternativeShape {
            processors: 3,
            run_time: HOUR + HOUR,
        }];
        spec.run.molding = MoldingOptions {
            overhead: 20,
            shapes,
        };
        story.world.job.spec = Arc::new(spec);
        story
    }

    /// So long after the earliest start that it accepts, in a shape, so many at which site.
    fn plan_parts(&self, shape: usize, after: DurationMs, parts: PartsAtSites<'_>) -> FlexPlan {
        let job = self
            .world
            .job
            .divisible_job(&self.world.parameters, self.world.now)
            .unwrap();
        let start = self.earliest_start() + after;
        let time = job
            .shapes
            .get(shape)
            .map(|shape| job.run_time_on(shape, parts.len()));
        let parts: Vec<_> = parts
            .iter()
            .map(|(at, count)| (site(*at), *count))
            .collect();
        FlexPlan {
            shape,
            start,
            completion: start + time.unwrap_or_default(),
            parts,
        }
    }

    fn request_division(&mut self, after: DurationMs, parts: PartsAtSites<'_>) -> DivisionFacts {
        let plan = self.plan_parts(0, after, parts);
        let placements = placements_of_parts(parts);
        let wish = self.world.job.reservation_terms();
        self.world.apply_command(JobCommand::Divide {
            plan,
            placements,
            wish,
        })
    }

    fn request_new_division(
        &mut self,
        shape: usize,
        after: DurationMs,
        parts: PartsAtSites<'_>,
    ) -> DivisionFacts {
        let plan = self.plan_parts(shape, after, parts);
        let placements = placements_of_parts(parts);
        self.world.apply_command(JobCommand::DivideAnew {
            plan,
            placements,
            freed: vec![site(0)],
        })
    }

    /// Promised four and two from an hour after the earliest start that it accepts.
    fn with_confirmed_division(flexible: bool) -> Self {
        let mut story = Self::with_flexible_job(flexible);
        assert_eq!(
            story.request_division(HOUR, &[(0, 4), (1, 2)]).unwrap(),
            ["ReservationSought"]
        );
        story.answer_all_calls();
        assert_eq!(story.world.phase(), PhaseKind::Placed);
        story
    }

    fn component_shares(&self) -> Vec<(usize, u32)> {
        let placed = self
            .world
            .job
            .components
            .iter()
            .filter_map(|c| c.placement.as_ref());
        let at = |placement: &Placement| (0..2).find(|at| site(*at) == placement.site).unwrap();
        placed
            .map(|placement| (at(placement), placement.share.unwrap()))
            .collect()
    }
}

#[test]
fn each_part_of_a_flexible_job_gets_a_reservation_as_long_as_it_runs() {
    let story = ReservationWorld::with_confirmed_division(false);
    let job = &story.world.job;
    let parameters = &story.world.parameters;
    assert_eq!(story.component_shares(), [(0, 4), (1, 2)]);
    assert_eq!(story.held_serials().len(), 2);
    let over_sites = HOUR + DurationMs(HOUR.0 / 5);
    assert_eq!(job.wall_time(), over_sites, "it spans sites");
    let lead = parameters.reservation_lead;
    let margin = parameters.wall_margin;
    let lasts = reservation_length(MINUTE, DurationMs::ZERO, lead, over_sites, margin);
    for component in &job.components {
        let promised = component.acquisition().reservation_use().unwrap();
        assert_eq!(promised.to.since(promised.from), lasts);
    }
    let names: Vec<_> = job
        .indexed_components()
        .filter_map(|(index, _)| job.component_name(index))
        .collect();
    assert_eq!(names, ["c0-1", "c0-2"]);
    assert_eq!(
        job.reserved_start(),
        Some(story.earliest_start() + HOUR + lead)
    );
}

#[test]
fn what_sites_do_not_grant_is_divided_anew_but_not_for_ever() {
    let mut story = ReservationWorld::with_flexible_job(false);
    story.occupy_all_sites();
    for _ in 0..4 {
        story
            .request_division(DurationMs::ZERO, &[(0, 4), (1, 2)])
            .unwrap();
        story.answer_all_calls();
        let JobPhase::Queued { not_before, .. } = story.world.job.phase else {
            panic!()
        };
        assert!(not_before > story.world.now, "not at once");
        assert!(
            story.world.job.reservation_due_at() <= Some(story.world.now),
            "nobody waits"
        );
        story.world.now = not_before;
    }
    story
        .request_division(DurationMs::ZERO, &[(0, 4), (1, 2)])
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Failed);
    assert!(story.held_serials().is_empty());
}

#[test]
fn a_start_beyond_the_window_is_asked_for_so_that_sites_say_when() {
    let mut story = ReservationWorld::with_flexible_job(false);
    story.occupy_site(0, DurationMs::ZERO, HOUR + HOUR + HOUR);
    story
        .request_division(HOUR + HOUR + HOUR, &[(0, 4), (1, 2)])
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Failed);
    let lead = story.world.parameters.reservation_lead;
    let next = story.earliest_start() + HOUR + HOUR + HOUR + lead;
    assert_eq!(story.world.job.reservation_refused_until(), Some(next));
}

#[test]
fn a_better_division_is_promised_once_all_of_it_is_had() {
    let mut story = ReservationWorld::with_confirmed_division(true);
    let late = story.world.job.reserved_start();
    let before = story.held_serials();
    // Four of the first site are held from then on by the job itself.
    assert_eq!(
        story.request_new_division(0, DurationMs::ZERO, &[(0, 2), (1, 4)]),
        Ok(vec!["ReservationForwardSought"])
    );
    let (question, ask) = story.due_call().unwrap();
    let outcome = story.outcome_at_site(&ask);
    story.apply_outcome(question, outcome).unwrap();
    assert_eq!(
        story.world.job.reserved_start(),
        late,
        "not all of it is confirmed"
    );
    story.occupy_all_sites();
    story.answer_all_calls();
    assert_eq!(
        (story.world.job.reserved_start(), story.held_serials()),
        (late, before),
        "refused"
    );
    assert_eq!(story.component_shares(), [(0, 4), (1, 2)]);
}

#[test]
fn another_shape_at_one_site_takes_the_place_of_two_parts() {
    let mut story = ReservationWorld::with_confirmed_division(true);
    let before = story.held_serials();
    // Three of the second site have room beside the two that it holds: no, but before them.
    story.world.now = story.earliest_start() - HOUR;
    let early = DurationMs::ZERO;
    let slower = story.request_new_division(1, early, &[(1, 3)]);
    assert_eq!(
        slower,
        Ok(vec!["ReservationForwardSought"]),
        "complete at two, not at 2:12"
    );
    story.answer_all_calls();
    assert_eq!(
        story.component_shares(),
        [(0, 4), (1, 2)],
        "no room for both"
    );
    assert_eq!(story.held_serials(), before);
}

#[test]
fn a_job_that_is_divided_anew_runs_as_long_as_its_shape_says() {
    let mut story = ReservationWorld::with_flexible_job(true);
    story
        .request_division(HOUR + DurationMs(50 * MINUTE.0), &[(0, 4), (1, 2)])
        .unwrap();
    story.answer_all_calls();
    let before = story.held_serials();
    // Over before the others begin, and so beside them.
    let mut spec = (*story.world.job.spec).clone();
    spec.run.molding.shapes[0].run_time = HOUR + DurationMs(HOUR.0 / 2);
    story.world.job.spec = Arc::new(spec);
    story
        .request_new_division(1, DurationMs::ZERO, &[(1, 3)])
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.component_shares(), [(1, 3)]);
    let job = &story.world.job;
    assert_eq!(
        job.wall_time(),
        HOUR + DurationMs(HOUR.0 / 2),
        "one site has no overhead"
    );
    assert_eq!(
        job.component_name(crate::ids::ComponentIndex(0)).unwrap(),
        "c0"
    );
    assert_eq!(story.held_serials().len(), 1);
    assert!(
        story
            .held_serials()
            .iter()
            .all(|serial| !before.contains(serial)),
        "the old went back"
    );
}

#[test]
fn no_plan_counts_that_is_not_one_of_the_job_or_no_better() {
    let mut story = ReservationWorld::with_flexible_job(true);
    for parts in [&[(0, 4), (1, 3)][..], &[(0, 4)], &[]] {
        assert_eq!(
            story.request_division(HOUR, parts),
            Err(JobRejection::Stale),
            "{parts:?}"
        );
    }
    let plan = story.plan_parts(0, HOUR, &[(0, 4), (1, 2)]);
    let elsewhere = placements_of_parts(&[(1, 4), (0, 2)]);
    let wish = story.world.job.reservation_terms();
    let told = story.world.apply_command(JobCommand::Divide {
        plan,
        placements: elsewhere,
        wish,
    });
    assert_eq!(told, Err(JobRejection::Stale));
    let mut story = ReservationWorld::with_confirmed_division(true);
    for (shape, after) in [(0, HOUR), (2, DurationMs::ZERO), (0, HOUR + MINUTE)] {
        let told = story.request_new_division(shape, after, &[(0, 4), (1, 2)]);
        assert_eq!(told, Err(JobRejection::Stale), "{shape} {after}");
    }
    let later = story.request_new_division(1, MINUTE, &[(0, 3)]);
    assert_eq!(
        later,
        Ok(vec!["ReservationForwardSought"]),
        "earlier complete by eleven minutes"
    );
    let mut story = ReservationWorld::with_confirmed_division(false);
    let told = story.request_new_division(0, DurationMs::ZERO, &[(0, 4), (1, 2)]);
    assert_eq!(told, Err(JobRejection::Stale), "its user did not allow it");
    assert_eq!(story.world.job.reschedulable_job(Timestamp(0)), None);
}
