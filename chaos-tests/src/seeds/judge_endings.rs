//! Judges how jobs ended by what was asked for and by what really happened: nothing
//! fails or is cancelled without a reason, and nothing runs more often, or elsewhere,
//! than its user allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::{Attempt, ComponentIndex, InstanceId, JobId, Round};
use cospan_domain::job::job_state::{Job, JobPhase, PhaseKind};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, Timestamp};

use cospan_simulator::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};

/// The events of one job at the sites.
#[derive(Debug, Default)]
struct JobSiteEvents {
    /// Last begin of a payload, by component.
    last_began: BTreeMap<ComponentIndex, Timestamp>,
    /// Attempts whose payload began, by component.
    began: BTreeMap<ComponentIndex, BTreeSet<Attempt>>,
    /// Rounds of attempts whose gate was opened.
    rounds: BTreeMap<(ComponentIndex, Attempt), Round>,
    /// A payload ended badly by itself.
    erred: bool,
    violations: Vec<String>,
}

/// The end of each job, and when that became durable.
type DurableEndings = BTreeMap<JobId, (PhaseKind, Timestamp)>;

/// Lists everything that must not be; nothing, if all is well. `clocks_apart`: the most by which
/// control planes may be wrong about the time.
pub(super) fn unfounded_ends(
    jobs: &BTreeMap<JobId, Arc<Job>>,
    ended: &DurableEndings,
    clocks_apart: DurationMs,
    ledger: &[WorldLedgerEntry],
    instance: InstanceId,
    asked_to_cancel: &BTreeSet<JobId>,
) -> Vec<String> {
    let mut deeds: BTreeMap<JobId, JobSiteEvents> = BTreeMap::new();
    for entry in ledger.iter().filter(|entry| entry.tag.instance == instance) {
        if let Some(job) = jobs.get(&entry.tag.job) {
            deeds.entry(job.id).or_default().learn_entry(job, entry);
        }
    }
    let judged = jobs.values().flat_map(|job| {
        let deeds = deeds.remove(&job.id).unwrap_or_default();
        let told = deeds.violations.iter().cloned();
        let text = match job.phase.kind() {
            PhaseKind::Failed => {
                let ended = ended.get(&job.id).map_or(Timestamp(0), |(_, at)| *at);
                without_reason(job, &deeds, ended + clocks_apart)
            }
            PhaseKind::Cancelled if !asked_to_cancel.contains(&job.id) => Some(format!(
                "job {} was cancelled, and nobody asked for it",
                job.id
            )),
            _ => None,
        };
        told.chain(text)
            .chain(ran_again(job, &deeds))
            .collect::<Vec<_>>()
    });
    judged
        .map(|text| format!("a job ended as it must not: {text}"))
        .collect()
}

impl JobSiteEvents {
    fn learn_entry(&mut self, job: &Job, entry: &WorldLedgerEntry) {
        let part = (entry.tag.component, entry.tag.attempt);
        match &entry.deed {
            WorldLedgerEvent::Opened(round, _) => drop(self.rounds.insert(part, *round)),
            WorldLedgerEvent::Began => {
                self.last_began.insert(part.0, entry.at);
                self.began.entry(part.0).or_default().insert(part.1);
                let fixed = job
                    .spec
                    .components
                    .get(part.0.0 as usize)
                    .and_then(|c| c.site.as_ref());
                if fixed.is_some_and(|site| *site != entry.site) {
                    self.violations
                        .push(format!("{} began at {}", entry.tag, entry.site));
                }
            }
            WorldLedgerEvent::Exited(0) => {}
            WorldLedgerEvent::Exited(_) | WorldLedgerEvent::WallTime => self.erred = true,
            _ => {}
        }
    }
}

/// The reason for giving up a job whose site does not answer when its wall time is over, whatever
/// its payloads did.
const OVERDUE: &str = "still there long after its wall time";

