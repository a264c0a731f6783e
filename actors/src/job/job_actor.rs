//! The job actor: the durable step, its inbox, and its timer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, SpawnHandle,
    WrapFuture,
};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::JobMachine;
use cospan_domain::job::job_command::{JobCommand, JobRejection, JobSurroundings};
use cospan_domain::job::job_due::{self, JobEffect};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::reservation::ReservationSerial;
use cospan_domain::units::{DurationMs, Timestamp};
use tokio::sync::oneshot;
use tracing::debug;

use super::reservation_quota::MadeReservationCalls;
use super::retry_pause::EffectRetryPauses;
use super::{job_effects, job_external_state};
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::durable_steps::{DecidedStep, RecordInbox};
use crate::journal::{AppendChange, AppendError};
use crate::supervision::{ActorId, ActorKind, LifeGuard};

/// A command for a job, answered once everything that follows from it is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), JobRejection>")]
pub struct JobCommandMessage(pub JobCommand);

/// A site does not have a reservation of the job any more. Nobody waits for what follows.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct LostReservation {
    /// The site.
    pub site: SiteName,
    /// The serial of the reservation.
    pub serial: ReservationSerial,
}

/// The actor of one unfinished job.
pub struct JobActor {
    pub(super) shared: Arc<SharedState>,
    /// Calls of jobs whose users may have only a limited share.
    pub(super) calls: Arc<MadeReservationCalls>,
    steps: RecordInbox<JobMachine>,
    rebuilt: bool,
    dirty: DirtyFlag,
    /// Effects under way; at most one for each component, so that an answer never overtakes a later
    /// request.
    under_way: BTreeMap<JobEffect, SpawnHandle>,
    again: EffectRetryPauses,
    wake: Option<(Timestamp, SpawnHandle)>,
    /// The journal refused the last change.
    refused: bool,
    guard: LifeGuard,
}

