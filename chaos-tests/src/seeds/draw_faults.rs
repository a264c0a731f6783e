//! Draws faults of the world.

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::seed_scenario::{BANDWIDTH, HOUR, Kill, MINUTE, ScenarioDrawing};
use cospan_simulator::call_faults::{FaultRates, StoreDiskFaults};
use cospan_simulator::fault_kinds::{FaultKind, FaultTarget};
use cospan_simulator::kill_switch::KillPoint;
use cospan_simulator::panics::PanicRates;
use cospan_simulator::world::site_faults::SiteFault;

/// Number of the random stream.
const DEATHS: u64 = 0x6465_6174_6873;

/// Longest delay of a request that a frozen site has received; directories that keep late attempts
/// from starting are kept longer.
const FROZEN_MAX: u64 = 30 * MINUTE;

/// Number of further kills of a scheduler that is killed and loses nothing.
const FORGETS_AGAIN: u32 = 60;
/// Most runs of the control plane in one run that end by a kill.
const MANY_KILLS: usize = 20;
/// Most further kills where the control plane dies often.
const MORE_KILLS: usize = 30;
/// Longer than the components of a round may begin apart.
const LONG_AWAY: u64 = 31_000;
/// Number of further faults of links that flap, which seldom hit anything.
const MORE_FLAPS: usize = 5;

/// The time of a fault, its site, and the fault.
pub(super) type Planned = (Timestamp, usize, SiteFault);

/// Returns the fault with which a kind begins at a site. Cut-offs are drawn by themselves.
fn begin_fault(
    kind: FaultKind,
    drawing: &mut ScenarioDrawing,
    to: &SiteName,
    repair: DurationMs,
) -> Option<SiteFault> {
    Some(match kind {
        FaultKind::NodeDown => SiteFault::NodeDown {
            node: drawing.chance.random_range(0..4),
            repair,
        },
        FaultKind::SiteDown => SiteFault::SiteDown { repair },
        FaultKind::Silent => SiteFault::Silent(true),
        FaultKind::Frozen => SiteFault::Frozen(true),
        FaultKind::Revoked => SiteFault::Revoked(true),
        FaultKind::Stale => SiteFault::Stale(true),
        FaultKind::Forgets => SiteFault::Forgets {
            window: drawing.draw_between(1_000, MINUTE),
            times: FORGETS_AGAIN,
        },
        FaultKind::Drained => SiteFault::Drained(true),
        FaultKind::SiteClock => SiteFault::Clock(drawing.draw_clock_offset_ms()),
        FaultKind::Link => {
            let slow = BitsPerSecond([0, 10_000_000][drawing.chance.random_range(0..2)]);
            link_fault(to, slow)
        }
        FaultKind::Corrupts => corruption_fault(to, true),
        FaultKind::DiskFull => SiteFault::DiskFull(true),
        _ => return None,
    })
}

/// Returns the fault with which it ends. Nodes come back by themselves, and what is forgotten stays
/// so.
fn end_fault(kind: FaultKind, to: &SiteName) -> Option<SiteFault> {
    Some(match kind {
        FaultKind::Silent => SiteFault::Silent(false),
        FaultKind::CutOff => SiteFault::CutOff(false),
        FaultKind::Frozen => SiteFault::Frozen(false),
        FaultKind::Revoked => SiteFault::Revoked(false),
        FaultKind::Stale => SiteFault::Stale(false),
        FaultKind::Drained => SiteFault::Drained(false),
        FaultKind::SiteClock => SiteFault::Clock(0),
        FaultKind::Link => link_fault(to, BANDWIDTH),
        FaultKind::Corrupts => corruption_fault(to, false),
        FaultKind::DiskFull => SiteFault::DiskFull(false),
        _ => return None,
    })
}

fn link_fault(to: &SiteName, bandwidth: BitsPerSecond) -> SiteFault {
    SiteFault::Link {
        to: to.clone(),
        bandwidth,
    }
}

fn corruption_fault(to: &SiteName, corrupts: bool) -> SiteFault {
    SiteFault::Corrupts {
        to: to.clone(),
        corrupts,
    }
}

