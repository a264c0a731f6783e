//! Jobs that want a promised start only if they need one.

use proptest::prelude::*;

use super::job_world::{key, site};
use super::reservations::ReservationWorld;
use crate::acquisition::ReservationTerms;
use crate::ids::ComponentIndex;
use crate::job::job_command::{JobCommand, JobRejection};
use crate::job::job_state::{Job, JobPhase, PhaseKind, TermsChange};
use crate::placed::Placement;
use crate::placement::{PlacementDefaults, PlacementRequest};
use crate::queue::WaitingJob;
use crate::reservation::StartWindow;
use crate::units::{DurationMs, Timestamp};

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const AFTER: DurationMs = DurationMs::from_secs(600);

/// A job that may start at once, or up to three hours later, and asks for a promise after ten
/// minutes; at sites of four processors.
fn reserve_if_needed_world(components: usize, sites: usize) -> ReservationWorld {
    let mut story = ReservationWorld::new_flexible(components, HOUR, sites, false);
    let now = story.world.now;
    let window = StartWindow::new(now, now + HOUR + HOUR + HOUR);
    let wish = ReservationTerms {
        window,
        reserve_after: Some(AFTER),
        ..Default::default()
    };
    story.world.job.wish = TermsChange::Changed(wish);
    story
}

fn place_at_first_site(story: &mut ReservationWorld) -> Result<Vec<&'static str>, JobRejection> {
    let placement = Placement {
        site: site(0),
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    };
    story.world.apply_command(JobCommand::Place {
        placements: vec![placement],
        by: None,
    })
}

fn waits_for_placement(job: &Job) -> bool {
    WaitingJob::from_job(job, || {
        PlacementRequest::of_job(job, &PlacementDefaults::default()).into()
    })
    .is_some()
}

#[test]
fn processors_are_claimed_until_sites_are_asked() {
    let mut story = reserve_if_needed_world(1, 1);
    let asked_at = story.world.now + AFTER;
    assert!(waits_for_placement(&story.world.job));
    assert_eq!(story.world.job.reservation_due_at(), Some(asked_at));
    story.world.now = asked_at - DurationMs(1);
    assert_eq!(
        story.request_reservations(),
        Err(JobRejection::Stale),
        "it is not time yet"
    );
    story.world.now = asked_at;
    assert_eq!(story.request_reservations().unwrap(), ["ReservationSought"]);
    assert!(
        !waits_for_placement(&story.world.job),
        "while sites are asked"
    );
    assert_eq!(
        place_at_first_site(&mut story),
        Err(JobRejection::Stale),
        "a plan of before that comes too late"
    );
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    assert!(story.world.job.reserved_start().is_some());
}

#[test]
fn a_job_that_got_idle_processors_asks_nobody() {
    let mut story = reserve_if_needed_world(1, 1);
    assert_eq!(
        place_at_first_site(&mut story).unwrap(),
        ["JobPlaced", "ClaimBegun"]
    );
    story.world.now = story.world.now + HOUR;
    assert_eq!(story.world.job.reservation_due_at(), None);
    assert_eq!(story.request_reservations(), Err(JobRejection::Stale));
}

#[test]
fn a_job_that_runs_out_of_tries_asks_sites_before_it_fails() {
    let mut story = reserve_if_needed_world(1, 1);
    story.occupy_all_sites();
    let give_up = JobCommand::GiveUpPlacement { tries: 4 };
    assert_eq!(
        story.world.apply_command(give_up.clone()).unwrap(),
        ["ReservationChanged"]
    );
    assert!(!waits_for_placement(&story.world.job));
    assert_eq!(
        story.request_reservations().unwrap(),
        ["ReservationSought"],
        "at once"
    );
    story.answer_all_calls();
    assert_eq!(
        story.world.phase(),
        PhaseKind::Failed,
        "no site grants it, and no try is left"
    );
    let mut late = self::reserve_if_needed_world(1, 1);
    late.world.now = late.world.now + HOUR + HOUR + HOUR + DurationMs(1);
    assert_eq!(late.world.apply_command(give_up).unwrap(), ["JobFailed"]);
}

