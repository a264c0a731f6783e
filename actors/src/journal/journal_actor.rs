//! The journal actor.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use actix::dev::{MessageResponse, OneshotSender};
use actix::{Actor, AsyncContext, Context, Handler, Message, StreamHandler};
use cospan_domain::ids::{Epoch, Seq};
use cospan_domain::invariants::{BrokenInvariant, newly_broken_invariant};
use cospan_domain::site::reservation_names::{newly_taken_names, other_site_with_name};
use cospan_domain::site::site_state::SiteRecord;
use cospan_storage::port::{AppendGroupOutcome, AppendOutcome, CommitReport, UnitToken};
use cospan_storage::record::job::SpecTextCache;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::error;

use super::encode;
use crate::chaos;
use crate::clock::Clock;
use crate::committed::{CommittedView, JournalChange};
use crate::metrics::ControlPlaneMetrics;
use crate::process_end::ProcessEnd;
use crate::supervision::{ActorId, ActorKind, LifeGuard};
use crate::watched_state::PublishedState;

/// Asks to make this change durable. Answered once it is, and once it is in the view.
#[derive(Debug, Message)]
#[rtype(result = "Result<Seq, AppendError>")]
pub struct AppendChange(pub JournalChange);

/// The reason why a change is not in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AppendError {
    /// The record, or another one that it must agree with, has changed since it was read: reload
    /// it.
    #[error("the record has changed since it was read")]
    Conflict,
    /// The change is more than the store takes in one go, whenever it is tried.
    #[error("{0}")]
    Unfit(Arc<str>),
    /// The change would break a rule that every record keeps: it was decided wrongly.
    #[error("the change would break the rule {0}")]
    Broken(BrokenInvariant),
    /// The store has failed or another control plane has taken it; the process is ending.
    #[error("the store takes no more changes")]
    Stopped,
}

/// A report of the store, handed over from its own thread.
#[derive(Debug)]
pub struct JournalReport(pub CommitReport);

struct PendingAppend {
    change: JournalChange,
    first: UnitToken,
    units: u64,
    failed: Option<AppendError>,
    reply: AppendReply,
}

/// The answer to an append, or the channel for it. The asker is known only once the handler has
/// returned; a future that waits for that would be a task for every append.
#[derive(Debug, Clone, Default)]
pub struct AppendReply(Rc<RefCell<AppendReplyState>>);

#[derive(Debug, Default)]
enum AppendReplyState {
    #[default]
    Awaited,
    Given(Result<Seq, AppendError>),
    Asked(OneshotSender<Result<Seq, AppendError>>),
}

impl AppendReply {
    fn give_result(&self, result: Result<Seq, AppendError>) {
        let before = self.0.replace(AppendReplyState::Awaited);
        match before {
            // The asker may be gone.
            AppendReplyState::Asked(asker) => drop(asker.send(result)),
            AppendReplyState::Awaited | AppendReplyState::Given(_) => {
                drop(self.0.replace(AppendReplyState::Given(result)))
            }
        }
    }
}

impl MessageResponse<JournalActor, AppendChange> for AppendReply {
    fn handle(
        self,
        _: &mut Context<JournalActor>,
        asker: Option<OneshotSender<Result<Seq, AppendError>>>,
    ) {
        let Some(asker) = asker else { return };
        match self.0.replace(AppendReplyState::Asked(asker)) {
            AppendReplyState::Given(result) => self.give_result(result),
            AppendReplyState::Awaited | AppendReplyState::Asked(_) => {}
        }
    }
}

/// Has everybody follow a change that was committed at a position.
pub type CommitPublisher = Box<dyn Fn(Seq, JournalChange)>;

/// The parts that a journal is made from.
pub struct JournalParts {
    /// The open store.
    pub port: Arc<dyn cospan_storage::port::Journal>,
    /// This run's epoch over the store.
    pub epoch: Epoch,
    /// The time: a reservation that is over has its name no longer.
    pub clock: Arc<dyn Clock>,
    /// The committed state.
    pub view: Arc<PublishedState<CommittedView>>,
    /// The metrics.
    pub metrics: Arc<ControlPlaneMetrics>,
    /// Ended when the store takes no more changes.
    pub process: Arc<ProcessEnd>,
    /// The messages that may wait.
    pub mailbox_bound: usize,
    /// Called with each committed change, in order.
    pub publish: CommitPublisher,
}

/// The only writer to the store.
pub struct JournalActor {
    parts: JournalParts,
    reports: Option<mpsc::UnboundedReceiver<JournalReport>>,
    pending: VecDeque<PendingAppend>,
    texts: SpecTextCache,
    depth: prometheus::IntGauge,
    next_token: u64,
    stopped: bool,
    _guard: LifeGuard,
}

