//! `cospan wait`: waits until jobs have ended, by the stream of changes, or by asking now and then
//! where there is no stream.

mod wait_many;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::stderr_tail;
use crate::cli::args_job::WaitArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::interrupt::set_interrupt_hint;
use crate::cli::print::{color_state, print_note, single_line};
use cospan_api::v1::Length;
use cospan_api::v1::job::PhaseReport;
use cospan_api::v1::stderr_tail::LastWordsReport;
use cospan_client::{ChangeStream, Client, ClientError, StreamEvent};

/// Longest time without a look at the jobs, even if the stream is silent.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);
/// Time between two looks without a stream.
const POLL: Duration = Duration::from_secs(1);
/// Largest number of failed jobs whose last words are printed.
const TOLD: usize = 3;
/// Longest absence of the server while we wait.
const AWAY: Duration = Duration::from_secs(120);

/// The conditions that end the wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitConditions {
    /// End once the first job has ended.
    pub(crate) any: bool,
    /// End after this time.
    pub(crate) timeout: Option<Length>,
}

/// The end of a job, or its state if it has not ended.
#[derive(Debug, Clone, Serialize)]
struct WaitOutcome {
    id: u64,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The last error output of its failed components, for the first jobs that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    last_words: Vec<LastWordsReport>,
}

pub(crate) fn run(context: &mut CommandContext, args: &WaitArgs) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let ids = context.resolve_ids(&client, &args.ids)?;
    wait_for(
        context,
        &client,
        &ids,
        &WaitConditions {
            any: args.any,
            timeout: args.timeout,
        },
    )
}

/// Waits for these jobs, prints how they ended, and returns the exit code.
pub(crate) fn wait_for(
    context: &mut CommandContext,
    client: &Client,
    ids: &[u64],
    until: &WaitConditions,
) -> Result<CliExitCode, CliError> {
    set_interrupt_hint(match ids {
        [id] => format!("job {id} goes on; wait again with: cospan wait {id}"),
        _ => format!(
            "the {} jobs go on; wait for them again whenever you like",
            ids.len()
        ),
    });
    let deadline = until
        .timeout
        .map(|Length(length)| Instant::now() + Duration::from_millis(length.0));
    let mut watch = JobWaiter {
        client,
        only: if let [id] = ids { Some(*id) } else { None },
        phases: BTreeMap::new(),
        stream: None,
        deadline,
        reached: Instant::now(),
        many: (ids.len() > wait_many::MANY).then(|| wait_many::WaitProgress::new(ids.len())),
    };
    let in_time = watch.wait_until_ended(ids, until.any)?;
    let mut outcomes: Vec<WaitOutcome> = ids
        .iter()
        .filter_map(|id| watch.outcome_of_job(*id))
        .collect();
    let failed = outcomes
        .iter_mut()
        .filter(|outcome| outcome.state == "failed");
    failed
        .take(TOLD)
        .for_each(|outcome| outcome.last_words = stderr_tail::read_last_words(client, outcome.id));
    context.out.print_answer(&outcomes, |outcomes| {
        if outcomes.len() > wait_many::MANY {
            wait_many::format_outcomes(outcomes)
        } else {
            outcomes.iter().map(format_outcome).collect()
        }
    })?;
    if !in_time {
        print_note("timed out; the jobs go on");
        return Ok(CliExitCode::TimedOut);
    }
    Ok(exit_code_for_states(
        outcomes.iter().map(|outcome| outcome.state.as_str()),
    ))
}

/// Failed before cancelled before done; unfinished jobs do not count.
fn exit_code_for_states<'s>(states: impl Iterator<Item = &'s str> + Clone) -> CliExitCode {
    if states.clone().any(|state| state == "failed") {
        CliExitCode::JobFailed
    } else if states.clone().any(|state| state == "cancelled") {
        CliExitCode::Cancelled
    } else {
        CliExitCode::Done
    }
}

fn format_outcome(outcome: &WaitOutcome) -> String {
    let reason = outcome
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let words = stderr_tail::format_indented(&outcome.last_words);
    single_line(&format!(
        "job {} {}{reason}",
        outcome.id,
        color_state(&outcome.state)
    )) + &words
}

/// Formats where a job stands, and why if that is told.
fn format_phase(id: u64, phase: &PhaseReport) -> String {
    let reason = phase
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    single_line(&format!("job {id} {}{reason}", color_state(&phase.state)))
}

