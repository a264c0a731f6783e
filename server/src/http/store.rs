//! The store: its size, and its export.

use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpResponse, get};
use futures_util::StreamExt;

use super::failure::{HandlerResult, HttpFailure};
use super::middleware::RequestCaller;
use super::state::HttpState;
use cospan_api::v1::store::StoreReport;

/// Shows the store.
#[utoipa::path(tag = "store", responses((status = 200, body = StoreReport, description = "The store")))]
#[get("/v1/store")]
pub(super) async fn show(edge: Data<HttpState>) -> HandlerResult {
    Ok(HttpResponse::Ok().json(edge.backend.store_report()))
}

/// Exports the whole store, in the format of `cospan store import`.
///
/// The server continues meanwhile. If an error occurs on the way the connection breaks off, so an
/// export without an end mark is no export.
#[utoipa::path(
    tag = "store",
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream", description = "The bytes"),
    )
)]
#[get("/v1/store/export")]
pub(super) async fn export(edge: Data<HttpState>, caller: RequestCaller) -> HandlerResult {
    let permit = edge.open_stream(&caller)?;
    let pieces = edge.backend.export_store().await?;
    let pieces = pieces.map(move |piece| {
        let _open = &permit;
        piece.map_err(|error| HttpFailure::internal("export the store", error))
    });
    let name = HeaderValue::from_static("attachment; filename=\"cospan-export\"");
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/octet-stream"))
        .insert_header((header::CONTENT_DISPOSITION, name))
        .streaming(pieces))
}
