//! The calls of the interface.

use std::io::Read;

use ureq::Body;
use ureq::http::Response;

use super::query::{QueryBuilder, encode_part, encode_path};
use super::{Client, ClientError};
use cospan_api::v1::JobDocument;
use cospan_api::v1::accounting::AccountPage;
use cospan_api::v1::commands::{DoneReport, JobSelection, OrderReport, RerunOrder};
use cospan_api::v1::event::HistoryReport;
use cospan_api::v1::file::{FilePage, FileRegistration, FileReport};
use cospan_api::v1::job::{CheckedReport, JobPage, JobReport, PhaseReport, SubmittedReport};
use cospan_api::v1::quantity::Length;
use cospan_api::v1::site::{
    ForceOrder, SiteList, SiteOrderBody, SiteReport, WindowEnd, WindowReport,
};
use cospan_api::v1::store::StoreReport;
use cospan_api::v1::tree::TreeReport;

fn log_path(log: &LogRequest<'_>) -> QueryBuilder {
    let component = encode_part(log.component);
    QueryBuilder::from_path(&format!(
        "/v1/jobs/{}/logs/{component}/{}",
        log.job, log.stream
    ))
    .with_parameter("offset", log.offset)
    .with_optional_parameter("attempt", log.attempt)
}

fn header_number(response: &Response<Body>, name: &str) -> Option<u64> {
    response.headers().get(name)?.to_str().ok()?.parse().ok()
}

/// Options of a submission.
#[derive(Debug, Clone, Default)]
pub struct SubmitOptions {
    /// The client's name for the submission.
    pub idempotency_key: Option<String>,
    /// Accept jobs that no known site can ever hold.
    pub allow_unplaceable: bool,
    /// Refuse jobs that name a site which accepts no jobs now.
    pub refuse_closed: bool,
}

/// The filter of a list of jobs, and its length.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only jobs in this state.
    pub state: Option<String>,
    /// Only jobs with a component at this site.
    pub site: Option<String>,
    /// Only jobs of this key.
    pub owner: Option<String>,
    /// Only jobs with this text in their names.
    pub name: Option<String>,
    /// Only runs of this sweep.
    pub group: Option<u64>,
    /// Only jobs after this one in the list.
    pub after: Option<u64>,
    /// Most jobs in the list.
    pub limit: u32,
}

impl JobFilter {
    pub(super) fn add_to_query(&self, query: QueryBuilder) -> QueryBuilder {
        query
            .with_optional_parameter("state", self.state.as_ref())
            .with_optional_parameter("site", self.site.as_ref())
            .with_optional_parameter("owner", self.owner.as_ref())
            .with_optional_parameter("name", self.name.as_ref())
            .with_optional_parameter("group", self.group)
            .with_optional_parameter("after", self.after)
            .with_parameter("limit", self.limit)
    }
}

/// A command about jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after what they do")]
pub enum JobAction {
    Cancel,
    Freeze,
    Thaw,
    Release,
    Priority,
}

impl JobAction {
    fn command_path(self) -> &'static str {
        match self {
            JobAction::Cancel => "/v1/jobs:cancel",
            JobAction::Freeze => "/v1/jobs:freeze",
            JobAction::Thaw => "/v1/jobs:thaw",
            JobAction::Release => "/v1/jobs:release",
            JobAction::Priority => "/v1/jobs:priority",
        }
    }
}

/// A command about a site.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after what they do")]
pub enum SiteAction {
    Drain,
    Undrain,
    Freeze,
    Thaw,
    Reset,
    Maintenance(WindowReport),
    EndMaintenance(WindowEnd),
    Force(ForceOrder),
    Unforce,
}

impl SiteAction {
    fn action_name(&self) -> &'static str {
        match self {
            SiteAction::Drain => "drain",
            SiteAction::Undrain => "undrain",
            SiteAction::Freeze => "freeze",
            SiteAction::Thaw => "thaw",
            SiteAction::Reset => "reset",
            SiteAction::Maintenance(_) => "maintenance",
            SiteAction::EndMaintenance(_) => "end-maintenance",
            SiteAction::Force(_) => "force",
            SiteAction::Unforce => "unforce",
        }
    }

    fn command_body(&self) -> Option<SiteOrderBody> {
        match self {
            SiteAction::Maintenance(window) => Some(SiteOrderBody::Maintenance(window.clone())),
            SiteAction::EndMaintenance(end) => Some(SiteOrderBody::EndMaintenance(*end)),
            SiteAction::Force(force) => Some(SiteOrderBody::Force(*force)),
            SiteAction::Drain
            | SiteAction::Undrain
            | SiteAction::Freeze
            | SiteAction::Thaw
            | SiteAction::Reset
            | SiteAction::Unforce => None,
        }
    }
}

/// A request for the output of a component: the stream, and the offset.
#[derive(Debug, Clone)]
pub struct LogRequest<'r> {
    /// The job.
    pub job: u64,
    /// The component's name.
    pub component: &'r str,
    /// `stdout` or `stderr`.
    pub stream: &'r str,
    /// The attempt; the latest if not given.
    pub attempt: Option<u32>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Most bytes.
    pub limit: u32,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// The bytes of the piece.
    pub bytes: Vec<u8>,
    /// Size of the whole file now.
    pub size: u64,
}

