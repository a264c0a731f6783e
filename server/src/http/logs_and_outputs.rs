//! The logs and files of components.

use std::fmt;
use std::time::Duration;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};
use cospan_actors::api::ApiRefusal;
use cospan_domain::ids::{Attempt, ComponentIndex, RelPath};
use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Job};
use futures_util::{Stream, stream};
use serde::Deserialize;

use super::control_plane_port::{AttemptFile, DirectoryListRequest, FileReadRequest, ReadPiece};
use super::failure::{HandlerResult, HttpFailure};
use super::jobs;
use super::middleware::RequestCaller;
use super::query;
use super::state::{HttpState, StreamPermit};
use super::trees;
use cospan_api::v1::parse;
use cospan_api::v1::problem::{Code, Problem};
use cospan_api::v1::text_patterns::{ComponentText, PathText};

/// Bytes requested at once from a site.
const PIECE: u32 = 256 * 1024;
/// Most bytes of a piece that a client requests.
const MAX_PIECE: usize = 4 * 1024 * 1024;
/// Shortest and longest pause between two reads of a followed log: short while it grows, long while
/// it does not.
const REST_MIN: Duration = Duration::from_millis(200);
const REST_MAX: Duration = Duration::from_secs(3);

/// The part of a log to read.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct LogQuery {
    /// Begin at this byte.
    #[serde(deserialize_with = "query::offset")]
    offset: u64,
    /// Most bytes: 256 KiB by default, at most 4 MiB.
    #[param(minimum = 1, maximum = 4194304)]
    limit: Option<u64>,
    /// Of this attempt; the latest by default.
    attempt: Option<u32>,
    /// Continue to send what is printed until the attempt has ended.
    follow: bool,
}

/// The part of an output to read.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct OutputQuery {
    /// Begin at this byte.
    #[serde(deserialize_with = "query::offset")]
    offset: u64,
    /// Most bytes; all by default.
    #[serde(deserialize_with = "query::whole")]
    limit: Option<u64>,
    /// Of this attempt; the latest by default.
    attempt: Option<u32>,
}

/// A stream that a component prints.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[allow(dead_code, reason = "only described by it")]
pub(super) enum StreamName {
    Stdout,
    Stderr,
}

/// Reads a log of a component.
///
/// The headers `Cospan-Attempt`, `Cospan-Offset` and `Cospan-Size` give the attempt, the position
/// of the piece, and the present size of the whole.
#[utoipa::path(
    tag = "jobs",
    params(
        LogQuery,
        ("id" = u64, Path, description = "The job's number"),
        ("component" = inline(ComponentText), Path, description = "The component's name"),
        ("stream" = StreamName, Path, description = "`stdout` or `stderr`"),
    ),
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "The text"),
    )
)]
#[get("/v1/jobs/{id}/logs/{component}/{stream}")]
pub(super) async fn logs(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    path: Path<(String, String, String)>,
) -> HandlerResult {
    let (id, component, stream) = path.into_inner();
    let asked: LogQuery = query::read_query(&request)?;
    let file = match stream.as_str() {
        "stdout" => AttemptFile::Stdout,
        "stderr" => AttemptFile::Stderr,
        _ => {
            return Err(HttpFailure::new(
                Code::NotFound,
                "a log is `stdout` or `stderr`",
            ));
        }
    };
    let limit = query::check_limit(asked.limit, PIECE as usize, MAX_PIECE)? as u32;
    let job = jobs::find_job(&edge, &caller, query::parse_job_id(&id)?).await?;
    let component = component_of(&job, &component)?;
    let attempt = attempt_of(&job, component, asked.attempt, asked.follow)?;
    let offset = asked.offset;
    let order = FileReadRequest {
        job: job.clone(),
        component,
        attempt,
        file,
        offset,
        limit: PIECE,
    };
    if asked.follow {
        return follow_log(edge, caller, order);
    }
    let order = FileReadRequest { limit, ..order };
    let piece = edge.backend.read_file_piece(&order).await;
    let piece =
        piece.map_err(|refusal| file_not_left(&job, (component, attempt), &stream, refusal))?;
    let mut response = HttpResponse::Ok();
    set_piece_headers(&mut response, &order, Some(&piece));
    Ok(response
        .content_type("text/plain; charset=utf-8")
        .body(piece.bytes))
}

