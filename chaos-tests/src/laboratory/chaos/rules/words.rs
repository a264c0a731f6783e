//! Words that people and other programs read: what the guide and the reference call them.

use std::collections::BTreeSet;

use cospan_domain::job::spec::Priority;
use cospan_domain::job::state::{Ending, PhaseKind, Run};
use cospan_domain::runner::Signal;
use cospan_domain::site::state::Breaker;
use cospan_domain::text::{self, MAX_BYTES};
use cospan_domain::units::Timestamp;
use rand::Rng;
use rand::rngs::StdRng;

use super::records::{drawn, moment};

const PHASES: [&str; 10] = [
    "queued",
    "placed",
    "claiming",
    "starting",
    "running",
    "collecting",
    "aborting",
    "finished",
    "failed",
    "cancelled",
];
const CLASSES: [&str; 4] = ["super-high", "high", "low", "super-low"];
const SIGNALS: [(Signal, &str); 5] = [
    (Signal::Usr1, "USR1"),
    (Signal::Usr2, "USR2"),
    (Signal::Term, "TERM"),
    (Signal::Int, "INT"),
    (Signal::Hup, "HUP"),
];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let trips = chance.random_range(1..5);
    let mut said = vec![];
    said.extend(PHASES.into_iter().zip(PhaseKind::ALL).map(|(word, is)| (word, is.as_str())));
    said.extend(CLASSES.into_iter().zip(Priority::ALL).map(|(word, is)| (word, is.as_str())));
    said.extend(SIGNALS.iter().map(|(is, word)| (*word, is.as_str())));
    let breakers = breakers(moment(chance), trips);
    said.extend(breakers.iter().map(|(is, word)| (*word, is.as_str())));
    let job = drawn(chance, 1).ok();
    let runs = job.iter().flat_map(|job| &job.components);
    said.extend(runs.map(|component| (word(&component.run), component.run.as_str())));
    let mut found: Vec<String> = (said.iter().filter(|(word, is)| word != is))
        .map(|(word, is)| format!("{word} is called {is:?}"))
        .collect();
    found.extend(kept(chance));
    let shown = SIGNALS.iter().filter(|(is, word)| is.to_string() != *word);
    found.extend(shown.map(|(is, word)| format!("{word} is shown as {is}")));
    let counted = breakers.iter().map(|(is, _)| is.trips()).collect::<Vec<_>>();
    if counted != [0, trips, trips] {
        found.push(format!("{breakers:?} were open {counted:?} times"));
    }
    found
}

/// What a site says is kept on one line, without spaces around it, and not all of it if it is
/// long.
fn kept(chance: &mut StdRng) -> Option<String> {
    let letters = ['a', '\u{e9}', ' ', '\n'];
    let lengths = [5, MAX_BYTES / 2, MAX_BYTES, MAX_BYTES + 1, 2 * MAX_BYTES];
    let (length, kinds) = (lengths[chance.random_range(0..5)], chance.random_range(1..=4));
    let said: String = (0..length).map(|_| letters[chance.random_range(0..kinds)]).collect();
    let line = said.trim().replace('\n', " ");
    let is = text::kept(&said.as_str().into());
    let right = match line.len() <= MAX_BYTES {
        true => *is == *line,
        false => {
            let begun = is.trim_end_matches("...").trim_end_matches('\u{2026}');
            // As much as fits beside the mark, which no letter is cut for.
            let much = is.len() + 1 >= MAX_BYTES && is.len() - begun.len() <= 3;
            is.len() <= MAX_BYTES && much && line.starts_with(begun.trim_end())
        }
    };
    (!right).then(|| format!("{said:?} is kept as {is:?}"))
}

fn breakers(since: Timestamp, trips: u32) -> [(Breaker, &'static str); 3] {
    let running = BTreeSet::new();
    [
        (Breaker::Closed, "closed"),
        (Breaker::Open { since, probe_at: since, trips }, "open"),
        (Breaker::HalfOpen { since, allowed: 1, running, trips }, "half-open"),
    ]
}

/// What the guide calls the state of an attempt.
fn word(run: &Run) -> &'static str {
    match run {
        Run::Idle => "idle",
        Run::Intended { .. } => "intended",
        Run::Uncertain { .. } => "uncertain",
        Run::Submitted { .. } => "submitted",
        Run::AtGate { .. } => "at-gate",
        Run::Opened { .. } => "opened",
        Run::Running { .. } => "running",
        Run::Ended { how: Ending::Succeeded, .. } => "succeeded",
        Run::Ended { how: Ending::Failed(_), .. } => "failed",
        Run::Ended { how: Ending::NeverRan(_), .. } => "never-ran",
        Run::Ended { how: Ending::Lost(_), .. } => "lost",
        Run::Ended { how: Ending::Killed, .. } => "killed",
        Run::Ended { how: Ending::Abandoned, .. } => "abandoned",
    }
}
