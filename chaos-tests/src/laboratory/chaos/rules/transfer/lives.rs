//! Whole lives of copies, also such as no copy has: whatever is said of them at whatever time,
//! the domain answers, notes, does and waits as the book of a copy says.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use cospan_domain::ids::{RelPath, SiteName};
use cospan_domain::machine::Machine;
use cospan_domain::transfer::CopyMachine;
use cospan_domain::transfer::command::{CopyCommand, Rejection, Seen, StartAnswer};
use cospan_domain::transfer::event::{Blame, CopyEvent, Happened};
use cospan_domain::transfer::parameters::CopyParameters;
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::transfer::state::{CopyRecord, Nonce, Source, Trouble, Try};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, content, moment, site};
use super::duties::{agree, is_variant};
use super::model::{CROWDED, Plain, Stage};

/// What is said in one life.
const SAYINGS: usize = 24;
/// Nonces of tries: they spread waits from nothing to a quarter.
const NONCES: [u64; 6] = [0, 499, 500, 501, 77_777, u64::MAX];
/// What a site says, and what is kept of it.
const WORDS: [(&str, &str); 3] = [
    ("disk full", "disk full"),
    ("no room\nthere\n", "no room there"),
    (" \tkilled by signal 9 ", "killed by signal 9"),
];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let problems = [life(chance).err(), words(chance).err()];
    let problems = problems.into_iter().flatten();
    problems.map(|problem| format!("the life of a copy: {problem:#}")).collect()
}

fn any<T: Clone>(chance: &mut StdRng, of: &[T]) -> Option<T> {
    let number = chance.random_range(0..of.len().max(1));
    of.get(number).cloned()
}

fn life(chance: &mut StdRng) -> Result<()> {
    let (site, settings) = (SiteName::new("delft")?, settings(chance));
    let mut plain = Plain::new(settings, content(7), site.clone());
    let mut record = CopyRecord::new(content(7), site);
    if chance.random_bool(0.6) {
        amid(chance, &mut plain)?;
        record = plain.record().context("a record")?;
    }
    let mut now = NOW.0;
    for _ in 0..SAYINGS {
        now = later(chance, &plain, now);
        agree(&plain, &record, now)?;
        let said = saying(chance, &plain)?;
        hear(&mut plain, &mut record, &said, now).with_context(|| format!("{said:?} at {now}"))?;
    }
    agree(&plain, &record, now)
}

/// Both hear the same: the same is answered, and the same noted.
fn hear(plain: &mut Plain, record: &mut CopyRecord, said: &CopyCommand, now: u64) -> Result<()> {
    let before = record.clone();
    let told = CopyMachine::decide(record, &plain.settings, said.clone(), Timestamp(now));
    let events = told.as_ref().map_or(&[][..], |events| &events[..]);
    let own = events.first().and_then(|event| detail(&event.what));
    if let (Some(own), CopyCommand::Observed { seen: Seen::Running { unchanged_for }, .. }) =
        (&own, said)
    {
        ensure!(own.contains(&unchanged_for.to_string()), "{own:?}, not for how long");
    }
    let own = own.filter(|own| !own.is_empty()).unwrap_or_else(|| "a word".into());
    let words = kept(said).map_or(own, Arc::from);
    let expected = plain.hear(said, now, &words);
    let at = Timestamp(now);
    let expected = expected.map(|what| Vec::from_iter(what.map(|what| CopyEvent { at, what })));
    ensure!(told == expected, "{told:?}, not {expected:?}, of {before:?}");
    for event in events {
        let name = event.what.name();
        ensure!(is_variant(&format!("{:?}", event.what), name), "{event:?} is named {name}");
        CopyMachine::evolve(record, event);
    }
    let noted = plain.record().context("a record")?;
    ensure!(*record == noted, "{record:?}, not {noted:?}, by {events:?}");
    Ok(())
}

/// What an event says for people.
fn detail(what: &Happened) -> Option<Arc<str>> {
    match what {
        Happened::SourceMissing { detail, .. }
        | Happened::TryFailed { detail, .. }
        | Happened::CopyStalled { detail }
        | Happened::CopyLost { detail } => Some(detail.clone()),
        _ => None,
    }
}

