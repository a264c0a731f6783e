//! What an explanation says on small grids; `properties.rs` holds it to account.

use crate::ids::ComponentIndex;
use crate::placed::ReasonCode;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::{Bytes, PerMillion};

fn outcomes_by_site(recorder: &VerdictRecorder, component: u32) -> Vec<(String, String)> {
    let of_component = recorder
        .verdicts
        .iter()
        .filter(|v| v.component == ComponentIndex(component));
    let text = |outcome: &SiteSuitability| match outcome {
        SiteSuitability::Chosen => "chosen".to_owned(),
        SiteSuitability::NotPreferred => "not preferred".to_owned(),
        SiteSuitability::Refused(reasons) => {
            let codes: Vec<&str> = reasons
                .iter()
                .map(|reason| reason.code().as_str())
                .collect();
            codes.join(", ")
        }
    };
    of_component
        .map(|v| (v.site.to_string(), text(&v.outcome)))
        .collect()
}

fn owned_pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(site, text)| (site.to_string(), text.to_string()))
        .collect()
}

#[test]
fn every_site_has_a_verdict_for_every_component_that_had_a_turn() {
    let grid = grid([
        open_site("A", 18),
        open_site("B", 9),
        GridSite {
            acceptance: PlacementAcceptance::Closed(PlacementHindrance::Maintenance),
            ..open_site("C", 50)
        },
        GridSite::never_answered(site_name("D")),
    ]);
    let (outcome, recorder) = place_with_recorder(&request_of_sizes(&[4, 10]), &grid);
    assert_eq!(sites_of(&outcome.unwrap()), ["B", "A"]);
    let closed = [("C", "maintenance"), ("D", "site-unknown")];
    let second = [
        &[("A", "chosen"), ("B", "not-enough-idle")],
        closed.as_slice(),
    ]
    .concat();
    assert_eq!(outcomes_by_site(&recorder, 1), owned_pairs(&second));
    let first = [
        &[("A", "not preferred"), ("B", "chosen")],
        closed.as_slice(),
    ]
    .concat();
    assert_eq!(outcomes_by_site(&recorder, 0), owned_pairs(&first));
    assert_eq!(recorder.verdicts[0].remaining_processors, 18);
    assert_eq!(
        recorder.verdicts[4].remaining_processors, 8,
        "after the larger one took ten"
    );
}

#[test]
fn a_site_with_several_obstacles_names_them_all() {
    let small = site_with_resources("A", Resources::processors(40), Resources::processors(6));
    let quota = SiteQuota {
        share: PerMillion(500_000),
        basis: QuotaBasis::Share,
    };
    let bad = GridSite {
        acceptance: PlacementAcceptance::Closed(PlacementHindrance::Unusable),
        ours: Resources::processors(18),
        quota,
        room: Some(0),
        ..small
    };
    let mut one = component(8);
    one.inputs.insert(content_of_gigabytes(1, 1));
    let (outcome, recorder) = place_with_recorder(&request(vec![one]), &grid([bad]));
    let all = "site-unusable, no-replica, site-full, quota-reached, not-enough-idle";
    assert_eq!(outcomes_by_site(&recorder, 0), owned_pairs(&[("A", all)]));
    assert_eq!(outcome.unwrap_err().reason.code(), ReasonCode::SiteUnusable);
    assert_eq!(recorder.verdicts[0].transfer_time, None);
}

#[test]
fn a_refusal_names_the_site_that_comes_nearest() {
    let draining = |name, idle| GridSite {
        acceptance: PlacementAcceptance::Closed(PlacementHindrance::Draining),
        ..open_site(name, idle)
    };
    let grid = grid([
        draining("A", 50),
        open_site("B", 2),
        open_site("C", 6),
        open_site("D", 6),
    ]);
    let refusal = place_on_grid(&request_of_sizes(&[8]), &grid).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "component 0 at C: needs 8 processors; 6 idle, 2 missing"
    );
}

#[test]
fn a_site_where_copies_would_take_too_much_says_how_much_is_left() {
    let left = |name, left| GridSite {
        staging_left: Some(Bytes(left * GB)),
        ..open_site(name, 50)
    };
    let mut one = component(8);
    one.inputs.insert(content_of_gigabytes(1, 3));
    let links = [("F", "A", 100), ("F", "B", 100)];
    let drained = || GridSite {
        acceptance: PlacementAcceptance::Closed(PlacementHindrance::Drained),
        ..open_site("F", 0)
    };
    let at = |a: u64, b: u64| {
        grid_with(
            [left("A", a), left("B", b), drained()],
            &[(content_of_gigabytes(1, 3), "F")],
            &links,
        )
    };
    let request = request(vec![one]);
    assert_eq!(
        sites_of(&place_on_grid(&request, &at(2, 3)).unwrap()),
        ["B"]
    );
    let refusal = place_on_grid(&request, &at(2, 1)).unwrap_err();
    assert_eq!(
        refusal.reason,
        RefusalReason::StagingFull {
            needed: Bytes(3 * GB),
            left: Bytes(2 * GB)
        }
    );
    assert_eq!(refusal.site.unwrap().as_str(), "A", "the nearer one");
    assert!(
        place_on_grid(&request_of_sizes(&[8]), &at(0, 0)).is_ok(),
        "a job without input needs none"
    );
}

/// Doing what each is told places both: six more at B and four at C, or ten at B.
#[test]
fn a_component_after_an_unplaced_one_is_judged_as_if_that_were_placed() {
    let closed = |name| GridSite {
        acceptance: PlacementAcceptance::Closed(PlacementHindrance::Drained),
        ..open_site(name, 50)
    };
    let (outcome, recorder) = place_with_recorder(
        &request_of_sizes(&[4, 6]),
        &grid([closed("A"), open_site("B", 0), open_site("C", 0)]),
    );
    let refusal = outcome.unwrap_err();
    assert_eq!(refusal.component, ComponentIndex(1));
    assert_eq!(
        refusal.site.unwrap().as_str(),
        "B",
        "the first of those that lack least"
    );
    let all = [
        ("A", "drained"),
        ("B", "not-enough-idle"),
        ("C", "not-enough-idle"),
    ];
    assert_eq!(outcomes_by_site(&recorder, 1), owned_pairs(&all));
    assert_eq!(outcomes_by_site(&recorder, 0), owned_pairs(&all));
    let texts: Vec<String> = recorder
        .verdicts
        .iter()
        .filter_map(|verdict| match &verdict.outcome {
            SiteSuitability::Refused(reasons) => Some(reasons[0].to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        texts[3..],
        [
            "the site is drained",
            "needs 4 processors; 0 idle and 6 that components before it lack, of which 6 are \
             deducted, 4 missing beyond that",
            "needs 4 processors; 0 idle, 4 missing",
        ]
    );
    let opened = grid([closed("A"), open_site("B", 6), open_site("C", 4)]);
    assert!(place_on_grid(&request_of_sizes(&[4, 6]), &opened).is_ok());
    assert!(
        place_on_grid(
            &request_of_sizes(&[4, 6]),
            &grid([closed("A"), open_site("B", 10), open_site("C", 0)])
        )
        .is_ok()
    );
}
