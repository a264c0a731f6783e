//! Commands about one job or many.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse, delete, post};
use cospan_actors::api::command::{ApiRequest, JobCommandOutcome};
use cospan_actors::api::{ApiAnswer, ApiCommand, CommittedView};
use cospan_domain::ids::{JobId, KeyName};
use std::collections::BTreeSet;
use std::ops::Bound;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::jobs::{CallerJobFilter, has_component_at};
use super::middleware::{self, RequestCaller};
use super::query;
use super::state::HttpState;
use crate::keys::Role;
use cospan_api::v1::commands::{JobSelection, OrderReport, OutcomeName, OutcomeReport};
use cospan_api::v1::problem::Code;

/// Most jobs named in one command.
const MAX_IDS: usize = 10_000;
/// Jobs that one command by selection reaches; then it continues with `next`.
const BATCH: usize = 1000;
/// Jobs examined for one command by selection.
const MAX_SCAN: usize = 100_000;

fn bad_request(detail: impl Into<String>) -> HttpFailure {
    HttpFailure::new(Code::BadSelection, detail)
}

/// A command about jobs, as far as it matters for the choice of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobOrder {
    /// Ends jobs: only those that have something at a site are meant by its name.
    Cancel,
    /// Any other; jobs that must go to a site are meant by its name too.
    Other,
}

/// Selects the jobs that are meant, and the place to continue.
fn select_jobs(
    edge: &HttpState,
    caller: &RequestCaller,
    selection: &JobSelection,
    order: JobOrder,
) -> Result<(Vec<JobId>, Option<u64>), HttpFailure> {
    let filtered = selection.site.is_some()
        || selection.state.is_some()
        || selection.owner.is_some()
        || selection.group.is_some()
        || selection.after.is_some();
    match (selection.ids.is_empty(), selection.all) {
        (true, false) => Err(bad_request(
            "name jobs in `ids`, or say `all` (with `site`, `state`, `owner`, `group`)",
        )),
        (false, true) => Err(bad_request("`ids` and `all` exclude each other")),
        (false, false) if filtered => Err(bad_request("filters do not apply to `ids`; use `all`")),
        (false, false) if selection.ids.len() > MAX_IDS => Err(bad_request(format!(
            "at most {MAX_IDS} jobs can be named at once"
        ))),
        (false, false) => {
            let mut seen = BTreeSet::new();
            let ids = selection.ids.iter().map(|id| JobId(*id));
            Ok((ids.filter(|id| seen.insert(*id)).collect(), None))
        }
        (true, true) => scan_jobs(edge, caller, selection, order),
    }
}

fn scan_jobs(
    edge: &HttpState,
    caller: &RequestCaller,
    selection: &JobSelection,
    order: JobOrder,
) -> Result<(Vec<JobId>, Option<u64>), HttpFailure> {
    let filter = CallerJobFilter {
        state: selection.state,
        owner: selection.owner.clone(),
        site: selection.site.clone(),
        group: selection.group.map(JobId),
        ..CallerJobFilter::all_of_caller(caller.clone())
    };
    let filter = filter.of_known_site(edge)?;
    let view = edge.backend.view();
    let begin = selection
        .after
        .map_or(Bound::Unbounded, |id| Bound::Excluded(JobId(id)));
    let mut ids = Vec::new();
    let mut last = None;
    for (scanned, (id, job)) in view.jobs.range((begin, Bound::Unbounded)).enumerate() {
        if ids.len() == BATCH || scanned == MAX_SCAN {
            return Ok((ids, last));
        }
        last = Some(id.0);
        let stays_away = order == JobOrder::Cancel
            && selection
                .site
                .as_ref()
                .is_some_and(|site| !has_component_at(job, site));
        if !job.is_final() && !stays_away && filter.matches_job(job) {
            ids.push(*id);
        }
    }
    Ok((ids, None))
}

