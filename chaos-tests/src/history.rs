//! What the server says happened to a job, as rounds.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

/// One event of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// When it was decided, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its name.
    pub name: String,
    /// The component.
    pub component: Option<u32>,
    /// The round.
    pub round: Option<u32>,
    /// More, for people.
    pub detail: String,
}

/// One co-allocation of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Its number.
    pub number: u32,
    /// Components that were ready, by now or when the start was decided.
    pub ready: BTreeSet<u32>,
    /// When the start was decided.
    pub go_ms: Option<u64>,
    /// Attempts at the decision, by component.
    pub attempts: BTreeMap<u32, u32>,
    /// When it was aborted.
    pub aborted_ms: Option<u64>,
}

/// Reads the events of a job from the server's answer.
///
/// # Errors
/// An event has no name, or its time is none.
pub fn events(history: &Value) -> Result<Vec<Event>> {
    let list = history["events"].as_array().context("a history without events")?;
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    list.iter()
        .map(|event| {
            Ok(Event {
                at_ms: time_ms(&event["at"])?,
                name: event["event"].as_str().context("an event without a name")?.into(),
                component: number(&event["component"]),
                round: number(&event["round"]),
                detail: event["detail"].as_str().unwrap_or_default().into(),
            })
        })
        .collect()
}

/// An instant of the interface, in milliseconds since 1970.
///
/// # Errors
/// It is none.
pub fn time_ms(value: &Value) -> Result<u64> {
    let text = value.as_str().context("an event without a time")?;
    let at = humantime::parse_rfc3339_weak(text)?;
    let since = at.duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

/// Follows the events of a job with so many components.
pub fn rounds(components: u32, events: &[Event]) -> Vec<Round> {
    let mut attempts: BTreeMap<u32, u32> = (0..components).map(|index| (index, 0)).collect();
    let mut rounds: Vec<Round> = Vec::new();
    for event in events {
        if event.name == "JobPlaced" {
            rounds.push(Round { number: event.round.unwrap_or(0), ..Round::default() });
            continue;
        }
        let Some(round) = rounds.last_mut() else { continue };
        match (event.name.as_str(), event.component) {
            ("ClaimBegun", _) => attempts.values_mut().for_each(|attempt| *attempt += 1),
            ("AttemptRenewed", Some(index)) => {
                *attempts.entry(index).or_default() += 1;
                round.ready.remove(&index);
            }
            // Seen late, after the decision, it proves nothing.
            ("ComponentReady", Some(index)) if round.go_ms.is_none() => {
                round.ready.insert(index);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_over_rounds_and_renewals() {
        let event = |name: &str, component: Option<u32>| Event {
            at_ms: 5,
            name: name.into(),
            component,
            round: (name == "JobPlaced").then_some(1),
            detail: String::new(),
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
        let rounds = rounds(2, &events);
        assert_eq!(rounds[0].go_ms, None);
        assert_eq!(rounds[0].aborted_ms, Some(5));
        assert_eq!(rounds[1].attempts, BTreeMap::from([(0, 2), (1, 3)]));
        assert_eq!(rounds[1].ready, BTreeSet::from([0, 1]));
    }
}
