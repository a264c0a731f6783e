//! A control plane of paper: it accepts jobs, remembers what was asked, and
//! refuses when told to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use actix_web::web::Bytes;
use async_trait::async_trait;
use cospan_actors::api::command::{ApiRequest, JobCommandOutcome};
use cospan_actors::api::{
    ApiAnswer, ApiCommand, ApiRefusal, CommittedView, FreeProcessorsAnswer, JobSubmission,
    PossibleStartOverview, SiteStartsAnswer, StartComputation, SubmittedJob,
};
use cospan_domain::ids::{
    ComponentIndex, Digest, IdempotencyKey, JobId, KeyName, LogicalName, Seq, SiteName,
};
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::{Job, JobPhase, SetbackCounts};
use cospan_domain::job::spec::JobSpecLimits;
use cospan_domain::reservation::{EqualParts, PossibleStarts, StartWindow};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::files::tree_pieces::{DirectoryListing, ListingEntry, ListingEntryKind};
use cospan_sites::port::{UPLOADS, UploadStep};
use futures_util::{StreamExt, stream};
use tokio::sync::broadcast;

use crate::chaos::Rehearsals;
use crate::http::control_plane_port::{
    AttemptFile, ControlPlanePort, DirectoryListRequest, ExplanationFacts, ExplanationPage,
    FileReadRequest, JobChange, JobChangeStream, JobHistory, PieceStream, ReadPiece,
    SubscriptionItem,
};
use cospan_api::v1::explain::{ExplainReport, VerdictReport};
use cospan_api::v1::file::{FilePage, FileReport, ReplicaReport};
use cospan_api::v1::site::{LinkReport, NeedsReport, SiteList, SiteReport};
use cospan_api::v1::store::StoreReport;

/// What there is of a component's streams and outputs.
pub(in crate::http) type StreamContents = BTreeMap<(JobId, ComponentIndex, String), Vec<u8>>;

pub(in crate::http) struct FakeControlPlane {
    pub(in crate::http) view: Mutex<CommittedView>,
    keys: Mutex<BTreeMap<IdempotencyKey, (Digest, JobId)>>,
    pub(in crate::http) asked: Mutex<Vec<String>>,
    pub(in crate::http) refusal: Mutex<Option<ApiRefusal>>,
    /// Sites that take nothing that is brought to them.
    pub(in crate::http) silent: Mutex<BTreeSet<SiteName>>,
    /// What was brought to sites, by its path there.
    pub(in crate::http) uploaded: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(in crate::http) contents: Mutex<StreamContents>,
    pub(in crate::http) history: Mutex<BTreeMap<JobId, Vec<JobEvent>>>,
    pub(in crate::http) archive: Mutex<BTreeMap<JobId, Arc<Job>>>,
    /// How often that was looked into for a job.
    pub(in crate::http) archive_reads: AtomicUsize,
    pub(in crate::http) files: Mutex<BTreeMap<LogicalName, FileReport>>,
    pub(in crate::http) export: Mutex<Vec<Result<Bytes, String>>>,
    pub(in crate::http) ready: AtomicBool,
    pub(in crate::http) panics: AtomicBool,
    /// Previews that were begun, and whether they are held up.
    pub(in crate::http) previews: AtomicUsize,
    pub(in crate::http) previews_wait: AtomicBool,
    /// Whether explanations are held up.
    pub(in crate::http) explanations_wait: AtomicBool,
    /// So many looks at the sites find them unknown.
    pub(in crate::http) unheard: AtomicUsize,
    changes: broadcast::Sender<JobChange>,
    rehearsals: Rehearsals,
}

impl Default for FakeControlPlane {
    fn default() -> Self {
        Self {
            view: Mutex::default(),
            keys: Mutex::default(),
            asked: Mutex::default(),
            refusal: Mutex::default(),
            silent: Mutex::default(),
            uploaded: Mutex::default(),
            contents: Mutex::default(),
            history: Mutex::default(),
            archive: Mutex::default(),
            archive_reads: AtomicUsize::default(),
            files: Mutex::default(),
            export: Mutex::default(),
            ready: AtomicBool::new(true),
            panics: AtomicBool::new(false),
            previews: AtomicUsize::new(0),
            previews_wait: AtomicBool::new(false),
            explanations_wait: AtomicBool::new(false),
            unheard: AtomicUsize::new(0),
            changes: broadcast::channel(4096).0,
            rehearsals: Rehearsals::disallowed(),
        }
    }
}

