//! What was measured between sites: how fast files were copied, and how far away a site is.
//! Worked out from all that was seen, each time anew.

use anyhow::{Result, ensure};
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::latencies::{Latencies, MeasuredLatency};
use cospan_domain::transfer::rates::{Measured, RateParameters, Rates};
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, DurationUs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

/// Measurements of one case.
const SEEN: usize = 10;
/// A latency counts for so many of the times between two measurements.
const ROUNDS: u64 = 6;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [guide(), rates(chance), latencies(chance)];
    let problems = checks.into_iter().filter_map(Result::err);
    problems.map(|problem| format!("measured wrongly: {problem:#}")).collect()
}

/// One measurement of a pair.
#[derive(Debug, Clone, Copy)]
struct Seen {
    pair: (usize, usize),
    at: u64,
    amount: u64,
    parts: u64,
}

/// What all measurements of a pair come to.
#[derive(Debug)]
struct Sum {
    amount: Weighed,
    parts: Weighed,
    at: u64,
    count: u32,
}

/// A weighed sum, and how far rounding may take it: weights are known to a millionth, and sums to
/// a thousandth.
#[derive(Debug)]
struct Weighed {
    all: f64,
    off: f64,
}

impl Weighed {
    fn new(first: u64) -> Self {
        Self { all: first as f64, off: 0.0 }
    }

    fn add(&mut self, more: u64, weight: f64, count: u32) {
        self.all += more as f64 * weight;
        let off = (f64::from(count) / 1_000_000.0).min(weight);
        self.off += more as f64 * off + 0.001;
    }
}

impl Sum {
    /// Whether this is so many times the amount of one part, rounded down.
    fn is_mean(&self, told: u64, times: f64) -> bool {
        let (amount, parts) = (&self.amount, &self.parts);
        let least = times * (amount.all - amount.off) / (parts.all + parts.off);
        let most = times * (amount.all + amount.off) / (parts.all - parts.off);
        let told = told as f64;
        least - 1.0 < told + least / 1e9 && told <= most + most / 1e9
    }
}

/// From a site to another: some share one end, some are each other's way back.
fn pair(chance: &mut StdRng) -> (usize, usize) {
    [(0, 1), (0, 1), (1, 0), (0, 2), (2, 1)][chance.random_range(0..5)]
}

fn named((from, to): (usize, usize)) -> Result<(SiteName, SiteName)> {
    Ok((SiteName::new(&format!("site-{from}"))?, SiteName::new(&format!("site-{to}"))?))
}

/// Half after each half-life, and a straight line between.
fn left(age: u64, half_life: u64) -> f64 {
    if half_life == 0 || age / half_life >= 20 {
        return 0.0;
    }
    let rest = (age % half_life) as f64 / half_life as f64;
    0.5_f64.powi(i32::try_from(age / half_life).unwrap_or(0)) * (1.0 - rest / 2.0)
}

/// From the latest back to one that had expired before the next. What is earlier counts less.
fn summed(seen: &[Seen], pair: (usize, usize), half_life: u64, expiry: u64) -> Option<Sum> {
    let mut later = seen.iter().rev().filter(|one| one.pair == pair);
    let last = later.next()?;
    let (mut weight, mut at) = (1.0, last.at);
    let (amount, parts) = (Weighed::new(last.amount), Weighed::new(last.parts));
    let mut sum = Sum { amount, parts, at, count: 1 };
    for one in later {
        let age = at.saturating_sub(one.at);
        if age >= expiry {
            break;
        }
        weight *= left(age, half_life);
        sum.count += 1;
        sum.amount.add(one.amount, weight, sum.count);
        sum.parts.add(one.parts, weight, sum.count);
        at = one.at;
    }
    Some(sum)
}

/// Moments apart, just so long that it expires, or a moment back: clocks are set.
fn later(chance: &mut StdRng, now: u64, expiry: u64) -> u64 {
    let steps = [0, 1_000, chance.random_range(0..900_000), expiry, expiry.saturating_sub(1)];
    let later = now + steps[chance.random_range(0..5)];
    if chance.random_bool(0.1) { later - 5_000 } else { later }
}

/// What the guide says of settings that nobody changed.
fn guide() -> Result<()> {
    let settings = RateParameters {
        half_life: DurationMs(600_000),
        expiry: DurationMs(3_600_000),
        min_time: DurationMs(2_000),
    };
    let unchanged = RateParameters::default();
    ensure!(unchanged == settings, "{unchanged:?}, not {settings:?}");
    Ok(())
}