/// Draws times in which no site answers: it is we who are cut off.
pub(super) fn draw_cut_offs(drawing: &mut ScenarioDrawing) -> Vec<(Timestamp, Timestamp)> {
    if !drawing.draw_existence() {
        return Vec::new();
    }
    let mut begins: Vec<Timestamp> = (0..drawing.chance.random_range(1..=3))
        .map(|_| drawing.draw_moment())
        .collect();
    begins.sort_unstable();
    let mut times: Vec<(Timestamp, Timestamp)> = Vec::new();
    for from in begins {
        let from = times
            .last()
            .map_or(from, |(_, to)| from.max(*to + DurationMs(MINUTE)));
        let to = (from + drawing.draw_between(5 * MINUTE, 2 * HOUR)).min(drawing.until);
        if from < to {
            times.push((from, to));
        }
    }
    times
}

/// Draws the faults of the world; when they end, everything is well.
pub(super) fn draw_faults(drawing: &mut ScenarioDrawing, names: &[SiteName]) -> Vec<Planned> {
    let mut troubles = Vec::new();
    let drawn_elsewhere = [FaultKind::CutOff, FaultKind::LosesLeases];
    for kind in
        FaultKind::kinds_of_target(FaultTarget::Site).filter(|kind| !drawn_elsewhere.contains(kind))
    {
        if !drawing.draw_existence() {
            continue;
        }
        for _ in 0..drawing.chance.random_range(1..=6) {
            draw_one(drawing, names, kind, &mut troubles);
            // A fault that is over at once must come often to hit anything.
            let more = match kind {
                FaultKind::Link => MORE_FLAPS,
                FaultKind::Corrupts => 1,
                _ => 0,
            };
            (0..more).for_each(|_| draw_one(drawing, names, kind, &mut troubles));
        }
    }
    troubles.extend(end_all_faults(names, drawing.until));
    troubles
}

fn draw_one(
    drawing: &mut ScenarioDrawing,
    names: &[SiteName],
    kind: FaultKind,
    troubles: &mut Vec<Planned>,
) {
    let site = drawing.chance.random_range(0..names.len());
    let to = drawing.chance.random_range(0..names.len());
    let lasts = drawing.draw_between(MINUTE, 2 * HOUR);
    let mut at = drawing.draw_moment();
    let Some(begins) = begin_fault(kind, drawing, &names[to], lasts) else {
        return;
    };
    let ends = end_fault(kind, &names[to]);
    // Links flap: a fault lasts for hours, or comes and goes each minute or so.
    let flaps = kind == FaultKind::Link && drawing.draw_existence();
    let (times, lasts) = match kind {
        _ if flaps => (drawing.chance.random_range(5..=30), MINUTE),
        FaultKind::Frozen => (1, lasts.0.min(FROZEN_MAX)),
        _ => (1, lasts.0),
    };
    for _ in 0..times {
        let over = at + drawing.draw_between(lasts / 2, lasts);
        troubles.push((at, site, begins.clone()));
        troubles.extend(
            ends.clone()
                .map(|ends| (over.min(drawing.until), site, ends)),
        );
        at = (over + drawing.draw_between(1, 2 * MINUTE)).min(drawing.until);
    }
}

/// Makes every site silent at these times, by a fault of its own kind: nothing else ends it.
pub(super) fn cut_off(names: &[SiteName], times: &[(Timestamp, Timestamp)]) -> Vec<Planned> {
    (0..names.len())
        .flat_map(|site: usize| {
            times
                .iter()
                .flat_map(move |(from, to): &(Timestamp, Timestamp)| {
                    [
                        (*from, site, SiteFault::CutOff(true)),
                        (*to, site, SiteFault::CutOff(false)),
                    ]
                })
        })
        .collect()
}

