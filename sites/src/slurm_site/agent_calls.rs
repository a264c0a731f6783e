//! The calls of the port as requests to the agent.

use std::time::Duration;

use cospan_domain::ids::{AttemptTag, LrmId};
use cospan_domain::units::{DurationMs, Timestamp};

use super::attempt_numbers::AttemptNumbers;
use super::errors;
use super::options::{LANES, job_name, limits_for, sbatch_options};
use super::polls::{FILES_SETTLE, note_duration};
use super::queue::{self, SlurmJob};
use super::{
    SELDOM, SlurmClusterFacts, SlurmSite, nodes, parse_kill_wait, payload_grace, slurm_setting,
    version_tells_runs,
};
use crate::agent::{SiteAgentAnswer, SiteAgentError, SiteAgentRequest};
use crate::local_site::attempt_root::unique_word;
use crate::port::{
    AcceptedAttempt, AttemptSubmitRequest, FoundSubmission, GateDecision, GateState, GoDecision,
    SiteCapabilities, SiteDescription, SiteError, TagLookupAnswer,
};
use crate::wrapper::parameters::{
    WrapperParameterFiles, WrapperTimings, encode_go_for_site, make_parameter_files,
    void_first_line,
};
use crate::wrapper::{SCRIPT, state_files, wrapper_script_name};

/// The script for `sbatch`: it calls the wrapper, because that must not be copied
/// into the spool of every node.
const STUB: &str = include_str!("../slurm/stub.sh");

fn stub_script_name() -> String {
    format!("stub-{}.sh", &blake3::hash(STUB.as_bytes()).to_hex()[..16])
}

impl SlurmSite {
    pub(super) async fn describe_site(&self) -> Result<SiteDescription, SiteError> {
        self.keep_root().await?;
        let answer = self
            .agent
            .send_request(&["describe"], SiteAgentRequest::default())
            .await?;
        let load = self.partition_load(&answer)?;
        *self.lock_facts() = Some(SlurmClusterFacts {
            kill_wait: slurm_setting(&answer, "KillWait").and_then(parse_kill_wait),
            amounts: nodes::partition_amounts(&answer, self.config.partition.as_deref()),
            lanes: self.read_partitions(&answer),
            counts_disk: nodes::counts_disk(&answer),
            tells_runs: slurm_setting(&answer, "SLURM_VERSION").is_some_and(version_tells_runs),
            counts_memory: slurm_setting(&answer, "SelectTypeParameters")
                .is_some_and(|kinds| kinds.to_ascii_uppercase().contains("MEMORY")),
        });
        let mut labels = nodes::site_labels(&answer);
        for (key, values) in &self.config.labels {
            labels
                .entry(key.clone())
                .or_default()
                .extend(values.iter().cloned());
        }
        let mut total = self.usable_total();
        // A job that waits for nodes which are drained now may fit later.
        total.processors = total.processors.min(load.whole);
        Ok(SiteDescription {
            largest_component: total.clone(),
            total,
            labels,
            capabilities: SiteCapabilities {
                queues: self.config.queues,
                queues_only: self.config.queues_only,
                reservations: self.config.reservations,
            },
            lanes: Some(self.read_partitions(&answer)),
            manager: format!(
                "Slurm {}, cluster {}{}{}",
                slurm_setting(&answer, "SLURM_VERSION").unwrap_or("?"),
                slurm_setting(&answer, "ClusterName").unwrap_or("?"),
                untracked_note(slurm_setting(&answer, "ProctrackType")),
                drained_note(answer.values_of("drained"))
            ),
        })
    }

    /// Parses the jobs of an answer that are ours, which may say itself who was given what number.
    pub(super) fn own_jobs(&self, answer: &SiteAgentAnswer) -> Vec<SlurmJob> {
        let mut numbers = self.lock_reports().numbers.clone();
        for line in answer.values_of("given") {
            if let Some((tag, number)) = line.split_once(' ')
                && let Ok(tag) = tag.parse()
            {
                numbers.note_number(tag, number, super::steady_now());
            }
        }
        self.parse_jobs(answer, &numbers)
    }

    /// Parses the jobs of an answer that are ours, given these numbers.
    pub(super) fn parse_jobs(
        &self,
        answer: &SiteAgentAnswer,
        numbers: &AttemptNumbers,
    ) -> Vec<SlurmJob> {
        let root = self.config.root.to_str().unwrap_or_default();
        answer
            .values_of("queue")
            .filter_map(|line| SlurmJob::parse_job(line, root, numbers))
            .collect()
    }

    pub(super) fn partition_load(
        &self,
        answer: &SiteAgentAnswer,
    ) -> Result<queue::PartitionLoad, SiteError> {
        let partition = self.config.partition.as_deref();
        queue::sum_load(answer.values_of("load"), partition).ok_or_else(|| {
            SiteError::Refused(match partition {
                Some(name) => format!("Slurm has no partition {name}"),
                None => "Slurm has no default partition; name one".to_owned(),
            })
        })
    }

