//! Quantities: what people read of them is what they are, shares of them fit what they are
//! shares of, and what a quota leaves is the most that keeps it.

use std::sync::Arc;

use cospan_domain::content::{Chunk, Content, Part};
use cospan_domain::ids::Digest;
use cospan_domain::labels::{Constraint, Labels, Rule};
use cospan_domain::placement::estimate::by_pace;
use cospan_domain::placement::{Quota, QuotaBasis};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, DurationUs, PerMillion};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Kinds of resources beside processors, in order of name.
pub(super) const OTHERS: [&str; 2] = ["gpus", "memory_mb"];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [
        lengths(chance),
        sizes(chance),
        transfers(chance),
        vectors(chance),
        portions(chance),
        quotas(chance),
        chunks(chance),
        labels(chance),
        paces(chance),
    ];
    checks.into_iter().flatten().collect()
}

/// Behind so many others, if the queue moves on as it did: half and twice as long.
fn paces(chance: &mut StdRng) -> Vec<String> {
    let (ahead, placed) = (chance.random_range(0..1_000), chance.random_range(0..5));
    let window = DurationMs(chance.random_range(0..10_000_000));
    let wait = (window.0 * ahead as u64).checked_div(placed as u64);
    let ought = wait.map(|wait| (DurationMs(wait / 2), DurationMs(2 * wait)));
    let is = by_pace(ahead, placed, window);
    let text = || format!("{ahead} wait where {placed} were placed in {window:?}: {is:?}");
    (is != ought).then(text).into_iter().collect()
}

/// A number of any magnitude.
fn number(chance: &mut StdRng) -> u64 {
    let most = 10_u64.pow(chance.random_range(0..=13));
    chance.random_range(0..=most)
}

/// What `1h02m03s`, `2m03s`, `3s` and `3.004s` say, in milliseconds, and how exact it is.
fn read_length(text: &str) -> Option<(u64, u64)> {
    let text = text.strip_suffix('s')?;
    let (hours, rest) = text.split_once('h').map_or((None, text), |(h, rest)| (Some(h), rest));
    let (minutes, secs) = rest.split_once('m').map_or((None, rest), |(m, rest)| (Some(m), rest));
    let part = |text: Option<&str>| text.map_or(Some(0), |text| text.parse::<u64>().ok());
    let whole = (part(hours)? * 60 + part(minutes)?) * 60;
    if minutes.is_some() {
        let padded = secs.len() == 2 && (hours.is_none() || minutes.map(str::len) == Some(2));
        let fits = part(minutes)? < 60 && part(Some(secs))? < 60 && padded;
        return fits.then_some(((whole + secs.parse::<u64>().ok()?) * 1_000, 999));
    }
    let (secs, ms) = secs.split_once('.').unwrap_or((secs, "000"));
    let fits = ms.len() == 3 && hours.is_none();
    fits.then_some((secs.parse::<u64>().ok()? * 1_000 + ms.parse::<u64>().ok()?, 0))
}

fn lengths(chance: &mut StdRng) -> Vec<String> {
    let ms = number(chance);
    let text = DurationMs(ms).to_string();
    let is_read = read_length(&text).is_some_and(|(read, less)| (read..=read + less).contains(&ms));
    let us = number(chance);
    let short = DurationUs(us).to_string();
    let of = |unit: &str, us: f64| short.strip_suffix(unit)?.parse::<f64>().ok().map(|n| n * us);
    let read = if us < 1_000 { of("us", 1.0) } else { of("ms", 1_000.0) };
    let is_near = read.is_some_and(|read| (read - us as f64).abs() <= 50.1);
    let share = PerMillion(chance.random_range(0..=1_000_000));
    let scaled = u128::from(DurationMs(ms).scaled(share).0) * 1_000_000;
    let exact = u128::from(ms) * u128::from(share.0);
    let is_up = scaled >= exact && scaled - exact < 1_000_000;
    let secs = DurationMs(ms).as_secs_ceil();
    let holds = [
        (is_read, format!("{ms} ms read as {text}")),
        (is_near, format!("{us} us read as {short}")),
        (is_up, format!("{share:?} of {ms} ms is {scaled} millionths")),
        (secs * 1_000 >= ms && secs * 1_000 < ms + 1_000, format!("{ms} ms are {secs} s")),
    ];
    told(holds)
}

