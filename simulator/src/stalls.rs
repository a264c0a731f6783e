//! Actors that take no messages for a while, and mailboxes that are full meanwhile, as drawn from a
//! seed. Both are messages like any other, so they work in every build.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use cospan_actors::actor_registry::{ActorRegistry, RegisteredActor};
use cospan_actors::catalogue::InformationActor;
use cospan_actors::claimer::Claimer;
use cospan_actors::clock::Clock;
use cospan_actors::coallocator::CoAllocator;
use cospan_actors::context::SharedState;
use cospan_actors::intake::Intake;
use cospan_actors::job::JobActor;
use cospan_actors::journal::JournalActor;
use cospan_actors::notifier::Notifier;
use cospan_actors::reserver::Reserver;
use cospan_actors::site::ClusterActor;
use cospan_actors::supervision::{ActorId, ActorKind};
use cospan_actors::transfer::{DataManager, TransferActor};
use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::actor_lives::{ActorLives, RecordedActorEvent};
use super::fault_kinds::FaultKind;
use super::fault_tally::FaultEffectTally;

/// Kinds of actors that take messages; a claim timer gets none.
pub const KINDS: [ActorKind; 11] = [
    ActorKind::Journal,
    ActorKind::Intake,
    ActorKind::Information,
    ActorKind::DataManager,
    ActorKind::CoAllocator,
    ActorKind::Reserver,
    ActorKind::Claimer,
    ActorKind::Notifier,
    ActorKind::Cluster,
    ActorKind::Job,
    ActorKind::Transfer,
];

/// Highest bound of a mailbox that is to be full, in messages.
const ROOM_MAX: usize = 4;

/// Frequency and length of stalls, and the actors that stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallSettings {
    /// True for each of [`KINDS`] that stalls.
    pub kinds: [bool; KINDS.len()],
    /// Longest time between two stalls.
    pub pause_max: DurationMs,
    /// Longest stall.
    pub lasts_max: DurationMs,
    /// Share of the stalls during which the mailbox is full, in parts per million.
    pub full: u32,
    /// Time from which on no stall begins.
    pub until: Timestamp,
}

impl StallSettings {
    /// Lists the kinds of actors that stall.
    pub fn stalled_kinds(&self) -> impl Iterator<Item = ActorKind> {
        KINDS
            .into_iter()
            .zip(self.kinds)
            .filter(|(_, struck)| *struck)
            .map(|(kind, _)| kind)
    }
}

impl fmt::Display for StallSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.stalled_kinds().map(ActorKind::as_str).collect();
        let Self {
            pause_max,
            lasts_max,
            full,
            ..
        } = self;
        write!(
            f,
            "{} for {lasts_max} each {pause_max}, full:{full}",
            kinds.join(" ")
        )
    }
}

/// Access to the control plane whose actors stall.
pub(super) struct StallingControlPlane {
    pub(super) shared: Arc<SharedState>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tally: Arc<FaultEffectTally>,
    pub(super) lives: Arc<ActorLives>,
    /// Time until which the mailbox of the intake is full. A sender that is turned away there tells
    /// nobody else.
    pub(super) intake_full_until: Arc<AtomicU64>,
}

/// Makes an actor take no message for this long.
#[derive(Message)]
#[rtype(result = "()")]
struct Stall {
    lasts: DurationMs,
    /// The bound of its mailbox afterwards.
    bound: usize,
    /// The bound of its mailbox meanwhile, if it is to be full.
    room: Option<usize>,
    /// Fills the mailbox to its bound; returns the number of messages.
    fill: Box<dyn FnOnce() -> usize + Send>,
    /// Called when the stall is over, with true if some message had to wait.
    struck: Box<dyn FnOnce(bool) + Send>,
}

/// A message that only takes up room.
#[derive(Message)]
#[rtype(result = "()")]
struct MailboxFiller;

fn stall<A>(actor: &A, stall: Stall, ctx: &mut Context<A>)
where
    A: Actor<Context = Context<A>> + Handler<MailboxFiller>,
{
    let Stall {
        lasts,
        bound,
        room,
        fill,
        struck,
    } = stall;
    let fillers = room.map_or(0, |room| {
        ctx.set_mailbox_capacity(room);
        fill()
    });
    let rest = tokio::time::sleep(Duration::from_millis(lasts.0)).into_actor(actor);
    ctx.wait(rest.map(move |(), _, ctx| {
        struck(has_more_waiting(fillers, ctx));
        ctx.set_mailbox_capacity(bound);
    }));
}

/// Returns true if more than `count` messages are in the mailbox: then one more fills it, and the
/// second one is turned away.
fn has_more_waiting<A>(count: usize, ctx: &mut Context<A>) -> bool
where
    A: Actor<Context = Context<A>> + Handler<MailboxFiller>,
{
    ctx.set_mailbox_capacity(count + 2);
    let own = ctx.address();
    own.try_send(MailboxFiller).is_ok() && own.try_send(MailboxFiller).is_err()
}

macro_rules! stalls {
    ($($actor:ty),*) => {$(
        impl Handler<Stall> for $actor {
            type Result = ();

            fn handle(&mut self, message: Stall, ctx: &mut Context<Self>) {
                stall(self, message, ctx);
            }
        }

        impl Handler<MailboxFiller> for $actor {
            type Result = ();

            fn handle(&mut self, _: MailboxFiller, _: &mut Context<Self>) {}
        }
    )*};
}