impl JournalActor {
    /// Makes a journal over an open store. The store's sink feeds `reports`, which has no more than
    /// what was appended and not yet reported.
    pub fn new(
        parts: JournalParts,
        reports: mpsc::UnboundedReceiver<JournalReport>,
        guard: LifeGuard,
    ) -> Self {
        let pending = VecDeque::new();
        let next_token = 0;
        let reports = Some(reports);
        let depth = parts.metrics.mailbox_depth.with_label_values(&["journal"]);
        let texts = SpecTextCache::default();
        Self {
            parts,
            reports,
            pending,
            texts,
            depth,
            next_token,
            stopped: false,
            _guard: guard,
        }
    }

    fn append_change(&mut self, change: JournalChange) -> AppendReply {
        let reply = AppendReply::default();
        if let Some(rule) = broken_rule(&change) {
            error!(%rule, ?change, "a change would break a rule, and is not made: a fault of ours");
            reply.give_result(Err(AppendError::Broken(rule)));
            return reply;
        }
        match encode::units_of_change(&change, &mut self.texts) {
            _ if self.stopped => reply.give_result(Err(AppendError::Stopped)),
            _ if !self.follows_latest(&change) || !self.are_its_names_free(&change) => {
                self.parts.metrics.journal_conflicts.inc();
                reply.give_result(Err(AppendError::Conflict));
            }
            Err(problem) => {
                error!(%problem, "a change does not fit the store");
                reply.give_result(Err(AppendError::Unfit(problem.to_string().into())));
            }
            Ok(units) => {
                let first = UnitToken(self.next_token);
                let count = units.len() as u64;
                self.next_token += count;
                self.pending.push_back(PendingAppend {
                    change,
                    first,
                    units: count,
                    failed: None,
                    reply: reply.clone(),
                });
                self.depth.set(self.pending.len() as i64);
                // The pending entry is there before a store without a thread reports.
                for (unit, token) in units.into_iter().zip(first.0..) {
                    self.parts
                        .port
                        .append(self.parts.epoch, UnitToken(token), unit);
                }
            }
        }
        reply
    }

    /// Returns true if a change of an object with one writer was decided on its latest state. Jobs
    /// are guarded by their version in the store itself.
    fn follows_latest(&self, change: &JournalChange) -> bool {
        let view = self.parts.view.load();
        match change {
            JournalChange::Site { old, new } => {
                let latest = self.pending_changes().find_map(|change| match change {
                    JournalChange::Site { new: other, .. } if other.site == new.site => {
                        Some(Some(other))
                    }
                    _ => None,
                });
                is_same_state(
                    old.as_ref(),
                    latest.unwrap_or_else(|| view.sites.get(&new.site)),
                )
            }
            JournalChange::Copy { key, old, .. } => {
                let latest = self.pending_changes().find_map(|change| match change {
                    JournalChange::Copy {
                        key: other, new, ..
                    } if other == key => Some(new.as_ref()),
                    _ => None,
                });
                is_same_state(old.as_ref(), latest.unwrap_or_else(|| view.copies.get(key)))
            }
            JournalChange::File { name, old, .. } => {
                let latest = self.pending_changes().find_map(|change| match change {
                    JournalChange::File {
                        name: other, new, ..
                    } if other == name => Some(new.as_ref()),
                    _ => None,
                });
                is_same_state(old.as_ref(), latest.unwrap_or_else(|| view.files.get(name)))
            }
            JournalChange::NewJobs(_)
            | JournalChange::Job { .. }
            | JournalChange::JobArchived { .. }
            | JournalChange::IdsReserved { .. }
            | JournalChange::Swept(_)
            | JournalChange::Barrier => true,
        }
    }

    /// Returns true if no other site has a reservation under a name that this change takes. Only
    /// here do requests to several sites come one after the other.
    fn are_its_names_free(&self, change: &JournalChange) -> bool {
        let JournalChange::Site { old, new } = change else {
            return true;
        };
        let mut names = newly_taken_names(old.as_deref(), new).peekable();
        if names.peek().is_none() {
            return true;
        }
        let view = self.parts.view.load();
        let mut latest: BTreeMap<_, &SiteRecord> = view
            .sites
            .iter()
            .map(|(site, record)| (site, &**record))
            .collect();
        for pending in self.pending_changes().collect::<Vec<_>>().iter().rev() {
            if let JournalChange::Site { new, .. } = pending {
                latest.insert(&new.site, new);
            }
        }
        let now = self.parts.clock.now();
        names.all(|name| {
            other_site_with_name(name, &new.site, latest.values().copied(), now).is_none()
        })
    }

