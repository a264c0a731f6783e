//! Logical files.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse, delete, get, post};
use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiAnswer, ApiCommand, ApiRefusal};
use cospan_domain::ids::{KeyName, LogicalName};
use serde::Deserialize;
use std::collections::BTreeSet;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::middleware::{self, RequestCaller};
use super::query;
use super::state::HttpState;
use crate::keys::Role;
use cospan_api::v1::commands::DoneReport;
use cospan_api::v1::file::{FilePage, FileRegistration, FileReport};
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::text_patterns::{FileText, SiteText};

/// The selection of files to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct FileListQuery {
    /// Continue after this name: `next` of the previous page.
    #[param(inline, value_type = Option<FileText>)]
    after: Option<String>,
    /// Most rows of the page: 100 by default, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// Only with a replica at this site.
    #[param(inline, value_type = Option<SiteText>)]
    site: Option<String>,
}

/// The replicas to forget.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RemoveQuery {
    /// Only the replica at this site.
    #[param(inline, value_type = Option<SiteText>)]
    site: Option<String>,
    /// Even if unfinished jobs read it.
    force: bool,
}

/// The files that a caller sees and changes: its own, and those that its role reaches on every
/// address alike, also where a job names them. Every key sees files that an operator or
/// administrator registered.
pub(super) struct VisibleFiles<'a> {
    caller: &'a RequestCaller,
    common: BTreeSet<KeyName>,
}

impl<'a> VisibleFiles<'a> {
    pub(super) fn of_caller(edge: &HttpState, caller: &'a RequestCaller) -> Self {
        Self {
            caller,
            common: edge.keys.names_with(Role::Operator),
        }
    }

    /// Returns true if the caller sees a file that this key registered.
    pub(super) fn can_see(&self, by: &KeyName) -> bool {
        self.can_change(by) || self.common.contains(by) || self.caller.can_see_rows()
    }

    /// Returns true if the caller may replace or forget a file that this key registered.
    pub(super) fn can_change(&self, by: &KeyName) -> bool {
        self.caller.name() == by || self.caller.has_role(Role::Administrator)
    }
}

/// The refusal of a name that a file of another key has.
pub(super) fn name_taken_failure(name: &LogicalName) -> HttpFailure {
    Problem::new(
        Code::Conflict,
        format!("the name {name:?} is taken by another key's file"),
    )
    .with_remedy("choose another name, or ask that key or an administrator to remove the file")
    .into()
}

/// The refusal of a name that stands for other content, if the user has not asked to replace it.
pub(super) fn other_content_failure(detail: String) -> HttpFailure {
    Problem::new(Code::Conflict, detail)
        .with_remedy("choose another name, or replace it: --replace (`replace` over HTTP)")
        .into()
}

/// Lists logical files by name: those that the key registered, and those that operators and
/// administrators registered for all keys.
#[utoipa::path(
    tag = "files",
    params(FileListQuery),
    responses(
        (status = 200, body = FilePage, description = "A page of files"),
    )
)]
#[get("/v1/files")]
pub(super) async fn list(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: FileListQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, 100, 1000)?;
    let after = asked
        .after
        .as_deref()
        .map(|text| query::parse_part("after", text))
        .transpose()?;
    let site = asked
        .site
        .as_deref()
        .map(|text| query::parse_part("site", text))
        .transpose()?;
    let sight = VisibleFiles::of_caller(&edge, &caller);
    let page = edge.backend.list_files(
        after.as_ref(),
        site.as_ref(),
        &|by: &KeyName| sight.can_see(by),
        limit,
    );
    Ok(HttpResponse::Ok().json(page))
}

