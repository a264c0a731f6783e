//! Jobs as others reach them: their actors, and the hold on one whose actor does not live.

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, Message};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::decide::decide;
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::Job;
use cospan_domain::reservation::ReservationSerial;
use tracing::error;

use super::job_actor::{JobActor, JobCommandMessage, LostReservation};
use crate::chaos::{self, CrashPoint};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::journal::AppendChange;
use crate::supervision::{ActorId, OwedAnswer, StartActor};

/// Returns a job's actor; `None` while it is being rebuilt. A job that only waits in its queue has
/// none until something is wanted of it.
pub(crate) async fn job_actor(shared: &SharedState, id: JobId) -> Option<Addr<JobActor>> {
    if !shared.actors.contains(&ActorId::Job(id)) {
        let start = StartActor(ActorId::Job(id));
        shared.supervisor.get()?.send(start).await.ok()?;
    }
    shared.actors.addr::<JobActor>(&id)
}

/// Sends a job a command, and its sender `heard` when that is over. A job that has changed meanwhile
/// refuses: the handler of `heard` decides anew.
pub(crate) fn send_job_command<A, M>(
    shared: &Arc<SharedState>,
    job: JobId,
    command: JobCommand,
    heard: M,
    sender: Addr<A>,
) where
    A: Actor<Context = Context<A>> + Handler<M>,
    M: Message<Result = ()> + Send + 'static,
{
    let shared = shared.clone();
    let owed = OwedAnswer::new(sender, heard);
    actix_rt::spawn(async move {
        chaos::reach_point(CrashPoint::SpawnedFuture);
        if let Some(addr) = job_actor(&shared, job).await {
            let _ = addr.send(JobCommandMessage(command)).await;
        }
        owed.send_default_answer().await;
    });
}

/// Tells a job that its site lost a reservation. Returns false if its actor does not live: it is
/// told at the next look.
pub(crate) fn report_lost_reservation(
    shared: &SharedState,
    id: JobId,
    site: &SiteName,
    serial: ReservationSerial,
) -> bool {
    let Some(addr) = shared.actors.addr::<JobActor>(&id) else {
        return false;
    };
    addr.do_send(LostReservation {
        site: site.clone(),
        serial,
    });
    true
}

/// Holds a job whose turn ends actors again and again. Its own actor is gone or takes no part; the
/// version of the record decides between us and a late one.
pub(crate) async fn hold_job(shared: &Arc<SharedState>, id: JobId) {
    const REASON: &str = "the actor that works on it died again and again; see the log, then \
                          `cospan release` or `cospan cancel`";
    let _ = shared
        .journal()
        .send(AppendChange(JournalChange::Barrier))
        .await;
    let Some(old) = shared.view.load().jobs.get(&id).cloned() else {
        return;
    };
    let now = shared.clock.now();
    let hold = JobCommand::Hold(REASON.into());
    let Ok(events) = decide(&old, &shared.settings.job, hold, now) else {
        return;
    };
    let mut next = Job::clone(&old);
    events.iter().for_each(|event| evolve(&mut next, event));
    next.revision += 1;
    let change = JournalChange::Job {
        old,
        new: Arc::new(next),
        events,
    };
    if let Err(problem) = shared.journal().send(AppendChange(change)).await {
        error!(job = %id, %problem, "could not be held");
    }
}
