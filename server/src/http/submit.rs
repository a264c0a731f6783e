//! Submission: the path that must be fast. Bytes are parsed once, straight into documents; the
//! control plane is asked once; the answer is written by hand.

use std::io::Write;
use std::sync::Arc;

use actix_web::http::header::{self, ContentType, HeaderValue};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, post};
use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiAnswer, ApiCommand, ApiRefusal, JobSubmission, SubmittedJob};
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::{Digest, IdempotencyKey, JobId, KeyName, LogicalName};
use cospan_domain::job::job_state::SubmissionIdempotency;
use cospan_domain::job::spec::{ComponentSpec, JobSpec, OutputDestination};
use cospan_domain::queue::ClassRequest;
use serde::Deserialize;
use tokio::runtime::Handle;

use super::body;
use super::control_plane_port::{ControlPlanePort, ExplanationPage};
use super::dry_run::DryRun;
use super::failure::{HandlerResult, HttpFailure};
use super::files::{self, VisibleFiles};
use super::http_settings::HttpSettings;
use super::middleware::RequestCaller;
use super::query;
use super::state::HttpState;
use super::submission_cache::{self, RequestedSpec};
use super::submission_turns::{self, SubmissionTurn};
use super::unread_bodies::UnreadBody;
use crate::keys::Role;
use cospan_api::v1::document::JobDocument;
use cospan_api::v1::job::{CheckedReport, SubmissionBody, SubmissionReport, SubmittedReport};
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::text_patterns::RequestKeyText;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest key of a client: the suffix that is added for an array must still fit.
const MAX_KEY_BYTES: usize = 240;
/// Most jobs of a request that are checked for warnings to their user.
const MAX_WARNED: usize = 20;

/// Most jobs of a dry run whose sites are ranked: sites are asked for each.
const MAX_RANKED: usize = 20;

/// Parameters of a submission.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct SubmitQuery {
    /// Check everything, explain where the jobs would go, accept nothing.
    dry_run: bool,
    /// Accept a job even if no known site can ever hold it.
    allow_unplaceable: bool,
    /// Refuse a job that names a site which takes no jobs now (drained, unusable, in a maintenance
    /// window, silent); otherwise it waits for that site.
    refuse_closed: bool,
}

/// Accepts a job, or an array of jobs: all of them or none.
///
/// The answer comes when the jobs are durable. With an `Idempotency-Key` the same request can be
/// repeated safely: it is answered with the same jobs.
#[utoipa::path(
    tag = "jobs",
    params(
        SubmitQuery,
        ("Idempotency-Key" = inline(Option<RequestKeyText>), Header, description = "The client's name for this request"),
    ),
    request_body(content = SubmissionBody, description = "One job, or an array of jobs"),
    responses(
        (status = 201, body = SubmittedReport, description = "Accepted, and durable"),
        (status = 200, body = SubmissionReport, description = "Accepted before under the same key; or checked, with `dry_run`"),
    )
)]
#[post("/v1/jobs")]
pub(super) async fn submit(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let asked: SubmitQuery = match request.query_string() {
        "" => SubmitQuery::default(),
        _ => query::read_query(&request)?,
    };
    let key = idempotency_key(&request)?;
    if asked.dry_run
        && let Err(failure) = edge.dry_runs.check_room(caller.name())
    {
        request
            .extensions_mut()
            .insert(UnreadBody(payload.into_inner()));
        return Err(failure);
    }
    // Before the body is read: a request that waits for its turn takes no memory here.
    let turn = if submission_turns::can_be_large(&request) {
        Some(edge.turns.wait_for_turn(caller.name()).await)
    } else {
        None
    };
    let bytes = body::read_body(&request, payload, &edge.settings).await?;
    // The turn may have come late.
    caller.check_still_allowed(&edge)?;
    let is_array = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let body = SubmittedBody {
        bytes,
        is_array,
        key,
        asked,
        turn,
    };
    let outcome = if body.asked.dry_run {
        run_dry_run(edge, caller, body).await
    } else {
        submit_body(edge, caller, body).await
    };
    outcome.map_err(|failure| drop_index_unless_array(failure, is_array))
}

