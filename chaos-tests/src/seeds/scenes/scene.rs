//! A control plane on its stage, as scenes use it: every call and every change is written down.

use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest};
#[cfg(cospan_chaos)]
use cospan_actors::chaos::{CrashPoint, set_panic_hook};
use cospan_actors::journal::JournalChange;
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_actors::supervision::ActorKind;
use cospan_domain::content::Content;
use cospan_domain::ids::{JobId, KeyName, RelPath, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::units::{DurationMs, Timestamp};
use tokio::sync::Notify;

use super::script::SceneTranscript;
use super::stage::file_name;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// Time between two looks at a condition, where nothing became durable meanwhile.
const STEP: Duration = Duration::from_millis(500);

/// A durable change, and when it was reported.
type ToldChange = (Timestamp, Arc<JournalChange>);

/// A control plane on its stage.
#[derive(Clone)]
pub(super) struct StagedScene {
    pub(super) plane_run: ControlPlaneRun,
    changes: Rc<RefCell<Vec<ToldChange>>>,
    changed: Rc<Notify>,
    found: Rc<RefCell<Vec<String>>>,
    transcript: Rc<RefCell<Option<Rc<SceneTranscript>>>>,
}

impl StagedScene {
    /// Makes the scene of this run of the control plane.
    pub(super) fn of_plane_run(plane_run: ControlPlaneRun) -> Self {
        let (changes, changed, found, transcript) = Default::default();
        Self {
            plane_run,
            changes,
            changed,
            found,
            transcript,
        }
    }

    /// Writes all changes of this run, past and future, to a transcript.
    pub(super) fn write_to(&self, transcript: &Rc<SceneTranscript>) {
        for (at, change) in self.changes() {
            transcript.add_change(at, &change);
        }
        *self.transcript.borrow_mut() = Some(transcript.clone());
    }

    /// Lists what was not as it was worked out.
    pub(super) fn problems_found(&self) -> Vec<String> {
        self.found.take()
    }

    /// Writes down what becomes durable, for as long as it is polled.
    pub(super) async fn follow_changes(&self) {
        let mut stream = self.plane_run.plane.subscribe_to_changes();
        while let Ok(committed) = stream.recv().await {
            if let Some(transcript) = &*self.transcript.borrow() {
                transcript.add_change(self.now(), &committed.change);
            }
            self.changes
                .borrow_mut()
                .push((self.now(), committed.change));
            self.changed.notify_waiters();
        }
    }

    /// Registers these files at their sites.
    ///
    /// # Errors
    /// It is refused.
    pub(super) async fn register_files(
        &self,
        files: &[(RelPath, Content, Vec<SiteName>)],
    ) -> Result<()> {
        for (number, (path, _, sites)) in files.iter().enumerate() {
            for site in sites {
                let name = file_name(number)?;
                let site = site.clone();
                let path = path.clone();
                self.ask(ApiRequest::AddFile {
                    name,
                    site,
                    path,
                    replace: false,
                    reaches_all: false,
                })
                .await?;
            }
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.plane_run.clock.now()
    }

    /// Notes what is not as it was worked out.
    pub(super) fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.found.borrow_mut().push(otherwise());
        }
    }

    /// Checks that a value is as it was worked out.
    pub(super) fn check_same<T: PartialEq + Debug>(&self, what: &str, seen: T, expected: T) {
        self.check(seen == expected, || {
            format!("{what}: {seen:?} instead of {expected:?}")
        });
    }

    pub(super) fn metrics(&self) -> &ControlPlaneMetrics {
        &self.plane_run.plane.shared().metrics
    }

    /// Sends a command of a user.
    ///
    /// # Errors
    /// The refusal.
    pub(super) async fn ask(&self, what: ApiRequest) -> Result<ApiAnswer, ApiRefusal> {
        self.ask_as("alice", what).await
    }

    /// Sends a command with this key.
    ///
    /// # Errors
    /// The refusal.
    pub(super) async fn ask_as(
        &self,
        key: &str,
        what: ApiRequest,
    ) -> Result<ApiAnswer, ApiRefusal> {
        let by = KeyName::new(key);
        let by = by.map_err(|problem| ApiRefusal::Conflict(problem.to_string()))?;
        self.plane_run
            .plane
            .execute_command(ApiCommand { by, what })
            .await
    }

    /// Returns the record of a job.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn job_record(&self, id: JobId) -> Result<Arc<Job>> {
        let job = self.plane_run.plane.view().jobs.get(&id).cloned();
        job.ok_or_else(|| anyhow::anyhow!("job {id} is gone"))
    }

    /// Waits until a condition holds, and returns the time at which it did.
    ///
    /// # Errors
    /// It was not within this time.
    pub(super) async fn wait_until(
        &self,
        within: DurationMs,
        so: impl Fn(&Self) -> bool,
    ) -> Result<Timestamp> {
        let end = self.now() + within;
        while !so(self) {
            if self.now() >= end {
                let jobs: Vec<_> = self
                    .plane_run
                    .plane
                    .view()
                    .jobs
                    .values()
                    .map(|job| job.phase.clone())
                    .collect();
                bail!("what was waited for did not come about within {within}: {jobs:?}");
            }
            // Exact if the condition depends on a durable change.
            let _ = tokio::time::timeout(STEP, self.changed.notified()).await;
        }
        Ok(self.now())
    }

    /// Makes an actor of this kind panic from now on: at the next message, and so often in all as
    /// it begins anew, or else at its next messages. Returns true if actors of this build can
    /// panic.
    #[cfg(cospan_chaos)]
    pub(super) fn make_actors_panic(
        &self,
        kind: ActorKind,
        times: usize,
        only_at_messages: bool,
    ) -> bool {
        let mut left = times;
        set_panic_hook(Some(Box::new(move |effect, point| {
            let strikes = match point {
                CrashPoint::HandlerEntry => {
                    (left == times || only_at_messages) && effect == kind.as_str()
                }
                CrashPoint::Started => left < times && !only_at_messages,
                _ => false,
            } && left > 0;
            left -= usize::from(strikes);
            strikes
        })));
        true
    }

    /// Does nothing: no actor of this build can panic.
    #[cfg(not(cospan_chaos))]
    pub(super) fn make_actors_panic(&self, _: ActorKind, _: usize, _: bool) -> bool {
        false
    }

    /// Lets so much time pass.
    pub(super) async fn pass(&self, length: DurationMs) {
        tokio::time::sleep(Duration::from_millis(length.0)).await;
    }

    /// Lists all durable changes so far, and when each was reported.
    pub(super) fn changes(&self) -> Vec<ToldChange> {
        self.changes.borrow().clone()
    }
}