impl FakeControlPlane {
    /// Changes a job, and tells followers.
    pub(in crate::http) fn change_job(&self, id: u64, change: impl FnOnce(&mut Job)) -> Seq {
        let mut view = self.view.lock().unwrap();
        let mut job = (**view.jobs.get(&JobId(id)).unwrap()).clone();
        change(&mut job);
        view.jobs.insert(JobId(id), Arc::new(job));
        view.seq.0 += 1;
        let seq = view.seq;
        let owner = view.jobs[&JobId(id)].owner.clone();
        drop(view);
        let change = JobChange {
            seq,
            job: JobId(id),
            owner,
            submitted: false,
            events: Vec::new(),
        };
        let _ = self.changes.send(change);
        seq
    }

    fn accept_submission(
        &self,
        submission: JobSubmission,
        by: &ApiCommandBy,
    ) -> Result<SubmittedJob, ApiRefusal> {
        let mut keys = self.keys.lock().unwrap();
        if let Some(given) = &submission.idempotency
            && let Some((body, id)) = keys.get(&given.key)
        {
            return if *body == given.body {
                Ok(SubmittedJob {
                    id: *id,
                    repeated: true,
                    group: None,
                })
            } else {
                Err(ApiRefusal::IdempotencyMismatch { job: *id })
            };
        }
        let mut view = self.view.lock().unwrap();
        view.seq.0 += 1;
        let seq = view.seq;
        let id = JobId(view.jobs.len() as u64 + 1);
        if let Some(given) = &submission.idempotency {
            keys.insert(given.key.clone(), (given.body, id));
        }
        view.jobs.insert(id, Arc::new(new_job(id, submission, by)));
        drop(view);
        let owner = by.clone();
        let events = Vec::new();
        let _ = self.changes.send(JobChange {
            seq,
            job: id,
            owner,
            submitted: true,
            events,
        });
        Ok(SubmittedJob {
            id,
            repeated: false,
            group: None,
        })
    }

    fn answer_job_command(&self, ids: Vec<JobId>) -> ApiAnswer {
        let view = self.view.lock().unwrap();
        let outcome = |id: JobId| match view.jobs.get(&id) {
            None => JobCommandOutcome::NotFound,
            Some(job) if job.is_final() => JobCommandOutcome::Unchanged("it has ended".into()),
            Some(job) if job.held.is_some() => JobCommandOutcome::Refused("it is held".into()),
            Some(_) => JobCommandOutcome::Done,
        };
        ApiAnswer::Jobs(ids.into_iter().map(|id| (id, outcome(id))).collect())
    }
}

type ApiCommandBy = cospan_domain::ids::KeyName;

fn new_job(id: JobId, submission: JobSubmission, by: &ApiCommandBy) -> Job {
    Job {
        id,
        priority: submission.spec.priority,
        spec: submission.spec,
        owner: by.clone(),
        idempotency: submission.idempotency,
        submitted_at: Timestamp(1_700_000_000_000),
        frozen_by: None,
        held: None,
        phase: JobPhase::Queued {
            since: Timestamp(1),
            not_before: Timestamp(0),
        },
        round: Default::default(),
        inputs_here: false,
        start_at: None,
        components: Vec::new(),
        setbacks: SetbackCounts::default(),
        next_claim: None,
        preempting: Vec::new(),
        promoted: false,
        instants: Default::default(),
        placed_by: None,
        wish: Default::default(),
        reservation: None,
        told: Default::default(),
        revision: 1,
    }
}

#[async_trait]
impl ControlPlanePort for FakeControlPlane {
    async fn run_command(&self, command: ApiCommand) -> Result<ApiAnswer, ApiRefusal> {
        if self.panics.load(Ordering::SeqCst) {
            panic!("a test wants it");
        }
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        let ApiCommand { by, what } = command;
        if let ApiRequest::Submit(jobs) = what {
            for (index, job) in jobs.iter().enumerate() {
                let problem = |e: cospan_domain::job::spec::JobSpecError| e.to_string();
                job.spec
                    .validate(&JobSpecLimits::default())
                    .map_err(|error| ApiRefusal::Invalid {
                        index,
                        problem: problem(error),
                    })?;
            }
            let accepted = jobs.into_iter().map(|job| self.accept_submission(job, &by));
            return Ok(ApiAnswer::Submitted(accepted.collect::<Result<_, _>>()?));
        }
        self.asked.lock().unwrap().push(format!("{by}: {what:?}"));
        Ok(match what {
            ApiRequest::Cancel(ids)
            | ApiRequest::Abandon(ids)
            | ApiRequest::Freeze(ids)
            | ApiRequest::Thaw(ids)
            | ApiRequest::Release(ids) => self.answer_job_command(ids),
            ApiRequest::SetPriority { jobs: ids, .. } => self.answer_job_command(ids),
            ApiRequest::ChangeReservation { job, .. } => self.answer_job_command(vec![job]),
            ApiRequest::AddFile {
                name, site, path, ..
            } => {
                let uploaded = self.uploaded.lock().unwrap().get(path.as_str()).cloned();
                let digest = uploaded.map(|bytes| blake3::hash(&bytes).to_hex().to_string());
                let report = FileReport {
                    name: name.to_string(),
                    owner: by.to_string(),
                    digest: digest.unwrap_or_else(|| "00".repeat(32)),
                    size_bytes: 5,
                    replicas: vec![ReplicaReport {
                        site: site.to_string(),
                        path: Some(path.to_string()),
                        kept: false,
                    }],
                };
                self.files.lock().unwrap().insert(name, report);
                ApiAnswer::Done
            }
            ApiRequest::RemoveFile { name, .. } => match self.files.lock().unwrap().remove(&name) {
                Some(_) => ApiAnswer::Done,
                None => return Err(ApiRefusal::NotFound("no such file".into())),
            },
            ApiRequest::Site(..) => ApiAnswer::Done,
            ApiRequest::Submit(_) => unreachable!("answered above"),
        })
    }

