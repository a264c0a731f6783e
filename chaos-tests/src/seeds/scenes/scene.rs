//! A control plane on its stage, as scenes use it: every call and every change is written down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiAnswer, ApiCommand, ApiRefusal, ApiRequest, JobSubmission};
#[cfg(cospan_chaos)]
use cospan_actors::chaos::{CrashPoint, set_panic_hook};
use cospan_actors::journal::JournalChange;
use cospan_actors::supervision::ActorKind;
use cospan_domain::content::Content;
use cospan_domain::ids::{JobId, KeyName, RelPath, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::{FileReference, InputSpec, JobSpec, RequestType};
use cospan_domain::units::{DurationMs, Timestamp};
use tokio::sync::Notify;

use super::stage::{file_name, site_name};
use cospan_simulator::call_faults::RecordedCall;
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::world::site_faults::SiteFault;

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
}

impl StagedScene {
    /// Makes the scene of this run of the control plane.
    pub(super) fn of_plane_run(plane_run: ControlPlaneRun) -> Self {
        let (changes, changed, found) = Default::default();
        Self {
            plane_run,
            changes,
            changed,
            found,
        }
    }

    /// Lists what was not as it was worked out.
    pub(super) fn problems_found(&self) -> Vec<String> {
        self.found.take()
    }

    /// Writes down what becomes durable, for as long as it is polled.
    pub(super) async fn follow_changes(&self) {
        let mut stream = self.plane_run.plane.subscribe_to_changes();
        while let Ok(committed) = stream.recv().await {
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

    /// Injects a fault at a site now.
    pub(super) fn inject_fault(&self, site: &SiteName, trouble: SiteFault) {
        let now = self.now();
        self.plane_run.world.act_at(now, |world| {
            if let Some(index) = world.index_of(site) {
                world.plan_fault(now, index, trouble);
            }
        });
    }

    /// Submits one job.
    ///
    /// # Errors
    /// It is refused.
    pub(super) async fn submit(&self, spec: JobSpec) -> Result<JobId> {
        match self
            .ask(ApiRequest::Submit(vec![JobSubmission::from_spec(
                Arc::new(spec),
            )]))
            .await?
        {
            ApiAnswer::Submitted(jobs) if jobs.len() == 1 => Ok(jobs[0].id),
            other => bail!("a submission came to {other:?}"),
        }
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

    /// Does the same for a condition that only a durable change can bring about, at no cost
    /// meanwhile.
    ///
    /// # Errors
    /// It was not within this time.
    pub(super) async fn wait_for_change(
        &self,
        within: DurationMs,
        so: impl Fn(&Self) -> bool,
    ) -> Result<Timestamp> {
        let end = self.now() + within;
        while !so(self) {
            let left = Duration::from_millis(end.since(self.now()).0);
            if tokio::time::timeout(left, self.changed.notified())
                .await
                .is_err()
                && !so(self)
            {
                bail!("what was waited for did not come about within {within}");
            }
        }
        Ok(self.now())
    }

    /// Makes an actor of this kind panic from now on: at the next message, and so often in all as
    /// it begins anew. Returns true if actors of this build can panic.
    #[cfg(cospan_chaos)]
    pub(super) fn make_actors_panic(&self, kind: ActorKind, times: usize) -> bool {
        let mut left = times;
        set_panic_hook(Some(Box::new(move |effect, point| {
            let strikes = match point {
                CrashPoint::HandlerEntry => left == times && effect == kind.as_str(),
                CrashPoint::Started => left < times,
                _ => false,
            } && left > 0;
            left -= usize::from(strikes);
            strikes
        })));
        true
    }

    /// Does nothing: no actor of this build can panic.
    #[cfg(not(cospan_chaos))]
    pub(super) fn make_actors_panic(&self, _: ActorKind, _: usize) -> bool {
        false
    }

    /// Waits until these jobs have ended, and returns the time at which the last of them did.
    ///
    /// # Errors
    /// They have not within a day.
    pub(super) async fn until_ended(&self, jobs: &[JobId]) -> Result<Timestamp> {
        let day = DurationMs::from_secs(86_400);
        self.wait_until(day, |scene: &Self| {
            jobs.iter()
                .all(|id| scene.job_record(*id).is_ok_and(|job| job.is_final()))
        })
        .await
    }

    /// Lets so much time pass.
    pub(super) async fn pass(&self, length: DurationMs) {
        tokio::time::sleep(Duration::from_millis(length.0)).await;
    }

    /// Lists all calls that reached a site so far.
    pub(super) fn calls(&self) -> Vec<RecordedCall> {
        self.plane_run.call_faults.recorded_calls()
    }

    /// Returns how often each call was made so far.
    pub(super) fn call_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for called in self.calls() {
            *counts.entry(called.call).or_default() += 1;
        }
        counts
    }

    /// Lists all durable changes so far, and when each was reported.
    pub(super) fn changes(&self) -> Vec<ToldChange> {
        self.changes.borrow().clone()
    }
}

/// Lets every component of a job read this file.
pub(super) fn with_input(mut spec: JobSpec, file: usize) -> Result<JobSpec> {
    for component in &mut spec.components {
        let file = FileReference {
            name: file_name(file)?,
            bound: None,
        };
        let path = RelPath::new("input")?;
        component.inputs.push(InputSpec {
            file,
            path,
            feed: Default::default(),
        });
    }
    Ok(spec)
}

/// Lets every component of a job run at this site only.
pub(super) fn fixed_at(mut spec: JobSpec, site: usize) -> Result<JobSpec> {
    spec.request = RequestType::Fixed;
    for component in &mut spec.components {
        component.site = Some(site_name(site)?);
    }
    Ok(spec)
}