    /// Returns what Slurm reports of itself; asks it if it never was asked.
    pub(super) async fn known_facts(&self) -> Result<SlurmClusterFacts, SiteError> {
        let known = self.lock_facts().clone();
        if let Some(facts) = known {
            return Ok(facts);
        }
        self.describe_site().await?;
        Ok(self.lock_facts().clone().unwrap_or_default())
    }

    /// Returns the time from TERM to KILL: shorter than what Slurm gives a job itself.
    async fn current_grace(&self) -> Result<DurationMs, SiteError> {
        Ok(payload_grace(
            self.config.grace,
            self.known_facts().await?.kill_wait,
        ))
    }

    pub(super) async fn submit_attempt(
        &self,
        order: &AttemptSubmitRequest,
    ) -> Result<AcceptedAttempt, SiteError> {
        let facts = self.known_facts().await?;
        let lane = facts
            .lanes
            .own
            .overridden_by(&LANES.parse_options(&order.lrm_options));
        let elsewhere = facts
            .lanes
            .foreign_partition(&lane)
            .map(|partition| facts.lanes.usable_total(partition));
        let total = elsewhere.unwrap_or_else(|| self.usable_total());
        if let Some(shortage) = total.first_shortage(&order.resources) {
            return Err(SiteError::Refused(format!(
                "the attempt {shortage} at most"
            )));
        }
        self.check_reservation_lasts(&lane, order)?;
        let root = self.config.root.display().to_string();
        let longest = facts.lanes.longest_time_in(&lane);
        let limits = limits_for(&self.config, order, longest, facts.counts_disk);
        let options = sbatch_options(&self.config, order, &root, limits)?;
        let pace = WrapperTimings {
            hold_max: limits.hold_max,
            wall_time: order.wall_time,
            grace: payload_grace(self.config.grace, facts.kill_wait),
            poll: self.config.poll,
            seldom: Some(SELDOM),
            warning: order.warning,
        };
        let written = make_parameter_files(order, &self.config.root, &pace, &self.config.seal);
        let tag = order.tag.to_string();
        let stub = stub_script_name();
        let wrapper = wrapper_script_name();
        let words = [
            "submit".to_owned(),
            tag,
            stub,
            wrapper,
            self.agent.command_limit(),
        ];
        let words = [&words[..], &options].concat();
        let request = build_request(order, &written);
        let answer = match self.agent.send_request(&words, request).await {
            Err(SiteAgentError::NotInstalled) => {
                self.install_scripts().await?;
                let request = build_request(order, &written);
                self.agent.send_request(&words, request).await?
            }
            answer => answer?,
        };
        let submitted = read_submission(&answer, !order.lrm_options.is_empty())
            .map_err(|error| errors::error_with_reservation(order.reservation.is_some(), error))?;
        self.note_submission(order, &submitted);
        Ok(submitted)
    }

    async fn install_scripts(&self) -> Result<(), SiteError> {
        let mut request = SiteAgentRequest::default();
        request.push_file(&stub_script_name(), STUB.as_bytes());
        request.push_file(&wrapper_script_name(), SCRIPT.as_bytes());
        self.agent
            .send_request(&["install"], request.finish_request())
            .await?;
        Ok(())
    }

    pub(super) async fn find_submissions(
        &self,
        tag: AttemptTag,
    ) -> Result<TagLookupAnswer, SiteError> {
        let answer = self
            .agent
            .send_request(&["find", &tag.to_string()], SiteAgentRequest::default())
            .await?;
        let known = answer.last_value("number");
        let jobs = self.own_jobs(&answer).into_iter();
        // A job that is over and never got its directory cannot be adopted.
        let ours =
            jobs.filter(|job| job.tag == tag && (job.is_active() || known == Some(&job.number)));
        let mut found = Vec::new();
        for job in ours {
            found.push(FoundSubmission {
                lrm_id: lrm_id(&job.number)?,
                submitted_at: job.submitted_at,
            });
        }
        if let (Some(number), true) = (known, found.is_empty()) {
            let submitted_at = Timestamp::default();
            found.push(FoundSubmission {
                lrm_id: lrm_id(number)?,
                submitted_at,
            });
        }
        Ok(TagLookupAnswer { found })
    }

    pub(super) async fn decide_at_gate(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let name = tag.to_string();
        let nonce = unique_word();
        let answer = match decision {
            GateDecision::Void => {
                self.agent
                    .send_request(&["gate", &name, "void", &nonce], self.void_request(tag))
                    .await?
            }
            GateDecision::Go(go) => {
                let start_by = self.lock_reports().time.to_clock_time(go.start_by);
                let text = encode_go_for_site(&GoDecision {
                    start_by,
                    ..go.clone()
                });
                let wait_ms = go.start_at.since(super::steady_now()).0.to_string();
                let length = text.len().to_string();
                let words = ["gate", &name, "go", &nonce, &wait_ms, &length];
                self.agent
                    .send_request(&words, SiteAgentRequest::from_bytes(text))
                    .await?
            }
        };
        let verdict = answer.last_value("verdict").ok_or_else(|| {
            SiteError::OutcomeUnknown(format!("the decision of {tag} was not told"))
        })?;
        // Only an open gate let in a payload that could replace the decision.
        let decided = state_files::parse_decision_line(verdict, tag, &self.config.seal);
        Ok(decided.unwrap_or(GateState::Opened))
    }

