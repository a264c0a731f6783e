//! The Worst-Fit vectors, and what every policy must respect.

use crate::ids::{ComponentIndex, Digest, PolicyName};
use crate::job::spec::{FlexibleBounds, OverrideScope, RequestType};
use crate::labels::{LabelConstraint, LabelRule};
use crate::placed::ReasonCode;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::{DurationMs, PerMillion};

fn three_sites() -> GridSnapshot {
    grid([
        open_site("C1", 18),
        open_site("C2", 15),
        open_site("C3", 12),
    ])
}

fn seconds(secs: u64) -> DurationMs {
    DurationMs::from_secs(secs)
}

/// WF-1.
#[test]
fn each_component_goes_to_the_site_with_the_most_left() {
    let plan = place_on_grid(&request_of_sizes(&[8, 8, 8]), &three_sites()).unwrap();
    assert_eq!(sites_of(&plan), ["C1", "C2", "C3"]);
    assert_eq!(plan.count_sites(), 3);
}

/// WF-2.
#[test]
fn the_largest_component_goes_first_and_equal_sites_go_by_name() {
    let grid = grid([open_site("C", 9), open_site("B", 17), open_site("A", 18)]);
    let plan = place_on_grid(&request_of_sizes(&[4, 16, 8]), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["B", "A", "B"]);
    assert_eq!(plan.count_sites(), 2);
}

/// WF-3.
#[test]
fn a_job_that_does_not_fit_as_a_whole_changes_nothing() {
    let grid = grid([open_site("A", 10), open_site("B", 9)]);
    let mut remaining = RemainingResources::of_grid(&grid);
    let before = remaining.clone();
    let mut context = PlacementContext {
        grid: &grid,
        remaining: &mut remaining,
        history: &mut SitePairHistory::All,
        observer: &mut SilentObserver,
    };
    let refusal = try_to_place(&request_of_sizes(&[8, 8, 3]), &mut context).unwrap_err();
    assert_eq!(remaining, before);
    assert_eq!(refusal.component, ComponentIndex(2));
    assert_eq!(refusal.site, Some(site_name("A")));
    let RefusalReason::NotEnoughIdle {
        needed: 3,
        idle: 10,
        pending: 8,
        missing: 1,
        ..
    } = refusal.reason
    else {
        panic!("{refusal}")
    };
}

/// WF-4 and WF-5.
#[test]
fn the_replica_that_arrives_first_is_taken_and_none_over_a_dead_link() {
    let input = content_of_gigabytes(1, 4);
    let outcome = |from_y: u64, from_x: u64| {
        let grid = grid_with(
            [open_site("C", 20), open_site("X", 0), open_site("Y", 0)],
            &[(input, "X"), (input, "Y")],
            &[("X", "C", from_x), ("Y", "C", from_y)],
        );
        let mut one = component(8);
        one.inputs.insert(input);
        place_on_grid(&request(vec![one]), &grid)
    };
    for (from_y, source, time) in [(200, "Y", 160), (0, "X", 320)] {
        let plan = outcome(from_y, 100).unwrap();
        assert_eq!(plan.placements[0].sources[0].from, site_name(source));
        assert_eq!(plan.placements[0].transfer_time, seconds(time));
        assert_eq!(plan.transfer_time, seconds(time));
    }
    let refusal = outcome(0, 0).unwrap_err();
    assert_eq!(
        (refusal.reason.code(), refusal.site),
        (ReasonCode::NotEnoughIdle, Some(site_name("X"))),
        "X and Y have the file, and only lack processors"
    );
}

/// WF-6.
#[test]
fn a_component_is_never_split() {
    let refusal = place_on_grid(&request_of_sizes(&[24]), &three_sites()).unwrap_err();
    let RefusalReason::NotEnoughIdle { missing: 6, .. } = refusal.reason else {
        panic!("{refusal}")
    };
    assert_eq!(refusal.site, Some(site_name("C1")));
}

/// Q-8 under Worst-Fit: sites are ordered by what is usable, not by what is idle.
#[test]
fn a_quota_lowers_what_a_site_offers() {
    let small = |name, idle| {
        site_with_resources(name, Resources::processors(40), Resources::processors(idle))
    };
    let level = SiteQuota {
        share: PerMillion(300_000),
        basis: QuotaBasis::Level,
    };
    let a = GridSite {
        quota: level,
        ..small("A", 30)
    };
    let grid = grid([a, small("B", 26)]);
    assert_eq!(
        grid.usable_by_site(),
        [Resources::processors(2), Resources::processors(26)]
    );
    assert_eq!(
        sites_of(&place_on_grid(&request_of_sizes(&[1]), &grid).unwrap()),
        ["B"]
    );
}

