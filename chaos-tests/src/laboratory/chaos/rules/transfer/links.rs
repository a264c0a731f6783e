//! The ways between sites and to them: where a file comes from soonest,
//! and from when on a site counts as out of reach.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::site::contact::{Contact, ContactLog, ContactParameters, QueryResult};
use cospan_domain::transfer::links::{Chosen, Links, Need, TransferPlan, choose_source};
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::transfer::state::Source;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [sources(chance), nearest(chance), contacts(chance)];
    checks.into_iter().flatten().collect()
}

pub(super) fn names(many: usize) -> Vec<SiteName> {
    (0..many).filter_map(|number| SiteName::new(&format!("site-{number}")).ok()).collect()
}

/// What was said last of each link, by the numbers of its sites.
type Known = BTreeMap<(usize, usize), u64>;

/// Sites of which some have two files, and the links between them.
struct Grid {
    names: Vec<SiteName>,
    links: Links,
    known: Known,
    held: [Vec<usize>; 2],
    excluded: Vec<usize>,
}

/// The two files.
const FILES: [Content; 2] = [
    Content { digest: Digest([0; 32]), size: Bytes(1_000_000) },
    Content { digest: Digest([1; 32]), size: Bytes(2_500_000) },
];

impl Grid {
    fn drawn(chance: &mut StdRng) -> Self {
        let names = names(5);
        let (mut links, mut known) = (Links::default(), Known::new());
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            let bits = [0, 1_000_000, 10_000_000, 10_000_000][chance.random_range(0..4)];
            if chance.random_bool(0.7) {
                links.set(names[from].clone(), names[to].clone(), BitsPerSecond(bits));
                known.insert((from, to), bits);
            }
        }
        let mut some = |share: f64| (0..5).filter(|_| chance.random_bool(share)).collect();
        Self { names, links, known, held: [some(0.5), some(0.5)], excluded: some(0.2) }
    }

    fn named(&self, sites: &[usize]) -> Vec<SiteName> {
        sites.iter().map(|site| self.names[*site].clone()).collect()
    }

    /// Soonest, then the first by name.
    fn best(&self, at: &[usize], to: usize, file: usize) -> Option<(u64, usize)> {
        let size = FILES[file].size.0;
        at.iter().filter_map(|from| Some((time((*from, to), &self.known, size)?, *from))).min()
    }

    /// Where a copy is made from: not where that failed. Of two places at a site the first.
    fn replica(&self, to: usize) -> Option<String> {
        let held = self.held[0].iter();
        let open: Vec<usize> =
            held.clone().copied().filter(|from| !self.excluded.contains(from)).collect();
        let paths = ["b", "a", "c"].into_iter().filter_map(|path| RelPath::new(path).ok());
        let places: Vec<FilePlace> = paths.map(FilePlace::User).collect();
        let replicas = places.iter().flat_map(|place| held.clone().map(move |from| (*from, place)));
        let replicas = replicas.map(|(from, place)| (&self.names[from], place));
        let barred: BTreeSet<SiteName> = self.named(&self.excluded).into_iter().collect();
        let (to_site, size) = (&self.names[to], FILES[0].size);
        let told = choose_source(replicas, to_site, size, &self.links, &barred);
        let expected = self.best(&open, to, 0).and_then(|(time, from)| {
            let (site, place) = (self.names[from].clone(), places.get(1)?.clone());
            Some(Chosen { source: Source { site, place }, time: DurationMs(time) })
        });
        (told != expected).then(|| format!("from {open:?} to {to}: {told:?}, not {expected:?}"))
    }

    /// Where all input comes from, one after the other. One of the files is read under two names.
    fn plan(&self, to: usize) -> Option<String> {
        let at = [self.named(&self.held[0]), self.named(&self.held[1])];
        let needs = [0, 1, 0].map(|file: usize| Need { content: FILES[file], sites: &at[file] });
        let told = self.links.plan(&needs, &self.names[to]);
        let best = |file: usize| self.best(&self.held[file], to, file);
        let expected = best(0).zip(best(1)).map(|(one, other)| TransferPlan {
            sources: vec![
                (FILES[0], self.names[one.1].clone()),
                (FILES[1], self.names[other.1].clone()),
            ],
            time: DurationMs(one.0 + other.0),
        });
        (told != expected).then(|| format!("two files to {to}: {told:?}, not {expected:?}"))
    }
}

fn sources(chance: &mut StdRng) -> Vec<String> {
    let grid = Grid::drawn(chance);
    (0..5).flat_map(|to| [grid.replica(to), grid.plan(to)]).flatten().collect()
}

