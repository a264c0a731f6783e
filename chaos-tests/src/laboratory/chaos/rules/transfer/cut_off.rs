//! When it is we who are cut off, and not the sites that fail: half of the sites that were
//! there, and at least two, fell silent within a window, and none has answered since.

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::site::isolation::Isolation;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::links::names;

/// What is told of a site, for the watch over all of them.
#[derive(Debug, Clone, Copy)]
enum Told {
    Lost,
    Answered,
    Watched,
    Forgotten,
}

/// A site that is not watched does not count, whatever is told of it.
pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let window = [0, 60_000, 60_000][chance.random_range(0..3)];
    let mut isolation = Isolation::new(DurationMs(window));
    let few = chance.random_range(1..=4);
    let names = names([few, 10][chance.random_range(0..2)]);
    let mut watched: BTreeMap<&SiteName, Option<u64>> = BTreeMap::new();
    for name in names.iter().filter(|_| chance.random_bool(0.9)) {
        isolation.watch(name.clone());
        watched.insert(name, None);
    }
    let (mut since, mut now) = (None, 1_000_u64);
    for _ in 0..24 {
        now += [0, 1_000, chance.random_range(0..40_000), window][chance.random_range(0..4)];
        let name = &names[chance.random_range(0..names.len())];
        let told = match chance.random_range(0..20) {
            0..15 => Told::Lost,
            15..18 => Told::Answered,
            18 => Told::Watched,
            _ => Told::Forgotten,
        };
        let expected = turns(&mut watched, &mut since, (told, name), now, window);
        let turned = tell(&mut isolation, told, name, now);
        let right = turned == expected && isolation.since() == since.map(Timestamp);
        if !right || isolation.is_isolated() != since.is_some() {
            let turned = format!("{told:?} of {name} at {now} turns it: {turned}");
            return vec![format!("{turned}, with {watched:?} by {window}: {isolation:?}")];
        }
    }
    Vec::new()
}

fn tell(isolation: &mut Isolation, told: Told, name: &SiteName, now: u64) -> bool {
    match told {
        Told::Lost => return isolation.lost(name, Timestamp(now)),
        Told::Answered => return isolation.answered(name),
        Told::Watched => isolation.watch(name.clone()),
        Told::Forgotten => isolation.forget(name),
    }
    false
}

/// Whether this begins or ends that we are cut off.
fn turns<'a>(
    watched: &mut BTreeMap<&'a SiteName, Option<u64>>,
    since: &mut Option<u64>,
    (told, name): (Told, &'a SiteName),
    now: u64,
    window: u64,
) -> bool {
    let known = watched.get(name).copied();
    match (told, known) {
        (Told::Lost, Some(None)) => {
            watched.insert(name, Some(now));
            let is_old = |at: &&Option<u64>| at.is_some_and(|at| at + window < now);
            let there = watched.values().filter(|at| !is_old(at));
            let (silent, answering): (Vec<_>, Vec<_>) = there.copied().partition(Option::is_some);
            let begins = silent.len() >= answering.len().max(2) && since.is_none();
            *since = if begins { Some(now) } else { *since };
            begins
        }
        (Told::Answered, Some(_)) => {
            watched.insert(name, None);
            since.take().is_some()
        }
        (Told::Watched, _) => {
            watched.entry(name).or_insert(None);
            false
        }
        (Told::Forgotten, _) => {
            watched.remove(name);
            false
        }
        (Told::Lost | Told::Answered, _) => false,
    }
}