#[test]
fn a_refused_job_keeps_its_place_in_the_queue_and_asks_again() {
    let mut story = reserve_if_needed_world(1, 1);
    let submitted = story.world.now;
    story.occupy_all_sites();
    story.world.now = submitted + AFTER;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let JobPhase::Queued { since, .. } = story.world.job.phase else {
        panic!("{:?}", story.world.job.phase)
    };
    assert_eq!(since, submitted);
    assert!(waits_for_placement(&story.world.job));
    let again = submitted + AFTER + AFTER + AFTER;
    assert_eq!(story.world.job.reservation_due_at(), Some(again));
    story.free_all_sites();
    story.world.now = again;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
}

#[test]
fn each_refusal_doubles_the_pause_before_sites_are_asked_again() {
    let week = StartWindow::new(Timestamp(0), Timestamp(0) + DurationMs(7 * 24 * HOUR.0));
    let pauses = |after: u64| {
        let reserve_after = Some(DurationMs::from_secs(60 * after));
        let wish = ReservationTerms {
            window: week,
            reserve_after,
            ..Default::default()
        };
        [0, 1, 2, 3, 4, 5, u32::MAX]
            .map(|refusals| wish.next_request_at(Timestamp(0), refusals).0 / 60_000)
    };
    assert_eq!(pauses(10), [10, 20, 40, 80, 160, 240, 240]);
    assert_eq!(
        pauses(0),
        [0, 1, 1, 1, 1, 1, 1],
        "nobody asks without a pause"
    );
    assert_eq!(pauses(600), [600; 7]);
}

#[test]
fn refusals_are_forgotten_once_a_job_is_placed_or_its_wish_changes() {
    let mut story = reserve_if_needed_world(1, 1);
    story.occupy_all_sites();
    story.world.now = story.world.now + AFTER;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let refusals =
        |story: &ReservationWorld| story.world.job.reservation.as_deref().unwrap().refusals;
    assert_eq!(refusals(&story), 1);
    let wish = story.world.job.reservation_terms();
    story
        .world
        .apply_command(JobCommand::ChangeReservation { wish, by: key() })
        .unwrap();
    assert_eq!(refusals(&story), 0);
    story.world.now = story.world.now + AFTER;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(refusals(&story), 1);
    place_at_first_site(&mut story).unwrap();
    assert_eq!(refusals(&story), 0);
}

#[test]
fn a_job_whose_latest_start_passes_while_it_waits_fails() {
    let mut story = reserve_if_needed_world(1, 1);
    let latest = story.world.job.reservation_terms().unwrap().window.latest;
    story.world.now = latest - DurationMs::from_secs(60);
    story.occupy_all_sites();
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let end = story.world.job.reservation_due_at().unwrap();
    assert_eq!(end, latest + DurationMs(1), "nobody is asked any more");
    story.world.now = end;
    assert_eq!(story.request_reservations().unwrap(), ["JobFailed"]);
}

#[test]
fn a_job_that_lost_what_it_was_promised_asks_at_once() {
    let mut story = reserve_if_needed_world(1, 1);
    story.world.now = story.world.now + AFTER;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    story
        .world
        .apply_command(JobCommand::LeaveSite(site(0)))
        .unwrap();
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Queued);
    assert!(story.world.job.reservation_due_at().unwrap() <= story.world.now);
}

#[test]
fn nothing_is_claimed_before_the_earliest_start() {
    let mut story = reserve_if_needed_world(1, 1);
    let mut wish = story.world.job.reservation_terms().unwrap();
    wish.window.earliest = wish.window.earliest + HOUR;
    story.world.job.wish = TermsChange::Changed(wish);
    assert_eq!(story.world.job.claimable_from(), Some(wish.window.earliest));
}

