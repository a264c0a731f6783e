//! How fast a copy goes: for how long nothing has arrived, when all will be there, and how long
//! nobody tries after failures.

use anyhow::{Result, ensure};
use cospan_domain::transfer::parameters::CopyParameters;
use cospan_domain::transfer::progress::Progress;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [progress(chance), pauses(chance)];
    let problems = checks.into_iter().filter_map(Result::err);
    problems.map(|problem| format!("the pace of a copy: {problem:#}")).collect()
}

/// How long nobody tries after so many failures in a row: the first pause, doubled with each
/// further failure up to a bound, and up to a quarter more by a number that is drawn.
pub(super) fn pause(settings: &CopyParameters, failures: u32, drawn: u64) -> u64 {
    let most = u128::from(settings.backoff_max.0);
    let mut plain = u128::from(settings.backoff.0).min(most);
    for _ in 1..failures.min(100) {
        plain = (plain + plain).min(most);
    }
    let lengths = plain / 4 + 1;
    let extra = u128::from(drawn) - u128::from(drawn) / lengths * lengths;
    u64::try_from(plain + extra).unwrap_or(u64::MAX)
}

/// All failures, and all numbers drawn.
fn pauses(chance: &mut StdRng) -> Result<()> {
    let settings = CopyParameters {
        backoff: DurationMs([0, 1, 7, 2_000, u64::MAX][chance.random_range(0..5)]),
        backoff_max: DurationMs([0, 8_000, 300_000, 1 << 60][chance.random_range(0..4)]),
        ..CopyParameters::default()
    };
    let mut before = 0;
    for failures in [0, 1, 2, 3, chance.random_range(4..64), 64, 65, u32::MAX] {
        let least = settings.wait(failures, 0).0;
        ensure!(before <= least && least <= settings.backoff_max.0, "{settings:?} {least}");
        before = least;
        for drawn in [0, 1, least / 4, least / 4 + 1, chance.random(), u64::MAX] {
            let (told, expected) =
                (settings.wait(failures, drawn).0, pause(&settings, failures, drawn));
            ensure!(told == expected, "{settings:?}: {told} after {failures}, not {expected}");
        }
    }
    Ok(())
}

/// Looked at again and again, by a clock that may be set back.
fn progress(chance: &mut StdRng) -> Result<()> {
    let (size, began) = (chance.random_range(1..2_000_u64), 1_000_000_u64);
    let mut progress = Progress::new(Timestamp(began));
    let mut seen = vec![(0, began)];
    let mut now = began;
    for _ in 0..8 {
        now = (now + [0, 1, chance.random_range(0..90_000)][chance.random_range(0..3)])
            - [0, 0, 0, 30_000][chance.random_range(0..4)];
        let last = seen.last().map_or(0, |(done, _)| *done);
        let more = last + chance.random_range(0..500);
        let done = [0, last, last, more][chance.random_range(0..4)];
        seen.push((done, now));
        let same = seen.iter().rev().take_while(|(before, _)| *before == done).last();
        let moved = same.map_or(now, |(_, at)| *at);
        let still = progress.observe(Bytes(done), Timestamp(now)).0;
        ensure!(still == now.saturating_sub(moved), "still for {still} after {seen:?}");
        let right = Progress { done: Bytes(done), moved_at: Timestamp(moved) };
        ensure!(progress == right, "{progress:?} after {seen:?}");
        expected(&progress, size, began, now)?;
    }
    Ok(())
}

/// The rest takes as long as it would at the pace of what is there.
fn expected(progress: &Progress, size: u64, began: u64, now: u64) -> Result<()> {
    let told = progress.expected_at(Bytes(size), Timestamp(began), Timestamp(now));
    let done = progress.done.0;
    ensure!(told.is_some() == (done > 0), "{told:?} with {done} bytes");
    let Some(at) = told else { return Ok(()) };
    ensure!(at.0 >= now, "{at:?} is over at {now}");
    let (wait, spent) = (i128::from(at.0 - now), i128::from(now.saturating_sub(began)));
    let (done, rest) = (i128::from(done), i128::from(size.saturating_sub(done)));
    // To the millisecond, and not too early.
    let off = wait * done - rest * spent;
    ensure!((0..done).contains(&off), "{at:?} for {rest} more after {done} in {spent} at {now}");
    Ok(())
}
