//! The calls of the port as requests to the agent.

use std::time::Duration;

use cospan_domain::ids::{AttemptTag, LrmId};
use cospan_domain::units::{DurationMs, Timestamp};

use super::errors;
use super::options::{LANES, limits, name, options};
use super::polls::{FILES_SETTLE, lasts};
use super::queue::{self, SlurmJob};
use super::{SELDOM, SlurmFacts, SlurmSite, grace, kill_wait, nodes, setting};
use crate::agent::{AgentAnswer, AgentFailure, AgentRequest};
use crate::local_site::attempt_root::nonce;
use crate::port::{
    Capabilities, FoundAttempt, GateDecision, GateState, Go, SiteDescription, SiteError,
    SubmitRequest, Submitted, TagLookup,
};
use crate::wrapper::parameters::{
    WrapperPace, WrittenParameters, encode_go_for_site, first_of_void, written,
};
use crate::wrapper::{SCRIPT, script_name, state_files};

/// The script for `sbatch`: it calls the wrapper, because that must not be copied
/// into the spool of every node.
const STUB: &str = "#!/bin/sh\nwrapper=$1\nshift\nexec /bin/sh \"$wrapper\" \"$@\" batch\n";

fn stub_name() -> String {
    format!("stub-{}.sh", &blake3::hash(STUB.as_bytes()).to_hex()[..16])
}

impl SlurmSite {
    pub(super) async fn describe_site(&self) -> Result<SiteDescription, SiteError> {
        self.keep().await?;
        let answer = self
            .agent
            .ask(&["describe"], AgentRequest::default())
            .await?;
        let load = self.load(&answer)?;
        *self.facts() = Some(SlurmFacts {
            kill_wait: setting(&answer, "KillWait").and_then(kill_wait),
            amounts: nodes::amounts(&answer, self.config.partition.as_deref()),
            lanes: self.lanes(&answer),
            counts_disk: nodes::counts_disk(&answer),
            counts_memory: setting(&answer, "SelectTypeParameters")
                .is_some_and(|kinds| kinds.to_ascii_uppercase().contains("MEMORY")),
        });
        let mut labels = nodes::labels(&answer);
        for (key, values) in &self.config.labels {
            labels
                .entry(key.clone())
                .or_default()
                .extend(values.iter().cloned());
        }
        let mut total = self.total();
        // A job that waits for nodes which are drained now may fit later.
        total.processors = total.processors.min(load.whole);
        Ok(SiteDescription {
            largest_component: total.clone(),
            total,
            labels,
            capabilities: Capabilities {
                queues: self.config.queues,
                queues_only: self.config.queues_only,
                reservations: self.config.reservations,
            },
            lanes: Some(self.lanes(&answer)),
            manager: format!(
                "Slurm {}, cluster {}{}",
                setting(&answer, "SLURM_VERSION").unwrap_or("?"),
                setting(&answer, "ClusterName").unwrap_or("?"),
                untracked(setting(&answer, "ProctrackType"))
            ),
        })
    }

    /// Parses the jobs of an answer that are ours.
    pub(super) fn jobs(&self, answer: &AgentAnswer) -> Vec<SlurmJob> {
        let root = self.config.root.to_str().unwrap_or_default();
        answer
            .all("queue")
            .filter_map(|line| SlurmJob::read(line, root))
            .collect()
    }

    pub(super) fn load(&self, answer: &AgentAnswer) -> Result<queue::PartitionLoad, SiteError> {
        let partition = self.config.partition.as_deref();
        queue::load(answer.all("load"), partition).ok_or_else(|| {
            SiteError::Refused(match partition {
                Some(name) => format!("Slurm has no partition {name}"),
                None => "Slurm has no default partition; name one".to_owned(),
            })
        })
    }

    /// Returns what Slurm reports of itself; asks it if it never was asked.
    pub(super) async fn known(&self) -> Result<SlurmFacts, SiteError> {
        let known = self.facts().clone();
        if let Some(facts) = known {
            return Ok(facts);
        }
        self.describe_site().await?;
        Ok(self.facts().clone().unwrap_or_default())
    }

