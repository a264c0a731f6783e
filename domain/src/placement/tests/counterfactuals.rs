//! What an explanation says is lacking would do, also where components of one job, or what a
//! component avoids and what it reads, depend on each other.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::drawn::{Drawn, NAMES, drawn, knob, lift};
use crate::job::spec::Request;
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;

/// Whether the only component of the request is not refused at the site.
fn admitted(drawn: &Drawn, index: usize) -> bool {
    let (_, recorder) = explained(&drawn.request, &drawn.grid());
    let verdict = recorder.verdicts.iter().find(|v| v.site.as_str() == NAMES[index]);
    !matches!(verdict.unwrap().outcome, Outcome::Refused(_))
}

/// One component alone, beside what those that had their turn before it take.
fn alone(drawn: &Drawn, component: usize, before: &[(usize, &ComponentRequest)]) -> Drawn {
    let mut alone = drawn.clone();
    for &(site, part) in before {
        alone.sites[site].pending.add(&part.resources);
        // The components of one job are one submission more.
        alone.sites[site].room = None;
    }
    let part = drawn.request.components()[component].clone();
    let (policy, restartable) = (drawn.request.policy().clone(), drawn.request.is_restartable());
    alone.request = PlacementRequest::new(policy, Request::NonFixed, restartable, vec![part]);
    alone
}

fn without(drawn: &Drawn, index: usize, reasons: &[Reason], kept: Option<ReasonCode>) -> Drawn {
    let mut changed = drawn.clone();
    let codes: BTreeSet<ReasonCode> = reasons.iter().map(knob).collect();
    for code in codes.into_iter().filter(|&code| Some(code) != kept) {
        lift(&mut changed, index, code, reasons);
    }
    changed
}

/// The same with other components.
fn changed(mut drawn: Drawn, change: impl FnMut(&mut ComponentRequest)) -> Drawn {
    let mut parts = drawn.request.components().to_vec();
    parts.iter_mut().for_each(change);
    let (policy, kind) = (drawn.request.policy().clone(), drawn.request.request().clone());
    let restartable = drawn.request.is_restartable();
    drawn.request = PlacementRequest::new(policy, kind, restartable, parts);
    drawn
}

fn is_coupled(part: &ComponentRequest) -> bool {
    !part.avoid.is_empty() && !part.inputs.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The reasons of a later component are told beside what the earlier ones take.
    #[test]
    fn lifting_what_keeps_a_later_component_from_a_site_opens_it_and_all_but_one_does_not(
        drawn in drawn(2..5), policy in 0..POLICIES.len(),
    ) {
        let rigid = POLICIES.iter().filter(|policy| policy.serves(&Request::NonFixed));
        let policy = rigid.cycle().nth(policy).unwrap();
        let drawn = changed(drawn, |part| {
            if is_coupled(part) {
                part.inputs.clear();
            }
        });
        let drawn = Drawn { request: under(policy.name(), &drawn.request), ..drawn };
        let parts = drawn.request.components();
        let (_, recorder) = explained(&drawn.request, &drawn.grid());
        let index = |verdict: &SiteVerdict| {
            NAMES.iter().position(|name| *name == verdict.site.as_str()).unwrap()
        };
        let mut before = Vec::new();
        for turn in recorder.verdicts.chunks(drawn.sites.len().max(1)) {
            let component = turn[0].component.0 as usize;
            let alone = alone(&drawn, component, &before);
            for verdict in turn {
                let Outcome::Refused(reasons) = &verdict.outcome else { continue };
                let site = index(verdict);
                let codes: BTreeSet<ReasonCode> = reasons.iter().map(knob).collect();
                prop_assert!(admitted(&without(&alone, site, reasons, None), site), "{reasons:?}");
                for code in codes {
                    let kept = without(&alone, site, reasons, Some(code));
                    prop_assert!(!admitted(&kept, site), "{code:?} of {reasons:?}");
                }
            }
            let chosen = turn.iter().find(|verdict| verdict.outcome == Outcome::Chosen);
            before.extend(chosen.map(|verdict| (index(verdict), &parts[component])));
        }
    }

    /// A replica or link that is new for one site may make another one the reason to avoid
    /// it: then what is told does once the component avoids nothing. One file only: what
    /// brings one may bring another that lies there too.
    #[test]
    fn what_keeps_a_component_that_reads_from_a_site_does_not_hide_behind_what_it_avoids(
        drawn in drawn(1..2), policy in 0..POLICIES.len(),
    ) {
        let drawn = changed(drawn, |part| {
            part.inputs.clear();
            part.inputs.insert(file(1, 1));
            if part.avoid.is_empty() {
                part.avoid.insert(site_name(NAMES[0]));
            }
        });
        let drawn = drawn.under(POLICIES[policy]);
        let (_, recorder) = explained(&drawn.request, &drawn.grid());
        let unafraid = |drawn: Drawn| changed(drawn, |part| part.avoid.clear());
        for (index, verdict) in recorder.verdicts.iter().enumerate() {
            let Outcome::Refused(reasons) = &verdict.outcome else { continue };
            let lifted = unafraid(without(&drawn, index, reasons, None));
            prop_assert!(admitted(&lifted, index), "{}: {reasons:?}", verdict.site);
            let codes: BTreeSet<ReasonCode> = reasons.iter().map(knob).collect();
            for code in codes.into_iter().filter(|code| *code != ReasonCode::Avoided) {
                let kept = unafraid(without(&drawn, index, reasons, Some(code)));
                prop_assert!(!admitted(&kept, index), "{}: {code:?} of {reasons:?}", verdict.site);
            }
        }
    }
}