/// The body of a submission.
struct SubmittedBody {
    bytes: Bytes,
    is_array: bool,
    key: Option<IdempotencyKey>,
    asked: SubmitQuery,
    turn: Option<SubmissionTurn>,
}

/// Submits jobs. Many jobs are parsed and checked apart from the threads that serve requests.
async fn submit_body(
    edge: Data<HttpState>,
    caller: RequestCaller,
    mut body: SubmittedBody,
) -> HandlerResult {
    let waiting_edge = edge.clone();
    let backend = edge.backend.clone();
    let by = caller.name().clone();
    let is_large = submission_turns::is_large_body(&body.bytes);
    let _turn = match body.turn.take() {
        None if is_large => Some(edge.turns.wait_for_turn(&by).await),
        turn => turn,
    };
    caller.check_still_allowed(&edge)?;
    let reader = caller.clone();
    let read = move || parse_submissions(&edge, &reader, &body);
    let (submissions, origins) = if is_large {
        let read = actix_web::rt::task::spawn_blocking(read).await;
        read.map_err(|error| HttpFailure::internal("read the jobs", error))??
    } else {
        read()?
    };
    if submissions
        .iter()
        .any(|submission| submission.spec.run.reservation.is_some())
    {
        waiting_edge.await_first_reports().await;
        // That may have been long.
        caller.check_still_allowed(&waiting_edge)?;
    }
    let command = ApiCommand {
        by,
        what: ApiRequest::Submit(submissions),
    };
    let answer = if is_large {
        let checking = backend.clone();
        let runtime = Handle::current();
        let accepted = actix_web::rt::task::spawn_blocking(move || {
            runtime.block_on(checking.run_command(command))
        })
        .await;
        accepted.map_err(|error| HttpFailure::internal("accept the jobs", error))?
    } else {
        backend.run_command(command).await
    };
    submission_answer(&*backend, answer).map_err(|failure| with_origin_index(failure, &origins))
}

/// Runs a dry run. It can take long, so it is done apart from the threads that serve requests, and
/// within bounds.
async fn run_dry_run(
    edge: Data<HttpState>,
    caller: RequestCaller,
    body: SubmittedBody,
) -> HandlerResult {
    edge.await_first_reports().await;
    edge.backend.await_current_reports().await;
    let dry_run = edge.dry_runs.begin_dry_run(caller.name())?;
    let backend = edge.backend.clone();
    let by = caller.name().clone();
    let checked = actix_web::rt::task::spawn_blocking(move || {
        let (submissions, origins) = parse_submissions(&edge, &caller, &body)?;
        let report = preview_jobs(&*edge.backend, caller.name(), submissions, &dry_run);
        let report = report.map_err(|failure| with_origin_index(failure, &origins))?;
        Ok::<_, HttpFailure>((report, dry_run))
    });
    let checked = checked
        .await
        .map_err(|error| HttpFailure::internal("check the jobs", error))?;
    let ((mut report, ranked), dry_run) = checked?;
    for (index, submission) in ranked {
        dry_run.check_time(index, report.jobs.len())?;
        report.jobs[index].ranking = backend.rankings(&by, submission).await;
    }
    let written = actix_web::rt::task::spawn_blocking(move || serde_json::to_vec(&report)).await;
    let written = written
        .map_err(|error| HttpFailure::internal("write the report", error))?
        .map_err(|error| HttpFailure::internal("write the report", error))?;
    Ok(HttpResponse::Ok()
        .content_type(ContentType::json())
        .body(written))
}

