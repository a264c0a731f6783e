//! The intake actor.

use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use cospan_domain::ids::KeyName;
use cospan_domain::units::Timestamp;
use tokio::sync::oneshot;

use super::acceptance::AcceptedRequest;
use super::forwarded_commands;
use super::ids::JobIdAllocator;
use super::memory_quota::KeyMemoryUsage;
use super::submit::{KnownIdempotencyKeys, SubmissionRequest};
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::commands::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest};
use crate::context::SharedState;
use crate::supervision::{ActorId, ActorKind, LifeGuard};

pub(super) type ApiAnswerSender = oneshot::Sender<Result<ApiAnswer, ApiRefusal>>;

/// A command, with the channel to the client that waits.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct IntakeCommand {
    /// The command itself.
    pub command: ApiCommand,
    /// Jobs of a submission, by index, that are refused unless they were accepted before.
    pub refused: Vec<(usize, ApiRefusal)>,
    /// The channel for the answer.
    pub answer: ApiAnswerSender,
}

/// The entry of every command.
pub struct Intake {
    pub(super) shared: Arc<SharedState>,
    /// The store, for the histories of jobs that are archived.
    pub(super) store: Arc<dyn cospan_storage::port::Journal>,
    pub(super) ids: JobIdAllocator,
    pub(super) known: KnownIdempotencyKeys,
    /// The memory that jobs take.
    pub(super) kept: KeyMemoryUsage,
    /// The last time when room was sought, because there was none.
    pub(super) sought_room_at: Timestamp,
    /// Requests that have their ids, and go to the journal together.
    pub(super) accepting: Vec<AcceptedRequest>,
    /// The number of commands taken and not answered yet.
    pub(super) under_way: usize,
    depth: prometheus::IntGauge,
    dirty: DirtyFlag,
    _guard: LifeGuard,
}

impl Intake {
    /// Begins a new life: its knowledge is made anew from the view.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        store: Arc<dyn cospan_storage::port::Journal>,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let view = shared.view.load();
        let ids = JobIdAllocator::new(view.next_id);
        let known = KnownIdempotencyKeys::from_view(&view);
        let kept = KeyMemoryUsage::from_view(&view);
        let bound = shared.settings.job_memory.in_all.0.min(i64::MAX as u64);
        shared.metrics.job_memory.limit.set(bound as i64);
        shared
            .metrics
            .job_memory
            .taken
            .set(kept.total_bytes().0 as i64);
        let depth = shared.metrics.mailbox_depth.with_label_values(&["intake"]);
        depth.set(0);
        Self {
            shared,
            store,
            ids,
            known,
            kept,
            sought_room_at: Timestamp::default(),
            accepting: Vec::new(),
            under_way: 0,
            depth,
            dirty,
            _guard: guard,
        }
    }

    fn take_command(&mut self, message: IntakeCommand, ctx: &mut Context<Self>) {
        let IntakeCommand {
            command,
            refused,
            answer,
        } = message;
        if self.shared.process.is_stopping() {
            return send_reply(answer, Err(ApiRefusal::Stopping));
        }
        if self.under_way >= self.shared.settings.intake_bound {
            return send_reply(answer, Err(ApiRefusal::Busy { retry_after_s: 1 }));
        }
        self.under_way += 1;
        self.depth.set(self.under_way as i64);
        match command.what {
            ApiRequest::Submit(submissions) => {
                self.submit_jobs(
                    SubmissionRequest {
                        submissions,
                        refused,
                        by: command.by,
                        answer,
                    },
                    ctx,
                );
            }
            ask => {
                let shared = self.shared.clone();
                let work = carry_out_for_client(shared, command.by, ask, answer);
                ctx.spawn(work.into_actor(self).map(|(answer, result), this, _| {
                    this.answer_command(answer, result);
                }));
            }
        }
    }

    pub(super) fn answer_command(
        &mut self,
        answer: ApiAnswerSender,
        result: Result<ApiAnswer, ApiRefusal>,
    ) {
        self.under_way = self.under_way.saturating_sub(1);
        self.depth.set(self.under_way as i64);
        chaos::reach_point(CrashPoint::BeforeAnswer);
        send_reply(answer, result);
    }
}

/// Carries out any command but a submission. Reading a file, which may take hours, ends with its
/// client; all else is carried through.
async fn carry_out_for_client(
    shared: Arc<SharedState>,
    by: KeyName,
    ask: ApiRequest,
    mut answer: ApiAnswerSender,
) -> (ApiAnswerSender, Result<ApiAnswer, ApiRefusal>) {
    let is_given_up = matches!(ask, ApiRequest::AddFile { .. });
    let work = forwarded_commands::carry_out_command(shared, by, ask);
    let result = tokio::select! {
        biased;
        result = work => result,
        () = answer.closed(), if is_given_up => Err(ApiRefusal::Conflict("its client is gone".into())),
    };
    (answer, result)
}

fn send_reply(answer: ApiAnswerSender, result: Result<ApiAnswer, ApiRefusal>) {
    // A client that went away gets no answer; the decision holds.
    let _ = answer.send(result);
}

impl RegisteredActor for Intake {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::Intake
    }
}

impl Actor for Intake {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Intake.mailbox_bound(&self.shared.settings));
        self.schedule_archiving(ctx);
    }
}

impl Handler<IntakeCommand> for Intake {
    type Result = ();

    fn handle(&mut self, message: IntakeCommand, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Intake);
        self.take_command(message, ctx);
    }
}

impl Handler<LookAgain> for Intake {
    type Result = ();

    fn handle(&mut self, _: LookAgain, _: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Intake);
        self.dirty.take_owed_look();
        self.archive_ended_jobs();
    }
}