fn set_piece_headers(
    response: &mut actix_web::HttpResponseBuilder,
    order: &FileReadRequest,
    piece: Option<&ReadPiece>,
) {
    let header = HeaderName::from_static;
    response.insert_header((header("cospan-attempt"), order.attempt.0));
    response.insert_header((header("cospan-offset"), order.offset));
    if let Some(piece) = piece {
        response.insert_header((header("cospan-size"), piece.size));
    }
    // The output of a program must never be taken for a page of ours.
    response.insert_header((
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ));
}

pub(super) fn component_of(job: &Job, name: &str) -> Result<ComponentIndex, HttpFailure> {
    let indexes = (0..job.component_count() as u32).map(ComponentIndex);
    let known: Vec<String> = indexes
        .filter_map(|index| job.component_name(index))
        .collect();
    match known.iter().position(|known| known == name) {
        Some(index) => Ok(ComponentIndex(index as u32)),
        None => {
            let shown: String = name.chars().take(80).collect();
            let detail = format!("job {} has no component {shown:?}", job.id);
            let problem = Problem::new(Code::NotFound, detail);
            Err(match parse::nearest_word(name, &known) {
                Some(nearest) => problem
                    .with_remedy(format!("did you mean {nearest:?}?"))
                    .into(),
                None => problem.into(),
            })
        }
    }
}

fn latest_attempt(job: &Job, component: ComponentIndex) -> Attempt {
    job.components
        .get(component.0 as usize)
        .map_or(Attempt(0), |component| component.attempt)
}

pub(super) fn attempt_of(
    job: &Job,
    component: ComponentIndex,
    asked: Option<u32>,
    may_wait: bool,
) -> Result<Attempt, HttpFailure> {
    let latest = latest_attempt(job, component);
    match asked.map(Attempt) {
        None if latest == Attempt(0) && (!may_wait || job.is_final()) => {
            Err(nothing_to_read(job, component, "has not started"))
        }
        None => Ok(latest),
        Some(attempt) if attempt == Attempt(0) || attempt > latest => Err(HttpFailure::new(
            Code::NotFound,
            format!("there is no attempt {attempt}; the latest is {latest}"),
        )),
        Some(attempt) => Ok(attempt),
    }
}

/// The refusal if a component has nothing to read; it says where to look for the reason.
fn nothing_to_read(job: &Job, component: ComponentIndex, what: &str) -> HttpFailure {
    let name = job.component_name(component).unwrap_or_default();
    let detail = format!("component {name} of job {} {what}", job.id);
    let look = if job.is_final() { "show" } else { "explain" };
    let remedy = format!("`cospan {look} {}` tells why", job.id);
    Problem::new(Code::NotFound, detail)
        .with_remedy(remedy)
        .into()
}

/// The refusal if the site has no such file. Its place in the site's own directories helps nobody;
/// whether the attempt ever began does.
pub(super) fn file_not_left(
    job: &Job,
    (component, attempt): (ComponentIndex, Attempt),
    file: &impl fmt::Display,
    refusal: ApiRefusal,
) -> HttpFailure {
    let ApiRefusal::NotFound(problem) = &refusal else {
        return refusal.into();
    };
    let state = job.components.get(component.0 as usize);
    let run = state
        .filter(|state| state.attempt == attempt)
        .map(|state| &state.run);
    let what = match run {
        Some(AttemptState::Ended {
            how: AttemptEnding::NeverRan(why),
            ..
        }) => format!("never started: {why}"),
        Some(AttemptState::Ended {
            how: AttemptEnding::Failed(why) | AttemptEnding::Lost(why),
            ..
        }) => {
            format!("left no {file}: {why}")
        }
        Some(AttemptState::Running { .. } | AttemptState::Ended { .. }) | None => {
            match unreadable_reason(problem) {
                Some(why) => {
                    format!("left a {file} in attempt {attempt} that cannot be read: {why}")
                }
                None => format!("left no {file} in attempt {attempt}"),
            }
        }
        Some(
            AttemptState::Idle
            | AttemptState::Intended { .. }
            | AttemptState::Uncertain { .. }
            | AttemptState::Submitted { .. }
            | AttemptState::AtGate { .. }
            | AttemptState::Opened { .. },
        ) => "has not started".to_owned(),
    };
    nothing_to_read(job, component, &what)
}

