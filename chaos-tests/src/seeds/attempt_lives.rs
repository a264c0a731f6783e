//! The life of each attempt at its site, as the world's ledger has it, and attempts that lived on
//! after the control plane held them to be over.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, JobId, Round};
use cospan_domain::units::Timestamp;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// The life of one attempt as the world saw it.
#[derive(Debug, Default, Clone)]
pub(super) struct AttemptLife {
    pub(super) started: Option<Timestamp>,
    pub(super) ready: Option<Timestamp>,
    pub(super) opened: Option<(Timestamp, Round, Vec<Attempt>)>,
    pub(super) began: Vec<Timestamp>,
    pub(super) ended: Option<(Timestamp, WorldLedgerEvent)>,
    pub(super) submitted: Option<Timestamp>,
    pub(super) processors: u32,
    pub(super) left: Option<Timestamp>,
    pub(super) voided: Option<Timestamp>,
    pub(super) input_missing: bool,
}

pub(super) fn attempt_lives<'a>(
    entries: impl Iterator<Item = &'a WorldLedgerEntry>,
) -> BTreeMap<AttemptTag, AttemptLife> {
    let mut lives: BTreeMap<AttemptTag, AttemptLife> = BTreeMap::new();
    for entry in entries {
        let life = lives.entry(entry.tag).or_default();
        match &entry.deed {
            WorldLedgerEvent::Submitted { processors } => {
                life.submitted = Some(entry.at);
                life.processors = *processors;
            }
            WorldLedgerEvent::Left => life.left = Some(entry.at),
            // A gate that is closed stays closed: a late order may take the name of a directory
            // that was removed, with nothing behind it.
            WorldLedgerEvent::Voided | WorldLedgerEvent::HeldTooLong => {
                life.voided.get_or_insert(entry.at);
            }
            WorldLedgerEvent::InputMissing => life.input_missing = true,
            WorldLedgerEvent::Started => drop(life.started.get_or_insert(entry.at)),
            // Nobody comes to a closed gate, so this one is new.
            WorldLedgerEvent::Ready => {
                life.ready = Some(entry.at);
                life.voided = None;
            }
            WorldLedgerEvent::Opened(round, peers) => {
                life.opened = Some((entry.at, *round, peers.clone()));
            }
            WorldLedgerEvent::Began => life.began.push(entry.at),
            WorldLedgerEvent::Exited(_)
            | WorldLedgerEvent::Terminated
            | WorldLedgerEvent::WallTime
            | WorldLedgerEvent::KilledByNode => {
                life.ended = Some((entry.at, entry.deed.clone()));
            }
            _ => {}
        }
    }
    lives
}

/// Lists attempts that their sites refused when they first came. Such a request may come a second
/// time and be granted then: its job knows nothing of that, and its gate is never opened.
pub(super) fn refused_at_first<'a>(
    entries: impl Iterator<Item = &'a WorldLedgerEntry>,
) -> BTreeSet<AttemptTag> {
    let mut first: BTreeMap<AttemptTag, bool> = BTreeMap::new();
    for entry in entries {
        match &entry.deed {
            WorldLedgerEvent::Refused => first.entry(entry.tag).or_insert(true),
            WorldLedgerEvent::Submitted { .. } => first.entry(entry.tag).or_insert(false),
            _ => continue,
        };
    }
    let refused = first.into_iter().filter(|(_, refused)| *refused);
    refused.map(|(tag, _)| tag).collect()
}

