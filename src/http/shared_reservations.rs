//! Reservations that belong to no job: operators have them made, and jobs name them.

use std::time::SystemTime;

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, get, post};
use cospan_actors::api::command::Ask;
use cospan_actors::api::{ApiAnswer, ApiCommand, SiteOrder};
use cospan_domain::ids::{ReservationName, SiteName};
use cospan_domain::site::shared::SharedReservation;
use cospan_domain::units::Timestamp;

use super::body;
use super::failure::{Answer, Failure};
use super::gate::Caller;
use super::query;
use super::sites::no_site;
use super::state::Edge;
use super::unread::Unread;
use crate::api::v1::problem::{Code, Problem};
use crate::api::v1::quantity::Instant;
use crate::api::v1::shape::ReservationText;
use crate::api::v1::shared::{SharedDocument, SharedExtension, SharedReport};

pub(super) fn now() -> Timestamp {
    Instant::from(SystemTime::now()).0
}

fn none(name: &ReservationName) -> Failure {
    let problem = Problem::new(Code::NotFound, format!("there is no reservation {name}"));
    problem.remedy("`cospan reservation list` shows those that there are").into()
}

/// The one of this name, and its site.
fn found(edge: &Edge, name: &str) -> Result<(SiteName, SharedReservation), Failure> {
    let name: ReservationName = query::part("name", name)?;
    let view = edge.backend.view();
    let found = view.shared_reservation(&name, now());
    let (site, shared) = found.ok_or_else(|| none(&name))?;
    Ok((site.clone(), shared.clone()))
}

async fn order(
    edge: &Edge,
    caller: &Caller,
    site: SiteName,
    order: SiteOrder,
) -> Result<(), Failure> {
    let command = ApiCommand { by: caller.name().clone(), what: Ask::Site(site, order) };
    match edge.backend.command(command).await? {
        ApiAnswer::Done => Ok(()),
        other => Err(Failure::internal("order this", format!("the answer was {other:?}"))),
    }
}

fn report(edge: &Edge, name: &str) -> Answer {
    let (site, shared) = found(edge, name)?;
    let report = SharedReport::of(&site, &shared, &edge.backend.view(), now());
    Ok(HttpResponse::Ok().json(report))
}

/// Shows a reservation that jobs share.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    responses((status = 200, body = SharedReport, description = "As it stands")),
)]
#[get("/v1/shared-reservations/{name}")]
pub(super) async fn show(edge: Data<Edge>, name: Path<String>) -> Answer {
    report(&edge, &name)
}

/// Has a reservation made at a site, for jobs that name it. The site is asked after this is
/// answered: `state` tells what it said.
#[utoipa::path(
    tag = "reservations",
    request_body = SharedDocument,
    responses((status = 200, body = SharedReport, description = "The site is asked for it")),
)]
#[post("/v1/shared-reservations")]
pub(super) async fn create(
    request: HttpRequest,
    edge: Data<Edge>,
    caller: Caller,
    payload: Payload,
) -> Answer {
    let wanted: SharedDocument = body::read_json(&request, payload, &edge.settings).await?;
    let known: Vec<String> = edge.backend.sites().sites.into_iter().map(|s| s.name).collect();
    if !known.iter().any(|name| name == wanted.site.as_str()) {
        return Err(no_site(&wanted.site, &known));
    }
    let wish = wanted.wish(now());
    let wish = wish.map_err(|(key, why)| Problem::new(Code::BadWindow, why).key(key))?;
    order(&edge, &caller, wanted.site.clone(), SiteOrder::Reserve(Box::new(wish))).await?;
    report(&edge, wanted.name.as_str())
}

/// Has a reservation that jobs share end later. It keeps its end until the site has agreed.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    request_body = SharedExtension,
    responses((status = 200, body = SharedReport, description = "The site is asked")),
)]
#[post("/v1/shared-reservations/{name}/extend")]
pub(super) async fn extend(
    request: HttpRequest,
    edge: Data<Edge>,
    caller: Caller,
    name: Path<String>,
    payload: Payload,
) -> Answer {
    let wanted: SharedExtension = body::read_json(&request, payload, &edge.settings).await?;
    let (site, shared) = found(&edge, &name)?;
    let until = match (wanted.until, wanted.longer) {
        (Some(until), None) => until.0,
        (None, Some(longer)) => shared.until() + longer.0,
        (Some(_), Some(_)) | (None, None) => {
            let why = "say either `until` when it is to last, or `for` how much longer";
            return Err(Problem::new(Code::BadWindow, why).key("until").into());
        }
    };
    let what = SiteOrder::ExtendReservation { name: shared.wish.name, until };
    order(&edge, &caller, site, what).await?;
    report(&edge, &name)
}

/// Gives a reservation that jobs share back. Jobs that run in it go on; those that wait for it
/// fail.
#[utoipa::path(
    tag = "reservations",
    params(("name" = inline(ReservationText), Path, description = "Its name")),
    responses((status = 200, body = SharedReport, description = "It goes back, and what it cost")),
)]
#[post("/v1/shared-reservations/{name}/cancel")]
pub(super) async fn cancel(
    request: HttpRequest,
    edge: Data<Edge>,
    caller: Caller,
    name: Path<String>,
    payload: Payload,
) -> Answer {
    // An order that has nothing to say may still come with a body.
    request.extensions_mut().insert(Unread(payload.into_inner()));
    let (site, shared) = found(&edge, &name)?;
    let what = SiteOrder::CancelReservation { name: shared.wish.name };
    order(&edge, &caller, site, what).await?;
    report(&edge, &name)
}
