//! Small grids on which much is equal and something is missing, and jobs of every policy that are
//! placed on them one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::judge::SubmittedRequest;
use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::ids::SiteName;
use crate::job::spec::{FlexibleBounds, OverrideScope, RequestType};
use crate::labels::{LabelConstraint, LabelRule};
use crate::placement::policy::POLICIES;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::{Bytes, PerMillion};

const NAMES: [&str; 4] = ["A", "B", "C", "D"];

#[derive(Debug, Clone)]
pub(super) struct PlacementScene {
    pub(super) grid: GridSnapshot,
    pub(super) history: SitePairHistory,
    pub(super) jobs: Vec<SubmittedRequest>,
}

/// The files that are read: two are of one size.
fn read_file(number: u8) -> Content {
    content_of_gigabytes(number, [1, 1, 2][usize::from(number) - 1])
}

fn processors_and_gpus(processors: u32, gpus: u64) -> Resources {
    let others = if gpus > 0 {
        [("gpus".into(), gpus)].into()
    } else {
        BTreeMap::new()
    };
    Resources { processors, others }
}

fn any_acceptance() -> impl Strategy<Value = PlacementAcceptance> {
    prop_oneof![
        12 => Just(PlacementAcceptance::Open),
        2 => Just(PlacementAcceptance::ProbesOnly),
        2 => prop::sample::select(vec![
            PlacementHindrance::Unreachable, PlacementHindrance::Unusable, PlacementHindrance::Probing, PlacementHindrance::Frozen,
            PlacementHindrance::Maintenance,
        ]).prop_map(PlacementAcceptance::Closed),
    ]
}

fn any_quota() -> impl Strategy<Value = SiteQuota> {
    let basis = prop::sample::select(vec![QuotaBasis::Level, QuotaBasis::Share]);
    let share = prop::sample::select(vec![1_000_000, 500_000, 700_000]).prop_map(PerMillion);
    let bound = (share, basis).prop_map(|(share, basis)| SiteQuota { share, basis });
    prop_oneof![3 => Just(SiteQuota::NONE), 1 => bound]
}

prop_compose! {
    fn a_site(name: &'static str)(
        (total, all_gpus) in (prop::sample::select(vec![4u32, 6, 8, 8, 12]), 0..3u64),
        (in_use, gpus_in_use) in (prop::sample::select(vec![0u32, 0, 2, 4]), 0..2u64),
        less in prop::sample::select(vec![0u32, 0, 0, 3]),
        (pending, ours) in (prop::sample::select(vec![0u32, 0, 0, 1, 2]), 0..3u32),
        quota in any_quota(), acceptance in any_acceptance(),
        arch in prop::sample::select(vec!["arm", "arm", "x86", ""]),
        room in prop_oneof![6 => Just(None), 1 => (0..3u32).prop_map(Some)],
        staging in prop_oneof![3 => Just(None), 1 => (0..5u64).prop_map(Some)],
        (known, serves_files) in (0..24u32, 0..8u32),
    ) -> GridSite {
        let idle = processors_and_gpus(total - in_use, all_gpus.saturating_sub(gpus_in_use));
        let mut site = site_with_resources(name, processors_and_gpus(total, all_gpus), idle);
        let shape = Arc::make_mut(site.shape.as_mut().unwrap());
        shape.largest_component.processors -= less;
        let labels = [("arch".into(), [arch.into()].into())];
        shape.labels = labels.into_iter().filter(|_| !arch.is_empty()).collect();
        GridSite {
            pending: processors_and_gpus(pending, 0),
            ours: processors_and_gpus(ours, 0),
            quota,
            acceptance,
            room,
            staging_left: staging.map(|left| Bytes(left * GB)),
            serves_files: serves_files > 0,
            shape: site.shape.filter(|_| known != 0),
            idle: site.idle.filter(|_| known != 1),
            ..site
        }
    }
}

pub(crate) fn any_history() -> impl Strategy<Value = SitePairHistory> {
    let pair = (0..4usize, 0..4usize);
    let pair = pair.prop_map(|(at, from)| (site_name(NAMES[at]), site_name(NAMES[from])));
    let pairs = prop::collection::btree_set(pair, 0..9).prop_map(SitePairHistory::Pairs);
    prop_oneof![Just(SitePairHistory::All), pairs]
}

prop_compose! {
    pub(crate) fn grids()(
        sites in NAMES.map(a_site), count in prop_oneof![1 => Just(1usize), 9 => 2..=4usize],
        rates in prop::collection::vec(prop::sample::select(vec![0u64, 100, 100, 150, 200]), 16),
        replicas in prop::collection::btree_set((1..4u8, 0..4usize), 5..12),
        staged in prop::collection::btree_set((1..4u8, 0..4usize), 0..3),
    ) -> GridSnapshot {
        let named = |(number, at): &(u8, usize)| (read_file(*number), NAMES[*at]);
        let links: Vec<_> = rates.iter().enumerate()
            .map(|(pair, rate)| (NAMES[pair / 4], NAMES[pair % 4], *rate))
            .filter(|(from, to, _)| from != to)
            .filter(|(from, to, _)| NAMES[..count].contains(from) && NAMES[..count].contains(to))
            .collect();
        let replicas: Vec<_> = replicas.iter().map(named).collect();
        let mut at_sites: BTreeMap<SiteName, BTreeSet<Content>> = BTreeMap::new();
        for (content, at) in staged.iter().map(named) {
            at_sites.entry(site_name(at)).or_default().insert(content);
        }
        let sites = sites.into_iter().take(count);
        grid_with(sites, &replicas, &links).with_staged(Arc::new(at_sites))
    }
}

