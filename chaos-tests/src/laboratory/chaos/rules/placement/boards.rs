//! What policies play with: what is left while components come and go, what could be held when
//! empty, and a grid by the names of its sites.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::placement::search::Search;
use cospan_domain::placement::{
    Acceptance, GridSite, GridSnapshot, Hindrance, Quota, Remaining, closed_site,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::quantities::{counts, vector};
use super::ground::{Ground, KINDS};
use super::ground_draws::{component, files, ground, rigid, site, site_name};
use super::judge::{Judge, never_fits};

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let ground = ground(chance);
    let grid = ground.snapshot();
    let found = match chance.random_range(0..4) {
        0 => by_name(chance, &ground, &grid).or(unheard(chance)),
        1 => held(chance, &ground, &grid),
        _ => comings_and_goings(chance, &ground, &grid),
    };
    found.into_iter().collect()
}

/// Of a site that was not heard from nothing is taken.
fn unheard(chance: &mut StdRng) -> Option<String> {
    let name = site_name(chance.random_range(0..9))?;
    let site = GridSite::unheard(name.clone());
    let plain = Resources::default();
    let right = site.name == name
        && site.shape.is_none()
        && site.idle.is_none()
        && site.acceptance == Acceptance::Closed(Hindrance::Unknown)
        && (&site.pending, &site.ours) == (&plain, &plain)
        && site.quota == Quota::default()
        && Quota::default() == Quota::NONE
        && (site.room, site.staging_left, site.serves_files) == (None, None, false)
        && site.usable() == plain
        && site.age(Timestamp(9)).is_none();
    (!right).then(|| format!("unheard of: {site:?}"))
}

/// Sites are found by their names and stand in order of them; of two with one name the later
/// counts.
fn by_name(chance: &mut StdRng, ground: &Ground, grid: &GridSnapshot) -> Option<String> {
    let twice = grid.with_sites(
        ground
            .sites
            .iter()
            .map(|of| site(chance, of.name.clone()))
            .chain(ground.sites.iter().cloned())
            .collect(),
    );
    let same = |grid: &GridSnapshot| {
        let usable = grid.usable().iter().map(counts);
        grid.seq() == ground.seq
            && grid.sites() == *ground.sites
            && usable.eq((0..ground.sites.len()).map(|at| ground.usable(at)))
    };
    let now = Timestamp(chance.random_range(0..5_000));
    let known = (0..=ground.sites.len()).filter_map(site_name).enumerate().all(|(at, name)| {
        let site = ground.sites.get(at);
        let index = grid.index_of(&name);
        let age = grid.site(&name).and_then(|site| site.age(now));
        let aged = site.and_then(|site| site.idle.as_ref()).map(|_| DurationMs(now.0));
        index == site.map(|_| at) && grid.site(&name) == site && age == aged
    });
    let linked = (0..ground.sites.len()).all(|from| {
        (0..ground.sites.len()).all(|to| {
            let rate = BitsPerSecond(ground.rate(from, to));
            let is_staged = files().iter().all(|content| {
                let told = twice.is_staged(&ground.sites[to].name, content);
                told == ground.staged.contains(&(to, *content))
            });
            grid.bandwidth(from, to) == rate && twice.bandwidth(from, to) == rate && is_staged
        })
    });
    let right = same(grid) && same(&twice) && known && linked && has_files(grid, ground);
    (!right).then(|| format!("{grid:?} or {twice:?} is not {ground:?}"))
}

fn has_files(grid: &GridSnapshot, ground: &Ground) -> bool {
    let sites_with = |content: &Content| {
        let mut sites: Vec<SiteName> = Vec::new();
        grid.replicas().visit_sites(&content.digest, &mut |site| sites.push(site.clone()));
        sites
    };
    let right = |content: &Content| {
        let at = ground.holders(content).into_iter().map(|at| ground.sites[at].name.clone());
        sites_with(content).into_iter().eq(at)
    };
    files().iter().all(right)
}