fn rates(chance: &mut StdRng) -> Result<()> {
    let mut length = |of: [u64; 4]| DurationMs(of[chance.random_range(0..4)]);
    let parameters = RateParameters {
        half_life: length([0, 60_000, 600_000, 600_000]),
        expiry: length([0, 900_000, 3_600_000, 3_600_000]),
        min_time: length([0, 2_000, 2_000, 2_000]),
    };
    let mut rates = Rates::new(parameters.clone());
    let (mut seen, mut now) = (Vec::new(), 1_000_000_u64);
    for _ in 0..SEEN {
        now = later(chance, now, parameters.expiry.0);
        let moved = [0, 1, chance.random_range(0..400_000_000_u64)][chance.random_range(0..3)];
        let times = [0, 1_999, 2_000, chance.random_range(2_001..60_000), 90_000_000];
        let time: u64 = times[chance.random_range(0..5)];
        let pair = pair(chance);
        let says_enough = time > 0 && time >= parameters.min_time.0;
        let counts = says_enough && moved > 0 && parameters.expiry.0 > 0;
        let said = rates.observe(named(pair)?, Bytes(moved), DurationMs(time), Timestamp(now));
        ensure!(said == counts, "{moved} bytes in {time} ms count: {said}, by {parameters:?}");
        if counts {
            seen.push(Seen { pair, at: now, amount: moved, parts: time });
        }
        for at in [now, now + 1_000] {
            known_rates(&rates, &parameters, &seen, at)?;
        }
    }
    Ok(())
}

fn known_rates(rates: &Rates, by: &RateParameters, seen: &[Seen], now: u64) -> Result<()> {
    for pair in [(0, 1), (1, 0), (0, 2), (2, 1), (1, 2)] {
        let (from, to) = named(pair)?;
        let told = rates.get(&from, &to, Timestamp(now));
        let sum = summed(seen, pair, by.half_life.0, by.expiry.0);
        let sum = sum.filter(|sum| now.saturating_sub(sum.at) < by.expiry.0);
        let right = match (&told, &sum) {
            (Some(Measured { bandwidth: BitsPerSecond(bits), at, transfers }), Some(sum)) => {
                let expires = told.as_ref().map(|told| rates.expires(told).0);
                (at.0, *transfers, expires) == (sum.at, sum.count, Some(sum.at + by.expiry.0))
                    && *bits > 0
                    && (sum.is_mean(*bits, 8_000.0) || *bits == 1 && sum.is_mean(0, 8_000.0))
            }
            (told, sum) => told.is_none() && sum.is_none(),
        };
        ensure!(right, "{told:?}, not {sum:?}, of {pair:?} at {now}: {by:?}, {seen:?}");
    }
    Ok(())
}

fn latencies(chance: &mut StdRng) -> Result<()> {
    let interval = [0, 60_000, 60_000][chance.random_range(0..3)];
    let mut latencies = Latencies::new(DurationMs(interval));
    let (mut seen, mut now) = (Vec::new(), 1_000_000_u64);
    for _ in 0..SEEN {
        now = match chance.random_bool(0.5) {
            true => now + chance.random_range(0..2 * 60_000),
            false => later(chance, now, ROUNDS * interval),
        };
        let trip = [0, 1, chance.random_range(0..50_000_u64)][chance.random_range(0..3)];
        let pair = pair(chance);
        latencies.observe(named(pair)?, DurationUs(trip), Timestamp(now));
        seen.push(Seen { pair, at: now, amount: trip, parts: 1 });
        for at in [now, now + 1_000] {
            known_latencies(&latencies, interval, &seen, at)?;
        }
    }
    Ok(())
}

fn known_latencies(told: &Latencies, interval: u64, seen: &[Seen], now: u64) -> Result<()> {
    let expiry = ROUNDS * interval;
    for pair in [(0, 1), (1, 0), (0, 2), (2, 1), (1, 2)] {
        let (from, to) = named(pair)?;
        let is = told.get(&from, &to, Timestamp(now));
        let sum = summed(seen, pair, interval, expiry);
        let sum = sum.filter(|sum| now.saturating_sub(sum.at) < expiry);
        let right = match (&is, &sum) {
            (Some(MeasuredLatency { latency, at, measurements }), Some(sum)) => {
                let expires = is.as_ref().map(|is| told.expires(is).0);
                (at.0, *measurements, expires) == (sum.at, sum.count, Some(sum.at + expiry))
                    && sum.is_mean(latency.0, 0.5)
            }
            (is, sum) => is.is_none() && sum.is_none(),
        };
        ensure!(right, "{is:?}, not {sum:?}, of {pair:?} at {now}: {interval}, {seen:?}");
    }
    Ok(())
}