/// Nothing within a site; rounded up; never where nothing is known or nothing gets through.
fn time((from, to): (usize, usize), known: &Known, size: u64) -> Option<u64> {
    if from == to {
        return Some(0);
    }
    let bits = known.get(&(from, to)).filter(|bits| **bits > 0)?;
    let ms = (u128::from(size) * 8_000 + u128::from(bits - 1)) / u128::from(*bits);
    Some(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// All that is known of a grid, link by link, and of several sites the nearest.
fn nearest(chance: &mut StdRng) -> Vec<String> {
    let names = names(4);
    let said = (0..chance.random_range(0..14)).map(|_| {
        let bits = [0, 1_000, 8_000, 8_000_000, u64::MAX][chance.random_range(0..5)];
        ((chance.random_range(0..4), chance.random_range(0..4)), bits)
    });
    let said: Vec<((usize, usize), u64)> = said.collect();
    let named = |(from, to): (usize, usize)| (names[from].clone(), names[to].clone());
    let links: Links = (said.iter())
        .map(|(pair, bits)| (named(*pair).0, named(*pair).1, BitsPerSecond(*bits)))
        .collect();
    let known: Known = said.into_iter().collect();
    let size = [0, 1, 999, 1_001, 5_000_000_000, u64::MAX][chance.random_range(0..6)];
    let mut found = Vec::new();
    for pair in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        let (from, to) = named(pair);
        let bits = links.get(&from, &to).map(|bits| bits.0);
        let told = links.transfer_time(&from, &to, Bytes(size)).map(|time| time.0);
        if bits != known.get(&pair).copied() || told != time(pair, &known, size) {
            found.push(format!("{size} bytes from {from} to {to} by {bits:?} take {told:?}"));
        }
    }
    let told: Vec<_> = links.iter().map(|(from, to, bits)| (from, to, bits.0)).collect();
    let all = known.iter().map(|((from, to), bits)| (&names[*from], &names[*to], *bits));
    if told != all.collect::<Vec<_>>() {
        found.push(format!("{known:?} are {told:?}"));
    }
    for to in 0..names.len() {
        let at: Vec<usize> = (0..names.len()).rev().filter(|_| chance.random_bool(0.6)).collect();
        let told = links.nearest(at.iter().map(|from| &names[*from]), &names[to], Bytes(size));
        let times = at.iter().filter_map(|from| Some((time((*from, to), &known, size)?, *from)));
        let expected = times.min().map(|(time, from)| (DurationMs(time), &names[from]));
        if told != expected {
            found.push(format!("of {at:?} {told:?} is nearest to {to}, not {expected:?}"));
        }
    }
    found
}

/// Worked out from all that was heard, each time anew.
fn contacts(chance: &mut StdRng) -> Vec<String> {
    let parameters = ContactParameters::default();
    let mut log = ContactLog::default();
    let (mut heard, mut now): (Vec<(u64, QueryResult)>, u64) = (Vec::new(), 1_000);
    let mut known = Contact::NeverAnswered;
    for _ in 0..14 {
        now += chance.random_range(0..20_000);
        let result = match chance.random_range(0..8) {
            0 => QueryResult::Answered,
            1 => QueryResult::CredentialsExpired,
            _ => QueryResult::Failed,
        };
        heard.push((now, result));
        let failures = heard.iter().rev().take_while(|(_, r)| *r == QueryResult::Failed).count();
        let first = heard[heard.len() - failures..].first().map_or(now, |(at, _)| *at);
        let answer = heard.iter().rfind(|(_, result)| *result == QueryResult::Answered);
        let last_answer = answer.map(|(at, _)| Timestamp(*at));
        let enough = failures >= parameters.unreachable_failures as usize
            && now - first >= parameters.unreachable_after.0;
        let next = match (result, known) {
            (QueryResult::Answered, _) => Contact::Answering { last_at: Timestamp(now) },
            (QueryResult::CredentialsExpired, Contact::CredentialsExpired { .. }) => known,
            (QueryResult::CredentialsExpired, _) => {
                Contact::CredentialsExpired { since: Timestamp(now) }
            }
            (_, Contact::NeverAnswered | Contact::Answering { .. }) if enough => {
                Contact::Unreachable { since: Timestamp(first), last_answer }
            }
            _ => known,
        };
        let turned = std::mem::discriminant(&next) != std::mem::discriminant(&known);
        let told = log.observe(result, &parameters, Timestamp(now));
        let counted = log.failures() as usize == failures;
        known = next;
        if log.contact() != known || told != turned.then_some(known) || !counted {
            return vec![format!("after {heard:?} a site is {:?}", log.contact())];
        }
    }
    Vec::new()
}
