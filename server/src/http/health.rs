//! Liveness and readiness of the server, its metrics, and its interface.

use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpResponse, get};
use prometheus::{Encoder, TextEncoder};

use super::failure::{HandlerResult, HttpFailure};
use super::state::HttpState;
use cospan_api::v1::problem::{Code, Problem};

/// Returns 200 while the process answers. Needs no key.
#[utoipa::path(tag = "server", security(()), responses((status = 200, body = String, description = "It does")))]
#[get("/livez")]
pub(super) async fn livez() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/plain; charset=utf-8")
        .body("ok\n")
}

/// Returns 200 if the server takes work. Needs no key.
#[utoipa::path(
    tag = "server",
    security(()),
    responses(
        (status = 200, body = String, description = "It does"),
    )
)]
#[get("/readyz")]
pub(super) async fn readyz(edge: Data<HttpState>) -> HandlerResult {
    match edge.backend.readiness() {
        Ok(()) => {
            let text = match edge.backend.rehearsals().status().rehearsal {
                None => "ok\n".into(),
                Some(running) => format!("ok, but faults are injected until {}\n", running.ends_at),
            };
            Ok(HttpResponse::Ok()
                .content_type("text/plain; charset=utf-8")
                .body(text))
        }
        Err(why) => Err(Problem::new(Code::NotReady, why).with_retry_after(1).into()),
    }
}

/// Returns metrics in the text format of Prometheus. Needs a key, unless the option
/// `server.metrics_public` is set.
#[utoipa::path(tag = "server", responses((status = 200, body = String, content_type = "text/plain", description = "The metrics")))]
#[get("/metrics")]
pub(super) async fn metrics(edge: Data<HttpState>) -> HandlerResult {
    edge.metrics.update_external();
    edge.backend.refresh_site_reports();
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    encoder
        .encode(&edge.registry.gather(), &mut text)
        .map_err(|error| HttpFailure::internal("write the metrics", error))?;
    Ok(HttpResponse::Ok()
        .content_type(encoder.format_type())
        .body(text))
}

/// Returns this interface as an OpenAPI document. Needs no key.
#[utoipa::path(tag = "server", security(()), responses((status = 200, body = Object, content_type = "application/json", description = "The document")))]
#[get("/v1/openapi.json")]
pub(super) async fn openapi(edge: Data<HttpState>) -> HttpResponse {
    let json = HeaderValue::from_static("application/json");
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, json))
        .body(edge.openapi.clone())
}
