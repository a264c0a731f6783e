//! Judges the placement queues by their published rules: among jobs that ask for the same, the one
//! that waits longer comes first, and priorities rise and jobs are given up only after so many
//! tries.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::{JobId, KeyName, SiteName};
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::{ComponentSpec, JobSpec, Priority};
use cospan_domain::queue::QueueParameters;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::{DurationMs, Timestamp};

/// Longest time for proposals on their way and decisions to be written.
const UNDER_WAY: DurationMs = DurationMs(120_000);

/// Returns the time since then in which actors stalled.
pub(super) type Stalled<'a> = &'a dyn Fn(Timestamp) -> DurationMs;

/// A job in its queue.
#[derive(Debug, Clone)]
struct QueueingJob {
    spec: Arc<JobSpec>,
    owner: KeyName,
    class: Priority,
    /// Time at which it came here from another priority, if it did.
    moved: Option<Timestamp>,
    /// The place in the queue.
    since: Timestamp,
    /// Time from which it could be placed, whatever the sites are like.
    ready: Timestamp,
    /// It avoids sites where it failed: others do not ask for the same. Or it may not have
    /// its turn in its sweep.
    avoids: bool,
    /// A job with a later place was placed before it.
    overtaken: Option<(Timestamp, JobId)>,
}

/// The state of the queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    parameters: QueueParameters,
    waiting: BTreeMap<JobId, QueueingJob>,
    /// Jobs that came while this control plane runs, and when.
    came: BTreeMap<JobId, Timestamp>,
    /// Jobs that it promoted, and when.
    promoted: BTreeMap<JobId, Timestamp>,
    /// Owners who are barred from sites, or were, and until when.
    barred: BTreeMap<(SiteName, KeyName), Timestamp>,
    begun: Timestamp,
    /// Sites grant reservations: a job that is over by then may pass one that is not.
    promises: bool,
}

impl Queues {
    /// Starts with nobody waiting.
    pub(super) fn new(parameters: QueueParameters, promises: bool) -> Self {
        Self {
            parameters,
            promises,
            ..Self::default()
        }
    }

    /// Starts over for a control plane that begins to run, by its clock.
    pub(super) fn begin_life(&mut self, now: Timestamp) {
        self.begun = now;
        self.came.clear();
        self.promoted.clear();
        self.barred.clear();
        self.waiting.clear();
    }

    /// Records whom a site bars. An operator who has it open for everybody may leave that to end by
    /// itself, which changes no record: the owner counts as barred meanwhile.
    pub(super) fn learn_site(&mut self, record: &SiteRecord, now: Timestamp) {
        for ((site, _), until) in &mut self.barred {
            if *site == record.site {
                *until = now.min(*until);
            }
        }
        let kept_off = record
            .kept_off
            .iter()
            .map(|kept_off| (&kept_off.owner, kept_off.until));
        let probed = record
            .own_probe
            .iter()
            .map(|probe| (&probe.owner, Timestamp(u64::MAX)));
        for (owner, until) in kept_off.chain(probed) {
            self.barred
                .insert((record.site.clone(), owner.clone()), until);
        }
    }