#[test]
fn what_is_promised_already_is_not_there() {
    let grid = grid([GridSite {
        pending: Resources::processors(10),
        ..open_site("A", 18)
    }]);
    assert!(place_on_grid(&request_of_sizes(&[8]), &grid).is_ok());
    assert!(place_on_grid(&request_of_sizes(&[9]), &grid).is_err());
}

#[test]
fn every_resource_of_the_vector_must_be_there() {
    let vector = |processors, gpus| Resources {
        processors,
        others: [("gpus".into(), gpus)].into(),
    };
    let grid = grid([
        site_with_resources("A", vector(100, 0), vector(90, 0)),
        site_with_resources("B", vector(100, 4), vector(50, 3)),
    ]);
    let need = |gpus| ComponentRequest::of_resources(vector(8, gpus));
    let plan = place_on_grid(&request(vec![need(2), need(1)]), &grid).unwrap();
    assert_eq!(sites_of(&plan), ["B", "B"]);
    let refusal = place_on_grid(&request(vec![need(2), need(2)]), &grid).unwrap_err();
    let RefusalReason::NotEnoughIdle {
        resource,
        missing: 1,
        ..
    } = refusal.reason
    else {
        panic!()
    };
    assert_eq!(&*resource, "gpus");
}

#[test]
fn a_fixed_component_goes_to_its_site_or_nowhere() {
    let grid = grid([open_site("A", 5), open_site("B", 50)]);
    let fixed = |name: &str, processors| {
        let one = ComponentRequest {
            site: Some(site_name(name)),
            ..component(processors)
        };
        PlacementRequest::new(worst_fit(), RequestType::Fixed, true, vec![one])
    };
    assert_eq!(
        sites_of(&place_on_grid(&fixed("A", 5), &grid).unwrap()),
        ["A"]
    );
    let refusal = place_on_grid(&fixed("A", 6), &grid).unwrap_err();
    assert_eq!(refusal.reason.code(), ReasonCode::NotEnoughIdle);
    assert_eq!(refusal.site, Some(site_name("A")));
    let refusal = place_on_grid(&fixed("Z", 1), &grid).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::NoSuchSite(site_name("Z")));
}

#[test]
fn constraints_on_labels_narrow_the_choice() {
    let grid = grid([
        open_site("A", 50),
        with_label(open_site("B", 10), "arch", "arm64"),
    ]);
    let mut one = component(8);
    one.constraints.push(LabelConstraint {
        key: "arch".into(),
        rule: LabelRule::Is("arm64".into()),
    });
    assert_eq!(
        sites_of(&place_on_grid(&request(vec![one]), &grid).unwrap()),
        ["B"]
    );
}

#[test]
fn only_an_open_site_takes_a_job_and_a_probed_one_only_what_may_run_twice() {
    let outcome = |acceptance, restartable| {
        // B could hold it, if it were not busy.
        let grid = grid([
            GridSite {
                acceptance,
                room: Some(1),
                ..open_site("A", 50)
            },
            open_site("B", 0),
        ]);
        let parts = vec![component(8)];
        let request = PlacementRequest::new(worst_fit(), RequestType::NonFixed, restartable, parts);
        place_on_grid(&request, &grid).map_err(|refusal| refusal.reason.code())
    };
    assert!(outcome(PlacementAcceptance::Open, false).is_ok());
    assert!(outcome(PlacementAcceptance::ProbesOnly, true).is_ok());
    assert!(outcome(PlacementAcceptance::ProbesOnly, false).is_err());
    let drained = PlacementAcceptance::Closed(PlacementHindrance::Drained);
    assert!(outcome(drained, true).is_err());
}

#[test]
fn a_job_that_must_not_run_twice_tries_out_the_only_site_that_can_hold_it() {
    let tried = GridSite {
        acceptance: PlacementAcceptance::ProbesOnly,
        room: Some(1),
        ..open_site("A", 50)
    };
    let other =
        |largest| site_with_resources("B", Resources::processors(largest), Resources::default());
    assert_eq!(
        [7, 8].map(|largest| {
            let parts = vec![component(8)];
            let request = PlacementRequest::new(worst_fit(), RequestType::NonFixed, false, parts);
            place_on_grid(&request, &grid([tried.clone(), other(largest)])).is_ok()
        }),
        [true, false]
    );
}

