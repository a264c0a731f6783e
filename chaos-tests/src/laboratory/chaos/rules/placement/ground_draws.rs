//! Grids and jobs as they are drawn for the rules of placement: small counts, so that it is
//! common that just enough is left, and one too few.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::content::{Chunk, Content, Part};
use cospan_domain::ids::{Digest, Seq, SiteName};
use cospan_domain::job::spec::{Flexible, Request, Where};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::placement::{
    Acceptance, Belief, ComponentRequest, GridSite, Hindrance, Quota, QuotaBasis, SiteShape,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::super::quantities::OTHERS;
use super::asked::Asked;
use super::ground::Ground;

pub(super) const HINDRANCES: [Hindrance; 10] = [
    Hindrance::Unknown,
    Hindrance::Unreachable,
    Hindrance::Isolated,
    Hindrance::Unusable,
    Hindrance::Probing,
    Hindrance::Draining,
    Hindrance::Drained,
    Hindrance::Maintenance,
    Hindrance::CredentialsExpired,
    Hindrance::Frozen,
];

/// How large files are.
const SIZES: [u64; 4] = [3_000_000, 3_000_000, 5_000_000, 8_000_000];

pub(super) fn site_name(number: usize) -> Option<SiteName> {
    SiteName::new(&format!("site-{number}")).ok()
}

pub(super) fn files() -> Vec<Content> {
    let file =
        |(number, size): (u8, u64)| Content { digest: Digest([number; 32]), size: Bytes(size) };
    (1..).zip(SIZES).map(file).collect()
}

/// So many processors at most, and now and then something else.
fn resources(chance: &mut StdRng, processors: u32, share: f64) -> Resources {
    let mut others = BTreeMap::new();
    for name in OTHERS {
        if chance.random_bool(share) {
            others.insert(Arc::from(name), chance.random_range(1..=6));
        }
    }
    Resources { processors: chance.random_range(1..=processors), others }
}

fn within(chance: &mut StdRng, all: &Resources) -> Resources {
    let others =
        all.others.iter().map(|(name, most)| (name.clone(), chance.random_range(0..=*most)));
    let others = others.collect();
    Resources { processors: chance.random_range(0..=all.processors), others }
}

fn acceptance(chance: &mut StdRng) -> Acceptance {
    match chance.random_range(0..12) {
        0 => Acceptance::Closed(*HINDRANCES.choose(chance).unwrap_or(&Hindrance::Unknown)),
        1 => Acceptance::ProbesOnly,
        _ => Acceptance::Open,
    }
}

pub(super) fn site(chance: &mut StdRng, name: SiteName) -> GridSite {
    let total = resources(chance, 16, 0.5);
    let idle = if chance.random_bool(0.6) { total.clone() } else { within(chance, &total) };
    let mut held = total.clone();
    held.subtract(&idle);
    let ours = within(chance, &held);
    let none = Resources::default();
    let pending = if chance.random_bool(0.2) { within(chance, &total) } else { none };
    let largest = if chance.random_bool(0.2) { within(chance, &total) } else { total.clone() };
    let mut values = || -> BTreeSet<Arc<str>> {
        ["a", "b"].into_iter().filter(|_| chance.random_bool(0.6)).map(Arc::from).collect()
    };
    let labels = [("key".into(), values()), ("kind".into(), values())].into();
    let share = [500_000, 750_000, 999_999, 1_000_000][chance.random_range(0..4)];
    let basis = [QuotaBasis::Level, QuotaBasis::Share][chance.random_range(0..2)];
    let bound = Quota { share: PerMillion(share), basis };
    let shape = Some(Arc::new(SiteShape { total, largest_component: largest, labels }));
    let staging = [0, 3_000_000, 6_000_000, 8_000_000][chance.random_range(0..4)];
    GridSite {
        shape: shape.filter(|_| !chance.random_bool(0.03)),
        acceptance: acceptance(chance),
        idle: Some(Belief { idle, asked_at: Timestamp(0) }).filter(|_| !chance.random_bool(0.03)),
        pending,
        ours,
        quota: if chance.random_bool(0.6) { Quota::NONE } else { bound },
        room: [None, None, Some(0), Some(1), Some(2)][chance.random_range(0..5)],
        staging_left: chance.random_bool(0.3).then_some(Bytes(staging)),
        serves_files: chance.random_bool(0.85),
        ..GridSite::unheard(name)
    }
}

pub(super) fn ground(chance: &mut StdRng) -> Ground {
    let count = [0, 1, 2, 3, 3, 4, 4, 5][chance.random_range(0..8)];
    let names = (0..count).filter_map(site_name);
    let sites: Vec<GridSite> = names.map(|name| site(chance, name)).collect();
    let share = [0.3, 0.6][chance.random_range(0..2)];
    let mut at =
        || -> BTreeSet<usize> { (0..sites.len()).filter(|_| chance.random_bool(share)).collect() };
    let replicas = files().into_iter().map(|file| (file.digest, at())).collect();
    let mut links = BTreeMap::new();
    for from in 0..sites.len() {
        for to in (0..sites.len()).filter(|to| *to != from) {
            if chance.random_bool(0.9) {
                let bits = [0, 1_000_000, 8_000_000, 10_000_000][chance.random_range(0..4)];
                let latency = [0, 0, 200_000, 400_000, 9_000_000][chance.random_range(0..5)];
                links.insert((from, to), (bits, latency));
            }
        }
    }
    let mut staged = BTreeSet::new();
    for at in 0..sites.len() {
        staged.extend(files().into_iter().filter(|_| chance.random_bool(0.2)).map(|f| (at, f)));
    }
    Ground {
        seq: Seq(chance.random_range(0..9)),
        sites: Arc::new(sites),
        replicas: Arc::new(replicas),
        links: Arc::new(links),
        message: [0, 1_000, 1_000_000][chance.random_range(0..3)],
        staged: Arc::new(staged),
        taken: Vec::new(),
        made_up: BTreeMap::new(),
    }
}

fn constraint(chance: &mut StdRng) -> Constraint {
    let rules = [
        Rule::Is("a".into()),
        Rule::IsNot("b".into()),
        Rule::OneOf(["a".into(), "b".into()].into()),
        Rule::OneOf(["c".into(), "b".into()].into()),
    ];
    Constraint { key: "key".into(), rule: rules[chance.random_range(0..4)].clone() }
}

/// Where another executable is used, or one that is there.
fn elsewhere(chance: &mut StdRng, file: Content) -> Vec<(Where, Option<Content>)> {
    let places = [Where::Label("kind".into(), "a".into()), Where::Label("kind".into(), "b".into())];
    let named = site_name(0).map(Where::Site);
    let all = places.into_iter().chain(named);
    let some = all.filter(|_| chance.random_bool(0.5)).collect::<Vec<_>>();
    some.into_iter().map(|place| (place, chance.random_bool(0.5).then_some(file))).collect()
}

/// A component; `most`: processors.
pub(super) fn component(chance: &mut StdRng, ground: &Ground, most: u32) -> ComponentRequest {
    let mut component = ComponentRequest::of_resources(resources(chance, most, 0.2));
    if chance.random_bool(0.2) {
        let count = chance.random_range(1..=2);
        component.constraints = (0..count).map(|_| constraint(chance)).collect();
    }
    let files = files();
    if chance.random_bool(0.6) {
        let read = files.iter().copied();
        component.inputs = read.filter(|_| chance.random_bool(0.4)).collect();
    }
    if chance.random_bool(0.15) {
        component.executable = Some(files[3]);
    }
    if chance.random_bool(0.15) {
        let other = files[chance.random_range(0..4)];
        component.executable_at = elsewhere(chance, other);
    }
    if chance.random_bool(0.2) {
        let avoid = ground.sites.iter().filter(|_| chance.random_bool(0.5));
        component.avoid = avoid.map(|site| site.name.clone()).collect();
    }
    component
}

/// Some of them, or all, read a file in chunks.
fn feed_chunks(chance: &mut StdRng, parts: &mut [ComponentRequest]) {
    let of = files()[chance.random_range(0..4)];
    let readers = parts.iter().map(|_| chance.random_bool(0.7)).collect::<Vec<_>>();
    let sizes: Vec<u64> = (parts.iter().zip(&readers))
        .map(|(part, reads)| if *reads { part.resources.processors.into() } else { 0 })
        .collect();
    for (index, part) in parts.iter_mut().enumerate().filter(|(index, _)| readers[*index]) {
        let before = sizes[..index].iter().sum();
        let total = sizes.iter().sum();
        let chunk = Chunk::of_part(of, Part { before, own: sizes[index], total });
        part.chunks.insert(chunk.content(), chunk);
    }
}

/// Components of given sizes.
pub(super) fn rigid(chance: &mut StdRng, ground: &Ground, policy: &'static str) -> Asked {
    let most = [3, 6, 12][chance.random_range(0..3)];
    let count = [1, 1, 2, 2, 3, 3, 4, 5][chance.random_range(0..8)];
    let mut parts: Vec<ComponentRequest> =
        (0..count).map(|_| component(chance, ground, most)).collect();
    if chance.random_bool(0.3) {
        let first = parts[0].clone();
        parts.iter_mut().filter(|_| chance.random_bool(0.7)).for_each(|p| p.clone_from(&first));
    }
    if chance.random_bool(0.2) {
        feed_chunks(chance, &mut parts);
    }
    let is_fixed = chance.random_bool(0.15);
    if is_fixed {
        let names: Vec<SiteName> = (0..=ground.sites.len()).filter_map(site_name).collect();
        parts.iter_mut().for_each(|part| part.site = names.choose(chance).cloned());
    }
    let kind = if is_fixed { Request::Fixed } else { Request::NonFixed };
    Asked { policy, kind, restartable: chance.random_bool(0.5), parts }
}

/// A total, with bounds or with splits that are allowed.
pub(super) fn flexible(chance: &mut StdRng, ground: &Ground, policy: &'static str) -> Asked {
    let most = [6, 14, 30][chance.random_range(0..3)];
    let mut whole = component(chance, ground, most);
    let total = whole.resources.processors;
    if chance.random_bool(0.3) {
        let of = files()[chance.random_range(0..4)];
        let part = Part { before: 0, own: total.into(), total: total.into() };
        let chunk = Chunk::of_part(of, part);
        whole.chunks.insert(chunk.content(), chunk);
    }
    let mut bounds = Flexible {
        min_component_size: chance.random_range(1..=total.min(4)),
        max_components: chance.random_bool(0.4).then(|| chance.random_range(1..=3)),
        splits: Vec::new(),
    };
    if total > 2 && chance.random_bool(0.35) {
        for _ in 0..chance.random_range(1..=3) {
            let cut = chance.random_range(1..total - 1);
            let splits = [vec![total], vec![cut, total - cut], vec![cut, total - cut - 1, 1]];
            bounds.splits.push(splits[chance.random_range(0..3)].clone());
        }
    }
    let kind = Request::Flexible(bounds);
    Asked { policy, kind, restartable: chance.random_bool(0.5), parts: vec![whole] }
}
