//! The control plane as its edge holds it; any thread may use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_domain::catalogue::file_state::FileStamp;
use cospan_domain::ids::{
    Digest, Epoch, InstanceId, JobId, KeyName, LogicalName, SiteName, TargetName,
};
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::{InputPortion, InputSpec, JobSpec};
use cospan_domain::placement::{
    GridSnapshot, MissingLink, PlacementRequest, UnplaceableError, check_placeable,
    find_closed_site, find_missing_link,
};
use cospan_domain::queue::{
    AssignedClass, ClassLimitError, JobClassProperties, QueueStanding, decide_class,
};
use cospan_domain::site::availability::{SiteState, site_state};
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_sites::files::tree_pieces::DirectoryListing;
use cospan_sites::port::{
    FileExcerpt, InspectionProgress, ReadableFile, SiteCallKind, SiteError, UploadStep,
};
use cospan_storage::port::{StoreError, StoreSize, StoredValue};
use tokio::sync::{broadcast, oneshot};

use super::submitted_options::check_options;
use crate::catalogue::{InformationActor, NoteFileStamp};
use crate::coallocator::{
    AskQueueStanding, CoAllocator, JobExplanation, explain_in_full, explain_unsubmitted,
    explain_without_estimate,
};
use crate::commands::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest, JobSubmission};
use crate::commits::{CommitStream, CommittedChange};
use crate::committed::CommittedView;
use crate::context::SharedState;
use crate::grid_snapshot::GridSnapshotMaker;
use crate::intake::{Intake, IntakeCommand, ReturnUnusedIds};
use crate::link_measurements::LinkFigures;
use crate::live_state::{CopyProgressForecast, LatestSiteReport};
use crate::site::{ClusterActor, InspectionState, SiteCallMessage};
use crate::spec_cache::{self, CheckedSpec};
use crate::supervision::ActorKind;

#[derive(Clone)]
pub struct ControlPlane {
    shared: Arc<SharedState>,
    store: Arc<dyn cospan_storage::port::Journal>,
    stream: CommitStream,
    shapes: Arc<Mutex<EmptyGridCache>>,
}

/// The sites as they would be when empty, to refuse what can never be placed.
struct EmptyGridCache {
    made_at: Timestamp,
    maker: GridSnapshotMaker,
    grid: Option<Arc<GridSnapshot>>,
    /// The request that was last found to fit them: users submit the same job many times in a row.
    fitting: Option<Arc<PlacementRequest>>,
}

/// A site as operators see it.
#[derive(Debug, Clone)]
pub struct SiteOverview {
    /// The site's name.
    pub name: SiteName,
    /// The site's state now.
    pub state: SiteState,
    /// The site's durable record.
    pub record: Arc<SiteRecord>,
    /// The site's last report.
    pub report: Arc<LatestSiteReport>,
    /// The number of components placed there, running or about to.
    pub held: u32,
}

impl ControlPlane {
    /// A refusal may rest on shapes this old: those of sites seldom change.
    const SHAPES_EXPIRY_MS: u64 = 1_000;
    /// The pause between two looks whether awaited reports have come.
    const REPORT_LOOK: Duration = Duration::from_millis(20);

    pub(crate) fn new(
        shared: Arc<SharedState>,
        store: Arc<dyn cospan_storage::port::Journal>,
        stream: CommitStream,
    ) -> Self {
        let maker = GridSnapshotMaker::default();
        let shapes = EmptyGridCache {
            made_at: Timestamp(0),
            maker,
            grid: None,
            fitting: None,
        };
        let shapes = Arc::new(Mutex::new(shapes));
        Self {
            shared,
            store,
            stream,
            shapes,
        }
    }

    /// The committed state.
    pub fn view(&self) -> Arc<CommittedView> {
        self.shared.view.load()
    }

    /// The time by the control plane's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The number of this control plane among others at the same sites.
    pub fn instance(&self) -> InstanceId {
        self.shared.instance
    }

    /// This run's epoch over the store.
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// The state that every actor can reach; for tests and the simulator.
    pub fn shared(&self) -> &Arc<SharedState> {
        &self.shared
    }

    /// Carries out a command. Answers once everything that follows from it is durable.
    ///
    /// # Errors
    ///
    /// Nothing was done; the error says why.
    pub async fn execute_command(&self, command: ApiCommand) -> Result<ApiAnswer, ApiRefusal> {
        self.execute_command_refusing(command, Vec::new()).await
    }