    fn preview(
        &self,
        _: &ApiCommandBy,
        submission: JobSubmission,
        _: usize,
    ) -> Result<ExplainReport, ApiRefusal> {
        self.previews.fetch_add(1, Ordering::SeqCst);
        while self.previews_wait.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        let summary = format!("allow_unplaceable is {}", submission.allow_unplaceable);
        Ok(ExplainReport {
            summary,
            ..ExplainReport::default()
        })
    }

    fn check_submission(&self, _: &ApiCommandBy, _: JobSubmission) -> Result<(), ApiRefusal> {
        self.refusal.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn view(&self) -> Arc<CommittedView> {
        Arc::new(self.view.lock().unwrap().clone())
    }

    fn list_files(
        &self,
        after: Option<&LogicalName>,
        site: Option<&SiteName>,
        shows: &dyn Fn(&KeyName) -> bool,
        limit: usize,
    ) -> FilePage {
        let files = self.files.lock().unwrap();
        let wanted = files.values().filter(|file| {
            shows(&file.owner.parse().unwrap())
                && after.is_none_or(|after| file.name.as_str() > after.as_str())
                && site.is_none_or(|site| file.replicas.iter().any(|r| r.site == site.as_str()))
        });
        let mut rows: Vec<FileReport> = wanted.take(limit + 1).cloned().collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|file| file.name.clone());
        FilePage { files: rows, next }
    }

    fn find_file(&self, name: &LogicalName) -> Option<FileReport> {
        self.files.lock().unwrap().get(name).cloned()
    }

    fn file_owner(&self, name: &LogicalName) -> Option<KeyName> {
        Some(self.files.lock().unwrap().get(name)?.owner.parse().unwrap())
    }

