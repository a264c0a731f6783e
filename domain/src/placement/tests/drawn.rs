//! Grids and requests drawn at random, and how to change exactly what is complained of.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::ids::ComponentIndex;
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::labels::{LabelConstraint, LabelRule};
use crate::placed::ReasonCode;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::{Bytes, PerMillion, Timestamp};

pub(super) const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];

fn processors_and_gpus(processors: u32, gpus: u64) -> Resources {
    let others = if gpus > 0 {
        [("gpus".into(), gpus)].into()
    } else {
        Default::default()
    };
    Resources { processors, others }
}

prop_compose! {
    fn drawn_site(name: &'static str)(
        total in (1..30u32, 0..6u64),
        idle_share in (0..=100u32, 0..=100u64),
        pending in 0..4u32,
        ours in 0..4u32,
        quota in prop_oneof![3 => Just(1_000_000u32), 1 => 100_000..1_000_000u32],
        share in any::<bool>(),
        state in 0..8u32,
        (room, arm, serves_files) in (prop_oneof![Just(None), (0..3u32).prop_map(Some)], any::<bool>(), 0..4u32),
    ) -> GridSite {
        let idle = processors_and_gpus(total.0 * idle_share.0 / 100, total.1 * idle_share.1 / 100);
        let basis = if share { QuotaBasis::Share } else { QuotaBasis::Level };
        let plain = site_with_resources(name, processors_and_gpus(total.0, total.1), idle);
        let plain = if arm { with_label(plain, "arch", "arm64") } else { plain };
        GridSite {
            pending: processors_and_gpus(pending, 0),
            ours: processors_and_gpus(ours, 0),
            quota: SiteQuota { share: PerMillion(quota), basis },
            acceptance: match state {
                0 => PlacementAcceptance::Closed(PlacementHindrance::Drained),
                1 => PlacementAcceptance::ProbesOnly,
                _ => PlacementAcceptance::Open,
            },
            room,
            serves_files: serves_files > 0,
            ..plain
        }
    }
}

