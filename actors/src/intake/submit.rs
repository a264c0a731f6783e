//! Submission: all jobs of a request are accepted, or none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context};
use cospan_domain::ids::{Digest, IdempotencyKey, JobId, KeyName, Round};
use cospan_domain::job::job_state::{Job, JobPhase, SetbackCounts};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_storage::record::events::{EventTexts, read_history_texts};

use tracing::warn;

use super::Intake;
use super::acceptance::AcceptedRequest;
use super::intake_actor::ApiAnswerSender;
use super::memory_quota::{JobMemoryUsage, LEAST_KEPT};
use crate::commands::{ApiRefusal, JobSubmission, SubmittedJob};
use crate::committed::{CommittedView, JournalChange};
use crate::journal::AppendChange;

/// The most requests that wait for job ids to be reserved; further ones are told to come back.
const WAITING_BOUND: usize = 1_024;

/// A submission that was accepted under an idempotency key.
#[derive(Debug, Clone, Copy)]
struct AcceptedSubmission {
    body: Digest,
    job: JobId,
}

#[derive(Debug)]
pub(super) struct SubmissionRequest {
    pub(super) submissions: Vec<JobSubmission>,
    /// Submissions, by index, that are refused unless they were accepted before.
    pub(super) refused: Vec<(usize, ApiRefusal)>,
    pub(super) by: KeyName,
    pub(super) answer: ApiAnswerSender,
}

impl SubmissionRequest {
    /// The specifications of jobs that were not accepted before.
    fn new_specs<'a>(&'a self, earlier: &'a [Option<JobId>]) -> impl Iterator<Item = &'a JobSpec> {
        let with_earlier = self.submissions.iter().zip(earlier);
        with_earlier
            .filter(|(_, known)| known.is_none())
            .map(|(submission, _)| &*submission.spec)
    }
}

/// Idempotency keys of jobs that are not archived, by owner.
#[derive(Debug, Default)]
pub(super) struct KnownIdempotencyKeys {
    keys: BTreeMap<(KeyName, IdempotencyKey), AcceptedSubmission>,
    waiting: Vec<SubmissionRequest>,
}

impl KnownIdempotencyKeys {
    pub(super) fn from_view(view: &CommittedView) -> Self {
        let mut known = KnownIdempotencyKeys::default();
        view.jobs.values().for_each(|job| known.learn_key(job));
        known
    }

    fn learn_key(&mut self, job: &Job) {
        if let Some(name) = &job.idempotency {
            let accepted = AcceptedSubmission {
                body: name.body,
                job: job.id,
            };
            self.keys
                .insert((job.owner.clone(), name.key.clone()), accepted);
        }
    }

    pub(super) fn forget_key(&mut self, job: &Job) {
        if let Some(name) = &job.idempotency {
            self.keys.remove(&(job.owner.clone(), name.key.clone()));
        }
    }

    /// Returns the job accepted before under the name of each submission, if any. The others are
    /// judged by what holds now.
    fn earlier_jobs(&self, asked: &SubmissionRequest) -> Result<Vec<Option<JobId>>, ApiRefusal> {
        let known = asked
            .submissions
            .iter()
            .map(|submission| self.earlier_job_of(&asked.by, submission));
        let earlier: Vec<Option<JobId>> = known.collect::<Result<_, _>>()?;
        match asked
            .refused
            .iter()
            .find(|(index, _)| earlier[*index].is_none())
        {
            Some((_, refusal)) => Err(refusal.clone()),
            None => Ok(earlier),
        }
    }

    fn earlier_job_of(
        &self,
        by: &KeyName,
        submission: &JobSubmission,
    ) -> Result<Option<JobId>, ApiRefusal> {
        let Some(name) = &submission.idempotency else {
            return Ok(None);
        };
        match self.keys.get(&(by.clone(), name.key.clone())) {
            None => Ok(None),
            Some(accepted) if accepted.body == name.body => Ok(Some(accepted.job)),
            Some(accepted) => Err(ApiRefusal::IdempotencyMismatch { job: accepted.job }),
        }
    }
}

impl Intake {
    pub(super) fn submit_jobs(&mut self, asked: SubmissionRequest, ctx: &mut Context<Self>) {
        let earlier = match self.known.earlier_jobs(&asked) {
            Ok(earlier) => earlier,
            Err(refusal) => return self.answer_command(asked.answer, Err(refusal)),
        };
        let fresh = earlier.iter().filter(|known| known.is_none()).count();
        let share = JobMemoryUsage::from_specs(asked.new_specs(&earlier));
        if let Err(refusal) =
            self.kept
                .check_room(&asked.by, share, &self.shared.settings.job_memory)
        {
            self.archive_for_room(ctx);
            return self.answer_command(asked.answer, Err(refusal));
        }
        let Some(first) = self.ids.take_ids(fresh) else {
            return self.queue_until_ids(asked, ctx);
        };
        let SubmissionRequest {
            submissions,
            by,
            answer,
            ..
        } = asked;
        self.reserve_ids(0, ctx);
        self.kept.add_usage(&by, share);
        self.update_memory_gauges();
        let now = self.shared.clock.now();
        let mut jobs = Vec::with_capacity(fresh);
        let mut submitted = Vec::new();
        let mut groups = RequestSweep::default();
        for (mut submission, known) in submissions.into_iter().zip(earlier) {
            let id = known.unwrap_or(JobId(first + jobs.len() as u64));
            let group = groups.assign_group(&mut submission.spec, id);
            submitted.push(SubmittedJob {
                id,
                repeated: known.is_some(),
                group,
            });
            if known.is_none() {
                let job = Arc::new(make_job_record(id, submission, by.clone(), now));
                self.known.learn_key(&job);
                jobs.push(job);
            }
        }
        self.accept_request(
            AcceptedRequest {
                jobs,
                submitted,
                answer,
            },
            ctx,
        );
    }

