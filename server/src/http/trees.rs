//! The contents of directories that components left. Their files are read one by one.

use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};
use cospan_actors::api::ApiRefusal;
use cospan_domain::ids::RelPath;
use cospan_domain::job::job_state::Job;
use cospan_sites::files::tree_pieces::{DirectoryListing, ListingEntry, ListingEntryKind};
use serde::Deserialize;

use super::control_plane_port::DirectoryListRequest;
use super::failure::{HandlerResult, HttpFailure};
use super::jobs;
use super::logs_and_outputs::{attempt_of, component_of, file_not_left};
use super::middleware::RequestCaller;
use super::query;
use super::state::HttpState;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::text_patterns::{ComponentText, PathText};
use cospan_api::v1::tree::{ENTRIES_MAX, TreeEntry, TreeReport};

/// The attempt whose directory to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct TreeQuery {
    /// Of this attempt; the latest by default.
    attempt: Option<u32>,
}

/// Lists the contents of a directory that a component left.
///
/// Its files are read as outputs, by the directory's path followed by their own.
#[utoipa::path(
    tag = "jobs",
    params(
        TreeQuery,
        ("id" = u64, Path, description = "The job's number"),
        ("component" = inline(ComponentText), Path, description = "The component's name"),
        ("path" = inline(PathText), Path, description = "The directory's path, which may have slashes"),
    ),
    responses((status = 200, body = TreeReport, description = "What is below it"))
)]
#[get("/v1/jobs/{id}/trees/{component}/{path:.+}")]
pub(super) async fn tree(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    path: Path<(String, String, String)>,
) -> HandlerResult {
    let (id, component, directory) = path.into_inner();
    let asked: TreeQuery = query::read_query(&request)?;
    let path: RelPath = query::parse_part("path", &directory)?;
    let job = jobs::find_job(&edge, &caller, query::parse_job_id(&id)?).await?;
    let component = component_of(&job, &component)?;
    let attempt = attempt_of(&job, component, asked.attempt, false)?;
    let order = DirectoryListRequest {
        job: job.clone(),
        component,
        attempt,
        path: path.clone(),
    };
    // Sites need long for large directories: no more are listed at a time than streams may be open.
    let _permit = edge.open_stream(&caller)?;
    let listing = match edge.backend.list_directory(&order).await {
        Ok(Some(listing)) => listing,
        Ok(None) => {
            let detail = format!("output {path} of job {} is no directory", job.id);
            let remedy = "read it as an output";
            return Err(Problem::new(Code::NotFound, detail)
                .with_remedy(remedy)
                .into());
        }
        Err(refusal) => return Err(file_not_left(&job, (component, attempt), &path, refusal)),
    };
    let report = report_listing(&listing).map_err(|problem| {
        let detail = format!("directory {path} of job {}: {problem}", job.id);
        let remedy = "let the payload pack its content into one file, and make that the output";
        HttpFailure::from(Problem::new(Code::Conflict, detail).with_remedy(remedy))
    })?;
    Ok(HttpResponse::Ok().json(report))
}

/// The refusal if there is no file to read where an attempt should have left one.
pub(super) async fn refusal_without_file(
    edge: &HttpState,
    job: &Job,
    order: &DirectoryListRequest,
    refusal: ApiRefusal,
) -> HttpFailure {
    let component = order.component;
    let attempt = order.attempt;
    let path = &order.path;
    if !matches!(edge.backend.list_directory(order).await, Ok(Some(_))) {
        return file_not_left(job, (component, attempt), path, refusal);
    }
    let name = job.component_name(component).unwrap_or_default();
    let detail = format!(
        "output {path} of component {name} of job {} is a directory",
        job.id
    );
    let remedy = format!(
        "`cospan output {}` fetches it; GET /v1/jobs/{}/trees/{name}/{path} lists its files",
        job.id, job.id
    );
    Problem::new(Code::NotFound, detail)
        .with_remedy(remedy)
        .into()
}

/// Converts the listing of a site.
///
/// # Errors
///
/// There are too many entries, or one has a name under which it cannot be asked for.
fn report_listing(listing: &DirectoryListing) -> Result<TreeReport, String> {
    if listing.leaves().len() > ENTRIES_MAX {
        let many = listing.leaves().len();
        return Err(format!(
            "it has {many} entries, and at most {ENTRIES_MAX} are listed"
        ));
    }
    Ok(TreeReport {
        entries: listing
            .leaves()
            .iter()
            .map(convert_entry)
            .collect::<Result<_, _>>()?,
    })
}

fn convert_entry(leaf: &ListingEntry) -> Result<TreeEntry, String> {
    let path = decode_text(&leaf.path)?;
    RelPath::new(&path).map_err(|error| error.to_string())?;
    Ok(match &leaf.kind {
        ListingEntryKind::Directory => TreeEntry::Directory { path },
        ListingEntryKind::File { executable, size } => TreeEntry::File {
            path,
            size_bytes: *size,
            executable: *executable,
        },
        ListingEntryKind::Link(target) => TreeEntry::Link {
            path,
            target: decode_text(target)?,
        },
    })
}

fn decode_text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| format!("{:?} in it is no UTF-8", String::from_utf8_lossy(bytes)))
}
