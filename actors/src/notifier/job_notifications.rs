//! Messages about jobs that have ended or will start: at least once each, not for ever. A target
//! that does not answer keeps no others waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::{JobId, TargetName};
use cospan_domain::job::decide::decide;
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::{Job, StartNotice};
use cospan_domain::units::{DurationMs, Timestamp};
use tracing::warn;

use super::{Notifier, OutgoingNotice};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::job::{JobCommandMessage, job_actor};
use crate::journal::{AppendChange, AppendError};

/// The pause before a write is sent to the actor of a job again, which had no room for it.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// The key of a message: job, target, and the notice of the start that it is about; `None` if it is
/// about the end.
type NoticeKey = (JobId, TargetName, Option<u32>);

/// The state of targets, and of messages under way.
#[derive(Debug, Default)]
pub(super) struct JobNoticeDeliveries {
    under_way: BTreeSet<NoticeKey>,
    silent: BTreeMap<TargetName, FailingNoticeTarget>,
}

/// A target that did not take the last message.
#[derive(Debug, Clone)]
struct FailingNoticeTarget {
    failures: u32,
    until: Timestamp,
    problem: String,
}

/// The next step for one message that is owed.
enum NoticeStep {
    Send(Arc<str>),
    GiveUp(String),
    Wait,
}

impl JobNoticeDeliveries {
    /// Returns true if as many messages to the target are under way as may be.
    fn is_target_full(&self, target: &TargetName) -> bool {
        self.under_way
            .iter()
            .filter(|(_, other, _): &&NoticeKey| other == target)
            .count()
            >= Notifier::AT_ONCE
    }

    /// Returns true if nothing more can be sent, so that there is no use in looking on.
    fn are_targets_full<'a>(&self, mut targets: impl Iterator<Item = &'a TargetName>) -> bool {
        self.under_way.len() >= Notifier::AT_ONCE
            && targets.all(|target| self.is_target_full(target))
    }
}

impl Notifier {
    /// Sends the messages that are owed, as far as targets take them.
    pub(super) fn send_owed_notices(&mut self, ctx: &mut Context<Self>) {
        let view = self.shared.view.load();
        for job in view.untold.iter().filter_map(|id| view.jobs.get(id)) {
            if self
                .ended
                .are_targets_full(self.shared.settings.targets.keys())
            {
                return;
            }
            let ends = job.pending_end_receivers().map(|target| (target, None));
            let starts = job
                .unsent_notices()
                .map(|(notice, target)| (target, Some(notice)));
            for (target, notice) in ends.chain(starts) {
                if self.ended.is_target_full(target) {
                    continue;
                }
                let key = (job.id, target.clone(), notice.map(|notice| notice.id));
                match self.next_notice_step(job, notice, &key) {
                    NoticeStep::Send(address) => {
                        self.send_job_notice(job, notice, key, &address, ctx)
                    }
                    NoticeStep::GiveUp(problem) => {
                        self.record_delivery_result(key, Some(problem), ctx)
                    }
                    NoticeStep::Wait => {}
                }
            }
        }
    }

    fn next_notice_step(
        &self,
        job: &Job,
        notice: Option<&StartNotice>,
        key: &NoticeKey,
    ) -> NoticeStep {
        if self.ended.under_way.contains(key) {
            return NoticeStep::Wait;
        }
        let target = &key.1;
        let Some(address) = self.shared.settings.targets.get(target) else {
            return NoticeStep::GiveUp("no such target is configured any more".into());
        };
        let Some(silence) = self.ended.silent.get(target) else {
            return NoticeStep::Send(address.clone());
        };
        let now = self.shared.clock.now();
        let since = notice.map(|notice| notice.at).or(job.ended_at());
        let give_up_at = since.map(|at| at + self.shared.settings.tell_for);
        if give_up_at.is_some_and(|at| now >= at) {
            return NoticeStep::GiveUp(silence.problem.clone());
        }
        // One message finds out if the target answers again.
        let probed = self
            .ended
            .under_way
            .iter()
            .any(|(_, other, _)| other == target);
        if now < silence.until || probed {
            NoticeStep::Wait
        } else {
            NoticeStep::Send(address.clone())
        }
    }

    fn send_job_notice(
        &mut self,
        job: &Arc<Job>,
        notice: Option<&StartNotice>,
        key: NoticeKey,
        address: &str,
        ctx: &mut Context<Self>,
    ) {
        self.ended.under_way.insert(key.clone());
        let message = match notice {
            None => OutgoingNotice::JobEnded(job.clone()),
            Some(notice) => OutgoingNotice::Start {
                job: job.clone(),
                notice: notice.clone(),
            },
        };
        let sent = self.messenger.send(address, message);
        ctx.spawn(sent.into_actor(self).map(move |sent, this, ctx| {
            let outcome = if sent.is_ok() { "sent" } else { "failed" };
            this.shared
                .metrics
                .notifications
                .with_label_values(&[outcome])
                .inc();
            match sent {
                Ok(()) => {
                    this.ended.silent.remove(&key.1);
                    this.record_delivery_result(key, None, ctx);
                }
                Err(problem) => this.handle_delivery_failure(key, problem, ctx),
            }
        }));
    }