/// Refuses a job that reads a file which the key does not see, like one that is not registered; and
/// a job whose output has the name of another key's file, as it could not replace that.
pub(super) fn check_file_names(
    edge: &HttpState,
    caller: &RequestCaller,
    jobs: &[JobSubmission],
) -> Result<(), HttpFailure> {
    let mut sight = None;
    for (index, job) in jobs.iter().enumerate() {
        let reads = job.spec.unbound_names();
        let writes = job.spec.components.iter().flat_map(registered_names);
        let mut writes = writes.peekable();
        if reads.is_empty() && writes.peek().is_none() {
            continue;
        }
        let sight = sight.get_or_insert_with(|| VisibleFiles::of_caller(edge, caller));
        if let Some(name) = reads.iter().find(|name: &&LogicalName| {
            let owner = edge.backend.file_owner(name);
            owner.is_some_and(|by| !sight.can_see(&by))
        }) {
            return Err(ApiRefusal::UnknownFile {
                index,
                name: name.clone(),
            }
            .into());
        }
        if let Some(name) = writes.find(|name: &&LogicalName| {
            let owner = edge.backend.file_owner(name);
            owner.is_some_and(|by| by != *caller.name())
        }) {
            return Err(with_job_index(files::name_taken_failure(name), index));
        }
    }
    Ok(())
}

/// Names under which a component's outputs are registered.
fn registered_names(component: &ComponentSpec) -> impl Iterator<Item = &LogicalName> {
    component
        .outputs
        .iter()
        .filter_map(|output| match &output.collect {
            OutputDestination::ToSite { register, .. } => Some(register),
            OutputDestination::Fetch => None,
        })
}

/// The jobs of a request, with the position of each one's document: a sweep stands for many jobs.
fn parse_submissions(
    edge: &HttpState,
    caller: &RequestCaller,
    body: &SubmittedBody,
) -> Result<(Vec<JobSubmission>, Vec<usize>), HttpFailure> {
    let bytes = &body.bytes;
    let asked = &body.asked;
    let specs = parse_specs(bytes, body.is_array, &edge.settings)?;
    let named_by = body
        .key
        .as_ref()
        .map(|key| (key, Digest(*blake3::hash(bytes).as_bytes())));
    let uncapped = caller.has_role(Role::Priority);
    let mut submissions = Vec::new();
    let mut origins = Vec::new();
    let exempt = caller.has_role(Role::Operator);
    for (
        index,
        RequestedSpec {
            mut spec,
            names_class,
        },
    ) in specs
    {
        if exempt && spec.run.reservation.is_some() {
            let run = &mut Arc::make_mut(&mut spec).run;
            run.reservation = run
                .reservation
                .map(|wish| ReservationTerms { exempt, ..wish });
        }
        let task = spec.run.task.as_ref().map(|task| task.index);
        let place = (body.is_array.then_some(index), task);
        let idempotency = named_by
            .map(|(key, body)| job_idempotency(key, place, body))
            .transpose()?;
        submissions.push(JobSubmission {
            spec,
            idempotency,
            allow_unplaceable: asked.allow_unplaceable,
            refuse_closed: asked.refuse_closed,
            asking: ClassRequest {
                names_none: !names_class,
                uncapped,
            },
        });
        origins.push(index);
    }
    let own = check_file_names(edge, caller, &submissions);
    own.map_err(|failure| with_origin_index(failure, &origins))?;
    Ok((submissions, origins))
}

/// The specifications in the documents of a request, with their positions.
fn parse_specs(
    bytes: &Bytes,
    is_array: bool,
    settings: &HttpSettings,
) -> Result<Vec<(usize, RequestedSpec)>, HttpFailure> {
    if !is_array && let Some(asked) = submission_cache::find_known(bytes) {
        return Ok(vec![(0, asked)]);
    }
    let mut specs = Vec::new();
    let mut tasks_left = settings.max_sweep_tasks;
    let documents = parse_documents(bytes, is_array, settings.max_bulk_jobs)?;
    for (index, document) in documents.into_iter().enumerate() {
        let names_class = document.priority.is_some();
        let of_one = convert_document(document, settings, tasks_left)
            .map_err(|failure| with_job_index(failure, index))?;
        for spec in of_one {
            tasks_left -= usize::from(spec.run.task.is_some());
            specs.push((
                index,
                RequestedSpec {
                    spec: Arc::new(spec),
                    names_class,
                },
            ));
        }
    }
    if let [(_, asked)] = &specs[..]
        && !is_array
        && asked.spec.run.task.is_none()
        // Times may be relative to the time of reading.
        && asked.spec.run.reservation.is_none()
    {
        submission_cache::remember_document(bytes, asked);
    }
    Ok(specs)
}

