//! How long jobs wait: after setbacks, until they are claimed, and between two claims. Also which
//! settings of that are refused, and who may be claimed in parts or made to give way.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cospan_domain::claim::{ClaimParameters, ClaimSchedule, ClaimingQueue, MinClaimStep};
use cospan_domain::ids::JobId;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::state::{Component, Phase, RestartStep, Run, Setbacks};
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, drawn, moment};

/// A job gives way so often at most.
const GIVES_WAY: u32 = 3;
/// After so many rounds that were given up, a job takes all or nothing.
const ROUNDS: u32 = 2;
/// All of something, in parts per million.
const WHOLE: u32 = 1_000_000;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [setbacks(chance), settings(chance), lowered(chance), claimed(chance), queue()];
    checks.into_iter().filter_map(Result::err).map(|problem| format!("{problem:#}")).collect()
}

/// After each setback twice as long as after the one before, up to the longest wait, and up to a
/// quarter longer, so that jobs that failed together do not come back together.
fn setbacks(chance: &mut StdRng) -> Result<()> {
    let first = DurationMs(10_u64.pow(chance.random_range(0..7)) * chance.random_range(0..10));
    let longest = DurationMs(10_u64.pow(chance.random_range(0..9)));
    let parameters = JobParameters { backoff_max: longest, ..JobParameters::default() };
    let count = chance.random_range(0..30_u32);
    let doubled = (1..count.min(21)).fold(first.0, |wait, _| (2 * wait).min(longest.0));
    let wait = doubled.min(longest.0);
    let seed = chance.random::<u64>() >> chance.random_range(0..64);
    let waits: Vec<u64> =
        (0..16).map(|more| parameters.backoff(first, count, seed.wrapping_add(more)).0).collect();
    let (least, most) = (waits.iter().min().copied(), waits.iter().max().copied());
    let text = || format!("{waits:?} after {count} setbacks, first {first}, longest {longest}");
    let bounded = least.is_some_and(|least| wait <= least);
    ensure!(bounded && most.is_some_and(|most| most <= wait + wait / 4), "{}", text());
    let apart = waits.iter().collect::<BTreeSet<_>>().len();
    ensure!(wait < 10_000 || apart > 12, "they come back in step: {}", text());
    let reach = wait / 16;
    let spread = least.is_some_and(|least| least < wait + reach)
        && most.is_some_and(|most| most + reach > wait + wait / 4);
    ensure!(wait < 10_000 || spread, "they come back close together: {}", text());
    let again = parameters.backoff(first, count, seed).0;
    ensure!(Some(&again) == waits.first(), "chance decides: {again} and {}", text());
    let later: BTreeSet<_> =
        (40..48).map(|count| parameters.backoff(longest, count, seed)).collect();
    ensure!(longest.0 < 10_000 || later.len() > 1, "each wait is spread alike: {later:?}");
    Ok(())
}

fn ratio(chance: &mut StdRng) -> PerMillion {
    PerMillion([0, 1, 250_000, 750_000, WHOLE - 1, WHOLE, WHOLE + 1][chance.random_range(0..7)])
}

/// Ratios are from 0 to 1, the least L is not above the first, and a step takes time.
fn settings(chance: &mut StdRng) -> Result<()> {
    let mut parameters = ClaimParameters::default();
    ensure!(parameters.validate().is_ok(), "the default is refused");
    for _ in 0..chance.random_range(1..3) {
        let ratio = ratio(chance);
        match chance.random_range(0..5) {
            0 => parameters.l = ratio,
            1 => parameters.l_step = ratio,
            2 => parameters.l_min = ratio,
            3 => parameters.threshold = ratio,
            _ => {
                let step = DurationMs(chance.random_range(0..3));
                parameters.min_claim_step = MinClaimStep::Fixed(step);
            }
        }
    }
    let p = &parameters;
    let still = p.min_claim_step == MinClaimStep::Fixed(DurationMs(0));
    let of = |ratio: PerMillion| (ratio.0 > WHOLE).then_some(ratio);
    let faults = [
        ("l", of(p.l)),
        ("l_step", of(p.l_step)),
        ("l_min", of(p.l_min).or(Some(p.l_min).filter(|least| *least > p.l))),
        ("threshold", of(p.threshold)),
    ];
    match p.validate() {
        Ok(()) => {
            let sound = !still && faults.iter().all(|(_, given)| given.is_none());
            ensure!(sound, "nothing is wrong with {p:?}");
        }
        Err(fault) if fault.setting == "min_claim_step" => {
            ensure!(still && fault.given == "0s" && !fault.rule.is_empty(), "{fault} of {p:?}");
        }
        Err(fault) => {
            let given = fault.given.parse::<f64>().map(|given| (given * 1e6).round() as u32);
            let given = given.ok().map(PerMillion);
            let right = faults.contains(&(fault.setting, given)) && given.is_some();
            let least = format!("({})", f64::from(p.l.0) / 1e6);
            let above = given.is_some_and(|given| given.0 <= WHOLE);
            ensure!(right && (!above || fault.rule.contains(&least)), "{fault} of {p:?}");
        }
    }
    let once = ClaimParameters::at_start_only();
    let (whole, none) = (PerMillion(WHOLE), PerMillion(0));
    let right = (once.l, once.l_step, once.threshold) == (whole, none, whole);
    ensure!(right && once.max_claim_tries.is_none() && once.validate().is_ok(), "{once:?}");
    Ok(())
}

