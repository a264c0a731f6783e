//! Counts of the kills in each state of jobs.

use std::collections::BTreeMap;
use std::fmt;

/// States that a job leaves again.
pub const LIVING: [&str; 7] = [
    "queued",
    "placed",
    "claiming",
    "starting",
    "running",
    "collecting",
    "aborting",
];

/// Kills by the states of the jobs that were in flight.
#[derive(Debug, Clone, Default)]
pub struct KillTable {
    /// Kills at which at least one job was in the state, with enough jobs in flight.
    pub kills: BTreeMap<String, u32>,
    /// Jobs that were in the state, over all kills.
    pub jobs: BTreeMap<String, u64>,
    /// Kills with fewer jobs in flight than asked for.
    pub sparse: u32,
}

impl KillTable {
    /// Counts one kill; `states`: of the jobs in flight. Returns false if there were too few.
    pub fn count(&mut self, states: &[String], least: usize) -> bool {
        let living: Vec<&String> = states
            .iter()
            .filter(|state| LIVING.contains(&state.as_str()))
            .collect();
        if living.len() < least {
            self.sparse += 1;
            return false;
        }
        for state in LIVING {
            let found = living
                .iter()
                .filter(|other| other.as_str() == state)
                .count() as u64;
            if found > 0 {
                *self.kills.entry(state.into()).or_default() += 1;
                *self.jobs.entry(state.into()).or_default() += found;
            }
        }
        true
    }

    /// Lists states with less than `least` kills.
    pub fn rare(&self, least: u32) -> Vec<&'static str> {
        LIVING
            .into_iter()
            .filter(|state| self.kills.get(*state).copied().unwrap_or(0) < least)
            .collect()
    }
}

impl fmt::Display for KillTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12} {:>6} {:>8}", "state", "kills", "jobs")?;
        for state in LIVING {
            let kills = self.kills.get(state).copied().unwrap_or(0);
            let jobs = self.jobs.get(state).copied().unwrap_or(0);
            writeln!(f, "{state:<12} {kills:>6} {jobs:>8}")?;
        }
        write!(
            f,
            "kills with too few jobs in flight, not counted: {}",
            self.sparse
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_with_few_jobs_in_flight_does_not_count() {
        let mut table = KillTable::default();
        let states = |n: usize| vec!["running".to_owned(); n];
        assert!(!table.count(&states(19), 20));
        assert!(table.count(&states(20), 20));
        assert_eq!(table.kills["running"], 1);
        assert_eq!(table.jobs["running"], 20);
        assert!(table.rare(1).contains(&"queued") && !table.rare(1).contains(&"running"));
    }
}
