//! Turns a store full of queued jobs into one whose jobs are in every phase. The decisions and
//! records are real, the sites are imagined.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result, bail};
use cospan_domain::ids::{ComponentIndex, JobId, LrmId, SiteName};
use cospan_domain::job::decide::decide;
use cospan_domain::job::evolve::evolve;
use cospan_domain::job::job_command::{
    AttemptSighting, JobCommand, SiteClockTimes, SubmissionAnswer,
};
use cospan_domain::job::job_event::JobEvent;
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::placed::Placement;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_storage::port::{AppendOutcome, CommitReport, JournalUnit, OpenedStore, UnitToken};
use cospan_storage::record::{RecordLoader, job, small_records};
use cospan_storage::{EngineKind, StoreOptions};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// The content of the forged store.
#[derive(Serialize, Deserialize)]
pub(super) struct ForgedStoreContent {
    /// Jobs that have not ended.
    pub(super) live: usize,
    /// The only job that fits a site.
    pub(super) fits: u64,
}

/// Makes one job in ten claim and one in ten run, and queues one more job that fits. The process
/// that writes is then killed, as a server would be.
pub(super) fn forge_in_subprocess(store: &Path) -> Result<ForgedStoreContent> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["forge-store", "--directory"]).arg(store);
    let output = command.stderr(Stdio::inherit()).output()?;
    if output.status.signal() != Some(Signal::KILL.as_raw()) {
        bail!("the store was not forged: {}", output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Forges a store, prints what it holds, and kills this process with signal 9.
///
/// # Errors
/// The store cannot be opened or written.
pub fn forge_store(store: &Path) -> Result<()> {
    let forged = forge_jobs(store)?;
    std::io::stdout().write_all(&serde_json::to_vec(&forged)?)?;
    std::io::stdout().flush()?;
    rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)?;
    Ok(())
}

fn forge_jobs(store: &Path) -> Result<ForgedStoreContent> {
    let (sender, reports) = channel();
    let sink = Arc::new(move |report| drop(sender.send(report)));
    let mut loader = RecordLoader::default();
    let mut damage = None;
    let opened = cospan_storage::open_and_load(
        store,
        &StoreOptions::new(EngineKind::Sled),
        sink,
        &mut |stored| {
            if damage.is_none() {
                damage = loader.take_stored_value(stored).err();
            }
        },
    )?;
    damage.map_or(Ok(()), Err)?;
    let jobs = loader.finish()?.jobs;
    let now = jobs
        .iter()
        .map(|job| job.submitted_at)
        .max()
        .unwrap_or_default();
    let mut units = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let (next, events) = match index % 10 {
            0 => claim_job(job, now)?,
            1 => run_job(job, now)?,
            _ => continue,
        };
        units.push(JournalUnit {
            changes: job::update_changes(job, &next, &events)?,
        });
    }
    let small = small_job(&jobs, now)?;
    units.push(JournalUnit {
        changes: job::submission_changes(&small)?,
    });
    units.push(JournalUnit {
        changes: vec![small_records::put_next_job(JobId(small.id.0 + 1))?],
    });
    write_units(&opened, &reports, units)?;
    // Neither closed nor dropped: the store must not contain what closing would write.
    std::mem::forget(opened);
    Ok(ForgedStoreContent {
        live: jobs.len() + 1,
        fits: small.id.0,
    })
}

fn write_units(
    opened: &OpenedStore,
    reports: &Receiver<CommitReport>,
    units: Vec<JournalUnit>,
) -> Result<()> {
    let count = units.len();
    for (token, unit) in units.into_iter().enumerate() {
        opened
            .journal
            .append(opened.epoch, UnitToken(token as u64), unit);
    }
    let mut done = 0;
    while done < count {
        match reports.recv().context("the store ended")? {
            CommitReport::Fatal(problem) => bail!("the store failed: {problem}"),
            CommitReport::Group(group) => {
                for (_, outcome) in &group.outcomes {
                    if !matches!(outcome, AppendOutcome::Committed(_)) {
                        bail!("a record was not written: {outcome:?}");
                    }
                }
                done += group.outcomes.len();
            }
        }
    }
    Ok(())
}

/// A job with the events of all commands that were applied to it.
struct ForgedJob {
    job: Job,
    events: Vec<JobEvent>,
    now: Timestamp,
}

impl ForgedJob {
    fn apply_command(&mut self, command: JobCommand) -> Result<()> {
        let decided = decide(&self.job, &JobParameters::default(), command, self.now)?;
        decided
            .iter()
            .for_each(|event| evolve(&mut self.job, event));
        self.events.extend(decided);
        Ok(())
    }

    /// Applies the command to each component in turn.
    fn apply_to_each(
        &mut self,
        command: impl Fn(ComponentIndex, &Job) -> JobCommand,
    ) -> Result<()> {
        for index in 0..self.job.components.len() as u32 {
            let command = command(ComponentIndex(index), &self.job);
            self.apply_command(command)?;
        }
        Ok(())
    }

    fn into_parts(mut self) -> (Job, Vec<JobEvent>) {
        self.job.revision += 1;
        (self.job, self.events)
    }
}

fn place_job(job: &Job, now: Timestamp) -> Result<ForgedJob> {
    let mut life = ForgedJob {
        job: job.clone(),
        events: Vec::new(),
        now,
    };
    life.apply_command(JobCommand::Place {
        placements: vec![make_placement("north")?, make_placement("south")?],
        by: None,
    })?;
    Ok(life)
}

fn make_placement(site: &str) -> Result<Placement> {
    Ok(Placement {
        site: SiteName::new(site)?,
        sources: Vec::new(),
        transfer_time: DurationMs::ZERO,
        share: None,
        acquisition: Default::default(),
    })
}

fn claim_job(job: &Job, now: Timestamp) -> Result<(Job, Vec<JobEvent>)> {
    Ok(place_job(job, now)?.into_parts())
}

fn run_job(job: &Job, now: Timestamp) -> Result<(Job, Vec<JobEvent>)> {
    let mut life = place_job(job, now)?;
    let lrm_id = LrmId::new("forged")?;
    life.apply_to_each(|component, job| JobCommand::SubmitAnswered {
        component,
        attempt: job.components[component.0 as usize].attempt,
        answer: SubmissionAnswer::Accepted(lrm_id.clone()),
    })?;
    for sighting in [
        AttemptSighting::Ready("host".into()),
        AttemptSighting::Begun("host".into()),
    ] {
        life.apply_to_each(|component, job| JobCommand::AttemptObserved {
            component,
            attempt: job.components[component.0 as usize].attempt,
            asked_at: now,
            times: SiteClockTimes::default(),
            sighting: sighting.clone(),
        })?;
    }
    if !matches!(life.job.phase, JobPhase::Running { .. }) {
        bail!("a forged job is {:?} instead of running", life.job.phase);
    }
    Ok(life.into_parts())
}

/// Builds a job of one processor for any site, first in its queue.
fn small_job(jobs: &[Job], now: Timestamp) -> Result<Job> {
    let last = jobs.last().context("the store holds no jobs")?;
    let mut small = last.clone();
    small.id = JobId(last.id.0 + 1);
    let spec = Arc::make_mut(&mut small.spec);
    spec.components.truncate(1);
    spec.components[0].resources = Resources::processors(1);
    small.phase = JobPhase::Queued {
        since: now,
        not_before: Timestamp(0),
    };
    small.revision = 1;
    small.idempotency = None;
    Ok(small)
}