/// L falls by its step with each start that was missed, but not below its least.
fn lowered(chance: &mut StdRng) -> Result<()> {
    let mut draw = |most: u32| PerMillion(50_000 * chance.random_range(0..=most));
    let (l, l_step, l_min) = (draw(20), draw(8), draw(6));
    let parameters = ClaimParameters { l, l_step, l_min, ..ClaimParameters::default() };
    let next = parameters.lowered(l);
    let ought = if l.0 >= l_min.0 + l_step.0 { l.0 - l_step.0 } else { l_min.0 };
    ensure!(next.0 == ought, "{l:?} falls to {next:?} with {parameters:?}");
    for transfer in [0, 1, 63_999, 64_000, 64_001, 6_400_000] {
        let step = MinClaimStep::Auto.for_transfer(DurationMs(transfer)).0;
        let right = step >= 1_000 && 64 * step >= transfer;
        ensure!(right && (step == 1_000 || 64 * (step - 1) < transfer), "{step} of {transfer}");
    }
    let none = MinClaimStep::Fixed(DurationMs(0)).for_transfer(DurationMs(9));
    ensure!(none.0 > 0, "tries follow each other without end");
    Ok(())
}

fn waits(c: &Component) -> bool {
    let restart = c.restart.as_ref();
    matches!(c.run, Run::Idle)
        && c.charge.is_none()
        && restart.is_some_and(|restart| restart.step != RestartStep::Staging)
}

/// When a job is claimed follows from its placement, its input and the starts that it missed.
fn claimed(chance: &mut StdRng) -> Result<()> {
    let mut job = drawn(chance, 1)?;
    if chance.random_bool(0.4) {
        job.phase = Phase::Claiming { since: NOW };
    }
    let [l, l_step, l_min] = [(); 3].map(|()| PerMillion(100_000 * chance.random_range(0..=10)));
    let threshold = PerMillion(chance.random_range(0..=WHOLE));
    let min_claim_step = MinClaimStep::Fixed(DurationMs(chance.random_range(1..9)));
    let claim =
        ClaimParameters { l, l_step, l_min, threshold, min_claim_step, max_claim_tries: None };
    let hold_max = DurationMs(1_000 * chance.random_range(0..30));
    let parameters = JobParameters { claim, hold_max, ..JobParameters::default() };
    let mut count = || chance.random_range(0..5);
    job.setbacks = Setbacks {
        missed_starts: count(),
        preemptions: count(),
        rounds: count(),
        ..Setbacks::default()
    };
    if chance.random_bool(0.1) {
        job.instants.placed = None;
    }
    let schedule = job.instants.placed.map(|placed_at| {
        let l = (0..job.setbacks.missed_starts)
            .fold(l.0, |l, _| l.saturating_sub(l_step.0).max(l_min.0));
        let start = job.instants.start_estimate.unwrap_or_default();
        let transfer_time = DurationMs(start.0 - placed_at.0);
        ClaimSchedule { placed_at, transfer_time, l: PerMillion(l), min_step: min_claim_step }
    });
    let is = job.claim_schedule(&parameters.claim);
    ensure!(is == schedule, "it is claimed by {is:?}, not {schedule:?}: {job:?}");
    let rests = matches!(job.phase, Phase::Running { .. }) || !job.awaits_claim();
    let ought = schedule.filter(|_| !rests).map(|schedule| {
        let first = schedule.first_try().0.max((schedule.start_time() - hold_max).0);
        let at_once = job.inputs_here.then_some(schedule.placed_at);
        job.next_claim.or(at_once).unwrap_or(Timestamp(first))
    });
    let is = job.claim_time(&parameters);
    ensure!(rests || is == ought, "it is claimed at {is:?}, not {ought:?}: {job:?}");
    let again = job.spec.rerunnable || job.start_at.is_none();
    let may = again && job.setbacks.preemptions < GIVES_WAY;
    ensure!(job.may_be_preempted() == may, "it gives way: {}: {job:?}", !may);
    let whole = PerMillion(WHOLE);
    let part = if job.setbacks.rounds < ROUNDS { threshold } else { whole };
    let is = job.claim_threshold(&parameters.claim);
    ensure!(is == part, "it takes {is:?} at least, not {part:?}: {job:?}");
    for c in &job.components {
        let now = moment(chance);
        let due = c.restart.as_ref().is_some_and(|restart| restart.not_before <= now);
        let live = !matches!(c.run, Run::Idle | Run::Ended { .. }) && !c.given_back;
        let is = (c.awaits_restart(), c.is_claimable(now), c.is_claimed());
        ensure!(is == (waits(c), waits(c) && due, live), "{is:?} at {now:?}: {c:?}");
    }
    Ok(())
}

/// A queue is empty as long as nobody is in it.
fn queue() -> Result<()> {
    let mut queue = ClaimingQueue::default();
    let mut empty = vec![queue.is_empty()];
    queue.insert(JobId(1), NOW);
    empty.push(queue.is_empty());
    queue.remove(JobId(1));
    empty.push(queue.is_empty());
    ensure!(empty == [true, false, true], "a queue is empty: {empty:?}");
    Ok(())
}