/// Translates a position: the control plane counts jobs, the client its documents.
fn with_origin_index(mut failure: HttpFailure, origins: &[usize]) -> HttpFailure {
    let origin = failure
        .0
        .index
        .and_then(|index| origins.get(usize::try_from(index).ok()?));
    failure.0.index = origin.map(|origin| *origin as u64);
    failure
}

fn with_job_index(mut failure: HttpFailure, index: usize) -> HttpFailure {
    failure.0.index = Some(index as u64);
    failure
}

/// Removes the index for a single job, which has none.
fn drop_index_unless_array(mut failure: HttpFailure, is_array: bool) -> HttpFailure {
    if !is_array {
        failure.0.index = None;
    }
    failure
}

pub(super) fn submission_answer(
    backend: &dyn ControlPlanePort,
    answer: Result<ApiAnswer, ApiRefusal>,
) -> HandlerResult {
    match answer? {
        ApiAnswer::Submitted(jobs) => Ok(submitted_response(&jobs, |id| {
            backend.submission_warning(id)
        })),
        other => Err(HttpFailure::internal(
            "accept the jobs",
            format!("the answer was {other:?}"),
        )),
    }
}

/// Previews jobs. Also returns those whose users gave preferences for reservations, each with its
/// place in the report: the sites that may grant these have to be asked.
fn preview_jobs(
    backend: &dyn ControlPlanePort,
    by: &KeyName,
    submissions: Vec<JobSubmission>,
    dry_run: &DryRun,
) -> Result<(CheckedReport, Vec<(usize, JobSubmission)>), HttpFailure> {
    let mut report = CheckedReport::default();
    let mut ranked = Vec::new();
    let mut rows = ExplanationPage::ROWS;
    let count = submissions.len();
    for (index, submission) in submissions.into_iter().enumerate() {
        dry_run.check_time(index, count)?;
        let task = submission
            .spec
            .run
            .task
            .as_ref()
            .map(|task| (task.index, task.count));
        let is_shown = task.is_none_or(|(index, _)| index == 0);
        if is_shown && submission.spec.run.preferences.is_some() && ranked.len() < MAX_RANKED {
            ranked.push((report.jobs.len(), submission.clone()));
        }
        if !is_shown {
            // All are checked; as they ask for the same, one is shown.
            backend
                .check_submission(by, submission)
                .map_err(|refusal| with_job_index(refusal.into(), index))?;
            continue;
        }
        let mut explained = backend
            .preview(by, submission, rows)
            .map_err(|refusal| with_job_index(refusal.into(), index))?;
        rows = rows.saturating_sub(explained.verdicts.len() + explained.bids.len());
        if let Some((_, count)) = task {
            let summary = explained.summary;
            explained.summary = format!("the first of {count} runs: {summary}");
        }
        report.jobs.push(explained);
    }
    Ok((report, ranked))
}

