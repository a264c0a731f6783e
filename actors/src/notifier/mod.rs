//! The notifier: messages to site administrators, and to those who want to know of the end of a
//! job, or of its reserved start. Messages owed are in the records of sites and jobs, so a crash
//! loses none, and at most sends one twice.

mod job_notifications;
mod notice_changes;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use cospan_domain::ids::SiteName;
use cospan_domain::job::job_state::{Job, StartNotice};
use cospan_domain::site::site_state::{SiteNotification, SiteNotificationId};
use futures_util::future::BoxFuture;
use tracing::{info, warn};

use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::committed::CommittedView;
use crate::context::SharedState;
use crate::site::{ClusterActor, NotificationSent};
use crate::supervision::{ActorId, ActorKind, LifeGuard};

pub(crate) use notice_changes::follow_commit;

/// A message to somebody.
#[derive(Debug, Clone)]
pub enum OutgoingNotice {
    /// About a site.
    Site {
        /// The site.
        site: SiteName,
        /// The notification.
        notification: SiteNotification,
    },
    /// A job has ended.
    JobEnded(Arc<Job>),
    /// A notice about the reserved start of a job.
    Start {
        /// The job.
        job: Arc<Job>,
        /// The notice.
        notice: StartNotice,
    },
}

/// Carries messages to the outside.
pub trait NoticeSender: Send + Sync {
    /// Sends a message to an address. `Err` gives the reason why it did not arrive.
    fn send(&self, address: &str, notice: OutgoingNotice)
    -> BoxFuture<'static, Result<(), String>>;
}

/// The actor that sends the notifications that sites and jobs owe.
pub struct Notifier {
    shared: Arc<SharedState>,
    messenger: Arc<dyn NoticeSender>,
    under_way: BTreeSet<(SiteName, SiteNotificationId)>,
    depth: prometheus::IntGauge,
    failures: u32,
    ended: job_notifications::JobNoticeDeliveries,
    dirty: DirtyFlag,
    _guard: LifeGuard,
}

impl Notifier {
    /// The most messages under way at once to one target, or about one site: a target that does not
    /// answer takes the places of no other.
    const AT_ONCE: usize = 8;
    const RETRY_MAX_S: u64 = 300;
    /// The pause before a site's actor is told again that a message was sent.
    const SAY_AGAIN: Duration = Duration::from_secs(10);

    /// Begins a new life.
    pub fn new(
        shared: Arc<SharedState>,
        messenger: Arc<dyn NoticeSender>,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let under_way = BTreeSet::new();
        let ended = job_notifications::JobNoticeDeliveries::default();
        let depth = shared
            .metrics
            .mailbox_depth
            .with_label_values(&["notifier"]);
        depth.set(0);
        Self {
            shared,
            messenger,
            under_way,
            depth,
            failures: 0,
            ended,
            dirty,
            _guard: guard,
        }
    }

    fn send_due_notifications(&mut self, ctx: &mut Context<Self>) {
        self.dirty.take_owed_look();
        self.send_owed_notices(ctx);
        let view = self.shared.view.load();
        self.under_way
            .retain(|key| is_notification_owed(&view, key));
        self.depth.set(self.under_way.len() as i64);
        for (site, record) in &view.sites {
            let under_way = self
                .under_way
                .iter()
                .filter(|(about, _)| about == site)
                .count();
            let owed = record.owed.iter();
            let new: Vec<_> = owed
                .filter(|owed| !self.under_way.contains(&(site.clone(), owed.id)))
                .take(Self::AT_ONCE.saturating_sub(under_way))
                .collect();
            new.into_iter()
                .for_each(|notification| self.send_notification(site, notification, ctx));
        }
    }

    fn send_notification(
        &mut self,
        site: &SiteName,
        notification: &SiteNotification,
        ctx: &mut Context<Self>,
    ) {
        let key = (site.clone(), notification.id);
        self.under_way.insert(key.clone());
        self.depth.set(self.under_way.len() as i64);
        let hooks = &self.shared.settings.webhooks;
        let addresses: Vec<Arc<str>> = [Some(site.clone()), None]
            .iter()
            .filter_map(|of| hooks.get(of))
            .flatten()
            .cloned()
            .collect();
        let notice = OutgoingNotice::Site {
            site: site.clone(),
            notification: notification.clone(),
        };
        let about = key.clone();
        let text = notification.text.clone();
        let messenger = self.messenger.clone();
        let sent = async move {
            if addresses.is_empty() {
                info!(site = %about.0, %text, "no webhook is configured");
            }
            // If one of them fails, all get the message again: at least once, not exactly once.
            let sends = addresses
                .iter()
                .map(|address| messenger.send(address, notice.clone()));
            futures_util::future::join_all(sends)
                .await
                .into_iter()
                .collect()
        };
        ctx.spawn(
            sent.into_actor(self)
                .map(move |sent, this, ctx| this.handle_send_result(key, sent, ctx)),
        );
    }

    fn handle_send_result(
        &mut self,
        key: (SiteName, SiteNotificationId),
        sent: Result<(), String>,
        ctx: &mut Context<Self>,
    ) {
        let outcome = if sent.is_ok() { "sent" } else { "failed" };
        self.shared
            .metrics
            .notifications
            .with_label_values(&[outcome])
            .inc();
        match sent {
            Ok(()) => {
                self.failures = 0;
                self.confirm_sent(key, ctx);
            }
            Err(problem) => {
                self.failures = self.failures.saturating_add(1);
                warn!(site = %key.0, problem, "cannot deliver a notification; trying again");
                let pause = (1u64 << self.failures.min(9)).min(Self::RETRY_MAX_S);
                ctx.run_later(Duration::from_secs(pause), move |this, ctx| {
                    this.under_way.remove(&key);
                    this.depth.set(this.under_way.len() as i64);
                    this.send_due_notifications(ctx);
                });
            }
        }
    }

    /// Reports to the site's actor that a message was sent, until the site's record shows it: the
    /// actor may have no room for that, or die of something else. Until then the message is under
    /// way, so that it is not sent twice.
    fn confirm_sent(&mut self, key: (SiteName, SiteNotificationId), ctx: &mut Context<Self>) {
        if !is_notification_owed(&self.shared.view.load(), &key) {
            return;
        }
        let _ = self
            .shared
            .actors
            .send_bounded::<ClusterActor, _>(&key.0, NotificationSent(key.1));
        ctx.run_later(Self::SAY_AGAIN, |this, ctx| this.confirm_sent(key, ctx));
    }
}

/// Returns true if the site's record has this as still to be sent.
fn is_notification_owed(view: &CommittedView, (site, id): &(SiteName, SiteNotificationId)) -> bool {
    view.sites
        .get(site)
        .is_some_and(|record| record.owed.iter().any(|owed| owed.id == *id))
}

impl RegisteredActor for Notifier {
    type Key = ();

    fn actor_id(_: &Self::Key) -> ActorId {
        ActorId::Notifier
    }
}

impl Actor for Notifier {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Notifier.mailbox_bound(&self.shared.settings));
        self.send_due_notifications(ctx);
    }
}

impl Handler<LookAgain> for Notifier {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Notifier);
        self.send_due_notifications(ctx);
    }
}
