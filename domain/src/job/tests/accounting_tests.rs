//! What a job cost: the vectors M-1 to M-4.

use super::job_world::{JobWorld, lost_input, spec};
use crate::claim::ClaimTry;
use crate::ids::LrmId;
use crate::job::accounting::JobAccounting;
use crate::job::job_command::{
    AttemptSighting, InputState, JobCommand, JobSurroundings, SiteClockTimes, SubmissionAnswer,
};
use crate::job::job_state::PhaseKind;
use crate::units::{ClockSkew, DurationMs};

const SECOND: u64 = 1_000;

fn accounting_of(world: &JobWorld) -> JobAccounting {
    JobAccounting::from_job(&world.job)
}

fn seconds(secs: u64) -> Option<DurationMs> {
    Some(DurationMs::from_secs(secs))
}

/// A job with input, whose claim begins early: as soon as the components are placed.
fn world_with_early_claim(sizes: &[u32]) -> JobWorld {
    let mut spec = spec(sizes.len());
    for (component, size) in spec.components.iter_mut().zip(sizes) {
        component.resources.processors = *size;
    }
    let mut world = JobWorld::new(spec);
    world.parameters.claim_timeout = DurationMs::from_secs(3_600);
    world
}

/// M-1: claims at 240, 240 and 300, start at 320.
#[test]
fn what_is_gained_and_wasted_counts_processors_and_time() {
    let mut world = world_with_early_claim(&[16, 8, 8]);
    let mut placements = world.placements(320_000);
    placements
        .iter_mut()
        .for_each(|placement| placement.transfer_time = DurationMs::ZERO);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.accept_all_submissions();
    world.advance_secs(240);
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    world.sight_attempt(1, AttemptSighting::Ready("n".into()));
    world.advance_secs(60);
    world.sight_attempt(2, AttemptSighting::Ready("n".into()));
    assert_eq!(world.phase(), PhaseKind::Claiming, "input is missing");
    world.advance_secs(20);
    world.look_with_inputs(InputState::Here);
    assert_eq!(world.phase(), PhaseKind::Starting);
    let found = accounting_of(&world);
    assert_eq!(found.gained_time, seconds(300));
    assert_eq!(found.gained_processor_ms, 8_160 * SECOND);
    assert_eq!(found.wasted_processor_ms, 2_080 * SECOND);
    assert_eq!(found.sites_combined, 3);
}

/// As M-1, but each wrapper takes 20 s to its gate, and each payload 15 s to begin.
#[test]
fn processors_are_held_from_the_start_at_the_site_until_the_payload_begins() {
    let mut world = world_with_early_claim(&[16, 8]);
    let mut placements = world.placements(320_000);
    placements
        .iter_mut()
        .for_each(|placement| placement.transfer_time = DurationMs::ZERO);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.accept_all_submissions();
    world.advance_secs(240);
    let ahead = ClockSkew(3_600_000);
    let held_at = Some(world.now + ahead - DurationMs::from_secs(20));
    for index in [0, 1] {
        let times = SiteClockTimes {
            clock: ahead,
            held_at,
            ..SiteClockTimes::default()
        };
        world.sight_attempt_at(index, times, AttemptSighting::Ready("n".into()));
    }
    world.look_with_inputs(InputState::Here);
    let found = accounting_of(&world);
    assert_eq!(found.gained_time, seconds(220));
    assert_eq!(found.gained_processor_ms, 24 * 220 * SECOND);
    assert_eq!(found.wasted_processor_ms, 24 * 20 * SECOND, "to the gate");
    world.advance_secs(15);
    world.sight_attempt(0, AttemptSighting::Begun("n".into()));
    world.advance_secs(5);
    world.sight_attempt(1, AttemptSighting::TooLate);
    let found = accounting_of(&world);
    assert_eq!(
        found.wasted_processor_ms,
        (16 * 35 + 8 * 40) * SECOND,
        "and behind it"
    );
    world.advance_secs(100);
    world.sight_attempt(0, AttemptSighting::Failed("killed".into()));
    assert_eq!(
        accounting_of(&world).wasted_processor_ms,
        found.wasted_processor_ms,
        "it ran"
    );
}

/// M-2.
#[test]
fn what_a_failed_round_held_is_wasted() {
    let mut world = world_with_early_claim(&[16, 8, 8]);
    world.parameters.claim_timeout = DurationMs::from_secs(80);
    world.place_job();
    world.accept_all_submissions();
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    world.sight_attempt(1, AttemptSighting::Ready("n".into()));
    world.advance_secs(80);
    world.look_with_inputs(InputState::Unknown);
    assert_eq!(world.phase(), PhaseKind::Aborting);
    world.sight_all(AttemptSighting::Void);
    assert_eq!(world.phase(), PhaseKind::Queued);
    assert_eq!(accounting_of(&world).wasted_processor_ms, 1_920 * SECOND);
    assert_eq!(accounting_of(&world).gained_processor_ms, 0);
}

