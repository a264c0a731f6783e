//! Files that users send: announced, sent piece by piece, and completed. An acknowledged piece is
//! kept, so that a client continues after a cut or a restart where it stood.

use std::sync::Arc;

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse, delete, get, patch, post};
use cospan_domain::ids::{LogicalName, SiteName};
use serde::Deserialize;

use super::body;
use super::failure::{HandlerResult, HttpFailure};
use super::files::{VisibleFiles, name_taken_failure, other_content_failure};
use super::middleware::RequestCaller;
use super::query;
use super::state::HttpState;
use super::upload_delivery::{self, DeliveryProgress};
use crate::uploads::{Upload, UploadError, UploadRecord};
use cospan_api::v1::commands::DoneReport;
use cospan_api::v1::file::FileReport;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::upload::{FILE_NAME_MAX, UploadPage, UploadReport, UploadRequest, UploadState};

/// Most bytes of a file's name that go into a logical name.
const NAME_PART_MAX: usize = 128;

/// The place of a piece.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PieceQuery {
    /// Bytes of the file before the piece: the upload's `offset`.
    #[serde(deserialize_with = "query::offset")]
    offset: u64,
}

/// The selection of uploads to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct UploadListQuery {
    /// Continue after this id: `next` of the previous page.
    after: Option<String>,
    /// Most rows of the page: 100 by default, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

impl From<UploadError> for HttpFailure {
    fn from(error: UploadError) -> Self {
        let detail = error.to_string();
        let (code, remedy) = match error {
            UploadError::Off => (
                Code::NeverRoomForFile,
                "register files that are at a site already",
            ),
            UploadError::TooLarge { .. } => (
                Code::NeverRoomForFile,
                "copy it to a site yourself and register it there, or ask for a higher \
                 `limits.max_upload`",
            ),
            UploadError::Quota { .. } => (
                Code::NoRoomForFile,
                "remove uploaded files that you do not need (`cospan file remove`), or ask for a \
                 higher `limits.upload_quota`",
            ),
            UploadError::TooMany { .. } => (
                Code::NoRoomForFile,
                "remove uploaded files that you do not need (`cospan file remove`), or pack many \
                 into one",
            ),
            UploadError::DiskFull { .. } => (
                Code::NoRoomForFile,
                "free space on that disk, and send it again",
            ),
            UploadError::Elsewhere { .. } => {
                (Code::Conflict, "go on where the upload's `offset` is")
            }
            UploadError::TooMuch { .. } => (Code::BadUpload, "send what was announced"),
            UploadError::GivenUp => (Code::NotFound, "announce it again"),
            UploadError::Io(error) => {
                use std::io::ErrorKind::{QuotaExceeded, StorageFull};
                return match error.kind() {
                    StorageFull | QuotaExceeded => Problem::new(Code::NoRoomForFile, detail)
                        .with_remedy("free space on the disk of the server's data directory")
                        .into(),
                    _ => HttpFailure::internal("keep an upload", error),
                };
            }
        };
        Problem::new(code, detail).with_remedy(remedy).into()
    }
}

/// Announces a file, or continues an upload that was announced alike and not completed.
///
/// Nothing is to be sent if the answer's state is `done`: the file is there already. Otherwise its
/// bytes are sent from `offset` on, in pieces, and then it is completed.
#[utoipa::path(
    tag = "uploads",
    request_body = UploadRequest,
    responses(
        (status = 200, description = "The file is there already", body = UploadReport),
        (status = 201, description = "Send it from `offset` on", body = UploadReport),
    )
)]
#[post("/v1/uploads")]
pub(super) async fn begin(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    payload: Payload,
) -> HandlerResult {
    let asked: UploadRequest = body::read_json(&request, payload, &edge.settings).await?;
    if asked
        .file_name
        .as_ref()
        .is_some_and(|name| !(1..=FILE_NAME_MAX).contains(&name.chars().count()))
    {
        let detail = format!("a file's name has 1 to {FILE_NAME_MAX} characters");
        return Err(Problem::new(Code::BadBody, detail)
            .with_key_path("file_name")
            .into());
    }
    let name = match &asked.name {
        Some(name) => name.clone(),
        None => choose_free_name(&caller, &asked)?,
    };
    if let Some(there) = report_existing_file(&edge, &caller, &asked, &name)? {
        return Ok(HttpResponse::Ok().json(there));
    }
    let record = UploadRecord::new(caller.name().clone(), name, asked.size_bytes, asked.digest);
    let record = record.map_err(|error| HttpFailure::internal("draw an upload's id", error))?;
    let record = UploadRecord {
        site: asked.site,
        replace: asked.replace,
        ..record
    };
    let upload =
        upload_delivery::run_blocking(&edge, move |uploads| uploads.begin_upload(record)).await?;
    Ok(HttpResponse::Created().json(upload_report(&edge, &upload)?))
}