/// Else it would wait for ever where the last jobs that may run twice are gone.
#[test]
fn a_job_that_runs_once_waits_only_for_a_site_that_needs_no_trial() {
    let outcome = |other| {
        let tried = GridSite {
            acceptance: PlacementAcceptance::ProbesOnly,
            room: Some(1),
            ..open_site("A", 50)
        };
        let other = GridSite {
            acceptance: other,
            ..open_site("B", 0)
        };
        let parts = vec![component(8)];
        let request = PlacementRequest::new(worst_fit(), RequestType::NonFixed, false, parts);
        place_on_grid(&request, &grid([tried, other])).is_ok()
    };
    assert!(!outcome(PlacementAcceptance::Open) && outcome(PlacementAcceptance::ProbesOnly));
    let waits = |hindrance| !outcome(PlacementAcceptance::Closed(hindrance));
    let passing = [
        PlacementHindrance::Unknown,
        PlacementHindrance::Unreachable,
        PlacementHindrance::Isolated,
    ];
    assert_eq!(passing.map(waits), [true; 3]);
    assert!(
        waits(PlacementHindrance::Maintenance) && waits(PlacementHindrance::CredentialsExpired)
    );
    let failed = [PlacementHindrance::Probing, PlacementHindrance::Unusable];
    assert_eq!(failed.map(waits), [false; 2]);
    let ordered = [
        PlacementHindrance::Draining,
        PlacementHindrance::Drained,
        PlacementHindrance::Frozen,
    ];
    assert_eq!(ordered.map(waits), [false; 3]);
}

#[test]
fn a_fixed_job_that_must_not_run_twice_tries_out_its_own_site() {
    let acceptance = PlacementAcceptance::ProbesOnly;
    let grid = grid([
        GridSite {
            acceptance,
            room: Some(1),
            ..open_site("A", 50)
        },
        open_site("B", 50),
    ]);
    let part = ComponentRequest {
        site: Some(site_name("A")),
        ..component(8)
    };
    let request = PlacementRequest::new(worst_fit(), RequestType::Fixed, false, vec![part]);
    assert_eq!(sites_of(&place_on_grid(&request, &grid).unwrap()), ["A"]);
}

/// A job of several components that only one site can take could never try it out else.
#[test]
fn a_site_that_takes_one_more_job_takes_all_of_it_and_no_other_job() {
    let grid = grid([
        GridSite {
            room: Some(1),
            ..open_site("A", 50)
        },
        open_site("B", 10),
    ]);
    let mut remaining = RemainingResources::of_grid(&grid);
    let mut next = || {
        let history = &mut SitePairHistory::All;
        let observer = &mut SilentObserver;
        let mut context = PlacementContext {
            grid: &grid,
            remaining: &mut remaining,
            history,
            observer,
        };
        try_to_place(&request_of_sizes(&[4, 4]), &mut context).unwrap()
    };
    assert_eq!(sites_of(&next()), ["A", "A"]);
    assert_eq!(sites_of(&next()), ["B", "B"]);
}

#[test]
fn without_a_word_from_a_site_nothing_is_placed_there() {
    let silent = GridSite {
        idle: None,
        ..open_site("A", 50)
    };
    let refusal = place_on_grid(&request_of_sizes(&[1]), &grid([silent])).unwrap_err();
    assert_eq!(refusal.reason.code(), ReasonCode::SiteUnknown);
    let refusal = place_on_grid(&request_of_sizes(&[1]), &grid([])).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::NoSites);
}

/// FT-5: the exclusion holds while another site could take the component, even
/// if it is busy now, and is dropped if there is none.
#[test]
fn a_failed_component_avoids_its_site_unless_no_other_can_hold_it() {
    let mut failed = component(8);
    failed.avoid.insert(site_name("A"));
    let outcome = |b: GridSite| {
        place_on_grid(
            &request(vec![failed.clone()]),
            &grid([open_site("A", 50), b]),
        )
    };
    assert_eq!(sites_of(&outcome(open_site("B", 8)).unwrap()), ["B"]);
    assert_eq!(
        outcome(open_site("B", 7)).unwrap_err().reason.code(),
        ReasonCode::NotEnoughIdle
    );
    let tiny = site_with_resources("B", Resources::processors(7), Resources::processors(7));
    assert_eq!(sites_of(&outcome(tiny).unwrap()), ["A"]);
    let drained = GridSite {
        acceptance: PlacementAcceptance::Closed(PlacementHindrance::Drained),
        ..open_site("B", 8)
    };
    assert_eq!(sites_of(&outcome(drained).unwrap()), ["A"]);
    let input = content_of_gigabytes(1, 4);
    let mut fed = failed.clone();
    fed.inputs.insert(input);
    for (rate, goes_to) in [(100, "B"), (0, "A")] {
        let replicas = [(input, "A")];
        let grid = grid_with(
            [open_site("A", 50), open_site("B", 8)],
            &replicas,
            &[("A", "B", rate)],
        );
        let plan = place_on_grid(&request(vec![fed.clone()]), &grid).unwrap();
        assert_eq!(
            sites_of(&plan),
            [goes_to],
            "where its files can never come is no other site"
        );
    }
    let siblings = request(vec![failed.clone(), component(8)]);
    let plan = place_on_grid(&siblings, &grid([open_site("A", 50), open_site("B", 8)])).unwrap();
    assert_eq!(
        sites_of(&plan),
        ["B", "A"],
        "only the failed component avoids the site"
    );
}