    /// Records what happened to a job, and lists what must not have. `stalled`: the time since then
    /// in which the placing actors took no messages.
    pub(super) fn record_events(
        &mut self,
        job: &Job,
        events: &[JobEvent],
        now: Timestamp,
        stalled: Stalled<'_>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for event in events {
            found.extend(self.judge_event(job, event, now, stalled));
        }
        self.learn_standing(job, now);
        found
    }

    /// Records a new job.
    pub(super) fn arrive(&mut self, job: &Job, now: Timestamp) {
        self.came.insert(job.id, now);
        self.learn_standing(job, now);
    }

    /// Records where a job stands.
    fn learn_standing(&mut self, job: &Job, now: Timestamp) {
        let JobPhase::Queued { since, not_before } = job.phase else {
            self.waiting.remove(&job.id);
            return;
        };
        // A job with a reservation of its own or a shared one does not wait for what is idle.
        let promised = job.reservation_terms().is_some() || job.shared_reservation().is_some();
        if job.frozen_by.is_some() || job.held.is_some() || promised {
            self.waiting.remove(&job.id);
            return;
        }
        let before = self.waiting.get(&job.id);
        let waiting = QueueingJob {
            spec: job.spec.clone(),
            owner: job.owner.clone(),
            class: job.priority,
            moved: before.and_then(|b| {
                if b.class == job.priority {
                    b.moved
                } else {
                    Some(now)
                }
            }),
            since,
            ready: not_before.max(now),
            avoids: job.spec.run.task.is_some()
                || job
                    .components
                    .iter()
                    .any(|c| !c.avoid.is_empty() || c.charge.is_some()),
            overtaken: None,
        };
        self.waiting.insert(job.id, waiting);
    }

    fn judge_event(
        &mut self,
        job: &Job,
        event: &JobEvent,
        now: Timestamp,
        stalled: Stalled<'_>,
    ) -> Option<String> {
        match &event.what {
            JobEventKind::JobPlaced { .. } => self.record_placement(job.id, now, stalled),
            JobEventKind::PriorityChanged { to, by } => {
                let wrong = by.is_none().then(|| self.promote(job.id, *to, event.at));
                self.enter(job.id, *to, now);
                wrong.flatten()
            }
            JobEventKind::JobFailed { reason } if reason.contains("max_placement_tries") => {
                let most = job.spec.max_placement_tries.unwrap_or(u32::MAX);
                let least = self.least_time_of_tries(most);
                (event.at < self.known_since(job.id) + least)
                    .then(|| format!("job {} was given up after fewer tries", job.id))
            }
            _ => None,
        }
    }

    /// Returns the least time that so many counted tries and one more take.
    fn least_time_of_tries(&self, tries: u32) -> DurationMs {
        DurationMs(self.parameters.scan_interval.0.saturating_mul(tries.into()))
    }

    /// Returns the time since when the running control plane may have counted tries of a job.
    fn known_since(&self, job: JobId) -> Timestamp {
        self.came.get(&job).copied().unwrap_or(self.begun)
    }

    /// Puts the job into this priority, though it may change again within the same write.
    fn enter(&mut self, id: JobId, class: Priority, now: Timestamp) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.class = class;
            waiting.moved = Some(now);
        }
    }

    fn promote(&mut self, id: JobId, to: Priority, at: Timestamp) -> Option<String> {
        let known = self.known_since(id);
        let came = self.promoted.insert(id, at).unwrap_or(known);
        let class = self.waiting.get(&id).map(|waiting| waiting.class);
        let why = match (self.parameters.promote_after, class) {
            (None, _) => "nobody is promoted",
            (Some(after), _) if at < came + self.least_time_of_tries(after - 1) => "too soon",
            (_, Some(Priority::Low)) if to != Priority::High => "from low",
            (_, Some(Priority::High)) if to != Priority::SuperHigh => "from high",
            (_, Some(Priority::SuperHigh | Priority::SuperLow)) => "from the last",
            _ => return None,
        };
        Some(format!("job {id} rose to {}: {why}", to.as_str()))
    }

    /// Records that a job is placed: jobs that ask for the same and have waited longer ought to be
    /// placed by now, or soon. Returns the job that was overtaken, and never came.
    fn record_placement(
        &mut self,
        id: JobId,
        now: Timestamp,
        stalled: Stalled<'_>,
    ) -> Option<String> {
        let long_ago = |at: Timestamp| at + UNDER_WAY < now && at + UNDER_WAY + stalled(at) < now;
        let placed = self.waiting.remove(&id)?;
        // Its placement may have been decided when it still had its priority before.
        let decided_here = placed.moved.is_none_or(long_ago);
        // A barred owner's job is kept from a site that takes the like of it from others. Not all
        // jobs of one owner learn that at once.
        let barred = &self.barred;
        let is_barred = |owner: &KeyName| {
            barred
                .iter()
                .any(|((_, barred), until)| barred == owner && !long_ago(*until))
        };
        let placed_barred = is_barred(&placed.owner);
        let mut lost = None;
        for (other, waiting) in &mut self.waiting {
            let ready = long_ago(waiting.ready);
            let waiting_barred = is_barred(&waiting.owner);
            let same = decided_here
                && (!self.promises || waiting.spec.wall_time == placed.spec.wall_time)
                && waiting.class == placed.class
                && !waiting.avoids
                && !placed.avoids
                && !waiting_barred
                && !placed_barred
                && asks_for_the_same(&waiting.spec, &placed.spec)
                // A shorter job may get what is withheld from longer ones.
                && waiting.spec.wall_time <= placed.spec.wall_time;
            if same && ready && (waiting.since, *other) < (placed.since, id) {
                waiting.overtaken.get_or_insert((now, id));
            }
            // What it would have had soon may be closed to it since.
            if waiting_barred {
                waiting.overtaken = None;
            }
            if let Some((at, by)) = waiting.overtaken
                && long_ago(at)
            {
                lost = Some(format!(
                    "job {other} has waited longer than job {by}, and waits on"
                ));
            }
        }
        lost
    }
}

/// Returns true if two jobs fare alike wherever they are tried.
fn asks_for_the_same(one: &JobSpec, other: &JobSpec) -> bool {
    one.request == other.request
        && one.policy == other.policy
        && one.rerunnable == other.rerunnable
        && one.components.len() == other.components.len()
        && one
            .components
            .iter()
            .zip(&other.components)
            .all(|(one, other)| needs_the_same(one, other))
}