prop_compose! {
    fn drawn_component()(
        processors in 1..12u32,
        gpus in prop_oneof![3 => Just(0u64), 1 => 1..3u64],
        rule in 0..4u32,
        avoid in prop::collection::btree_set(0..5usize, 0..2),
        unfit in prop::option::weighted(0.2, 0..5usize),
        inputs in prop::collection::btree_set(1..4u8, 0..2),
    ) -> ComponentRequest {
        let arm = || "arm64".into();
        let constraint = |rule| LabelConstraint { key: "arch".into(), rule };
        ComponentRequest {
            constraints: match rule {
                0 => vec![constraint(LabelRule::Is(arm()))],
                1 => vec![constraint(LabelRule::IsNot(arm()))],
                _ => vec![],
            },
            avoid: avoid.into_iter().map(|i| site_name(NAMES[i])).collect(),
            unfit_for: unfit.into_iter().map(|i| (site_name(NAMES[i]), "no".into())).collect(),
            inputs: inputs.into_iter().map(|number| content_of_gigabytes(number, 1)).collect(),
            ..ComponentRequest::of_resources(processors_and_gpus(processors, gpus))
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct DrawnScene {
    pub(super) sites: Vec<GridSite>,
    pub(super) replicas: BTreeSet<(u8, usize)>,
    pub(super) links: BTreeSet<(usize, usize)>,
    pub(super) request: PlacementRequest,
}

impl DrawnScene {
    pub(super) fn grid_of(&self, sites: impl IntoIterator<Item = GridSite>) -> GridSnapshot {
        let replicas: Vec<_> = self
            .replicas
            .iter()
            .map(|&(number, at)| (content_of_gigabytes(number, 1), NAMES[at]))
            .collect();
        let links: Vec<_> = self
            .links
            .iter()
            .map(|&(from, to)| (NAMES[from], NAMES[to], 100 + 7 * from as u64))
            .collect();
        grid_with(sites, &replicas, &links)
    }

    /// The same under another policy: of a flexible one the first component as a whole.
    pub(super) fn with_policy(self, policy: &dyn Policy) -> DrawnScene {
        let whole = self.request.components()[0].resources.processors;
        self.with_split_policy(policy, whole)
    }

    /// The same where components of a flexible request have so many processors at least.
    pub(super) fn with_split_policy(mut self, policy: &dyn Policy, least: u32) -> DrawnScene {
        let mut parts = self.request.components().to_vec();
        let bounds = FlexibleBounds {
            min_component_size: least,
            ..FlexibleBounds::default()
        };
        let kinds = [
            self.request.request_type().clone(),
            RequestType::Flexible(bounds),
        ];
        let kind = kinds.into_iter().find(|kind| policy.serves(kind)).unwrap();
        if kind != RequestType::Fixed {
            parts.iter_mut().for_each(|part| part.site = None);
        }
        let name = crate::ids::PolicyName::new(policy.name()).unwrap();
        self.request = PlacementRequest::new(name, kind, self.request.is_restartable(), parts);
        self
    }

    pub(super) fn grid(&self) -> GridSnapshot {
        self.grid_of(self.sites.clone())
    }
}

pub(super) fn any_scene(components: std::ops::Range<usize>) -> impl Strategy<Value = DrawnScene> {
    let sites = NAMES.map(drawn_site);
    let replicas = prop::collection::btree_set((1..4u8, 0..5usize), 0..9);
    let links = prop::collection::btree_set((0..5usize, 0..5usize), 5..25);
    let components = prop::collection::vec(drawn_component(), components);
    (
        sites,
        0..=5usize,
        replicas,
        links,
        components,
        any::<bool>(),
    )
        .prop_map(
            |(sites, count, replicas, links, components, restartable)| DrawnScene {
                sites: sites.into_iter().take(count).collect(),
                replicas,
                links,
                request: PlacementRequest::new(
                    worst_fit(),
                    crate::job::spec::RequestType::NonFixed,
                    restartable,
                    components,
                ),
            },
        )
}

prop_compose! {
    /// The same with sites that have not said what is idle, sites where only so much may be
    /// staged, and requests that name their sites.
    pub(super) fn widely_drawn(components: std::ops::Range<usize>)(
        mut drawn in any_scene(components),
        silent in prop::collection::vec(0..8u32, 5),
        staging in prop::collection::vec(prop_oneof![3 => Just(None), 2 => (0..2u64).prop_map(Some)], 5),
        named in prop::collection::vec(0..5usize, 5),
        is_fixed in 0..4u32,
    ) -> DrawnScene {
        for ((site, silent), staging) in drawn.sites.iter_mut().zip(silent).zip(staging) {
            site.staging_left = staging.map(|left| Bytes(left * GB));
            if silent == 0 {
                site.idle = None;
                site.acceptance = PlacementAcceptance::Open;
            }
        }
        if is_fixed > 0 {
            return drawn;
        }
        let mut parts = drawn.request.components().to_vec();
        for (part, at) in parts.iter_mut().zip(named) {
            part.site = Some(site_name(NAMES[at]));
        }
        let policy = drawn.request.policy().clone();
        let restartable = drawn.request.is_restartable();
        drawn.request = PlacementRequest::new(policy, RequestType::Fixed, restartable, parts);
        drawn
    }
}

/// Of the worst reason of each site the nearest: what a refusal names.
pub(super) fn nearest_refusal(
    recorder: &VerdictRecorder,
    component: ComponentIndex,
) -> PlacementRefusal {
    let gap = |reason: &RefusalReason| match reason {
        RefusalReason::NotEnoughIdle { missing, .. } => *missing,
        RefusalReason::QuotaReached { needed, usable, .. } => needed - usable,
        RefusalReason::StagingFull { needed, left } => needed.0 - left.0,
        RefusalReason::TooSmall {
            needed, largest, ..
        } => needed - largest,
        RefusalReason::QuotaTooSmall { needed, quota, .. } => needed - quota,
        _ => 0,
    };
    let worst = recorder
        .verdicts
        .iter()
        .filter_map(|verdict| match &verdict.outcome {
            SiteSuitability::Refused(all) if verdict.component == component => {
                Some((&all[0], &verdict.site))
            }
            _ => None,
        });
    let nearest = worst.min_by_key(|(reason, site)| (reason.code(), gap(reason), *site));
    PlacementRefusal {
        component,
        site: nearest.map(|(_, site)| site.clone()),
        reason: nearest.map_or(RefusalReason::NoSites, |(reason, _)| reason.clone()),
    }
}

/// The least share that leaves what these reasons say is needed beside what is promised; no
/// quota where the whole site would not.
fn quota_that_serves(site: &GridSite, reasons: &[RefusalReason]) -> SiteQuota {
    let total = site.shape.as_ref().unwrap().total.clone();
    let idle = site.idle.as_ref().map_or(&total, |belief| &belief.idle);
    let (ours, pending) = match site.idle {
        Some(_) => (site.ours.clone(), site.pending.clone()),
        None => Default::default(),
    };
    let short: Vec<(&str, u64)> = reasons
        .iter()
        .filter_map(|reason| match reason {
            RefusalReason::QuotaReached {
                resource, needed, ..
            }
            | RefusalReason::QuotaTooSmall {
                resource, needed, ..
            } => Some((&**resource, *needed)),
            _ => None,
        })
        .collect();
    let count = |of: &Resources, name: &str| match name {
        "processors" => i64::from(of.processors),
        other => of.others.get(other).copied().unwrap_or(0) as i64,
    };
    let steps = short.iter().flat_map(|&(name, _)| {
        let all = count(&total, name) as u32;
        (0..=all).map(move |part| (part * 1_000_000).div_ceil(all.max(1)))
    });
    let quotas = steps.map(|share| SiteQuota {
        share: PerMillion(share),
        ..site.quota
    });
    quotas
        .filter(|quota: &SiteQuota| {
            short.iter().all(|&(name, needed)| {
                let all = count(&total, name);
                let taken = match quota.basis {
                    QuotaBasis::Level => (all - count(idle, name)).max(0),
                    QuotaBasis::Share => count(&ours, name),
                };
                quota.share_of_total(all as u64) as i64 - taken - count(&pending, name)
                    >= needed as i64
            })
        })
        .min_by_key(|quota| quota.share)
        .unwrap_or(SiteQuota::NONE)
}

/// What is turned to lift a reason: a quota is one setting for all resources.
pub(super) fn code_to_lift(reason: &RefusalReason) -> ReasonCode {
    match reason.code() {
        ReasonCode::QuotaTooSmall => ReasonCode::QuotaReached,
        code => code,
    }
}

/// Takes away every reason of this kind, exactly as the reasons say.
pub(super) fn lift_reasons(
    drawn: &mut DrawnScene,
    index: usize,
    code: ReasonCode,
    reasons: &[RefusalReason],
) {
    let mut parts = drawn.request.components().to_vec();
    // One setting for all of them: no quota, once chosen, is a basis of its own.
    let quota = quota_that_serves(&drawn.sites[index], reasons);
    for reason in reasons.iter().filter(|reason| code_to_lift(reason) == code) {
        let site = &mut drawn.sites[index];
        let number = |digest: crate::ids::Digest| digest.0[0];
        let position =
            |name: &crate::ids::SiteName| NAMES.iter().position(|n| *n == name.as_str()).unwrap();
        match reason {
            RefusalReason::NotEnoughIdle {
                resource, missing, ..
            } => {
                let idle = &mut site.idle.as_mut().unwrap().idle;
                match &**resource {
                    "processors" => idle.processors += *missing as u32,
                    other => *idle.others.entry(other.into()).or_default() += missing,
                }
            }
            RefusalReason::QuotaReached { .. } | RefusalReason::QuotaTooSmall { .. } => {
                site.quota = quota;
            }
            RefusalReason::SiteFull => site.room = site.room.map(|room| room + 1),
            RefusalReason::StagingFull { needed, left } => {
                site.staging_left = site
                    .staging_left
                    .map(|all| Bytes(all.0 + needed.0 - left.0));
            }
            RefusalReason::NotTheNamedSite(_) => parts[0].site = Some(site.name.clone()),
            RefusalReason::Avoided => parts[0].avoid.clear(),
            RefusalReason::RefusedByBatchSystem(_) => parts[0].unfit_for.clear(),
            RefusalReason::NoBandwidth { from, to } => {
                drawn.links.insert((position(from), position(to)));
            }
            RefusalReason::ReplicaUnreachable { at, .. } => {
                let at = position(at);
                drawn.sites[at].serves_files = true;
                drawn.links.insert((at, index));
            }
            RefusalReason::NoReplica { digest } => {
                drawn.replicas.insert((number(*digest), index));
            }
            // It speaks, and has enough.
            RefusalReason::Closed(PlacementHindrance::Unknown) => {
                site.idle = Some(LoadReport {
                    idle: processors_and_gpus(1_000, 1_000),
                    asked_at: Timestamp(0),
                });
                (site.pending, site.ours) = Default::default();
            }
            RefusalReason::Closed(_) => site.acceptance = PlacementAcceptance::Open,
            RefusalReason::TooSmall {
                resource, needed, ..
            } => {
                let mut shape = (**site.shape.as_ref().unwrap()).clone();
                match &**resource {
                    "processors" => shape.largest_component.processors = *needed as u32,
                    other => {
                        shape.largest_component.others.insert(other.into(), *needed);
                    }
                }
                site.shape = Some(Arc::new(shape));
            }
            RefusalReason::LabelMismatch(constraint) => {
                let mut shape = (**site.shape.as_ref().unwrap()).clone();
                let values = shape.labels.entry(constraint.key.clone()).or_default();
                match &constraint.rule {
                    LabelRule::Is(value) => drop(values.insert(value.clone())),
                    LabelRule::IsNot(value) => drop(values.remove(value)),
                    LabelRule::AtLeast(least) => drop(values.insert(least.to_string().into())),
                    LabelRule::OneOf(_) => panic!("not drawn here"),
                }
                site.shape = Some(Arc::new(shape));
            }
            other => panic!("not drawn here: {other}"),
        }
    }
    if let Some(total) = drawn.request.total_resources() {
        parts[0].resources.clone_from(total);
    }
    let policy = drawn.request.policy().clone();
    let restartable = drawn.request.is_restartable();
    drawn.request = PlacementRequest::new(
        policy,
        drawn.request.request_type().clone(),
        restartable,
        parts,
    );
}
