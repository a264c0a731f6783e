//! A single timeline: fits, occupied spans, growth, and the profiles on which a tree helps least.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Result;
use cospan_domain::reservation::{OpeningRequest, ResourceAmounts, TimeSpan, Timeline};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::quantile;
use crate::ClusterLog;
use crate::report::BenchReport;
use crate::simulate::slope;
use cospan_simulator::simulate::workload::{
    EstimateSource, WorkloadJob, WorkloadOptions, WorkloadSource,
};

const PROCESSORS: u32 = 1_024;
const MEMORY_MB: u64 = 4_000_000;
const GPUS: u64 = 64;
const BOOKINGS: usize = 10_000;
const MINUTE: u64 = 60_000;
/// Time per occupied span over which the spans are spread: seven tenths of the site are taken.
const APART: u64 = 510_000;

pub(super) fn bench(report: &mut BenchReport, quick: bool, log: Option<&ClusterLog>) -> Result<()> {
    let asked = if quick { 2_000 } else { 50_000 };
    crate::print_progress("questions to a timeline of 10,000 bookings");
    let mut chance = StdRng::seed_from_u64(1);
    let (timeline, end) = draw_timeline(BOOKINGS, &mut chance)?;
    let mut fits = time_fits(&timeline, end, asked, &mut chance, draw_request)?;
    report.add_figure("fit_us", quantile(&mut fits, 0.99), "us", "<= 10");
    report.add_figure("fit_p50_us", quantile(&mut fits, 0.5), "us", "");
    let mut books = time_occupying(timeline, end, asked, &mut chance)?;
    report.add_figure("book_us", quantile(&mut books, 0.99), "us", "<= 25");
    crate::print_progress("timelines of 100 to 100,000 bookings");
    let most = if quick { 10_000 } else { 100_000 };
    let growth = match log {
        Some(log) => fit_growth_of_log(log, most, asked / 5)?,
        None => fit_growth(most, asked / 5)?,
    };
    report.add_figure("fit_growth_exponent", growth, "", "<= 0.4");
    crate::print_progress("profiles in which no gap is long enough");
    let worst = too_short_opening_ratio()?.max(too_small_opening_ratio()?);
    report.add_figure("fit_worst_over_scan", worst, "", "<= 2");
    Ok(())
}

fn some_resources(processors: u32) -> Resources {
    let share = u64::from(processors);
    let memory = share * (MEMORY_MB / u64::from(PROCESSORS));
    Resources {
        processors,
        others: [
            ("memory_mb".into(), memory),
            ("gpus".into(), share.min(GPUS) / 16),
        ]
        .into(),
    }
}

fn empty_timeline(processors: u32) -> Result<Timeline> {
    let mut all = some_resources(processors);
    all.others.insert("gpus".into(), GPUS);
    Ok(Timeline::new(Timestamp(0), &all)?)
}

fn draw_request(chance: &mut StdRng) -> (Resources, DurationMs) {
    let processors = 1 << chance.random_range(0..=8);
    let minutes = [5, 30, 60, 240, 720][chance.random_range(0..5)];
    (
        some_resources(processors),
        DurationMs(chance.random_range(1..=minutes) * MINUTE),
    )
}

/// Occupies this many spans, each at the earliest place after a drawn instant, as requests come;
/// returns the timeline and the last of those instants.
fn draw_timeline(bookings: usize, chance: &mut StdRng) -> Result<(Timeline, u64)> {
    let mut timeline = empty_timeline(PROCESSORS)?;
    let end = bookings as u64 * APART;
    for _ in 0..bookings {
        let (need, length) = draw_request(chance);
        let from = Timestamp(chance.random_range(0..end));
        occupy_earliest(&mut timeline, from, &need, length)?;
    }
    Ok((timeline, end))
}

fn occupy_earliest(
    timeline: &mut Timeline,
    from: Timestamp,
    need: &Resources,
    length: DurationMs,
) -> Result<()> {
    let need = timeline.to_amounts(need)?;
    if let Some(at) = timeline.earliest_start(&OpeningRequest::after(from, need, length)) {
        timeline.book(TimeSpan::new(at, at + length), &need);
    }
    Ok(())
}

/// Measures how the time of a fit grows with the drawn spans.
fn fit_growth(most: usize, asked: usize) -> Result<f64> {
    let mut points = Vec::new();
    for size in timeline_sizes(most) {
        let mut chance = StdRng::seed_from_u64(2);
        let (timeline, end) = draw_timeline(size, &mut chance)?;
        points.push((
            size as f64,
            fit_us(&timeline, end, asked, &mut chance, draw_request)?,
        ));
    }
    Ok(slope(&points))
}

/// Does the same with the first jobs of a log, in their order, each for its run time.
fn fit_growth_of_log(log: &ClusterLog, most: usize, asked: usize) -> Result<f64> {
    let mut options = WorkloadOptions::new(WorkloadSource::Log(log.file.clone()), 1);
    options.estimates = EstimateSource::Exact;
    let jobs = options.plan_workload(&[log.processors], Timestamp(0))?.jobs;
    let mut points = Vec::new();
    for size in timeline_sizes(most.min(jobs.len())) {
        let mut timeline = empty_timeline(log.processors)?;
        let jobs = &jobs[..size];
        for job in jobs {
            let need = some_resources(job.components.iter().sum());
            occupy_earliest(&mut timeline, job.at, &need, job.run_time)?;
        }
        let end = jobs.last().map_or(1, |job| job.at.0 + 1);
        let mut chance = StdRng::seed_from_u64(2);
        points.push((
            size as f64,
            fit_us(&timeline, end, asked, &mut chance, |chance: &mut StdRng| {
                let job: &WorkloadJob = &jobs[chance.random_range(0..jobs.len())];
                (some_resources(job.components.iter().sum()), job.run_time)
            })?,
        ));
    }
    Ok(slope(&points))
}