struct JobWaiter<'c> {
    client: &'c Client,
    /// The job, if it is the only one.
    only: Option<u64>,
    phases: BTreeMap<u64, PhaseReport>,
    stream: Option<ChangeStream>,
    deadline: Option<Instant>,
    reached: Instant,
    /// The common progress of many jobs.
    many: Option<wait_many::WaitProgress>,
}

impl JobWaiter<'_> {
    /// Returns true if the jobs ended before the deadline.
    fn wait_until_ended(&mut self, ids: &[u64], any: bool) -> Result<bool, CliError> {
        let mut first = true;
        let mut due: Vec<u64> = ids.to_vec();
        loop {
            // The stream is opened before the look, so that no change is missed in between.
            self.open_stream();
            match self.poll_jobs(&due) {
                Ok(()) => self.reached = Instant::now(),
                Err(error) if !first && error.is_temporary() && self.reached.elapsed() < AWAY => {
                    print_note(&format!("{error}; still waiting"));
                    self.stream = None;
                }
                Err(error) => return Err(error.into()),
            }
            first = false;
            let phases = &self.phases;
            let left = ids
                .iter()
                .filter(|id: &&u64| !phases.get(id).is_some_and(PhaseReport::is_final))
                .count();
            if left == 0 || (any && left < ids.len()) {
                return Ok(true);
            }
            if self.remaining_time() == Some(Duration::ZERO) {
                return Ok(false);
            }
            due = self.wait_for_changed_jobs(ids);
            let phases = &self.phases;
            due.retain(|id| !phases.get(id).is_some_and(PhaseReport::is_final));
        }
    }

    fn remaining_time(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn open_stream(&mut self) {
        if self.stream.is_none() && self.many.is_none() {
            let silence = self
                .remaining_time()
                .unwrap_or(LOOK_ANYWAY)
                .clamp(Duration::from_millis(10), LOOK_ANYWAY);
            // Without a stream the jobs are asked for now and then.
            self.stream = self.client.stream_changes(self.only, silence).ok();
        }
    }

    fn poll_jobs(&mut self, ids: &[u64]) -> Result<(), ClientError> {
        if self.many.is_some() {
            return self.poll_many_jobs(ids);
        }
        for &id in ids {
            let phase = self.client.phase(id)?;
            let before = self.phases.insert(id, phase.clone());
            let is_news = before.is_none_or(|before: PhaseReport| {
                before.state != phase.state || before.reason != phase.reason
            });
            if is_news && !phase.is_final() {
                print_note(&format_phase(id, &phase));
            }
        }
        Ok(())
    }

    /// Returns the jobs to look at next, once a job has changed, or when it is time.
    fn wait_for_changed_jobs(&mut self, ids: &[u64]) -> Vec<u64> {
        let Some(stream) = &mut self.stream else {
            let rest = self
                .many
                .as_ref()
                .map_or(POLL, wait_many::WaitProgress::poll_pause);
            std::thread::sleep(self.remaining_time().unwrap_or(rest).min(rest));
            return ids.to_vec();
        };
        loop {
            match stream.next_change() {
                Ok(Some(StreamEvent::Change(change))) => {
                    if ids.contains(&change.job) {
                        return vec![change.job];
                    }
                }
                Ok(Some(StreamEvent::Resync)) => return ids.to_vec(),
                Ok(None) | Err(_) => {
                    // The stream ended, was silent or broke: open a new one, and look at
                    // everything.
                    self.stream = None;
                    let pause = self
                        .remaining_time()
                        .unwrap_or(POLL)
                        .min(Duration::from_millis(100));
                    std::thread::sleep(pause);
                    return ids.to_vec();
                }
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                return ids.to_vec();
            }
        }
    }

    fn outcome_of_job(&self, id: u64) -> Option<WaitOutcome> {
        let phase = self.phases.get(&id)?;
        let state = phase.state.clone();
        let reason = phase.reason.clone();
        Some(WaitOutcome {
            id,
            state,
            reason,
            last_words: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_weighs_more_than_a_cancellation() {
        let exit = |states: &[&str]| exit_code_for_states(states.iter().copied());
        assert_eq!(exit(&["finished", "finished"]), CliExitCode::Done);
        assert_eq!(exit(&["finished", "cancelled"]), CliExitCode::Cancelled);
        assert_eq!(exit(&["cancelled", "failed"]), CliExitCode::JobFailed);
        assert_eq!(exit(&["finished", "running"]), CliExitCode::Done);
    }
}
