//! The site's record: errors charged to it, operator's commands, notifications owed.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use cospan_domain::ids::KeyName;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::site_command::{
    OperatorCommand, ProbeOutcome, SiteCommand, SiteRejection,
};
use cospan_domain::site::site_state::{AttemptId, SiteNotificationId, SiteRecord};
use cospan_domain::units::PerMillion;
use tokio::sync::oneshot;

use super::ClusterActor;
use crate::chaos::{self, CrashPoint};
use crate::committed::JournalChange;
use crate::journal::{AppendChange, AppendError};
use crate::seeded_random::RandomPurpose;
use crate::supervision::ActorKind;

/// A job charges this site with an error. Sent at least once, counted once.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), SiteRejection>")]
pub struct ErrorCharge {
    /// The attempt that failed.
    pub attempt: AttemptId,
    /// The owner of the job.
    pub owner: KeyName,
    /// The class of the failure.
    pub class: FailureClass,
    /// A description of the failure.
    pub detail: Arc<str>,
}

/// An attempt is over, and the site is not charged with it. Only a hint: if it is lost, that costs
/// the site one success, or keeps a probe's place taken until the next reconciliation.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AttemptOver {
    /// The attempt that is over.
    pub attempt: AttemptId,
    /// True if its payload succeeded. Otherwise the end says nothing about the site.
    pub succeeded: bool,
}

/// An operator's command.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), SiteRejection>")]
pub struct SiteCommandMessage {
    /// The key that gave it.
    pub by: KeyName,
    pub what: OperatorCommand,
}

/// Asks to let a component be submitted: while the site is probed, only a few are let through, and
/// none of a barred owner.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), SiteRejection>")]
pub struct AskAdmission {
    pub attempt: AttemptId,
    /// The owner of the job.
    pub owner: KeyName,
    /// The job may try out a site after errors.
    pub may_probe: bool,
}

/// A notification was sent.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct NotificationSent(pub SiteNotificationId);

type SiteRecordAnswer = actix::ResponseFuture<Result<(), SiteRejection>>;

impl ClusterActor {
    fn execute_command(
        &mut self,
        command: SiteCommand,
        ctx: &mut Context<Self>,
    ) -> SiteRecordAnswer {
        let (reply, answer) = oneshot::channel();
        self.record.push_command(command, Some(reply));
        self.commit_record(ctx);
        Box::pin(async move { answer.await.unwrap_or(Err(SiteRejection::Undecided)) })
    }

    pub(super) fn draw_jitter_share(&self) -> PerMillion {
        PerMillion((self.shared.chance.draw_bits(RandomPurpose::Jitter) % 1_000_000) as u32)
    }

    /// Notes the barred owners: they ask sites under their own names until they may come here
    /// again.
    pub(super) fn publish_barred_owners(&self, record: &SiteRecord) {
        let suspects = record
            .barred_owners(self.now())
            .map(|(owner, _)| owner.clone())
            .collect();
        if self.shared.live.set_barred_owners(&self.name, suspects) {
            self.shared.live.note_placement_change();
            self.shared.request_planning();
        }
    }