fn outcome_report(id: JobId, outcome: JobCommandOutcome) -> OutcomeReport {
    let (outcome, detail) = match outcome {
        JobCommandOutcome::Done => (OutcomeName::Done, None),
        JobCommandOutcome::Waits(why) => (OutcomeName::Done, Some(why)),
        JobCommandOutcome::Unchanged(why) => (OutcomeName::Unchanged, Some(why)),
        JobCommandOutcome::NotFound => (OutcomeName::NotFound, None),
        JobCommandOutcome::Refused(why) => (OutcomeName::Refused, Some(why)),
    };
    OutcomeReport {
        id: id.0,
        outcome,
        detail,
    }
}

async fn ask_control_plane(
    edge: &HttpState,
    by: KeyName,
    what: ApiRequest,
) -> Result<Vec<OutcomeReport>, HttpFailure> {
    match edge.backend.run_command(ApiCommand { by, what }).await? {
        ApiAnswer::Jobs(jobs) => Ok(jobs
            .into_iter()
            .map(|(id, how)| outcome_report(id, how))
            .collect()),
        other => Err(HttpFailure::internal(
            "carry out this command",
            format!("the answer was {other:?}"),
        )),
    }
}

async fn command_many(
    edge: &HttpState,
    caller: RequestCaller,
    selection: &JobSelection,
    order: JobOrder,
    what: impl Fn(Vec<JobId>) -> ApiRequest,
) -> HandlerResult {
    let (ids, next) = select_jobs(edge, &caller, selection, order)?;
    let view = edge.backend.view();
    let refused: Vec<_> = ids
        .iter()
        .map(|id| refusal_for(&view, &caller, *id))
        .collect();
    drop(view);
    let reached = ids
        .iter()
        .zip(&refused)
        .filter(|(_, refused)| refused.is_none());
    let reached: Vec<JobId> = reached.map(|(id, _)| *id).collect();
    let mut ordered = Vec::with_capacity(reached.len());
    for batch in reached.chunks(BATCH) {
        ordered.extend(ask_control_plane(edge, caller.name().clone(), what(batch.to_vec())).await?);
    }
    let mut ordered = ordered.into_iter();
    let reports = ids
        .into_iter()
        .zip(refused)
        .filter_map(|(id, refused)| match refused {
            Some(why) => Some(outcome_report(id, why)),
            None => ordered.next(),
        });
    Ok(HttpResponse::Ok().json(OrderReport {
        jobs: reports.collect(),
        next,
    }))
}

/// The reason why the caller may not command a job. Accepted jobs are in the view, so a job that is
/// not there now does not belong to the caller when it comes.
fn refusal_for(
    view: &CommittedView,
    caller: &RequestCaller,
    id: JobId,
) -> Option<JobCommandOutcome> {
    match view.jobs.get(&id) {
        Some(job) if caller.can_reach(&job.owner) => None,
        Some(_) if caller.can_see_rows() => Some(JobCommandOutcome::Refused(
            "the job belongs to another key; only an administrator may do this".into(),
        )),
        Some(_) | None => Some(JobCommandOutcome::NotFound),
    }
}

async fn read_selection(
    request: &HttpRequest,
    payload: Payload,
    edge: &HttpState,
    order: &str,
) -> Result<JobSelection, HttpFailure> {
    let selection: JobSelection = body::read_json(request, payload, &edge.settings).await?;
    if selection.abandon && order != "cancel" {
        return Err(bad_request("`abandon` belongs to the order `cancel` only"));
    }
    match (order == "priority", selection.priority.is_some()) {
        (true, false) => Err(bad_request("say the new class in `priority`")),
        (false, true) => Err(bad_request(
            "`priority` belongs to the order `priority` only",
        )),
        _ => Ok(selection),
    }
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident at $path:literal is $what:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// A long selection is done in steps: repeat the command with `after` until there is no
        /// `next`.
        #[utoipa::path(
            tag = "jobs",
            request_body = JobSelection,
            responses(
                (status = 200, body = OrderReport, description = "What became of each job"),
                    )
        )]
        #[post($path)]
        pub(super) async fn $name(
            request: HttpRequest,
            edge: Data<HttpState>,
            caller: RequestCaller,
            payload: Payload,
        ) -> HandlerResult {
            let selection = read_selection(&request, payload, &edge, stringify!($name)).await?;
            let what: fn(&JobSelection, Vec<JobId>) -> ApiRequest = $what;
            let order = match stringify!($name) {
                "cancel" => JobOrder::Cancel,
                _ => JobOrder::Other,
            };
            command_many(&edge, caller, &selection, order, |ids| what(&selection, ids)).await
        }
    )*};
}

