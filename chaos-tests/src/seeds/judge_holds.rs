//! Judges what jobs have at sites by what the sites themselves wrote down: a component has
//! processors with one attempt at a time, and what a claim gives back is free soon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_actors::api::CommittedView;
use cospan_domain::ids::{Attempt, ComponentIndex, InstanceId, JobId, SiteName};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Job};
use cospan_domain::site::barred_owners_record::OWN_PROBE_JOB;
use cospan_domain::units::{DurationMs, Timestamp};

use super::attempt_lives::refused_at_first;
use super::seed_scenario::{HOUR, SeedScenario};
use cospan_simulator::world::site_faults::SiteFault;
use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// Longest time until an attempt that was given back is over at its site, if nothing keeps us from
/// it.
const FREE_WITHIN: DurationMs = DurationMs(300_000);
/// The longest fault.
const TROUBLE_MAX: DurationMs = DurationMs(3 * HOUR);

/// An attempt of a job.
type HeldPart = (JobId, ComponentIndex, Attempt);

/// Claims that were given back, and attempts that were given up.
#[derive(Debug, Default)]
pub(super) struct SeenHolds {
    given_back: BTreeMap<HeldPart, Timestamp>,
    /// Time at which the control plane was last seen to do something.
    last_deed: Timestamp,
    /// Their sites did not answer, and their jobs did not wait: they may live on.
    abandoned: BTreeSet<HeldPart>,
}

impl SeenHolds {
    /// Starts over for another control plane: nobody was there to end what was given back just now,
    /// and what became durable right before the death was seen by nobody.
    pub(super) fn begin_life(&mut self, view: &CommittedView) {
        let died_after = self.last_deed;
        self.given_back
            .retain(|_, at| *at + FREE_WITHIN < died_after);
        view.jobs.values().for_each(|job| self.learn_job(job));
    }

    /// Records what happened to a job.
    pub(super) fn record_events(&mut self, job: &Job, events: &[JobEvent], now: Timestamp) {
        self.last_deed = now;
        for event in events {
            match &event.what {
                JobEventKind::ClaimGivenBack { component } => {
                    let Some(given) = job.components.get(component.0 as usize) else {
                        continue;
                    };
                    self.given_back
                        .entry((job.id, *component, given.attempt))
                        .or_insert(now);
                }
                _ => self.learn_event(job.id, event),
            }
        }
        if job.held.is_some() {
            // Nothing is done for it until an operator releases it.
            self.given_back.retain(|(id, ..), _| *id != job.id);
        }
        self.learn_job(job);
    }

    /// Records what the last control plane wrote right before it died. The record of a component
    /// that a claim gave back does not show that its attempt was given up.
    pub(super) fn catch_up_events(&mut self, job: JobId, events: &[JobEvent]) {
        events.iter().for_each(|event| self.learn_event(job, event));
    }

    fn learn_event(&mut self, job: JobId, event: &JobEvent) {
        if let JobEventKind::AttemptEnded {
            component,
            attempt,
            how: AttemptEnding::Abandoned,
        } = &event.what
        {
            self.abandoned.insert((job, *component, *attempt));
        }
    }

    fn learn_job(&mut self, job: &Job) {
        let components = job.indexed_components().filter(|(_, component)| {
            matches!(
                &component.run,
                AttemptState::Ended {
                    how: AttemptEnding::Abandoned,
                    ..
                }
            )
        });
        self.abandoned
            .extend(components.map(|(index, c)| (job.id, index, c.attempt)));
    }

    /// Returns true if an attempt was given up although it may live.
    pub(super) fn is_abandoned(&self, part: &HeldPart) -> bool {
        self.abandoned.contains(part)
    }
}

/// An attempt at its site.
#[derive(Debug)]
struct Stay {
    site: SiteName,
    from: Timestamp,
    /// Time at which its gate was closed for ever, or its batch job was over.
    until: Option<Timestamp>,
}

