//! Jobs with components that are claimed when the reservations of the others begin.

use proptest::prelude::*;

use super::job_world::site;
use super::reservations::ReservationWorld;
use crate::acquisition::{Acquisition, ReservationTerms};
use crate::ids::ComponentIndex;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::{JobPhase, PhaseKind, TermsChange, UnreservedComponent};
use crate::placed::Placement;
use crate::units::{DurationMs, Timestamp};

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const MINUTE: DurationMs = DurationMs::from_secs(60);

fn placement_at(index: usize) -> Placement {
    Placement {
        site: site(index),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    }
}

/// A job of two components, the second of which only a site could hold that grants nothing.
fn world_with_unreserved(
    unreserved: bool,
) -> (ReservationWorld, Result<Vec<&'static str>, JobRejection>) {
    let mut story = ReservationWorld::new_flexible(2, HOUR, 1, false);
    let wish = story.world.job.reservation_terms().unwrap();
    story.world.job.wish = TermsChange::Changed(ReservationTerms { unreserved, ..wish });
    let told = story.world.apply_command(JobCommand::Reserve {
        candidates: vec![vec![placement_at(0)], Vec::new()],
        unreserved: vec![Vec::new(), vec![placement_at(7), placement_at(8)]],
        rankings: Vec::new(),
        wish: story.world.job.reservation_terms(),
    });
    (story, told)
}

#[test]
fn a_component_nobody_could_promise_is_claimed_where_its_user_lets_it() {
    let (mut story, told) = world_with_unreserved(true);
    assert_eq!(told.unwrap(), ["ReservationSought", "UnreservedChosen"]);
    story.answer_all_calls();
    let job = &story.world.job;
    assert_eq!(job.phase.kind(), PhaseKind::Placed);
    assert!(job.components[0].acquisition().reservation_use().is_some());
    assert_eq!(job.components[1].acquisition(), Acquisition::ClaimNow);
    assert_eq!(job.components[1].placement.as_ref().unwrap().site, site(7));
    let begins = job.last_reservation_begin().unwrap();
    assert_eq!(
        job.next_claim_time(&story.world.parameters),
        Some(begins),
        "with the others"
    );
}

#[test]
fn without_that_the_job_is_refused_and_told_the_remedy() {
    let (story, told) = world_with_unreserved(false);
    assert_eq!(told.unwrap(), ["JobFailed"]);
    let JobPhase::Failed { reason, .. } = &story.world.job.phase else {
        panic!()
    };
    assert!(reason.contains("unreserved = \"claim\""), "{reason}");
}

#[test]
fn a_job_of_which_nothing_would_be_reserved_is_refused() {
    let (mut story, _) = world_with_unreserved(true);
    story.world.job.reservation = None;
    let candidates = vec![Vec::new(), Vec::new()];
    let unreserved = vec![vec![placement_at(7)], vec![placement_at(7)]];
    story.world.job.phase = JobPhase::Queued {
        since: story.world.now,
        not_before: Timestamp(0),
    };
    let rankings = Vec::new();
    let wish = story.world.job.reservation_terms();
    let told = story.world.apply_command(JobCommand::Reserve {
        candidates,
        unreserved,
        rankings,
        wish,
    });
    assert_eq!(told.unwrap(), ["JobFailed"]);
}

#[test]
fn idle_processors_are_looked_for_as_long_as_the_others_can_wait() {
    let (mut story, _) = world_with_unreserved(true);
    story.answer_all_calls();
    let JobPhase::Placed { start_estimate, .. } = story.world.job.phase else {
        panic!()
    };
    let promised = story.world.job.reserved_start().unwrap();
    assert_eq!(start_estimate, promised + MINUTE, "the tolerance");
    let held = story.world.job.components[0]
        .acquisition()
        .reservation_use()
        .unwrap();
    let margin = story.world.parameters.wall_margin;
    assert!(start_estimate + story.world.job.spec.wall_time + margin <= held.to);
}

proptest! {
    /// Who could be reserved is; of the others each goes to the best site, and none twice.
    #[test]
    fn only_what_nobody_could_promise_is_chosen(
        sites in proptest::collection::vec((0..3_usize, 0..3_usize), 0..8),
    ) {
        let reserved: Vec<Vec<Placement>> =
            sites.iter().map(|(count, _)| (0..*count).map(placement_at).collect()).collect();
        let unreserved: Vec<Vec<Placement>> =
            sites.iter().map(|(_, count)| (10..10 + *count).map(placement_at).collect()).collect();
        let chosen = UnreservedComponent::choose_unreserved(&reserved, &unreserved);
        for (index, (granting, others)) in sites.iter().enumerate() {
            let mut of = chosen.iter().filter(|one| one.component == ComponentIndex(index as u32));
            let expected = (*granting == 0 && *others > 0).then(|| site(10));
            prop_assert_eq!(of.next().map(|one| one.placement.site.clone()), expected);
            prop_assert!(of.next().is_none());
        }
    }
}