/// Registers a file that lies at a site under a logical name.
///
/// The answer comes when its content has been read there and the name is durable.
#[utoipa::path(
    tag = "files",
    request_body = FileRegistration,
    responses(
        (status = 201, body = FileReport, description = "The file"),
    )
)]
#[post("/v1/files")]
pub(super) async fn add(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let file: FileRegistration = body::read_json(&request, payload, &edge.settings).await?;
    let name = file.name.clone();
    let sight = VisibleFiles::of_caller(&edge, &caller);
    if edge
        .backend
        .file_owner(&name)
        .is_some_and(|by| !sight.can_change(&by))
    {
        return Err(name_taken_failure(&name));
    }
    let FileRegistration {
        name: asked,
        site,
        path,
        replace,
    } = file;
    let reaches_all = caller.has_role(Role::Administrator);
    let what = ApiRequest::AddFile {
        name: asked,
        site,
        path,
        replace,
        reaches_all,
    };
    let answer = edge
        .backend
        .run_command(ApiCommand {
            by: caller.name().clone(),
            what,
        })
        .await;
    let in_the_way = !replace && edge.backend.find_file(&name).is_some();
    match answer.map_err(|refusal| match refusal {
        ApiRefusal::Conflict(detail) if in_the_way => other_content_failure(detail),
        refusal => refusal.into(),
    })? {
        ApiAnswer::Done => match edge.backend.find_file(&name) {
            Some(file) => Ok(HttpResponse::Created().json(file)),
            // It was removed meanwhile.
            None => Err(no_such_file(&name)),
        },
        other => Err(HttpFailure::internal(
            "register it",
            format!("the answer was {other:?}"),
        )),
    }
}

fn no_such_file(name: &LogicalName) -> HttpFailure {
    HttpFailure::new(Code::NotFound, format!("there is no file {name:?}"))
}

/// Shows a logical file and its replicas.
#[utoipa::path(
    tag = "files",
    params(("name" = inline(FileText), Path, description = "Its logical name, which may have slashes")),
    responses(
        (status = 200, body = FileReport, description = "The file"),
    )
)]
#[get("/v1/files/{name:.+}")]
pub(super) async fn show(
    edge: Data<HttpState>,
    caller: RequestCaller,
    name: Path<String>,
) -> HandlerResult {
    let name: LogicalName = query::parse_part("name", &name)?;
    let sight = VisibleFiles::of_caller(&edge, &caller);
    let is_shown = edge
        .backend
        .file_owner(&name)
        .is_some_and(|by| sight.can_see(&by));
    let file = edge
        .backend
        .find_file(&name)
        .filter(|_| is_shown)
        .ok_or_else(|| no_such_file(&name))?;
    Ok(HttpResponse::Ok().json(file))
}

/// Forgets a logical file, or one replica of it. Nothing at a site is deleted.
#[utoipa::path(
    tag = "files",
    params(
        RemoveQuery,
        ("name" = inline(FileText), Path, description = "Its logical name, which may have slashes"),
    ),
    responses(
        (status = 200, body = DoneReport, description = "Done"),
    )
)]
#[delete("/v1/files/{name:.+}")]
pub(super) async fn remove(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    name: Path<String>,
) -> HandlerResult {
    let asked: RemoveQuery = query::read_query(&request)?;
    let name: LogicalName = query::parse_part("name", &name)?;
    let sight = VisibleFiles::of_caller(&edge, &caller);
    match edge.backend.file_owner(&name) {
        Some(by) if !sight.can_see(&by) => return Err(no_such_file(&name)),
        Some(by) if !sight.can_change(&by) => {
            return Err(middleware::another_keys_failure(format!(
                "the file {name:?}"
            )));
        }
        Some(_) | None => {}
    }
    let what = ApiRequest::RemoveFile {
        name,
        site: asked
            .site
            .as_deref()
            .map(|text| query::parse_part("site", text))
            .transpose()?,
        force: asked.force,
        reaches_all: caller.has_role(Role::Administrator),
    };
    match edge
        .backend
        .run_command(ApiCommand {
            by: caller.name().clone(),
            what,
        })
        .await?
    {
        ApiAnswer::Done => Ok(HttpResponse::Ok().json(DoneReport { done: true })),
        other => Err(HttpFailure::internal(
            "forget it",
            format!("the answer was {other:?}"),
        )),
    }
}