    fn void_request(&self, tag: AttemptTag) -> SiteAgentRequest {
        SiteAgentRequest::from_bytes(
            format!("{}\n", void_first_line(tag, &self.config.seal)).into_bytes(),
        )
    }

    pub(super) async fn end_attempt(&self, tag: AttemptTag) -> Result<(), SiteError> {
        // After its grace the wrapper has recorded its end, or never will.
        let patience = Duration::from_millis(self.current_grace().await?.0) + FILES_SETTLE;
        let told = self
            .lock_cancelled_at()
            .get(&tag)
            .map(|since| since.elapsed());
        let how = if told.is_some_and(|told| told > patience) {
            "late"
        } else {
            "gently"
        };
        let name = tag.to_string();
        let nonce = unique_word();
        let words = ["cancel", &name, how, &nonce];
        let answer = self
            .agent
            .send_request(&words, self.void_request(tag))
            .await;
        self.forget_queue();
        answer?;
        // Before this the request may not have arrived, and its grace has not begun.
        note_duration(&mut self.lock_cancelled_at(), tag, true);
        Ok(())
    }

    pub(super) async fn remove_remains(&self, tag: AttemptTag) -> Result<(), SiteError> {
        let words = ["remove", &tag.to_string(), &unique_word()];
        self.agent
            .send_request(&words, SiteAgentRequest::default())
            .await?;
        self.lock_over_since().remove(&tag);
        self.lock_cancelled_at().remove(&tag);
        self.forget_attempt(tag);
        Ok(())
    }

    pub(super) async fn list_tags(&self) -> Result<Vec<AttemptTag>, SiteError> {
        let answer = self
            .agent
            .send_request(&["list"], SiteAgentRequest::default())
            .await?;
        let named = answer
            .values_of("name")
            .filter_map(|name| name.parse().ok());
        let queued = self
            .own_jobs(&answer)
            .into_iter()
            .filter(SlurmJob::is_active);
        let mut tags: Vec<AttemptTag> = named.chain(queued.map(|job| job.tag)).collect();
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }
}

fn build_request(
    order: &AttemptSubmitRequest,
    written: &WrapperParameterFiles,
) -> SiteAgentRequest {
    let mut request = SiteAgentRequest::default();
    if let Some(inputs) = &written.inputs {
        request.push_file("inputs", inputs);
    }
    request.push_text("params", &written.params);
    request.push_text("name", format!("{}\n", job_name(order)).as_bytes());
    request.finish_request()
}

/// Returns a note for people if Slurm does not find all processes of a job that it ends.
fn untracked_note(tracking: Option<&str>) -> String {
    match tracking {
        None | Some("" | "proctrack/cgroup") => String::new(),
        Some(kind) => {
            format!(" ({kind}: what leaves its session is ended by Cospan's wrapper, not by Slurm)")
        }
    }
}

/// Most reasons that are shown why nodes are out of service.
const MOST_REASONS: usize = 3;

/// Returns a note for people about nodes that Slurm gives to nobody, with its reasons.
fn drained_note<'a>(drained: impl Iterator<Item = &'a str>) -> String {
    let nodes: Vec<&str> = drained.collect();
    let told = nodes.iter().take(MOST_REASONS).copied();
    let told = told.collect::<Vec<_>>().join("; ");
    match nodes.len() {
        0 => String::new(),
        count if count > MOST_REASONS => {
            format!(
                "; out of service: {told}; {} more reasons",
                count - MOST_REASONS
            )
        }
        _ => format!("; out of service: {told}"),
    }
}

fn read_submission(answer: &SiteAgentAnswer, has_own: bool) -> Result<AcceptedAttempt, SiteError> {
    if let Some(number) = answer.last_value("number") {
        return Ok(AcceptedAttempt {
            lrm_id: lrm_id(number)?,
        });
    }
    let said: Vec<&str> = answer.values_of("said").collect();
    let code = answer
        .last_value("code")
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    Err(match code {
        0 => SiteError::OutcomeUnknown(format!("sbatch gave no number: {}", said.join("; "))),
        code => errors::submission_error(code, &said, has_own),
    })
}

fn lrm_id(number: &str) -> Result<LrmId, SiteError> {
    LrmId::new(number).map_err(|error| SiteError::OutcomeUnknown(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_out_of_service_are_told_with_the_first_reasons() {
        let note = |told: &[&str]| drained_note(told.iter().copied());
        assert_eq!(note(&[]), "");
        assert_eq!(
            note(&["n[1-2]: Duplicate jobid", "n7: Not responding"]),
            "; out of service: n[1-2]: Duplicate jobid; n7: Not responding"
        );
        assert_eq!(
            note(&["a: 1", "b: 2", "c: 3", "d: 4", "e: 5"]),
            "; out of service: a: 1; b: 2; c: 3; 2 more reasons"
        );
    }
}
