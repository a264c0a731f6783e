//! Short ways to check what happened on a stage.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Result, bail};
use cospan_actors::journal::JournalChange;
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_state::Job;
use cospan_domain::units::{DurationMs, Timestamp};

use super::super::counters::shown_states;
use super::stage::{StagedScene, site_name};
use cospan_simulator::world::SiteIndex;
use cospan_simulator::world::site_faults::SiteFault;

/// Longest wait for anything, an hour.
const LONGEST: Duration = Duration::from_secs(3_600);

impl StagedScene {
    /// Checks that a value is as it was worked out.
    pub(super) fn check_same<T: PartialEq + Debug>(&self, what: &str, seen: T, expected: T) {
        self.check(seen == expected, || {
            format!("{what}: {seen:?} instead of {expected:?}")
        });
    }

    /// Checks that something happened at a time in milliseconds, or up to one call later: what is
    /// found out while a poll is under way is reported by the next.
    pub(super) fn check_by_next_call(&self, what: &str, seen: u64, expected: u64) {
        let in_time = (expected..=expected + 10).contains(&seen);
        self.check(in_time, || format!("{what}: {seen} instead of {expected}"));
    }

    /// Returns the times at which the site of this number got this call, in order.
    pub(super) fn call_times(&self, site: usize, call: &str) -> Result<Vec<Timestamp>> {
        let name = site_name(site)?;
        let calls = self.calls().into_iter();
        let calls = calls.filter(|called| called.site == name && called.call == call);
        Ok(calls.map(|called| called.at).collect())
    }

    /// Returns the same since a moment, in milliseconds after it.
    pub(super) fn call_times_since(
        &self,
        since: Timestamp,
        site: usize,
        call: &str,
    ) -> Result<Vec<u64>> {
        let times = self
            .call_times(site, call)?
            .into_iter()
            .filter(|at| *at >= since);
        Ok(times.map(|at| at.since(since).0).collect())
    }

    /// Lists all events of a job, change by change, with the time of each report.
    pub(super) fn events_of(&self, job: JobId) -> Vec<(Timestamp, Vec<JobEvent>)> {
        let changes = self.changes().into_iter();
        let of_job = changes.filter_map(|(at, change)| match &*change {
            JournalChange::Job { new, events, .. } if new.id == job => Some((at, events.clone())),
            _ => None,
        });
        of_job.collect()
    }

    /// Lists the events that became durable about a job, change by change, in milliseconds after a
    /// moment.
    pub(super) fn durable_course(
        &self,
        job: JobId,
        since: Timestamp,
    ) -> Vec<(u64, Vec<&'static str>)> {
        let told = self
            .events_of(job)
            .into_iter()
            .filter(|(at, _)| *at >= since);
        told.map(|(at, events)| {
            let names = events.iter().map(|event| event.what.name());
            (at.since(since).0, names.collect())
        })
        .collect()
    }

    /// Returns the first time of this event of a job.
    pub(super) fn first_event_at(&self, job: JobId, event: &str) -> Result<Timestamp> {
        let told = self.events_of(job).into_iter();
        let mut told = told.filter(|(_, events)| events.iter().any(|e| e.what.name() == event));
        let first = told.next().map(|(at, _)| at);
        first.ok_or_else(|| anyhow::anyhow!("{event} was never told of job {job}"))
    }

    pub(super) fn metrics(&self) -> &ControlPlaneMetrics {
        &self.plane_run.plane.shared().metrics
    }

    /// Returns how many calls were counted, by call and outcome.
    pub(super) fn counted_calls(&self, call: &str, outcome: &str) -> u64 {
        self.metrics()
            .site_calls
            .with_label_values(&[call, outcome])
            .get()
    }

    /// Notes a fault if the metrics do not show a site in this state, and in no other.
    pub(super) fn check_shown_state(&self, what: &str, site: usize, state: &str) -> Result<()> {
        let shown = shown_states(self.metrics(), site_name(site)?.as_str());
        self.check(shown == [state], || {
            format!("{what}: {shown:?} instead of {state}")
        });
        Ok(())
    }

    /// Returns the place of a site in the world.
    pub(super) fn site_index(&self, site: usize) -> Result<SiteIndex> {
        let name: SiteName = site_name(site)?;
        let index = self.plane_run.world.read(|world| world.index_of(&name));
        index.ok_or_else(|| anyhow::anyhow!("there is no site {name}"))
    }

    /// Plans a fault at a site after this time.
    pub(super) fn plan_fault(
        &self,
        after: DurationMs,
        site: usize,
        trouble: SiteFault,
    ) -> Result<()> {
        let now = self.now();
        let index = self.site_index(site)?;
        self.plane_run
            .world
            .act_at(now, |world| world.plan_fault(now + after, index, trouble));
        Ok(())
    }

    /// Waits until a job has ended.
    pub(super) async fn await_end(&self, job: JobId) -> Result<Timestamp> {
        self.await_job(job, Job::is_final).await
    }

    /// Waits until all payloads of a job have begun.
    pub(super) async fn await_start(&self, job: JobId) -> Result<Timestamp> {
        self.await_job(job, |job| job.instants.started.is_some())
            .await
    }

    /// Waits until a condition holds for a job, and returns the time at which that became durable.
    /// No scene waits for anything that takes longer than [`LONGEST`].
    async fn await_job(&self, job: JobId, so: impl Fn(&Job) -> bool) -> Result<Timestamp> {
        let mut stream = self.plane_run.plane.subscribe_to_changes();
        let comes = async {
            while !so(&*self.job_record(job)?) {
                stream.recv().await?;
            }
            Ok(self.now())
        };
        match tokio::time::timeout(LONGEST, comes).await {
            Ok(came) => came,
            Err(_) => bail!(
                "job {job} is still as it was: {:?}",
                self.job_record(job)?.phase
            ),
        }
    }
}