    /// Changes that wait for the store, the latest first.
    fn pending_changes(&self) -> impl Iterator<Item = &JournalChange> {
        self.pending.iter().rev().map(|pending| &pending.change)
    }

    fn apply_group_outcomes(&mut self, group: AppendGroupOutcome) {
        let metrics = &self.parts.metrics;
        metrics.flush_units.observe(group.outcomes.len() as f64);
        metrics.flush_seconds.observe(group.flush_us as f64 / 1e6);
        let view = self.parts.view.clone();
        let mut done = Vec::with_capacity(group.outcomes.len());
        view.change_with(|view| {
            for (token, outcome) in group.outcomes {
                self.apply_outcome(token, outcome, view, &mut done);
            }
        });
        self.depth.set(self.pending.len() as i64);
        self.publish_results(done);
    }

    fn apply_outcome(
        &mut self,
        token: UnitToken,
        outcome: AppendOutcome,
        view: &mut CommittedView,
        done: &mut Vec<(PendingAppend, Result<Seq, AppendError>)>,
    ) {
        let Some(front) = self.pending.front_mut() else {
            return;
        };
        let last = front.first.0 + front.units - 1 == token.0;
        let seq = match outcome {
            AppendOutcome::Committed(seq) => seq,
            AppendOutcome::Conflict(key) => {
                self.parts.metrics.journal_conflicts.inc();
                tracing::warn!(?key, "a record had another version");
                front.failed = Some(AppendError::Conflict);
                view.seq
            }
            AppendOutcome::Refused(problem) => {
                error!(%problem, "the store would never take this change");
                front.failed = Some(AppendError::Conflict);
                view.seq
            }
            AppendOutcome::Fenced => {
                front.failed = Some(AppendError::Stopped);
                view.seq
            }
        };
        view.seq = view.seq.max(seq);
        if !last {
            return;
        }
        let Some(finished) = self.pending.pop_front() else {
            return;
        };
        let result = match finished.failed.clone() {
            Some(problem) => Err(problem),
            None => {
                view.apply_change(&finished.change);
                Ok(seq)
            }
        };
        done.push((finished, result));
    }

    /// Publishes changes to followers, then answers the askers.
    fn publish_results(&mut self, done: Vec<(PendingAppend, Result<Seq, AppendError>)>) {
        let mut fenced = false;
        for (finished, result) in done {
            if let Ok(seq) = result {
                (self.parts.publish)(seq, finished.change);
            }
            fenced |= result == Err(AppendError::Stopped);
            finished.reply.give_result(result);
        }
        if fenced {
            self.stop_appends("another control plane has taken the store");
        }
    }

    fn stop_appends(&mut self, problem: &str) {
        if !self.stopped {
            self.stopped = true;
            error!(problem, "the store takes no more changes; the process ends");
            for unanswered in self.pending.drain(..) {
                unanswered.reply.give_result(Err(AppendError::Stopped));
            }
            self.parts.process.end_process(&ActorId::Journal, problem);
        }
    }
}

/// Returns a rule that a change of a job would break.
fn broken_rule(change: &JournalChange) -> Option<BrokenInvariant> {
    match change {
        JournalChange::Job { old, new, .. } => newly_broken_invariant(old, new),
        _ => None,
    }
}

/// Returns true if two states of an object are one; a fresh object is like none.
fn is_same_state<T: PartialEq>(old: Option<&Arc<T>>, latest: Option<&Arc<T>>) -> bool {
    match (old, latest) {
        (Some(old), Some(latest)) => Arc::ptr_eq(old, latest) || old == latest,
        (_, None) => true,
        (None, Some(_)) => false,
    }
}

impl Actor for JournalActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(self.parts.mailbox_bound);
        if let Some(mut reports) = self.reports.take() {
            ctx.add_stream(futures_util::stream::poll_fn(move |cx| {
                reports.poll_recv(cx)
            }));
        }
    }
}

impl Handler<AppendChange> for JournalActor {
    type Result = AppendReply;

    fn handle(&mut self, message: AppendChange, _: &mut Context<Self>) -> AppendReply {
        chaos::enter_handler(ActorKind::Journal);
        self.append_change(message.0)
    }
}

impl StreamHandler<JournalReport> for JournalActor {
    fn handle(&mut self, report: JournalReport, _: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Journal);
        match report.0 {
            CommitReport::Group(group) => self.apply_group_outcomes(group),
            CommitReport::Fatal(problem) => self.stop_appends(&problem),
        }
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        if !self.parts.process.is_stopping() {
            self.stop_appends("the store has ended by itself");
        }
    }
}
