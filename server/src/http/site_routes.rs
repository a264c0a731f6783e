//! Sites, and operators' commands about them.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, get, post};
use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiAnswer, ApiCommand, FreeProcessorsAnswer, OperatorCommand};
use cospan_domain::ids::SiteName;
use serde::Deserialize;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::middleware::RequestCaller;
use super::query;
use super::state::HttpState;
use super::unread_bodies::UnreadBody;
use cospan_api::v1::commands::DoneReport;
use cospan_api::v1::parse;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::quantity::{Instant, Length};
use cospan_api::v1::site::{
    ForceOrder, FreeStep, SiteList, SiteReport, TimelineReport, WindowEnd, WindowReport,
};
use cospan_api::v1::text_patterns::SiteText;

/// Lists all sites.
#[utoipa::path(tag = "sites", responses((status = 200, body = SiteList, description = "All sites")))]
#[get("/v1/sites")]
pub(super) async fn list(edge: Data<HttpState>) -> HandlerResult {
    edge.backend.refresh_site_reports();
    Ok(HttpResponse::Ok().json(edge.backend.list_sites()))
}

/// Further parts of a site's report.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SiteQuery {
    /// Also the free slots from now on, for this long: the site is asked.
    #[serde(default)]
    #[param(example = "24h")]
    timeline: Option<Length>,
    /// Also the jobs whose attempts there are still needed.
    #[serde(default)]
    needs: bool,
}

/// Shows a site.
#[utoipa::path(
    tag = "sites",
    params(("name" = inline(SiteText), Path, description = "Its name"), SiteQuery),
    responses(
        (status = 200, body = SiteReport, description = "The site"),
    )
)]
#[get("/v1/sites/{name}")]
pub(super) async fn show(
    request: HttpRequest,
    edge: Data<HttpState>,
    name: Path<String>,
) -> HandlerResult {
    let asked: SiteQuery = query::read_query(&request)?;
    let name: SiteName = query::parse_part("name", &name)?;
    edge.backend.refresh_site_reports();
    let mut sites = edge.backend.list_sites().sites;
    match sites.iter().position(|site| site.name == name.as_str()) {
        Some(at) => {
            let links = edge.backend.links_to(&name);
            let timeline = match asked.timeline {
                Some(within) => {
                    let said = edge.backend.free_slots(&name, within.0).await;
                    Some(report_free_processors(said))
                }
                None => None,
            };
            let needs = asked.needs.then(|| edge.backend.list_needed_attempts());
            let site = sites.swap_remove(at);
            Ok(HttpResponse::Ok().json(SiteReport {
                links,
                timeline,
                needs,
                ..site
            }))
        }
        None => {
            let known: Vec<String> = sites.into_iter().map(|site| site.name).collect();
            Err(unknown_site(&name, &known))
        }
    }
}

/// Reports the free processors of a site.
fn report_free_processors(said: FreeProcessorsAnswer) -> TimelineReport {
    match said {
        FreeProcessorsAnswer::GrantsNone => TimelineReport {
            state: "grants-none".into(),
            ..TimelineReport::default()
        },
        FreeProcessorsAnswer::Silent(why) => TimelineReport {
            state: "silent".into(),
            problem: Some(why),
            ..TimelineReport::default()
        },
        FreeProcessorsAnswer::Told { steps, until } => {
            let steps = steps
                .into_iter()
                .map(|(from, processors)| FreeStep {
                    from: Instant(from),
                    processors,
                })
                .collect();
            TimelineReport {
                state: "answered".into(),
                steps,
                known_until: until.map(Instant),
                ..TimelineReport::default()
            }
        }
    }
}

/// The refusal of an unknown site, with those that are known.
pub(super) fn unknown_site(name: &SiteName, known: &[String]) -> HttpFailure {
    let problem = Problem::new(Code::NotFound, format!("there is no site {name}"));
    let remedy = match parse::nearest_word(name.as_str(), known) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None if known.is_empty() => "add a [[site]] to the configuration".into(),
        None => format!("there are: {}", known.join(", ")),
    };
    problem.with_remedy(remedy).into()
}