/// The report of a file that is there already; `None` if the upload may begin.
fn report_existing_file(
    edge: &HttpState,
    caller: &RequestCaller,
    asked: &UploadRequest,
    name: &LogicalName,
) -> Result<Option<UploadReport>, HttpFailure> {
    if let Some(site) = &asked.site
        && !edge
            .backend
            .list_sites()
            .sites
            .iter()
            .any(|known| known.name == site.as_str())
    {
        return Err(HttpFailure::new(
            Code::NotFound,
            format!("no site is called {site}"),
        ));
    }
    if edge
        .backend
        .file_owner(name)
        .is_some_and(|by| !VisibleFiles::of_caller(edge, caller).can_change(&by))
    {
        return Err(name_taken_failure(name));
    }
    let Some(file) = edge.backend.find_file(name) else {
        return Ok(None);
    };
    let is_same = file.digest == asked.digest.to_string();
    if is_same && is_file_at(&file, asked.site.as_ref()) {
        return Ok(Some(finished_upload_report(edge, &file)));
    }
    if !is_same && !asked.replace {
        let detail = format!("the name {:?} stands for other content", name.as_str());
        return Err(other_content_failure(detail));
    }
    Ok(None)
}

fn is_file_at(file: &FileReport, site: Option<&SiteName>) -> bool {
    let registered = file.replicas.iter().filter(|replica| !replica.kept);
    registered
        .into_iter()
        .any(|r| site.is_none_or(|site| r.site == site.as_str()))
}

/// A name that no other key's file has, and no other content of this key.
fn choose_free_name(
    caller: &RequestCaller,
    asked: &UploadRequest,
) -> Result<LogicalName, HttpFailure> {
    let file = asked.file_name.as_deref().unwrap_or("file");
    let mut file: String = file
        .chars()
        .map(|c: char| {
            if c.is_control() || "/\\{}".contains(c) {
                '_'
            } else {
                c
            }
        })
        .collect();
    while file.len() > NAME_PART_MAX {
        file.pop();
    }
    let digest = asked.digest.to_string();
    let digest = digest.get(..16).unwrap_or_default();
    query::parse_part(
        "file_name",
        &format!("uploads/{}/{digest}/{file}", caller.name()),
    )
}

fn finished_upload_report(edge: &HttpState, file: &FileReport) -> UploadReport {
    UploadReport {
        id: None,
        owner: file.owner.clone(),
        name: file.name.clone(),
        size_bytes: file.size_bytes,
        digest: file.digest.clone(),
        offset: file.size_bytes,
        max_piece_bytes: edge.settings.max_body_bytes as u64,
        state: UploadState::Done,
    }
}

fn upload_report(edge: &HttpState, upload: &Upload) -> Result<UploadReport, HttpFailure> {
    let record = upload.record();
    let arrived = edge.uploads.arrived_bytes(&record)?;
    let state = match record.placed {
        Some(_) => UploadState::Done,
        // The landing of the upload holds its turn.
        None if arrived == record.size_bytes && upload.turn.try_lock().is_err() => {
            UploadState::Landing
        }
        None => UploadState::Receiving,
    };
    Ok(UploadReport {
        id: Some(record.id),
        owner: record.owner.to_string(),
        name: record.name.to_string(),
        size_bytes: record.size_bytes,
        digest: record.digest.to_string(),
        offset: arrived,
        max_piece_bytes: edge.settings.max_body_bytes as u64,
        state,
    })
}

/// Finds an upload that the caller may see; those of others do not exist for it.
fn find_upload(
    edge: &HttpState,
    caller: &RequestCaller,
    id: &str,
) -> Result<Arc<Upload>, HttpFailure> {
    let upload = edge.uploads.find_upload(id).filter(|upload| {
        let record: UploadRecord = upload.record();
        caller.can_reach(&record.owner) && !record.given_up
    });
    upload.ok_or_else(|| {
        let remedy = "announce it again: what is not completed is dropped after \
                      `limits.keep_uploads`";
        let shown: String = id.chars().take(64).collect();
        Problem::new(Code::NotFound, format!("there is no upload {shown:?}"))
            .with_remedy(remedy)
            .into()
    })
}

fn upload_busy() -> HttpFailure {
    let detail = "another request is at work on this upload";
    Problem::new(Code::Conflict, detail)
        .with_remedy("see how far it is, and go on there")
        .into()
}

