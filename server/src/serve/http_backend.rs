//! The control plane as the HTTP edge sees it.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Bytes;
use async_trait::async_trait;
use cospan_actors::api::{
    ApiAnswer, ApiCommand, ApiRefusal, CommittedView, ControlPlane, FreeProcessorsAnswer,
    JobSubmission, SiteOverview, StartComputation,
};
use cospan_actors::journal::JournalChange;
use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::{
    Attempt, AttemptTag, ComponentIndex, Digest, JobId, KeyName, LogicalName, SiteName,
};
use cospan_domain::job::job_state::Job;
use cospan_domain::reservation::{EqualParts, StartWindow};
use cospan_domain::transfer::copy_state::CopyPhase;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units;
use cospan_sites::files::tree_pieces::DirectoryListing;
use cospan_sites::port::{PayloadStream, ReadableFile, SiteError, UploadStep};
use futures_util::StreamExt;
use tokio::sync::broadcast::error::RecvError;

use super::division_text;
use super::explanation;
use super::freshness;
use super::output_reading;
use super::read_stderr_tail;
use super::records;
use super::site_report;
use crate::chaos::Rehearsals;
use crate::http::control_plane_port::{
    AttemptFile, ControlPlanePort, DirectoryListRequest, ExplanationFacts, ExplanationPage,
    FileReadRequest, JobChange, JobChangeStream, JobHistory, PieceStream, ReadPiece,
    SubscriptionItem,
};
use crate::http::shared_reservation_report;
use cospan_api::v1::explain::ExplainReport;
use cospan_api::v1::file::{FilePage, FileReport, ReplicaReport};
use cospan_api::v1::ranking::RankingReport;
use cospan_api::v1::site::{LinkReport, NeedsReport, SiteList, SiteReport};
use cospan_api::v1::store::StoreReport;

/// The longest that a dry run waits for reports of sites. A site over SSH answers within a second.
const REPORTS_AWAITED: Duration = Duration::from_secs(3);

/// A control plane behind the HTTP edge.
pub(super) struct ServedControlPlane {
    plane: ControlPlane,
    engine: &'static str,
    rehearsals: Rehearsals,
}

impl ServedControlPlane {
    /// `engine`: the name of the store's engine.
    pub(super) fn new(plane: ControlPlane, engine: &'static str, rehearsals: Rehearsals) -> Self {
        Self {
            plane,
            engine,
            rehearsals,
        }
    }

    fn find_live_job(&self, id: JobId) -> Option<Arc<Job>> {
        self.plane.view().jobs.get(&id).cloned()
    }

    /// The site of an attempt of a job, and its tag there.
    fn attempt_at(
        &self,
        job: &Job,
        component: ComponentIndex,
        attempt: Attempt,
    ) -> Result<(SiteName, AttemptTag), ApiRefusal> {
        let state = job.components.get(component.0 as usize);
        let placed = state.and_then(|state| state.placement.as_ref());
        let site = placed
            .map(|placement| placement.site.clone())
            .ok_or_else(|| {
                let id = job.id;
                ApiRefusal::NotFound(format!(
                    "component {component} of job {id} has run nowhere yet"
                ))
            })?;
        Ok((site, job.tag_of(self.plane.instance(), component, attempt)))
    }
}

/// Translates a site's answer that it has nothing to read, or its silence.
fn read_refusal(site: &SiteName, error: SiteError) -> ApiRefusal {
    match error {
        SiteError::Refused(problem) => ApiRefusal::NotFound(format!("at {site}: {problem}")),
        error => ApiRefusal::Site(format!("{site}: {error}")),
    }
}

#[async_trait]
impl ControlPlanePort for ServedControlPlane {
    async fn run_command(&self, command: ApiCommand) -> Result<ApiAnswer, ApiRefusal> {
        freshness::run_checked_command(&self.plane, command).await
    }

