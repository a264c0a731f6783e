//! The transfer actor: the durable step of one copy, its calls, and its timer.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};
use cospan_domain::ids::JobId;
use cospan_domain::machine::StateMachine;
use cospan_domain::transfer::CopyMachine;
use cospan_domain::transfer::copy_command::CopyCommand;
use cospan_domain::transfer::copy_due::CopyEffect;
use cospan_domain::transfer::copy_event::CopyEventKind;
use cospan_domain::transfer::copy_state::{CopyPhase, CopyRecord};
use cospan_domain::units::{DurationMs, Timestamp};
use imbl::OrdSet;
use tracing::debug;

use super::copy_effects::{self, CopyCallOutcome};
use super::copy_watch::CopyTryWatch;
use super::{CopyKey, copy_metrics, is_copy_needed};
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::durable_steps::{DecidedStep, RecordInbox};
use crate::journal::{AppendChange, AppendError};
use crate::supervision::{ActorId, ActorKind, LifeGuard};

/// The pauses before a call that failed is made again: at first, doubling, and at most.
const RETRY: DurationMs = DurationMs(1_000);
const RETRY_MAX: DurationMs = DurationMs(15_000);
/// The pause before a source is looked for again while a site has not answered at all yet.
const SOURCE_SOON: DurationMs = DurationMs(500);

/// The actor of one copy: one content at one site, for all who need it there.
pub struct TransferActor {
    pub(super) shared: Arc<SharedState>,
    pub(super) key: CopyKey,
    steps: RecordInbox<CopyMachine>,
    /// The record that the journal has.
    stored: Option<Arc<CopyRecord>>,
    dirty: DirtyFlag,
    /// A call to the site is under way: one at a time, so that no answer overtakes a later request.
    calling: bool,
    /// Effects that failed or are to be repeated, with the time before which they are not made
    /// again.
    not_before: Vec<(CopyEffect, Timestamp)>,
    /// The time until which a request to delete that an earlier life made can take effect.
    settled_at: Timestamp,
    /// The number of calls that failed in a row.
    failures: u32,
    pub(super) watch: Option<CopyTryWatch>,
    /// The expected end, as the link promised at the start.
    pub(super) promised: Option<Timestamp>,
    /// Jobs for which the store was asked if it still has the content.
    verified: OrdSet<JobId>,
    wake: Option<(Timestamp, SpawnHandle)>,
    guard: LifeGuard,
}

impl TransferActor {
    /// Begins a new life. `record` is what the journal has of the copy, `blank` what it begins as.
    /// Nothing else is handed over from an earlier life: a request that may have been made is made
    /// again under the same nonce, and joins the copying that runs.
    pub fn new(
        shared: Arc<SharedState>,
        key: CopyKey,
        record: Option<Arc<CopyRecord>>,
        blank: CopyRecord,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let settled_at = if record.as_ref().is_some_and(|record: &Arc<CopyRecord>| {
            matches!(record.phase, CopyPhase::Deleting { .. })
        }) {
            shared.clock.now() + shared.settings.job.settle
        } else {
            Timestamp(0)
        };
        Self {
            steps: RecordInbox::new(record.clone().unwrap_or_else(|| Arc::new(blank))),
            stored: record,
            shared,
            key,
            dirty,
            calling: false,
            not_before: Vec::new(),
            settled_at,
            failures: 0,
            watch: None,
            promised: None,
            verified: OrdSet::new(),
            wake: None,
            guard,
        }
    }