    fn queue_until_ids(&mut self, asked: SubmissionRequest, ctx: &mut Context<Self>) {
        if self.known.waiting.len() >= WAITING_BOUND {
            return self.answer_command(asked.answer, Err(ApiRefusal::Busy { retry_after_s: 1 }));
        }
        let wanted = asked.submissions.len();
        self.known.waiting.push(asked);
        self.reserve_ids(wanted, ctx);
    }

    pub(super) fn retry_waiting_requests(&mut self, ctx: &mut Context<Self>) {
        for asked in std::mem::take(&mut self.known.waiting) {
            self.submit_jobs(asked, ctx);
        }
    }

    /// Forgets a job that is kept no more.
    pub(super) fn forget_job(&mut self, job: &Job) {
        self.known.forget_key(job);
        self.kept.remove_job(job);
        self.update_memory_gauges();
    }

    fn update_memory_gauges(&self) {
        let Bytes(bytes) = self.kept.total_bytes();
        self.shared
            .metrics
            .job_memory
            .taken
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Archives what may go, because a client was refused for lack of room.
    fn archive_for_room(&mut self, ctx: &mut Context<Self>) {
        const PAUSE: DurationMs = DurationMs(5_000);
        let now = self.shared.clock.now();
        if now < self.sought_room_at + PAUSE {
            return;
        }
        self.sought_room_at = now;
        if self.archive_ended_jobs() {
            ctx.run_later(Duration::from_millis(PAUSE.0), Self::archive_for_room);
        }
    }

    /// Archives ended jobs after their time, again and again.
    pub(super) fn schedule_archiving(&mut self, ctx: &mut Context<Self>) {
        // Every look goes through all jobs: seldom, unless there is more to do.
        const SOON: DurationMs = DurationMs(1_000);
        let seldom = self.shared.settings.keep_jobs.0 / 24;
        let seldom = DurationMs(seldom.clamp(60_000, 3_600_000));
        let pause = if self.archive_ended_jobs() {
            SOON
        } else {
            seldom
        };
        ctx.run_later(Duration::from_millis(pause.0), Self::schedule_archiving);
    }

    /// Archives some ended jobs. Returns true if there may be more to archive at once.
    pub(super) fn archive_ended_jobs(&mut self) -> bool {
        const AT_ONCE: usize = 256;
        let now = self.shared.clock.now();
        let view = self.shared.view.load();
        // A job whose end is still to be reported stays until it is, or cannot be.
        let old: Vec<Arc<Job>> = view
            .jobs
            .values()
            .filter(|job| {
                end_time_of(job).is_some_and(|at| now >= at + self.retention_time(&job.owner))
                    && job.pending_end_receivers().next().is_none()
            })
            .take(AT_ONCE)
            .cloned()
            .collect();
        let more = old.len() == AT_ONCE;
        for job in old {
            let events = read_history_texts(&*self.store, &job).unwrap_or_else(|problem| {
                warn!(job = %job.id, %problem, "archived without its history");
                EventTexts::default()
            });
            self.forget_job(&job);
            // Nobody waits for it: a job that was not taken is found again by the next look.
            self.shared
                .journal()
                .do_send(AppendChange(JournalChange::JobArchived { job, events }));
        }
        more
    }

    /// The time that a job of this key is kept after its end.
    fn retention_time(&self, owner: &KeyName) -> DurationMs {
        let keep = self.shared.settings.keep_jobs;
        if self
            .kept
            .is_room_short(owner, &self.shared.settings.job_memory)
        {
            keep.min(LEAST_KEPT)
        } else {
            keep
        }
    }
}

fn end_time_of(job: &Job) -> Option<Timestamp> {
    match job.phase {
        JobPhase::Finished { at }
        | JobPhase::Failed { at, .. }
        | JobPhase::Cancelled { at, .. } => Some(at),
        _ => None,
    }
}

/// The sweep that a request is in, named by the job of its first run.
#[derive(Default)]
struct RequestSweep(Option<JobId>);

impl RequestSweep {
    fn assign_group(&mut self, spec: &mut Arc<JobSpec>, id: JobId) -> Option<JobId> {
        let first = spec.run.task.as_ref()?.index == 0;
        let group = *if first {
            self.0.insert(id)
        } else {
            self.0.get_or_insert(id)
        };
        if let Some(task) = &mut Arc::make_mut(spec).run.task {
            task.group = group;
        }
        Some(group)
    }
}

/// Makes the record of a job that was just submitted.
pub(crate) fn make_job_record(
    id: JobId,
    submission: JobSubmission,
    owner: KeyName,
    now: Timestamp,
) -> Job {
    Job {
        id,
        owner,
        idempotency: submission.idempotency,
        submitted_at: now,
        priority: submission.spec.priority,
        spec: submission.spec,
        frozen_by: None,
        held: None,
        phase: JobPhase::Queued {
            since: now,
            not_before: Timestamp(0),
        },
        round: Round(0),
        inputs_here: false,
        start_at: None,
        components: Vec::new(),
        setbacks: SetbackCounts::default(),
        next_claim: None,
        preempting: Vec::new(),
        promoted: false,
        instants: Default::default(),
        placed_by: None,
        wish: Default::default(),
        reservation: None,
        told: Default::default(),
        revision: 1,
    }
}
