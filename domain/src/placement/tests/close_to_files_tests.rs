//! The Close-to-Files vectors.

use crate::content::Content;
use crate::placed::ReasonCode;
use crate::placement::testing::*;
use crate::placement::*;
use crate::units::DurationMs;

const NAME: &str = "close-to-files";

fn history_of_pairs(pairs: &[(&str, &str)]) -> SitePairHistory {
    SitePairHistory::Pairs(
        pairs
            .iter()
            .map(|(e, f)| (site_name(e), site_name(f)))
            .collect(),
    )
}

fn request_reading(sizes: &[u32], input: Content) -> PlacementRequest {
    with_policy(
        NAME,
        &request(
            sizes
                .iter()
                .map(|&size: &u32| ComponentRequest {
                    inputs: [input].into(),
                    ..ComponentRequest::of_resources(crate::resources::Resources::processors(size))
                })
                .collect(),
        ),
    )
}

/// The common setting: a file of 4 GB at A and D.
fn grid_with_idle(idle: [u32; 4]) -> GridSnapshot {
    let names = ["A", "B", "C", "D"];
    let sites = names
        .iter()
        .zip(idle)
        .map(|(name, idle)| open_site(name, idle));
    let links = [
        ("A", "B", 100),
        ("A", "C", 50),
        ("D", "B", 200),
        ("D", "C", 80),
    ];
    grid_with(
        sites,
        &[
            (content_of_gigabytes(1, 4), "A"),
            (content_of_gigabytes(1, 4), "D"),
        ],
        &links,
    )
}

fn place_with_history(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    history: &mut SitePairHistory,
) -> Result<PlacementPlan, PlacementRefusal> {
    let mut remaining = RemainingResources::of_grid(grid);
    try_to_place(
        request,
        &mut PlacementContext {
            grid,
            remaining: &mut remaining,
            history,
            observer: &mut SilentObserver,
        },
    )
}

/// Execution site, file site and seconds of each component; no file site if the files are there.
fn sources_of_plan(plan: &PlacementPlan) -> Vec<(&str, &str, u64)> {
    let of = |p: &'_ crate::placed::Placement| p.transfer_time.0 / 1000;
    plan.placements
        .iter()
        .map(|p| (p.site.as_str(), p.sources[0].from.as_str(), of(p)))
        .collect()
}

/// CF-1 and CF-2.
#[test]
fn a_component_goes_where_its_file_is_or_to_the_pair_that_brings_it_first() {
    let request = request_reading(&[8, 8, 8], content_of_gigabytes(1, 4));
    let grid = grid_with_idle([10, 24, 30, 7]);
    let mut history = history_of_pairs(&[("B", "A"), ("C", "A")]);
    let plan = place_with_history(&request, &grid, &mut history).unwrap();
    // The second one adds the pair of B and D, which the third one finds.
    assert_eq!(
        sources_of_plan(&plan),
        [("A", "A", 0), ("B", "A", 320), ("B", "D", 160)]
    );
    assert_eq!(plan.transfer_time, DurationMs::from_secs(320));
    assert_eq!(
        history,
        history_of_pairs(&[("B", "A"), ("B", "D"), ("C", "A")])
    );

    let mut history = history_of_pairs(&[("B", "A"), ("B", "D"), ("C", "A"), ("C", "D")]);
    let before = history.clone();
    let plan = place_with_history(&request, &grid, &mut history).unwrap();
    assert_eq!(
        sources_of_plan(&plan),
        [("A", "A", 0), ("B", "D", 160), ("B", "D", 160)]
    );
    assert_eq!(plan.transfer_time, DurationMs::from_secs(160));
    assert_eq!(history, before);
}

#[test]
fn a_pair_that_an_earlier_component_learned_serves_other_files_as_well() {
    let shared = content_of_gigabytes(1, 4);
    let other = content_of_gigabytes(2, 4);
    let part = |size, input: Content| ComponentRequest {
        inputs: [input].into(),
        ..ComponentRequest::of_resources(crate::resources::Resources::processors(size))
    };
    let request = with_policy(NAME, &request(vec![part(5, shared), part(4, other)]));
    let sites = [open_site("A", 0), open_site("B", 0), open_site("X", 20)];
    let replicas = [(shared, "A"), (shared, "B"), (other, "B")];
    let grid = grid_with(sites, &replicas, &[("A", "X", 200), ("B", "X", 100)]);
    let mut history = history_of_pairs(&[("X", "A")]);
    let plan = place_with_history(&request, &grid, &mut history).unwrap();
    assert_eq!(sources_of_plan(&plan), [("X", "A", 160), ("X", "B", 320)]);
    assert_eq!(history, history_of_pairs(&[("X", "A"), ("X", "B")]));
}

/// CF-3.
#[test]
fn an_empty_table_places_nothing_beside_the_files() {
    let mut history = history_of_pairs(&[]);
    let grid = grid_with_idle([4, 24, 30, 7]);
    let refusal = place_with_history(
        &request_reading(&[8, 8, 8], content_of_gigabytes(1, 4)),
        &grid,
        &mut history,
    )
    .unwrap_err();
    assert_eq!(refusal.reason.code(), ReasonCode::NotEnoughIdle);
    assert_eq!(history, history_of_pairs(&[]));
    let far = grid_with_idle([0, 24, 30, 0]);
    let (_, recorder) = explain_with_history(
        &request_reading(&[8], content_of_gigabytes(1, 4)),
        &far,
        &mut history,
    );
    let b = recorder
        .verdicts
        .iter()
        .find(|verdict| verdict.site == site_name("B"))
        .unwrap();
    assert_eq!(
        b.outcome,
        SiteSuitability::Refused(vec![RefusalReason::NotInHistory])
    );
}