    pub(super) fn record(&self) -> &Arc<CopyRecord> {
        self.steps.state()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Looks at the clock, and at who needs the copy.
    fn look_at_needs(&mut self, ctx: &mut Context<Self>) {
        self.dirty.take_owed_look();
        if self.steps.is_writing() {
            // A look now would be decided on the old state; look again after.
            self.dirty.owe_look();
            return;
        }
        let usage = if self.is_needed() {
            CopyCommand::Need
        } else {
            CopyCommand::NoLongerNeeded
        };
        self.push_command(usage, ctx);
    }

    fn is_needed(&self) -> bool {
        is_copy_needed(&self.shared.view.load(), &self.key)
    }

    fn push_command(&mut self, command: CopyCommand, ctx: &mut Context<Self>) {
        self.steps.push_command(command, None);
        self.decide_next_step(ctx);
    }

    /// Decides the durable step.
    fn decide_next_step(&mut self, ctx: &mut Context<Self>) {
        if self.steps.is_writing() {
            return;
        }
        let now = self.now();
        match self.steps.decide_inbox(&self.copy_parameters(), now) {
            Some(step) => self.write_step(step, ctx),
            None => self.perform_due_effects(ctx),
        }
    }

    fn write_step(&mut self, step: DecidedStep<CopyMachine>, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Decided);
        let (next, events, answers) = step.into_parts();
        let next = Arc::new(next);
        let new = (!next.is_gone()).then(|| next.clone());
        let names = self.due_effect_names(&next);
        chaos::reach_for_effects(&names, CrashPoint::BeforeJournal);
        let change = JournalChange::Copy {
            key: self.key.clone(),
            old: self.stored.clone(),
            new: new.clone(),
        };
        let append = self.shared.journal().send(AppendChange(change));
        let done = append
            .into_actor(self)
            .map(move |result, this, ctx| match result {
                Ok(Ok(_)) => {
                    chaos::reach_for_effects(&names, CrashPoint::AfterJournal);
                    let before = this.record().clone();
                    this.stored = new;
                    this.steps.finish_write(next, answers);
                    events.iter().for_each(|event| {
                        copy_metrics::count_copy_event(
                            &this.shared.metrics,
                            &this.key,
                            &before,
                            event,
                        )
                    });
                    if events
                        .iter()
                        .any(|event| event.what == CopyEventKind::CopyCompleted)
                    {
                        this.measure_link(&before);
                    }
                    this.continue_after_write(ctx);
                }
                Ok(Err(AppendError::Conflict | AppendError::Unfit(_) | AppendError::Broken(_))) => {
                    this.reload_record(ctx)
                }
                // The process is ending.
                Ok(Err(AppendError::Stopped)) | Err(_) => {}
            });
        ctx.spawn(done);
    }