/// Returns why a failed job should not have failed.
fn without_reason(job: &Job, deeds: &JobSiteEvents, ended: Timestamp) -> Option<String> {
    let spec = &job.spec;
    if let JobPhase::Failed { reason, .. } = &job.phase
        && reason.ends_with(OVERDUE)
    {
        let over = failed_component_began(job, deeds, reason)
            .is_some_and(|at| at + job.wall_time() <= ended);
        return (!over)
            .then(|| format!("job {} was given up before its wall time was over", job.id));
    }
    // Its sites may have refused it the start, or kept it from it until it was too late.
    if spec.run.reservation.is_some() {
        return None;
    }
    // Or it named a reservation that is gone, and its user got that answer.
    if let (Some(name), JobPhase::Failed { reason, .. }) = (&spec.run.within, &job.phase)
        && reason.starts_with(&format!("its reservation {name} "))
    {
        return None;
    }
    let reads = spec
        .components
        .iter()
        .any(|component| component.file_refs().next().is_some());
    let tries = spec.max_placement_tries.is_some() || spec.max_claim_tries.is_some();
    if reads || tries || !spec.rerunnable {
        return None;
    }
    // A round that was given up as overdue counts like one with an error.
    let starts = match spec.run.restart_scope {
        RestartScope::Job => deeds.rounds.values().collect::<BTreeSet<&Round>>().len(),
        RestartScope::Component => deeds.rounds.len(),
    };
    let erred = deeds.erred && starts > spec.max_retries as usize;
    let id = job.id;
    let why = &job.phase;
    (!erred).then(|| format!("job {id} failed after {starts} starts: {why:?}"))
}

/// Returns the last begin of a payload of the component for which a job failed.
fn failed_component_began(job: &Job, deeds: &JobSiteEvents, reason: &str) -> Option<Timestamp> {
    let (failed, _) = reason.strip_prefix("component ")?.split_once(": ")?;
    let (index, _) = job
        .indexed_components()
        .find(|(index, _)| job.component_name(*index).as_deref() == Some(failed))?;
    deeds.last_began.get(&index).copied()
}

/// Lists payloads that ran a second time although they must not.
fn ran_again(job: &Job, deeds: &JobSiteEvents) -> Option<String> {
    let twice = deeds
        .began
        .iter()
        .find(|(_, attempts)| attempts.len() > 1)?;
    (!job.spec.rerunnable).then(|| format!("job {} ran again: {twice:?}", job.id))
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::job_state::Component;

    use super::*;
    use cospan_simulator::jobs::build_job as spec;

    const WALL: DurationMs = DurationMs(60_000);

    /// A job of two components that failed because the site of one did not answer for it.
    fn overdue(component: &str) -> Job {
        let spec = spec(&[1, 1], DurationMs(1_000), WALL, 0).unwrap();
        let reason = format!("component {component}: {OVERDUE}").into();
        Job {
            id: JobId(1),
            priority: spec.priority,
            spec: Arc::new(spec),
            owner: "alice".parse().unwrap(),
            idempotency: None,
            submitted_at: Timestamp(0),
            frozen_by: None,
            held: None,
            phase: JobPhase::Failed {
                at: Timestamp(0),
                reason,
            },
            round: Round(1),
            inputs_here: true,
            start_at: None,
            next_claim: None,
            preempting: Vec::new(),
            promoted: false,
            components: vec![Component::default(), Component::default()],
            setbacks: Default::default(),
            instants: Default::default(),
            placed_by: None,
            wish: Default::default(),
            reservation: None,
            told: Default::default(),
            revision: 1,
        }
    }

    #[test]
    fn an_overdue_component_is_judged_by_its_own_beginning() {
        let last_began = [
            (ComponentIndex(0), Timestamp(0)),
            (ComponentIndex(1), Timestamp(50_000)),
        ]
        .into();
        let deeds = JobSiteEvents {
            last_began,
            ..JobSiteEvents::default()
        };
        let at = Timestamp(0) + WALL;
        assert_eq!(without_reason(&overdue("part-0"), &deeds, at), None);
        assert!(
            without_reason(&overdue("part-1"), &deeds, at).is_some(),
            "the other one was due"
        );
        assert!(without_reason(&overdue("part-0"), &JobSiteEvents::default(), at).is_some());
    }
}