    /// Decides the next step of the site's record, and makes it durable.
    pub(super) fn commit_record(&mut self, ctx: &mut Context<Self>) {
        if !self.record.has_commands() {
            return;
        }
        let now = self.now();
        let Some(step) = self.record.decide_inbox(&self.shared.settings.site, now) else {
            return;
        };
        chaos::reach_point(CrashPoint::Decided);
        let (next, events, answers) = step.into_parts();
        for event in &events {
            tracing::info!(site = %self.name, event = ?event.what, "site");
        }
        let next = Arc::new(next);
        let change = JournalChange::Site {
            old: Some(self.record.state().clone()),
            new: next.clone(),
        };
        let questions = chaos::due_site_call_names(&next);
        chaos::reach_for_effect("Site", CrashPoint::BeforeJournal);
        chaos::reach_for_effects(&questions, CrashPoint::BeforeJournal);
        let append = self.shared.journal().send(AppendChange(change));
        ctx.spawn(
            append
                .into_actor(self)
                .map(move |result, this, ctx| match result {
                    Ok(Ok(_)) => {
                        chaos::reach_for_effect("Site", CrashPoint::AfterJournal);
                        chaos::reach_for_effects(&questions, CrashPoint::AfterJournal);
                        if !answers.is_empty() {
                            chaos::reach_for_effect("Site", CrashPoint::BeforeAnswer);
                        }
                        this.count_shared_reservations(&next, &events);
                        this.publish_barred_owners(&next);
                        this.record.finish_write(next, answers);
                        this.publish_state();
                        let now = this.now();
                        this.set_wake_timer(ctx, now);
                        this.commit_record(ctx);
                        this.advance_joint_parts(ctx);
                        this.call_shared_reservations(ctx);
                        this.advance_own_probe(ctx);
                    }
                    Ok(Err(
                        AppendError::Conflict | AppendError::Unfit(_) | AppendError::Broken(_),
                    )) => {
                        let stored = this.shared.view.load().sites.get(&this.name).cloned();
                        let stored = stored.unwrap_or_else(|| this.record.state().clone());
                        this.record.reset_to(stored);
                    }
                    // The process is ending; nothing more may be decided.
                    Ok(Err(AppendError::Stopped)) | Err(_) => {}
                }),
        );
    }
}

impl Handler<ErrorCharge> for ClusterActor {
    type Result = SiteRecordAnswer;

    fn handle(&mut self, charge: ErrorCharge, ctx: &mut Context<Self>) -> SiteRecordAnswer {
        chaos::enter_handler(ActorKind::Cluster);
        // A site that has not answered since our start may be well, and we may be cut off.
        let unheard = matches!(self.contact.contact(), SiteContact::NeverAnswered);
        let isolated = self.shared.live.is_isolated() || unheard;
        if !isolated && charge.class.charges_site() {
            self.shared
                .metrics
                .site_errors
                .with_label_values(&[self.name.as_str()])
                .inc();
        }
        let command = SiteCommand::RecordError {
            attempt: charge.attempt,
            owner: Some(charge.owner),
            class: charge.class,
            detail: charge.detail,
            isolated,
            jitter: self.draw_jitter_share(),
        };
        self.execute_command(command, ctx)
    }
}

impl Handler<AttemptOver> for ClusterActor {
    type Result = ();

    fn handle(&mut self, AttemptOver { attempt, succeeded }: AttemptOver, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Cluster);
        let command = if succeeded {
            SiteCommand::RecordSuccess { attempt }
        } else {
            SiteCommand::EndProbe {
                probe: attempt,
                outcome: ProbeOutcome::Inconclusive,
                jitter: PerMillion::default(),
            }
        };
        self.record.push_command(command, None);
        self.commit_record(ctx);
    }
}

impl Handler<SiteCommandMessage> for ClusterActor {
    type Result = SiteRecordAnswer;

    fn handle(&mut self, message: SiteCommandMessage, ctx: &mut Context<Self>) -> SiteRecordAnswer {
        chaos::enter_handler(ActorKind::Cluster);
        self.execute_command(
            SiteCommand::Operate {
                by: message.by,
                what: message.what,
            },
            ctx,
        )
    }
}

impl Handler<AskAdmission> for ClusterActor {
    type Result = SiteRecordAnswer;

    fn handle(&mut self, message: AskAdmission, ctx: &mut Context<Self>) -> SiteRecordAnswer {
        chaos::enter_handler(ActorKind::Cluster);
        let AskAdmission {
            attempt: probe,
            owner,
            may_probe,
        } = message;
        self.execute_command(
            SiteCommand::StartProbe {
                probe,
                owner: Some(owner),
                may_probe,
            },
            ctx,
        )
    }
}

impl Handler<NotificationSent> for ClusterActor {
    type Result = ();

    fn handle(&mut self, message: NotificationSent, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Cluster);
        self.record
            .push_command(SiteCommand::NotificationSent { id: message.0 }, None);
        self.commit_record(ctx);
    }
}