/// The site's reason why an existing file cannot be read; `None` if it does not exist.
fn unreadable_reason(problem: &str) -> Option<&str> {
    let is_absent = [
        "No such file or directory",
        "does not exist",
        "there is no such file",
        "nowhere yet",
    ]
    .iter()
    .any(|word| problem.contains(word));
    (!is_absent).then(|| problem.rsplit_once(": ").map_or(problem, |(_, why)| why))
}

/// A log that is being followed.
struct LogFollower {
    edge: Data<HttpState>,
    caller: RequestCaller,
    order: FileReadRequest,
    rest: Duration,
    _open: StreamPermit,
}

fn follow_log(
    edge: Data<HttpState>,
    caller: RequestCaller,
    order: FileReadRequest,
) -> HandlerResult {
    let permit = edge.open_stream(&caller)?;
    let mut response = HttpResponse::Ok();
    set_piece_headers(&mut response, &order, None);
    let followed = LogFollower {
        edge,
        caller,
        order,
        rest: REST_MIN,
        _open: permit,
    };
    Ok(response
        .content_type("text/plain; charset=utf-8")
        .streaming(follow_pieces(followed)))
}

fn follow_pieces(followed: LogFollower) -> impl Stream<Item = Result<Bytes, HttpFailure>> {
    stream::unfold(Some(followed), |followed| async move {
        let mut followed = followed?;
        match followed.next_bytes().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(followed))),
            Ok(None) => None,
            Err(failure) => Some((Err(failure), None)),
        }
    })
}

impl LogFollower {
    /// Reads the next bytes; `None` once the attempt has ended and all is sent.
    async fn next_bytes(&mut self) -> Result<Option<Bytes>, HttpFailure> {
        let mut stopping = self.edge.watch_stop();
        loop {
            // Asked before reading: everything printed until the end is read after it.
            let may_grow = self.can_grow().await?;
            let piece = self.read_piece(may_grow).await?;
            if !piece.bytes.is_empty() {
                self.order.offset += piece.bytes.len() as u64;
                self.rest = REST_MIN;
                return Ok(Some(piece.bytes));
            }
            if !may_grow {
                return Ok(None);
            }
            let rest = actix_web::rt::time::timeout(self.rest, stopping.wait_for(|stop| *stop));
            if rest.await.is_ok() {
                return Ok(None);
            }
            self.rest = (self.rest * 3 / 2).min(REST_MAX);
        }
    }

    /// Returns true if the attempt may still print; waits for the first attempt.
    async fn can_grow(&mut self) -> Result<bool, HttpFailure> {
        // An ended job does not change, and may have to be read from the store.
        if !self.order.job.is_final() {
            self.order.job = jobs::find_job(&self.edge, &self.caller, self.order.job.id).await?;
        }
        let job = &self.order.job;
        if self.order.attempt == Attempt(0) {
            self.order.attempt = latest_attempt(job, self.order.component);
        }
        let component = job.components.get(self.order.component.0 as usize);
        let ended = component.is_some_and(|component| {
            component.attempt > self.order.attempt
                || (component.attempt == self.order.attempt && !component.run.may_live())
        });
        let waits = self.order.attempt == Attempt(0);
        Ok(!job.is_final() && (waits || !ended))
    }

    async fn read_piece(&self, may_grow: bool) -> Result<ReadPiece, HttpFailure> {
        if self.order.attempt == Attempt(0) {
            return Ok(ReadPiece::default());
        }
        match self.edge.backend.read_file_piece(&self.order).await {
            // Not begun yet, or never: nothing was printed.
            Err(ApiRefusal::NotFound(_)) => Ok(ReadPiece::default()),
            // The site may come back as long as there is something to wait for.
            Err(ApiRefusal::Site(_) | ApiRefusal::Busy { .. }) if may_grow => {
                Ok(ReadPiece::default())
            }
            read => Ok(read?),
        }
    }
}