    fn handle_delivery_failure(
        &mut self,
        key: NoticeKey,
        problem: String,
        ctx: &mut Context<Self>,
    ) {
        warn!(
            job = %key.0,
            webhook = %key.1,
            problem,
            "cannot deliver the notification of a job's end; trying again"
        );
        let failures = self
            .ended
            .silent
            .get(&key.1)
            .map_or(0, |silence| silence.failures);
        let failures = failures.saturating_add(1);
        let pause = (1_u64 << failures.min(9)).min(Self::RETRY_MAX_S);
        let until = self.shared.clock.now() + DurationMs::from_secs(pause);
        self.ended.silent.insert(
            key.1.clone(),
            FailingNoticeTarget {
                failures,
                until,
                problem,
            },
        );
        self.ended.under_way.remove(&key);
        ctx.run_later(Duration::from_secs(pause), |this, ctx| {
            this.send_owed_notices(ctx)
        });
        // Other messages may wait for this place, or to be given up.
        self.send_owed_notices(ctx);
    }

    /// Makes durable that a message was delivered, or cannot be.
    fn record_delivery_result(
        &mut self,
        key: NoticeKey,
        problem: Option<String>,
        ctx: &mut Context<Self>,
    ) {
        self.ended.under_way.insert(key.clone());
        let written =
            write_delivery_result(self.shared.clone(), key.clone(), problem.map(Arc::from));
        ctx.spawn(written.into_actor(self).map(move |written, this, ctx| {
            // Otherwise the process is ending, and the message would be sent again.
            if written {
                this.ended.under_way.remove(&key);
                this.send_owed_notices(ctx);
            }
        }));
    }
}

/// Writes that a message was delivered, or cannot be. Returns false if nothing can be written any
/// more.
async fn write_delivery_result(
    shared: Arc<SharedState>,
    key: NoticeKey,
    problem: Option<Arc<str>>,
) -> bool {
    match key {
        (id, target, None) => write_to_ended_job(shared, (id, target), problem).await,
        (id, target, Some(notice)) => {
            let command = JobCommand::NoticeTold {
                notice,
                target,
                problem,
            };
            write_by_job_actor(shared, id, command).await
        }
    }
}

/// Has the job's own actor write it. A job that has ended owes no notice of its start.
async fn write_by_job_actor(shared: Arc<SharedState>, id: JobId, command: JobCommand) -> bool {
    while is_notice_owed(&shared, id, &command) {
        if let Some(addr) = job_actor(&shared, id).await {
            // Refused if it is so already.
            let _ = addr.send(JobCommandMessage(command.clone())).await;
        }
        // Behind it, the view shows what was written.
        if shared
            .journal()
            .send(AppendChange(JournalChange::Barrier))
            .await
            .is_err()
        {
            return false;
        }
        if is_notice_owed(&shared, id, &command) {
            tokio::time::sleep(WRITE_AGAIN).await;
        }
    }
    true
}

fn is_notice_owed(shared: &SharedState, id: JobId, command: &JobCommand) -> bool {
    let JobCommand::NoticeTold { notice, target, .. } = command else {
        return false;
    };
    let view = shared.view.load();
    let job = view.jobs.get(&id);
    job.is_some_and(|job| {
        job.unsent_notices()
            .any(|(owed, to)| owed.id == *notice && to == target)
    })
}

/// Writes it without the job's own actor, which has retired. The version of the record decides
/// between us, another message about the same job, and the archiving. A write that lost against
/// them is repeated, and the message is not. Returns false if nothing can be written any more.
async fn write_to_ended_job(
    shared: Arc<SharedState>,
    key: (JobId, TargetName),
    problem: Option<Arc<str>>,
) -> bool {
    while let Some(change) = delivery_change(&shared, &key, problem.clone()) {
        let written = shared.journal().send(AppendChange(change)).await;
        if !matches!(written, Ok(Err(AppendError::Conflict))) {
            return matches!(written, Ok(Ok(_)));
        }
        // Behind it, the view shows who was first.
        let _ = shared
            .journal()
            .send(AppendChange(JournalChange::Barrier))
            .await;
    }
    true
}

fn delivery_change(
    shared: &SharedState,
    (id, target): &(JobId, TargetName),
    problem: Option<Arc<str>>,
) -> Option<JournalChange> {
    let old = shared.view.load().jobs.get(id).cloned()?;
    let command = JobCommand::EndTold {
        target: target.clone(),
        problem,
    };
    let now = shared.clock.now();
    let events = decide(&old, &shared.settings.job, command, now).ok()?;
    let mut next = Job::clone(&old);
    events.iter().for_each(|event| evolve(&mut next, event));
    next.revision += 1;
    Some(JournalChange::Job {
        old,
        new: Arc::new(next),
        events,
    })
}
