//! The ways between sites and to them: what was measured of them, where a file comes from
//! soonest, and from when on a site counts as out of reach.

use std::collections::BTreeSet;

use cospan_domain::ids::{Digest, RelPath, SiteName};
use cospan_domain::job::spec::Content;
use cospan_domain::site::contact::{Contact, ContactLog, ContactParameters, QueryResult};
use cospan_domain::site::isolation::Isolation;
use cospan_domain::transfer::latencies::Latencies;
use cospan_domain::transfer::links::{Links, Need, choose_source};
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::transfer::rates::{RateParameters, Rates};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, DurationUs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks =
        [rates(chance), latencies(chance), sources(chance), contacts(chance), isolations(chance)];
    checks.into_iter().flatten().collect()
}

fn names() -> Vec<SiteName> {
    (0..5).filter_map(|number| SiteName::new(&format!("site-{number}")).ok()).collect()
}

/// Half after each half-life, and a straight line between.
fn left(age: u64, half_life: u64) -> f64 {
    if half_life == 0 || age / half_life >= 20 {
        return 0.0;
    }
    let rest = (age % half_life) as f64 / half_life as f64;
    0.5_f64.powi(i32::try_from(age / half_life).unwrap_or(0)) * (1.0 - rest / 2.0)
}

fn is_near(told: u64, exact: f64) -> bool {
    (told as f64 - exact).abs() <= exact / 1_000.0 + 2.0
}

fn rates(chance: &mut StdRng) -> Vec<String> {
    let names = names();
    let parameters = RateParameters {
        half_life: DurationMs([0, 60_000, 600_000][chance.random_range(0..3)]),
        expiry: DurationMs([0, 900_000, 3_600_000, 3_600_000][chance.random_range(0..4)]),
        min_time: DurationMs(2_000),
    };
    let (half_life, expiry) = (parameters.half_life.0, parameters.expiry.0);
    let mut rates = Rates::new(parameters);
    let (mut bytes, mut ms, mut count, mut last, mut now) = (0.0, 0.0, 0, None, 1_000_000_u64);
    for _ in 0..8 {
        now += [chance.random_range(0..900_000), expiry, 1_000][chance.random_range(0..3)];
        let moved = chance.random_range(0..4) * 100_000_000_u64;
        let time = chance.random_range(1_500..60_000_u64);
        let pair = (names[0].clone(), names[1].clone());
        let counts = moved > 0 && time >= 2_000 && expiry > 0;
        let said = rates.observe(pair, Bytes(moved), DurationMs(time), Timestamp(now));
        if said != counts {
            return vec![format!("{moved} bytes in {time} ms count: {said}")];
        }
        if counts {
            let kept =
                last.filter(|at| now - at < expiry).map_or(0.0, |at| left(now - at, half_life));
            let known = last.is_some_and(|at| now - at < expiry);
            count = if known { count + 1 } else { 1 };
            (bytes, ms) = (bytes * kept + moved as f64, ms * kept + time as f64);
            last = Some(now);
        }
        let told = rates.get(&names[0], &names[1], Timestamp(now));
        let expected = last.filter(|at| now - at < expiry);
        let right = match (told, expected) {
            (None, None) => true,
            (Some(told), Some(at)) => {
                told.at.0 == at
                    && told.transfers == count
                    && is_near(told.bandwidth.0, bytes * 8_000.0 / ms)
                    && rates.expires(&told).0 == at + expiry
            }
            _ => false,
        };
        if !right || rates.get(&names[1], &names[0], Timestamp(now)).is_some() {
            return vec![format!("{bytes} bytes in {ms} ms, {count} times: {told:?}")];
        }
    }
    Vec::new()
}

fn latencies(chance: &mut StdRng) -> Vec<String> {
    let names = names();
    let interval = [0, 60_000, 60_000][chance.random_range(0..3)];
    let mut latencies = Latencies::new(DurationMs(interval));
    let (mut us, mut weight, mut count, mut last, mut now) = (0.0, 0.0, 0, None, 1_000_000_u64);
    for _ in 0..6 {
        now += [chance.random_range(0..120_000), 360_000][usize::from(chance.random_bool(0.2))];
        let trip = chance.random_range(0..50_000_u64);
        latencies.observe((names[0].clone(), names[1].clone()), DurationUs(trip), Timestamp(now));
        let known = last.is_some_and(|at| now - at < 6 * interval);
        let kept = last.filter(|_| known).map_or(0.0, |at| left(now - at, interval));
        count = if known { count + 1 } else { 1 };
        (us, weight, last) = (us * kept + trip as f64, weight * kept + 1.0, Some(now));
        let told = latencies.get(&names[0], &names[1], Timestamp(now));
        let right = told.is_some() == (interval > 0)
            && told.is_none_or(|told| {
                told.measurements == count
                    && is_near(told.latency.0, us / weight / 2.0)
                    && latencies.expires(&told).0 == now + 6 * interval
            });
        let later = latencies.get(&names[0], &names[1], Timestamp(now + 6 * interval));
        if !right || later.is_some() {
            return vec![format!("{us} us of {weight}, {count} times: {told:?}, then {later:?}")];
        }
    }
    Vec::new()
}

