//! Logical files.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse, delete, get, post};
use cospan_actors::api::command::Ask;
use cospan_actors::api::{ApiAnswer, ApiCommand};
use cospan_domain::ids::LogicalName;
use serde::Deserialize;

use super::body;
use super::failure::{Answer, Failure};
use super::gate::Caller;
use super::query;
use super::state::Edge;
use crate::api::v1::control::DoneReport;
use crate::api::v1::file::{FilePage, FileRegistration, FileReport};
use crate::api::v1::problem::{Code, Problem};

/// Which files to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Go on after this name: `next` of the page before.
    after: Option<String>,
    /// Most rows of the page: 100 if left out, at most 1,000.
    limit: Option<u64>,
    /// Only with a replica at this site.
    site: Option<String>,
}

/// What to forget.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RemoveQuery {
    /// Only the replica at this site.
    site: Option<String>,
    /// Even if unfinished jobs read it.
    force: bool,
}

/// Lists logical files by name.
#[utoipa::path(
    tag = "files",
    params(ListQuery),
    responses(
        (status = 200, body = FilePage),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
#[get("/v1/files")]
pub(super) async fn list(request: HttpRequest, edge: Data<Edge>) -> Answer {
    let asked: ListQuery = query::read(&request)?;
    let limit = query::limit(asked.limit, 100, 1000)?;
    let after = asked.after.as_deref().map(query::part).transpose()?;
    let site = asked.site.as_deref().map(query::part).transpose()?;
    Ok(HttpResponse::Ok().json(edge.backend.files(after.as_ref(), site.as_ref(), limit)))
}

/// Registers a file that is at a site under a logical name.
///
/// The answer comes when its content was read there and the name is durable.
#[utoipa::path(
    tag = "files",
    request_body = FileRegistration,
    responses(
        (status = 201, body = FileReport),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 502, body = Problem, content_type = "application/problem+json"),
    )
)]
#[post("/v1/files")]
pub(super) async fn add(
    request: HttpRequest,
    edge: Data<Edge>,
    caller: Caller,
    payload: Payload,
) -> Answer {
    let file: FileRegistration = body::read_json(&request, payload, &edge.settings).await?;
    let name = file.name.clone();
    let what =
        Ask::AddFile { name: file.name, site: file.site, path: file.path, replace: file.replace };
    match edge.backend.command(ApiCommand { by: caller.0, what }).await? {
        ApiAnswer::Done => match edge.backend.file(&name) {
            Some(file) => Ok(HttpResponse::Created().json(file)),
            // Somebody was quicker to remove it.
            None => Err(no_file(&name)),
        },
        other => Err(Failure::internal("register it", format!("the answer was {other:?}"))),
    }
}

fn no_file(name: &LogicalName) -> Failure {
    Failure::new(Code::NotFound, format!("there is no file {name:?}"))
}

/// Shows a logical file and where its replicas are.
#[utoipa::path(
    tag = "files",
    params(("name" = String, Path, description = "Its logical name, which may have slashes")),
    responses(
        (status = 200, body = FileReport),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
#[get("/v1/files/{name:.+}")]
pub(super) async fn show(edge: Data<Edge>, name: Path<String>) -> Answer {
    let name: LogicalName = query::part(&name)?;
    let file = edge.backend.file(&name).ok_or_else(|| no_file(&name))?;
    Ok(HttpResponse::Ok().json(file))
}

/// Forgets a logical file, or one replica of it. Nothing at a site is deleted.
#[utoipa::path(
    tag = "files",
    params(
        RemoveQuery,
        ("name" = String, Path, description = "Its logical name, which may have slashes"),
    ),
    responses(
        (status = 200, body = DoneReport),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
#[delete("/v1/files/{name:.+}")]
pub(super) async fn remove(
    request: HttpRequest,
    edge: Data<Edge>,
    caller: Caller,
    name: Path<String>,
) -> Answer {
    let asked: RemoveQuery = query::read(&request)?;
    let what = Ask::RemoveFile {
        name: query::part(&name)?,
        site: asked.site.as_deref().map(query::part).transpose()?,
        force: asked.force,
    };
    match edge.backend.command(ApiCommand { by: caller.0, what }).await? {
        ApiAnswer::Done => Ok(HttpResponse::Ok().json(DoneReport { done: true })),
        other => Err(Failure::internal("forget it", format!("the answer was {other:?}"))),
    }
}
