//! The catalogue actor: the durable step of each logical file.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture,
    WrapFuture,
};
use cospan_domain::catalogue::FileMachine;
use cospan_domain::catalogue::file_command::FileCommand;
use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::LogicalName;
use tokio::sync::oneshot;
use tracing::info;

use super::file_refusal;
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::commands::ApiRefusal;
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::durable_steps::{DecidedStep, RecordInbox};
use crate::journal::{AppendChange, AppendError};
use crate::supervision::{ActorId, ActorKind, LifeGuard};

/// The most names that may be written at the same time; further requests are told to come back.
const NAMES_BOUND: usize = 4_096;

/// The only writer of the catalogue.
pub struct InformationActor {
    pub(super) shared: Arc<SharedState>,
    dirty: DirtyFlag,
    /// Names with a write under way.
    desks: BTreeMap<LogicalName, FileRecordInbox>,
    depth: prometheus::IntGauge,
    _guard: LifeGuard,
}

struct FileRecordInbox {
    steps: RecordInbox<FileMachine>,
    /// The record that the journal has.
    stored: Option<Arc<FileRecord>>,
}

/// A command to one logical file. Answered once everything that follows is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), ApiRefusal>")]
pub(super) struct FileCommandMessage {
    pub(super) name: LogicalName,
    pub(super) command: FileCommand,
}

impl InformationActor {
    /// Begins a new life.
    pub fn new(shared: Arc<SharedState>, dirty: DirtyFlag, guard: LifeGuard) -> Self {
        let depth = shared
            .metrics
            .mailbox_depth
            .with_label_values(&["information"]);
        depth.set(0);
        Self {
            shared,
            dirty,
            desks: BTreeMap::new(),
            depth,
            _guard: guard,
        }
    }

    fn inbox_of_file(&mut self, name: &LogicalName) -> Option<&mut FileRecordInbox> {
        if !self.desks.contains_key(name) {
            if self.desks.len() >= NAMES_BOUND {
                return None;
            }
            let stored = self.shared.view.load().files.get(name).cloned();
            let steps = RecordInbox::new(
                stored
                    .clone()
                    .unwrap_or_else(|| Arc::new(FileRecord::new(name.clone()))),
            );
            self.desks
                .insert(name.clone(), FileRecordInbox { steps, stored });
            self.depth.set(self.desks.len() as i64);
        }
        self.desks.get_mut(name)
    }

    /// Decides the durable step of one name; drops its desk when nothing is left to do.
    fn commit_file(&mut self, name: &LogicalName, ctx: &mut Context<Self>) {
        let now = self.shared.clock.now();
        let Some(desk) = self.desks.get_mut(name) else {
            return;
        };
        match desk.steps.decide_inbox(&(), now) {
            Some(step) => self.write_step(name.clone(), step, ctx),
            None if desk.steps.is_writing() => {}
            None => {
                self.desks.remove(name);
                self.depth.set(self.desks.len() as i64);
            }
        }
    }

    fn write_step(
        &mut self,
        name: LogicalName,
        step: DecidedStep<FileMachine>,
        ctx: &mut Context<Self>,
    ) {
        chaos::reach_point(CrashPoint::Decided);
        let (next, events, answers) = step.into_parts();
        for event in &events {
            info!(file = %name, event = event.what.name(), "catalogue");
        }
        let next = Arc::new(next);
        let new = (!next.is_gone()).then(|| next.clone());
        let old = self.desks.get(&name).and_then(|desk| desk.stored.clone());
        let change = JournalChange::File {
            name: name.clone(),
            old,
            new: new.clone(),
        };
        chaos::reach_for_effect("File", CrashPoint::BeforeJournal);
        let append = self.shared.journal().send(AppendChange(change));
        ctx.spawn(append.into_actor(self).map(move |result, this, ctx| {
            let Some(desk) = this.desks.get_mut(&name) else {
                return;
            };
            match result {
                Ok(Ok(_)) => {
                    chaos::reach_for_effect("File", CrashPoint::AfterJournal);
                    desk.stored = new;
                    chaos::reach_for_effect("File", CrashPoint::BeforeAnswer);
                    desk.steps.finish_write(next, answers);
                }
                // Never overwrite: the client is told to ask again.
                Ok(Err(AppendError::Conflict | AppendError::Unfit(_) | AppendError::Broken(_))) => {
                    desk.stored = this.shared.view.load().files.get(&name).cloned();
                    desk.steps.reset_to(
                        desk.stored
                            .clone()
                            .unwrap_or_else(|| Arc::new(FileRecord::new(name.clone()))),
                    );
                }
                // The process is ending.
                Ok(Err(AppendError::Stopped)) | Err(_) => return,
            }
            this.commit_file(&name, ctx);
        }));
    }
}

/// Sends a command to the catalogue's writer, from a future of one of its handlers.
pub(super) async fn send_file_command(
    information: Addr<InformationActor>,
    name: LogicalName,
    command: FileCommand,
) -> Result<(), ApiRefusal> {
    let answer = information.send(FileCommandMessage { name, command }).await;
    answer.unwrap_or(Err(ApiRefusal::Busy { retry_after_s: 1 }))
}

impl RegisteredActor for InformationActor {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::Information
    }
}

impl Actor for InformationActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Information.mailbox_bound(&self.shared.settings));
    }
}

impl Handler<FileCommandMessage> for InformationActor {
    type Result = ResponseFuture<Result<(), ApiRefusal>>;

    fn handle(
        &mut self,
        FileCommandMessage { name, command }: FileCommandMessage,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        chaos::enter_handler(ActorKind::Information);
        let (reply, answer) = oneshot::channel();
        if let Some(desk) = self.inbox_of_file(&name) {
            desk.steps.push_command(command, Some(reply));
            self.commit_file(&name, ctx);
        }
        Box::pin(async move {
            let busy = ApiRefusal::Busy { retry_after_s: 1 };
            let decided = answer.await.map_err(|_| busy)?;
            decided.map_err(|rejection| file_refusal::refusal_from_rejection(&name, &rejection))
        })
    }
}

impl Handler<LookAgain> for InformationActor {
    type Result = ();

    /// The catalogue follows nobody: it changes by its own writes alone.
    fn handle(&mut self, _: LookAgain, _: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Information);
        self.dirty.take_owed_look();
    }
}
