//! Every error becomes a problem document.

use std::fmt;

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use cospan_actors::api::ApiRefusal;

use cospan_api::v1::parse::ParseError;
use cospan_api::v1::problem::{Code, MEDIA_TYPE, Problem};

/// A problem on its way to the client.
#[derive(Debug)]
pub(super) struct HttpFailure(pub(super) Box<Problem>);

/// The result of a handler.
pub(super) type HandlerResult = Result<HttpResponse, HttpFailure>;

impl HttpFailure {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    pub(super) fn no_such_job(id: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("there is no job {id}"))
    }

    /// Logs the detail of an internal error, which the client does not see.
    pub(super) fn internal(what: &str, error: impl fmt::Display) -> Self {
        tracing::error!(%error, "cannot {what}");
        Self::new(Code::Internal, format!("cannot {what}"))
    }
}

impl From<Problem> for HttpFailure {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for HttpFailure {}

impl ResponseError for HttpFailure {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)));
        if let Some(seconds) = self.0.retry_after_s {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        if let Some(methods) = &self.0.methods {
            response.insert_header((header::ALLOW, methods.join(", ")));
        }
        if self.0.status == 401 {
            let challenge = HeaderValue::from_static("Bearer realm=\"cospan\"");
            response.insert_header((header::WWW_AUTHENTICATE, challenge));
        }
        // A problem document has texts and numbers only, which can always be written.
        response.body(serde_json::to_vec(&self.0).unwrap_or_default())
    }
}

impl From<ApiRefusal> for HttpFailure {
    fn from(refusal: ApiRefusal) -> Self {
        let detail = refusal.to_string();
        let problem = match refusal {
            ApiRefusal::Invalid { index, problem } => {
                Problem::new(Code::InvalidJob, problem).with_index(index)
            }
            ApiRefusal::Unplaceable { index, problem } => {
                Problem::new(Code::Unplaceable, problem).with_index(index)
            }
            ApiRefusal::ClosedSite { index, .. } => {
                Problem::new(Code::ClosedSite, detail).with_index(index)
            }
            ApiRefusal::UnknownFile { index, name } => {
                let remedy =
                    format!("register it with `cospan file add {name} --site SITE --path PATH`");
                let detail = format!("no file is registered as {name}");
                Problem::new(Code::UnknownFile, detail)
                    .with_remedy(remedy)
                    .with_index(index)
            }
            ApiRefusal::FileChanged {
                index,
                name,
                site,
                path,
            } => {
                let remedy = format!(
                    "`cospan file add {name} --site {site} --path {path} --replace` registers what \
                     is there now"
                );
                let detail =
                    format!("file {name} is not what was registered: it changed at {site}");
                Problem::new(Code::Conflict, detail)
                    .with_remedy(remedy)
                    .with_index(index)
            }
            ApiRefusal::AboveHighest { index, above } => {
                let problem =
                    Problem::new(Code::Forbidden, above.to_string()).with_key_path("priority");
                problem.with_remedy(above.remedy()).with_index(index)
            }
            ApiRefusal::IdempotencyMismatch { .. } => {
                Problem::new(Code::IdempotencyMismatch, detail)
            }
            ApiRefusal::NotFound(_) => Problem::new(Code::NotFound, detail),
            ApiRefusal::Conflict(_) => Problem::new(Code::Conflict, detail),
            ApiRefusal::Busy { retry_after_s } => {
                Problem::new(Code::Busy, detail).with_retry_after(retry_after_s)
            }
            ApiRefusal::NoRoom {
                problem,
                remedy,
                retry_after_s,
            } => Problem::new(Code::NoRoom, problem)
                .with_remedy(remedy)
                .with_retry_after(retry_after_s),
            ApiRefusal::NeverRoom { problem, remedy } => {
                Problem::new(Code::NeverRoom, problem).with_remedy(remedy)
            }
            ApiRefusal::ReadOnly(why) => Problem::new(Code::ReadOnly, why),
            ApiRefusal::Stopping => Problem::new(Code::Stopping, detail).with_retry_after(5),
            ApiRefusal::Site(_) => Problem::new(Code::Site, detail),
            // The site answered: there is no such file to read.
            ApiRefusal::SiteRefused { problem, remedy } => {
                Problem::new(Code::NotFound, problem).with_remedy(remedy)
            }
        };
        problem.into()
    }
}

impl HttpFailure {
    /// A body of an unexpected form.
    pub(super) fn unreadable_body(error: ParseError, in_array: bool) -> Self {
        let (index, key) = match in_array.then(|| split_index(&error.key)).flatten() {
            Some((index, key)) => (Some(index), key.to_owned()),
            None => (None, error.key.clone()),
        };
        let place = match (error.line, error.column) {
            (Some(line), Some(column)) => format!(" (line {line}, column {column} of the body)"),
            _ => String::new(),
        };
        let mut problem =
            Problem::new(Code::BadBody, format!("{}{place}", error.problem)).with_key_path(key);
        problem.index = index;
        if let Some(nearest) = &error.nearest {
            problem = problem.with_remedy(format!("did you mean `{nearest}`?"));
        }
        problem.nearest = error.nearest;
        problem.into()
    }
}

/// Splits `[3].component[0]` into 3 and `component[0]`.
fn split_index(path: &str) -> Option<(u64, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest.trim_start_matches('.')))
}