/// Soonest, then the first by name.
fn sources(chance: &mut StdRng) -> Vec<String> {
    let names = names();
    let mut links = Links::default();
    let mut rate = vec![vec![None; names.len()]; names.len()];
    for from in 0..names.len() {
        for to in 0..names.len() {
            if from != to && chance.random_bool(0.7) {
                let bits = [0, 1_000_000, 10_000_000, 10_000_000][chance.random_range(0..4)];
                links.set(names[from].clone(), names[to].clone(), BitsPerSecond(bits));
                rate[from][to] = Some(bits).filter(|bits| *bits > 0);
            }
        }
    }
    let time = |from: usize, to: usize, size: u64| match from == to {
        true => Some(0),
        false => rate[from][to].map(|bits: u64| (size * 8_000).div_ceil(bits)),
    };
    let mut some = |share: f64| -> Vec<usize> {
        (0..names.len()).filter(|_| chance.random_bool(share)).collect()
    };
    let (held, excluded) = ([some(0.5), some(0.5)], some(0.2));
    let sizes = [1_000_000_u64, 2_500_000];
    let mut found = Vec::new();
    for to in 0..names.len() {
        let best = |at: &[usize], size: u64| {
            at.iter().filter_map(|from| Some((time(*from, to, size)?, *from))).min()
        };
        let open: Vec<usize> =
            held[0].iter().copied().filter(|from| !excluded.contains(from)).collect();
        let Ok(path) = RelPath::new("file") else { return found };
        let place = FilePlace::User(path);
        let replicas = held[0].iter().map(|from| (&names[*from], &place));
        let barred: BTreeSet<SiteName> = excluded.iter().map(|at| names[*at].clone()).collect();
        let told = choose_source(replicas, &names[to], Bytes(sizes[0]), &links, &barred);
        let told = told.map(|chosen| (chosen.time.0, chosen.source.site));
        let expected = best(&open, sizes[0]).map(|(time, from)| (time, names[from].clone()));
        if told != expected {
            found.push(format!("from {open:?} to {to}: {told:?}, not {expected:?}"));
        }
        let at: Vec<Vec<SiteName>> =
            held.iter().map(|at| at.iter().map(|at| names[*at].clone()).collect()).collect();
        let content = |number: u8| Content {
            digest: Digest([number; 32]),
            size: Bytes(sizes[usize::from(number)]),
        };
        // One of them is read under two names.
        let needs = [0_u8, 1, 0]
            .map(|number| Need { content: content(number), sites: &at[usize::from(number)] });
        let told = links.plan(&needs, &names[to]).map(|plan| plan.time.0);
        let expected = best(&held[0], sizes[0]).zip(best(&held[1], sizes[1]));
        let expected = expected.map(|(one, other)| one.0 + other.0);
        if told != expected {
            found.push(format!("two files to {to} take {told:?}, not {expected:?}"));
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

/// Half of the sites that were there, and at least two, within a window.
fn isolations(chance: &mut StdRng) -> Vec<String> {
    let window = 60_000;
    let mut isolation = Isolation::new(DurationMs(window));
    let names = names();
    let names = &names[..chance.random_range(1..=names.len())];
    names.iter().for_each(|name| isolation.watch(name.clone()));
    let mut lost: Vec<Option<u64>> = vec![None; names.len()];
    let (mut since, mut now) = (None, 1_000_u64);
    for _ in 0..16 {
        now += chance.random_range(0..40_000);
        let site = chance.random_range(0..names.len());
        let told = if chance.random_bool(0.75) {
            let news = lost[site].is_none();
            lost[site] = lost[site].or(Some(now));
            let recent = lost.iter().flatten().filter(|at| now - **at <= window).count();
            let there = recent + lost.iter().filter(|at| at.is_none()).count();
            let begins = news && since.is_none() && recent >= 2 && 2 * recent >= there;
            since = if begins { Some(now) } else { since };
            isolation.lost(&names[site], Timestamp(now)) == begins
        } else {
            lost[site] = None;
            isolation.answered(&names[site]) == since.take().is_some()
        };
        let right = isolation.since() == since.map(Timestamp);
        if !told || !right || isolation.is_isolated() != since.is_some() {
            return vec![format!("lost {lost:?} by {now}: {isolation:?}")];
        }
    }
    Vec::new()
}
