//! The site actor: its state, and when it looks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler, SpawnHandle, StreamHandler};
use cospan_domain::ids::{AttemptTag, SiteName};
use cospan_domain::machine::StateMachine;
use cospan_domain::reservation::ReservationTag;
use cospan_domain::site::SiteMachine;
use cospan_domain::site::contact::ContactLog;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::Timestamp;
use cospan_sites::port::Site;
use tokio::sync::Semaphore;

use super::job_interest::SiteHoldings;
use super::latency::RoundTripSchedule;
use super::own_probe::OwnProbeProgress;
use super::poll_interval::CalmAnswerCount;
use super::reconcile::LostReservationReport;
use super::site_bids::SiteBidState;
use super::site_metrics::SiteGauges;
use crate::actor_registry::{DirtyFlag, LookAgain, RegisteredActor};
use crate::chaos::{self, CrashPoint};
use crate::context::SharedState;
use crate::durable_steps::RecordInbox;
use crate::fair_turns::FairTurns;
use crate::live_state::LatestSiteReport;
use crate::supervision::{ActorId, ActorKind, LifeGuard};

/// The actor of one site: the only way to it, the one loop that polls it, and its record.
pub struct ClusterActor {
    pub(super) shared: Arc<SharedState>,
    pub(super) name: SiteName,
    pub(super) site: Arc<dyn Site>,
    pub(super) record: RecordInbox<SiteMachine>,
    /// Tells jobs of reservations that the site lost.
    pub(super) report_lost: LostReservationReport,
    pub(super) contact: ContactLog,
    pub(super) report: LatestSiteReport,
    pub(super) calls: Arc<Semaphore>,
    /// Turns at reading whole files, which may take hours.
    pub(super) inspections: FairTurns,
    /// Turns at reading and writing pieces of files.
    pub(super) pieces: FairTurns,
    pub(super) polling: bool,
    /// True if the site's latest answer came from the files of attempts alone.
    pub(super) half_silent: bool,
    /// True if the site's administrator was told that it is away, and not yet that it is back.
    pub(super) told_away: bool,
    /// The site reported a change since it was last asked.
    pub(super) hinted: bool,
    pub(super) polled_at: Option<Timestamp>,
    pub(super) described_at: Option<Timestamp>,
    pub(super) reconciled_at: Option<Timestamp>,
    /// True if the last sweep left something of ours; unknown counts as yes.
    pub(super) left_there: bool,
    /// The number of looks in a row that left something that is still to end.
    pub(super) unfinished: u32,
    pub(super) reconciling: bool,
    /// Reservations that nobody needed at the last look.
    pub(super) orphans: BTreeSet<ReservationTag>,
    /// Attempts that could not be removed at the last sweep, and were reported already.
    pub(super) stuck: BTreeSet<AttemptTag>,
    /// A call about a shared reservation is under way.
    pub(super) asking_shared: bool,
    /// The probe of our own, as far as it was sent.
    pub(super) sent: OwnProbeProgress,
    pub(super) seen: SiteHoldings,
    pub(super) calm: CalmAnswerCount,
    /// Attempts that wait for others here, with the time when that was first seen.
    pub(super) behind: BTreeMap<AttemptTag, Timestamp>,
    pub(super) schedule: RoundTripSchedule,
    pub(super) gauges: SiteGauges,
    pub(super) bidder: SiteBidState,
    wake: Option<(Timestamp, SpawnHandle)>,
    /// The time at which the record is to be looked at again.
    record_due: Option<Timestamp>,
    dirty: DirtyFlag,
    _guard: LifeGuard,
}

/// A hint from the site that something may have changed.
pub(super) struct SiteChangeHint;