#[test]
fn times_of_several_files_add_up_and_files_there_already_cost_nothing() {
    let big = content_of_gigabytes(1, 2);
    let small = content_of_gigabytes(2, 1);
    let here = content_of_gigabytes(3, 9);
    let grid = grid_with(
        [open_site("C", 20), open_site("X", 0)],
        &[(big, "X"), (small, "X"), (here, "C"), (here, "X")],
        &[("X", "C", 100)],
    );
    let mut one = component(8);
    one.inputs.extend([big, small, here]);
    let plan = place_on_grid(&request(vec![one, component(1)]), &grid).unwrap();
    assert_eq!(plan.placements[0].transfer_time, seconds(160 + 80));
    let from: Vec<&str> = plan.placements[0]
        .sources
        .iter()
        .map(|s| s.from.as_str())
        .collect();
    assert_eq!(from, ["X", "X", "C"]);
    assert_eq!(plan.transfer_time, seconds(240));
    assert!(plan.placements[1].sources.is_empty());
}

#[test]
fn a_replica_that_cannot_be_read_serves_nobody() {
    let input = content_of_gigabytes(1, 4);
    let dead = GridSite {
        serves_files: false,
        ..open_site("X", 0)
    };
    let mut one = component(8);
    one.inputs.insert(input);
    let request = request(vec![one]);
    let links = [("X", "C", 100), ("Y", "C", 10)];
    let both = grid_with(
        [open_site("C", 20), dead.clone(), open_site("Y", 0)],
        &[(input, "X"), (input, "Y")],
        &links,
    );
    assert_eq!(
        place_on_grid(&request, &both).unwrap().placements[0].sources[0].from,
        site_name("Y")
    );
    let (_, recorder) = place_with_recorder(
        &request,
        &grid_with([open_site("C", 20), dead], &[(input, "X")], &links),
    );
    let SiteSuitability::Refused(reasons) = &recorder.verdicts[0].outcome else {
        panic!()
    };
    assert_eq!(
        reasons,
        &[RefusalReason::ReplicaUnreachable {
            digest: Digest([1; 32]),
            at: site_name("X")
        }]
    );
}

#[test]
fn a_staged_executable_is_brought_only_where_it_is_used() {
    let generic = content_of_gigabytes(1, 1);
    let special = content_of_gigabytes(2, 1);
    let mut one = component(8);
    one.executable = Some(generic);
    one.executable_at = vec![
        (
            OverrideScope::Label("arch".into(), "arm64".into()),
            Some(special),
        ),
        (OverrideScope::Site(site_name("C")), None),
    ];
    let sources = |name: &str, label: bool| {
        let place = if label {
            with_label(open_site(name, 20), "arch", "arm64")
        } else {
            open_site(name, 20)
        };
        let replicas = [(generic, name), (special, name)];
        let plan = place_on_grid(
            &request(vec![one.clone()]),
            &grid_with([place], &replicas, &[]),
        )
        .unwrap();
        plan.placements[0]
            .sources
            .iter()
            .map(|source| source.content)
            .collect::<Vec<_>>()
    };
    assert_eq!(sources("A", false), [generic]);
    assert_eq!(sources("A", true), [special]);
    assert_eq!(sources("C", true), []);
}

#[test]
fn a_policy_that_does_not_exist_is_named_with_those_that_do() {
    let name = PolicyName::new("best-fit").unwrap();
    let error = find_policy(&name).err().unwrap();
    assert_eq!(
        error.to_string(),
        "no policy is called \"best-fit\"; there are: worst-fit, close-to-files, \
         cluster-minimization, flexible-cluster-minimization, connected-cluster-minimization, \
         connected-flexible-cluster-minimization, mrs"
    );
    assert!(policy_for(&worst_fit(), &RequestType::Fixed).is_ok());
    let flexible = RequestType::Flexible(FlexibleBounds::default());
    let error = policy_for(&worst_fit(), &flexible).err().unwrap();
    assert_eq!(
        error.to_string(),
        "policy \"worst-fit\" cannot place flexible requests; these can: \
         flexible-cluster-minimization, connected-flexible-cluster-minimization, mrs"
    );
    let request = PlacementRequest::new(name, RequestType::NonFixed, true, vec![component(1)]);
    let refusal = place_on_grid(&request, &three_sites()).unwrap_err();
    assert_eq!(refusal.reason.code(), ReasonCode::PolicyUnknown);
}