    /// Returns the time from TERM to KILL: shorter than what Slurm gives a job itself.
    async fn grace(&self) -> Result<DurationMs, SiteError> {
        Ok(grace(self.config.grace, self.known().await?.kill_wait))
    }

    pub(super) async fn submit_order(&self, order: &SubmitRequest) -> Result<Submitted, SiteError> {
        let facts = self.known().await?;
        let lane = facts.lanes.own.or(&LANES.read(&order.lrm_options));
        let elsewhere = facts
            .lanes
            .elsewhere(&lane)
            .map(|partition| facts.lanes.total(partition));
        let total = elsewhere.unwrap_or_else(|| self.total());
        if let Some(shortage) = total.first_shortage(&order.resources) {
            return Err(SiteError::Refused(format!(
                "the attempt {shortage} at most"
            )));
        }
        self.lasts(&lane, order)?;
        let root = self.config.root.display().to_string();
        let longest = facts.lanes.longest(&lane);
        let limits = limits(&self.config, order, longest, facts.counts_disk);
        let options = options(&self.config, order, &root, limits)?;
        let pace = WrapperPace {
            hold_max: limits.hold_max,
            wall_time: order.wall_time,
            grace: grace(self.config.grace, facts.kill_wait),
            poll: self.config.poll,
            seldom: Some(SELDOM),
            warning: order.warning,
        };
        let written = written(order, &self.config.root, &pace, &self.config.seal);
        let tag = order.tag.to_string();
        let stub = stub_name();
        let wrapper = script_name();
        let words = ["submit".to_owned(), tag, stub, wrapper, self.agent.limit()];
        let words = [&words[..], &options].concat();
        let request = build_request(order, &written);
        let answer = match self.agent.ask(&words, request).await {
            Err(AgentFailure::NotInstalled) => {
                self.install().await?;
                let request = build_request(order, &written);
                self.agent.ask(&words, request).await?
            }
            answer => answer?,
        };
        let submitted = submitted(&answer, !order.lrm_options.is_empty())
            .map_err(|error| errors::within(order.reservation.is_some(), error))?;
        self.note_submission(order, &submitted);
        Ok(submitted)
    }

    async fn install(&self) -> Result<(), SiteError> {
        let mut request = AgentRequest::default();
        request.file(&stub_name(), STUB.as_bytes());
        request.file(&script_name(), SCRIPT.as_bytes());
        self.agent.ask(&["install"], request.end()).await?;
        Ok(())
    }

    pub(super) async fn find(&self, tag: AttemptTag) -> Result<TagLookup, SiteError> {
        let answer = self
            .agent
            .ask(&["find", &tag.to_string()], AgentRequest::default())
            .await?;
        let known = answer.last("number");
        let jobs = self.jobs(&answer).into_iter();
        // A job that is over and never got its directory cannot be adopted.
        let ours =
            jobs.filter(|job| job.tag == tag && (job.is_active() || known == Some(&job.number)));
        let mut found = Vec::new();
        for job in ours {
            found.push(FoundAttempt {
                lrm_id: lrm_id(&job.number)?,
                submitted_at: job.submitted_at,
            });
        }
        if let (Some(number), true) = (known, found.is_empty()) {
            let submitted_at = Timestamp::default();
            found.push(FoundAttempt {
                lrm_id: lrm_id(number)?,
                submitted_at,
            });
        }
        Ok(TagLookup { found })
    }

