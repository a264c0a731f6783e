//! Whole plans against the plain model: on grids where sites tie and something is missing.

use proptest::prelude::*;

use super::judge::PlacementJudge;
use super::policies::expected_plan;
use super::scenes::scenes;
use crate::placement::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Sites, shares, sources, times and the rule; or which component has no site. And what is
    /// left for the next job, and the table of Close-to-Files.
    #[test]
    fn every_policy_makes_the_plans_of_its_description(scene in scenes()) {
        let mut remaining = RemainingResources::of_grid(&scene.grid);
        let mut history = scene.history.clone();
        let mut judge = PlacementJudge::new(&scene.grid, history.clone(), &scene.jobs[0]);
        for (number, asked) in scene.jobs.iter().enumerate() {
            if number > 0 {
                judge.begin_next_request(asked);
            }
            let request = asked.build_request();
            let watched = {
                let mut recorder = VerdictRecorder::default();
                let mut context = PlacementContext {
                    grid: &scene.grid,
                    remaining: &mut remaining.clone(),
                    history: &mut history.clone(),
                    observer: &mut recorder,
                };
                try_to_place(&request, &mut context)
            };
            let mut context = PlacementContext {
                grid: &scene.grid,
                remaining: &mut remaining,
                history: &mut history,
                observer: &mut SilentObserver,
            };
            let told = try_to_place(&request, &mut context);
            prop_assert_eq!(&watched, &told, "watched, it decides otherwise");
            let expected = expected_plan(&mut judge, told.as_ref().ok());
            prop_assert_eq!(told.map_err(|refusal| refusal.component), expected);
            for at in judge.sites() {
                prop_assert_eq!(i64::from(remaining.processors()[at]), judge.count_left(at, "processors"));
                prop_assert_eq!(remaining.other_resource_left(at, "gpus") as i64, judge.count_left(at, "gpus"));
            }
            prop_assert_eq!(&history, &judge.history);
        }
    }

    #[test]
    fn a_job_is_accepted_exactly_if_the_sites_could_ever_hold_it(scene in scenes()) {
        let sites: Vec<&GridSite> = scene.grid.sites().iter().collect();
        for asked in &scene.jobs {
            let told = check_placeable(&asked.build_request(), &scene.grid);
            prop_assert_eq!(told.is_ok(), asked.is_ever_placeable(&sites), "{:?}", told);
        }
    }
}