    fn list_sites(&self) -> SiteList {
        let unheard = self
            .unheard
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left: usize| {
                left.checked_sub(1)
            })
            .is_ok();
        let state = if unheard { "unknown" } else { "usable" };
        let site = |name: &str| SiteReport {
            name: name.into(),
            state: state.into(),
            ..SiteReport::default()
        };
        SiteList {
            sites: vec![site("delft"), site("leiden")],
            isolated: false,
        }
    }

    fn links_to(&self, _: &SiteName) -> Vec<LinkReport> {
        vec![LinkReport {
            from: "leiden".into(),
            bandwidth_bps: 8,
            ..LinkReport::default()
        }]
    }

    fn list_needed_attempts(&self) -> NeedsReport {
        NeedsReport {
            instance: "abcdefgh".into(),
            jobs: vec![1, 2],
        }
    }

    async fn possible_starts(
        &self,
        site: Option<&SiteName>,
        parts: &EqualParts,
        window: StartWindow,
    ) -> StartComputation {
        let starts = PossibleStarts {
            window,
            parts: parts.count,
        };
        let delft = SiteStartsAnswer::Told {
            starts: vec![starts; 3],
            until: None,
        };
        let told = [("delft", delft), ("leiden", SiteStartsAnswer::GrantsNone)];
        let told = told
            .map(|(name, said)| (name.parse::<SiteName>().unwrap(), said))
            .into_iter();
        let sites = told
            .filter(|(name, _)| site.is_none_or(|site| site == name))
            .collect();
        Box::new(|| PossibleStartOverview {
            sites,
            together: Vec::new(),
        })
    }

    async fn free_slots(&self, site: &SiteName, within: DurationMs) -> FreeProcessorsAnswer {
        let steps = vec![(Timestamp(1_000), 4), (Timestamp(within.0), 16)];
        match site.as_str() {
            "delft" => FreeProcessorsAnswer::Told { steps, until: None },
            _ => FreeProcessorsAnswer::GrantsNone,
        }
    }

    fn store_report(&self) -> StoreReport {
        StoreReport {
            engine: "paper".into(),
            ..StoreReport::default()
        }
    }

    async fn find_job(&self, id: JobId) -> Result<Option<Arc<Job>>, ApiRefusal> {
        self.archive_reads.fetch_add(1, Ordering::SeqCst);
        Ok(self.archive.lock().unwrap().get(&id).cloned())
    }

    async fn history(&self, id: JobId) -> Result<Option<JobHistory>, ApiRefusal> {
        let events = self
            .history
            .lock()
            .unwrap()
            .get(&id)
            .cloned()
            .unwrap_or_default();
        Ok(Some(JobHistory {
            events,
            shortened: false,
        }))
    }

    async fn collect_job_facts(
        &self,
        id: JobId,
        _: ExplanationPage,
    ) -> Result<Option<ExplanationFacts>, ApiRefusal> {
        let job = self.view.lock().unwrap().jobs.get(&id).cloned();
        Ok(job.map(|job| ExplanationFacts {
            job,
            standing: None,
            last_words: Vec::new(),
        }))
    }

    fn explain(
        &self,
        facts: ExplanationFacts,
        page: ExplanationPage,
    ) -> Result<ExplainReport, ApiRefusal> {
        while self.explanations_wait.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let verdict = VerdictReport {
            code: "site-full".into(),
            ..VerdictReport::default()
        };
        let summary = format!("it waits, {} after {}", page.limit, page.after);
        let job = facts.job.id.0;
        let verdicts = vec![verdict];
        Ok(ExplainReport {
            job,
            summary,
            verdicts,
            ..Default::default()
        })
    }

    async fn read_file_piece(&self, what: &FileReadRequest) -> Result<ReadPiece, ApiRefusal> {
        let file = match &what.file {
            AttemptFile::Stdout => "stdout".to_owned(),
            AttemptFile::Stderr => "stderr".to_owned(),
            AttemptFile::Output(path) => path.to_string(),
        };
        let contents = self.contents.lock().unwrap();
        let key = (what.job.id, what.component, file);
        let Some(bytes) = contents.get(&key) else {
            return Err(ApiRefusal::NotFound("there is no such file".into()));
        };
        let from = bytes.len().min(what.offset as usize);
        let until = bytes.len().min(from + what.limit as usize);
        let piece = Bytes::copy_from_slice(&bytes[from..until]);
        Ok(ReadPiece {
            bytes: piece,
            size: bytes.len() as u64,
        })
    }

    async fn list_directory(
        &self,
        what: &DirectoryListRequest,
    ) -> Result<Option<DirectoryListing>, ApiRefusal> {
        let contents = self.contents.lock().unwrap();
        let below = format!("{}/", what.path);
        let files = contents
            .iter()
            .filter(|((job, component, _), _)| (*job, *component) == (what.job.id, what.component));
        let leaves: Vec<ListingEntry> = files
            .filter_map(|((.., path), bytes)| {
                let kind = ListingEntryKind::File {
                    executable: false,
                    size: bytes.len() as u64,
                };
                Some(ListingEntry {
                    path: path.strip_prefix(&below)?.into(),
                    kind,
                })
            })
            .collect();
        let key = (what.job.id, what.component, what.path.to_string());
        match (leaves.is_empty(), contents.contains_key(&key)) {
            (true, true) => Ok(None),
            (true, false) => Err(ApiRefusal::NotFound("there is no such file".into())),
            (false, _) => Ok(Some(DirectoryListing::new(leaves).unwrap())),
        }
    }

    async fn take_upload_step(
        &self,
        _: &KeyName,
        site: &SiteName,
        step: UploadStep,
    ) -> Result<(), ApiRefusal> {
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        if self.silent.lock().unwrap().contains(site) {
            return Err(ApiRefusal::Site(format!("{site} does not answer")));
        }
        self.asked
            .lock()
            .unwrap()
            .push(format!("upload to {site}: {step:?}"));
        let mut uploaded = self.uploaded.lock().unwrap();
        match step {
            UploadStep::Append { name, bytes, .. } => {
                uploaded
                    .entry(format!("{UPLOADS}/{name}"))
                    .or_default()
                    .extend(bytes);
            }
            UploadStep::Remove { name } => drop(uploaded.remove(&format!("{UPLOADS}/{name}"))),
        }
        Ok(())
    }

    async fn export_store(&self) -> Result<PieceStream, ApiRefusal> {
        Ok(stream::iter(self.export.lock().unwrap().clone()).boxed())
    }

    fn subscribe(&self) -> JobChangeStream {
        stream::unfold(self.changes.subscribe(), |mut changes| async move {
            match changes.recv().await {
                Ok(change) => Some((SubscriptionItem::Change(change), changes)),
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    Some((SubscriptionItem::Lost, changes))
                }
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    fn rehearsals(&self) -> &Rehearsals {
        &self.rehearsals
    }

    fn readiness(&self) -> Result<(), String> {
        if self.ready.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err("the store is being read".into())
        }
    }
}
