//! Which kinds of trouble ought to strike at which steps of the protocol: the table that
//! a campaign is measured against.

use cospan_domain::job::state::PhaseKind;

use cospan_simulator::call_faults::{CALLS, CallFault};
use cospan_simulator::stalls::{FULL, KINDS, STALLS};
use cospan_simulator::world::trouble::Struck;

/// A kind of trouble, and a step that it can strike at.
pub type Pair = (&'static str, &'static str);

/// Steps of an attempt at its site.
const STEPS: [&str; 5] = ["queued", "starting", "at-gate", "running", "ended"];
/// Trouble that turns callers away: it strikes whatever stands there.
const CLOSED: [&str; 4] = ["silent", "cut-off", "frozen", "revoked"];
/// What a control plane writes while it runs.
const RECORDS: [&str; 7] = ["job", "job-ids", "site", "copy", "file", "archive", "barrier"];
/// Trouble of the disk of the store.
const DISK: [&str; 5] = ["sync-fails", "lost-suffix", "torn-tail", "write-fails", "store-full"];

/// All pairs, each once.
pub fn pairs() -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for fault in CallFault::ALL {
        let calls = CALLS.into_iter().filter(|call| fault.concerns(call));
        pairs.extend(calls.map(|call| (fault.as_str(), call)));
    }
    for kind in CLOSED {
        pairs.extend(STEPS.into_iter().chain(["copying"]).map(|step| (kind, step)));
    }
    pairs.extend(STEPS.map(|step| ("stale", step)));
    pairs.extend(["at-gate", "running", "ended"].map(|step| ("site-clock", step)));
    pairs.push(("drained", "queued"));
    pairs.extend(["queued", "starting", "at-gate", "running"].map(|step| ("forgets", step)));
    for kind in ["node-down", "site-down"] {
        pairs.extend(["starting", "at-gate", "running"].map(|step| (kind, step)));
    }
    pairs.extend(["link", "corrupts", "disk-full"].map(|kind| (kind, "copying")));
    for kind in ["killed-before-call", "killed-after-call"] {
        pairs.extend(CALLS.map(|call| (kind, call)));
    }
    pairs.push(("killed-between-gates", "decide-gate"));
    for kind in ["killed-before-append", "killed-after-append"].into_iter().chain(DISK) {
        pairs.extend(RECORDS.map(|record| (kind, record)));
    }
    // Nothing is written for a barrier that could be torn.
    pairs.retain(|pair| *pair != ("torn-tail", "barrier"));
    pairs.push(("store-full", "start"));
    for kind in ["submitted-again", "cancel", "abandon", "freeze", "thaw", "raise"] {
        let phases = PhaseKind::ALL.map(PhaseKind::as_str);
        pairs.extend(phases.into_iter().chain(["archived"]).map(|phase| (kind, phase)));
    }
    pairs.push(("intake-full", "command"));
    for kind in [STALLS, FULL] {
        pairs.extend(KINDS.map(|actor| (kind, actor.as_str())));
    }
    pairs
}

/// How a kind of trouble fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// How often it struck with effect.
    pub strikes: u64,
    /// Steps that it ought to strike at.
    pub steps: usize,
    /// Those at which it never did.
    pub missed: Vec<&'static str>,
}

/// The kinds of the table, in its order, as they struck.
pub fn kinds(struck: &Struck) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (name, step) in pairs() {
        if kinds.last().is_none_or(|kind| kind.name != name) {
            kinds.push(Kind { name, strikes: 0, steps: 0, missed: Vec::new() });
        }
        let Some(kind) = kinds.last_mut() else { continue };
        let strikes = struck.get(&(name, step)).copied().unwrap_or(0);
        kind.strikes += strikes;
        kind.steps += 1;
        if strikes == 0 {
            kind.missed.push(step);
        }
    }
    kinds
}

/// The share of the pairs that struck at least once.
pub fn share(kinds: &[Kind]) -> f64 {
    let all: usize = kinds.iter().map(|kind| kind.steps).sum();
    let missed: usize = kinds.iter().map(|kind| kind.missed.len()).sum();
    (all - missed) as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_is_listed_once_and_kinds_stand_together() {
        let all = pairs();
        assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len());
        let kinds = kinds(&Struck::new());
        assert_eq!(kinds.len(), kinds.iter().map(|k| k.name).collect::<BTreeSet<_>>().len());
        assert_eq!(kinds.iter().map(|kind| kind.steps).sum::<usize>(), all.len());
    }

    #[test]
    fn the_share_counts_pairs_and_not_strikes() {
        let all = pairs();
        let struck = all.iter().take(all.len() / 2).map(|pair| (*pair, 1_000)).collect();
        let expected = (all.len() / 2) as f64 / all.len() as f64;
        assert!((share(&kinds(&struck)) - expected).abs() < 1e-9);
    }
}