    fn preview(
        &self,
        by: &KeyName,
        submission: JobSubmission,
        rows: usize,
    ) -> Result<ExplainReport, ApiRefusal> {
        let spec = submission.spec.clone();
        let explanation = self.plane.preview_job(by, submission.clone())?;
        let limit = if rows > 0 {
            ExplanationPage::FIRST.limit
        } else {
            0
        };
        let page = ExplanationPage {
            rows,
            limit,
            ..ExplanationPage::FIRST
        };
        let mut report =
            explanation::preview_report(&explanation, &spec, self.plane.max_hold(), page);
        // It is computed apart from the threads that serve requests.
        if division_text::is_divided(&spec)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(division) = runtime.block_on(self.plane.preview_division(by, submission))?
        {
            report.summary = division_text::describe_division(&spec, &division);
        }
        Ok(report)
    }

    fn check_submission(&self, by: &KeyName, submission: JobSubmission) -> Result<(), ApiRefusal> {
        self.plane.check_acceptance(by, submission)
    }

    async fn rankings(&self, by: &KeyName, submission: JobSubmission) -> Vec<RankingReport> {
        let spec = submission.spec.clone();
        let lead = self.plane.reservation_lead();
        let rankings = self.plane.rank_reservation_sites(by, submission).await;
        let names = spec.component_names(spec.components.len()).into_iter();
        let named = names.zip(&rankings);
        named
            .map(|(name, ranking)| RankingReport::for_component(name, ranking, lead, None))
            .collect()
    }

    fn submission_warning(&self, id: JobId) -> Option<String> {
        let job = self.find_live_job(id)?;
        let missing = self.plane.missing_link(&job)?;
        let names = job.spec.component_names(job.spec.components.len());
        Some(format!(
            "it is queued, and can never start: {}",
            explanation::describe_missing_link(&missing, &names)
        ))
    }

    fn view(&self) -> Arc<CommittedView> {
        self.plane.view()
    }

    fn list_files(
        &self,
        after: Option<&LogicalName>,
        site: Option<&SiteName>,
        shows: &dyn Fn(&KeyName) -> bool,
        limit: usize,
    ) -> FilePage {
        let view = self.plane.view();
        let found = view.files.iter().filter(|(name, file)| {
            if after.is_some_and(|after| *name <= after) {
                return false;
            }
            let entry = file.entry.as_ref();
            entry.is_some_and(|entry| {
                shows(&entry.registered_by)
                    && site.is_none_or(|site| entry.replicas.iter().any(|(at, _)| at == site))
            })
        });
        let mut files: Vec<FileReport> = found
            .take(limit + 1)
            .filter_map(|(_, file)| file_report(&view, file))
            .collect();
        let more = files.len() > limit;
        files.truncate(limit);
        let next = files.last().filter(|_| more).map(|last| last.name.clone());
        FilePage { files, next }
    }

    fn find_file(&self, name: &LogicalName) -> Option<FileReport> {
        let view = self.plane.view();
        file_report(&view, view.files.get(name)?)
    }

    fn file_owner(&self, name: &LogicalName) -> Option<KeyName> {
        let view = self.plane.view();
        Some(view.files.get(name)?.entry.as_ref()?.registered_by.clone())
    }

    fn refresh_site_reports(&self) {
        self.plane.refresh_site_reports();
    }

    async fn await_current_reports(&self) {
        self.plane.await_current_reports(REPORTS_AWAITED).await;
    }

    fn list_sites(&self) -> SiteList {
        let now = self.plane.now();
        let sites = self
            .plane
            .list_sites()
            .iter()
            .map(|site: &SiteOverview| {
                let report = SiteReport {
                    injected_faults: self.rehearsals.faults_at(site.name.as_str()),
                    ..site_report::site_report(site, now)
                };
                site_report::with_configured_values(report, &self.plane.shared().settings)
            })
            .collect();
        SiteList {
            sites,
            isolated: self.plane.is_isolated(),
        }
    }

    fn links_to(&self, site: &SiteName) -> Vec<LinkReport> {
        self.plane
            .links_to(site)
            .iter()
            .map(site_report::link_report)
            .collect()
    }

    fn list_needed_attempts(&self) -> NeedsReport {
        let view = self.plane.view();
        let open = view.jobs.values().filter(|job| !job.is_final());
        NeedsReport {
            instance: self.plane.instance().to_string(),
            jobs: open.map(|job| job.id.0).collect(),
        }
    }