/// A claiming try at the time that is planned for it, which finds nothing idle.
fn make_failing_try(world: &mut JobWorld) {
    world.now = world
        .job
        .next_claim_time(&world.parameters)
        .expect("a time for a try");
    let attempt = ClaimTry {
        round: world.job.round,
        ..ClaimTry::default()
    };
    world
        .apply_command(JobCommand::Claim(attempt, JobSurroundings::default()))
        .unwrap();
}

/// M-3, whole: two placements, the first of which could not be claimed by its start time.
#[test]
fn vector_m_3() {
    let mut world = world_with_early_claim(&[4]);
    let submitted = world.now;
    let at = |secs: u64| submitted + DurationMs::from_secs(secs);
    let claim_time = |world: &JobWorld| world.job.next_claim_time(&world.parameters);

    world.advance_secs(120);
    let placements = world.placements(320_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    assert_eq!(
        claim_time(&world),
        Some(at(360)),
        "JCT(0) = 120 + 0.75 x 320"
    );
    while world.phase() == PhaseKind::Placed {
        make_failing_try(&mut world);
    }
    assert_eq!(
        (world.now, world.phase()),
        (at(440), PhaseKind::Queued),
        "back at JST"
    );

    world.advance_secs(60);
    let placements = world.placements(160_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    assert_eq!(
        claim_time(&world),
        Some(at(580)),
        "JCT(0) = 500 + 0.5 x 160: L fell"
    );
    make_failing_try(&mut world);
    assert_eq!(claim_time(&world), Some(at(620)), "580 + 0.5 x 80");
    world.now = at(620);
    world.look_with_inputs(InputState::Unknown);
    world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    world.now = at(660);
    world.look_with_inputs(InputState::Here);
    world.sight_attempt(0, AttemptSighting::Begun("n".into()));
    world.now = at(800);
    world.sight_attempt(0, AttemptSighting::Succeeded);

    assert_eq!(world.phase(), PhaseKind::Finished);
    let found = accounting_of(&world);
    assert_eq!(found.placement_time, seconds(60));
    assert_eq!(found.total_placement_time, DurationMs::from_secs(180));
    assert_eq!(found.start_delay_ms, Some(220_000), "660 less 440");
    assert_eq!(found.gained_time, seconds(120), "620 less 500");
    assert_eq!(found.wait_time, seconds(660));
    assert_eq!(found.execution_time, seconds(140));
    assert_eq!(found.response_time, seconds(800));
}

/// As M-3, but the first placement is lost with its input.
#[test]
fn the_durations_of_a_job_with_two_placements() {
    let mut world = world_with_early_claim(&[4]);
    world.advance_secs(120);
    let placements = world.placements(320_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.advance_secs(320);
    let lost = lost_input(&[0]);
    let _ = world.apply_command(JobCommand::Look(JobSurroundings {
        inputs: lost,
        ..JobSurroundings::default()
    }));
    if world.phase() == PhaseKind::Aborting {
        world.sight_all(AttemptSighting::Void);
    }
    assert_eq!(world.phase(), PhaseKind::Queued);
    world.advance_secs(60);
    let mut placements = world.placements(160_000);
    placements[0].transfer_time = DurationMs::ZERO;
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.look_with_inputs(InputState::Here);
    world.answer_submission(0, SubmissionAnswer::Accepted(LrmId::new("1").unwrap()));
    world.advance_secs(120);
    world.sight_attempt(0, AttemptSighting::Ready("n".into()));
    world.advance_secs(40);
    world.sight_attempt(0, AttemptSighting::Begun("n".into()));
    world.advance_secs(140);
    world.sight_attempt(0, AttemptSighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
    let found = accounting_of(&world);
    assert_eq!(found.placement_time, seconds(60));
    assert_eq!(found.total_placement_time, DurationMs::from_secs(180));
    assert_eq!(found.queue_time, seconds(500));
    assert_eq!(found.gained_time, seconds(120));
    assert_eq!(found.wait_time, seconds(660));
    assert_eq!(found.start_overhead, seconds(160));
    assert_eq!(found.execution_time, seconds(140));
    assert_eq!(found.response_time, seconds(800));
    assert_eq!(found.start_delay_ms, Some(60_000), "500 less 440");
}

/// M-4.
#[test]
fn a_start_that_comes_earlier_than_first_estimated_is_a_negative_delay() {
    let mut world = world_with_early_claim(&[4]);
    let placements = world.placements(1_000_000);
    world
        .apply_command(JobCommand::Place {
            placements,
            by: None,
        })
        .unwrap();
    world.advance_secs(100);
    let lost = lost_input(&[0]);
    world
        .apply_command(JobCommand::Look(JobSurroundings {
            inputs: lost,
            ..JobSurroundings::default()
        }))
        .unwrap();
    world.advance_secs(20);
    world.place_job();
    assert_eq!(accounting_of(&world).start_delay_ms, Some(-880_000));
}
