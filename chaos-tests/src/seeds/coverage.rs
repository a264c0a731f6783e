//! The table that a campaign is measured against: kinds of faults, and the steps of the protocol at
//! which each ought to be injected.

use cospan_actors::supervision::ActorKind;
use cospan_domain::job::job_state::PhaseKind;

use cospan_simulator::fault_kinds::{FaultKind, FaultTarget};
use cospan_simulator::stalls::KINDS;
use cospan_simulator::world::site_faults::FaultEffectCounts;
use cospan_sites::port::SiteCallKind;

/// A kind of fault, and a step at which it can happen.
pub type CoveragePair = (FaultKind, &'static str);

/// Steps of an attempt at its site.
const STEPS: [&str; 5] = ["queued", "starting", "at-gate", "running", "ended"];
/// Records that a control plane writes while it runs.
const RECORDS: [&str; 7] = [
    "job", "job-ids", "site", "copy", "file", "archive", "barrier",
];

/// Lists the steps at which a kind ought to happen; none, if only some seeds or builds come to it.
fn steps_of(kind: FaultKind) -> Vec<&'static str> {
    match kind.place() {
        FaultTarget::Call => {
            let concerned = calls().filter(|call| kind.applies_to_call(*call));
            concerned.map(SiteCallKind::as_str).collect()
        }
        FaultTarget::Site => steps_at_site(kind),
        FaultTarget::Death => match kind {
            FaultKind::KilledBeforeCall | FaultKind::KilledAfterCall => {
                calls().map(SiteCallKind::as_str).collect()
            }
            FaultKind::KilledBetweenGates => vec![SiteCallKind::DecideGate.as_str()],
            _ => RECORDS.into(),
        },
        FaultTarget::Disk => match kind {
            // Nothing is written for a barrier that could be torn.
            FaultKind::TornTail => RECORDS
                .into_iter()
                .filter(|record| *record != "barrier")
                .collect(),
            FaultKind::StoreFull => RECORDS.into_iter().chain(["start"]).collect(),
            _ => RECORDS.into(),
        },
        FaultTarget::User if kind == FaultKind::IntakeFull => vec!["command"],
        FaultTarget::User => PhaseKind::ALL
            .map(PhaseKind::as_str)
            .into_iter()
            .chain(["archived"])
            .collect(),
        FaultTarget::Actor if kind == FaultKind::ActorPanics => Vec::new(),
        FaultTarget::Actor => KINDS.map(ActorKind::as_str).into(),
        FaultTarget::Rehearsal => Vec::new(),
    }
}

fn steps_at_site(kind: FaultKind) -> Vec<&'static str> {
    match kind {
        FaultKind::NodeDown | FaultKind::SiteDown => vec!["starting", "at-gate", "running"],
        FaultKind::Stale => STEPS.into(),
        FaultKind::SiteClock => vec!["at-gate", "running", "ended"],
        FaultKind::Drained => vec!["queued"],
        FaultKind::Forgets => vec!["queued", "starting", "at-gate", "running"],
        FaultKind::Link | FaultKind::Corrupts | FaultKind::DiskFull => vec!["copying"],
        FaultKind::LosesLeases => vec!["granted", "confirmed"],
        // The others refuse calls: they affect whatever is at the site.
        _ => STEPS.into_iter().chain(["copying"]).collect(),
    }
}

/// Lists the calls to a site that a control plane makes by itself.
fn calls() -> impl Iterator<Item = SiteCallKind> {
    // No scenario takes uploads.
    let asked_for = [
        SiteCallKind::Read,
        SiteCallKind::RoundTrip,
        SiteCallKind::Upload,
    ];
    SiteCallKind::ALL
        .into_iter()
        .filter(move |call| !asked_for.contains(call))
}

/// Lists all pairs, each once.
pub fn pairs() -> Vec<CoveragePair> {
    let kinds = FaultKind::ALL.iter();
    kinds
        .flat_map(|kind| steps_of(*kind).into_iter().map(|step| (*kind, step)))
        .collect()
}

/// The coverage of a kind of fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fared {
    pub kind: FaultKind,
    /// Number of faults with an effect.
    pub strikes: u64,
    /// Number of steps at which it ought to happen.
    pub steps: usize,
    /// Steps at which it never did.
    pub missed: Vec<&'static str>,
}

/// Lists the kinds of the table, in its order, with their coverage.
pub fn coverage_of(struck: &FaultEffectCounts) -> Vec<Fared> {
    let mut kinds: Vec<Fared> = Vec::new();
    for (kind, step) in pairs() {
        if kinds.last().is_none_or(|fared| fared.kind != kind) {
            kinds.push(Fared {
                kind,
                strikes: 0,
                steps: 0,
                missed: Vec::new(),
            });
        }
        let Some(fared) = kinds.last_mut() else {
            continue;
        };
        let strikes = struck.get(&(kind, step)).copied().unwrap_or(0);
        fared.strikes += strikes;
        fared.steps += 1;
        if strikes == 0 {
            fared.missed.push(step);
        }
    }
    kinds
}

/// Returns the share of the pairs that happened at least once.
pub fn covered_share(kinds: &[Fared]) -> f64 {
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
        let kinds = coverage_of(&FaultEffectCounts::new());
        assert_eq!(
            kinds.len(),
            kinds
                .iter()
                .map(|fared| fared.kind)
                .collect::<BTreeSet<_>>()
                .len()
        );
        assert_eq!(
            kinds.iter().map(|kind| kind.steps).sum::<usize>(),
            all.len()
        );
    }

    #[test]
    fn the_share_counts_pairs_and_not_strikes() {
        let all = pairs();
        let struck = all
            .iter()
            .take(all.len() / 2)
            .map(|pair| (*pair, 1_000))
            .collect();
        let expected = (all.len() / 2) as f64 / all.len() as f64;
        assert!((covered_share(&coverage_of(&struck)) - expected).abs() < 1e-9);
    }
}