/// A file that is being downloaded.
pub struct FileDownload {
    /// The bytes, to be read to their end.
    pub bytes: Box<dyn Read + Send>,
    /// Number of bytes, if it is known.
    pub size: Option<u64>,
}

impl Client {
    /// Submits jobs, all or none.
    ///
    /// # Errors
    ///
    /// The submission was refused; or its outcome is unknown: repeat it with the same idempotency
    /// key.
    pub fn submit(
        &self,
        jobs: &[JobDocument],
        options: &SubmitOptions,
    ) -> Result<SubmittedReport, ClientError> {
        self.send_submission(jobs, options, false)
    }

    /// Checks jobs as if they were submitted.
    ///
    /// # Errors
    ///
    /// The jobs would be refused, or the server is not reachable.
    pub fn check_jobs(
        &self,
        jobs: &[JobDocument],
        options: &SubmitOptions,
    ) -> Result<CheckedReport, ClientError> {
        self.send_submission(jobs, options, true)
    }

    fn send_submission<T: serde::de::DeserializeOwned>(
        &self,
        jobs: &[JobDocument],
        options: &SubmitOptions,
        dry_run: bool,
    ) -> Result<T, ClientError> {
        let path = QueryBuilder::from_path("/v1/jobs")
            .with_optional_parameter(
                "allow_unplaceable",
                options.allow_unplaceable.then_some(true),
            )
            .with_optional_parameter("refuse_closed", options.refuse_closed.then_some(true))
            .with_optional_parameter("dry_run", dry_run.then_some(true));
        let mut request = self
            .build_request("POST", &path.0)
            .header("content-type", "application/json");
        if let Some(key) = &options.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let body = serde_json::to_vec(jobs)
            .map_err(|error| self.unexpected_answer_error(error.to_string()))?;
        let response = self.send_request(request, &body)?;
        self.read_json(response)
    }