fn explain_with_history(
    request: &PlacementRequest,
    grid: &GridSnapshot,
    history: &mut SitePairHistory,
) -> (Result<PlacementPlan, PlacementRefusal>, VerdictRecorder) {
    let mut recorder = VerdictRecorder::default();
    let mut remaining = RemainingResources::of_grid(grid);
    let mut context = PlacementContext {
        grid,
        remaining: &mut remaining,
        history,
        observer: &mut recorder,
    };
    (try_to_place(request, &mut context), recorder)
}

/// CF-4.
#[test]
fn of_sites_that_have_the_file_the_first_by_name_is_taken() {
    let sites = [open_site("B", 8), open_site("D", 100)];
    let grid = grid_with(
        sites,
        &[
            (content_of_gigabytes(1, 4), "B"),
            (content_of_gigabytes(1, 4), "D"),
        ],
        &[],
    );
    let plan = place_on_grid(&request_reading(&[8], content_of_gigabytes(1, 4)), &grid).unwrap();
    assert_eq!(sources_of_plan(&plan), [("B", "B", 0)]);
}

/// CF-5.
#[test]
fn a_placement_that_fails_leaves_the_table_as_it_was() {
    let mut history = history_of_pairs(&[("B", "A"), ("C", "A")]);
    let before = history.clone();
    let grid = grid_with_idle([4, 24, 6, 7]);
    place_with_history(
        &request_reading(&[16, 16], content_of_gigabytes(1, 4)),
        &grid,
        &mut history,
    )
    .unwrap_err();
    assert_eq!(history, before);
}

/// CF-6.
#[test]
fn equal_transfers_go_where_most_is_left() {
    let sites = [
        open_site("A", 0),
        open_site("B", 20),
        open_site("C", 30),
        open_site("D", 25),
    ];
    let links = [("A", "B", 100), ("A", "C", 100), ("A", "D", 100)];
    let grid = grid_with(sites, &[(content_of_gigabytes(1, 4), "A")], &links);
    let plan = place_on_grid(&request_reading(&[8, 8], content_of_gigabytes(1, 4)), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["C", "D"]);
}

/// CF-7.
#[test]
fn without_input_it_is_worst_fit() {
    let grid = grid([
        open_site("C1", 18),
        open_site("C2", 15),
        open_site("C3", 12),
    ]);
    let plan = place_on_grid(&with_policy(NAME, &request_of_sizes(&[8, 8, 8])), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["C1", "C2", "C3"]);
}

#[test]
fn files_that_no_site_holds_together_each_come_from_the_fastest_source() {
    let sites = [open_site("A", 0), open_site("B", 0), open_site("C", 9)];
    let one = content_of_gigabytes(1, 1);
    let two = content_of_gigabytes(2, 1);
    let grid = grid_with(
        sites,
        &[(one, "A"), (two, "B")],
        &[("A", "C", 100), ("B", "C", 100)],
    );
    let both = ComponentRequest {
        inputs: [one, two].into(),
        ..ComponentRequest::of_resources(crate::resources::Resources::processors(4))
    };
    let plan = place_on_grid(&with_policy(NAME, &request(vec![both])), &grid).unwrap();
    let sources: Vec<&str> = plan.placements[0]
        .sources
        .iter()
        .map(|source| source.from.as_str())
        .collect();
    assert_eq!(
        (sources, plan.transfer_time),
        (vec!["A", "B"], DurationMs::from_secs(160))
    );
}

/// Time counts in whole milliseconds, however much faster the second link is.
#[test]
fn of_links_that_are_equally_fast_the_first_by_name_serves() {
    let input = content_of_gigabytes(1, 1);
    let sites = [open_site("A", 0), open_site("B", 8), open_site("D", 0)];
    let links = [("A", "B", 9_000_000), ("D", "B", 10_000_000)];
    let grid = grid_with(sites, &[(input, "A"), (input, "D")], &links);
    for policy in ["worst-fit", NAME] {
        let plan =
            place_on_grid(&with_policy(policy, &request_reading(&[8], input)), &grid).unwrap();
        let placement = &plan.placements[0];
        assert_eq!(placement.sources[0].from.as_str(), "A", "{policy}");
        assert_eq!(placement.transfer_time, DurationMs(1), "{policy}");
    }
}

/// CF-8: "all" is a rule, not the pairs of the sites that were there when it was set.
#[test]
fn a_table_of_all_pairs_has_those_of_a_site_that_joins_later() {
    let mut history = SitePairHistory::All;
    let request = request_reading(&[8], content_of_gigabytes(1, 4));
    let before = grid_with_idle([4, 0, 0, 7]);
    place_with_history(&request, &before, &mut history).unwrap_err();
    let sites = [open_site("A", 4), open_site("E", 8)];
    let after = grid_with(
        sites,
        &[(content_of_gigabytes(1, 4), "A")],
        &[("A", "E", 100)],
    );
    let plan = place_with_history(&request, &after, &mut history).unwrap();
    assert_eq!(sources_of_plan(&plan), [("E", "A", 320)]);
    let back = grid_with(
        [open_site("A", 8), open_site("E", 4)],
        &[(content_of_gigabytes(1, 4), "E")],
        &[("E", "A", 100)],
    );
    assert_eq!(
        sources_of_plan(&place_with_history(&request, &back, &mut history).unwrap()),
        [("A", "E", 320)]
    );
}
