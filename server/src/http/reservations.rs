//! Reservations of jobs.

use std::ops::Bound;

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, get, post};
use cospan_actors::api::command::ApiRequest;
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;
use serde::Deserialize;
use tokio::runtime::Handle;

use super::body;
use super::control_plane_port::JobHistory;
use super::failure::{HandlerResult, HttpFailure};
use super::job_commands::command_one;
use super::jobs::{self, CallerJobFilter, find_job};
use super::middleware::RequestCaller;
use super::query;
use super::shared_reservation_report::report_on_all;
use super::shared_reservations::now;
use super::state::HttpState;
use super::unread_bodies::UnreadBody;
use crate::keys::Role;
use cospan_api::v1::commands::{OutcomeReport, StateName};
use cospan_api::v1::event::EventReport;
use cospan_api::v1::event_report::ComponentNames;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::ranking::RankingReport;
use cospan_api::v1::reservation::{ReservationDocument, ReservationPage, ReservationRow};
use cospan_api::v1::shared_reservation::SharedReport;
use cospan_api::v1::text_patterns::{KeyText, SiteText};

/// Rows of a page, by default and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Most jobs that are examined for one page.
const MAX_SCAN: usize = 20_000;

/// The selection of jobs whose reservations to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ReservationQuery {
    /// Continue after this job: `next` of the previous page.
    #[serde(deserialize_with = "query::whole")]
    after: Option<u64>,
    /// Most rows of the page: 100 by default, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// Only of jobs in this state.
    #[param(inline)]
    state: Option<StateName>,
    /// Only of this key.
    #[param(inline, value_type = Option<KeyText>)]
    owner: Option<String>,
    /// Only of jobs with a component at this site.
    #[param(inline, value_type = Option<SiteText>)]
    site: Option<String>,
    /// Only of jobs with this text in their name.
    name: Option<String>,
    /// Only of the runs of the sweep that begins with this job.
    #[serde(deserialize_with = "query::whole")]
    group: Option<u64>,
}

/// Lists jobs that have or want reservations, by number.
///
/// A page may be shorter than requested although there are more: `next` is set then.
#[utoipa::path(
    tag = "reservations",
    params(ReservationQuery),
    responses((status = 200, body = ReservationPage, description = "A page of reservations")),
)]
#[get("/v1/reservations")]
pub(super) async fn list(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: ReservationQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, PAGE, MAX_PAGE)?;
    let owner = asked.owner.as_deref();
    let site = asked.site.as_deref();
    let narrowed = asked.state.is_some() || asked.name.is_some() || asked.group.is_some();
    let with_shared = !narrowed && asked.owner.is_none() && asked.after.is_none();
    let shared = if with_shared {
        list_shared(&edge, site)
    } else {
        Vec::new()
    };
    let filter = CallerJobFilter::from_query(caller, asked.state, owner, site, asked.name)?
        .in_group(asked.group)
        .of_known_site(&edge)?;
    let view = edge.backend.view();
    let begin = asked
        .after
        .map_or(Bound::Unbounded, |id| Bound::Excluded(JobId(id)));
    let mut page = ReservationPage {
        shared,
        ..ReservationPage::default()
    };
    let mut last = None;
    for (scanned, (id, job)) in view.jobs.range((begin, Bound::Unbounded)).enumerate() {
        if page.reservations.len() == limit || scanned == MAX_SCAN {
            page.next = last;
            break;
        }
        last = Some(id.0);
        page.reservations
            .extend(ReservationRow::of(job).filter(|_| filter.matches_job(job)));
    }
    Ok(HttpResponse::Ok().json(page))
}

/// Shared reservations, at one site or at all.
fn list_shared(edge: &HttpState, site: Option<&str>) -> Vec<SharedReport> {
    let mut all = report_on_all(&edge.backend.view(), now());
    all.retain(|shared| site.is_none_or(|site| shared.site == site));
    all
}

fn no_such_reservation(id: JobId) -> HttpFailure {
    let problem = format!("job {id} wants no reservation");
    let remedy = "submit it with --start, or with [reservation] in its file";
    Problem::new(Code::NotFound, problem)
        .with_remedy(remedy)
        .into()
}

/// Shows the reservations of a job and their events, oldest first.
#[utoipa::path(
    tag = "reservations",
    params(("id" = u64, Path, description = "The number of the job")),
    responses((status = 200, body = ReservationRow, description = "Its reservations")),
)]
#[get("/v1/reservations/{id}")]
pub(super) async fn show(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    let id = query::parse_job_id(&id)?;
    let job = find_job(&edge, &caller, id).await?;
    if !jobs::is_large_job(&job) {
        let history = edge.backend.history(id).await?.unwrap_or_default();
        return Ok(HttpResponse::Ok().json(row_with_history(&job, &history)?));
    }
    let backend = edge.backend.clone();
    let runtime = Handle::current();
    edge.desk
        .run_in_key_turn(caller.name(), move || {
            let history = runtime.block_on(backend.history(id))?.unwrap_or_default();
            jobs::write_json(&row_with_history(&job, &history)?)
        })
        .await
        .map(jobs::json_response)
}

fn row_with_history(job: &Job, history: &JobHistory) -> Result<ReservationRow, HttpFailure> {
    let mut row = ReservationRow::of(job).ok_or_else(|| no_such_reservation(job.id))?;
    row.reservation.ranking = RankingReport::of(job, |_| true);
    let names = ComponentNames::of_job(job);
    let events = history
        .events
        .iter()
        .filter(|event| event.what.is_about_reservations());
    let events = events
        .map(|event| EventReport::of_event(event, &names))
        .collect();
    Ok(ReservationRow { events, ..row })
}

/// Cancels the reservations of a job. The job stays, and is placed as others are.
#[utoipa::path(
    tag = "reservations",
    params(("id" = u64, Path, description = "The number of the job")),
    responses((status = 200, body = OutcomeReport, description = "Done, or it had ended")),
)]
#[post("/v1/reservations/{id}/cancel")]
pub(super) async fn cancel(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
    payload: Payload,
) -> HandlerResult {
    // A command without parameters may still come with a body.
    request
        .extensions_mut()
        .insert(UnreadBody(payload.into_inner()));
    let wish = None;
    command_one(&edge, &caller, query::parse_job_id(&id)?, |job| {
        ApiRequest::ChangeReservation { job, wish }
    })
    .await
}

/// Reschedules a job that has or wants reservations. Its present reservations are kept until others
/// are found and confirmed by all sites, or for good if none are.
#[utoipa::path(
    tag = "reservations",
    params(("id" = u64, Path, description = "The number of the job")),
    request_body = ReservationDocument,
    responses((status = 200, body = OutcomeReport, description = "It is looked for")),
)]
#[post("/v1/reservations/{id}/move")]
pub(super) async fn change(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
    payload: Payload,
) -> HandlerResult {
    let to: ReservationDocument = body::read_json(&request, payload, &edge.settings).await?;
    let wish = to
        .own_terms()
        .map_err(|(key, why)| Problem::new(Code::BadWindow, why).with_key_path(key))?;
    wish.validate()
        .map_err(|error| Problem::new(Code::BadWindow, error.to_string()))?;
    let wish = Some(ReservationTerms {
        exempt: caller.has_role(Role::Operator),
        ..wish
    });
    command_one(&edge, &caller, query::parse_job_id(&id)?, |job| {
        ApiRequest::ChangeReservation { job, wish }
    })
    .await
}
