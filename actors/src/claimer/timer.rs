//! A claim timer: asks the claimer to look when one job is due. It is a hint only; the time itself
//! is in the job's record.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context};
use cospan_domain::ids::JobId;

use crate::chaos::{self, CrashPoint};
use crate::context::SharedState;
use crate::supervision::{ActorId, LifeGuard};

/// The timer of one job.
pub struct ClaimTimer {
    shared: Arc<SharedState>,
    job: JobId,
    guard: LifeGuard,
}

impl ClaimTimer {
    /// A timer for this job, as long as it waits in the claiming queue.
    pub fn new(shared: Arc<SharedState>, job: JobId, guard: LifeGuard) -> Self {
        Self { shared, job, guard }
    }

    fn arm_timer(&mut self, ctx: &mut Context<Self>) {
        let view = self.shared.view.load();
        let Some(time) = view
            .jobs
            .get(&self.job)
            .and_then(|job| job.next_claim_time(&self.shared.settings.job))
        else {
            self.guard.disarm();
            ctx.stop();
            return;
        };
        let now = self.shared.clock.now();
        if time <= now {
            self.shared.actors.request_look_of(&ActorId::Claimer);
            self.guard.disarm();
            ctx.stop();
            return;
        }
        let pause = Duration::from_millis(time.since(now).0.max(5));
        ctx.run_later(pause, |this, ctx| this.arm_timer(ctx));
    }
}

impl Actor for ClaimTimer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        chaos::reach_point(CrashPoint::Started);
        self.arm_timer(ctx);
    }
}
