//! Submits jobs again that have ended, as they were submitted the first time. Runs of a sweep are a
//! sweep again, with the numbers and values that they had.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, post};
use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiCommand, JobSubmission};
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{Digest, JobId};
use cospan_domain::job::spec::JobSpec;
use cospan_domain::queue::ClassRequest;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::jobs::find_job;
use super::middleware::RequestCaller;
use super::state::HttpState;
use super::submit::{check_file_names, idempotency_key, job_idempotency, submission_answer};
use crate::keys::Role;
use cospan_api::v1::commands::RerunOrder;
use cospan_api::v1::job::SubmittedReport;
use cospan_api::v1::problem::{Code, Problem};

/// Submits jobs again that have ended: all of them or none, as jobs of the caller.
///
/// Each reads the content that it was bound to. Of a sweep any number of runs may be named; they
/// keep their numbers and values, and make a sweep of their own.
#[utoipa::path(
    tag = "jobs",
    params(
        ("Idempotency-Key" = inline(Option<cospan_api::v1::text_patterns::RequestKeyText>), Header, description = "The client's name for this request"),
    ),
    request_body = RerunOrder,
    responses(
        (status = 201, body = SubmittedReport, description = "Accepted, and durable"),
        (status = 200, body = SubmittedReport, description = "Accepted before under the same key"),
    )
)]
#[post("/v1/jobs:rerun")]
pub(super) async fn rerun(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let key = idempotency_key(&request)?;
    let bytes = body::read_body(&request, payload, &edge.settings).await?;
    let asked: RerunOrder = body::parse_json(&bytes, false)?;
    caller.check_still_allowed(&edge)?;
    let specs = read_ended_specs(&edge, &caller, &asked).await?;
    let named_by = key.map(|key| (key, Digest(*blake3::hash(&bytes).as_bytes())));
    let uncapped = caller.has_role(Role::Priority);
    let mut submissions = Vec::with_capacity(specs.len());
    for (index, spec) in specs.into_iter().enumerate() {
        let place = (Some(index), None);
        let idempotency = named_by
            .as_ref()
            .map(|(key, body)| job_idempotency(key, place, *body))
            .transpose()?;
        submissions.push(JobSubmission {
            spec,
            idempotency,
            allow_unplaceable: asked.allow_unplaceable,
            refuse_closed: false,
            asking: ClassRequest {
                names_none: false,
                uncapped,
            },
        });
    }
    check_file_names(&edge, &caller, &submissions)?;
    if submissions
        .iter()
        .any(|submission| submission.spec.run.reservation.is_some())
    {
        edge.await_first_reports().await;
        caller.check_still_allowed(&edge)?;
    }
    let command = ApiCommand {
        by: caller.name().clone(),
        what: ApiRequest::Submit(submissions),
    };
    let answer = edge.backend.run_command(command).await;
    submission_answer(&*edge.backend, answer)
}

/// Returns the specifications of the jobs that are named, as for new jobs.
async fn read_ended_specs(
    edge: &HttpState,
    caller: &RequestCaller,
    asked: &RerunOrder,
) -> Result<Vec<Arc<JobSpec>>, HttpFailure> {
    let ids: BTreeSet<u64> = asked.ids.iter().copied().collect();
    if ids.is_empty() {
        let problem = Problem::new(Code::NoJobs, "no job is named");
        return Err(problem.with_key_path("ids").into());
    }
    let most = edge.settings.max_sweep_tasks;
    if ids.len() > most {
        let detail = format!("there are {} jobs; at most {most} are allowed", ids.len());
        return Err(HttpFailure::new(Code::TooManyJobs, detail));
    }
    let exempt = caller.has_role(Role::Operator);
    let mut groups = BTreeSet::new();
    let mut specs = Vec::with_capacity(ids.len());
    for id in ids {
        let job = find_job(edge, caller, JobId(id)).await?;
        if !job.is_final() {
            let detail = format!("job {id} has not ended; cancel it, or wait for its end");
            return Err(HttpFailure::new(Code::Conflict, detail));
        }
        groups.insert(job.spec.run.task.as_ref().map(|task| task.group));
        let mut spec = job.spec.clone();
        renew_spec(&mut spec, exempt);
        specs.push(spec);
    }
    if groups.len() > 1 {
        let detail = "the jobs are of several sweeps, or some are of none; name those of one sweep, \
                      or those of none, in a request of their own";
        return Err(HttpFailure::new(Code::BadSelection, detail));
    }
    Ok(specs)
}

/// Takes out of a specification what its job was given when it was accepted.
fn renew_spec(spec: &mut Arc<JobSpec>, exempt: bool) {
    if spec.run.task.is_none() && spec.run.reservation.is_none() {
        return;
    }
    let run = &mut Arc::make_mut(spec).run;
    if let Some(task) = &mut run.task {
        task.group = JobId(0);
    }
    run.reservation = run
        .reservation
        .map(|wish| ReservationTerms { exempt, ..wish });
}
