//! Jobs that say which of the sites that could promise their start they prefer.

use std::sync::Arc;

use super::job_world::{key, site};
use super::reservations::ReservationWorld;
use crate::acquisition::{
    BenchmarkScore, BenchmarkScores, JobBenchmark, RankingObjective, RankingPreferences,
};
use crate::ids::SiteName;
use crate::job::job_command::JobCommand;
use crate::job::job_state::{JobReservations, PhaseKind};
use crate::job::reservations::RankingKnowledge;
use crate::placed::Placement;
use crate::reservation::{CandidateState, ReservationCall, SiteRanking};
use crate::units::DurationMs;

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const HALF: DurationMs = DurationMs::from_secs(1_800);
const MINUTES: DurationMs = DurationMs::from_secs(180);

impl ReservationWorld {
    /// It says how the sites are ranked: each runs it for so many minutes.
    pub(super) fn set_preferences(&mut self, objective: RankingObjective, minutes: [u64; 3]) {
        let benchmark = JobBenchmark {
            name: "b".into(),
            reference: BenchmarkScore::new(1.0).unwrap(),
            run_time: DurationMs::from_secs(60),
        };
        let benchmarks = vec![benchmark];
        let preferences = RankingPreferences {
            objective,
            benchmarks,
            ..RankingPreferences::default()
        };
        Arc::make_mut(&mut self.world.job.spec).run.preferences = Some(preferences);
        let score = |minutes: u64| BenchmarkScore::new(1.0 / minutes as f64).unwrap();
        self.scores = minutes
            .into_iter()
            .enumerate()
            .map(|(at, minutes)| {
                (
                    site(at),
                    BenchmarkScores::from([("b".into(), score(minutes))]),
                )
            })
            .collect();
    }

    /// Puts the sites in the order that it prefers, by what they have free.
    pub(super) fn rank_candidates(&self, candidates: &mut [Vec<Placement>]) -> Vec<SiteRanking> {
        let free = self
            .sites
            .iter()
            .map(|(site, held)| (site.clone(), held.timeline().clone()));
        let free = free.collect();
        let scores = &self.scores;
        let now = self.world.now;
        let outlook = RankingKnowledge {
            free: &free,
            scores,
            now,
        };
        let Some(wish) = self.world.job.reservation_terms() else {
            return Vec::new();
        };
        let starts = (wish.window, wish.tolerance);
        self.world
            .job
            .spec
            .rank_candidates(candidates, starts, &outlook, &self.world.parameters)
    }
}

/// Three sites: the first is taken for half an hour, and runs a job fastest.
fn ranked_world(components: usize, objective: RankingObjective) -> ReservationWorld {
    let mut story = ReservationWorld::new_flexible(components, HOUR, 3, false);
    story.set_preferences(objective, [5, 60, 90]);
    story.occupy_site(0, DurationMs::ZERO, HALF);
    story
}

fn rankings(story: &ReservationWorld) -> &[SiteRanking] {
    &story
        .world
        .job
        .reservation
        .as_deref()
        .unwrap()
        .search
        .job
        .rankings
}

/// Where each component goes.
fn placed_sites(story: &ReservationWorld) -> Vec<SiteName> {
    let placements = story
        .world
        .job
        .reservation
        .as_deref()
        .and_then(JobReservations::placements);
    placements
        .unwrap()
        .into_iter()
        .map(|placement| placement.site)
        .collect()
}

#[test]
fn a_job_goes_where_it_completes_first_and_holds_nothing_elsewhere() {
    let mut story = ranked_world(1, RankingObjective::EarliestCompletion);
    story.request_reservations().unwrap();
    let asked = story.due_call().map(|(_, ask)| ask.site().clone());
    assert_eq!(
        asked,
        Some(site(0)),
        "the best by what is published is asked first"
    );
    story.answer_all_calls();
    assert_eq!(story.world.phase(), PhaseKind::Placed);
    assert_eq!(
        (placed_sites(&story), story.held_serials().len()),
        (vec![site(0)], 1)
    );
    let lead = story.world.parameters.reservation_lead;
    let promised = story.earliest_start() + HALF + lead;
    assert_eq!(story.world.job.reserved_start(), Some(promised));
    let granted = |it: &CandidateState| matches!(it, CandidateState::Granted(_));
    assert!(
        rankings(&story)[0]
            .candidates
            .iter()
            .all(|candidate| granted(&candidate.found))
    );
}

#[test]
fn a_job_that_wants_the_earliest_start_goes_where_that_is() {
    let mut story = ranked_world(1, RankingObjective::EarliestStart);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        (placed_sites(&story), story.held_serials().len()),
        (vec![site(1)], 1)
    );
    assert_eq!(
        story.world.job.reserved_start(),
        Some(story.earliest_start())
    );
}

#[test]
fn only_so_many_sites_grant_as_the_server_says() {
    let mut story = ranked_world(1, RankingObjective::EarliestStart);
    story.world.parameters.reservation_candidates = 1;
    story.request_reservations().unwrap();
    story.answer_all_calls();
    assert_eq!(
        story
            .world
            .job
            .reservation
            .as_deref()
            .unwrap()
            .last_serial()
            .0,
        1
    );
    assert_eq!(placed_sites(&story), [site(1)]);
}

#[test]
fn components_of_a_job_ask_sites_in_the_order_that_it_prefers() {
    let mut story = ranked_world(2, RankingObjective::EarliestCompletion);
    story.request_reservations().unwrap();
    let (_, ask) = story.due_call().unwrap();
    assert!(
        matches!(&ask, ReservationCall::Create { site: asked, .. } if *asked == site(0)),
        "{ask:?}"
    );
    story.answer_all_calls();
    assert_eq!(
        placed_sites(&story),
        [site(1), site(1)],
        "all start together, as early as they can"
    );
    assert_eq!(rankings(&story).len(), 2, "it is kept for people");
}

#[test]
fn a_job_that_is_cancelled_while_sites_are_ranked_leaves_nothing_there() {
    for steps in 0..6 {
        let mut story = ranked_world(1, RankingObjective::EarliestCompletion);
        story.request_reservations().unwrap();
        for _ in 0..steps {
            let (question, ask) = story.due_call().unwrap();
            let outcome = story.outcome_at_site(&ask);
            story.apply_outcome(question, outcome).unwrap();
        }
        story
            .world
            .apply_command(JobCommand::Cancel(key()))
            .unwrap();
        story.answer_all_calls();
        assert_eq!(story.world.phase(), PhaseKind::Cancelled, "after {steps}");
        assert!(story.held_serials().is_empty(), "after {steps}");
    }
}

#[test]
fn a_job_that_is_moved_has_the_sites_ranked_anew() {
    let mut story = ranked_world(1, RankingObjective::EarliestStart);
    story.request_reservations().unwrap();
    story.answer_all_calls();
    story.request_other_start(HOUR, MINUTES).unwrap();
    story.answer_all_calls();
    assert_eq!(
        story.world.job.reserved_start(),
        Some(story.earliest_start() + HOUR)
    );
    assert_eq!(story.held_serials().len(), 1);
    let since = rankings(&story)[0].since;
    assert_eq!(
        since, story.world.now,
        "its predictions count from the move on"
    );
}
