//! Sites that are ranked by what they grant, under control planes that die meanwhile.

use cospan_domain::acquisition::{
    BenchmarkScore, BenchmarkScores, JobBenchmark, RankingPreferences,
};
use cospan_domain::ids::SiteName;
use cospan_domain::job::job_state::PhaseKind;
use cospan_domain::job::spec::JobSpec;
use cospan_domain::reservation::CandidateState;

use super::control_plane_run::SimEnvironment;
use super::rescheduling_tests::{
    BEGINS, RescheduledJob, count_reservations, environment_of_local_runs, minutes, payload_starts,
    run_job, wide_job,
};
use crate::world::world_history::WorldLedgerEvent;

/// Two sites that are full for four hours, one of them sixty times as fast as the other.
fn environment_of_two_speeds(fast: &str, seed: u64) -> SimEnvironment {
    let mut environment = environment_of_local_runs([240, 240], seed);
    environment.settings.scores = ["delft", "leiden"]
        .into_iter()
        .map(|name: &str| {
            let score = BenchmarkScore::new(if name == fast { 60.0 } else { 1.0 }).unwrap();
            (
                SiteName::new(name).unwrap(),
                BenchmarkScores::from([("b".into(), score)]),
            )
        })
        .collect();
    environment
}

/// At the slow one it runs for ten hours; it has ten hours to start in.
fn job_preferring_speed() -> JobSpec {
    let mut spec = wide_job(1, false);
    let reference = BenchmarkScore::new(1.0).unwrap();
    let benchmarks = vec![JobBenchmark {
        name: "b".into(),
        reference,
        run_time: minutes(600),
    }];
    spec.run.preferences = Some(RankingPreferences {
        benchmarks,
        ..RankingPreferences::default()
    });
    spec
}

fn sites_of_payloads(environment: &SimEnvironment) -> Vec<String> {
    environment.world.read(|world| {
        let entries = world.ledger().entries();
        let began = entries
            .iter()
            .filter(|entry| entry.deed == WorldLedgerEvent::Began);
        began.map(|entry| entry.site.to_string()).collect()
    })
}

#[test]
fn a_job_runs_at_the_site_where_it_is_done_first() {
    for fast in ["delft", "leiden"] {
        let environment = environment_of_two_speeds(fast, 1);
        let RescheduledJob { job, .. } = run_job(&environment, &job_preferring_speed(), &[], 1);
        assert_eq!(job.phase.kind(), PhaseKind::Finished, "{job:?}");
        assert_eq!(sites_of_payloads(&environment), [fast]);
        let rankings = &job.reservation.as_deref().unwrap().search.job.rankings;
        let mut found = rankings[0]
            .candidates
            .iter()
            .map(|candidate| candidate.found);
        assert!(
            found.all(|found| matches!(found, CandidateState::Granted(_))),
            "{rankings:?}"
        );
        assert_eq!(
            environment.world.read(count_reservations),
            0,
            "what was not chosen went back"
        );
        assert!(payload_starts(&environment)[0] >= BEGINS + minutes(240));
    }
}

#[test]
fn deaths_while_sites_are_ranked_leave_one_reservation() {
    for seed in 1..=12_u64 {
        let environment = environment_of_two_speeds("leiden", seed);
        // Each life gets a little further.
        let deaths: Vec<u64> = (0..8)
            .map(|death| 60 + death * 22 + (death * seed) % 3)
            .collect();
        let story = run_job(&environment, &job_preferring_speed(), &deaths, seed);
        assert_eq!(
            story.job.phase.kind(),
            PhaseKind::Finished,
            "seed {seed}: {:?}",
            story.job
        );
        assert_eq!(story.promised.len(), 1, "seed {seed}: {:?}", story.promised);
        assert_eq!(sites_of_payloads(&environment), ["leiden"], "seed {seed}");
        assert_eq!(
            environment.world.read(count_reservations),
            0,
            "seed {seed}: held by nobody"
        );
    }
}
