//! Draws jobs of the parallel runner, and judges whether each of their components was given its own
//! place and all others as the world itself knows them.

use std::collections::BTreeMap;

use cospan_domain::ids::{AttemptTag, ComponentIndex, JobId, RunnerName, SiteName};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::RoundPeer;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::seed_scenario::DrawnJob;
use cospan_simulator::world::attempt::host_of;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// Number of the random stream.
const PEERS: u64 = 0x7065_6572_7300;
const PARALLEL: &str = "parallel";
/// The host of a component whose payload is over already.
const GONE: &str = "-";

/// Has some jobs run by the parallel runner, in half of the runs. Its components depend on each
/// other: none is restarted alone.
pub(super) fn draw_peers(seed: u64, number: usize, job: &DrawnJob, spec: &mut JobSpec) {
    let exists = StdRng::seed_from_u64(seed ^ PEERS).random_bool(0.5);
    let mut chance = StdRng::seed_from_u64(seed ^ PEERS ^ (number as u64 + 1).rotate_right(16));
    let together = !job.rare_options.apart && job.rare_options.last_after == DurationMs::ZERO;
    if exists && together && chance.random_bool(0.4) {
        spec.run.runner = RunnerName::new(PARALLEL).ok();
    }
}

/// Returns true if its components know each other.
pub(super) fn is_parallel(spec: &JobSpec) -> bool {
    spec.run
        .runner
        .as_ref()
        .is_some_and(|runner| runner.as_str() == PARALLEL)
}

/// The world's view of an attempt.
#[derive(Debug, Default)]
struct KnownAttempt<'a> {
    place: Option<(&'a SiteName, u32)>,
    /// Time from which on nothing of it is left.
    over: Option<Timestamp>,
    told: Option<(ComponentIndex, &'a [RoundPeer])>,
}

/// Lists attempts whose gate was opened and that were given a wrong place of their own, or wrong
/// places of others. `parallel` says whether a job's runner is the parallel one, if known.
pub(super) fn misled_attempts<'a>(
    entries: impl Iterator<Item = &'a WorldLedgerEntry> + Clone,
    parallel: impl Fn(JobId) -> Option<bool>,
) -> Vec<String> {
    let mut known: BTreeMap<AttemptTag, KnownAttempt<'_>> = BTreeMap::new();
    for WorldLedgerEntry {
        at,
        site,
        tag,
        deed,
    } in entries.clone()
    {
        let of = known.entry(*tag).or_default();
        match deed {
            WorldLedgerEvent::Submitted { processors } => of.place = Some((site, *processors)),
            WorldLedgerEvent::Told(rank, peers) => of.told = Some((*rank, peers)),
            WorldLedgerEvent::Exited(_)
            | WorldLedgerEvent::NotStarted
            | WorldLedgerEvent::Terminated
            | WorldLedgerEvent::WallTime
            | WorldLedgerEvent::KilledByNode
            | WorldLedgerEvent::Forgotten
            | WorldLedgerEvent::Left => of.over = of.over.or(Some(*at)),
            _ => {}
        }
    }
    let opened = entries.filter(|entry| matches!(entry.deed, WorldLedgerEvent::Opened(..)));
    let found = opened.filter_map(|WorldLedgerEntry { at, tag, .. }| {
        let wrong = match (parallel(tag.job)?, known.get(tag)?.told) {
            (false, None) => return None,
            (false, Some(_)) => "others although it did not ask".to_owned(),
            (true, None) => "nobody".to_owned(),
            (true, Some((rank, _))) if rank != tag.component => format!("rank {rank}"),
            (true, Some((_, peers))) => wrong_peer(*tag, peers, *at, &known)?,
        };
        Some(format!("{tag} was told of {wrong}"))
    });
    found.collect()
}

