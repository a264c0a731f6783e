//! The supervisor itself: the only actor without a guard, and without state worth keeping. It must
//! not panic, so it does nothing but count and call.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Message};
use cospan_domain::units::Timestamp;
use tracing::{error, warn};

use super::intensity::{RecentDeaths, RestartDecision, death_limit_of};
use super::life_events::{self, ActorLifecycleEvent};
use super::{ActorId, LifeGuard};
use crate::clock::Clock;
use crate::metrics::ControlPlaneMetrics;
use crate::seeded_random::RandomSource;

/// The escalation that is due when a restart is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escalation {
    /// The actor's job or site is to be held.
    Hold,
    /// The process must end.
    Exit,
}

/// Builds actors, and carries out escalations.
pub trait ActorBuilder: Send {
    /// Starts a new life of an actor, from durable state. `restarted` distinguishes a life after a
    /// death from the first.
    fn build(&self, id: &ActorId, guard: LifeGuard, restarted: bool);

    /// Carries out an escalation.
    fn escalate(&self, id: &ActorId, verdict: Escalation);
}

/// The actor that restarts actors that died.
pub struct Supervisor {
    builder: Box<dyn ActorBuilder>,
    clock: Arc<dyn Clock>,
    chance: Arc<RandomSource>,
    metrics: Arc<ControlPlaneMetrics>,
    deaths: BTreeMap<ActorId, RecentDeaths>,
    swept_at: Timestamp,
}

/// Start this actor for the first time.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StartActor(pub ActorId);

/// This actor died.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ActorDeath {
    /// The actor.
    pub id: ActorId,
}

impl Supervisor {
    /// A supervisor that builds with `builder`.
    pub fn new(
        builder: Box<dyn ActorBuilder>,
        clock: Arc<dyn Clock>,
        chance: Arc<RandomSource>,
        metrics: Arc<ControlPlaneMetrics>,
    ) -> Self {
        Self {
            builder,
            clock,
            chance,
            metrics,
            deaths: BTreeMap::new(),
            swept_at: Timestamp(0),
        }
    }

    /// Builds an actor. A panic meanwhile is that actor's death, reported by its guard; the
    /// supervisor must outlive it, for nobody would start anything any more.
    fn build_guarded(&self, id: &ActorId, guard: LifeGuard, rebuilt: bool) {
        life_events::record_life_event(id, ActorLifecycleEvent::Built { anew: rebuilt });
        let builder = &self.builder;
        let built = catch_unwind(AssertUnwindSafe(|| builder.build(id, guard, rebuilt)));
        if built.is_err() {
            error!(actor = %id, "could not be built");
        }
    }

    /// Forgets deaths that count no more, most of all when many die.
    fn forget_old_deaths(&mut self, now: Timestamp) {
        /// The most deaths that need no sweep.
        const FEW: usize = 1_000;
        const SWEEP_MS: u64 = 120_000;
        if now.since(self.swept_at).0 > SWEEP_MS && self.deaths.len() > FEW {
            self.deaths
                .retain(|id, deaths| deaths.has_counting_death(death_limit_of(id.kind()), now));
            self.swept_at = now;
        }
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<StartActor> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: StartActor, ctx: &mut Context<Self>) {
        let guard = LifeGuard::new(message.0.clone(), ctx.address());
        self.build_guarded(&message.0, guard, false);
    }
}

impl Handler<ActorDeath> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: ActorDeath, ctx: &mut Context<Self>) {
        let id = message.id;
        let now = self.clock.now();
        self.metrics
            .actor_restarts
            .with_label_values(&[id.kind().as_str()])
            .inc();
        self.forget_old_deaths(now);
        let step = self
            .deaths
            .entry(id.clone())
            .or_default()
            .record_death(death_limit_of(id.kind()), now);
        match step {
            RestartDecision::Restart(pause) => {
                let pause = self.chance.with_jitter(pause);
                warn!(actor = %id, pause_ms = pause.0, "actor died; rebuilding it from the store");
                ctx.run_later(
                    std::time::Duration::from_millis(pause.0),
                    move |this, ctx| {
                        let guard = LifeGuard::new(id.clone(), ctx.address());
                        this.build_guarded(&id, guard, true);
                    },
                );
            }
            RestartDecision::Hold => {
                error!(actor = %id, "actor died again and again; held");
                self.builder.escalate(&id, Escalation::Hold);
            }
            RestartDecision::Exit => {
                error!(actor = %id, "actor died too often; the process ends");
                self.builder.escalate(&id, Escalation::Exit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use cospan_domain::ids::JobId;

    use super::*;
    use crate::clock::SystemClock;

    /// Panics at the first job, and tells each attempt to build.
    struct PanickingBuilder(mpsc::Sender<bool>, AtomicBool);

    impl ActorBuilder for PanickingBuilder {
        fn build(&self, _: &ActorId, mut guard: LifeGuard, rebuilt: bool) {
            let _ = self.0.send(rebuilt);
            if !self.1.swap(true, Ordering::Relaxed) {
                panic!("clumsy");
            }
            guard.disarm();
        }

        fn escalate(&self, _: &ActorId, _: Escalation) {}
    }

    #[test]
    fn among_many_deaths_those_that_still_count_are_remembered() {
        let (sender, _built) = mpsc::channel();
        let builder = Box::new(PanickingBuilder(sender, AtomicBool::new(false)));
        let metrics = Arc::new(ControlPlaneMetrics::new(&prometheus::Registry::new()).unwrap());
        let clock = Arc::new(SystemClock);
        let chance = Arc::new(RandomSource::from_seed(1));
        let mut supervisor = Supervisor::new(builder, clock, chance, metrics);
        let now = Timestamp(10_000_000);
        let long_ago = Timestamp(now.0 - 61_000);
        let lately = Timestamp(now.0 - 1_000);
        for number in 0..2_000 {
            let id = ActorId::Job(JobId(number));
            let at = if number < 1_500 { long_ago } else { lately };
            supervisor
                .deaths
                .entry(id.clone())
                .or_default()
                .record_death(death_limit_of(id.kind()), at);
        }
        supervisor.forget_old_deaths(now);
        let remembered: Vec<_> = supervisor.deaths.keys().cloned().collect();
        let expected: Vec<_> = (1_500..2_000)
            .map(|number| ActorId::Job(JobId(number)))
            .collect();
        assert_eq!(remembered, expected);
    }

    #[test]
    fn a_panic_in_the_factory_is_the_death_of_what_was_built_alone() {
        let (sender, built) = mpsc::channel();
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(ControlPlaneMetrics::new(&registry).unwrap());
        let clock = Arc::new(SystemClock);
        let chance = Arc::new(RandomSource::from_seed(1));
        actix_rt::System::new().block_on(async {
            let builder = Box::new(PanickingBuilder(sender, AtomicBool::new(false)));
            let supervisor = Supervisor::new(builder, clock, chance, metrics).start();
            supervisor
                .send(StartActor(ActorId::Job(JobId(1))))
                .await
                .unwrap();
            let mut seen = Vec::new();
            while seen.len() < 2 {
                seen.extend(built.try_iter());
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            assert_eq!(seen, [false, true], "built anew from the store");
            supervisor
                .send(StartActor(ActorId::Job(JobId(2))))
                .await
                .unwrap();
        });
    }
}