/// What is kept of words that came with what was said.
fn kept(said: &CopyCommand) -> Option<&'static str> {
    let said = match said {
        CopyCommand::NoSource { detail, .. } => detail,
        CopyCommand::StartAnswered { answer: StartAnswer::Refused(detail), .. } => detail,
        CopyCommand::Observed { seen: Seen::Failed { detail, .. }, .. } => detail,
        _ => return None,
    };
    WORDS.iter().find(|(from, _)| **from == **said).map(|(_, kept)| *kept)
}

fn settings(chance: &mut StdRng) -> CopyParameters {
    let mut length = |of: [u64; 3]| DurationMs(of[chance.random_range(0..3)]);
    CopyParameters {
        stall_timeout: length([0, 1_000, 120_000]),
        backoff: length([0, 2_000, 2_000]),
        backoff_max: length([1_000, 5_000, 300_000]),
        stop_grace: length([0, 5_000, 5_000]),
        partial_keep: length([0, 10_000, 600_000]),
        ready_keep: length([0, 1_000, 60_000]),
        max_destination_tries: chance.random_range(1..=3),
        max_process_tries: chance.random_range(1..=4),
        ..CopyParameters::default()
    }
}

fn source(chance: &mut StdRng) -> Result<Source> {
    let place = match chance.random_bool(0.8) {
        true => FilePlace::Store(content(7).digest),
        false => FilePlace::User(RelPath::new("data/in")?),
    };
    Ok(Source { site: site(chance)?, place })
}

fn attempt(chance: &mut StdRng, nonce: u64) -> Result<Try> {
    Ok(Try { source: source(chance)?, nonce: Nonce(nonce) })
}

/// Somewhere in a life.
fn amid(chance: &mut StdRng, plain: &mut Plain) -> Result<()> {
    use Stage::{Ending, Going, Idle, Nothing, Ordered, Taken, Whole};
    plain.stage = any(chance, &[Nothing, Idle, Idle, Ordered, Taken, Taken, Ending, Whole, Going])
        .context("a stage")?;
    (plain.needed, plain.given_up) = (chance.random_bool(0.6), chance.random_bool(0.3));
    (plain.since, plain.released) = (moment(chance).0, moment(chance).0);
    plain.not_before = moment(chance).0;
    plain.whole = Nonce(any(chance, &NONCES).unwrap_or(1));
    let under_way = matches!(plain.stage, Ordered | Taken | Ending);
    if under_way || plain.stage == Idle && chance.random_bool(0.6) {
        let nonce = any(chance, &NONCES).unwrap_or(1);
        plain.at_hand = Some(attempt(chance, nonce)?);
    }
    let ended = attempt(chance, plain.whole.0)?;
    plain.latest = plain.at_hand.clone().or(chance.random_bool(0.7).then_some(ended));
    let many = [0, 0, 1, CROWDED - 1, CROWDED][chance.random_range(0..5)];
    for nonce in (1_000..).take(many) {
        plain.leftovers.insert(Nonce(nonce), source(chance)?);
    }
    let failures = chance.random_range(0..4);
    plain.trouble = Trouble {
        tries: failures,
        destination: chance.random_range(0..=failures),
        excluded: chance.random_bool(0.3).then(|| site(chance)).transpose()?.into_iter().collect(),
        last_error: (failures > 0).then(|| "it failed".into()),
        at_destination: failures > 0 && chance.random_bool(0.4),
    };
    Ok(())
}

/// Now, soon, just when or just before something becomes due, or before: clocks are set.
fn later(chance: &mut StdRng, plain: &Plain, now: u64) -> u64 {
    let wake = plain.next_wake(now).map_or(now, |at| at.0);
    let times = [now, now + 1, wake, wake, wake - 1, now + 30_000, now - 1_000];
    times[chance.random_range(0..times.len())]
}

