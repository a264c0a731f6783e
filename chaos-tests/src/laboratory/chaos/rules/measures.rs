//! Times, lengths and sizes at the ends of what can be counted, and what people read of them.

use anyhow::{Result, ensure};
use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::{Feed, Priority, Where};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::resources::Resources;
use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs, DurationUs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [sums(chance), lengths(chance), large(chance), words(chance)];
    checks.into_iter().filter_map(Result::err).map(|problem| format!("{problem:#}")).collect()
}

/// A number near a power of ten, or near the end of what can be counted.
fn number(chance: &mut StdRng) -> u64 {
    let near = chance.random_range(0..3);
    match chance.random_bool(0.8) {
        true => 10_u64.pow(chance.random_range(0..=12)) * chance.random_range(1..=9) + near - 1,
        false => u64::MAX - near,
    }
}

/// Nothing counts below zero or beyond the end.
fn sums(chance: &mut StdRng) -> Result<()> {
    let (one, other) = (number(chance), number(chance));
    let sum = u64::try_from(u128::from(one) + u128::from(other)).unwrap_or(u64::MAX);
    let less = u64::try_from(i128::from(one) - i128::from(other)).unwrap_or(0);
    let (at, length) = (Timestamp(one), DurationMs(other));
    let is = [
        (at + length).0,
        (at - length).0,
        at.since(Timestamp(other)).0,
        (DurationMs(one) + length).0,
        (Bytes(one) + Bytes(other)).0,
    ];
    ensure!(is == [sum, less, less, sum, sum], "of {one} and {other}: {is:?}");
    let thousand = |number: u64| u64::try_from(u128::from(number) * 1_000).unwrap_or(u64::MAX);
    let is = (DurationMs::from_secs(one).0, DurationUs::from(length).0);
    ensure!(is == (thousand(one), thousand(other)), "of {one} s and {other} ms: {is:?}");
    let secs = DurationMs(one).as_secs_f64();
    let near = (secs * 1_000.0 - one as f64).abs() <= one as f64 / 1e12;
    ensure!(near && (secs > 0.0) == (one > 0), "{one} ms are {secs} s");
    ensure!(DurationMs::ZERO.0 == 0 && PerMillion::ONE.0 == 1_000_000, "nothing and all");
    Ok(())
}

/// What is even is told without a fraction; what is not, with all that counts of it.
fn lengths(chance: &mut StdRng) -> Result<()> {
    let ms = number(chance) % 10_000_000;
    let (secs, left) = (ms / 1_000, ms % 1_000);
    let (hours, minutes, rest) = (secs / 3_600, secs % 3_600 / 60, secs % 60);
    let ought = if hours > 0 {
        format!("{hours}h{minutes:0>2}m{rest:0>2}s")
    } else if minutes > 0 {
        format!("{minutes}m{rest:0>2}s")
    } else if left > 0 {
        format!("{rest}.{left:0>3}s")
    } else {
        format!("{rest}s")
    };
    let is = DurationMs(ms).to_string();
    ensure!(is == ought, "{ms} ms read as {is}, not {ought}");
    let us = match chance.random_bool(0.5) {
        true => 1_000 * chance.random_range(0..3) + chance.random_range(0..3),
        false => number(chance) % 1_000_000_000,
    };
    let is = DurationUs(us).to_string();
    let whole = us.checked_rem(1_000) == Some(0) && us > 0;
    let right = match is.strip_suffix("ms") {
        None => us < 1_000 && is == format!("{us}us"),
        Some(ms) if whole => ms.parse() == Ok(us / 1_000),
        Some(ms) => {
            let tenths = ms.split_once('.').is_some_and(|(_, tenths)| tenths.len() == 1);
            let near = ms.parse::<f64>().is_ok_and(|ms| (ms * 1e3 - us as f64).abs() <= 50.1);
            us > 1_000 && tenths && near
        }
    };
    ensure!(right, "{us} us read as {is}");
    Ok(())
}

/// What takes longer than can be counted in one step is not taken for less.
fn large(chance: &mut StdRng) -> Result<()> {
    let (size, rate) = (number(chance), number(chance));
    let exact = (u128::from(size) * 8_000).div_ceil(u128::from(rate.max(1)));
    let exact = u64::try_from(exact).unwrap_or(u64::MAX);
    let is = Bytes(size).transfer_time(BitsPerSecond(rate));
    let ought = (rate > 0).then_some(DurationMs(exact));
    ensure!(is == ought, "{size} bytes at {rate} bits/s take {is:?}, not {ought:?}");
    let share = PerMillion(number(chance).min(1_000_000) as u32);
    let exact = (u128::from(size) * u128::from(share.0)).div_ceil(1_000_000);
    let is = u128::from(DurationMs(size).scaled(share).0);
    ensure!(is == exact, "{share:?} of {size} is {is}, not {exact}");
    Ok(())
}

/// What is demanded of a site, and what it lacks, in words.
fn words(chance: &mut StdRng) -> Result<()> {
    let (needed, there) = (chance.random_range(1..99), chance.random_range(0..99));
    let of = |count: u64| Resources { processors: 1, others: [("gpus".into(), count)].into() };
    if let Some(shortage) = of(there).first_shortage(&of(needed)) {
        let ought = format!("needs {needed} gpus, has {there}");
        ensure!(shortage.to_string() == ought, "{shortage:?} reads as {shortage}");
    }
    let (same, demands) = ("mpi".into(), |rule| Constraint { key: "arch".into(), rule });
    let any = demands(Rule::OneOf(["a64".into(), "x86".into()].into())).to_string();
    let is = demands(Rule::Is("a64".into())).to_string();
    let not = demands(Rule::IsNot("a64".into())).to_string();
    let named = |text: &String| text.starts_with("arch") && text.contains("a64");
    let right = [&any, &is, &not].into_iter().all(named) && any.contains("a64, x86");
    ensure!(right && is != not && not.contains("not"), "{any:?}, {is:?}, {not:?}");
    let site = SiteName::new("delft")?;
    let places = [Where::Site(site), Where::Label(same, "openmpi".into())];
    let places = places.map(|place| place.to_string());
    ensure!(places == ["delft", "mpi=openmpi"], "places read as {places:?}");
    let feeds = [Feed::Whole, Feed::Chunk].map(Feed::as_str);
    ensure!(feeds == ["whole", "chunk"], "files are read as {feeds:?}");
    let shown = Priority::ALL.map(|class| class.to_string() == class.as_str());
    ensure!(shown == [true; 4], "classes are shown by other names");
    Ok(())
}
