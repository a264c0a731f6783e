//! Follows the job through the public interface, and prints its events.

use std::time::{Duration, Instant};

use super::demo_server::DemoServer;
use super::narrator::{DemoNarrator, bad, good, progress_bar};
use super::quickstart_error::QuickstartError;
use cospan_api::v1::event::EventReport;
use cospan_api::v1::explain::TransferReport;
use cospan_api::v1::job::{ComponentReport, JobReport};
use cospan_client::{ClientError, LogRequest};

/// Time between two polls of the job.
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// Longest wait for the job; a machine may be busy.
const JOB_MAX: Duration = Duration::from_secs(240);
/// Longer than the log of a component of the demonstration.
const LOG_MAX: u32 = 64 << 10;

/// The job that is followed.
pub(super) struct DemoJobFollower<'s> {
    server: &'s DemoServer,
    job: u64,
    seen: usize,
    /// Parts of the work of each component, with a line of its output each.
    parts: usize,
    begin: Instant,
}

/// The result of one poll.
pub(super) struct JobPollResult {
    pub(super) job: JobReport,
    /// Events since the last poll.
    pub(super) new: Vec<EventReport>,
}

impl JobPollResult {
    /// Returns true if this event has come since the last poll.
    pub(super) fn has_event(&self, event: &str) -> bool {
        self.new.iter().any(|new| new.event == event)
    }
}

impl<'s> DemoJobFollower<'s> {
    /// `parts`: the parts of each component's work; it prints a line for each.
    pub(super) fn new(server: &'s DemoServer, job: u64, parts: usize) -> Self {
        Self {
            server,
            job,
            parts,
            seen: 0,
            begin: Instant::now(),
        }
    }

    /// Polls the job and prints the events since the last poll.
    ///
    /// # Errors
    /// The job failed, the server ended, or it takes too long.
    pub(super) fn poll_job(
        &mut self,
        teller: &mut DemoNarrator,
    ) -> Result<JobPollResult, QuickstartError> {
        let look = self.read_job()?;
        for event in &look.new {
            if let Some(text) = describe_event(event, &look.job) {
                teller.print_event(&text)?;
            }
        }
        let phase = &look.job.phase;
        if phase.is_final() && phase.state != "finished" {
            let reason = phase
                .reason
                .clone()
                .unwrap_or_else(|| "no reason is known".into());
            return Err(QuickstartError::JobEnded {
                state: phase.state.clone(),
                reason,
            });
        }
        self.server.check_time("the job", self.begin, JOB_MAX)?;
        Ok(look)
    }

    /// Waits a little before the next poll.
    pub(super) fn pause_briefly(&self) {
        std::thread::sleep(LOOK_EVERY);
    }

    fn read_job(&mut self) -> Result<JobPollResult, QuickstartError> {
        // The history first: the job is at least as new.
        let history = self.server.call_server(|client| client.history(self.job))?;
        let job = self.server.call_server(|client| client.job(self.job))?;
        let new = history.events.get(self.seen..).unwrap_or_default().to_vec();
        self.seen = history.events.len();
        Ok(JobPollResult { job, new })
    }

    /// Prints the progress of the transfers.
    pub(super) fn show_transfers(&self, teller: &mut DemoNarrator) -> Result<(), QuickstartError> {
        let explained = self.server.call_server(|client| client.explain(self.job))?;
        let far: Vec<&TransferReport> = explained
            .transfers
            .iter()
            .filter(|transfer| transfer.from != transfer.site)
            .collect();
        if far.is_empty() {
            return Ok(());
        }
        teller.show_progress(
            &join_transfer_texts(&far, 1),
            &join_transfer_texts(&far, 25),
        )
    }

    /// Prints the progress of the components, and returns the parts that each has done.
    pub(super) fn show_progress(
        &self,
        teller: &mut DemoNarrator,
        job: &JobReport,
    ) -> Result<Vec<usize>, QuickstartError> {
        let parts: Vec<usize> = job
            .components
            .iter()
            .map(|component| self.count_parts(component))
            .collect::<Result<_, _>>()?;
        let texts: Vec<String> = job
            .components
            .iter()
            .zip(&parts)
            .map(|(component, done)| {
                let bar = progress_bar(*done as u64, self.parts as u64);
                format!("{} {bar} {done}/{}", component.name, self.parts)
            })
            .collect();
        let least = parts.iter().min().copied().unwrap_or_default();
        let rough = format!("every component has done {least} of {} parts", self.parts);
        teller.show_progress(&texts.join("  "), &rough)?;
        Ok(parts)
    }

