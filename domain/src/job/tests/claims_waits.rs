//! Claims where as much waited lately, and of jobs whose input was late again and again.

use super::*;

#[test]
fn where_as_much_waited_lately_nothing_is_claimed_or_preempted() {
    let waits = |at: SiteName| {
        let mut field = ClaimTestSites {
            waited: Some(at),
            ..claim_test_sites()
        };
        let attempt = plan_both_thresholds(&job_world_at(240, 0, 8), &mut field);
        (
            started_components(&attempt),
            preempted_jobs(&attempt),
            moved_components(&attempt),
        )
    };
    assert_eq!(waits(c()), (vec![1, 2, 3], vec![2], vec![]), "elsewhere");
    assert_eq!(
        waits(a()),
        (vec![2, 3], vec![], vec![(3, a())]),
        "16 at A stay unclaimed"
    );
    let mut field = ClaimTestSites {
        waited: Some(b()),
        ..claim_test_sites()
    };
    field.idle = BTreeMap::from([(a(), 16), (b(), 16), (c(), 0)]);
    let attempt = plan_both_thresholds(&job_world_at(240, 0, 17), &mut field);
    assert_eq!(
        (
            super::started_components(&attempt),
            super::preempted_jobs(&attempt)
        ),
        (vec![1, 2], vec![])
    );
}

#[test]
fn input_that_was_late_again_and_again_is_waited_for() {
    let mut world = job_world_at(0, 1_000, 8);
    for (rounds, doublings) in [(0, 0), (4, 0), (5, 1), (6, 3), (60, 63)] {
        world.job.setbacks.rounds = 70;
        world.job.setbacks.missed_starts = rounds;
        world.parameters.claim.l_step = PerMillion(0);
        assert_eq!(
            next_try_secs(&world),
            Some(240_000 + doublings * 320_000),
            "after {rounds} rounds"
        );
        world.job.setbacks.rounds = 4;
        assert_eq!(
            next_try_secs(&world),
            Some(240_000),
            "the others held nothing"
        );
    }
    world.look_with_inputs(InputState::Here);
    assert_eq!(next_try_secs(&world), Some(0), "however early that is");
}

/// A site whose prologue takes minutes sets the pace of all that start together with it.
#[test]
fn the_longest_limits_of_the_sites_of_a_round_count() {
    use crate::acquisition::ClaimTimeLimits;
    let given_up = |timeouts: &[(SiteName, u64)]| {
        let mut world = job_world_at(240, 1_000, 8);
        let limits = |secs| {
            let length = DurationMs::from_secs(secs);
            ClaimTimeLimits {
                ready_within: length,
                max_hold: length,
            }
        };
        let own = timeouts
            .iter()
            .map(|(site, secs)| (site.clone(), limits(*secs)));
        world.parameters.claims_at = own.collect();
        world.parameters.claim_timeout = DurationMs::from_secs(120);
        let claims = world.job.claim_limits(&world.parameters);
        let hold = world.parameters.claim_limits_at([&a()]).max_hold;
        (claims.ready_within.0 / 1_000, hold.0 / 1_000)
    };
    assert_eq!(given_up(&[]), (120, 600), "what is said for all");
    assert_eq!(given_up(&[(b(), 300)]), (300, 600));
    assert_eq!(
        given_up(&[(a(), 20)]),
        (120, 20),
        "the other has what is said for all"
    );
    assert_eq!(given_up(&[(a(), 20), (b(), 30)]), (30, 20));
    assert_eq!(
        given_up(&[(c(), 900)]),
        (120, 600),
        "nothing is placed there"
    );
}

#[test]
fn a_claim_is_waited_for_as_long_as_its_slowest_site_says() {
    use crate::acquisition::ClaimTimeLimits;
    let mut world = JobWorld::new(spec(1));
    world.place_job();
    world.accept_all_submissions();
    let site = world.job.components[0]
        .placement
        .as_ref()
        .unwrap()
        .site
        .clone();
    let ready_within = DurationMs::from_secs(900);
    let max_hold = DurationMs::from_secs(900);
    world.parameters.claims_at = [(
        site,
        ClaimTimeLimits {
            ready_within,
            max_hold,
        },
    )]
    .into();
    world.now = world.now + world.parameters.claim_timeout;
    let _ = world.apply_command(JobCommand::Look(JobSurroundings::default()));
    assert_eq!(world.phase(), PhaseKind::Claiming);
    world.now = world.now + ready_within;
    world
        .apply_command(JobCommand::Look(JobSurroundings::default()))
        .unwrap();
    assert_eq!(world.phase(), PhaseKind::Aborting);
}
