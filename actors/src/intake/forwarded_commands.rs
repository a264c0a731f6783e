//! Passes commands on to the jobs and sites that they are for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::catalogue::file_command::RequestingKey;
use cospan_domain::ids::{JobId, KeyName, SiteName};
use cospan_domain::job::job_command::{JobCommand, JobRejection};
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::{ClassRequest, JobClassProperties, decide_class};
use cospan_domain::site::site_command::SiteRejection;

use super::shared_reservation_commands;
use crate::catalogue::{AddFile, InformationActor, RemoveFile};
use crate::commands::{ApiAnswer, ApiRefusal, ApiRequest, JobCommandOutcome, OperatorCommand};
use crate::context::SharedState;
use crate::job::{JobActor, JobCommandMessage, SilentSiteReport, job_actor, not_given_up_text};
use crate::site::{ClusterActor, SiteCommandMessage};
use crate::supervision::ActorId;

/// The longest time for which a command waits for an actor that is being rebuilt.
const REBUILD_WAIT: Duration = Duration::from_secs(10);
const REBUILD_LOOK: Duration = Duration::from_millis(20);

/// Carries out any command but a submission.
pub(super) async fn carry_out_command(
    shared: Arc<SharedState>,
    by: KeyName,
    ask: ApiRequest,
) -> Result<ApiAnswer, ApiRefusal> {
    match ask {
        ApiRequest::Cancel(jobs) => {
            let answer = command_jobs(&shared, jobs, |_| JobCommand::Cancel(by.clone())).await;
            Ok(add_pending_waits(&shared, answer?, |job: &Job| {
                SilentSiteReport::from_job(&shared, job).warning(job)
            }))
        }
        ApiRequest::Abandon(jobs) => {
            let answer = command_jobs(&shared, jobs, |id| JobCommand::Abandon {
                by: by.clone(),
                silent: silent_sites_of_job(&shared, id),
            })
            .await;
            Ok(add_pending_waits(&shared, answer?, |job: &Job| {
                not_given_up_text(&shared, job)
            }))
        }
        ApiRequest::Freeze(jobs) => {
            command_jobs(&shared, jobs, |_| JobCommand::Freeze(by.clone())).await
        }
        ApiRequest::Thaw(jobs) => {
            command_jobs(&shared, jobs, |_| JobCommand::Thaw(by.clone())).await
        }
        ApiRequest::Release(jobs) => {
            command_jobs(&shared, jobs, |_| JobCommand::Release(by.clone())).await
        }
        ApiRequest::SetPriority { jobs, to, uncapped } => {
            set_priority(&shared, jobs, to, uncapped, &by).await
        }
        ApiRequest::ChangeReservation { job, wish } => {
            let command = JobCommand::ChangeReservation { wish, by };
            command_jobs(&shared, vec![job], |_| command.clone()).await
        }
        ApiRequest::Site(site, order) => command_site(&shared, site, by, order).await,
        ApiRequest::AddFile {
            name,
            site,
            path,
            replace,
            reaches_all,
        } => {
            let by = RequestingKey {
                key: by,
                reaches_all,
            };
            ask_catalogue(
                &shared,
                AddFile {
                    name,
                    site,
                    path,
                    replace,
                    by,
                },
            )
            .await
        }
        ApiRequest::RemoveFile {
            name,
            site,
            force,
            reaches_all,
        } => {
            let by = RequestingKey {
                key: by,
                reaches_all,
            };
            ask_catalogue(
                &shared,
                RemoveFile {
                    name,
                    site,
                    force,
                    by,
                },
            )
            .await
        }
        ApiRequest::Submit(_) => Err(ApiRefusal::Conflict("a submission is not an order".into())),
    }
}

async fn ask_catalogue<M>(shared: &SharedState, message: M) -> Result<ApiAnswer, ApiRefusal>
where
    M: actix::Message<Result = Result<(), ApiRefusal>> + Send + 'static,
    crate::catalogue::InformationActor: actix::Handler<M>,
{
    let busy = ApiRefusal::Busy { retry_after_s: 1 };
    let information = shared
        .actors
        .addr::<InformationActor>(&())
        .ok_or_else(|| busy.clone())?;
    information.send(message).await.map_err(|_| busy)??;
    Ok(ApiAnswer::Done)
}

async fn command_jobs(
    shared: &Arc<SharedState>,
    jobs: Vec<JobId>,
    command: impl Fn(JobId) -> JobCommand,
) -> Result<ApiAnswer, ApiRefusal> {
    let outcomes = jobs.into_iter().map(|id| {
        let order = command_job(shared, id, command(id));
        async move { (id, order.await) }
    });
    // Side by side, so that all of them share the journal's flushes.
    Ok(ApiAnswer::Jobs(
        futures_util::future::join_all(outcomes).await,
    ))
}

/// Moves each job whose own rule allows the priority. The key makes no difference, but that some
/// keys are bound by no rule.
async fn set_priority(
    shared: &Arc<SharedState>,
    jobs: Vec<JobId>,
    to: Priority,
    uncapped: bool,
    by: &KeyName,
) -> Result<ApiAnswer, ApiRefusal> {
    let outcomes = jobs.into_iter().map(|id| {
        let refused = priority_refusal(shared, id, to, uncapped);
        let order = command_job(shared, id, JobCommand::SetPriority(to, by.clone()));
        async move {
            match refused {
                Some(why) => (id, JobCommandOutcome::Refused(why)),
                None => (id, order.await),
            }
        }
    });
    Ok(ApiAnswer::Jobs(
        futures_util::future::join_all(outcomes).await,
    ))
}