    /// Waits until every component has done this many parts.
    pub(super) fn wait_for_parts(
        &mut self,
        parts: usize,
        teller: &mut DemoNarrator,
    ) -> Result<JobReport, QuickstartError> {
        loop {
            let look = self.poll_job(teller)?;
            if self
                .show_progress(teller, &look.job)?
                .iter()
                .all(|done| *done >= parts)
            {
                return Ok(look.job);
            }
            self.pause_briefly();
        }
    }

    /// Parts that a component has done, by its log.
    fn count_parts(&self, component: &ComponentReport) -> Result<usize, QuickstartError> {
        let printed = self.read_output(component)?;
        Ok(printed.iter().filter(|byte| **byte == b'\n').count())
    }

    /// The output of a component so far.
    pub(super) fn read_output(
        &self,
        component: &ComponentReport,
    ) -> Result<Vec<u8>, QuickstartError> {
        if component.attempt == 0 {
            return Ok(Vec::new());
        }
        let log = LogRequest {
            job: self.job,
            component: &component.name,
            stream: "stdout",
            attempt: Some(component.attempt),
            offset: 0,
            limit: LOG_MAX,
        };
        match self.server.client.read_log(&log) {
            Ok(piece) => Ok(piece.bytes),
            // It has not printed anything yet, or its site does not answer.
            Err(ClientError::Refused(_)) => Ok(Vec::new()),
            Err(error) => self.server.call_server(|_| Err(error)),
        }
    }
}

fn transfer_text(transfer: &TransferReport, step: u64) -> String {
    let size = transfer.size_bytes.max(1);
    let percent = transfer.done_bytes.min(size).saturating_mul(100) / size;
    let percent = if transfer.here {
        100
    } else {
        percent.min(99) / step * step
    };
    let bar = progress_bar(percent, 100);
    format!("to {} {bar} {percent:>3} %", transfer.site)
}

fn join_transfer_texts(far: &[&TransferReport], step: u64) -> String {
    let texts: Vec<String> = far
        .iter()
        .map(|transfer| transfer_text(transfer, step))
        .collect();
    format!("from {}  {}", far[0].from, texts.join("  "))
}

/// The site of a component, or a dash.
pub(super) fn site_of(component: &ComponentReport) -> &str {
    component.site.as_deref().unwrap_or("-")
}

/// The components with their sites: `count at amsterdam, tally at berlin`.
fn describe_sites(event: &EventReport, job: &JobReport) -> String {
    let pairs = job.components.iter().zip(&event.sites);
    let texts: Vec<String> = pairs
        .map(|(component, site)| format!("{} at {site}", component.name))
        .collect();
    texts.join(", ")
}

/// Describes an event in words; `None` for those that only the curious want to know.
fn describe_event(event: &EventReport, job: &JobReport) -> Option<String> {
    let component = event
        .component
        .and_then(|index| job.components.get(usize::try_from(index).ok()?));
    let name = component.map_or("a component", |component| component.name.as_str());
    let detail = event.detail.as_deref().unwrap_or_default();
    Some(match event.event.as_str() {
        "JobPlaced" => format!(
            "round {}: {}",
            event.round.unwrap_or(0),
            describe_sites(event, job)
        ),
        "InputsArrived" => "all input is at its sites, whole and checked".into(),
        "ClaimBegun" => "claiming: each component is submitted to its site".into(),
        "ComponentReady" => format!("{name} holds its processors and waits at its gate"),
        "GoDecided" => "all are at their gates: the common start is decided and durable".into(),
        "JobStarted" => good("all components have begun together"),
        "SiteCharged" => bad(&format!(
            "error charged to {}: {detail}",
            event.sites.join(", ")
        )),
        "RoundAborted" => format!("the round is given up: {detail}"),
        "AttemptEnded" => match event.state.as_deref() {
            Some("killed") => format!("{name} is ended, so that nothing runs twice"),
            Some("abandoned") => format!("{name} is abandoned: its site is gone"),
            Some("succeeded") => format!("{name} succeeded"),
            Some(other) => format!("{name}: {other}"),
            None => return None,
        },
        "JobRequeued" => "the job is back in its queue, and will be placed again".into(),
        "JobFinished" => good("the job has finished"),
        _ => return None,
    })
}