/// Lists uploads that are not completed.
#[utoipa::path(
    tag = "uploads",
    params(UploadListQuery),
    responses((status = 200, description = "A page of uploads", body = UploadPage))
)]
#[get("/v1/uploads")]
pub(super) async fn list(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
) -> HandlerResult {
    let asked: UploadListQuery = query::read_query(&request)?;
    let limit = query::check_limit(asked.limit, 100, 1000)?;
    let mut uploads = Vec::new();
    let mut next = None;
    for upload in edge.uploads.all_by_id() {
        let record = upload.record();
        let is_after = asked.after.as_ref().is_none_or(|after| record.id > *after);
        if !record.is_open() || !is_after || !caller.can_reach(&record.owner) {
            continue;
        }
        if uploads.len() == limit {
            next = uploads
                .last()
                .and_then(|last: &UploadReport| last.id.clone());
            break;
        }
        // An upload that is being forgotten right now is over.
        uploads.extend(upload_report(&edge, &upload));
    }
    Ok(HttpResponse::Ok().json(UploadPage { uploads, next }))
}

/// Shows how much of an upload is kept.
#[utoipa::path(
    tag = "uploads",
    params(("id" = String, Path, description = "Its id")),
    responses((status = 200, description = "The upload", body = UploadReport))
)]
#[get("/v1/uploads/{id}")]
pub(super) async fn show(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    Ok(HttpResponse::Ok().json(upload_report(&edge, &*find_upload(&edge, &caller, &id)?)?))
}

/// Appends the next piece, which is durable once this is answered.
///
/// A piece that is not the next one is refused with 409.
#[utoipa::path(
    tag = "uploads",
    params(PieceQuery, ("id" = String, Path, description = "Its id")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "It is kept", body = UploadReport))
)]
#[patch("/v1/uploads/{id}")]
pub(super) async fn append(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
    payload: Payload,
) -> HandlerResult {
    let asked: PieceQuery = query::read_query(&request)?;
    let upload = find_upload(&edge, &caller, &id)?;
    let bytes = body::read_body(&request, payload, &edge.settings).await?;
    // No request waits with a piece in memory: many of them would fill it.
    let turn = upload
        .turn
        .clone()
        .try_lock_owned()
        .map_err(|_| upload_busy())?;
    let kept = upload.clone();
    upload_delivery::run_blocking(&edge, move |uploads| {
        // Even if the client has gone meanwhile, the next request comes after this one.
        let _turn = turn;
        uploads.append_piece(&kept, asked.offset, &bytes)
    })
    .await?;
    Ok(HttpResponse::Ok().json(upload_report(&edge, &upload)?))
}

/// Completes an upload: its content is checked, brought to a site, and registered under its name.
///
/// The answer comes once the file is there; if that takes longer than some seconds it is 202, and
/// the request is to be repeated.
#[utoipa::path(
    tag = "uploads",
    params(("id" = String, Path, description = "Its id")),
    responses(
        (status = 200, description = "The file is registered", body = FileReport),
        (status = 202, description = "It is under way: ask again", body = UploadReport),
    )
)]
#[post("/v1/uploads/{id}/complete")]
pub(super) async fn complete(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    let upload = find_upload(&edge, &caller, &id)?;
    match upload_delivery::deliver_upload(&edge, &upload).await? {
        DeliveryProgress::Done(file) => Ok(HttpResponse::Ok().json(file)),
        DeliveryProgress::UnderWay => {
            Ok(HttpResponse::Accepted().json(upload_report(&edge, &upload)?))
        }
    }
}

/// Abandons an upload. A file that it has become stays.
#[utoipa::path(
    tag = "uploads",
    params(("id" = String, Path, description = "Its id")),
    responses((status = 200, description = "What had arrived is dropped", body = DoneReport))
)]
#[delete("/v1/uploads/{id}")]
pub(super) async fn abandon(
    edge: Data<HttpState>,
    caller: RequestCaller,
    id: Path<String>,
) -> HandlerResult {
    let upload = find_upload(&edge, &caller, &id)?;
    let turn = upload
        .turn
        .clone()
        .try_lock_owned()
        .map_err(|_| upload_busy())?;
    let record = upload.record();
    if record.placed.is_some() {
        let remedy = format!("forget the file: cospan file remove {}", record.name);
        let detail = "the upload is complete";
        return Err(Problem::new(Code::Conflict, detail)
            .with_remedy(remedy)
            .into());
    }
    upload_delivery::run_blocking(&edge, move |uploads| {
        let _turn = turn;
        if record.touched.is_empty() {
            uploads.forget_upload(&upload)
        } else {
            // The tidying removes what may lie at a site first.
            uploads.record_change(&upload, |record| record.given_up = true)
        }
    })
    .await?;
    Ok(HttpResponse::Ok().json(DoneReport { done: true }))
}