fn wrong_peer(
    tag: AttemptTag,
    peers: &[RoundPeer],
    at: Timestamp,
    known: &BTreeMap<AttemptTag, KnownAttempt<'_>>,
) -> Option<String> {
    let wrong = (0..)
        .map(ComponentIndex)
        .zip(peers)
        .find(|(component, peer)| {
            let of = AttemptTag {
                component: *component,
                attempt: peer.attempt,
                ..tag
            };
            let truth = known.get(&of);
            let is_over = truth.and_then(|of| of.over).is_some_and(|over| over <= at);
            let is_there = peer.host == host_of(of) || (peer.host == GONE && is_over);
            truth.and_then(|of| of.place) != Some((&peer.site, peer.processors)) || !is_there
        });
    wrong.map(|(component, peer)| format!("{peer:?} as component {component}"))
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Attempt, InstanceId, Round};

    use super::*;

    fn tag(component: u32) -> AttemptTag {
        let instance: InstanceId = "abcdefgh".parse().unwrap();
        AttemptTag {
            instance,
            job: JobId(1),
            component: ComponentIndex(component),
            attempt: Attempt(2),
        }
    }

    fn peer(component: u32) -> RoundPeer {
        let site = SiteName::new(["delft", "leiden"][component as usize]).unwrap();
        let host = host_of(tag(component));
        RoundPeer {
            attempt: Attempt(2),
            site,
            host,
            processors: component + 1,
        }
    }

    /// Two components; the gate of the second is opened when the first is over.
    fn ledger(told: &dyn Fn(u32) -> Option<WorldLedgerEvent>) -> Vec<WorldLedgerEntry> {
        let entry = |at, component: u32, deed| {
            let at = Timestamp(at);
            let site = peer(component).site;
            WorldLedgerEntry {
                at,
                site,
                tag: tag(component),
                deed,
            }
        };
        let submitted = |of: u32| entry(1, of, WorldLedgerEvent::Submitted { processors: of + 1 });
        let mut entries = vec![submitted(0), submitted(1)];
        for (component, at) in [(0, 5), (1, 9)] {
            entries.extend(told(component).map(|told| entry(at, component, told)));
            entries.push(entry(
                at,
                component,
                WorldLedgerEvent::Opened(Round(1), vec![Attempt(2); 2]),
            ));
            entries.push(entry(at + 3, component, WorldLedgerEvent::Exited(0)));
        }
        entries
    }

    fn hosts(component: u32) -> Option<WorldLedgerEvent> {
        Some(WorldLedgerEvent::Told(
            ComponentIndex(component),
            vec![peer(0), peer(1)],
        ))
    }

    #[test]
    fn what_agrees_with_the_world_is_right_and_an_ended_peer_needs_no_host() {
        let judged = |told: &dyn Fn(u32) -> Option<WorldLedgerEvent>, parallel| {
            misled_attempts(ledger(told).iter(), |_| Some(parallel))
        };
        assert!(judged(&hosts, true).is_empty() && judged(&|_| None, false).is_empty());
        let gone = RoundPeer {
            host: GONE.into(),
            ..peer(0)
        };
        assert!(
            judged(
                &|component| match component {
                    1 => Some(WorldLedgerEvent::Told(
                        ComponentIndex(1),
                        vec![gone.clone(), peer(1)],
                    )),
                    _ => hosts(component),
                },
                true
            )
            .is_empty()
        );
        assert_eq!(judged(&hosts, false).len(), 2, "nobody asked");
        assert_eq!(judged(&|_| None, true).len(), 2, "nobody was told");
    }

    #[test]
    fn another_rank_site_host_attempt_or_size_is_seen() {
        let here = peer(0);
        let other = peer(1);
        let wrong = [
            RoundPeer {
                site: other.site.clone(),
                ..here.clone()
            },
            RoundPeer {
                host: other.host.clone(),
                ..here.clone()
            },
            RoundPeer {
                host: GONE.into(),
                ..here.clone()
            },
            RoundPeer {
                attempt: Attempt(1),
                ..here.clone()
            },
            RoundPeer {
                processors: 7,
                ..here.clone()
            },
        ];
        for wrong in wrong {
            let found = misled_attempts(
                ledger(&|component| match component {
                    0 => Some(WorldLedgerEvent::Told(
                        ComponentIndex(0),
                        vec![wrong.clone(), peer(1)],
                    )),
                    _ => hosts(component),
                })
                .iter(),
                |_| Some(true),
            );
            assert_eq!(found.len(), 1, "{wrong:?}: {found:?}");
        }
        assert_eq!(
            misled_attempts(ledger(&|component| hosts(1 - component)).iter(), |_| Some(
                true
            ))
            .len(),
            2
        );
    }
}
