//! What others were promised for later: there for what is over by then, and for nobody else.

use std::sync::Arc;

use proptest::prelude::*;

use crate::placement::testing::*;
use crate::placement::{
    GridSite, PlacementContext, PlacementRequest, RefusalReason, RemainingResources,
    SilentObserver, SitePairHistory, SiteQuota, SiteSuitability, try_to_place,
};
use crate::reservation::IdleDrop;
use crate::resources::Resources;
use crate::units::{DurationMs, PerMillion, Timestamp};

const HOUR: u64 = 3_600_000;

/// A site where so many are idle, and so many of them left from so many hours on.
fn site_with_reservations_later(name: &str, idle: u32, ebbs: &[(u64, u32)]) -> GridSite {
    let ebbs: Vec<IdleDrop> = ebbs
        .iter()
        .map(|(hours, left): &(u64, u32)| IdleDrop {
            at: Timestamp(9 * HOUR),
            after: DurationMs(hours * HOUR),
            left: Resources::processors(*left),
        })
        .collect();
    GridSite {
        ebbs: ebbs.into(),
        ..open_site(name, idle)
    }
}

fn request_lasting_hours(sizes_of: &[u32], hours: u64) -> PlacementRequest {
    request_of_sizes(sizes_of).with_holding_time(DurationMs(hours * HOUR))
}

#[test]
fn a_job_that_would_last_into_a_promise_waits_and_a_short_one_goes() {
    let grid = grid([site_with_reservations_later("Delft", 16, &[(2, 4)])]);
    assert_eq!(
        sites_of(&place_on_grid(&request_lasting_hours(&[12], 1), &grid).unwrap()),
        ["Delft"]
    );
    assert_eq!(
        sites_of(&place_on_grid(&request_lasting_hours(&[4], 30), &grid).unwrap()),
        ["Delft"]
    );
    let (refused, recorder) = place_with_recorder(&request_lasting_hours(&[12], 3), &grid);
    let reason = RefusalReason::Reserved {
        resource: "processors".into(),
        needed: 12,
        lasts: DurationMs(3 * HOUR).max(request_lasting_hours(&[12], 3).holding_time()),
        from: Timestamp(9 * HOUR),
        after: DurationMs(2 * HOUR),
        reserved: 12,
        idle: 16,
        pending: 0,
    };
    assert_eq!(refused.unwrap_err().reason, reason);
    assert_eq!(
        recorder.verdicts[0].outcome,
        SiteSuitability::Refused(vec![reason.clone()])
    );
    let text = reason.to_string();
    assert!(
        text.contains("reserved from 09:00 UTC, in 2h00m00s: 12 of 16, until"),
        "{text}"
    );
}

#[test]
fn a_long_job_goes_where_nothing_is_promised() {
    let grid = grid([
        site_with_reservations_later("Delft", 100, &[(2, 4)]),
        open_site("Leiden", 20),
    ]);
    assert_eq!(
        sites_of(&place_on_grid(&request_lasting_hours(&[12], 1), &grid).unwrap()),
        ["Delft"]
    );
    assert_eq!(
        sites_of(&place_on_grid(&request_lasting_hours(&[12], 3), &grid).unwrap()),
        ["Leiden"]
    );
}

#[test]
fn what_is_busy_and_promised_is_told_as_both() {
    let grid = grid([site_with_reservations_later("Delft", 10, &[(2, 4)])]);
    let (_, recorder) = place_with_recorder(&request_lasting_hours(&[12], 3), &grid);
    let SiteSuitability::Refused(reasons) = &recorder.verdicts[0].outcome else {
        panic!("it fits")
    };
    assert!(matches!(
        reasons[..],
        [
            RefusalReason::Reserved { .. },
            RefusalReason::NotEnoughIdle { .. }
        ]
    ));
}

#[test]
fn a_job_leaves_to_the_next_what_it_must_leave_to_a_promise() {
    let grid = grid([site_with_reservations_later("Delft", 16, &[(2, 10)])]);
    let mut remaining = RemainingResources::of_grid(&grid);
    let mut place = |request: &PlacementRequest| {
        let context = &mut PlacementContext {
            grid: &grid,
            remaining: &mut remaining,
            history: &mut SitePairHistory::All,
            observer: &mut SilentObserver,
        };
        try_to_place(request, context).is_ok()
    };
    // Six of the sixteen are promised from two hours on.
    assert!(place(&request_lasting_hours(&[4, 4], 3)));
    assert!(
        !place(&request_lasting_hours(&[4], 3)),
        "two are left for so long"
    );
    assert!(place(&request_lasting_hours(&[2], 3)));
    assert!(
        place(&request_lasting_hours(&[6], 1)),
        "the promised ones, for an hour"
    );
    assert!(!place(&request_lasting_hours(&[1], 1)));
    remaining.begin_request();
    assert_eq!(remaining.processors(), [0]);
}