impl ClusterActor {
    /// Begins a new life.
    pub(crate) fn new(
        shared: Arc<SharedState>,
        site: Arc<dyn Site>,
        record: Arc<SiteRecord>,
        report_lost: LostReservationReport,
        dirty: DirtyFlag,
        guard: LifeGuard,
    ) -> Self {
        let name = site.name().clone();
        let gauges = SiteGauges::new(&shared.metrics, &name);
        let calls = Arc::new(Semaphore::new(shared.settings.calls_per_site));
        let schedule = RoundTripSchedule::new(&shared, &name);
        let bidder = SiteBidState::new(shared.deductions.lock_ledgers().ledger_number(&name));
        Self {
            name,
            site,
            record: RecordInbox::new(record),
            report_lost,
            contact: ContactLog::default(),
            report: LatestSiteReport::default(),
            calls,
            inspections: FairTurns::default(),
            pieces: FairTurns::default(),
            polling: false,
            half_silent: false,
            told_away: false,
            hinted: false,
            polled_at: None,
            described_at: None,
            reconciled_at: None,
            left_there: true,
            unfinished: 0,
            reconciling: false,
            orphans: BTreeSet::new(),
            stuck: BTreeSet::new(),
            asking_shared: false,
            sent: OwnProbeProgress::default(),
            seen: SiteHoldings::default(),
            calm: CalmAnswerCount::default(),
            behind: BTreeMap::new(),
            schedule,
            gauges,
            bidder,
            wake: None,
            record_due: None,
            dirty,
            _guard: guard,
            shared,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Takes stock: polls if it is time, and sets the next time.
    pub(super) fn do_due_work(&mut self, ctx: &mut Context<Self>) {
        self.dirty.take_owed_look();
        let now = self.now();
        self.forget_waits(now);
        self.poll_if_due(now, ctx);
        if self.is_reconcile_due(now) {
            self.start_reconcile(ctx);
        }
        self.measure_if_due(now, ctx);
        self.commit_record(ctx);
        self.look_for_no_shows(now, ctx);
        self.advance_joint_parts(ctx);
        self.call_shared_reservations(ctx);
        self.advance_own_probe(ctx);
        self.set_wake_timer(ctx, now);
    }

    /// Sets the next time to look. A timer that runs out too early costs only a look, less than
    /// setting it anew whenever that time moves away.
    pub(super) fn set_wake_timer(&mut self, ctx: &mut Context<Self>, now: Timestamp) {
        if self.record_due.is_some_and(|due| due <= now) {
            // A breaker, a window, an override or an owner's bar may be over.
            self.publish_barred_owners(self.record.state());
            self.shared.request_planning();
            self.publish_state();
        }
        let parameters = &self.shared.settings.site;
        self.record_due = SiteMachine::next_wake(self.record.state(), parameters, now);
        let due = [
            self.next_poll_time(now),
            self.next_reconcile_time(now),
            self.next_measurement(),
            self.record_due,
            self.report.obtainable.next_expiry(),
        ];
        let Some(next) = due.into_iter().flatten().min() else {
            return;
        };
        if self.wake.as_ref().is_some_and(|(time, _)| *time <= next) {
            return;
        }
        if let Some((_, handle)) = self.wake.take() {
            ctx.cancel_future(handle);
        }
        let pause = Duration::from_millis(next.since(now).0.max(5));
        self.wake = Some((next, ctx.run_later(pause, Self::wake_up)));
    }

    fn wake_up(&mut self, ctx: &mut Context<Self>) {
        self.wake = None;
        self.do_due_work(ctx);
    }
}

impl RegisteredActor for ClusterActor {
    type Key = SiteName;

    fn actor_id(site: &Self::Key) -> ActorId {
        ActorId::Cluster(site.clone())
    }
}

impl Actor for ClusterActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        ctx.set_mailbox_capacity(ActorKind::Cluster.mailbox_bound(&self.shared.settings));
        if let Some(mut changes) = self.site.monitor().changes() {
            ctx.add_stream(hint_stream(&mut changes));
        }
        self.count_shared_reservations(self.record.state(), &[]);
        self.publish_barred_owners(self.record.state());
        self.shared
            .live
            .publish_report(self.name.clone(), Arc::new(self.report.clone()));
        self.do_due_work(ctx);
    }
}

fn hint_stream(
    changes: &mut tokio::sync::watch::Receiver<u64>,
) -> impl futures_util::Stream<Item = SiteChangeHint> + use<> {
    futures_util::stream::unfold(changes.clone(), |mut changes| async move {
        changes.changed().await.ok()?;
        Some((SiteChangeHint, changes))
    })
}

impl StreamHandler<SiteChangeHint> for ClusterActor {
    fn handle(&mut self, _: SiteChangeHint, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Cluster);
        self.hinted = true;
        self.calm.note_activity();
        let now = self.now();
        self.poll_if_due(now, ctx);
        self.set_wake_timer(ctx, now);
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The site gives no more hints; the polls go on.
    }
}

impl Handler<LookAgain> for ClusterActor {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Cluster);
        self.do_due_work(ctx);
    }
}