    pub(super) async fn decide(
        &self,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let name = tag.to_string();
        let nonce = nonce();
        let answer = match decision {
            GateDecision::Void => {
                self.agent
                    .ask(&["gate", &name, "void", &nonce], self.void(tag))
                    .await?
            }
            GateDecision::Go(go) => {
                let start_by = self.heard().time.shown(go.start_by);
                let text = encode_go_for_site(&Go {
                    start_by,
                    ..go.clone()
                });
                let wait_ms = go.start_at.since(super::now()).0.to_string();
                let length = text.len().to_string();
                let words = ["gate", &name, "go", &nonce, &wait_ms, &length];
                self.agent.ask(&words, AgentRequest::bytes(text)).await?
            }
        };
        let verdict = answer.last("verdict").ok_or_else(|| {
            SiteError::OutcomeUnknown(format!("the decision of {tag} was not told"))
        })?;
        // Only an open gate let in a payload that could replace the decision.
        let decided = state_files::verdict(verdict, tag, &self.config.seal);
        Ok(decided.unwrap_or(GateState::Opened))
    }

    fn void(&self, tag: AttemptTag) -> AgentRequest {
        AgentRequest::bytes(format!("{}\n", first_of_void(tag, &self.config.seal)).into_bytes())
    }

    pub(super) async fn end(&self, tag: AttemptTag) -> Result<(), SiteError> {
        // After its grace the wrapper has recorded its end, or never will.
        let patience = Duration::from_millis(self.grace().await?.0) + FILES_SETTLE;
        let told = self.told_to_end().get(&tag).map(|since| since.elapsed());
        let how = if told.is_some_and(|told| told > patience) {
            "late"
        } else {
            "gently"
        };
        let name = tag.to_string();
        let nonce = nonce();
        let words = ["cancel", &name, how, &nonce];
        let answer = self.agent.ask(&words, self.void(tag)).await;
        self.forget_queue();
        answer?;
        // Before this the request may not have arrived, and its grace has not begun.
        lasts(&mut self.told_to_end(), tag, true);
        Ok(())
    }

    pub(super) async fn remove(&self, tag: AttemptTag) -> Result<(), SiteError> {
        let words = ["remove", &tag.to_string(), &nonce()];
        self.agent.ask(&words, AgentRequest::default()).await?;
        self.over().remove(&tag);
        self.told_to_end().remove(&tag);
        self.forget_attempt(tag);
        Ok(())
    }

    pub(super) async fn list(&self) -> Result<Vec<AttemptTag>, SiteError> {
        let answer = self.agent.ask(&["list"], AgentRequest::default()).await?;
        let named = answer.all("name").filter_map(|name| name.parse().ok());
        let queued = self.jobs(&answer).into_iter().filter(SlurmJob::is_active);
        let mut tags: Vec<AttemptTag> = named.chain(queued.map(|job| job.tag)).collect();
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }
}

fn build_request(order: &SubmitRequest, written: &WrittenParameters) -> AgentRequest {
    let mut request = AgentRequest::default();
    if let Some(inputs) = &written.inputs {
        request.file("inputs", inputs);
    }
    request.text("params", &written.params);
    request.text("name", format!("{}\n", name(order)).as_bytes());
    request.end()
}

/// Returns a note for people if Slurm does not find all processes of a job that it ends.
fn untracked(tracking: Option<&str>) -> String {
    match tracking {
        None | Some("" | "proctrack/cgroup") => String::new(),
        Some(kind) => {
            format!(" ({kind}: what leaves its session is ended by Cospan's wrapper, not by Slurm)")
        }
    }
}

fn submitted(answer: &AgentAnswer, has_own: bool) -> Result<Submitted, SiteError> {
    if let Some(number) = answer.last("number") {
        return Ok(Submitted {
            lrm_id: lrm_id(number)?,
        });
    }
    let said: Vec<&str> = answer.all("said").collect();
    let code = answer
        .last("code")
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    Err(match code {
        0 => SiteError::OutcomeUnknown(format!("sbatch gave no number: {}", said.join("; "))),
        code => errors::refused(code, &said, has_own),
    })
}

fn lrm_id(number: &str) -> Result<LrmId, SiteError> {
    LrmId::new(number).map_err(|error| SiteError::OutcomeUnknown(error.to_string()))
}