    async fn possible_starts(
        &self,
        site: Option<&SiteName>,
        parts: &EqualParts,
        window: StartWindow,
    ) -> StartComputation {
        self.plane
            .possible_starts_within(site.map(std::slice::from_ref), parts, window)
            .await
    }

    async fn free_slots(&self, site: &SiteName, within: units::DurationMs) -> FreeProcessorsAnswer {
        self.plane.ask_free_processors(site, within).await
    }

    fn store_report(&self) -> StoreReport {
        let view = self.plane.view();
        StoreReport {
            engine: self.engine.into(),
            instance: self.plane.instance().to_string(),
            epoch: self.plane.epoch().0,
            seq: view.seq.0,
            size_bytes: self.plane.store_size().disk_bytes,
            jobs: view.jobs.len() as u64,
        }
    }

    async fn find_job(&self, id: JobId) -> Result<Option<Arc<Job>>, ApiRefusal> {
        match self.find_live_job(id) {
            Some(job) => Ok(Some(job)),
            None => {
                let store = self.plane.store_journal().clone();
                records::read_on_thread(move || records::find_archived(&*store, id)).await
            }
        }
    }

    async fn history(&self, id: JobId) -> Result<Option<JobHistory>, ApiRefusal> {
        let store = self.plane.store_journal().clone();
        let is_live = self.find_live_job(id).is_some();
        records::read_on_thread(move || records::read_history(&*store, id, is_live)).await
    }

    async fn collect_job_facts(
        &self,
        id: JobId,
        page: ExplanationPage,
    ) -> Result<Option<ExplanationFacts>, ApiRefusal> {
        let Some(job) = self.find_live_job(id) else {
            return Ok(None);
        };
        // Each page says whether the job backs off.
        let standing = self.plane.queue_standing(id).await;
        let last_words = match page.after {
            0 => read_stderr_tail::read_last_words(&self.plane, &job).await,
            _ => Vec::new(),
        };
        Ok(Some(ExplanationFacts {
            job,
            standing,
            last_words,
        }))
    }

    fn explain(
        &self,
        facts: ExplanationFacts,
        page: ExplanationPage,
    ) -> Result<ExplainReport, ApiRefusal> {
        let ExplanationFacts {
            job,
            standing,
            last_words,
        } = facts;
        // A client that reads on knows already when the job may start.
        let explanation = match page.after {
            0 => self.plane.explain_job(&job),
            _ => self.plane.explain_without_estimate(&job),
        };
        let view = self.plane.view();
        let known = explanation::ExplainContext {
            standing: standing.as_ref(),
            hold: self.plane.max_hold(),
        };
        let report = explanation::job_report(
            &job,
            &explanation,
            known,
            page,
            |digest: Digest, site: &SiteName| {
                let record = view.copies.get(&(digest, site.clone()));
                let progress = self.plane.copy_progress(digest, site);
                explanation::CopyProgress {
                    here: record.is_some_and(|copy| matches!(copy.phase, CopyPhase::Ready { .. })),
                    done: progress.map(|progress| progress.done).unwrap_or_default(),
                    expected: progress.map(|progress| progress.expected),
                    problem: record.and_then(|copy| copy.trouble.last_error.clone()),
                }
            },
        );
        let turn =
            shared_reservation_report::describe_reservation_turn(&job, &view, self.plane.now());
        let mut summary = turn.unwrap_or_else(|| report.summary.clone());
        if let Some(readings) = output_reading::describe_readings(&self.plane, &job) {
            summary = format!("{summary}; {readings}");
        }
        Ok(ExplainReport {
            last_words,
            summary,
            ..report
        })
    }

    async fn read_file_piece(&self, what: &FileReadRequest) -> Result<ReadPiece, ApiRefusal> {
        let (site, tag) = self.attempt_at(&what.job, what.component, what.attempt)?;
        let file = match &what.file {
            AttemptFile::Stdout => ReadableFile::Log(tag, PayloadStream::Stdout),
            AttemptFile::Stderr => ReadableFile::Log(tag, PayloadStream::Stderr),
            AttemptFile::Output(path) => ReadableFile::File(FilePlace::Output(tag, path.clone())),
        };
        let offset = units::Bytes(what.offset);
        let piece = self
            .plane
            .read_site_file(&what.job.owner, &site, file, offset, what.limit)
            .await;
        let piece = piece.map_err(|error| read_refusal(&site, error))?;
        Ok(ReadPiece {
            bytes: Bytes::from(piece.bytes),
            size: piece.size.0,
        })
    }