/// Checks that an attempt that is over uses nothing any more. One whose directory was taken before
/// its wrapper came may still be in the queue, and ends as soon as it is started; neither it nor a
/// submission that arrives later ever gets as far as its gate. One that was refused has no
/// directory to take: if its request comes a second time and is granted then, perhaps before its end
/// is durable, it waits at its gate until it gives up, and never begins.
pub(super) fn still_alive(
    lives: &BTreeMap<AttemptTag, AttemptLife>,
    over: &BTreeMap<(JobId, ComponentIndex, Attempt), Timestamp>,
    refused: &BTreeSet<AttemptTag>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (tag, life) in lives {
        let key = (tag.job, tag.component, tag.attempt);
        let Some(over) = over.get(&key) else {
            continue;
        };
        let lived_on = life.submitted.is_some_and(|at| at <= *over)
            && life.left.is_none_or(|left| left > *over)
            && life.voided.is_none_or(|voided| voided > *over);
        let came_later = life.ready.is_some_and(|ready| ready > *over);
        let came_twice = refused.contains(tag) && life.began.is_empty();
        if (lived_on || came_later) && !came_twice {
            found.push(format!("{tag}, since {}", over.0));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{InstanceId, SiteName};

    use super::*;

    const KEY: (JobId, ComponentIndex, Attempt) = (JobId(122), ComponentIndex(1), Attempt(2));

    /// Violations of an attempt that the control plane held to be over at a time.
    fn violations(over: u64, events: &[(u64, WorldLedgerEvent)]) -> usize {
        let tag = AttemptTag {
            instance: InstanceId::from_random(7),
            job: KEY.0,
            component: KEY.1,
            attempt: KEY.2,
        };
        let entries: Vec<WorldLedgerEntry> = events
            .iter()
            .map(|(at, deed)| WorldLedgerEntry {
                at: Timestamp(*at),
                site: SiteName::new("delft").unwrap(),
                tag,
                deed: deed.clone(),
            })
            .collect();
        let over = BTreeMap::from([(KEY, Timestamp(over))]);
        let refused = refused_at_first(entries.iter());
        still_alive(&attempt_lives(entries.iter()), &over, &refused).len()
    }

    #[test]
    fn attempt_is_over_since_its_gate_was_first_closed() {
        let closed_again = [
            (10, WorldLedgerEvent::Submitted { processors: 7 }),
            (10, WorldLedgerEvent::Started),
            (20, WorldLedgerEvent::Voided),
            (40, WorldLedgerEvent::Left),
            (100, WorldLedgerEvent::Removed),
            (110, WorldLedgerEvent::Voided),
            (400, WorldLedgerEvent::Removed),
        ];
        assert_eq!(violations(30, &closed_again), 0);
        assert_eq!(
            violations(15, &closed_again),
            1,
            "its gate was not closed yet"
        );
    }

    #[test]
    fn only_what_its_site_refused_may_come_once_more_and_never_begins() {
        let came = [
            (10, WorldLedgerEvent::Refused),
            (40, WorldLedgerEvent::Submitted { processors: 7 }),
            (50, WorldLedgerEvent::Ready),
        ];
        assert_eq!(violations(20, &came), 0);
        assert_eq!(violations(45, &came), 0, "its end was durable later");
        assert_eq!(violations(20, &came[1..]), 1, "its site never refused it");
        let began = [&came[..], &[(60, WorldLedgerEvent::Began)]].concat();
        assert_eq!(violations(20, &began), 1);
        let twice = [
            (5, WorldLedgerEvent::Submitted { processors: 7 }),
            (10, WorldLedgerEvent::Refused),
            (30, WorldLedgerEvent::Ready),
        ];
        assert_eq!(violations(20, &twice), 1, "its first request was granted");
    }

    #[test]
    fn gate_that_an_attempt_comes_to_is_new() {
        let came_later = [
            (1, WorldLedgerEvent::Voided),
            (5, WorldLedgerEvent::Removed),
            (10, WorldLedgerEvent::Submitted { processors: 7 }),
            (20, WorldLedgerEvent::Ready),
            (40, WorldLedgerEvent::Left),
        ];
        assert_eq!(
            violations(30, &came_later),
            1,
            "it was at a gate of its own"
        );
        let closed_anew = [
            &came_later[..4],
            &[(25, WorldLedgerEvent::Voided), (40, WorldLedgerEvent::Left)],
        ];
        assert_eq!(violations(30, &closed_anew.concat()), 0);
    }
}