    /// Carries out a command of which the edge itself refuses some jobs, given by their index: jobs
    /// that were accepted before under the same key are returned nevertheless.
    ///
    /// # Errors
    ///
    /// As for [`ControlPlane::execute_command`].
    pub async fn execute_command_refusing(
        &self,
        mut command: ApiCommand,
        mut refused: Vec<(usize, ApiRefusal)>,
    ) -> Result<ApiAnswer, ApiRefusal> {
        if let ApiRequest::Submit(submissions) = &mut command.what {
            for (index, submission) in submissions.iter_mut().enumerate() {
                let known = refused.iter().position(|(of, _)| *of == index);
                let known = known.filter(|_| submission.idempotency.is_none());
                if let Some(known) = known {
                    return Err(refused.swap_remove(known).1);
                }
                match self.prepare_submission(index, &command.by, submission) {
                    Ok(_) => {}
                    // The state of that time may have let it pass: perhaps it was accepted under
                    // its key.
                    Err(refusal) if submission.idempotency.is_some() => {
                        refused.push((index, refusal));
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        let busy = ApiRefusal::Busy { retry_after_s: 1 };
        let (answer, answered) = oneshot::channel();
        let command = IntakeCommand {
            command,
            refused,
            answer,
        };
        self.shared
            .actors
            .send_bounded::<Intake, _>(&(), command)
            .map_err(|_| busy.clone())?;
        answered.await.unwrap_or(Err(busy))
    }

    /// Checks a submission on the caller's thread, so that the intake need not, and gives it the
    /// priority that the rules have for it. Returns that priority and the request to the sites.
    pub(super) fn prepare_submission(
        &self,
        index: usize,
        by: &KeyName,
        submission: &mut JobSubmission,
    ) -> Result<(AssignedClass, Arc<PlacementRequest>), ApiRefusal> {
        let invalid = |problem: String| ApiRefusal::Invalid { index, problem };
        if self.shared.recent.find_checked(&submission.spec).is_none() {
            self.validate_spec(&submission.spec).map_err(invalid)?;
        }
        let classified = self.classify_submission(by, submission);
        let classified = classified.map_err(|above| ApiRefusal::AboveHighest { index, above })?;
        self.bind_submission_inputs(submission)
            .map_err(|name| ApiRefusal::UnknownFile { index, name })?;
        if let Some(name) = self.chunked_directory_input(submission) {
            let problem = format!("{name} is a directory; only a file can be read in chunks");
            return Err(invalid(problem));
        }
        let checked = match self.shared.recent.find_checked(&submission.spec) {
            Some(checked) => checked,
            None => self
                .derive_request(submission.spec.clone())
                .map_err(invalid)?,
        };
        submission.spec = checked.spec;
        let defaults = &self.shared.settings.default_policies;
        let request = spec_cache::request_for_owner(checked.request, by, defaults);
        if !submission.allow_unplaceable {
            let spec = &submission.spec;
            self.can_ever_be_placed(&request)
                .map_err(|error| ApiRefusal::Unplaceable {
                    index,
                    problem: error.describe_with(|component| {
                        spec.component_name(component, spec.components.len())
                    }),
                })?;
        }
        self.check_shared_reservation(by, &submission.spec)
            .map_err(invalid)?;
        self.check_quota(by, &submission.spec).map_err(invalid)?;
        let closed = submission
            .refuse_closed
            .then(|| find_closed_site(&request, &self.empty_grid()));
        if let Some((component, site, why)) = closed.flatten() {
            let spec = &submission.spec;
            let component = spec
                .component_name(component, spec.components.len())
                .unwrap_or_default();
            let why = why.to_string();
            return Err(ApiRefusal::ClosedSite {
                index,
                component,
                site,
                why,
            });
        }
        Ok((classified, request))
    }

    /// Checks a specification by the rules that depend neither on who submits it nor on the present
    /// state.
    fn validate_spec(&self, spec: &JobSpec) -> Result<(), String> {
        spec.validate(&self.shared.settings.limits)
            .map_err(|error| error.to_string())?;
        check_options(spec, &self.shared.sites)?;
        let targets = &self.shared.settings.targets;
        let Some(name) = spec
            .run
            .notify
            .iter()
            .find(|name| !targets.contains_key(*name))
        else {
            return Ok(());
        };
        let known: Vec<&str> = targets.keys().map(TargetName::as_str).collect();
        let known = if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        };
        Err(format!(
            "notify names {name}, which is no target that the operator configured; there are: {known} (notify.targets)"
        ))
    }

    /// Works out the request of a valid specification whose inputs are bound.
    fn derive_request(&self, spec: Arc<JobSpec>) -> Result<CheckedSpec, String> {
        let policies = &self.shared.settings.default_policies;
        let request = PlacementRequest::of_unplaced_spec(&spec, policies);
        cospan_domain::placement::policy_for(request.policy(), request.request_type())
            .map_err(|error| error.to_string())?;
        Ok(self.shared.recent.remember_checked(spec, request))
    }

    fn classify_submission(
        &self,
        by: &KeyName,
        submission: &mut JobSubmission,
    ) -> Result<AssignedClass, ClassLimitError> {
        let spec = &submission.spec;
        let job = JobClassProperties::for_job(by, spec);
        let rules = &self.shared.settings.classes;
        let classified = decide_class(spec.priority, submission.asking, &job, rules)?;
        if classified.class != spec.priority {
            Arc::make_mut(&mut submission.spec).priority = classified.class;
        }
        Ok(classified)
    }

    /// Finds an input that is to be read in chunks, and cannot be because it is a directory.
    fn chunked_directory_input(&self, submission: &JobSubmission) -> Option<LogicalName> {
        let inputs = submission
            .spec
            .components
            .iter()
            .flat_map(|component| &component.inputs);
        let mut chunked = inputs
            .filter(|input| input.feed == InputPortion::Chunk)
            .peekable();
        chunked.peek()?;
        let view = self.shared.view.load();
        chunked
            .find(|input: &&InputSpec| {
                let entry = view
                    .files
                    .get(&input.file.name)
                    .and_then(|file| file.entry.as_ref());
                entry
                    .is_some_and(|entry| entry.directory && input.file.bound == Some(entry.content))
            })
            .map(|input| input.file.name.clone())
    }

    fn bind_submission_inputs(&self, submission: &mut JobSubmission) -> Result<(), LogicalName> {
        if submission.spec.unbound_names().is_empty() {
            return Ok(());
        }
        let view = self.shared.view.load();
        Arc::make_mut(&mut submission.spec).bind_inputs(|name: &LogicalName| {
            view.files
                .get(name)?
                .entry
                .as_ref()
                .map(|entry| entry.content)
        })
    }

    fn can_ever_be_placed(&self, request: &Arc<PlacementRequest>) -> Result<(), UnplaceableError> {
        let grid = self.empty_grid();
        if self
            .lock_empty_sites()
            .fitting
            .as_ref()
            .is_some_and(|fitting: &Arc<PlacementRequest>| Arc::ptr_eq(fitting, request))
        {
            return Ok(());
        }
        check_placeable(request, &grid)?;
        let mut shapes = self.lock_empty_sites();
        if shapes
            .grid
            .as_ref()
            .is_some_and(|latest| Arc::ptr_eq(latest, &grid))
        {
            shapes.fitting = Some(request.clone());
        }
        Ok(())
    }

    fn lock_empty_sites(&self) -> MutexGuard<'_, EmptyGridCache> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn empty_grid(&self) -> Arc<GridSnapshot> {
        let now = self.now();
        let mut shapes = self.lock_empty_sites();
        match &shapes.grid {
            Some(grid) if now.since(shapes.made_at).0 < Self::SHAPES_EXPIRY_MS => grid.clone(),
            _ => {
                let grid = shapes.maker.snapshot(&self.shared);
                shapes.made_at = now;
                shapes.grid = Some(grid.clone());
                shapes.fitting = None;
                grid
            }
        }
    }

    /// Asks every site for a report, also those where no job of ours runs, unless that was done
    /// just now. Whoever looks at sites should not see a report from when they were last needed.
    pub fn refresh_site_reports(&self) {
        let live = &self.shared.live;
        let now = self.now();
        let pause = self.shared.settings.poll_interval;
        if live
            .all_answers_wanted_since()
            .is_none_or(|doubted| now.since(doubted) >= pause)
        {
            live.request_all_answers(now);
            self.shared.actors.request_look_of_all(ActorKind::Cluster);
        }
    }

    /// Waits until no report of a site that answers has expired, but no longer than this. While no
    /// job waits, sites are not asked: what they said when they were last needed may be long ago.
    pub async fn await_current_reports(&self, longest: Duration) {
        let awaited = async {
            while self.has_expired_report() {
                self.refresh_site_reports();
                tokio::time::sleep(Self::REPORT_LOOK).await;
            }
        };
        // Who is not heard by then is not waited for.
        let _ = tokio::time::timeout(longest, awaited).await;
    }

    fn has_expired_report(&self) -> bool {
        let now = self.now();
        let expiry = self.shared.settings.information_expiry;
        self.shared.live.all_reports().iter().any(|(_, report)| {
            let asked_at = report.idle.as_ref().map(|(at, _)| *at);
            report.contact.is_answering() && asked_at.is_some_and(|at| now.since(at) > expiry)
        })
    }

    /// Lists all sites.
    pub fn list_sites(&self) -> Vec<SiteOverview> {
        self.shared
            .sites
            .keys()
            .filter_map(|name| self.site_overview(name))
            .collect()
    }

    /// Returns one site; `None` if there is none of this name.
    pub fn site_overview(&self, name: &SiteName) -> Option<SiteOverview> {
        self.shared.sites.get(name)?;
        let view = self.shared.view.load();
        let record = view.sites.get(name).cloned();
        let record = record.unwrap_or_else(|| Arc::new(SiteRecord::new(name.clone())));
        let report = self.shared.live.site_report(name).unwrap_or_default();
        let held = view.holdings.get(name).map_or(0, |held| held.len() as u32);
        let state = site_state(&record, report.contact, held, self.now());
        Some(SiteOverview {
            name: name.clone(),
            state,
            record,
            report,
            held,
        })
    }

    /// The longest time that a component waits for the others of its job.
    pub fn max_hold(&self) -> DurationMs {
        self.shared.settings.job.hold_max
    }

    /// Lists the links that bring files to a site, by where they begin.
    pub fn links_to(&self, site: &SiteName) -> Vec<LinkFigures> {
        let links = &self.shared.links;
        let sites = self.shared.sites.keys();
        sites
            .filter_map(|from| links.known_link(from, site))
            .collect()
    }

    /// Returns true if so many sites are silent that the fault seems to be ours.
    pub fn is_isolated(&self) -> bool {
        self.shared.live.is_isolated()
    }

    /// Explains why a job is where it is.
    pub fn explain_job(&self, job: &Job) -> JobExplanation {
        explain_in_full(&self.shared, job)
    }

    /// Explains without an estimate of the start, which may be most of the work.
    pub fn explain_without_estimate(&self, job: &Job) -> JobExplanation {
        explain_without_estimate(&self.shared, job)
    }

    /// Checks that a job would be accepted if it were submitted now with this key.
    ///
    /// # Errors
    ///
    /// The job would be refused.
    pub fn check_acceptance(
        &self,
        by: &KeyName,
        mut submission: JobSubmission,
    ) -> Result<(), ApiRefusal> {
        self.prepare_submission(0, by, &mut submission).map(drop)
    }

    /// The progress of a copy while it is being made.
    pub fn copy_progress(&self, digest: Digest, site: &SiteName) -> Option<CopyProgressForecast> {
        self.shared.live.copy_progress(digest, site)
    }

    /// Explains what would become of a job, with its priority, if it were submitted now with this
    /// key.
    ///
    /// # Errors
    ///
    /// The job would be refused.
    pub fn preview_job(
        &self,
        by: &KeyName,
        mut submission: JobSubmission,
    ) -> Result<JobExplanation, ApiRefusal> {
        let (classified, request) = self.prepare_submission(0, by, &mut submission)?;
        let class = Some(classified);
        Ok(JobExplanation {
            class,
            ..explain_unsubmitted(&self.shared, by, &submission.spec, &request)
        })
    }

    /// Returns where a job stands in its placement queue; `None` if it is in none.
    pub async fn queue_standing(&self, job: JobId) -> Option<QueueStanding> {
        let co_allocator = self.shared.actors.addr::<CoAllocator>(&())?;
        co_allocator.send(AskQueueStanding(job)).await.ok()?
    }

    /// Follows committed changes from now on.
    pub fn subscribe_to_changes(&self) -> broadcast::Receiver<CommittedChange> {
        self.stream.subscribe()
    }

    /// Returns the link without which a job can never be placed as things are, if there is one.
    pub fn missing_link(&self, job: &Job) -> Option<MissingLink> {
        find_missing_link(&self.shared.placement_request_of(job), &self.empty_grid())
    }

    async fn call_site_actor<T: Send + 'static>(
        &self,
        site: &SiteName,
        call: SiteCallMessage<T>,
    ) -> Result<T, SiteError> {
        let cluster = self.shared.actors.addr::<ClusterActor>(site);
        let cluster = cluster.ok_or_else(|| SiteError::NotSent(format!("{site} is not served")))?;
        cluster
            .send(call)
            .await
            .map_err(|error: actix::MailboxError| SiteError::OutcomeUnknown(error.to_string()))?
    }

    /// Returns the state of the inspection of a file at a site, and how far it is; `None` if nobody
    /// waits for one.
    pub fn inspection_state(
        &self,
        site: &SiteName,
        place: &FilePlace,
    ) -> Option<(InspectionState, Option<InspectionProgress>)> {
        let state = self.shared.live.inspections.state_of(site, place)?;
        let site = self.shared.sites.get(site);
        Some((state, site.and_then(|site| site.files().read_so_far(place))))
    }

    /// Reads a piece of a file or log at a site, in the turn of a key.
    ///
    /// # Errors
    ///
    /// The site has no such file, or does not answer.
    pub async fn read_site_file(
        &self,
        by: &KeyName,
        site: &SiteName,
        what: ReadableFile,
        offset: Bytes,
        limit: u32,
    ) -> Result<FileExcerpt, SiteError> {
        let call = SiteCallMessage::new(SiteCallKind::Read, move |site| {
            Box::pin(async move { site.files().read(&what, offset, limit).await })
        });
        self.call_site_actor(site, call.for_owner(by)).await
    }

    /// Lists the content of a directory at a site, in the turn of a key; `None` if the place is no
    /// directory.
    ///
    /// # Errors
    ///
    /// The site has nothing there that can be listed, or does not answer.
    pub async fn list_site_directory(
        &self,
        by: &KeyName,
        site: &SiteName,
        place: FilePlace,
    ) -> Result<Option<DirectoryListing>, SiteError> {
        let call = SiteCallMessage::new(SiteCallKind::Read, move |site| {
            Box::pin(async move { site.files().list(&place).await })
        });
        self.call_site_actor(site, call.for_owner(by)).await
    }

    /// Returns the stamp of a file at a site, without reading the file, in the turn of a key;
    /// `None` if the site cannot give one.
    ///
    /// # Errors
    ///
    /// The site has no such file, or does not answer.
    pub async fn stamp_site_file(
        &self,
        by: &KeyName,
        site: &SiteName,
        place: FilePlace,
    ) -> Result<Option<FileStamp>, SiteError> {
        let call = SiteCallMessage::new(SiteCallKind::Read, move |site| {
            Box::pin(async move { site.files().stamp(&place).await })
        });
        self.call_site_actor(site, call.for_owner(by)).await
    }

    /// Takes one step in bringing a user's file to a site, in the turn of its key.
    ///
    /// # Errors
    ///
    /// The site does not take it, or does not answer.
    pub async fn take_upload_step(
        &self,
        by: &KeyName,
        site: &SiteName,
        step: UploadStep,
    ) -> Result<(), SiteError> {
        let call = SiteCallMessage::new(SiteCallKind::Upload, move |site| {
            Box::pin(async move { site.files().upload(&step).await })
        });
        self.call_site_actor(site, call.for_owner(by)).await
    }

    /// Remembers the stamp that a replica had when its content was read.
    ///
    /// # Errors
    ///
    /// The name stands for other content now, or the note could not be written.
    pub async fn note_replica_stamp(&self, note: NoteFileStamp) -> Result<(), ApiRefusal> {
        let busy = ApiRefusal::Busy { retry_after_s: 1 };
        let information = self
            .shared
            .actors
            .addr::<InformationActor>(&())
            .ok_or_else(|| busy.clone())?;
        information.send(note).await.unwrap_or(Err(busy))
    }

    /// Reads the keys and values of the store that begin with `prefix`.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn scan_store(&self, prefix: &[u8]) -> Result<Vec<StoredValue>, StoreError> {
        let mut found = Vec::new();
        self.store.scan(prefix, &mut |stored| {
            found.push(stored);
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The store itself, for export.
    pub fn store_journal(&self) -> &Arc<dyn cospan_storage::port::Journal> {
        &self.store
    }

    /// The size of the store.
    pub fn store_size(&self) -> StoreSize {
        self.store.size()
    }

    /// Takes no new work from now on. Durable work goes on after the next start.
    pub fn begin_stopping(&self) {
        self.shared.process.begin_stopping();
    }

    /// Gives back the job ids that no job got, so that the next start goes on with them. Comes after
    /// [`ControlPlane::begin_stopping`].
    pub async fn return_unused_ids(&self) {
        if let Some(intake) = self.shared.actors.addr::<Intake>(&()) {
            // Without them the next ids only leap.
            let _ = intake.send(ReturnUnusedIds).await;
        }
    }

    /// Returns true if the control plane takes work.
    pub fn is_ready(&self) -> bool {
        !self.shared.process.is_stopping() && self.shared.actors.addr::<Intake>(&()).is_some()
    }

    /// The owner of a job; `None` if there is no such job.
    pub fn job_owner(&self, job: JobId) -> Option<KeyName> {
        self.shared
            .view
            .load()
            .jobs
            .get(&job)
            .map(|job| job.owner.clone())
    }
}
