//! Properties of placement on drawn grids, against an independent judge.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::drawn::{
    DrawnScene, NAMES, any_scene, code_to_lift, lift_reasons, nearest_refusal, widely_drawn,
};
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::placed::ReasonCode;
use crate::placement::bounded_split::split_largest_first;
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;

fn is_no_split(reason: &RefusalReason) -> bool {
    reason.code() == ReasonCode::NoSplit
}

/// Whether the site takes the component, or part of it if the others took the rest.
fn is_admitted(drawn: &DrawnScene, index: usize) -> bool {
    let (_, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
    let verdict = recorder
        .verdicts
        .iter()
        .find(|v| v.site.as_str() == NAMES[index]);
    match &verdict.unwrap().outcome {
        SiteSuitability::Refused(reasons) => reasons.iter().all(is_no_split),
        SiteSuitability::Chosen | SiteSuitability::NotPreferred => true,
    }
}

/// A quota may be too small for one resource and reached for another, but not both for one.
fn reasons_name_two_resources(reasons: &[RefusalReason]) -> bool {
    let of = |code: ReasonCode| -> BTreeSet<&str> {
        let named = reasons.iter().filter(|reason| reason.code() == code);
        named
            .filter_map(|reason| match reason {
                RefusalReason::QuotaReached { resource, .. }
                | RefusalReason::QuotaTooSmall { resource, .. } => Some(&**resource),
                _ => None,
            })
            .collect()
    };
    of(ReasonCode::QuotaReached).is_disjoint(&of(ReasonCode::QuotaTooSmall))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_site_is_filled_beyond_capacity_or_quota_and_a_refusal_takes_nothing(
        drawn in any_scene(1..5), repeats in 1..6,
    ) {
        let grid = drawn.grid();
        let mut remaining = RemainingResources::of_grid(&grid);
        let mut used = vec![Resources::default(); drawn.sites.len()];
        for _ in 0..repeats {
            remaining.begin_request();
            let before = remaining.clone();
            let mut context = PlacementContext { grid: &grid, remaining: &mut remaining, history: &mut SitePairHistory::All, observer: &mut SilentObserver };
            let Ok(plan) = try_to_place(&drawn.request, &mut context) else {
                prop_assert_eq!(before, remaining);
                break;
            };
            prop_assert_eq!(plan.placements.len(), drawn.request.components().len());
            for (placement, part) in plan.placements.iter().zip(drawn.request.components()) {
                used[grid.index_of(&placement.site).unwrap()].add(&part.resources);
            }
        }
        for (index, site) in drawn.sites.iter().enumerate() {
            prop_assert!(site.usable_resources().covers(&used[index]), "{}: {:?}", site.name, used[index]);
        }
    }

    #[test]
    fn an_explanation_agrees_with_the_placement(drawn in any_scene(1..5)) {
        let grid = drawn.grid();
        let mut remaining = RemainingResources::of_grid(&grid);
        let mut context = PlacementContext { grid: &grid, remaining: &mut remaining, history: &mut SitePairHistory::All, observer: &mut SilentObserver };
        let silent = try_to_place(&drawn.request, &mut context);
        let (outcome, recorder) = place_with_recorder(&drawn.request, &grid);
        prop_assert_eq!(&silent, &outcome);
        for verdict in &recorder.verdicts {
            let component = verdict.component.0 as usize;
            match (&verdict.outcome, &outcome) {
                (SiteSuitability::Chosen, Ok(plan)) => {
                    prop_assert_eq!(&plan.placements[component].site, &verdict.site);
                    let time = plan.placements[component].transfer_time;
                    prop_assert_eq!(verdict.transfer_time, Some(time));
                }
                (SiteSuitability::Refused(reasons), _) => {
                    prop_assert!(!reasons.is_empty());
                    let has = |code| reasons.iter().any(|reason| reason.code() == code);
                    let both = has(ReasonCode::QuotaReached) && has(ReasonCode::QuotaTooSmall);
                    prop_assert!(!both || reasons_name_two_resources(reasons), "{reasons:?}");
                    prop_assert!(reasons.is_sorted_by(|a, b| a.code() >= b.code()), "{reasons:?}");
                }
                (SiteSuitability::NotPreferred, Err(refusal)) => {
                    prop_assert_ne!(refusal.component, verdict.component);
                }
                (SiteSuitability::Chosen, Err(_)) | (SiteSuitability::NotPreferred, Ok(_)) => {}
            }
        }
        if let Err(refusal) = &outcome {
            prop_assert_eq!(refusal, &nearest_refusal(&recorder, refusal.component));
        }
        let chosen = recorder.verdicts.iter().filter(|v| v.outcome == SiteSuitability::Chosen).count();
        prop_assert!(outcome.is_err() || chosen == drawn.request.components().len());
    }

    /// What keeps a component from a site is all that does, and each part of it is needed,
    /// under every policy. Not where it avoids a site and reads files: a replica or a link
    /// that is new for one site may make another one the reason to avoid it.
    #[test]
    fn lifting_all_obstacles_of_a_site_opens_it_and_all_but_one_does_not(
        drawn in widely_drawn(1..2), policy in 0..POLICIES.len(), splits in any::<bool>(),
    ) {
        let coupled = |part: &ComponentRequest| !part.avoid.is_empty() && !part.inputs.is_empty();
        prop_assume!(!drawn.request.components().iter().any(coupled));
        let drawn = if splits { drawn.with_split_policy(POLICIES[policy], 1) } else { drawn.with_policy(POLICIES[policy]) };
        let (_, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
        for (index, verdict) in recorder.verdicts.iter().enumerate() {
            let SiteSuitability::Refused(reasons) = &verdict.outcome else { continue };
            if reasons.iter().all(is_no_split) {
                continue;
            }
            let codes: BTreeSet<ReasonCode> = reasons.iter().map(code_to_lift).collect();
            let without = |kept: Option<ReasonCode>| {
                let mut changed = drawn.clone();
                for &code in codes.iter().filter(|&&code| Some(code) != kept) {
                    lift_reasons(&mut changed, index, code, reasons);
                }
                is_admitted(&changed, index)
            };
            prop_assert!(without(None), "{}: {reasons:?}", verdict.site);
            for &code in &codes {
                prop_assert!(!without(Some(code)), "{}: {code:?} of {reasons:?}", verdict.site);
            }
        }
    }

    /// A site that Close-to-Files knows no pair of: the pair opens it, if nothing else is in
    /// the way.
    #[test]
    fn a_pair_that_is_missing_from_the_history_opens_its_site(drawn in any_scene(1..2)) {
        let request = with_policy("close-to-files", &drawn.request);
        let grid = drawn.grid();
        let with = |history: &mut SitePairHistory| {
            let mut recorder = VerdictRecorder::default();
            let mut remaining = RemainingResources::of_grid(&grid);
            let mut context =
                PlacementContext { grid: &grid, remaining: &mut remaining, history, observer: &mut recorder };
            let _ = try_to_place(&request, &mut context);
            recorder.verdicts
        };
        for verdict in with(&mut SitePairHistory::Pairs(BTreeSet::new())) {
            let SiteSuitability::Refused(reasons) = &verdict.outcome else { continue };
            if !reasons.contains(&RefusalReason::NotInHistory) {
                continue;
            }
            let pairs = NAMES.map(|name| (verdict.site.clone(), site_name(name)));
            let opened = with(&mut SitePairHistory::Pairs(pairs.into()));
            let now = opened.iter().find(|other| other.site == verdict.site).unwrap();
            let left = match &now.outcome {
                SiteSuitability::Refused(left) => left.clone(),
                SiteSuitability::Chosen | SiteSuitability::NotPreferred => Vec::new(),
            };
            let others = reasons.iter().filter(|reason| **reason != RefusalReason::NotInHistory);
            prop_assert_eq!(others.cloned().collect::<Vec<_>>(), left);
        }
    }

    /// Where no split fits, one that the sites could take has just as much as is missing.
    #[test]
    fn what_a_split_lacks_is_what_would_make_one(
        idle in prop::collection::vec(0..30u32, 1..6),
        total in 1..200u32, min in 1..9u32, most in 1..6u32,
    ) {
        prop_assume!(min <= total);
        let bounds = FlexibleBounds { min_component_size: min, max_components: Some(most), splits: vec![] };
        for policy in POLICIES.iter().filter(|policy| policy.serves(&RequestType::Flexible(bounds.clone()))) {
            let request = flexible_request(policy.name(), total, bounds.clone());
            let grid_of = |more: u32| {
                let mut left: Vec<u32> = idle.clone();
                let largest = (0..left.len()).max_by_key(|&at| (left[at], usize::MAX - at)).unwrap();
                left[largest] += more;
                grid(NAMES.iter().zip(left).map(|(name, idle)| open_site(name, idle)))
            };
            let Err(refusal) = place_on_grid(&request, &grid_of(0)) else { continue };
            let RefusalReason::NoSplit { usable, .. } = refusal.reason else { continue };
            let mut left: Vec<u32> = idle.clone();
            left.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert!(split_largest_first(total, min, most as usize, &left).is_empty(), "{left:?}");
            let missing = u64::from(total).saturating_sub(usable) as u32;
            if missing == 0 {
                // Enough is idle, but so many components cannot each have the least.
                continue;
            }
            prop_assert!(place_on_grid(&request, &grid_of(missing)).is_ok(), "{missing} more would do");
            prop_assert!(place_on_grid(&request, &grid_of(missing - 1)).is_err(), "less would do");
        }
    }
}
