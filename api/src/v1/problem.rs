//! Problem documents (RFC 9457) with a stable code.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The reason why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The kind of problem: `urn:cospan:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Stable code of the kind: `C` and four digits.
    #[schema(example = "C1001")]
    pub code: String,
    /// The problem in words.
    pub detail: String,
    /// Position in the array of the request, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Path of the field that is wrong: `component[0].processors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The known key that is nearest to an unknown one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// The role that is needed and that the key lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "operator")]
    pub role: Option<String>,
    /// The methods that the address accepts; also in the header `Allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// A remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// When to try again, in seconds; also in the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $title:literal,
        $remedy:literal;)*) => {
        /// The kinds of problems. A code is never given another meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// `C` and four digits.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// The kind in words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// A remedy, unless a problem gives a more exact one.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$name => $remedy,)* }
            }
        }
    };
}

codes! {
    /// The body is not the JSON that was expected.
    BadBody = "C1001", 400, "the body cannot be read",
        "correct the body at the named place";
    /// A parameter of the URL is wrong.
    BadParameter = "C1002", 400, "a parameter is not valid",
        "correct the named parameter; `/v1/openapi.json` lists all";
    /// A header is wrong.
    BadHeader = "C1003", 400, "a header is not valid",
        "correct the named header";
    /// The request is not valid HTTP.
    BadRequest = "C1004", 400, "the request cannot be read",
        "send a complete, valid HTTP request";
    /// The request did not arrive in time.
    RequestTimeout = "C1005", 408, "the request did not arrive in time",
        "send the whole request at once; `server.head_timeout` and `server.body_timeout` bound the \
         time";
    /// The job can be read but makes no sense.
    InvalidJob = "C1101", 422, "the job is not valid",
        "correct the job; a dry run checks it without submitting it";
    /// More components than allowed.
    TooManyComponents = "C1102", 422, "the job has too many components",
        "split the job, or ask for a higher `limits.max_components`";
    /// No known site can ever hold the job.
    Unplaceable = "C1103", 422, "no known site can ever hold the job",
        "ask for less, or for another site (`cospan site list` shows what each has); \
         submit with `--allow-unplaceable` (over HTTP `?allow_unplaceable=true`) to wait for a site \
         that can hold it";
    /// A site that the job names accepts no jobs now.
    ClosedSite = "C1109", 422, "a site that the job names takes no jobs now",
        "see `cospan site list`; submit without `--refuse-closed` to wait for the site, or name \
         another";
    /// An input names a file that is not registered.
    UnknownFile = "C1104", 422, "an input is not a registered file",
        "register the file with `cospan file add`, or correct its name (`cospan file list`)";
    /// More jobs in one request than allowed.
    TooManyJobs = "C1105", 422, "the request has too many jobs",
        "send several requests, each with fewer jobs";
    /// The array is empty.
    NoJobs = "C1106", 422, "the request has no job",
        "send at least one job";
    /// The selection of jobs is empty or ambiguous.
    BadSelection = "C1107", 422, "the selection of jobs is not valid",
        "name the jobs, or select them by site, state, owner or group";
    /// More jobs than a dry run has time for.
    DryRunTooLong = "C1110", 422, "the dry run would take too long",
        "check fewer jobs at once, or ask for a higher `server.dry_run_budget`";
    /// The jobs would take more memory than a key may ever have.
    NeverRoom = "C1111", 422, "the jobs of the request need more memory than allowed",
        "send fewer, smaller jobs";
    /// A plan of faults cannot be carried out.
    BadPlan = "C1108", 422, "the plan of faults is not valid",
        "correct the plan; `cospan chaos inject PLAN --dry-run` checks it";
    /// A window of time ends before it begins, has passed, or has no length.
    BadWindow = "C1112", 422, "the window is not valid",
        "give an end that lies after the start and in the future";
    /// The uploaded content is not what was announced.
    BadUpload = "C1113", 422, "the upload differs from what was announced",
        "upload the file again; it may have changed meanwhile";
    /// The file is longer than any may be.
    NeverRoomForFile = "C1114", 422, "the file is too large to upload",
        "copy it to a site yourself and register it there, or ask for a higher `limits.max_upload`";
    /// A request about a shared reservation contradicts itself.
    BadSharing = "C1115", 422, "the request for the shared reservation is not valid",
        "correct the named field; `cospan reservation --help` lists the options";
    /// No key, or an unknown one.
    NoKey = "C2001", 401, "a valid key is needed",
        "send the header `Authorization: Bearer TOKEN`; `cospan key add NAME` makes a key";
    /// The key may not do this.
    Forbidden = "C2002", 403, "the key may not do this",
        "use a key with the needed role, or have an administrator grant it (`cospan key grant`)";
    /// Too many attempts without a valid key.
    TooManyFailures = "C2003", 429, "too many requests without a valid key",
        "correct the token, and try again later (`Retry-After` says when)";
    /// The server's configuration does not allow injected faults.
    ChaosOff = "C2004", 403, "this server does not allow fault injection",
        "set `allowed = true` in `[chaos]` of the server's configuration, and restart the server";
    /// There is no such thing.
    NotFound = "C3001", 404, "not found",
        "look for it with `cospan list`, `cospan site list` or `cospan file list`";
    /// There is no such address.
    NoRoute = "C3002", 404, "there is no such address",
        "`/v1/openapi.json` lists all addresses";
    /// The address exists, but not for this method.
    NoMethod = "C3003", 405, "this address does not accept the method",
        "`/v1/openapi.json` lists the methods of each address";
    /// The idempotency key was used for another request.
    IdempotencyMismatch = "C4001", 409, "the idempotency key was used for another request",
        "use a new idempotency key for a new request";
    /// The request does not fit the present state.
    Conflict = "C4002", 409, "the present state does not allow this",
        "look at the present state (`cospan show`), and ask for what it allows";
    /// The body is longer than allowed.
    BodyTooLarge = "C5001", 413, "the body is too large",
        "send fewer jobs at once";
    /// The server is too busy.
    Busy = "C5002", 429, "the server is too busy",
        "send the same request again later (`Retry-After` says when)";
    /// More requests with one key than allowed.
    TooManyRequests = "C5003", 429, "too many requests with this key",
        "send fewer requests a second, each with more jobs";
    /// Too many streams are open.
    TooManyStreams = "C5004", 429, "too many streams are open",
        "close streams that you do not need, or poll instead";
    /// A dry run of the key is under way, or too many of others.
    TooManyDryRuns = "C5005", 429, "too many dry runs are under way",
        "wait for the answer to the previous one, and check several jobs in one request";
    /// The jobs that are kept leave no room for more.
    NoRoom = "C5006", 429, "there is no room for more jobs",
        "wait until jobs have ended, or cancel some";
    /// The files that are kept leave no room for more.
    NoRoomForFile = "C5007", 507, "there is no room for the file",
        "remove uploaded files that you do not need (`cospan file remove`)";
    /// The server stops.
    Stopping = "C6001", 503, "the server is stopping",
        "try again when it is back; it keeps the jobs that it accepted";
    /// The server has not finished starting.
    NotReady = "C6002", 503, "the server is not ready",
        "try again later (`Retry-After` says when); the server's log says what it does";
    /// The jobs in the store need more memory than there is.
    ReadOnly = "C6003", 503, "the server is read-only",
        "raise `server.memory` and restart the server, or import the output of `cospan store \
         export` on a machine with more memory";
    /// The site did not carry it out.
    Site = "C7001", 502, "the site did not carry it out",
        "look at the site (`cospan site list`), and try again when it answers";
    /// An error of the server.
    Internal = "C9001", 500, "internal error of the server",
        "see the server's log";
}