fn needs_the_same(one: &ComponentSpec, other: &ComponentSpec) -> bool {
    one.site == other.site
        && one.resources == other.resources
        && one.constraints == other.constraints
        && one.inputs == other.inputs
        && one.program.executable == other.program.executable
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_domain::ids::Attempt;
    use cospan_domain::site::barred_owners_record::{BarredOwner, OwnProbe};
    use cospan_simulator::jobs::build_job;

    const MINUTE: DurationMs = DurationMs(60_000);

    fn key(owner: &str) -> KeyName {
        KeyName::new(owner).unwrap()
    }

    fn waiting_job(owner: &str, class: Priority, since: Timestamp) -> QueueingJob {
        QueueingJob {
            spec: Arc::new(build_job(&[1], DurationMs(1), DurationMs(1), 0).unwrap()),
            owner: key(owner),
            class,
            moved: None,
            since,
            ready: since,
            avoids: false,
            overtaken: None,
        }
    }

    /// Has a job pass one of this owner that waits longer, and returns what is found three minutes
    /// later, when a job of another priority is placed.
    fn found_when_passed(queues: &mut Queues, owner: &str, at: Timestamp) -> Option<String> {
        let jobs = [
            (1, owner, Priority::High),
            (2, "alice", Priority::High),
            (3, "carol", Priority::Low),
        ];
        for (id, owner, class) in jobs {
            let waiting = waiting_job(owner, class, Timestamp(id));
            queues.waiting.insert(JobId(id), waiting);
        }
        let stalled: Stalled<'_> = &|_| DurationMs::ZERO;
        assert_eq!(queues.record_placement(JobId(2), at, stalled), None);
        queues.record_placement(JobId(3), at + MINUTE + MINUTE + MINUTE, stalled)
    }

    #[test]
    fn a_job_may_be_passed_while_its_owner_is_barred_and_no_other() {
        let start = Timestamp(0) + MINUTE + MINUTE + MINUTE;
        let mut record = SiteRecord::new(SiteName::new("delft").unwrap());
        let mut queues = Queues::new(QueueParameters::default(), false);
        queues.learn_site(&record, start);
        assert!(found_when_passed(&mut queues, "bob", start).is_some());
        record.own_probe = Some(OwnProbe {
            number: Attempt(1),
            owner: key("bob"),
            since: start,
        });
        queues.learn_site(&record, start);
        assert_eq!(found_when_passed(&mut queues, "bob", start), None);
        // Others' bars are nothing to these two.
        assert!(found_when_passed(&mut queues, "carol", start).is_some());
    }

    #[test]
    fn jobs_whose_owner_is_barred_no_more_have_their_turn() {
        let start = Timestamp(0) + MINUTE + MINUTE + MINUTE;
        let until = start + MINUTE;
        let later = until + MINUTE + MINUTE + MINUTE;
        let mut record = SiteRecord::new(SiteName::new("delft").unwrap());
        record.kept_off = vec![BarredOwner {
            owner: key("bob"),
            since: start,
            until,
            times: 1,
        }];
        let mut queues = Queues::new(QueueParameters::default(), false);
        queues.learn_site(&record, start);
        assert_eq!(found_when_passed(&mut queues, "bob", until), None);
        assert!(found_when_passed(&mut queues, "bob", later).is_some());
        // It is let in before its time.
        record.kept_off[0].until = Timestamp(u64::MAX);
        queues.learn_site(&record, start);
        assert_eq!(found_when_passed(&mut queues, "bob", later), None);
        record.kept_off.clear();
        queues.learn_site(&record, start);
        assert!(found_when_passed(&mut queues, "bob", later).is_some());
    }

    #[test]
    fn who_is_moved_and_rises_in_one_write_rises_from_where_it_was_moved_to() {
        let id = JobId(1);
        let at = Timestamp(1);
        let parameters = QueueParameters {
            promote_after: Some(1),
            ..QueueParameters::default()
        };
        let waiting = waiting_job("alice", Priority::SuperLow, at);
        let mut queues = Queues::new(parameters, false);
        queues.waiting.insert(id, waiting);
        let wrong = queues.promote(id, Priority::SuperHigh, at);
        assert!(wrong.is_some_and(|wrong| wrong.contains("from the last")));
        queues.enter(id, Priority::High, at);
        assert_eq!(queues.promote(id, Priority::SuperHigh, at), None);
        queues.enter(id, Priority::SuperHigh, at);
        assert!(queues.promote(id, Priority::SuperHigh, at).is_some());
    }
}
