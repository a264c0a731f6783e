//! The search for one co-allocation over sites that are tables in memory.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::reservation::coallocation::ReservationSearchStep;
use cospan_domain::reservation::{
    Coallocation, CoallocationPart, OpeningRequest, ReservationCall, ReservationLedger,
    ReservationSearch, ReservationSearchState, ReservationSerial, StartWindow, TimeSpan, Timeline,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::seq::index;
use rand::{Rng, SeedableRng};

use super::quantile;
use crate::report::BenchReport;

const SITES: usize = 100;
const BOOKINGS: usize = 10_000;
const COMPONENTS: usize = 8;
/// Sites that can run a component.
const ABLE: usize = 10;
const PROCESSORS: u32 = 128;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// Time per reservation over which a site's reservations are spread: three quarters of the site are
/// taken.
const APART: u64 = 31 * MINUTE;

type SiteLedgers = BTreeMap<SiteName, ReservationLedger<ReservationSerial>>;

/// The result of a search.
struct SearchMeasurement {
    seconds: f64,
    asked: u32,
    windows: u32,
    /// Augmenting paths begun, and reservations handed to another component.
    paths: u32,
    handed_over: u32,
}

/// Tolerances of the starts in minutes: as they narrow, the search takes more windows.
const NARROWING: [u64; 4] = [60, 15, 5, 1];

pub(super) fn bench(report: &mut BenchReport, quick: bool) -> Result<()> {
    let (bookings, draws) = if quick {
        (BOOKINGS / 10, 30)
    } else {
        (BOOKINGS, 300)
    };
    crate::print_progress("co-allocations of 8 components over 100 sites");
    let mut chance = StdRng::seed_from_u64(3);
    let ledgers = (0..SITES)
        .map(|number| {
            Ok((
                SiteName::new(&format!("s{number:03}"))?,
                draw_site(bookings, &mut chance)?,
            ))
        })
        .collect::<Result<SiteLedgers>>()?;
    let end = bookings as u64 * APART;
    let mut searched = Vec::new();
    for _ in 0..draws {
        let mut supposed = ledgers.clone();
        let wanted = draw_coallocation(&ledgers, end, &mut chance);
        searched.push(run_search(wanted, &mut supposed));
    }
    bench_narrowing(report, &ledgers, end, draws / 3);
    let mut times: Vec<f64> = searched.iter().map(|one| one.seconds * 1e3).collect();
    let total: f64 = times.iter().sum();
    let asked: u32 = searched.iter().map(|one| one.asked).sum();
    report.add_figure(
        "coalloc_search_ms",
        quantile(&mut times, 0.99),
        "ms",
        "<= 20",
    );
    report.add_figure("coalloc_search_p50_ms", quantile(&mut times, 0.5), "ms", "");
    report.add_figure(
        "coalloc_us_per_ask",
        total * 1e3 / f64::from(asked.max(1)),
        "us",
        "<= 6",
    );
    let mut windows: Vec<f64> = searched.iter().map(|one| f64::from(one.windows)).collect();
    report.add_figure(
        "coalloc_windows_p50",
        quantile(&mut windows, 0.5),
        "",
        ">= 3",
    );
    let augmented = searched.iter().filter(|one| one.handed_over > 0).count();
    report.add_figure(
        "coalloc_augmented_share",
        augmented as f64 / draws as f64,
        "",
        ">= 0.25",
    );
    Ok(())
}

/// Measures the same searches with ever narrower tolerances: windows, and the reservations that an
/// augmenting path touches.
fn bench_narrowing(report: &mut BenchReport, ledgers: &SiteLedgers, end: u64, draws: usize) {
    for minutes in NARROWING {
        let mut chance = StdRng::seed_from_u64(4);
        let mut windows = 0_u32;
        let mut paths = 0_u32;
        let mut handed_over = 0_u32;
        for _ in 0..draws {
            let tolerance = DurationMs(minutes * MINUTE);
            let wanted = Coallocation {
                tolerance,
                ..draw_coallocation(ledgers, end, &mut chance)
            };
            let one = run_search(wanted, &mut ledgers.clone());
            windows += one.windows;
            paths += one.paths;
            handed_over += one.handed_over;
        }
        report.add_figure(
            format!("coalloc_windows_within_{minutes}_min"),
            f64::from(windows) / (draws as f64).max(1.0),
            "",
            "",
        );
        report.add_figure(
            format!("coalloc_path_length_within_{minutes}_min"),
            1.0 + f64::from(handed_over) / f64::from(paths).max(1.0),
            "",
            "",
        );
    }
}

/// Builds a site with this many reservations.
fn draw_site(bookings: usize, chance: &mut StdRng) -> Result<ReservationLedger<ReservationSerial>> {
    let mut timeline = Timeline::new(Timestamp(0), &Resources::processors(PROCESSORS))?;
    let end = bookings as u64 * APART;
    for _ in 0..bookings {
        let need = timeline.to_amounts(&Resources::processors(1 << chance.random_range(2..=6)))?;
        let length = DurationMs(chance.random_range(MINUTE..4 * HOUR));
        let from = Timestamp(chance.random_range(0..end));
        if let Some(at) = timeline.earliest_start(&OpeningRequest::after(from, need, length)) {
            timeline.book(TimeSpan::new(at, at + length), &need);
        }
    }
    Ok(ReservationLedger::new(timeline))
}

/// Builds a job whose components can each go to a few sites, some of them to the same.
fn draw_coallocation(ledgers: &SiteLedgers, end: u64, chance: &mut StdRng) -> Coallocation {
    let names: Vec<&SiteName> = ledgers.keys().collect();
    let near: Vec<usize> = index::sample(chance, names.len(), 2 * ABLE).into_vec();
    let parts = (0..COMPONENTS).map(|component| CoallocationPart {
        component: ComponentIndex(component as u32),
        resources: Resources::processors(PROCESSORS * 3 / 8 - 4 * component as u32),
        length: DurationMs(HOUR),
        sites: index::sample(chance, near.len(), ABLE)
            .into_iter()
            .map(|at| names[near[at]].clone())
            .collect(),
        offset: DurationMs::ZERO,
    });
    let parts = parts.collect();
    let earliest = Timestamp(chance.random_range(0..end / 2));
    Coallocation {
        parts,
        window: StartWindow::new(earliest, earliest + DurationMs(end / 2)),
        tolerance: DurationMs(15 * MINUTE),
        unit: DurationMs(MINUTE),
        windows_max: 1_000,
        rankings: Vec::new(),
    }
}

fn run_search(wanted: Coallocation, ledgers: &mut SiteLedgers) -> SearchMeasurement {
    let begin = Instant::now();
    let mut search = ReservationSearch::new(wanted);
    let mut asked = 0;
    let mut paths = 0;
    let mut handed_over = 0;
    while let ReservationSearchState::Asks(ask) = search.current_state() {
        asked += 1;
        let augments = matches!(search.step, ReservationSearchStep::Augment { .. });
        paths += u32::from(augments && matches!(ask, ReservationCall::Create { .. }));
        handed_over += u32::from(hands_over(&search, &ask));
        let Some(ledger) = ledgers.get_mut(ask.site()) else {
            break;
        };
        let outcome = ask.answered_by(ledger, &search.job, Timestamp(u64::MAX));
        search.record_outcome(outcome);
    }
    let windows = search.windows_tried;
    SearchMeasurement {
        seconds: begin.elapsed().as_secs_f64(),
        asked,
        windows,
        paths,
        handed_over,
    }
}

/// Returns true if the call hands a reservation to another component.
fn hands_over(search: &ReservationSearch, ask: &ReservationCall) -> bool {
    let ReservationCall::Modify { serial, part, .. } = ask else {
        return false;
    };
    let held = search
        .part_reservations()
        .get(*part)
        .and_then(Option::as_ref);
    held.is_none_or(|held| held.serial != *serial)
}