stalls!(
    JournalActor,
    Intake,
    InformationActor,
    DataManager,
    CoAllocator,
    Reserver,
    Claimer,
    Notifier
);
stalls!(ClusterActor, JobActor, TransferActor);

/// Makes actors stall from now on, each at most once at a time.
pub(super) async fn stall_actors(
    stalls: Option<StallSettings>,
    seed: u64,
    patient: StallingControlPlane,
) {
    let Some(stalls) = stalls else { return };
    let mut chance = StdRng::seed_from_u64(seed ^ 0x7374_616c_6c73);
    let kinds: Vec<ActorKind> = stalls.stalled_kinds().collect();
    let mut over: BTreeMap<ActorId, Timestamp> = BTreeMap::new();
    loop {
        let pause = chance.random_range(1..=stalls.pause_max.0);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let lasts = DurationMs(chance.random_range(1..=stalls.lasts_max.0));
        let is_full = chance.random_range(0..1_000_000) < stalls.full;
        let room = is_full.then(|| chance.random_range(1..=ROOM_MAX));
        let Some(kind) = kinds.choose(&mut chance) else {
            return;
        };
        let Some(id) = draw_actor(*kind, &patient.shared.actors, &mut chance) else {
            continue;
        };
        let now = patient.clock.now();
        if now >= stalls.until {
            return;
        }
        over.retain(|_, at| *at > now);
        if !over.contains_key(&id) && patient.stall_actor(&id, lasts, room) {
            patient
                .lives
                .record_event(now, RecordedActorEvent::Stalled(id.clone(), lasts, is_full));
            over.insert(id, now + lasts);
        }
    }
}

fn draw_actor(kind: ActorKind, actors: &ActorRegistry, chance: &mut StdRng) -> Option<ActorId> {
    Some(match kind {
        ActorKind::Journal => ActorId::Journal,
        ActorKind::Intake => ActorId::Intake,
        ActorKind::Information => ActorId::Information,
        ActorKind::DataManager => ActorId::DataManager,
        ActorKind::CoAllocator => ActorId::CoAllocator,
        ActorKind::Reserver => ActorId::Reserver,
        ActorKind::Claimer => ActorId::Claimer,
        ActorKind::Notifier => ActorId::Notifier,
        ActorKind::Cluster | ActorKind::Job | ActorKind::Transfer => {
            actors.ids(kind).choose(chance)?.clone()
        }
        ActorKind::ClaimTimer => return None,
    })
}

impl StallingControlPlane {
    /// Makes one actor stall. Returns true if it lives.
    fn stall_actor(&self, id: &ActorId, lasts: DurationMs, room: Option<usize>) -> bool {
        let tally = self.tally.clone();
        let kind = id.kind();
        let fault = if room.is_some() {
            FaultKind::MailboxFull
        } else {
            FaultKind::ActorStalls
        };
        if kind == ActorKind::Intake && room.is_some() {
            let until = self.clock.now() + lasts;
            self.intake_full_until.store(until.0, Ordering::Relaxed);
        }
        let bound = kind.mailbox_bound(&self.shared.settings);
        let room = room.map(|room| room.min(bound));
        let fill = Box::new(|| 0);
        let struck = Box::new(move |struck: bool| {
            if struck {
                tally.count_fault(fault, kind.as_str());
            }
        });
        self.send_stall(
            id,
            Stall {
                lasts,
                bound,
                room,
                fill,
                struck,
            },
        )
    }

    fn send_stall(&self, id: &ActorId, mut stall: Stall) -> bool {
        match id {
            ActorId::Journal => {
                let shared = self.shared.clone();
                stall.fill = Box::new(move || {
                    fill_mailbox(|| shared.journal().try_send(MailboxFiller).is_ok())
                });
                self.shared.journal().do_send(stall);
                true
            }
            ActorId::Intake => self.send_stall_to::<Intake>((), stall),
            ActorId::Information => self.send_stall_to::<InformationActor>((), stall),
            ActorId::DataManager => self.send_stall_to::<DataManager>((), stall),
            ActorId::CoAllocator => self.send_stall_to::<CoAllocator>((), stall),
            ActorId::Reserver => self.send_stall_to::<Reserver>((), stall),
            ActorId::Claimer => self.send_stall_to::<Claimer>((), stall),
            ActorId::Notifier => self.send_stall_to::<Notifier>((), stall),
            ActorId::Cluster(site) => self.send_stall_to::<ClusterActor>(site.clone(), stall),
            ActorId::Job(job) => self.send_stall_to::<JobActor>(*job, stall),
            ActorId::Transfer(digest, site) => {
                self.send_stall_to::<TransferActor>((*digest, site.clone()), stall)
            }
            ActorId::ClaimTimer(_) => false,
        }
    }

    fn send_stall_to<A>(&self, key: A::Key, mut stall: Stall) -> bool
    where
        A: RegisteredActor + Handler<Stall> + Handler<MailboxFiller>,
    {
        let Some(addr) = self.shared.actors.addr::<A>(&key) else {
            return false;
        };
        let shared = self.shared.clone();
        stall.fill = Box::new(move || {
            let actors = &shared.actors;
            fill_mailbox(|| actors.send_bounded::<A, _>(&key, MailboxFiller).is_ok())
        });
        addr.do_send(stall);
        true
    }
}

/// Offers one message after the other until one is turned away.
fn fill_mailbox(offer: impl Fn() -> bool) -> usize {
    (0..=ROOM_MAX).take_while(|_| offer()).count()
}