impl JobActor {
    /// Begins a new life. `rebuilt` if there may have been one before, in this process or another:
    /// what was under way then may or may not have happened.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        job: Arc<Job>,
        calls: Arc<MadeReservationCalls>,
        rebuilt: bool,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        Self {
            shared,
            calls,
            steps: RecordInbox::new(job),
            rebuilt,
            dirty,
            under_way: BTreeMap::new(),
            again: EffectRetryPauses::default(),
            wake: None,
            refused: false,
            guard,
        }
    }

    pub(super) fn job(&self) -> &Arc<Job> {
        self.steps.state()
    }

    fn decide_next_step(&mut self, ctx: &mut Context<Self>) {
        if self.steps.is_writing() {
            return;
        }
        let now = self.shared.clock.now();
        let step = self.steps.decide_inbox(&self.shared.settings.job, now);
        chaos::reach_point(CrashPoint::Decided);
        match step {
            Some(step) => self.write_step(step, ctx),
            None => self.perform_due_effects(ctx),
        }
    }

    fn write_step(&mut self, step: DecidedStep<JobMachine>, ctx: &mut Context<Self>) {
        let (mut next, events, answers) = step.into_parts();
        next.revision += 1;
        let next = Arc::new(next);
        for event in &events {
            debug!(job = %next.id, event = event.what.name(), "decided");
        }
        // An observation of an attempt that came before the record stood as it does now, or while
        // the job was held, counted for nothing then, and is not repeated: so look once more after
        // this.
        let released = self.job().held.is_some() && next.held.is_none();
        let looks_again = released || attempt_states_differ(self.job(), &next);
        let kinds = chaos::due_effect_names(&next, self.shared.clock.now());
        chaos::reach_for_effects(&kinds, CrashPoint::BeforeJournal);
        let change = JournalChange::Job {
            old: self.job().clone(),
            new: next.clone(),
            events,
        };
        let append = self.shared.journal().send(AppendChange(change));
        let done = append
            .into_actor(self)
            .map(move |result, this, ctx| match result {
                Ok(Ok(_)) => {
                    chaos::reach_for_effects(&kinds, CrashPoint::AfterJournal);
                    chaos::reach_point(CrashPoint::BeforeAnswer);
                    this.steps.finish_write(next, answers);
                    this.refused = false;
                    if looks_again && !this.job().is_final() {
                        this.dirty.owe_look();
                    }
                    this.continue_after_write(ctx);
                }
                Ok(Err(AppendError::Conflict)) => this.reload_record(ctx),
                Ok(Err(AppendError::Unfit(problem))) => {
                    let remedy = "`cospan cancel` it, and submit it in smaller parts";
                    this.hold_refused_job(format!("{problem}; {remedy}"), ctx);
                }
                Ok(Err(AppendError::Broken(rule))) => {
                    this.hold_refused_job(rule.hold_reason(), ctx);
                }
                // The process is ending; nothing more may be decided.
                Ok(Err(AppendError::Stopped)) | Err(_) => {}
            });
        ctx.spawn(done);
    }

    /// Loads the record anew, which changed without us: never overwrite it.
    fn reload_record(&mut self, ctx: &mut Context<Self>) {
        let job = self.shared.view.load().jobs.get(&self.job().id).cloned();
        let job = job.unwrap_or_else(|| self.job().clone());
        self.steps.reset_to(job);
        self.continue_after_write(ctx);
    }

    /// Holds a job whose change the journal refuses, with the reason. The same change would
    /// otherwise be decided again and again.
    fn hold_refused_job(&mut self, reason: String, ctx: &mut Context<Self>) {
        self.steps.reset_to(self.job().clone());
        self.steps.drop_commands();
        if self.job().held.is_none() && !std::mem::replace(&mut self.refused, true) {
            self.steps
                .push_command(JobCommand::Hold(reason.into()), None);
            self.decide_next_step(ctx);
        }
    }

    /// Takes up what came in while a write was under way, and only then does what is due: the
    /// outcome of an effect may be among it, and the effect must not be done twice. The state
    /// outside is looked at only after that, in the light of the decisions: a claim may have sent a
    /// component elsewhere, where its input is not yet.
    fn continue_after_write(&mut self, ctx: &mut Context<Self>) {
        if self.steps.has_commands() || !self.dirty.owes_look() {
            self.decide_next_step(ctx);
        }
        if !self.steps.is_writing() && self.dirty.owes_look() && !self.job().is_final() {
            self.look_at_external_state(ctx);
        }
    }

    /// Performs the effects that are due. Start, restart, hint and timer all run this line.
    pub(super) fn perform_due_effects(&mut self, ctx: &mut Context<Self>) {
        if self.job().is_final() {
            self.retire_actor(ctx);
            return;
        }
        let now = self.shared.clock.now();
        let mut due = job_due::due(self.job(), now);
        if let Some(noted) = self.steps.noted_state() {
            let still_due = job_due::due(noted, now);
            due.retain(|effect| still_due.contains(effect));
        }
        self.again.retain_due(&due);
        self.drop_unneeded_reads(&due, ctx);
        for effect in due {
            let waits = self.again.is_too_soon(&effect, now);
            let busy = self
                .under_way
                .keys()
                .any(|other| other.component == effect.component);
            if waits || busy {
                continue;
            }
            if let Some(pending) = job_effects::perform_effect(self, &effect, ctx) {
                self.under_way.insert(effect, pending);
            }
        }
        self.set_wake_timer(now, ctx);
    }

    /// Drops the reading of outputs that is due no more, which may take hours; the site then stops
    /// it. Every other effect is carried through, as it may change something.
    fn drop_unneeded_reads(&mut self, due: &[JobEffect], ctx: &mut Context<Self>) {
        self.under_way.retain(|effect, pending| {
            let is_dropped = effect.kind.may_be_dropped() && !due.contains(effect);
            if is_dropped {
                ctx.cancel_future(*pending);
            }
            !is_dropped
        });
    }

    /// Takes in the result of an effect; `command` records its outcome, if it has one yet.
    pub(super) fn handle_effect_result(
        &mut self,
        effect: &JobEffect,
        command: Option<JobCommand>,
        again_after: DurationMs,
        ctx: &mut Context<Self>,
    ) {
        self.under_way.remove(effect);
        self.again
            .put_off_effect(effect, again_after, self.shared.clock.now());
        match command {
            Some(command) if may_be_written_later(&command, self.job()) => {
                let now = self.shared.clock.now();
                self.steps
                    .decide_without_writing(command, &self.shared.settings.job, now);
            }
            Some(command) => {
                self.steps.push_command(command, None);
                return self.decide_next_step(ctx);
            }
            None => {}
        }
        if !self.steps.is_writing() {
            self.perform_due_effects(ctx);
        }
    }

    fn retire_actor(&mut self, ctx: &mut Context<Self>) {
        self.guard.disarm();
        let id = self.job().id;
        self.shared.actors.remove_actor(&ActorId::Job(id));
        ctx.stop();
    }

    fn set_wake_timer(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let state = job_due::next_wake(self.job(), &self.shared.settings.job, now);
        let silent = job_external_state::next_silent_site_look(&self.shared, self.job());
        let again = self.again.next_retry_time(now);
        // While a claim is awaited, the claim timer wakes us; see the claimer.
        let state = match self.job().phase {
            JobPhase::Placed { .. } => self.job().announcement_time(&self.shared.settings.job),
            _ => state,
        };
        let next = [state, silent, again].into_iter().flatten().min();
        if self.wake.as_ref().map(|(time, _)| *time) == next {
            return;
        }
        if let Some((_, handle)) = self.wake.take() {
            ctx.cancel_future(handle);
        }
        if let Some(time) = next {
            // Never a busy loop, even when a deadline has passed.
            let pause = Duration::from_millis(time.since(now).0.max(5));
            let handle = ctx.run_later(pause, |this, ctx| {
                this.wake = None;
                this.look_at_time_and_state(ctx);
            });
            self.wake = Some((time, handle));
        }
    }

    /// Looks at sites' reports and at copies.
    fn look_at_external_state(&mut self, ctx: &mut Context<Self>) {
        if self.take_in_external_state() {
            self.decide_next_step(ctx);
        }
    }

    /// Looks at them, and decides everything for which the time has come.
    fn look_at_time_and_state(&mut self, ctx: &mut Context<Self>) {
        if self.take_in_external_state() {
            self.steps
                .push_command(JobCommand::Look(JobSurroundings::default()), None);
            self.decide_next_step(ctx);
        }
    }

    /// Takes in the state outside. Returns false while that would be decided on the old state, and
    /// has to come later.
    fn take_in_external_state(&mut self) -> bool {
        self.dirty.take_owed_look();
        if self.steps.is_writing() {
            self.dirty.owe_look();
            return false;
        }
        for command in job_external_state::pending_commands(&self.shared, self.job()) {
            self.steps.push_command(command, None);
        }
        true
    }

    pub(super) fn site_of_effect(&self, effect: &JobEffect) -> Option<SiteName> {
        let component = self.job().components.get(effect.component.0 as usize)?;
        component
            .placement
            .as_ref()
            .map(|placement| placement.site.clone())
    }
}

