//! What an explanation says is lacking would do, also where components of one job, or what a
//! component avoids and what it reads, depend on each other.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::drawn::{
    DrawnScene, NAMES, any_scene, code_to_lift, lift_reasons, nearest_refusal, widely_drawn,
};
use crate::job::spec::RequestType;
use crate::labels::LabelRule;
use crate::placed::ReasonCode;
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;
use crate::units::Bytes;

/// Whether the only component of the request is not refused at the site.
fn is_admitted(drawn: &DrawnScene, index: usize) -> bool {
    let (_, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
    let verdict = recorder
        .verdicts
        .iter()
        .find(|v| v.site.as_str() == NAMES[index]);
    !matches!(verdict.unwrap().outcome, SiteSuitability::Refused(_))
}

/// A job component by component: the sites as they are supposed to be, and where the components
/// are that had their turn.
struct ComponentWalk {
    sites: DrawnScene,
    before: Vec<(usize, ComponentRequest)>,
}

impl ComponentWalk {
    fn from_drawn(drawn: &DrawnScene) -> Self {
        Self {
            sites: drawn.clone(),
            before: Vec::new(),
        }
    }

    /// One component alone, beside what those before it take and stage.
    fn component_alone(&self, component: usize) -> DrawnScene {
        let mut alone = self.sites.clone();
        let part = alone.request.components()[component].clone();
        for (site, place) in alone.sites.iter_mut().enumerate() {
            let here: Vec<_> = self.before.iter().filter(|(at, _)| *at == site).collect();
            here.iter()
                .for_each(|(_, other)| place.pending.add(&other.resources));
            // The components of one job are one submission more, and read one copy.
            place.room = place.room.filter(|_| here.is_empty());
            let staged: BTreeSet<_> = here.iter().flat_map(|(_, other)| &other.inputs).collect();
            let taken = staged
                .iter()
                .filter(|file| !part.inputs.contains(**file))
                .count() as u64;
            place.staging_left = place.staging_left.map(|left| Bytes(left.0 - taken * GB));
        }
        let policy = alone.request.policy().clone();
        let kind = alone.request.request_type().clone();
        alone.request =
            PlacementRequest::new(policy, kind, alone.request.is_restartable(), vec![part]);
        alone
    }

    /// The component has its place, once these reasons are lifted there.
    fn place_with_reasons_lifted(
        &mut self,
        component: usize,
        site: usize,
        reasons: &[RefusalReason],
        kept: Option<LiftedReason>,
    ) {
        let kept = kept.filter(|knob| knob.0 == site).map(|knob| knob.1);
        let alone = self.component_alone(component);
        let lifted = with_reasons_lifted(&alone, site, reasons, kept)
            .sites
            .swap_remove(site);
        let place = &mut self.sites.sites[site];
        let before = &alone.sites[site];
        let more = |of: &GridSite| of.staging_left.map_or(0, |left| left.0);
        let staging = more(&lifted) - more(before);
        *place = GridSite {
            pending: place.pending.clone(),
            room: if before.room.is_some() {
                lifted.room
            } else {
                place.room
            },
            staging_left: place.staging_left.map(|left| Bytes(left.0 + staging)),
            ..lifted
        };
        self.before
            .push((site, self.sites.request.components()[component].clone()));
    }
}

/// What keeps a component from a site: at which, and what is turned to lift it.
type LiftedReason = (usize, ReasonCode);

/// Each component with its site, chosen or nearest, and what keeps it from there; none for a
/// site that has not said what it has.
fn component_verdicts(
    drawn: &DrawnScene,
    recorder: &VerdictRecorder,
) -> Vec<(usize, Option<usize>, Vec<RefusalReason>)> {
    recorder
        .verdicts
        .chunks(drawn.sites.len().max(1))
        .map(|verdicts: &[SiteVerdict]| {
            let component = verdicts[0].component;
            let chosen = verdicts
                .iter()
                .position(|verdict| verdict.outcome == SiteSuitability::Chosen);
            if chosen.is_some() {
                return (component.0 as usize, chosen, Vec::new());
            }
            let named = drawn.request.components()[component.0 as usize]
                .site
                .clone();
            let site = named.or_else(|| nearest_refusal(recorder, component).site);
            let at = verdicts
                .iter()
                .position(|verdict| Some(&verdict.site) == site.as_ref());
            let at = at.filter(|&at| drawn.sites[at].idle.is_some());
            let reasons = match at.map(|at| &verdicts[at].outcome) {
                Some(SiteSuitability::Refused(reasons)) => reasons.clone(),
                _ => Vec::new(),
            };
            (component.0 as usize, at, reasons)
        })
        .collect()
}

fn with_reasons_lifted(
    drawn: &DrawnScene,
    index: usize,
    reasons: &[RefusalReason],
    kept: Option<ReasonCode>,
) -> DrawnScene {
    let mut changed = drawn.clone();
    let codes: BTreeSet<ReasonCode> = reasons.iter().map(code_to_lift).collect();
    for code in codes.into_iter().filter(|&code| Some(code) != kept) {
        lift_reasons(&mut changed, index, code, reasons);
    }
    changed
}

/// The same with other components.
fn with_changed_components(
    mut drawn: DrawnScene,
    change: impl FnMut(&mut ComponentRequest),
) -> DrawnScene {
    let mut parts = drawn.request.components().to_vec();
    parts.iter_mut().for_each(change);
    let policy = drawn.request.policy().clone();
    let kind = drawn.request.request_type().clone();
    let restartable = drawn.request.is_restartable();
    drawn.request = PlacementRequest::new(policy, kind, restartable, parts);
    drawn
}

/// The same under one of the policies for rigid requests.
fn with_rigid_policy(drawn: DrawnScene, policy: usize) -> DrawnScene {
    let rigid = POLICIES
        .iter()
        .filter(|policy| policy.serves(&RequestType::NonFixed));
    let policy = rigid.cycle().nth(policy).unwrap();
    DrawnScene {
        request: with_policy(policy.name(), &drawn.request),
        ..drawn
    }
}

/// The same request of these components, which may try out a site after errors.
fn request_of_parts(drawn: &DrawnScene, parts: Vec<ComponentRequest>) -> PlacementRequest {
    let policy = drawn.request.policy().clone();
    let kind = drawn.request.request_type().clone();
    PlacementRequest::new(policy, kind, true, parts)
}

fn is_coupled(part: &ComponentRequest) -> bool {
    !part.avoid.is_empty() && !part.inputs.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        // Nearly every second job is placed, or has a site that has not said what it has.
        max_global_rejects: 10_000,
        ..ProptestConfig::default()
    })]

    /// The reasons of a later component are told beside what the earlier ones take.
    #[test]
    fn lifting_all_that_bars_a_later_component_opens_a_site_all_but_one_not(
        drawn in widely_drawn(2..6), policy in 0..POLICIES.len(),
    ) {
        let drawn = with_rigid_policy(with_changed_components(drawn, |part| {
            if is_coupled(part) {
                part.inputs.clear();
            }
        }), policy);
        let (_, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
        let mut walk = ComponentWalk::from_drawn(&drawn);
        let verdicts = recorder.verdicts.chunks(drawn.sites.len().max(1));
        for ((component, site, keeps), turn) in component_verdicts(&drawn, &recorder).into_iter().zip(verdicts) {
            let alone = walk.component_alone(component);
            // Beside the others it may try out sites that it may not try out alone.
            let tries_out = |request| may_try_out_any(request, &walk.sites.sites);
            let is_alike = tries_out(&drawn.request) == tries_out(&alone.request);
            let turn = if is_alike { turn } else { &[] };
            for (at, verdict) in turn.iter().enumerate() {
                let SiteSuitability::Refused(reasons) = &verdict.outcome else { continue };
                let codes: BTreeSet<ReasonCode> = reasons.iter().map(code_to_lift).collect();
                prop_assert!(is_admitted(&with_reasons_lifted(&alone, at, reasons, None), at), "{reasons:?}");
                for code in codes {
                    let kept = with_reasons_lifted(&alone, at, reasons, Some(code));
                    prop_assert!(!is_admitted(&kept, at), "{code:?} of {reasons:?}");
                }
            }
            if let Some(site) = site {
                walk.place_with_reasons_lifted(component, site, &keeps, None);
            }
        }
    }

    /// Every component has a verdict on every site. Once all that keeps each from the site that
    /// is its own is lifted, the job fits there as a whole, and with any of it kept it does not;
    /// nor with one processor less of what was to be made up for. No site can be labelled for
    /// two components of which one wants what the other refuses.
    #[test]
    fn lifting_what_bars_each_component_from_a_site_makes_all_of_them_fit(
        drawn in widely_drawn(2..6), policy in 0..POLICIES.len(),
    ) {
        let mut drawn = with_rigid_policy(with_changed_components(drawn, |part| {
            part.inputs.clear();
            part.avoid.clear();
            part.unfit_for.clear();
            part.constraints.retain(|constraint| matches!(constraint.rule, LabelRule::Is(_)));
        }), policy);
        drawn.request = request_of_parts(&drawn, drawn.request.components().to_vec());
        let (outcome, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
        let count = drawn.request.components().len();
        prop_assert_eq!(recorder.verdicts.len(), count * drawn.sites.len());
        let turns = component_verdicts(&drawn, &recorder);
        prop_assume!(outcome.is_err() && !turns.is_empty());
        prop_assume!(turns.iter().all(|(_, site, _)| site.is_some()));
        let fits = |kept: Option<LiftedReason>, less: Option<usize>| {
            let mut walk = ComponentWalk::from_drawn(&drawn);
            let mut parts = drawn.request.components().to_vec();
            for (component, site, reasons) in &turns {
                walk.place_with_reasons_lifted(*component, site.unwrap(), reasons, kept);
                parts[*component].site = Some(site_name(NAMES[site.unwrap()]));
            }
            if let Some(site) = less {
                walk.sites.sites[site].idle.as_mut().unwrap().idle.processors -= 1;
            }
            let kind = RequestType::Fixed;
            let named = PlacementRequest::new(drawn.request.policy().clone(), kind, true, parts);
            place_on_grid(&named, &walk.sites.grid()).is_ok()
        };
        prop_assert!(fits(None, None), "{turns:?}");
        for (_, site, reasons) in &turns {
            let site = site.unwrap();
            for reason in reasons {
                prop_assert!(!fits(Some((site, code_to_lift(reason))), None), "{reason:?} kept: {turns:?}");
                let RefusalReason::NotEnoughIdle { resource, .. } = reason else { continue };
                let is_exact = &**resource != "processors" || !fits(None, Some(site));
                prop_assert!(is_exact, "more than is needed: {turns:?}");
            }
        }
    }

    /// Components of one size on sites without other obstacles fit one way if they fit another:
    /// then the policy places them, wherever it likes, once what they lack is made up for, and
    /// not with one processor less.
    #[test]
    fn equal_components_given_what_they_lack_are_placed_by_a_free_policy(
        idle in prop::collection::vec(0..24u32, 1..6),
        size in 1..12u32, count in 2..6usize, policy in 0..POLICIES.len(),
    ) {
        let drawn = DrawnScene {
            sites: NAMES.iter().zip(idle).map(|(name, idle)| open_site(name, idle)).collect(),
            replicas: BTreeSet::new(),
            links: BTreeSet::new(),
            request: request_of_sizes(&vec![size; count]),
        };
        let drawn = with_rigid_policy(drawn, policy);
        let (_, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
        let mut walk = ComponentWalk::from_drawn(&drawn);
        let mut lifted = BTreeSet::new();
        for (component, site, reasons) in component_verdicts(&drawn, &recorder) {
            lifted.extend(site.filter(|_| !reasons.is_empty()));
            walk.place_with_reasons_lifted(component, site.unwrap(), &reasons, None);
        }
        let is_placed = |drawn: &DrawnScene| place_on_grid(&drawn.request, &drawn.grid()).is_ok();
        prop_assert!(is_placed(&walk.sites), "{recorder:?}");
        for site in lifted {
            let mut less = walk.sites.clone();
            less.sites[site].idle.as_mut().unwrap().idle.processors -= 1;
            prop_assert!(!is_placed(&less), "{recorder:?}");
        }
    }

    /// A replica or link that is new for one site may make another one the reason to avoid
    /// it: then what is told does once the component avoids nothing. One file only: what
    /// brings one may bring another that lies there too.
    #[test]
    fn what_bars_a_component_that_reads_does_not_hide_behind_what_it_avoids(
        drawn in any_scene(1..2), policy in 0..POLICIES.len(),
    ) {
        let drawn = with_changed_components(drawn, |part| {
            part.inputs.clear();
            part.inputs.insert(content_of_gigabytes(1, 1));
            if part.avoid.is_empty() {
                part.avoid.insert(site_name(NAMES[0]));
            }
        });
        let drawn = drawn.with_policy(POLICIES[policy]);
        let (_, recorder) = place_with_recorder(&drawn.request, &drawn.grid());
        let unafraid = |drawn: DrawnScene| with_changed_components(drawn, |part| part.avoid.clear());
        for (index, verdict) in recorder.verdicts.iter().enumerate() {
            let SiteSuitability::Refused(reasons) = &verdict.outcome else { continue };
            let lifted = unafraid(with_reasons_lifted(&drawn, index, reasons, None));
            prop_assert!(is_admitted(&lifted, index), "{}: {reasons:?}", verdict.site);
            let codes: BTreeSet<ReasonCode> = reasons.iter().map(code_to_lift).collect();
            for code in codes.into_iter().filter(|code| *code != ReasonCode::Avoided) {
                let kept = unafraid(with_reasons_lifted(&drawn, index, reasons, Some(code)));
                prop_assert!(!is_admitted(&kept, index), "{}: {code:?} of {reasons:?}", verdict.site);
            }
        }
    }
}
