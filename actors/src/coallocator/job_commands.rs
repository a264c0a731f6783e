//! Commands of the co-allocator to jobs.

use actix::dev::ToEnvelope;
use actix::{AsyncContext, Context, Handler, Message};
use cospan_domain::ids::JobId;
use cospan_domain::job::job_command::JobCommand;

use super::coallocator_actor::CoAllocator;
use crate::chaos::{self, CrashPoint};
use crate::job::JobCommandMessage;
use crate::supervision::OwedAnswer;

impl CoAllocator {
    /// Sends a job a command, and gets `heard` when that is over. A job that has changed meanwhile
    /// refuses: the handler of `heard` decides anew.
    pub(super) fn send_job_command<M>(
        &self,
        job: JobId,
        command: JobCommand,
        heard: M,
        ctx: &mut Context<Self>,
    ) where
        M: Message<Result = ()> + Send + 'static,
        Self: Handler<M>,
        Context<Self>: ToEnvelope<Self, M>,
    {
        let shared = self.shared.clone();
        let owed = OwedAnswer::new(ctx.address(), heard);
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            if let Some(addr) = shared.job_actor(job).await {
                let _ = addr.send(JobCommandMessage(command)).await;
            }
            owed.send_default_answer().await;
        });
    }
}