    /// Lists a page of jobs, newest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_jobs(&self, filter: &JobFilter) -> Result<JobPage, ClientError> {
        self.get(
            &filter
                .add_to_query(QueryBuilder::from_path("/v1/jobs").with_parameter("newest", true))
                .0,
        )
    }

    /// Lists a page of the costs of jobs, by number, archived jobs included.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_accounts(&self, filter: &JobFilter) -> Result<AccountPage, ClientError> {
        self.get(
            &filter
                .add_to_query(QueryBuilder::from_path("/v1/accounts"))
                .0,
        )
    }

    /// Returns one job in full.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn job(&self, id: u64) -> Result<JobReport, ClientError> {
        self.get(&format!("/v1/jobs/{id}"))
    }

    /// Returns the phase of a job, and ignores everything else in the answer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn phase(&self, id: u64) -> Result<PhaseReport, ClientError> {
        #[derive(serde::Deserialize)]
        struct PhaseOnly {
            phase: PhaseReport,
        }
        self.get::<PhaseOnly>(&format!("/v1/jobs/{id}"))
            .map(|job| job.phase)
    }

    /// Returns the history of a job.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn history(&self, id: u64) -> Result<HistoryReport, ClientError> {
        self.get(&format!("/v1/jobs/{id}/events"))
    }

    /// Submits jobs again that have ended. The same request under the same name is answered with
    /// the same jobs.
    ///
    /// # Errors
    ///
    /// As [`Client::submit`].
    pub fn rerun_jobs(
        &self,
        order: &RerunOrder,
        idempotency_key: &str,
    ) -> Result<SubmittedReport, ClientError> {
        let request = self
            .build_request("POST", "/v1/jobs:rerun")
            .header("content-type", "application/json")
            .header("idempotency-key", idempotency_key);
        let body = serde_json::to_vec(order)
            .map_err(|error| self.unexpected_answer_error(error.to_string()))?;
        let response = self.send_request(request, &body)?;
        self.read_json(response)
    }

    /// Sends a command about jobs.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn send_job_command(
        &self,
        order: JobAction,
        jobs: &JobSelection,
    ) -> Result<OrderReport, ClientError> {
        self.post(order.command_path(), jobs)
    }

    /// Reads a piece of the output of a component.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn read_log(&self, log: &LogRequest<'_>) -> Result<FilePiece, ClientError> {
        let path = log_path(log).with_parameter("limit", log.limit);
        let mut response = self.send_request(self.build_request("GET", &path.0), &[])?;
        let size = header_number(&response, "cospan-size").unwrap_or(0);
        let body = response.body_mut().with_config().limit(super::MAX_ANSWER);
        let bytes = body
            .read_to_vec()
            .map_err(|error| self.unreachable_error(&error))?;
        Ok(FilePiece { bytes, size })
    }

    /// Reads the output of a component as it is printed, until its attempt has ended.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn follow_log(&self, log: &LogRequest<'_>) -> Result<FileDownload, ClientError> {
        self.begin_download(&log_path(log).with_parameter("follow", true).0)
    }

    /// Downloads an output of a component.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn download_output(
        &self,
        job: u64,
        component: &str,
        path: &str,
    ) -> Result<FileDownload, ClientError> {
        let component = encode_part(component);
        let path = encode_path(path);
        self.begin_download(&format!("/v1/jobs/{job}/outputs/{component}/{path}"))
    }

    /// Lists everything below a directory that a component left.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_tree(
        &self,
        job: u64,
        component: &str,
        path: &str,
    ) -> Result<TreeReport, ClientError> {
        let component = encode_part(component);
        let path = encode_path(path);
        self.get(&format!("/v1/jobs/{job}/trees/{component}/{path}"))
    }

    /// Downloads a file that need not fit into memory, and may come slowly.
    fn begin_download(&self, path: &str) -> Result<FileDownload, ClientError> {
        let request = self.build_request("GET", path);
        let request = request
            .body(())
            .map_err(|error| self.unexpected_answer_error(error.to_string()))?;
        let request = self
            .agent
            .configure_request(request)
            .timeout_per_read(None)
            .build();
        let response = self
            .run_request(request)
            .map_err(|error| self.unreachable_error(&error))?;
        if !response.status().is_success() {
            return Err(self.read_refusal(response));
        }
        let size = response.body().content_length();
        let bytes = response
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        Ok(FileDownload {
            bytes: Box::new(bytes),
            size,
        })
    }

    /// Lists all sites.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_sites(&self) -> Result<SiteList, ClientError> {
        self.get("/v1/sites")
    }

    /// Returns one site.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn site(&self, name: &str) -> Result<SiteReport, ClientError> {
        self.get(&format!("/v1/sites/{}", encode_part(name)))
    }

    /// Returns one site, with its free processors for this length of time; the site is asked.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn site_and_timeline(&self, name: &str, ahead: Length) -> Result<SiteReport, ClientError> {
        let path = QueryBuilder::from_path(&format!("/v1/sites/{}", encode_part(name)))
            .with_parameter("timeline", ahead);
        self.get(&path.0)
    }

    /// Returns one site, with the attempts there that the server still needs.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn site_and_needs(&self, name: &str) -> Result<SiteReport, ClientError> {
        let path = QueryBuilder::from_path(&format!("/v1/sites/{}", encode_part(name)))
            .with_parameter("needs", true);
        self.get(&path.0)
    }

    /// Sends a command about a site.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn send_site_command(&self, name: &str, action: &SiteAction) -> Result<(), ClientError> {
        let path = format!("/v1/sites/{}/{}", encode_part(name), action.action_name());
        match action.command_body() {
            Some(body) => self.post::<_, DoneReport>(&path, &body).map(drop),
            None => self
                .send_request(self.build_request("POST", &path), &[])
                .map(drop),
        }
    }

    /// Lists a page of files, by name.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn list_files(&self, after: Option<&str>) -> Result<FilePage, ClientError> {
        self.get(
            &QueryBuilder::from_path("/v1/files")
                .with_optional_parameter("after", after)
                .0,
        )
    }

    /// Returns one file.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn file(&self, name: &str) -> Result<FileReport, ClientError> {
        self.get(&format!("/v1/files/{}", encode_path(name)))
    }

    /// Registers a file. The answer comes once the content was read at its site.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn add_file(&self, file: &FileRegistration) -> Result<FileReport, ClientError> {
        self.post("/v1/files", file)
    }

    /// Removes a file from the catalogue, or one of its replicas.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn remove_file(
        &self,
        name: &str,
        site: Option<&str>,
        force: bool,
    ) -> Result<(), ClientError> {
        let path = QueryBuilder::from_path(&format!("/v1/files/{}", encode_path(name)))
            .with_optional_parameter("site", site)
            .with_optional_parameter("force", force.then_some(true));
        self.send_request(self.build_request("DELETE", &path.0), &[])?;
        Ok(())
    }

    /// Describes the store.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn describe_store(&self) -> Result<StoreReport, ClientError> {
        self.get("/v1/store")
    }

    /// Downloads the whole store as it is now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn export_store(&self) -> Result<FileDownload, ClientError> {
        self.begin_download("/v1/store/export")
    }

    /// Returns the server's clock in seconds since 1970, if the server sends it; needs no key.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn server_clock(&self) -> Result<Option<u64>, ClientError> {
        let response = self.send_request(self.build_request("GET", "/livez"), &[])?;
        let date = response
            .headers()
            .get("date")
            .and_then(|date| date.to_str().ok());
        Ok(date
            .and_then(|date| httpdate::parse_http_date(date).ok())
            .and_then(|date| {
                date.duration_since(std::time::UNIX_EPOCH)
                    .ok()
                    .map(|since| since.as_secs())
            }))
    }

    /// Returns a page of plain text: `/metrics`, `/readyz`. `/metrics`, `/readyz`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let mut response = self.send_request(self.build_request("GET", path), &[])?;
        response
            .body_mut()
            .read_to_string()
            .map_err(|error| self.unreachable_error(&error))
    }
}