    fn due_effect_names(&self, record: &CopyRecord) -> Vec<&'static str> {
        let due = CopyMachine::due(record, &self.copy_parameters(), self.now());
        due.iter().map(CopyEffect::name).collect()
    }

    /// Loads the record anew, which changed without us: never overwrite it.
    fn reload_record(&mut self, ctx: &mut Context<Self>) {
        self.stored = self.shared.view.load().copies.get(&self.key).cloned();
        let content = self.record().content;
        let chunk = self.record().chunk;
        let record = self.stored.clone().unwrap_or_else(|| {
            Arc::new(CopyRecord {
                chunk,
                ..CopyRecord::new(content, self.key.1.clone())
            })
        });
        self.steps.reset_to(record);
        self.continue_after_write(ctx);
    }

    /// Takes up what came in while a write was under way, and performs what is due.
    fn continue_after_write(&mut self, ctx: &mut Context<Self>) {
        if self.dirty.owes_look() {
            self.look_at_needs(ctx);
        } else {
            self.decide_next_step(ctx);
        }
    }

    /// Performs the effects that are due. Start, restart, hint and timer all run this line.
    fn perform_due_effects(&mut self, ctx: &mut Context<Self>) {
        if self.record().is_gone() && self.stored.is_none() {
            self.retire_if_nothing_left(ctx);
            return;
        }
        self.show_progress();
        let now = self.now();
        let due = CopyMachine::due(self.record(), &self.copy_parameters(), now);
        self.not_before.retain(|(effect, _)| due.contains(effect));
        for effect in due {
            if self
                .not_before
                .iter()
                .any(|(other, time)| *other == effect && *time > now)
            {
                continue;
            }
            match &effect {
                CopyEffect::Look => return self.push_command(CopyCommand::Look, ctx),
                CopyEffect::ChooseSource { .. } => {
                    // With any outcome, not again at once.
                    self.put_off_effect(&effect, SOURCE_SOON);
                    if let Some(command) = self.choose_source() {
                        return self.push_command(command, ctx);
                    }
                }
                CopyEffect::WatchCopy(order) => self.begin_watching_try(order, now),
                // A job may have been placed here before the deletion was durable, and count on the
                // copy.
                CopyEffect::DeleteContent { .. } if self.is_needed() => {
                    return self.look_at_needs(ctx);
                }
                CopyEffect::CheckContent(_) if now < self.settled_at => {
                    self.put_off_effect_until(&effect, self.settled_at);
                    continue;
                }
                _ => {}
            }
            self.call_site_for_effect(effect, ctx);
        }
        self.verify_copy(ctx);
        self.set_wake_timer(ctx);
    }

    fn put_off_effect(&mut self, effect: &CopyEffect, pause: DurationMs) {
        self.put_off_effect_until(effect, self.now() + pause);
    }

    fn put_off_effect_until(&mut self, effect: &CopyEffect, until: Timestamp) {
        self.not_before.retain(|(other, _)| other != effect);
        self.not_before.push((effect.clone(), until));
    }

    /// Makes the call that an effect needs, unless one is under way.
    fn call_site_for_effect(&mut self, effect: CopyEffect, ctx: &mut Context<Self>) {
        if self.calling {
            return;
        }
        let record = self.record().clone();
        let Some(pending) =
            copy_effects::call_for_effect(&self.shared, &self.key, &record, &effect)
        else {
            return;
        };
        chaos::reach_for_effect(effect.name(), CrashPoint::BeforeEffect);
        self.calling = true;
        ctx.spawn(pending.into_actor(self).map(move |outcome, this, ctx| {
            chaos::reach_for_effect(effect.name(), CrashPoint::AfterEffect);
            this.handle_call_outcome(&effect, outcome, ctx);
        }));
    }

    fn handle_call_outcome(
        &mut self,
        effect: &CopyEffect,
        outcome: CopyCallOutcome,
        ctx: &mut Context<Self>,
    ) {
        self.calling = false;
        match outcome {
            CopyCallOutcome::Tell(command) => {
                self.failures = 0;
                // A rejected command would be due again at once.
                self.put_off_effect(effect, RETRY);
                self.push_command(command, ctx);
            }
            CopyCallOutcome::Status(nonce, status) => {
                self.failures = 0;
                let (command, pause) = self.observe_status(nonce, status);
                self.put_off_effect(effect, pause);
                self.push_command(command, ctx);
            }
            CopyCallOutcome::Has(nonce, there) => {
                self.put_off_effect(effect, RETRY);
                let there = if there {
                    CopyCommand::FoundThere { nonce }
                } else {
                    CopyCommand::FoundMissing { nonce }
                };
                self.push_command(there, ctx);
            }
            CopyCallOutcome::Again(error) => {
                let (digest, site) = &self.key;
                debug!(%digest, %site, effect = effect.name(), %error, "failed; trying again later");
                if let (CopyEffect::WatchCopy(_), Some(watch)) = (effect, &mut self.watch) {
                    watch.excuse_next_stall();
                }
                let pause = DurationMs(RETRY.0 << self.failures.min(10)).min(RETRY_MAX);
                self.failures = self.failures.saturating_add(1);
                self.put_off_effect(effect, self.shared.chance.with_jitter(pause));
                self.decide_next_step(ctx);
            }
        }
    }

    /// Asks the store, once for each job that comes to need a whole copy, if the copy is still
    /// there: a store may have been emptied behind our back. A site that does not answer says
    /// nothing; the next job asks again.
    fn verify_copy(&mut self, ctx: &mut Context<Self>) {
        let CopyPhase::Ready { nonce, .. } = self.record().phase else {
            return;
        };
        let users = self
            .shared
            .view
            .load()
            .needs
            .get(&self.key)
            .cloned()
            .unwrap_or_default();
        if self.calling || users.is_subset(&self.verified) {
            self.verified = users.intersection(self.verified.clone());
            return;
        }
        self.calling = true;
        let pending = copy_effects::call_has_content(&self.shared, &self.key, nonce);
        ctx.spawn(pending.into_actor(self).map(move |outcome, this, ctx| {
            this.calling = false;
            this.verified = users;
            match outcome {
                CopyCallOutcome::Has(nonce, false) => {
                    this.push_command(CopyCommand::FoundMissing { nonce }, ctx)
                }
                _ => this.decide_next_step(ctx),
            }
        }));
    }

    fn set_wake_timer(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let state = CopyMachine::next_wake(self.record(), &self.copy_parameters(), now);
        // The result of a call under way will wake us anyway.
        let again = self
            .not_before
            .iter()
            .map(|(_, time)| *time)
            .filter(|&time| time > now)
            .min();
        let next = [state, again].into_iter().flatten().min();
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
                this.look_at_needs(ctx);
            });
            self.wake = Some((time, handle));
        }
    }

    /// Retires when nothing is left of the copy, and the journal knows nothing of it.
    fn retire_if_nothing_left(&mut self, ctx: &mut Context<Self>) {
        if !self.record().is_needed() && self.is_needed() {
            self.look_at_needs(ctx);
            return;
        }
        let (digest, site) = &self.key;
        self.shared.live.note_progress(*digest, site, None);
        self.guard.disarm();
        self.shared
            .actors
            .remove_actor(&TransferActor::actor_id(&self.key));
        ctx.stop();
    }
}

impl RegisteredActor for TransferActor {
    type Key = CopyKey;

    fn actor_id((digest, site): &Self::Key) -> ActorId {
        ActorId::Transfer(*digest, site.clone())
    }
}

impl Actor for TransferActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Transfer.mailbox_bound(&self.shared.settings));
        self.look_at_needs(ctx);
    }
}

impl Handler<LookAgain> for TransferActor {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Transfer);
        self.look_at_needs(ctx);
    }
}