/// Writes the answer, in the form of [`SubmittedReport`]. For a sweep the warning is for the first
/// run, as all ask for the same.
fn submitted_response(
    jobs: &[SubmittedJob],
    warning: impl Fn(JobId) -> Option<String>,
) -> HttpResponse {
    let mut text = Vec::with_capacity(16 + 40 * jobs.len());
    text.extend_from_slice(b"{\"jobs\":[");
    for (index, job) in jobs.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing into a vector cannot fail.
        let _ = write!(
            text,
            "{comma}{{\"id\":{},\"repeated\":{}",
            job.id, job.repeated
        );
        if let Some(group) = job.group {
            let _ = write!(text, ",\"group\":{group}");
        }
        let is_asked = index < MAX_WARNED && job.group.is_none_or(|group| group == job.id);
        if let Some(warning) = is_asked.then(|| warning(job.id)).flatten() {
            let warning = serde_json::Value::String(warning);
            let _ = write!(text, ",\"warning\":{warning}");
        }
        text.push(b'}');
    }
    text.extend_from_slice(b"]}");
    let repeated = !jobs.is_empty() && jobs.iter().all(|job| job.repeated);
    let mut response = if repeated {
        HttpResponse::Ok()
    } else {
        HttpResponse::Created()
    };
    let json = HeaderValue::from_static("application/json");
    response
        .insert_header((header::CONTENT_TYPE, json))
        .body(text)
}

fn parse_documents(
    bytes: &[u8],
    is_array: bool,
    most: usize,
) -> Result<Vec<JobDocument>, HttpFailure> {
    if !is_array {
        return Ok(vec![body::parse_json(bytes, false)?]);
    }
    let documents: Vec<JobDocument> = body::parse_json(bytes, true)?;
    if documents.is_empty() {
        return Err(HttpFailure::new(Code::NoJobs, "the array is empty"));
    }
    if documents.len() > most {
        let detail = format!(
            "there are {} jobs; at most {most} are allowed",
            documents.len()
        );
        return Err(HttpFailure::new(Code::TooManyJobs, detail));
    }
    Ok(documents)
}

/// Turns a document into its specifications. The control plane checks bounds, names of files and
/// sites.
fn convert_document(
    document: JobDocument,
    settings: &HttpSettings,
    max_tasks: usize,
) -> Result<Vec<JobSpec>, HttpFailure> {
    let most = settings.spec_limits.max_components as usize;
    let count = document.component.len();
    if count > most {
        let detail = format!("the job has {count} components; at most {most} are allowed");
        return Err(Problem::new(Code::TooManyComponents, detail)
            .with_key_path("component")
            .into());
    }
    document
        .into_specs(max_tasks, settings.max_job_bytes)
        .map_err(|error| {
            Problem::new(Code::InvalidJob, error.problem)
                .with_key_path(error.key)
                .into()
        })
}

pub(super) fn idempotency_key(
    request: &HttpRequest,
) -> Result<Option<IdempotencyKey>, HttpFailure> {
    let Some(value) = request.headers().get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .map_err(|_| invalid_key_failure("has characters beyond ASCII".into()))?;
    if text.len() > MAX_KEY_BYTES {
        return Err(invalid_key_failure(format!(
            "is longer than {MAX_KEY_BYTES} bytes"
        )));
    }
    IdempotencyKey::new(text)
        .map(Some)
        .map_err(|error| invalid_key_failure(error.to_string()))
}

fn invalid_key_failure(problem: String) -> HttpFailure {
    HttpFailure::from(Problem::new(Code::BadHeader, problem).with_key_path("Idempotency-Key"))
}

/// The name of one job of a request: the key itself, with its index in an array and, after the
/// first, the number of its run in a sweep.
pub(super) fn job_idempotency(
    key: &IdempotencyKey,
    (index, task): (Option<usize>, Option<u32>),
    body: Digest,
) -> Result<SubmissionIdempotency, HttpFailure> {
    let index = index.map(|index| format!("#{index}")).unwrap_or_default();
    let task = task
        .filter(|task| *task > 0)
        .map(|task| format!(".{task}"))
        .unwrap_or_default();
    let key = IdempotencyKey::new(&format!("{key}{index}{task}"))
        .map_err(|error| HttpFailure::new(Code::BadHeader, error.to_string()))?;
    Ok(SubmissionIdempotency { key, body })
}
