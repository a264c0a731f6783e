//! One timeline: fits, bookings, growth, and the profiles on which a tree is of least use.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use cospan_domain::reserve::{Amounts, Opening, Span, Timeline};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::quantile;
use crate::bench::report::Report;
use crate::bench::simulate::slope;

const PROCESSORS: u32 = 1_024;
const MEMORY_MB: u64 = 4_000_000;
const GPUS: u64 = 64;
const BOOKINGS: usize = 10_000;
const MINUTE: u64 = 60_000;
/// Bookings are spread over so long for each of them: seven tenths of the site are taken.
const APART: u64 = 510_000;

pub(super) fn bench(report: &mut Report, quick: bool) -> Result<()> {
    let asked = if quick { 2_000 } else { 50_000 };
    crate::cli::progress("questions to a timeline of 10,000 bookings");
    let mut chance = StdRng::seed_from_u64(1);
    let (timeline, end) = drawn(BOOKINGS, &mut chance)?;
    let mut fits = fits(&timeline, end, asked, &mut chance)?;
    report.figure("fit_us", quantile(&mut fits, 0.99), "us", "<= 10");
    report.figure("fit_p50_us", quantile(&mut fits, 0.5), "us", "");
    let mut books = books(timeline, end, asked, &mut chance)?;
    report.figure("book_us", quantile(&mut books, 0.99), "us", "<= 25");
    crate::cli::progress("timelines of 100 to 100,000 bookings");
    let sizes: &[usize] =
        if quick { &[100, 1_000, 10_000] } else { &[100, 1_000, 10_000, 100_000] };
    let mut points = Vec::new();
    for &size in sizes {
        let mut chance = StdRng::seed_from_u64(2);
        let (timeline, end) = drawn(size, &mut chance)?;
        let fits = self::fits(&timeline, end, asked / 5, &mut chance)?;
        points.push((size as f64, fits.iter().sum::<f64>() / fits.len() as f64));
    }
    report.figure("fit_growth_exponent", slope(&points), "", "<= 0.4");
    crate::cli::progress("profiles in which no gap is long enough");
    let worst = too_short()?.max(too_small()?);
    report.figure("fit_worst_over_scan", worst, "", "<= 2");
    Ok(())
}

fn resources(processors: u32) -> Resources {
    let share = u64::from(processors);
    let memory = share * (MEMORY_MB / u64::from(PROCESSORS));
    Resources {
        processors,
        others: [("memory_mb".into(), memory), ("gpus".into(), share.min(GPUS) / 16)].into(),
    }
}

fn empty() -> Result<Timeline> {
    let mut all = resources(PROCESSORS);
    all.others.insert("gpus".into(), GPUS);
    Ok(Timeline::new(Timestamp(0), &all)?)
}

fn request(chance: &mut StdRng) -> (Resources, DurationMs) {
    let processors = 1 << chance.random_range(0..=8);
    let minutes = [5, 30, 60, 240, 720][chance.random_range(0..5)];
    (resources(processors), DurationMs(chance.random_range(1..=minutes) * MINUTE))
}

/// So many bookings, each at the earliest place after some instant of its own, as requests
/// come; and when the last of those instants is.
fn drawn(bookings: usize, chance: &mut StdRng) -> Result<(Timeline, u64)> {
    let (mut timeline, end) = (empty()?, bookings as u64 * APART);
    for _ in 0..bookings {
        let (need, length) = request(chance);
        let need = timeline.amounts(&need)?;
        let from = Timestamp(chance.random_range(0..end));
        if let Some(at) = timeline.earliest(&Opening::after(from, need, length)) {
            timeline.book(Span::new(at, at + length), &need);
        }
    }
    Ok((timeline, end))
}

/// Microseconds of each of so many fits.
fn fits(timeline: &Timeline, end: u64, count: usize, chance: &mut StdRng) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        let (need, length) = request(chance);
        let need = timeline.amounts(&need)?;
        let wanted = Opening::after(Timestamp(chance.random_range(0..end)), need, length);
        let begin = Instant::now();
        black_box(timeline.earliest(black_box(&wanted)));
        taken.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(taken)
}