/// What is given back is there again; what others withhold is not.
fn comings_and_goings(chance: &mut StdRng, ground: &Ground, grid: &GridSnapshot) -> Option<String> {
    if ground.sites.is_empty() {
        return None;
    }
    let mut remaining = Remaining::of(grid);
    let mut model = ground.clone();
    let mut job = 0;
    for _ in 0..6 {
        let at = chance.random_range(0..ground.sites.len());
        let name = &ground.sites[at].name;
        let mut used = vector(chance, 4);
        if chance.random_bool(0.5) {
            used.others.clear();
        }
        let (left, need) = (model.left(at), counts(&used));
        let has_room = model.has_room(at, job);
        let covers = has_room && (0..3).all(|kind| left[kind] >= need[kind]);
        if remaining.has_room(at) != has_room || remaining.covers(at, &used) != covers {
            return Some(format!("{used:?} of job {job} at {name} of {model:?}: not {covers}"));
        }
        let all = files();
        let read = all.iter().filter(|_| chance.random_bool(0.4)).copied();
        let contents: Vec<Content> = read.collect();
        match chance.random_range(0..6) {
            0 => {
                job += 1;
                remaining.begin_request();
            }
            1 => {
                let last = model.taken.iter().rposition(|taken| taken.job == job);
                if let Some(last) = last.map(|last| model.taken.remove(last)) {
                    remaining.give_back(last.at, &resources(last.used));
                    remaining.unstage(last.at, last.copies.into_iter());
                }
            }
            _ if covers => {
                remaining.take(at, &used);
                model.take(at, job, &used, &contents);
                if ground.sites[at].staging_left.is_some() {
                    remaining.stage(at, contents.into_iter());
                }
            }
            _ => {}
        }
        if let Some(text) = model.differs(&remaining, &all) {
            return Some(text);
        }
    }
    withheld(chance, &model, remaining)
}

/// Whose processors are withheld keeps everything else.
fn withheld(chance: &mut StdRng, model: &Ground, mut remaining: Remaining) -> Option<String> {
    let at = chance.random_range(0..model.sites.len());
    let count = chance.random_range(0..10_u32);
    let ought: Vec<u32> = (0..model.sites.len())
        .map(|other| {
            let left = model.left(other)[0] as u32;
            if other == at { left.saturating_sub(count) } else { left }
        })
        .collect();
    let others: Vec<u64> = KINDS[1..].iter().map(|kind| remaining.other(at, kind)).collect();
    remaining.withhold(at, count);
    let same = KINDS[1..].iter().map(|kind| remaining.other(at, kind)).eq(others);
    let right = remaining.processors() == ought && same;
    (!right).then(|| format!("{count} withheld at {at} of {ought:?}: {remaining:?}"))
}

fn resources(counts: [u64; 3]) -> Resources {
    let others = (1..3).filter(|kind| counts[*kind] > 0);
    let others: BTreeMap<Arc<str>, u64> =
        others.map(|kind| (KINDS[kind].into(), counts[kind])).collect();
    Resources { processors: counts[0] as u32, others }
}

/// What a search tells of one component at one site; and which component of a request that names
/// its sites waits for one that is closed.
fn held(chance: &mut StdRng, ground: &Ground, grid: &GridSnapshot) -> Option<String> {
    let mut asked = rigid(chance, ground, "worst-fit");
    if chance.random_bool(0.3) {
        asked.parts.push(component(chance, ground, 4));
    }
    let request = asked.request()?;
    let search = Search::new(&request, grid);
    let remaining = Remaining::of(grid);
    let (parts, table) = (asked.parts.clone().into(), None);
    let judge = Judge { ground: ground.clone(), whole: &asked, parts, job: 0, table };
    let takes = |site: &GridSite| match site.acceptance {
        Acceptance::Open => None,
        Acceptance::ProbesOnly => (!asked.may_probe()).then_some(Hindrance::Probing),
        Acceptance::Closed(why) => Some(why),
    };
    for (part, of) in asked.parts.iter().enumerate() {
        let named = of.site.as_ref().map(|name| ground.position(name));
        let mut right = search.named_site(part) == named && search.component(part) == of;
        for (at, site) in ground.sites.iter().enumerate() {
            let could = named.is_none_or(|named| named == Some(at))
                && takes(site).is_none()
                && site.shape.is_some()
                && never_fits(of, site).is_empty();
            right &= search.could_hold(part, at) == could
                && search.fits(part, at, &remaining) == judge.is_open(part, at)
                && search.transfer_time(part, at) == judge.transfer_time(part, at);
        }
        if !right {
            return Some(format!("{part} of {asked:?} is searched for on {ground:?}"));
        }
    }
    let mut closed = (0..).map(ComponentIndex).zip(&asked.parts).filter_map(|(index, part)| {
        let at = ground.position(part.site.as_ref()?)?;
        let site = &ground.sites[at];
        Some((index, site.name.clone(), takes(site)?))
    });
    let (told, ought) = (closed_site(&request, grid), closed.next());
    (told != ought).then(|| format!("{asked:?} waits for {told:?}, not {ought:?}"))
}