/// Ends all faults, whatever overlapped: from then on nothing is wrong.
fn end_all_faults(names: &[SiteName], at: Timestamp) -> Vec<Planned> {
    (0..names.len())
        .flat_map(|site: usize| {
            let kinds = FaultKind::kinds_of_target(FaultTarget::Site)
                .filter(|kind| !matches!(kind, FaultKind::Link | FaultKind::Corrupts));
            let here = kinds.filter_map(move |kind| end_fault(kind, &names[site]));
            let links = names
                .iter()
                .flat_map(|to| [link_fault(to, BANDWIDTH), corruption_fault(to, false)]);
            here.chain(links).map(move |trouble| (at, site, trouble))
        })
        .collect()
}

/// Draws the fault rates of calls, and of the disk.
pub(super) fn draw_fault_rates(drawing: &mut ScenarioDrawing) -> FaultRates {
    let mut faults = BTreeMap::new();
    for fault in FaultKind::kinds_of_target(FaultTarget::Call)
        .filter(|fault| *fault != FaultKind::WrongStart)
    {
        if drawing.draw_existence() {
            faults.insert(fault, drawing.chance.random_range(1_000..=30_000));
        }
    }
    let way_max = drawing.draw_between(1, 2_000);
    let slow_disk = [0, 20, 1_000, 5_000][drawing.chance.random_range(0..4)];
    let failing_syncs = if drawing.draw_existence() { 5_000 } else { 0 };
    let disk = StoreDiskFaults::default();
    FaultRates {
        way_max,
        faults,
        sync_max: DurationMs(slow_disk),
        failing_syncs,
        disk,
    }
}

/// Draws which runs of the control plane end by a kill, and how.
pub(super) fn draw_kills(drawing: &mut ScenarioDrawing) -> Vec<Kill> {
    if !drawing.draw_existence() {
        return Vec::new();
    }
    let clocks_are_set = drawing.draw_existence();
    (0..drawing.chance.random_range(1..=MANY_KILLS))
        .map(|_| draw_kill(drawing, clocks_are_set))
        .collect()
}

fn draw_kill(drawing: &mut ScenarioDrawing, clocks_are_set: bool) -> Kill {
    let number = drawing.chance.random_range(1..=200);
    let moments = [
        None,
        Some(KillPoint::BeforeAppend(number)),
        Some(KillPoint::AfterAppend(number)),
        Some(KillPoint::BeforeCall(number)),
        Some(KillPoint::AfterCall(number)),
    ];
    Kill {
        after: drawing.draw_between(1_000, 2 * HOUR),
        moment: moments[drawing.chance.random_range(0..moments.len())],
        down: drawing.draw_between(100, 10 * MINUTE),
        clock_ahead_ms: if clocks_are_set {
            drawing.draw_clock_offset_ms()
        } else {
            0
        },
    }
}

/// Lets the control plane die often in half of the runs, mostly between two gates of a round, and
/// be away for longer than a common start takes. Drawn from a stream of its own.
pub(super) fn draw_deaths(seed: u64, mut kills: Vec<Kill>, until: Timestamp) -> Vec<Kill> {
    let chance = StdRng::seed_from_u64(seed ^ DEATHS);
    let mut drawing = ScenarioDrawing { chance, until };
    if !drawing.draw_existence() {
        return kills;
    }
    let clocks_are_set = drawing.chance.random_bool(0.3);
    for _ in 0..drawing.chance.random_range(10..=MORE_KILLS) {
        let number = drawing.chance.random_range(1..=3);
        let at_gates = drawing.chance.random_bool(0.7);
        let kill = Kill {
            after: drawing.draw_between(1_000, HOUR),
            moment: at_gates.then_some(KillPoint::BetweenGates(number)),
            down: drawing.draw_between(LONG_AWAY, 10 * MINUTE),
            clock_ahead_ms: if clocks_are_set {
                drawing.draw_clock_offset_ms()
            } else {
                0
            },
        };
        let place = drawing.chance.random_range(0..=kills.len());
        kills.insert(place, kill);
    }
    kills
}

/// Draws how often actors panic, and how often those that were built anew do so at once.
pub(super) fn draw_panics(drawing: &mut ScenarioDrawing) -> Option<PanicRates> {
    let share = drawing.chance.random_range(100..=3_000);
    let again_max = drawing.chance.random_range(0..=5);
    drawing
        .draw_existence()
        .then_some(PanicRates { share, again_max })
}