fn timeline_sizes(most: usize) -> impl Iterator<Item = usize> {
    [100, 1_000, 10_000, 100_000]
        .into_iter()
        .filter(move |size| *size <= most)
}

/// Microseconds of a fit: the least of three means, as other programs use the machine too.
fn fit_us(
    timeline: &Timeline,
    end: u64,
    count: usize,
    chance: &mut StdRng,
    request: impl Fn(&mut StdRng) -> (Resources, DurationMs),
) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let taken = time_fits(timeline, end, count, chance, &request)?;
        least = least.min(taken.iter().sum::<f64>() / taken.len() as f64);
    }
    Ok(least)
}

/// Microseconds of each of the fits.
fn time_fits(
    timeline: &Timeline,
    end: u64,
    count: usize,
    chance: &mut StdRng,
    request: impl Fn(&mut StdRng) -> (Resources, DurationMs),
) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        let (need, length) = request(chance);
        let need = timeline.to_amounts(&need)?;
        let wanted = OpeningRequest::after(Timestamp(chance.random_range(0..end)), need, length);
        let begin = Instant::now();
        black_box(timeline.earliest_start(black_box(&wanted)));
        taken.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(taken)
}

/// Microseconds of each of the spans that are occupied and freed again.
fn time_occupying(
    mut timeline: Timeline,
    end: u64,
    count: usize,
    chance: &mut StdRng,
) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        let (need, length) = draw_request(chance);
        let need = timeline.to_amounts(&need)?;
        let from = Timestamp(chance.random_range(0..end));
        let span = TimeSpan::new(from, from + length);
        let begin = Instant::now();
        timeline.book(span, &need);
        timeline.release(span, &need);
        taken.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(taken)
}

/// Gaps that are too short for anything, each between two spans of the whole site.
fn too_short_opening_ratio() -> Result<f64> {
    let mut timeline = empty_timeline(PROCESSORS)?;
    let all = timeline.to_amounts(&some_resources(PROCESSORS))?;
    for number in 0..BOOKINGS as u64 {
        let from = Timestamp(2 * number * MINUTE);
        timeline.book(TimeSpan::new(from, from + DurationMs(MINUTE)), &all);
    }
    fit_to_scan_ratio(
        &timeline,
        &timeline.to_amounts(&some_resources(1))?,
        DurationMs(MINUTE + 1),
    )
}

/// Long gaps that lack one processor, each beside a short one that lacks none.
fn too_small_opening_ratio() -> Result<f64> {
    let mut timeline = empty_timeline(PROCESSORS)?;
    for number in 0..BOOKINGS as u64 {
        let from = Timestamp(number * MINUTE);
        let missing = if number % 8 == 7 {
            0
        } else {
            PROCESSORS / 2 + 1
        };
        let need = timeline.to_amounts(&some_resources(missing))?;
        timeline.book(TimeSpan::new(from, from + DurationMs(MINUTE)), &need);
    }
    fit_to_scan_ratio(
        &timeline,
        &timeline.to_amounts(&some_resources(PROCESSORS / 2))?,
        DurationMs(5 * MINUTE),
    )
}

/// The time of a fit relative to a plain scan over the same steps: the least of several runs.
fn fit_to_scan_ratio(
    timeline: &Timeline,
    need: &ResourceAmounts,
    length: DurationMs,
) -> Result<f64> {
    let wanted = OpeningRequest::after(Timestamp(0), *need, length);
    let mut steps = Vec::new();
    let whole = TimeSpan::new(Timestamp(0), cospan_domain::reservation::timeline::FOREVER);
    let _: ControlFlow<()> = timeline.visit_steps(whole, |at, free| {
        steps.push((at, free));
        ControlFlow::Continue(())
    });
    anyhow::ensure!(
        scan_steps(&steps, &wanted) == timeline.earliest_start(&wanted),
        "they do not agree"
    );
    let fit = best_time(&|| {
        black_box(timeline.earliest_start(black_box(&wanted)));
    });
    let scan = best_time(&|| {
        black_box(scan_steps(black_box(&steps), &wanted));
    });
    Ok(fit / scan)
}

fn best_time(act: &dyn Fn()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let begin = Instant::now();
        (0..20).for_each(|_| act());
        best = best.min(begin.elapsed().as_secs_f64());
    }
    best
}

fn scan_steps(
    steps: &[(Timestamp, ResourceAmounts)],
    wanted: &OpeningRequest,
) -> Option<Timestamp> {
    let mut since = None;
    for (at, free) in steps {
        if let Some(since) = since.filter(|since: &Timestamp| *since + wanted.length <= *at) {
            return Some(since);
        }
        since = free.covers_need(&wanted.need).then(|| since.unwrap_or(*at));
    }
    since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_beside_which_fits_are_timed_finds_the_same() {
        let mut chance = StdRng::seed_from_u64(7);
        let (timeline, end) = draw_timeline(200, &mut chance).unwrap();
        let mut steps = Vec::new();
        let whole = TimeSpan::new(Timestamp(0), cospan_domain::reservation::timeline::FOREVER);
        let _: ControlFlow<()> = timeline.visit_steps(whole, |at, free| {
            steps.push((at, free));
            ControlFlow::Continue(())
        });
        assert!(end > 0 && steps.len() > 100);
        for _ in 0..100 {
            let (need, length) = draw_request(&mut chance);
            let need = timeline.to_amounts(&need).unwrap();
            let wanted = OpeningRequest::after(Timestamp(0), need, length);
            assert_eq!(
                scan_steps(&steps, &wanted),
                timeline.earliest_start(&wanted)
            );
        }
    }
}
