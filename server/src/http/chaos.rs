//! Rehearsing failures: faults injected on purpose.

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse, delete, get, post};
use serde::Deserialize;
use utoipa::IntoParams;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::middleware::RequestCaller;
use super::query;
use super::state::HttpState;
use crate::chaos::RehearsalRefusal;
use cospan_api::v1::Instant;
use cospan_api::v1::chaos::{ChaosPlan, ChaosReport, ChaosStatus, RehearsalReport};
use cospan_api::v1::problem::{Code, Problem};

/// Shows whether faults may be injected here, and those that are.
#[utoipa::path(tag = "chaos", responses((status = 200, body = ChaosStatus, description = "What runs, and within which bounds")))]
#[get("/v1/chaos")]
pub(super) async fn show(edge: Data<HttpState>) -> HandlerResult {
    Ok(HttpResponse::Ok().json(edge.backend.rehearsals().status()))
}

/// Parameters of a request with a plan.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(super) struct How {
    /// Only show what would run.
    dry_run: bool,
}

/// Begins to inject faults according to a plan.
///
/// Needs a key with the role `chaos`, and a server whose configuration allows it. The faults end by
/// themselves, with `DELETE`, and with the server's process.
#[utoipa::path(
    tag = "chaos",
    params(How),
    request_body = ChaosPlan,
    responses(
        (status = 200, body = RehearsalReport, description = "What runs, or would run"),
    )
)]
#[post("/v1/chaos")]
pub(super) async fn begin(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let how: How = query::read_query(&request)?;
    let plan: ChaosPlan = body::read_json(&request, payload, &edge.settings).await?;
    let rehearsals = edge.backend.rehearsals();
    let rehearsal = if how.dry_run {
        rehearsals.preview(caller.name().clone(), &plan)?
    } else {
        rehearsals.begin(caller.name().clone(), &plan)?
    };
    Ok(HttpResponse::Ok().json(rehearsal))
}

/// Ends all injected faults at once.
#[utoipa::path(
    tag = "chaos",
    responses(
        (status = 200, body = ChaosReport, description = "What was injected, and what followed"),
    )
)]
#[delete("/v1/chaos")]
pub(super) async fn stop(edge: Data<HttpState>, caller: RequestCaller) -> HandlerResult {
    Ok(HttpResponse::Ok().json(edge.backend.rehearsals().stop(caller.name().clone())?))
}

/// Reports the injected faults, and the reactions of the control plane.
#[utoipa::path(
    tag = "chaos",
    responses(
        (status = 200, body = ChaosReport, description = "What was injected, and what followed"),
    )
)]
#[get("/v1/chaos/report")]
pub(super) async fn report(edge: Data<HttpState>) -> HandlerResult {
    Ok(HttpResponse::Ok().json(edge.backend.rehearsals().latest_report()?))
}

impl From<RehearsalRefusal> for HttpFailure {
    fn from(refusal: RehearsalRefusal) -> Self {
        let problem = match refusal {
            RehearsalRefusal::Off => Problem::new(
                Code::ChaosOff,
                "the configuration of this server does not allow fault injection",
            ),
            RehearsalRefusal::Plan(flaws) => {
                let first = flaws
                    .first()
                    .map(|flaw| flaw.place.clone())
                    .unwrap_or_default();
                let all = flaws
                    .iter()
                    .map(|flaw| format!("{} ({})", flaw.problem, flaw.remedy));
                Problem::new(Code::BadPlan, all.collect::<Vec<_>>().join("; ")).with_key_path(first)
            }
            RehearsalRefusal::Busy { by, ends_at } => Problem::new(
                Code::Conflict,
                format!("{by} injects faults until {}", Instant(ends_at)),
            )
            .with_remedy("wait for its end, or end it with `cospan chaos stop`"),
            RehearsalRefusal::None => Problem::new(Code::NotFound, "no faults are being injected")
                .with_remedy("`cospan chaos status` shows what runs; `cospan chaos inject` begins"),
        };
        problem.into()
    }
}