fn told<const N: usize>(holds: [(bool, String); N]) -> Vec<String> {
    holds.into_iter().filter(|(holds, _)| !holds).map(|(_, text)| text).collect()
}

fn sizes(chance: &mut StdRng) -> Vec<String> {
    let bytes = number(chance);
    let text = Bytes(bytes).to_string();
    let units = [("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let unit = units
        .into_iter()
        .chain([("TB", 1_000_000_000_000)])
        .rfind(|(_, size)| bytes >= *size || *size == 1);
    let (name, size) = unit.unwrap_or(("B", 1));
    let read = text.split_once(' ').filter(|(_, unit)| *unit == name);
    let read = read.and_then(|(count, _)| count.parse::<f64>().ok());
    let near = size as f64 / 20.0 * 1.001;
    let holds = read.is_some_and(|read| (read * size as f64 - bytes as f64).abs() <= near);
    told([(holds, format!("{bytes} bytes read as {text}"))])
}

fn transfers(chance: &mut StdRng) -> Vec<String> {
    let (size, rate) = (Bytes(number(chance)), BitsPerSecond(number(chance) / 1_000));
    let time = size.transfer_time(rate);
    let moved = |ms: u64| u128::from(ms) * u128::from(rate.0);
    let needed = u128::from(size.0) * 8_000;
    let holds = match time {
        None => rate.0 == 0,
        Some(DurationMs(0)) => needed == 0 && rate.0 > 0,
        Some(DurationMs(ms)) => moved(ms) >= needed && moved(ms - 1) < needed,
    };
    told([(holds, format!("{size:?} over {rate:?} take {time:?}"))])
}

/// Processors, and what else.
pub(super) fn vector(chance: &mut StdRng, most: u64) -> Resources {
    let mut others = std::collections::BTreeMap::new();
    for name in OTHERS {
        if chance.random_bool(0.6) {
            others.insert(Arc::from(name), chance.random_range(1..=most));
        }
    }
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    Resources { processors: chance.random_range(1..=most), others }
}

/// All counts in order; what is not named is none.
pub(super) fn counts(of: &Resources) -> [u64; 3] {
    let [first, second] = OTHERS.map(|name| of.others.get(name).copied().unwrap_or(0));
    [of.processors.into(), first, second]
}

fn vectors(chance: &mut StdRng) -> Vec<String> {
    let (have, need) = (vector(chance, 8), vector(chance, 8));
    let (there, wanted) = (counts(&have), counts(&need));
    let short = (0..3).find(|at| wanted[*at] > there[*at]);
    let names = ["processors", OTHERS[0], OTHERS[1]];
    let said = have.first_shortage(&need);
    let right = said.as_ref().map(|s| (&*s.resource, s.needed, s.available))
        == short.map(|at| (names[at], wanted[at], there[at]));
    let mut sum = have.clone();
    sum.add(&need);
    let added = (0..3).all(|at| counts(&sum)[at] == there[at] + wanted[at]);
    let mut less = have.clone();
    less.subtract(&need);
    let taken = (0..3).all(|at| counts(&less)[at] == there[at].saturating_sub(wanted[at]));
    told([
        (right, format!("{have:?} lacks {said:?} for {need:?}")),
        (have.covers(&need) == short.is_none(), format!("{have:?} covers {need:?} or not")),
        (added, format!("{have:?} and {need:?} are {sum:?}")),
        (taken, format!("{have:?} without {need:?} is {less:?}")),
    ])
}

/// A share of something has as much of everything as belongs to its processors, rounded up,
/// and so many processors find their share as `most_of` says.
fn portions(chance: &mut StdRng) -> Vec<String> {
    let (asked, left) = (vector(chance, 12), vector(chance, 12));
    let whole = u64::from(asked.processors);
    let is_share = |part: &Resources, own: u64| {
        let (part, all) = (counts(part), counts(&asked));
        let exact = |at: usize| (part[at] * whole).checked_sub(all[at] * own);
        part[0] == own && (1..3).all(|at| exact(at).is_some_and(|more| more < whole))
    };
    let sizes: Vec<u32> = (0..=asked.processors).collect();
    let wrong = sizes.iter().find(|own| !is_share(&asked.portion(**own), u64::from(**own)));
    let fits = |own: &u32| {
        let part = counts(&asked.portion(*own));
        (1..3).all(|at| part[at] <= counts(&left)[at])
    };
    let of = |name: &str| left.others.get(name).copied().unwrap_or(0);
    let most = asked.most_of(left.processors.min(asked.processors), of);
    let expected = sizes.iter().copied().rfind(|own| *own <= left.processors && fits(own));
    told([
        (wrong.is_none(), format!("{wrong:?} processors of {asked:?}")),
        (Some(most) == expected, format!("{most} of {asked:?} find their share in {left:?}")),
    ])
}

fn quotas(chance: &mut StdRng) -> Vec<String> {
    let total = chance.random_range(1..=40_u64);
    let idle = chance.random_range(0..=total);
    let ours = chance.random_range(0..=total - idle);
    let likely = [0, 290_000, 500_000, 750_000, 999_999, 1_000_000];
    let share = PerMillion(*likely.choose(chance).unwrap_or(&0));
    let held = |count: u64| count * 1_000_000 <= total * u64::from(share.0);
    let used = total - idle;
    let most = |basis: QuotaBasis| match basis {
        QuotaBasis::Level => (0..=idle).rfind(|more| *more == 0 || held(used + more)),
        QuotaBasis::Share => (0..=idle).rfind(|more| *more == 0 || held(ours + more)),
    };
    let mut found = Vec::new();
    for basis in [QuotaBasis::Level, QuotaBasis::Share] {
        let quota = Quota { share, basis };
        let usable = quota.usable(total, idle, ours);
        if Some(usable) != most(basis) {
            found.push(format!("{quota:?} leaves {usable} of {total}, {idle} idle, {ours} ours"));
        }
        let all = (0..=total).rfind(|count| held(*count));
        if Some(quota.of(total)) != all {
            found.push(format!("{quota:?} of {total} is {}", quota.of(total)));
        }
    }
    found
}

fn chunks(chance: &mut StdRng) -> Vec<String> {
    let of = Content { digest: Digest([7; 32]), size: Bytes(number(chance)) };
    let parts: Vec<u64> =
        (0..chance.random_range(1..5)).map(|_| chance.random_range(1..9)).collect();
    let (mut before, mut end, mut found) = (0, 0, Vec::new());
    let total: u64 = parts.iter().sum();
    for own in &parts {
        let chunk = Chunk::of_part(of, Part { before, own: *own, total });
        let exact = u128::from(of.size.0) * u128::from(*own) / u128::from(total);
        let fair = u128::from(chunk.length.0).abs_diff(exact) <= 1;
        if chunk.offset.0 != end || !fair || chunk.is_whole() != (chunk.length == of.size) {
            found.push(format!("{own} of {parts:?} read {chunk:?}"));
        }
        (before, end) = (before + own, end + chunk.length.0);
    }
    found.extend((end != of.size.0).then(|| format!("{parts:?} read {end} of {:?}", of.size)));
    found
}

fn labels(chance: &mut StdRng) -> Vec<String> {
    let mut some = || -> Vec<&str> {
        let all = ["a", "b", "c"];
        all.into_iter().filter(|_| chance.random_bool(0.4)).collect()
    };
    let (has, accepted) = (some(), some());
    let site: Labels = if has.is_empty() {
        Labels::new()
    } else {
        [("key".into(), has.iter().map(|value| Arc::from(*value)).collect())].into()
    };
    let rules = [
        (Rule::Is("a".into()), has.contains(&"a")),
        (Rule::IsNot("a".into()), !has.contains(&"a")),
        (
            Rule::OneOf(accepted.iter().map(|value| Arc::from(*value)).collect()),
            has.iter().any(|value| accepted.contains(value)),
        ),
    ];
    let wrong = rules.into_iter().filter_map(|(rule, expected)| {
        let constraint = Constraint { key: "key".into(), rule };
        (constraint.holds(&site) != expected).then(|| format!("{constraint:?} for {has:?}"))
    });
    wrong.collect()
}
