//! Flexible jobs that are promised a start: divided over two sites, and divided anew when local
//! jobs end early, under control planes that die.

use cospan_domain::acquisition::{AlternativeShape, MoldingOptions, ReservationTerms};
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::job::spec::{FlexibleBounds, JobSpec, RequestType};
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::PerMillion;

use super::control_plane_run::SimEnvironment;
use super::jobs::build_job;
use super::rescheduling_tests::{
    BEGINS, MINUTE, RescheduledJob, busy_environment, count_reservations,
    environment_of_local_runs, is_strictly_earlier, local_job, minutes, payload_starts, run_job,
};

/// So many processors for ten minutes, or six for thirty if it may be molded, a fifth longer over
/// both sites, within ten hours from now.
fn divided_job(processors: u32, flexible: bool, molds: bool) -> JobSpec {
    let mut spec = build_job(&[processors], MINUTE, minutes(10), 0).unwrap();
    spec.request = RequestType::Flexible(FlexibleBounds::default());
    let window = StartWindow::new(BEGINS, BEGINS + minutes(600));
    let wish = ReservationTerms {
        window,
        tolerance: MINUTE,
        flexible,
        ..Default::default()
    };
    spec.run.reservation = Some(wish);
    let six = AlternativeShape {
        processors: 6,
        run_time: minutes(30),
    };
    let shapes = if molds { vec![six] } else { Vec::new() };
    spec.run.molding = MoldingOptions {
        overhead: 20,
        shapes,
    };
    spec
}

/// What each component has, and where.
fn component_shares(job: &Job) -> Vec<(String, u32)> {
    let placed = job.components.iter().filter_map(|c| c.placement.as_ref());
    placed
        .map(|one| (one.site.to_string(), one.share.unwrap_or_default()))
        .collect()
}

/// Half of each site is free after a hundred minutes; all of the first after fifty.
fn environment_soon_free(seed: u64) -> SimEnvironment {
    let first = vec![local_job(8, 30, 100), local_job(4, 20, 400)];
    busy_environment(
        [first, vec![local_job(8, 100, 100), local_job(4, 400, 400)]],
        seed,
    )
}

#[test]
fn a_flexible_job_begins_over_two_sites_when_it_was_promised_to() {
    let environment = environment_of_local_runs([240, 240], 1);
    let RescheduledJob { job, promised } =
        run_job(&environment, &divided_job(12, false, false), &[], 1);
    assert_eq!(job.phase.kind(), PhaseKind::Finished, "{job:?}");
    assert_eq!(promised.len(), 1, "{promised:?}");
    let shares = component_shares(&job);
    assert_eq!(
        shares.iter().map(|(_, count)| count).sum::<u32>(),
        12,
        "{shares:?}"
    );
    assert_eq!(shares.len(), 2, "{shares:?}");
    assert_eq!(job.wall_time(), minutes(12), "with the overhead");
    let began = payload_starts(&environment);
    assert_eq!(began.len(), 2);
    assert!(
        began
            .iter()
            .all(|at| *at >= promised[0] && *at < promised[0] + MINUTE)
    );
    assert_eq!(environment.world.read(count_reservations), 0);
}

#[test]
fn an_early_end_brings_a_divided_job_forward_to_one_site() {
    let environment = environment_soon_free(1);
    let RescheduledJob { job, promised } =
        run_job(&environment, &divided_job(8, true, false), &[], 1);
    assert_eq!(job.phase.kind(), PhaseKind::Finished, "{job:?}");
    let soon = BEGINS + minutes(100)..BEGINS + minutes(102);
    assert!(
        soon.contains(&promised[0]),
        "over both at first: {promised:?}"
    );
    assert_eq!(component_shares(&job), [("delft".to_owned(), 8)]);
    assert_eq!(job.wall_time(), minutes(10), "within one site");
    assert!(is_strictly_earlier(&promised), "{promised:?}");
    assert!(
        promised[promised.len() - 1] < BEGINS + minutes(55),
        "{promised:?}"
    );
    assert_eq!(environment.world.read(count_reservations), 0);
}

#[test]
fn a_job_that_may_be_molded_runs_in_the_shape_that_is_complete_first() {
    let environment = environment_of_local_runs([60, 240], 1);
    let RescheduledJob { job, promised } =
        run_job(&environment, &divided_job(16, true, true), &[], 1);
    assert_eq!(job.phase.kind(), PhaseKind::Finished, "{job:?}");
    assert!(
        promised[0] >= BEGINS + minutes(240),
        "all of both sites: {promised:?}"
    );
    assert_eq!(component_shares(&job), [("delft".to_owned(), 6)]);
    assert_eq!(
        (job.current_shape_number(), job.wall_time()),
        (1, minutes(30))
    );
    assert!(
        promised[promised.len() - 1] < BEGINS + minutes(62),
        "{promised:?}"
    );
}

#[test]
fn a_division_lives_through_deaths_of_the_control_plane() {
    for seed in 1..=8_u64 {
        let environment = environment_soon_free(seed);
        let early = (0..3).map(|death| 62 + death * 21 + seed);
        let deaths: Vec<u64> = early
            .chain((0..4).map(|death| 2_990 + death * 27 + seed))
            .collect();
        let RescheduledJob { job, promised } =
            run_job(&environment, &divided_job(8, true, true), &deaths, seed);
        assert_eq!(
            job.phase.kind(),
            PhaseKind::Finished,
            "seed {seed}: {job:?}"
        );
        assert!(
            is_strictly_earlier(&promised) && promised.len() > 1,
            "seed {seed}: {promised:?}"
        );
        assert_eq!(
            environment.world.read(count_reservations),
            0,
            "seed {seed}: held by nobody"
        );
    }
}

#[test]
fn a_job_that_its_users_bound_keeps_from_any_division_is_told_so() {
    let ended = |share| {
        let mut environment = environment_of_local_runs([1, 1], 1);
        environment.settings.job.reservation_share = PerMillion(share);
        run_job(&environment, &divided_job(12, false, false), &[], 1)
            .job
            .phase
            .clone()
    };
    let JobPhase::Failed { reason, .. } = ended(250_000) else {
        panic!("it asks for too much")
    };
    assert!(reason.contains("have 4 for it altogether"), "{reason}");
    assert!(reason.contains("reservations.most_share"), "{reason}");
    assert!(matches!(ended(1_000_000), JobPhase::Finished { .. }));
}