#[test]
fn a_start_that_a_user_asks_for_is_looked_for_at_once() {
    let mut story = reserve_if_needed_world(1, 1);
    let window = StartWindow::single_start(story.world.now + HOUR);
    let wish = Some(ReservationTerms {
        window,
        ..Default::default()
    });
    story
        .world
        .apply_command(JobCommand::ChangeReservation { wish, by: key() })
        .unwrap();
    assert!(!waits_for_placement(&story.world.job));
    assert!(story.request_reservations().is_ok());
}

proptest! {
    /// A job that waits is claimed for, or sites are asked, or both will be; the two never at once.
    #[test]
    fn no_job_waits_for_nothing(
        steps in proptest::collection::vec((0..4_u8, 1..40_u64), 1..30),
    ) {
        let mut story = reserve_if_needed_world(1, 1);
        let latest = story.world.job.reservation_terms().unwrap().window.latest;
        for (step, minutes) in steps {
            match step {
                0 => drop(story.request_reservations()),
                1 => drop(place_at_first_site(&mut story)),
                2 => story.occupy_all_sites(),
                _ => story.free_all_sites(),
            }
            story.answer_all_calls();
            let job = &story.world.job;
            if let JobPhase::Queued { .. } = job.phase {
                let asked_at = job.reservation_due_at().unwrap();
                prop_assert!(waits_for_placement(job) && !job.has_live_reservation_search());
                prop_assert!(asked_at <= latest + DurationMs(1));
            } else if job.reserved_start().is_some() {
                prop_assert!(!waits_for_placement(job));
                prop_assert!(job.reservation_due_at().is_none());
            }
            if job.phase.kind() != PhaseKind::Queued {
                break;
            }
            story.world.now = story.world.now + DurationMs::from_secs(60 * minutes);
        }
    }

    /// When sites are asked follows from the wish alone, and never lies between the latest start
    /// and what tells that it has passed.
    #[test]
    fn sites_are_asked_within_the_window_or_not_at_all(
        since in 0..10_000_u64, after in proptest::option::of(0..10_000_u64), latest in 0..10_000_u64,
    ) {
        let window = StartWindow::new(Timestamp(0), Timestamp(latest));
        let reserve_after = after.map(DurationMs);
        let wish = ReservationTerms { window, reserve_after, ..Default::default() };
        let asked_at = wish.next_request_at(Timestamp(since), 0).0;
        match after {
            None => prop_assert_eq!(asked_at, 0),
            Some(after) if since + after <= latest => prop_assert_eq!(asked_at, since + after),
            Some(_) => prop_assert_eq!(asked_at, latest + 1),
        }
    }

    /// However often sites refuse, they are asked ever more seldom, and a last time while there is
    /// still as long as a job waits for them first.
    #[test]
    fn refused_jobs_ask_ever_more_seldom_and_once_more_at_the_end(
        after in 60_000..3_600_000_u64, latest in 0..1_000_000_000_u64,
    ) {
        let window = StartWindow::new(Timestamp(0), Timestamp(latest));
        let reserve_after = Some(DurationMs(after));
        let wish = ReservationTerms { window, reserve_after, ..Default::default() };
        let mut asked = Vec::new();
        let mut since = Timestamp(0);
        while let Some(at) = Some(wish.next_request_at(since, asked.len() as u32)).filter(|at| at.0 <= latest) {
            prop_assert!(at.0 >= since.0 + after);
            asked.push(at);
            since = at;
        }
        prop_assert!(asked.len() as u64 <= 8 + latest / (4 * HOUR.0), "{:?}", asked);
        let is_last = asked.last().is_none_or(|last| last.0 + 3 * after > latest);
        prop_assert!(is_last || latest < 3 * after, "{:?} until {}", asked, latest);
    }
}

#[test]
fn components_are_asked_for_together() {
    let mut story = reserve_if_needed_world(2, 2);
    story.world.now = story.world.now + AFTER;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    let promised = |index| {
        let component: &crate::job::job_state::Component = &story.world.job.components[index];
        component.acquisition().reservation_use().is_some()
    };
    assert!(
        promised(0) && promised(1) && story.world.job.component_spec(ComponentIndex(1)).is_some()
    );
}