orders! {
    /// Cancels jobs; those that have ended stay as they are.
    ///
    /// With `abandon` work that may still run at silent sites is given up: the jobs end without it,
    /// and it is ended when its site answers again.
    cancel at "/v1/jobs:cancel" is |selection, ids| if selection.abandon { ApiRequest::Abandon(ids) } else { ApiRequest::Cancel(ids) };
    /// Stops placing jobs until they are thawed.
    freeze at "/v1/jobs:freeze" is |_, ids| ApiRequest::Freeze(ids);
    /// Places frozen jobs again.
    thaw at "/v1/jobs:thaw" is |_, ids| ApiRequest::Thaw(ids);
    /// Continues with jobs that were held after an internal error.
    release at "/v1/jobs:release" is |_, ids| ApiRequest::Release(ids);
}

/// Changes the class of the placement queue of jobs.
///
/// A long selection is done in steps: repeat the command with `after` until there is no `next`.
#[utoipa::path(
    tag = "jobs",
    request_body = JobSelection,
    responses(
        (status = 200, body = OrderReport, description = "What became of each job"),
    )
)]
#[post("/v1/jobs:priority")]
pub(super) async fn priority(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let selection = read_selection(&request, payload, &edge, "priority").await?;
    let to = selection.priority.unwrap_or_default().into();
    let uncapped = caller.has_role(Role::Priority);
    let order = JobOrder::Other;
    command_many(&edge, caller, &selection, order, |jobs| {
        ApiRequest::SetPriority { jobs, to, uncapped }
    })
    .await
}

/// Cancels one job.
#[utoipa::path(
    tag = "jobs",
    params(("id" = u64, Path, description = "Its number")),
    responses(
        (status = 200, body = OutcomeReport, description = "Done, or it had ended"),
    )
)]
#[delete("/v1/jobs/{id}")]
pub(super) async fn cancel_one(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    command_one(&edge, &caller, query::parse_job_id(&id)?, |id| {
        ApiRequest::Cancel(vec![id])
    })
    .await
}

/// Carries out a command about one job.
pub(super) async fn command_one(
    edge: &HttpState,
    caller: &RequestCaller,
    id: JobId,
    what: impl FnOnce(JobId) -> ApiRequest,
) -> HandlerResult {
    match refusal_for(&edge.backend.view(), caller, id) {
        None => {}
        Some(JobCommandOutcome::Refused(_)) => {
            return Err(middleware::another_keys_failure(format!("job {id}")));
        }
        Some(_) => return Err(HttpFailure::no_such_job(id)),
    }
    let outcomes = ask_control_plane(edge, caller.name().clone(), what(id)).await?;
    let Some(report) = outcomes.into_iter().next() else {
        return Err(HttpFailure::no_such_job(id));
    };
    match report.outcome {
        OutcomeName::Done | OutcomeName::Unchanged => Ok(HttpResponse::Ok().json(report)),
        OutcomeName::NotFound => Err(HttpFailure::no_such_job(id)),
        OutcomeName::Refused => Err(HttpFailure::new(
            Code::Conflict,
            report.detail.unwrap_or_default(),
        )),
    }
}