#[test]
fn each_reason_of_a_component_after_a_promised_one_is_told() {
    let delft = site_with_reservations_later("Delft", 16, &[(2, 4)]);
    let grid = grid([GridSite {
        ebbs: Arc::clone(&delft.ebbs),
        ..delft
    }]);
    let (refused, recorder) = place_with_recorder(&request_lasting_hours(&[12, 6], 3), &grid);
    assert!(matches!(
        refused.unwrap_err().reason,
        RefusalReason::Reserved { .. }
    ));
    // As if the first were there: all that is idle is left but for the twelve that it has.
    let SiteSuitability::Refused(reasons) = &recorder.verdicts[1].outcome else {
        panic!("it fits")
    };
    assert!(
        matches!(
            reasons[..],
            [RefusalReason::NotEnoughIdle { missing: 2, .. }]
        ),
        "{reasons:?}"
    );
}

#[test]
fn lengths_that_differ_little_make_no_new_shape() {
    let lasts = |minutes: u64| {
        request_of_sizes(&[1])
            .with_holding_time(DurationMs(minutes * 60_000))
            .holding_time()
            .0
    };
    for minutes in 1..3_000 {
        let exact = minutes * 60_000;
        assert!(
            (exact..=exact + exact / 8).contains(&lasts(minutes)),
            "{minutes}"
        );
    }
    let all: std::collections::BTreeSet<u64> = (60..120).map(lasts).collect();
    assert!(all.len() <= 10, "{all:?}");
    assert_eq!(
        request_of_sizes(&[1])
            .with_holding_time(DurationMs(u64::MAX))
            .holding_time(),
        DurationMs(u64::MAX)
    );
}

proptest! {
    #[test]
    fn nothing_promised_is_taken_and_what_is_told_to_lack_would_do(
        drawn in prop::collection::vec((0..20_u32, 0..6_u32, 0..20_u32, 0..20_u32, 0..3_usize), 1..4),
        (parts, hours, quota) in (prop::collection::vec(1..9_u32, 1..4), 1..5_u64, 0..3_u32),
    ) {
        let sites = drawn.iter().zip(["A", "B", "C"]);
        let sites: Vec<GridSite> = sites
            .map(|((idle, pending, first, second, ebbs), name)| {
                let all = [(1, *first), (3, *first.min(second))];
                let mut site = site_with_reservations_later(name, *idle, &all[..*ebbs]);
                site.pending = Resources::processors(*pending);
                site.quota.share = PerMillion(1_000_000 - quota * 5_000);
                site
            })
            .collect();
        let request = request_lasting_hours(&parts, hours);
        let grid = grid(sites.clone());
        let (outcome, recorder) = place_with_recorder(&request, &grid);
        for site in &sites {
            let lasting = site.usable_resources_for(request.holding_time()).unwrap_or_else(|| site.usable_resources());
            let plan = outcome.iter().flat_map(|plan| request.resources_of_plan(plan));
            let taken = plan.filter(|(name, _)| *name == site.name).map(|(_, r)| r.processors);
            prop_assert!(taken.sum::<u32>() <= lasting.processors);
        }
        for verdict in recorder.verdicts.iter().take(sites.len()) {
            let SiteSuitability::Refused(reasons) = &verdict.outcome else { continue };
            let mut site = grid.site(&verdict.site).unwrap().clone();
            for reason in reasons {
                match reason {
                    RefusalReason::Reserved { .. } => site.ebbs = Arc::default(),
                    RefusalReason::QuotaReached { .. } => site.quota = SiteQuota::NONE,
                    RefusalReason::NotEnoughIdle { missing, .. } => {
                        let more = Resources::processors(*missing as u32);
                        site.idle.as_mut().unwrap().idle.add(&more);
                        // It stays idle.
                        let mut ebbs = site.ebbs.to_vec();
                        ebbs.iter_mut().for_each(|ebb| ebb.left.add(&more));
                        site.ebbs = ebbs.into();
                    }
                    other => panic!("not drawn: {other}"),
                }
            }
            let whole = request_lasting_hours(&[parts[verdict.component.0 as usize]], hours);
            let others: Vec<_> = reasons.iter().map(RefusalReason::code).collect();
            let lifted = super::super::testing::grid([site]);
            prop_assert!(place_on_grid(&whole, &lifted).is_ok(), "{others:?}");
            prop_assert!(others.len() == 1 || others.is_sorted_by(|a, b| a > b), "{others:?}");
        }
    }
}