impl Problem {
    /// Creates a problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:cospan:problem:{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            code: code.as_str().into(),
            detail: detail.into(),
            index: None,
            key: None,
            nearest: None,
            role: None,
            methods: None,
            remedy: Some(code.remedy().into()),
            retry_after_s: None,
        }
    }

    /// Adds a remedy, in place of the general one.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds the role that is needed.
    #[must_use]
    pub fn with_role(mut self, role: &str) -> Self {
        self.role = Some(role.to_owned());
        self
    }

    /// Adds the methods that the address accepts.
    #[must_use]
    pub fn with_methods(mut self, methods: impl IntoIterator<Item = &'static str>) -> Self {
        self.methods = Some(methods.into_iter().map(str::to_owned).collect());
        self
    }

    /// Adds the position in the array of the request.
    #[must_use]
    pub fn with_index(mut self, index: usize) -> Self {
        self.index = Some(index as u64);
        self
    }

    /// Adds the path of the field.
    #[must_use]
    pub fn with_key_path(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    /// Adds the time after which to try again, in seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "job {index}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.detail)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        write!(f, " [{}]", self.code)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_kinds_share_a_code() {
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        assert!(
            codes
                .iter()
                .all(|code| code.len() == 5 && code.starts_with('C'))
        );
    }
}
