//! Shared reservations: operators create them for jobs that name them.

use std::time::SystemTime;

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, get, post};
use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiAnswer, ApiCommand, OperatorCommand};
use cospan_domain::ids::{ReservationName, SiteName};
use cospan_domain::site::shared_reservation::SharedReservation;
use cospan_domain::units::Timestamp;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::middleware::RequestCaller;
use super::query;
use super::shared_reservation_report::report_on_group;
use super::site_routes::unknown_site;
use super::state::HttpState;
use super::unread_bodies::UnreadBody;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::quantity::Instant;
use cospan_api::v1::shared_reservation::{
    SharedAccess, SharedDocument, SharedExtension, SharedReport,
};
use cospan_api::v1::text_patterns::ReservationText;

pub(super) fn now() -> Timestamp {
    Instant::from(SystemTime::now()).0
}

fn no_such_shared_reservation(name: &ReservationName) -> HttpFailure {
    let problem = Problem::new(Code::NotFound, format!("there is no reservation {name}"));
    problem
        .with_remedy("`cospan reservation list` shows those that there are")
        .into()
}

/// Finds the shared reservation of this name, the site that takes commands about it, and its end at
/// all of its sites.
fn find_shared(
    edge: &HttpState,
    name: &str,
) -> Result<(SiteName, SharedReservation, Timestamp), HttpFailure> {
    let name: ReservationName = query::parse_part("name", name)?;
    let view = edge.backend.view();
    let now = now();
    let group = view
        .joint_reservation_named(&name, now)
        .ok_or_else(|| no_such_shared_reservation(&name))?;
    let (site, shared) = group
        .leading_part(now)
        .ok_or_else(|| no_such_shared_reservation(&name))?;
    Ok((site.clone(), shared.clone(), group.end(now)))
}

async fn command_site(
    edge: &HttpState,
    caller: &RequestCaller,
    site: SiteName,
    order: OperatorCommand,
) -> Result<(), HttpFailure> {
    let command = ApiCommand {
        by: caller.name().clone(),
        what: ApiRequest::Site(site, order),
    };
    match edge.backend.run_command(command).await? {
        ApiAnswer::Done => Ok(()),
        other => Err(HttpFailure::internal(
            "carry out this command",
            format!("the answer was {other:?}"),
        )),
    }
}

fn shared_report(edge: &HttpState, name: &str) -> HandlerResult {
    let name: ReservationName = query::parse_part("name", name)?;
    let view = edge.backend.view();
    let now = now();
    let group = view.joint_reservation_named(&name, now);
    let report = group.and_then(|group| report_on_group(&group, &view, now));
    Ok(HttpResponse::Ok().json(report.ok_or_else(|| no_such_shared_reservation(&name))?))
}

/// Shows a shared reservation.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    responses((status = 200, body = SharedReport, description = "As it stands")),
)]
#[get("/v1/shared-reservations/{name}")]
pub(super) async fn show(edge: Data<HttpState>, name: Path<String>) -> HandlerResult {
    shared_report(&edge, &name)
}

/// Creates a shared reservation at a site, or at several for the same time, for jobs that name it.
/// The sites are asked after this answer: `state` shows their answers.
#[utoipa::path(
    tag = "reservations",
    request_body = SharedDocument,
    responses((status = 200, body = SharedReport, description = "Its sites are asked for it")),
)]
#[post("/v1/shared-reservations")]
pub(super) async fn create(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let wanted: SharedDocument = body::read_json(&request, payload, &edge.settings).await?;
    let known: Vec<String> = edge
        .backend
        .list_sites()
        .sites
        .into_iter()
        .map(|s| s.name)
        .collect();
    let mut named = wanted
        .also
        .iter()
        .map(|part| &part.site)
        .chain([&wanted.site]);
    if let Some(unknown) = named.find(|site| !known.iter().any(|name| name == site.as_str())) {
        return Err(unknown_site(unknown, &known));
    }
    let wish = wanted.to_shared_terms(now());
    let wish = wish.map_err(|(key, why)| {
        let of_time = matches!(key, "for" | "start");
        let code = if of_time {
            Code::BadWindow
        } else {
            Code::BadSharing
        };
        Problem::new(code, why).with_key_path(key)
    })?;
    edge.await_first_reports().await;
    command_site(
        &edge,
        &caller,
        wanted.first_site().clone(),
        OperatorCommand::Reserve(Box::new(wish)),
    )
    .await?;
    shared_report(&edge, wanted.name.as_str())
}

/// Extends a shared reservation. It keeps its end until all of its sites have agreed.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    request_body = SharedExtension,
    responses((status = 200, body = SharedReport, description = "The site is asked")),
)]
#[post("/v1/shared-reservations/{name}/extend")]
pub(super) async fn extend(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    name: Path<String>,
    payload: Payload,
) -> HandlerResult {
    let wanted: SharedExtension = body::read_json(&request, payload, &edge.settings).await?;
    let (site, shared, ends) = find_shared(&edge, &name)?;
    let until = match (wanted.until, wanted.longer) {
        (Some(until), None) => until.0,
        (None, Some(longer)) => ends + longer.0,
        (Some(_), Some(_)) | (None, None) => {
            let why = "give either `until`, the new end, or `for`, how much longer it lasts";
            return Err(Problem::new(Code::BadWindow, why)
                .with_key_path("until")
                .into());
        }
    };
    let what = OperatorCommand::ExtendReservation {
        name: shared.wish.name,
        until,
    };
    command_site(&edge, &caller, site, what).await?;
    shared_report(&edge, &name)
}

/// Changes the keys whose jobs may use a shared reservation. Jobs that run in it continue; jobs
/// that wait for it and may not use it any more fail.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    request_body = SharedAccess,
    responses((status = 200, body = SharedReport, description = "As it stands now")),
)]
#[post("/v1/shared-reservations/{name}/allow")]
pub(super) async fn allow(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    name: Path<String>,
    payload: Payload,
) -> HandlerResult {
    let wanted: SharedAccess = body::read_json(&request, payload, &edge.settings).await?;
    let access = wanted.to_access();
    let access =
        access.map_err(|(key, why)| Problem::new(Code::BadSharing, why).with_key_path(key))?;
    let (site, shared, _) = find_shared(&edge, &name)?;
    let what = OperatorCommand::AllowReservation {
        name: shared.wish.name,
        access,
    };
    command_site(&edge, &caller, site, what).await?;
    shared_report(&edge, &name)
}

/// Cancels a shared reservation. Jobs that run in it continue; jobs that wait for it fail.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    responses((status = 200, body = SharedReport, description = "It goes back, and what it cost")),
)]
#[post("/v1/shared-reservations/{name}/cancel")]
pub(super) async fn cancel(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    name: Path<String>,
    payload: Payload,
) -> HandlerResult {
    // A command without parameters may still come with a body.
    request
        .extensions_mut()
        .insert(UnreadBody(payload.into_inner()));
    let (site, shared, _) = find_shared(&edge, &name)?;
    let what = OperatorCommand::CancelReservation {
        name: shared.wish.name,
    };
    command_site(&edge, &caller, site, what).await?;
    shared_report(&edge, &name)
}
