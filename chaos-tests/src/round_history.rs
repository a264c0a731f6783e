//! Reads the history that the server has of a job, as rounds.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryEvent {
    /// Time of the decision, in milliseconds since 1970.
    pub at_ms: u64,
    pub name: String,
    pub component: Option<u32>,
    /// Components, where it is about several.
    pub components: Vec<u32>,
    pub round: Option<u32>,
    /// Sites, by component where several are placed.
    pub sites: Vec<String>,
    /// More, for people.
    pub detail: String,
}

/// A round of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRound {
    pub number: u32,
    /// Components that were ready, by now or when the start was decided.
    pub ready: BTreeSet<u32>,
    /// Time of the decision to start.
    pub go_ms: Option<u64>,
    /// Attempts at the decision, by component.
    pub attempts: BTreeMap<u32, u32>,
    /// Times at which components that were restarted alone were ready, by component and attempt:
    /// their gates are opened from then on.
    pub restarted: BTreeMap<(u32, u32), u64>,
    /// Time of the abort.
    pub aborted_ms: Option<u64>,
}

impl JobRound {
    /// Returns the earliest time at which an attempt may start, if it may.
    pub fn earliest_start(&self, component: u32, attempt: u32) -> Option<u64> {
        if self.attempts.get(&component) == Some(&attempt) {
            self.go_ms
        } else {
            self.restarted.get(&(component, attempt)).copied()
        }
    }

    /// Returns the latest attempt of each component.
    pub fn latest_attempts(&self) -> BTreeMap<u32, u32> {
        let mut latest = self.attempts.clone();
        latest.extend(self.restarted.keys().copied());
        latest
    }
}