/// Microseconds of each of so many bookings that are released again.
fn books(mut timeline: Timeline, end: u64, count: usize, chance: &mut StdRng) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        let (need, length) = request(chance);
        let need = timeline.amounts(&need)?;
        let from = Timestamp(chance.random_range(0..end));
        let span = Span::new(from, from + length);
        let begin = Instant::now();
        timeline.book(span, &need);
        timeline.release(span, &need);
        taken.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(taken)
}

/// Gaps that are long enough for nothing, each between two bookings of the whole site.
fn too_short() -> Result<f64> {
    let mut timeline = empty()?;
    let all = timeline.amounts(&resources(PROCESSORS))?;
    for number in 0..BOOKINGS as u64 {
        let from = Timestamp(2 * number * MINUTE);
        timeline.book(Span::new(from, from + DurationMs(MINUTE)), &all);
    }
    over_scan(&timeline, &timeline.amounts(&resources(1))?, DurationMs(MINUTE + 1))
}

/// Long gaps in which one processor is missing, each beside a short one in which none is.
fn too_small() -> Result<f64> {
    let mut timeline = empty()?;
    for number in 0..BOOKINGS as u64 {
        let from = Timestamp(number * MINUTE);
        let missing = if number % 8 == 7 { 0 } else { PROCESSORS / 2 + 1 };
        let need = timeline.amounts(&resources(missing))?;
        timeline.book(Span::new(from, from + DurationMs(MINUTE)), &need);
    }
    over_scan(&timeline, &timeline.amounts(&resources(PROCESSORS / 2))?, DurationMs(5 * MINUTE))
}

/// How much longer a fit takes than a plain scan over the same steps, the least of several runs.
fn over_scan(timeline: &Timeline, need: &Amounts, length: DurationMs) -> Result<f64> {
    let wanted = Opening::after(Timestamp(0), *need, length);
    let mut steps = Vec::new();
    let whole = Span::new(Timestamp(0), cospan_domain::reserve::timeline::FOREVER);
    let _: ControlFlow<()> = timeline.steps(whole, |at, free| {
        steps.push((at, free));
        ControlFlow::Continue(())
    });
    anyhow::ensure!(scan(&steps, &wanted) == timeline.earliest(&wanted), "they do not agree");
    let time = |act: &dyn Fn()| {
        let once = || {
            let begin = Instant::now();
            (0..20).for_each(|_| act());
            begin.elapsed().as_secs_f64()
        };
        (0..20).map(|_| once()).fold(f64::INFINITY, f64::min)
    };
    let fit = time(&|| {
        black_box(timeline.earliest(black_box(&wanted)));
    });
    let scan = time(&|| {
        black_box(scan(black_box(&steps), &wanted));
    });
    Ok(fit / scan)
}

fn scan(steps: &[(Timestamp, Amounts)], wanted: &Opening) -> Option<Timestamp> {
    let mut since = None;
    for (at, free) in steps {
        if let Some(since) = since.filter(|since: &Timestamp| *since + wanted.length <= *at) {
            return Some(since);
        }
        since = free.cover(&wanted.need).then(|| since.unwrap_or(*at));
    }
    since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_beside_which_fits_are_timed_finds_the_same() {
        let mut chance = StdRng::seed_from_u64(7);
        let (timeline, end) = drawn(200, &mut chance).unwrap();
        let mut steps = Vec::new();
        let whole = Span::new(Timestamp(0), cospan_domain::reserve::timeline::FOREVER);
        let _: ControlFlow<()> = timeline.steps(whole, |at, free| {
            steps.push((at, free));
            ControlFlow::Continue(())
        });
        assert!(end > 0 && steps.len() > 100);
        for _ in 0..100 {
            let (need, length) = request(&mut chance);
            let need = timeline.amounts(&need).unwrap();
            let wanted = Opening::after(Timestamp(0), need, length);
            assert_eq!(scan(&steps, &wanted), timeline.earliest(&wanted));
        }
    }
}
