//! Sites, and operators' orders about them.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse, get, post};
use cospan_actors::api::command::Ask;
use cospan_actors::api::{ApiAnswer, ApiCommand, SiteOrder};
use cospan_domain::ids::SiteName;

use super::body;
use super::failure::{Answer, Failure};
use super::gate::Caller;
use super::query;
use super::state::Edge;
use crate::api::v1::control::DoneReport;
use crate::api::v1::parse;
use crate::api::v1::problem::{Code, Problem};
use crate::api::v1::site::{
    ForceOrder, SiteList, SiteOrderBody, SiteReport, WindowEnd, WindowReport,
};

/// Lists all sites.
#[utoipa::path(tag = "sites", responses((status = 200, body = SiteList)))]
#[get("/v1/sites")]
pub(super) async fn list(edge: Data<Edge>) -> Answer {
    Ok(HttpResponse::Ok().json(edge.backend.sites()))
}

/// Shows a site.
#[utoipa::path(
    tag = "sites",
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, body = SiteReport),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
#[get("/v1/sites/{name}")]
pub(super) async fn show(edge: Data<Edge>, name: Path<String>) -> Answer {
    let name: SiteName = query::part(&name)?;
    let mut sites = edge.backend.sites().sites;
    match sites.iter().position(|site| site.name == name.as_str()) {
        Some(at) => {
            let links = edge.backend.links_to(&name);
            Ok(HttpResponse::Ok().json(SiteReport { links, ..sites.swap_remove(at) }))
        }
        None => {
            let known: Vec<String> = sites.into_iter().map(|site| site.name).collect();
            Err(no_site(&name, &known))
        }
    }
}

/// There is no such site among those that are known.
pub(super) fn no_site(name: &SiteName, known: &[String]) -> Failure {
    let problem = Problem::new(Code::NotFound, format!("there is no site {name}"));
    let remedy = match parse::nearest(name.as_str(), known) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None if known.is_empty() => "add a [[site]] to the configuration".into(),
        None => format!("there are: {}", known.join(", ")),
    };
    problem.remedy(remedy).into()
}

const ORDERS: [&str; 9] = [
    "drain",
    "undrain",
    "freeze",
    "thaw",
    "reset",
    "maintenance",
    "end-maintenance",
    "force",
    "unforce",
];

/// Orders something about a site.
///
/// `drain` and `undrain` empty it and fill it again; `freeze` and `thaw` keep new work away;
/// `reset` forgets its errors; `force` lets a verdict hold instead of its errors for a while, until
/// `unforce`; `maintenance` sets a window (or changes the one with the same begin) and
/// `end-maintenance` takes the one with this begin back. Only `maintenance`, `end-maintenance`
/// and `force` take a body.
#[utoipa::path(
    tag = "sites",
    params(
        ("name" = String, Path, description = "Its name"),
        ("order" = String, Path, description = "The order"),
    ),
    request_body(content = Option<SiteOrderBody>),
    responses(
        (status = 200, body = DoneReport),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
#[post("/v1/sites/{name}/{order}")]
pub(super) async fn order(
    request: HttpRequest,
    edge: Data<Edge>,
    caller: Caller,
    path: Path<(String, String)>,
    payload: Payload,
) -> Answer {
    let (name, order) = path.into_inner();
    let site: SiteName = query::part(&name)?;
    let order = match order.as_str() {
        "drain" => SiteOrder::Drain,
        "undrain" => SiteOrder::Undrain,
        "freeze" => SiteOrder::Freeze,
        "thaw" => SiteOrder::Thaw,
        "reset" => SiteOrder::ResetErrors,
        "unforce" => SiteOrder::Unforce,
        "maintenance" => window(body::read_json(&request, payload, &edge.settings).await?)?,
        "end-maintenance" => {
            let ended: WindowEnd = body::read_json(&request, payload, &edge.settings).await?;
            SiteOrder::RemoveWindow { from: ended.from.0 }
        }
        "force" => {
            let verdict: ForceOrder = body::read_json(&request, payload, &edge.settings).await?;
            SiteOrder::Force { usable: verdict.usable, until: verdict.until.0 }
        }
        unknown => return Err(no_order(unknown)),
    };
    let command = ApiCommand { by: caller.name().clone(), what: Ask::Site(site, order) };
    match edge.backend.command(command).await? {
        ApiAnswer::Done => Ok(HttpResponse::Ok().json(DoneReport { done: true })),
        other => Err(Failure::internal("order this", format!("the answer was {other:?}"))),
    }
}

fn no_order(unknown: &str) -> Failure {
    let known = ORDERS.map(str::to_owned);
    let shown: String = unknown.chars().take(40).collect();
    let problem = Problem::new(Code::NotFound, format!("there is no order {shown:?} for a site"));
    match parse::nearest(unknown, &known) {
        Some(nearest) => problem.remedy(format!("did you mean {nearest}?")).into(),
        None => problem.remedy(format!("there are: {}", known.join(", "))).into(),
    }
}

fn window(window: WindowReport) -> Result<SiteOrder, Failure> {
    if window.from >= window.until {
        let detail = format!("the window ends at {}, not after its begin", window.until);
        return Err(Problem::new(Code::BadBody, detail).key("until").into());
    }
    let (from, until) = (window.from.0, window.until.0);
    Ok(SiteOrder::SetWindow { from, until, reason: window.reason.into() })
}