/// Lists everything that must not be; nothing, if all is well.
pub(super) fn wrongly_held_attempts(
    holds: &SeenHolds,
    scenario: &SeedScenario,
    ledger: &[WorldLedgerEntry],
    instance: InstanceId,
    jobs: &BTreeMap<JobId, Arc<Job>>,
) -> Vec<String> {
    let stays = stays_at_sites(ledger, instance);
    let mut found = held_beside(holds, &stays);
    found.extend(held_on(holds, scenario, &stays, jobs));
    found
}

/// Lists the stays of attempts at sites. An attempt that comes to a site after its gate was closed
/// never takes anything there. A probe of our own without an answer is ended by whoever finds it
/// there, and the next one does not wait for that. Nor does anybody wait for an attempt that was
/// refused: if its request comes once more and is granted, a later one may be elsewhere.
fn stays_at_sites(ledger: &[WorldLedgerEntry], instance: InstanceId) -> BTreeMap<HeldPart, Stay> {
    let refused = refused_at_first(ledger.iter());
    let mut stays: BTreeMap<HeldPart, Stay> = BTreeMap::new();
    for WorldLedgerEntry {
        at,
        site,
        tag,
        deed,
    } in ledger.iter().filter(|entry: &&WorldLedgerEntry| {
        entry.tag.instance == instance
            && entry.tag.job != OWN_PROBE_JOB
            && !refused.contains(&entry.tag)
    }) {
        let part = (tag.job, tag.component, tag.attempt);
        let until = match deed {
            WorldLedgerEvent::Submitted { .. } => None,
            WorldLedgerEvent::Voided | WorldLedgerEvent::HeldTooLong | WorldLedgerEvent::Left => {
                Some(*at)
            }
            _ => continue,
        };
        let stay = stays.entry(part).or_insert_with(|| Stay {
            site: site.clone(),
            from: *at,
            until,
        });
        stay.until = stay.until.or(until);
    }
    stays
}

/// Lists later attempts that came to a site while an earlier one was still at one.
fn held_beside(holds: &SeenHolds, stays: &BTreeMap<HeldPart, Stay>) -> Vec<String> {
    let mut found = Vec::new();
    for (later, stay) in stays {
        let (job, component, _) = *later;
        let earlier = stays.range((job, component, Attempt(0))..*later);
        let beside = earlier.filter(|(_, other)| {
            other.from <= stay.from && other.until.is_none_or(|until| until > stay.from)
        });
        let beside = beside.filter(|(part, _)| !holds.is_abandoned(part));
        found.extend(beside.map(|((.., attempt), other)| {
            let site = &other.site;
            let here = &stay.site;
            let number = component.0;
            let first = attempt.0;
            let second = later.2.0;
            format!("job {job}: {number}-{second} came to {here} while {number}-{first} held processors at {site}")
        }));
    }
    found
}

/// Lists attempts that were given back and kept their processors, although their site was well.
fn held_on(
    holds: &SeenHolds,
    scenario: &SeedScenario,
    stays: &BTreeMap<HeldPart, Stay>,
    jobs: &BTreeMap<JobId, Arc<Job>>,
) -> Vec<String> {
    let late = holds.given_back.iter().filter_map(|(part, given_at)| {
        let stay = stays.get(part).filter(|_| jobs.contains_key(&part.0))?;
        let free_by = *given_at + FREE_WITHIN;
        let held = stay.until.is_none_or(|until| until > free_by);
        let well = held && is_well(scenario, &stay.site, *given_at, free_by);
        let (job, component, attempt) = part;
        let site = &stay.site;
        let number = component.0;
        let attempt = attempt.0;
        well.then(|| {
            format!("job {job}: {number}-{attempt} was given back and held on at {site} after {FREE_WITHIN}")
        })
    });
    late.collect()
}