/// Returns true if an answer need not be durable before its job's next change: nothing is to be
/// done after a gate has opened at the common start until its payload is seen, or missed.
fn may_be_written_later(command: &JobCommand, job: &Job) -> bool {
    matches!(command, JobCommand::GateAnswered { open: true, .. })
        && matches!(job.phase, JobPhase::Starting { .. })
}

fn attempt_states_differ(old: &Job, new: &Job) -> bool {
    old.components.len() != new.components.len()
        || old
            .components
            .iter()
            .zip(&new.components)
            .any(|(old, new)| old.run != new.run || old.restart != new.restart)
}

impl RegisteredActor for JobActor {
    type Key = JobId;

    fn actor_id(id: &Self::Key) -> ActorId {
        ActorId::Job(*id)
    }
}

impl Actor for JobActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Job.mailbox_bound(&self.shared.settings));
        if self.rebuilt {
            let settle = job_effects::submission_settle_times(self);
            self.steps
                .push_command(JobCommand::Recover { settle }, None);
            for command in job_external_state::pending_commands(&self.shared, self.job()) {
                self.steps.push_command(command, None);
            }
            self.decide_next_step(ctx);
        } else {
            self.perform_due_effects(ctx);
        }
    }
}

impl Handler<LookAgain> for JobActor {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Job);
        self.look_at_external_state(ctx);
    }
}

impl Handler<LostReservation> for JobActor {
    type Result = ();

    fn handle(
        &mut self,
        LostReservation { site, serial }: LostReservation,
        ctx: &mut Context<Self>,
    ) {
        chaos::enter_handler(ActorKind::Job);
        self.steps
            .push_command(JobCommand::ReservationGone { site, serial }, None);
        self.decide_next_step(ctx);
    }
}

impl Handler<JobCommandMessage> for JobActor {
    type Result = actix::ResponseFuture<Result<(), JobRejection>>;

    fn handle(&mut self, message: JobCommandMessage, ctx: &mut Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Job);
        let (reply, answer) = oneshot::channel();
        self.steps.push_command(message.0, Some(reply));
        self.decide_next_step(ctx);
        if !self.steps.is_writing() && self.dirty.owes_look() {
            self.look_at_external_state(ctx);
        }
        Box::pin(async move { answer.await.unwrap_or(Err(JobRejection::Stale)) })
    }
}