/// Something that a copy may hear: mostly what it waits for.
fn saying(chance: &mut StdRng, plain: &Plain) -> Result<CopyCommand> {
    let nonce = nonce(chance, plain);
    let fits: &[usize] = match plain.stage {
        Stage::Nothing => &[0],
        Stage::Idle => &[3, 3, 3, 4, 2, 8],
        Stage::Ordered => &[5, 5, 6, 2],
        Stage::Taken => &[6, 6, 6, 2, 5],
        Stage::Ending => &[7, 7, 6],
        Stage::Whole => &[11, 2, 2, 6],
        Stage::Going => &[8, 9, 10, 10, 11, 11],
    };
    let number = match chance.random_range(0..10) {
        0..6 => any(chance, fits).unwrap_or(0),
        6 | 7 => usize::from(plain.needed),
        _ => chance.random_range(0..12),
    };
    let detail: Arc<str> = WORDS[chance.random_range(0..WORDS.len())].0.into();
    Ok(match number {
        0 => CopyCommand::Need,
        1 => CopyCommand::NoLongerNeeded,
        2 => CopyCommand::Look,
        3 => CopyCommand::Begin { source: source(chance)?, nonce },
        4 => CopyCommand::NoSource { hopeless: chance.random_bool(0.5), detail },
        5 => {
            let answers = [StartAnswer::Taken, StartAnswer::Unknown, StartAnswer::Refused(detail)];
            let answer = any(chance, &answers).unwrap_or(StartAnswer::Unknown);
            CopyCommand::StartAnswered { nonce, answer }
        }
        6 => CopyCommand::Observed { nonce, seen: seen(chance, plain, detail) },
        7 => CopyCommand::StopConfirmed { nonce },
        8 => CopyCommand::DiscardConfirmed { nonce: leftover(chance, plain).unwrap_or(nonce) },
        9 => CopyCommand::DeleteConfirmed { nonce },
        10 => CopyCommand::FoundThere { nonce },
        _ => CopyCommand::FoundMissing { nonce },
    })
}

/// Mostly the one that it is about.
fn nonce(chance: &mut StdRng, plain: &Plain) -> Nonce {
    let current = plain.at_hand.as_ref().map_or(plain.whole, |order| order.nonce);
    let drawn = Nonce(any(chance, &NONCES).unwrap_or(1));
    let other = leftover(chance, plain).filter(|_| chance.random_bool(0.2)).unwrap_or(drawn);
    let about = if plain.stage == Stage::Idle { 0.2 } else { 0.75 };
    if chance.random_bool(about) { current } else { other }
}

fn leftover(chance: &mut StdRng, plain: &Plain) -> Option<Nonce> {
    let all: Vec<Nonce> = plain.leftovers.keys().copied().collect();
    any(chance, &all)
}

fn seen(chance: &mut StdRng, plain: &Plain, detail: Arc<str>) -> Seen {
    let limit = plain.settings.stall_timeout.0;
    let lengths = [0, limit.saturating_sub(1), limit, limit + 1];
    let unchanged_for = DurationMs(lengths[chance.random_range(0..4)]);
    let blames = [Blame::Source, Blame::Destination, Blame::Process];
    match chance.random_range(0..10) {
        0 | 1 => Seen::Complete,
        2 => Seen::Absent,
        3..7 => Seen::Running { unchanged_for },
        _ => Seen::Failed { blame: blames[chance.random_range(0..3)], detail },
    }
}

/// Numbers of tries can be read back, and every answer says something else.
fn words(chance: &mut StdRng) -> Result<()> {
    let number = chance.random::<u64>() >> chance.random_range(0..64);
    let shown = Nonce(number).to_string();
    let read = u64::from_str_radix(&shown, 16);
    ensure!(read == Ok(number) && shown.len() == 16, "{number} is shown as {shown}");
    let blames = [Blame::Source, Blame::Destination, Blame::Process];
    for (blame, word) in blames.into_iter().zip(["source", "destination", "process"]) {
        ensure!(blame.as_str() == word, "{blame:?} is called {}", blame.as_str());
    }
    let refusals = [
        Rejection::Stale,
        Rejection::NotNeeded,
        Rejection::TooEarly,
        Rejection::ExcludedSource,
        Rejection::NonceInUse,
        Rejection::TooManyLeftovers,
    ];
    let texts: BTreeSet<String> = refusals.iter().map(Rejection::to_string).collect();
    ensure!(texts.len() == refusals.len() && !texts.contains(""), "refused with {texts:?}");
    Ok(())
}