/// Returns true if nothing keeps us from a site in this time.
fn is_well(scenario: &SeedScenario, site: &SiteName, from: Timestamp, to: Timestamp) -> bool {
    let ill = scenario.troubles.iter().any(|(at, number, trouble)| {
        scenario
            .sites
            .get(*number)
            .is_some_and(|spec| spec.name == *site)
            && hinders(trouble)
            && *at <= to
            && from <= *at + TROUBLE_MAX
    });
    let cut_off = scenario
        .cut_offs
        .iter()
        .any(|(begins, ends)| *begins <= to && from <= *ends);
    !ill && !cut_off
}

/// Returns true if a fault begins that keeps us from a site or changes what is there.
fn hinders(trouble: &SiteFault) -> bool {
    match trouble {
        SiteFault::Silent(begins)
        | SiteFault::CutOff(begins)
        | SiteFault::Frozen(begins)
        | SiteFault::Revoked(begins)
        | SiteFault::Stale(begins)
        | SiteFault::Drained(begins) => *begins,
        SiteFault::NodeDown { .. }
        | SiteFault::SiteDown { .. }
        | SiteFault::LosesLeases
        | SiteFault::Forgets { .. } => true,
        SiteFault::Clock(_)
        | SiteFault::Link { .. }
        | SiteFault::Corrupts { .. }
        | SiteFault::DiskFull(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::AttemptTag;

    use super::*;

    fn stay(from: u64, until: Option<u64>) -> Stay {
        let site = SiteName::new("delft").unwrap();
        Stay {
            site,
            from: Timestamp(from),
            until: until.map(Timestamp),
        }
    }

    #[test]
    fn a_later_attempt_must_find_the_earlier_over_unless_it_was_given_up() {
        let part = |attempt| (JobId(1), ComponentIndex(0), Attempt(attempt));
        let beside = |until, abandoned: &[HeldPart]| {
            let holds = SeenHolds {
                abandoned: abandoned.iter().copied().collect(),
                ..SeenHolds::default()
            };
            let stays = [(part(1), stay(10, until)), (part(2), stay(50, None))].into();
            held_beside(&holds, &stays).len()
        };
        assert_eq!(beside(Some(50), &[]), 0);
        assert_eq!(beside(Some(51), &[]), 1);
        assert_eq!(beside(None, &[]), 1);
        assert_eq!(beside(None, &[part(1)]), 0);
    }

    #[test]
    fn nobody_waits_for_what_was_refused_and_came_once_more() {
        let instance = InstanceId::from_random(7);
        let entry = |at, attempt, deed| WorldLedgerEntry {
            at: Timestamp(at),
            site: SiteName::new("delft").unwrap(),
            tag: AttemptTag {
                instance,
                job: JobId(1),
                component: ComponentIndex(0),
                attempt: Attempt(attempt),
            },
            deed,
        };
        let ledger = [
            entry(10, 4, WorldLedgerEvent::Refused),
            entry(15, 4, WorldLedgerEvent::Submitted { processors: 3 }),
            entry(24, 5, WorldLedgerEvent::Submitted { processors: 3 }),
        ];
        let beside =
            |ledger| held_beside(&SeenHolds::default(), &stays_at_sites(ledger, instance)).len();
        assert_eq!(beside(&ledger), 0);
        assert_eq!(beside(&ledger[1..]), 1, "it was not refused");
    }

    #[test]
    fn what_was_given_up_before_a_death_may_live_on_without_a_record() {
        let mut holds = SeenHolds::default();
        let component = ComponentIndex(0);
        let attempt = Attempt(1);
        let ended = |how| JobEvent {
            at: Timestamp(40),
            what: JobEventKind::AttemptEnded {
                component,
                attempt,
                how,
            },
        };
        holds.catch_up_events(JobId(1), &[ended(AttemptEnding::Killed)]);
        assert!(!holds.is_abandoned(&(JobId(1), component, attempt)));
        holds.catch_up_events(JobId(1), &[ended(AttemptEnding::Abandoned)]);
        assert!(holds.is_abandoned(&(JobId(1), component, attempt)));
    }
}