async fn command_site(
    edge: &HttpState,
    caller: &RequestCaller,
    name: &str,
    order: OperatorCommand,
) -> HandlerResult {
    let site: SiteName = query::parse_part("name", name)?;
    let command = ApiCommand {
        by: caller.name().clone(),
        what: ApiRequest::Site(site, order),
    };
    match edge.backend.run_command(command).await? {
        ApiAnswer::Done => Ok(HttpResponse::Ok().json(DoneReport { done: true })),
        other => Err(HttpFailure::internal(
            "carry out this command",
            format!("the answer was {other:?}"),
        )),
    }
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident at $path:literal $(with $body:ident)? is $what:expr;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(
            tag = "sites",
            params(("name" = inline(SiteText), Path, description = "Its name")),
            $(request_body = $body,)?
            responses((status = 200, body = DoneReport, description = "Done")),
        )]
        #[post($path)]
        pub(super) async fn $name(
            request: HttpRequest,
            edge: Data<HttpState>,
            caller: RequestCaller,
            name: Path<String>,
            payload: Payload,
        ) -> HandlerResult {
            let what: fn(order_body!($($body)?)) -> Result<OperatorCommand, HttpFailure> = $what;
            let given = read_order!(request, payload, edge $(, $body)?);
            command_site(&edge, &caller, &name, what(given)?).await
        }
    )*};
}

macro_rules! order_body {
    () => {
        ()
    };
    ($body:ident) => {
        $body
    };
}

macro_rules! read_order {
    ($request:ident, $payload:ident, $edge:ident) => {{
        // A command without parameters may still come with a body.
        $request
            .extensions_mut()
            .insert(UnreadBody($payload.into_inner()));
    }};
    ($request:ident, $payload:ident, $edge:ident, $body:ident) => {
        body::read_json::<$body>(&$request, $payload, &$edge.settings).await?
    };
}

orders! {
    /// Drains a site: nothing new is placed there, and work that can move does.
    drain at "/v1/sites/{name}/drain" is |()| Ok(OperatorCommand::Drain);
    /// Lets new work come to a drained site again.
    undrain at "/v1/sites/{name}/undrain" is |()| Ok(OperatorCommand::Undrain);
    /// Freezes a site: no new work comes to it.
    freeze at "/v1/sites/{name}/freeze" is |()| Ok(OperatorCommand::Freeze);
    /// Thaws a frozen site: new work may come to it.
    thaw at "/v1/sites/{name}/thaw" is |()| Ok(OperatorCommand::Thaw);
    /// Forgets the errors of a site.
    reset at "/v1/sites/{name}/reset" is |()| Ok(OperatorCommand::ResetErrors);
    /// Ends a forced state: the errors of the site decide again.
    unforce at "/v1/sites/{name}/unforce" is |()| Ok(OperatorCommand::Unforce);
    /// Forces the state of a site for a while, in place of its errors, until `unforce`.
    force at "/v1/sites/{name}/force" with ForceOrder is |verdict| {
        Ok(OperatorCommand::Force { usable: verdict.usable, until: verdict.until.0 })
    };
    /// Sets a window of maintenance, or changes the one with the same begin.
    maintenance at "/v1/sites/{name}/maintenance" with WindowReport is maintenance_command;
    /// Removes the window of maintenance with this begin.
    end_maintenance at "/v1/sites/{name}/end-maintenance" with WindowEnd is |ended| {
        Ok(OperatorCommand::RemoveWindow { from: ended.from.0 })
    };
}

fn maintenance_command(window: WindowReport) -> Result<OperatorCommand, HttpFailure> {
    if window.from >= window.until {
        let detail = format!("the window ends at {}, not after its begin", window.until);
        return Err(Problem::new(Code::BadWindow, detail)
            .with_key_path("until")
            .into());
    }
    let from = window.from.0;
    let until = window.until.0;
    Ok(OperatorCommand::SetWindow {
        from,
        until,
        reason: window.reason.into(),
    })
}
