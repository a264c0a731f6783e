//! Grids on which a policy has much to choose from: sites that are connected better and worse,
//! and files that have to be brought to where there is room.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::Seq;
use cospan_domain::job::spec::{Flexible, Request};
use cospan_domain::placement::{
    Acceptance, Belief, ComponentRequest, GridSite, Quota, QuotaBasis, SiteShape,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::asked::Asked;
use super::ground::Ground;
use super::ground_draws::{files, site_name};

/// An open site with so many processors, all of them idle.
fn open(number: usize, processors: u32) -> Option<GridSite> {
    let total = Resources::processors(processors);
    let (idle, largest_component) = (total.clone(), total.clone());
    Some(GridSite {
        shape: Some(Arc::new(SiteShape { total, largest_component, labels: BTreeMap::new() })),
        acceptance: Acceptance::Open,
        idle: Some(Belief { idle, asked_at: Timestamp(0) }),
        quota: Quota::NONE,
        serves_files: true,
        ..GridSite::unheard(site_name(number)?)
    })
}

fn plain(chance: &mut StdRng, sizes: &[u32], rates: &[u64], latencies: &[u64]) -> Ground {
    let sites: Vec<GridSite> =
        sizes.iter().enumerate().filter_map(|(number, size)| open(number, *size)).collect();
    let mut links = BTreeMap::new();
    for from in 0..sites.len() {
        for to in (0..sites.len()).filter(|to| *to != from) {
            let bits = rates[chance.random_range(0..rates.len())];
            let latency = latencies[chance.random_range(0..latencies.len())];
            links.insert((from, to), (bits, latency));
        }
    }
    Ground {
        seq: Seq(7),
        sites: Arc::new(sites),
        replicas: Arc::default(),
        links: Arc::new(links),
        message: 1_000_000,
        staged: Arc::default(),
        taken: Vec::new(),
        made_up: BTreeMap::new(),
    }
}

/// Half of the sites are connected well, each of them better still with one of the others, which
/// is connected badly with the rest: who follows the fastest link is led astray.
fn astray(chance: &mut StdRng, ground: &mut Ground) {
    let mut order: Vec<usize> = (0..ground.sites.len()).collect();
    order.shuffle(chance);
    let half = ground.sites.len().div_ceil(2);
    let place = |site: usize| order.iter().position(|other| *other == site).unwrap_or(0);
    for ((from, to), link) in Arc::make_mut(&mut ground.links) {
        let (one, other) = (place(*from), place(*to));
        let slow = match (one < half && other < half, one.abs_diff(other) == half) {
            (true, _) => 200_000,
            (false, true) => 0,
            (false, false) => 400_000,
        };
        *link = (10_000_000, slow + 50_000 * chance.random_range(0..4));
    }
}

/// Sites of which a job needs several.
pub(super) fn connected(chance: &mut StdRng) -> (Ground, Asked) {
    let most = [5, 7][chance.random_range(0..2)];
    let count = [5, 6, 6, 8][chance.random_range(0..4)];
    let sizes: Vec<u32> = (0..count).map(|_| chance.random_range(5..=most)).collect();
    let rates = [1_000_000, 8_000_000, 8_000_000, 10_000_000];
    let latencies = [0, 100_000, 200_000, 300_000, 400_000, 500_000];
    let mut ground = plain(chance, &sizes, &rates, &latencies);
    if count == 8 || chance.random_bool(0.6) {
        astray(chance, &mut ground);
    }
    let restartable = true;
    if chance.random_bool(0.5) {
        let policy = "connected-cluster-minimization";
        let sizes = (0..chance.random_range(3..=4)).map(|_| chance.random_range(3..=5));
        let parts = sizes.map(|size| ComponentRequest::of_resources(Resources::processors(size)));
        let kind = Request::NonFixed;
        return (ground, Asked { policy, kind, restartable, parts: parts.collect() });
    }
    let policy = "connected-flexible-cluster-minimization";
    let whole = ComponentRequest::of_resources(Resources::processors(chance.random_range(11..=20)));
    let min_component_size = chance.random_range(1..=4);
    let kind = Request::Flexible(Flexible { min_component_size, ..Flexible::default() });
    (ground, Asked { policy, kind, restartable, parts: vec![whole] })
}

/// Where the files are hardly anything is left.
pub(super) fn remote(chance: &mut StdRng) -> (Ground, Asked) {
    let sizes = [0, 0, 4, 4, 4].map(|least| least + chance.random_range(1..=5));
    // The fastest bring a file within the same millisecond.
    let slow = [0, 1_000_000, 1_000_000, 8_000_000, 8_000_000, 10_000_000];
    let fast = [0, 50_000_000_000, 60_000_000_000, 80_000_000_000];
    let rates: &[u64] = if chance.random_bool(0.7) { &slow } else { &fast };
    let mut ground = plain(chance, &sizes, rates, &[0]);
    for file in files() {
        let at = (0..3).filter(|_| chance.random_bool(0.7)).collect();
        Arc::make_mut(&mut ground.replicas).insert(file.digest, at);
    }
    Arc::make_mut(&mut ground.sites)[0].serves_files = chance.random_bool(0.8);
    (ground, reading(chance))
}

/// Some components that read files.
pub(super) fn reading(chance: &mut StdRng) -> Asked {
    let policy = ["close-to-files", "close-to-files", "close-to-files", "worst-fit"];
    let policy = policy[chance.random_range(0..4)];
    let one = chance.random_range(0..3);
    let parts = (0..chance.random_range(1..=3)).map(|_| {
        let mut part =
            ComponentRequest::of_resources(Resources::processors(chance.random_range(3..=5)));
        part.inputs = files().into_iter().skip(one).take(2).collect();
        if chance.random_bool(0.6) {
            part.inputs.pop_last();
        }
        part
    });
    let parts = parts.collect();
    Asked { policy, kind: Request::NonFixed, restartable: true, parts }
}

/// Sites that all lack the same, each of them more or less of it.
pub(super) fn lacking(chance: &mut StdRng) -> (Ground, Asked) {
    let count = chance.random_range(2..=4);
    let mut ground = plain(chance, &vec![10; count], &[8_000_000], &[0]);
    let file = files()[3];
    Arc::make_mut(&mut ground.replicas).insert(file.digest, (0..count).collect());
    let kind = chance.random_range(0..5);
    let basis = [QuotaBasis::Level, QuotaBasis::Share][chance.random_range(0..2)];
    for site in Arc::make_mut(&mut ground.sites) {
        let has = chance.random_range(1..=5);
        let less = Resources::processors(10 - has);
        let (shape, idle) = (site.shape.as_mut().map(Arc::make_mut), site.idle.as_mut());
        match (kind, shape, idle) {
            (0, Some(shape), _) => shape.largest_component.subtract(&less),
            (1, _, Some(belief)) => belief.idle.subtract(&less),
            (2, ..) => site.quota = Quota { share: PerMillion(100_000 * has), basis },
            (3, _, Some(belief)) => {
                let used = Resources::processors(has);
                belief.idle.subtract(&used);
                site.ours = used;
                site.quota = Quota { share: PerMillion(600_000), basis };
            }
            _ => site.staging_left = Some(Bytes(1_000_000 * u64::from(has))),
        }
    }
    let mut part = ComponentRequest::of_resources(Resources::processors(6));
    part.inputs.insert(file);
    let policy = ["worst-fit", "cluster-minimization"][chance.random_range(0..2)];
    (ground, Asked { policy, kind: Request::NonFixed, restartable: true, parts: vec![part; 2] })
}