    async fn list_directory(
        &self,
        what: &DirectoryListRequest,
    ) -> Result<Option<DirectoryListing>, ApiRefusal> {
        let (site, tag) = self.attempt_at(&what.job, what.component, what.attempt)?;
        let listed = self
            .plane
            .list_site_directory(
                &what.job.owner,
                &site,
                FilePlace::Output(tag, what.path.clone()),
            )
            .await;
        listed.map_err(|error| read_refusal(&site, error))
    }

    async fn take_upload_step(
        &self,
        by: &KeyName,
        site: &SiteName,
        step: UploadStep,
    ) -> Result<(), ApiRefusal> {
        let done = self.plane.take_upload_step(by, site, step).await;
        done.map_err(|error| ApiRefusal::Site(format!("{site}: {error}")))
    }

    async fn export_store(&self) -> Result<PieceStream, ApiRefusal> {
        let store = self.plane.store_journal().clone();
        let plane = &self.plane;
        Ok(records::export_pieces(
            store,
            plane.instance(),
            plane.epoch(),
        ))
    }

    fn subscribe(&self) -> JobChangeStream {
        let receiver = self.plane.subscribe_to_changes();
        let changes = futures_util::stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(committed) => {
                    let followed: Vec<SubscriptionItem> =
                        changes_of(&committed.change, committed.seq)
                            .map(SubscriptionItem::Change)
                            .collect();
                    Some((followed, receiver))
                }
                Err(RecvError::Lagged(_)) => Some((vec![SubscriptionItem::Lost], receiver)),
                Err(RecvError::Closed) => None,
            }
        });
        Box::pin(changes.flat_map(futures_util::stream::iter))
    }

    fn rehearsals(&self) -> &Rehearsals {
        &self.rehearsals
    }

    fn readiness(&self) -> Result<(), String> {
        if self.plane.is_ready() {
            Ok(())
        } else {
            Err("the control plane is starting or stopping".into())
        }
    }
}

fn changes_of(
    change: &JournalChange,
    seq: cospan_domain::ids::Seq,
) -> Box<dyn Iterator<Item = JobChange> + Send + '_> {
    match change {
        JournalChange::NewJobs(jobs) => Box::new(jobs.iter().map(move |job| JobChange {
            seq,
            job: job.id,
            owner: job.owner.clone(),
            submitted: true,
            events: Vec::new(),
        })),
        JournalChange::Job { new, events, .. } => Box::new(std::iter::once(JobChange {
            seq,
            job: new.id,
            owner: new.owner.clone(),
            submitted: false,
            events: events.clone(),
        })),
        JournalChange::JobArchived { .. }
        | JournalChange::Site { .. }
        | JournalChange::Copy { .. }
        | JournalChange::File { .. }
        | JournalChange::IdsReserved { .. }
        | JournalChange::Swept(_)
        | JournalChange::Barrier => Box::new(std::iter::empty()),
    }
}

fn file_report(view: &CommittedView, file: &FileRecord) -> Option<FileReport> {
    let entry = file.entry.as_ref()?;
    let kept =
        cospan_actors::transfer::unlisted_copy_sites(view, entry).map(|site| ReplicaReport {
            site: site.to_string(),
            path: None,
            kept: true,
        });
    let replicas = entry.replicas.iter().map(|(site, place)| ReplicaReport {
        site: site.to_string(),
        path: match place {
            FilePlace::User(path) => Some(path.to_string()),
            FilePlace::Store(_) | FilePlace::Output(..) => None,
        },
        kept: false,
    });
    Some(FileReport {
        name: file.name.to_string(),
        owner: entry.registered_by.to_string(),
        digest: entry.content.digest.to_string(),
        size_bytes: entry.content.size.0,
        replicas: replicas.chain(kept).collect(),
    })
}