prop_compose! {
    fn component(most: u32)(
        processors in 1..=most,
        gpus in prop_oneof![9 => Just(0u64), 1 => 1..3u64],
        rule in 0..30u32,
        avoid in prop_oneof![6 => Just(None), 1 => (0..4usize).prop_map(Some)],
        inputs in prop_oneof![
            3 => Just(BTreeSet::new()), 2 => prop::collection::btree_set(1..4u8, 1..3),
        ],
        executable in prop_oneof![9 => Just(None), 1 => (1..4u8).prop_map(Some)],
        others in prop_oneof![
            9 => Just(Vec::new()), 1 => prop::collection::vec((0..5usize, 0..3u8), 1..4),
        ],
        site in 0..16usize,
    ) -> ComponentRequest {
        let constraint = |rule| vec![LabelConstraint { key: "arch".into(), rule }];
        let place = |at: usize| match NAMES.get(at) {
            Some(name) => OverrideScope::Site(site_name(name)),
            None => OverrideScope::Label("arch".into(), "arm".into()),
        };
        let content = |number: u8| (number > 0).then(|| read_file(number));
        ComponentRequest {
            resources: processors_and_gpus(processors, gpus),
            gflops: 0,
            constraints: match rule {
                0 => constraint(LabelRule::Is("arm".into())),
                1 => constraint(LabelRule::IsNot("arm".into())),
                2 => constraint(LabelRule::OneOf(["arm".into(), "x86".into()].into())),
                _ => Vec::new(),
            },
            avoid: avoid.into_iter().map(|at| site_name(NAMES[at])).collect(),
            inputs: inputs.into_iter().map(read_file).collect(),
            executable: executable.and_then(content),
            executable_at: others.into_iter().map(|(at, n)| (place(at), content(n))).collect(),
            // Of a fixed request; some name one that is not there.
            site: Some(site_name(if site == 0 { "E" } else { NAMES[site % 4] })),
            chunks: BTreeMap::new(),
            lanes: Vec::new(),
            unfit_for: BTreeMap::new(),
            barred: BTreeMap::new(),
        }
    }
}

/// Each reads its chunk of a file, by what it has of all processors.
fn read_in_chunks(parts: &mut [ComponentRequest], of: Content) {
    let total = parts
        .iter()
        .map(|part| u64::from(part.resources.processors))
        .sum();
    let mut before = 0;
    for part in parts {
        let own = part.resources.processors.into();
        let chunk = FileChunk::for_part(of, ComponentFilePart { before, own, total });
        before += own;
        part.chunks = [(chunk.as_content(), chunk)].into();
    }
}

prop_compose! {
    pub(crate) fn a_job()(
        policy in 0..POLICIES.len(),
        mut parts in prop::collection::vec(component(5), 1..5),
        whole in prop_oneof![component(24), component(8)],
        min in 1..6u32,
        most in prop::option::of(1..5u32),
        mut cuts in prop::collection::vec(prop::collection::vec(1..8u32, 0..3), 0..3),
        (fixed, listed, restartable) in (0..8u32, any::<bool>(), any::<bool>()),
        chunk in prop_oneof![7 => Just(None), 1 => (1..4u8).prop_map(Some)],
    ) -> SubmittedRequest {
        let policy = POLICIES[policy];
        let mut kind = if fixed == 0 { RequestType::Fixed } else { RequestType::NonFixed };
        if !policy.serves(&kind) {
            let total = whole.resources.processors;
            let min_component_size = min.min(total);
            // A split is what is cut off the total, and the rest.
            for cut in &mut cuts {
                cut.retain(|size| *size < total);
                while cut.iter().sum::<u32>() >= total {
                    cut.pop();
                }
                cut.push(total - cut.iter().sum::<u32>());
            }
            cuts.retain(|_| listed);
            parts = vec![whole];
            kind =
                RequestType::Flexible(FlexibleBounds { min_component_size, max_components: most, splits: cuts });
        }
        if kind != RequestType::Fixed {
            parts.iter_mut().for_each(|part| part.site = None);
        }
        if let Some(number) = chunk {
            read_in_chunks(&mut parts, read_file(number));
        }
        SubmittedRequest { policy: policy.name(), kind, restartable, parts }
    }
}

prop_compose! {
    pub(super) fn scenes()(
        grid in grids(), history in any_history(), jobs in prop::collection::vec(a_job(), 1..4),
    ) -> PlacementScene {
        PlacementScene { grid, history, jobs }
    }
}