/// Reads the events of a job from the server's answer.
///
/// # Errors
/// An event has no name, or its time is none.
pub fn events(history: &Value) -> Result<Vec<HistoryEvent>> {
    let list = history["events"]
        .as_array()
        .context("a history without events")?;
    list.iter()
        .map(|event| {
            Ok(HistoryEvent {
                at_ms: parse_time_ms(&event["at"])?,
                name: event["event"]
                    .as_str()
                    .context("an event without a name")?
                    .into(),
                component: small_number(&event["component"]),
                components: event["components"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(small_number)
                    .collect(),
                round: small_number(&event["round"]),
                sites: texts(&event["sites"]),
                detail: event["detail"].as_str().unwrap_or_default().into(),
            })
        })
        .collect()
}

fn small_number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Parses an instant of the interface, in milliseconds since 1970.
///
/// # Errors
/// It is none.
pub fn parse_time_ms(value: &Value) -> Result<u64> {
    let text = value.as_str().context("an event without a time")?;
    let at = humantime::parse_rfc3339_weak(text)?;
    let since = at.duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

/// Groups the events of a job into rounds; each round of a flexible job has components of its own.
pub fn rounds(flexible: bool, events: &[HistoryEvent]) -> Vec<JobRound> {
    let mut attempts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut rounds: Vec<JobRound> = Vec::new();
    for event in events {
        if event.name == "JobPlaced" {
            rounds.push(JobRound {
                number: event.round.unwrap_or(0),
                ..JobRound::default()
            });
            attempts = attempts_when_placed(flexible, &attempts, event.sites.len());
            continue;
        }
        let Some(round) = rounds.last_mut() else {
            continue;
        };
        match (event.name.as_str(), event.component) {
            ("ClaimBegun", _) => attempts.values_mut().for_each(|attempt| *attempt += 1),
            ("ComponentsClaimed", _) => {
                for index in &event.components {
                    renew(&mut attempts, round, *index);
                }
            }
            ("AttemptRenewed", Some(index)) => renew(&mut attempts, round, index),
            ("ClaimGivenBack", Some(index)) => drop(round.ready.remove(&index)),
            // Seen late, after the decision, it proves nothing.
            ("ComponentReady", Some(index)) if round.go_ms.is_none() => {
                round.ready.insert(index);
            }
            ("ComponentReady", Some(index)) => {
                let attempt = attempts.get(&index).copied().unwrap_or_default();
                if round.attempts.get(&index) != Some(&attempt) {
                    round
                        .restarted
                        .entry((index, attempt))
                        .or_insert(event.at_ms);
                }
            }
            ("GoDecided", _) => {
                round.go_ms = Some(event.at_ms);
                round.attempts.clone_from(&attempts);
            }
            ("RoundAborted", _) => round.aborted_ms = Some(event.at_ms),
            _ => {}
        }
    }
    rounds
}

fn renew(attempts: &mut BTreeMap<u32, u32>, round: &mut JobRound, index: u32) {
    *attempts.entry(index).or_default() += 1;
    if round.go_ms.is_none() {
        round.ready.remove(&index);
    }
}

/// Returns the numbers of the latest attempts when a job is placed: those of another split go on
/// from the highest.
fn attempts_when_placed(
    flexible: bool,
    before: &BTreeMap<u32, u32>,
    components: usize,
) -> BTreeMap<u32, u32> {
    let last = before.values().max().copied().unwrap_or(0);
    (0..)
        .take(components)
        .map(|index| {
            if flexible {
                (index, last)
            } else {
                (index, before.get(&index).copied().unwrap_or(0))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_over_rounds_and_renewals() {
        let event = |name: &str, component: Option<u32>| HistoryEvent {
            at_ms: 5,
            name: name.into(),
            component,
            round: (name == "JobPlaced").then_some(1),
            sites: vec!["s1".into(); if name == "JobPlaced" { 2 } else { 0 }],
            ..HistoryEvent::default()
        };
        let events = [
            event("JobPlaced", None),
            event("ClaimBegun", None),
            event("AttemptRenewed", Some(1)),
            event("ComponentReady", Some(0)),
            event("RoundAborted", None),
            event("JobPlaced", None),
            event("ClaimBegun", None),
            event("ComponentReady", Some(0)),
            event("ComponentReady", Some(1)),
            event("GoDecided", None),
        ];
        let rounds = rounds(false, &events);
        assert_eq!(rounds[0].go_ms, None);
        assert_eq!(rounds[0].aborted_ms, Some(5));
        assert_eq!(rounds[1].attempts, BTreeMap::from([(0, 2), (1, 3)]));
        assert_eq!(rounds[1].ready, BTreeSet::from([0, 1]));
    }

    #[test]
    fn what_was_given_back_is_claimed_anew_and_another_split_counts_on() {
        let event =
            |name: &str, component: Option<u32>, sites: usize, claimed: &[u32]| HistoryEvent {
                at_ms: 5,
                name: name.into(),
                component,
                components: claimed.into(),
                sites: vec!["s1".into(); sites],
                ..HistoryEvent::default()
            };
        let events = [
            event("JobPlaced", None, 3, &[]),
            event("ComponentsClaimed", None, 0, &[0, 2]),
            event("ComponentReady", Some(0), 0, &[]),
            event("ComponentReady", Some(2), 0, &[]),
            event("ClaimGivenBack", Some(2), 0, &[]),
            event("ComponentsClaimed", None, 0, &[1, 2]),
            event("GoDecided", None, 0, &[]),
            event("RoundAborted", None, 0, &[]),
            event("JobPlaced", None, 2, &[]),
            event("ClaimBegun", None, 0, &[]),
            event("GoDecided", None, 0, &[]),
        ];
        let rounds = rounds(true, &events);
        assert_eq!(rounds[0].attempts, BTreeMap::from([(0, 1), (1, 1), (2, 2)]));
        assert_eq!(rounds[0].ready, BTreeSet::from([0]));
        assert_eq!(rounds[1].attempts, BTreeMap::from([(0, 3), (1, 3)]));
    }

    #[test]
    fn a_component_that_is_restarted_alone_starts_once_it_is_ready_again() {
        let event =
            |at_ms: u64, name: &str, component: Option<u32>, claimed: &[u32]| HistoryEvent {
                at_ms,
                name: name.into(),
                component,
                components: claimed.into(),
                sites: vec!["s1".into(); if name == "JobPlaced" { 2 } else { 0 }],
                ..HistoryEvent::default()
            };
        let events = [
            event(1, "JobPlaced", None, &[]),
            event(2, "ClaimBegun", None, &[]),
            event(2, "ComponentReady", Some(0), &[]),
            event(2, "ComponentReady", Some(1), &[]),
            event(3, "GoDecided", None, &[]),
            event(4, "ComponentReady", Some(0), &[]),
            event(5, "ComponentsClaimed", None, &[1]),
            event(6, "ComponentReady", Some(1), &[]),
        ];
        let round = &rounds(false, &events)[0];
        let may_start = [(0, 1), (1, 1), (1, 2), (1, 3)].map(|(c, a)| round.earliest_start(c, a));
        assert_eq!(may_start, [Some(3), Some(3), Some(6), None]);
        assert_eq!(round.latest_attempts(), BTreeMap::from([(0, 1), (1, 2)]));
        assert_eq!(
            round.ready,
            BTreeSet::from([0, 1]),
            "as it was at the decision"
        );
    }
}