/// Reads an output of a component.
#[utoipa::path(
    tag = "jobs",
    params(
        OutputQuery,
        ("id" = u64, Path, description = "The job's number"),
        ("component" = inline(ComponentText), Path, description = "The component's name"),
        ("path" = inline(PathText), Path, description = "The output's path, which may have slashes"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream", description = "The bytes"),
    )
)]
#[get("/v1/jobs/{id}/outputs/{component}/{path:.+}")]
pub(super) async fn output(
    request: HttpRequest,
    edge: Data<HttpState>,
    caller: RequestCaller,
    path: Path<(String, String, String)>,
) -> HandlerResult {
    let (id, component, file) = path.into_inner();
    let asked: OutputQuery = query::read_query(&request)?;
    let path: RelPath = query::parse_part("path", &file)?;
    let job = jobs::find_job(&edge, &caller, query::parse_job_id(&id)?).await?;
    let component = component_of(&job, &component)?;
    let attempt = attempt_of(&job, component, asked.attempt, false)?;
    let mut rest = asked.limit.unwrap_or(u64::MAX);
    let order = FileReadRequest {
        job: job.clone(),
        component,
        attempt,
        file: AttemptFile::Output(path.clone()),
        offset: asked.offset,
        limit: next_limit(rest),
    };
    let permit = edge.open_stream(&caller)?;
    // The first piece decides the status; later ones can only break the connection off.
    let first = edge.backend.read_file_piece(&order).await;
    let first = match first {
        Err(refusal @ ApiRefusal::NotFound(_)) => {
            let of = DirectoryListRequest {
                job: job.clone(),
                component,
                attempt,
                path: path.clone(),
            };
            return Err(trees::refusal_without_file(&edge, &job, &of, refusal).await);
        }
        first => first?,
    };
    rest = rest.min(first.size.saturating_sub(order.offset));
    let mut response = HttpResponse::Ok();
    set_piece_headers(&mut response, &order, Some(&first));
    response.content_type("application/octet-stream");
    let size = first.size;
    let state = OutputStreamState {
        edge,
        order,
        first: Some(first),
        rest,
        size,
        _open: permit,
    };
    // With a known length, so that a client sees whether it has all.
    let body = actix_web::body::SizedStream::new(rest, Box::pin(output_pieces(state)));
    Ok(response.body(body))
}

fn next_limit(rest: u64) -> u32 {
    u32::try_from(rest.min(PIECE.into())).unwrap_or(PIECE)
}

struct OutputStreamState {
    edge: Data<HttpState>,
    order: FileReadRequest,
    first: Option<ReadPiece>,
    /// Bytes still to send.
    rest: u64,
    /// Size that the head announced.
    size: u64,
    _open: StreamPermit,
}

fn output_pieces(state: OutputStreamState) -> impl Stream<Item = Result<Bytes, HttpFailure>> {
    stream::unfold(Some(state), |state| async move {
        let mut state = state.filter(|state| state.rest > 0)?;
        let read = match state.first.take() {
            Some(first) => Ok(first),
            None => state
                .edge
                .backend
                .read_file_piece(&state.order)
                .await
                .map_err(HttpFailure::from),
        };
        match read {
            Ok(piece) if piece.bytes.is_empty() || piece.size != state.size => {
                let problem = "it changed while it was read";
                Some((
                    Err(HttpFailure::internal("send an output whole", problem)),
                    None,
                ))
            }
            Ok(mut piece) => {
                piece
                    .bytes
                    .truncate(usize::try_from(state.rest).unwrap_or(usize::MAX));
                state.rest -= piece.bytes.len() as u64;
                state.order.offset += piece.bytes.len() as u64;
                state.order.limit = next_limit(state.rest);
                Some((Ok(piece.bytes), Some(state)))
            }
            Err(failure) => Some((Err(failure), None)),
        }
    })
}