/// Returns why an unfinished job may not have this priority, if it may not.
fn priority_refusal(
    shared: &SharedState,
    id: JobId,
    to: Priority,
    uncapped: bool,
) -> Option<String> {
    let view = shared.view.load();
    let job = view.jobs.get(&id).filter(|job| !job.is_final())?;
    let how = ClassRequest {
        names_none: false,
        uncapped,
    };
    let job = JobClassProperties::for_job(&job.owner, &job.spec);
    let above = decide_class(to, how, &job, &shared.settings.classes).err()?;
    Some(format!("{above}; {}", above.remedy()))
}

fn silent_sites_of_job(shared: &SharedState, id: JobId) -> BTreeSet<SiteName> {
    let view = shared.view.load();
    let silence = view
        .jobs
        .get(&id)
        .map(|job| SilentSiteReport::from_job(shared, job))
        .unwrap_or_default();
    silence
        .attempts
        .into_iter()
        .map(|silent| silent.site)
        .collect()
}

/// Adds to the outcome of each cancelled job what it waits for, where that may take long.
fn add_pending_waits(
    shared: &SharedState,
    answer: ApiAnswer,
    told: impl Fn(&Job) -> Option<String>,
) -> ApiAnswer {
    let ApiAnswer::Jobs(outcomes) = answer else {
        return answer;
    };
    let view = shared.view.load();
    let told = outcomes.into_iter().map(|(id, outcome)| {
        let waits = matches!(
            outcome,
            JobCommandOutcome::Done | JobCommandOutcome::Unchanged(_)
        );
        let job = view.jobs.get(&id).filter(|job| waits && !job.is_final());
        match job.and_then(|job| told(job)) {
            Some(told) => (id, JobCommandOutcome::Waits(told)),
            None => (id, outcome),
        }
    });
    ApiAnswer::Jobs(told.collect())
}

async fn command_job(
    shared: &Arc<SharedState>,
    id: JobId,
    command: JobCommand,
) -> JobCommandOutcome {
    let deadline = tokio::time::Instant::now() + REBUILD_WAIT;
    let mut woken = false;
    loop {
        let view = shared.view.load();
        match view.jobs.get(&id) {
            None => return JobCommandOutcome::NotFound,
            Some(job) if job.is_final() => {
                return JobCommandOutcome::Unchanged(format!(
                    "it is {}",
                    job.phase.kind().as_str()
                ));
            }
            // A held job has no actor until somebody wants something of it.
            Some(job) if job.held.is_some() && !woken => {
                woken = true;
                if shared.actors.addr::<JobActor>(&id).is_none() {
                    shared.start_actor(ActorId::Job(id));
                }
            }
            Some(_) => {}
        }
        if let Some(addr) = job_actor(shared, id).await
            && let Ok(answer) = addr.send(JobCommandMessage(command.clone())).await
        {
            return outcome_of_answer(answer);
        }
        if tokio::time::Instant::now() >= deadline {
            return JobCommandOutcome::Refused("its actor is being rebuilt; try again".into());
        }
        tokio::time::sleep(REBUILD_LOOK).await;
    }
}

fn outcome_of_answer(answer: Result<(), JobRejection>) -> JobCommandOutcome {
    match answer {
        Ok(()) => JobCommandOutcome::Done,
        Err(JobRejection::Impossible(why)) => JobCommandOutcome::Refused(why.into()),
        Err(JobRejection::AlreadySo) => JobCommandOutcome::Unchanged("it is so already".into()),
        Err(JobRejection::Ended) => JobCommandOutcome::Unchanged("it has ended".into()),
        Err(JobRejection::Stale) => JobCommandOutcome::Refused(
            "not possible in its present state; see `cospan show`".into(),
        ),
    }
}

async fn command_site(
    shared: &Arc<SharedState>,
    site: SiteName,
    by: KeyName,
    what: OperatorCommand,
) -> Result<ApiAnswer, ApiRefusal> {
    if !shared.sites.contains_key(&site) {
        let known: Vec<&str> = shared.sites.keys().map(SiteName::as_str).collect();
        let known = known.join(", ");
        return Err(ApiRefusal::NotFound(format!(
            "no site is called {site}; there are: {known}"
        )));
    }
    let busy = ApiRefusal::Busy { retry_after_s: 1 };
    let cluster = shared
        .actors
        .addr::<ClusterActor>(&site)
        .ok_or_else(|| busy.clone())?;
    let what = shared_reservation_commands::complete_site_command(shared, &site, what)?;
    let leaves = what == OperatorCommand::Drain;
    let answer = cluster
        .send(SiteCommandMessage { by, what })
        .await
        .map_err(|_| busy.clone())?;
    match answer {
        Err(SiteRejection::Undecided) => Err(busy),
        Ok(()) if leaves => {
            move_jobs_from_site(shared, &site).await;
            Ok(ApiAnswer::Done)
        }
        Ok(()) => Ok(ApiAnswer::Done),
        Err(rejection) => Err(ApiRefusal::Conflict(format!("site {site}: {rejection}"))),
    }
}

/// Moves a drained site's jobs that have not begun. Those that have go on.
async fn move_jobs_from_site(shared: &Arc<SharedState>, site: &SiteName) {
    let view = shared.view.load();
    let mut jobs: Vec<JobId> = view
        .holdings
        .get(site)
        .into_iter()
        .flat_map(|held| held.keys().map(|(job, _)| *job))
        .collect();
    jobs.dedup();
    for job in jobs {
        if let Some(addr) = shared.actors.addr::<JobActor>(&job) {
            // A job that cannot leave any more refuses, and stays.
            let _ = addr
                .send(JobCommandMessage(JobCommand::LeaveSite(site.clone())))
                .await;
        }
    }
}
