//! The calls of the port as requests to the agent.

use std::collections::BTreeMap;
use std::time::Duration;

use cospan_domain::ids::{LrmId, Tag};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use tokio::time::Instant;

use super::errors;
use super::judge::{Known, is_outdated, judge};
use super::options::{name, options};
use super::queue::{self, Job};
use super::{Facts, SELDOM, SlurmSite, grace, kill_wait, nodes, setting};
use crate::agent::left::{self, seconds_to_timestamp};
use crate::agent::{Answer, Failure, Request};
use crate::local::root::nonce;
use crate::port::{
    AttemptOrder, Capabilities, Found, GateDecision, GateState, SiteDescription, SiteError,
    SiteStatus, Submitted, TagLookup,
};
use crate::verdict::Word;
use crate::wrapper::evidence::Evidence;
use crate::wrapper::parameters::{Pace, encode_go_for_site, first_of_void, written};
use crate::wrapper::{SCRIPT, script_name, state};

/// What `sbatch` gets: a script that hands on to the wrapper, because that must not be copied
/// into the spool of every node.
const STUB: &str = "#!/bin/sh\nwrapper=$1\nshift\nexec /bin/sh \"$wrapper\" \"$@\" batch\n";

/// Between the moment at which Slurm is seen to have nothing that runs, and the last word on
/// what left none: files of another machine appear late.
const FILES_SETTLE: Duration = Duration::from_secs(10);

/// So long Slurm's word on who ended an attempt is waited for.
const WORD_LATE: DurationMs = DurationMs::from_secs(60);

fn stub_name() -> String {
    format!("stub-{}.sh", &blake3::hash(STUB.as_bytes()).to_hex()[..16])
}

impl SlurmSite {
    pub(super) async fn describe_site(&self) -> Result<SiteDescription, SiteError> {
        let answer = self.agent.ask(&["describe"], Request::default()).await?;
        let load = self.load(&answer)?;
        *self.facts() = Some(Facts {
            kill_wait: setting(&answer, "KillWait").and_then(kill_wait),
            amounts: nodes::amounts(&answer, self.config.partition.as_deref()),
        });
        let mut labels = nodes::labels(&answer);
        for (key, values) in &self.config.labels {
            labels.entry(key.clone()).or_default().extend(values.iter().cloned());
        }
        let mut total = self.total();
        total.processors = total.processors.min(load.total);
        let word = |name: &str| setting(&answer, name).unwrap_or("?");
        Ok(SiteDescription {
            largest_component: total.clone(),
            total,
            labels,
            capabilities: Capabilities { queues: self.config.queues, reservations: false },
            manager: format!("Slurm {}, cluster {}", word("SLURM_VERSION"), word("ClusterName")),
        })
    }

    /// Those that are ours.
    pub(super) fn jobs(&self, answer: &Answer) -> Vec<Job> {
        let root = self.config.root.to_str().unwrap_or_default();
        answer.all("queue").filter_map(|line| Job::read(line, root)).collect()
    }

    fn load(&self, answer: &Answer) -> Result<queue::Load, SiteError> {
        let partition = self.config.partition.as_deref();
        queue::load(answer.all("load"), partition).ok_or_else(|| {
            SiteError::Refused(match partition {
                Some(name) => format!("Slurm has no partition {name}"),
                None => "Slurm has no default partition; name one".to_owned(),
            })
        })
    }

    /// From TERM to KILL: shorter than Slurm gives a job itself.
    async fn grace(&self) -> Result<DurationMs, SiteError> {
        let known = self.facts().clone();
        let facts = match known {
            Some(facts) => facts,
            None => {
                self.describe_site().await?;
                self.facts().clone().unwrap_or_default()
            }
        };
        Ok(grace(self.config.grace, facts.kill_wait))
    }

    pub(super) async fn submit_order(&self, order: &AttemptOrder) -> Result<Submitted, SiteError> {
        let grace = self.grace().await?;
        if let Some(shortage) = self.total().first_shortage(&order.resources) {
            return Err(SiteError::Refused(format!("the attempt {shortage} at most")));
        }
        let root = self.config.root.display().to_string();
        let options = options(&self.config, order, &root)?;
        let pace = Pace {
            hold_max: order.hold_max,
            wall_time: order.wall_time,
            grace,
            poll: self.config.poll,
            seldom: Some(SELDOM),
            warning: order.warning,
        };
        let written = written(order, &self.config.root, &pace, &self.config.seal);
        let request = || {
            let mut request = Request::default();
            options.iter().for_each(|option| request.line("option", option));
            if let Some(inputs) = &written.inputs {
                request.file("inputs", inputs);
            }
            request.file("params", &written.params);
            request.file("name", format!("{}\n", name(order)).as_bytes());
            request.end()
        };
        let (tag, stub, wrapper) = (order.tag.to_string(), stub_name(), script_name());
        let words = ["submit", &tag, &stub, &wrapper];
        let answer = match self.agent.ask(&words, request()).await {
            Err(Failure::NotInstalled) => {
                self.install().await?;
                self.agent.ask(&words, request()).await?
            }
            answer => answer?,
        };
        submitted(&answer, !order.lrm_options.is_empty())
    }

    async fn install(&self) -> Result<(), SiteError> {
        let mut request = Request::default();
        request.file(&stub_name(), STUB.as_bytes());
        request.file(&script_name(), SCRIPT.as_bytes());
        self.agent.ask(&["install"], request.end()).await?;
        Ok(())
    }

    pub(super) async fn status_of(&self, tags: &[Tag]) -> Result<SiteStatus, SiteError> {
        let (mut status, again) = self.look(tags, false).await?;
        if !again.is_empty() {
            // What they were when Slurm was asked is older than what they left.
            let (second, _) = self.look(&again, true).await?;
            status.attempts.extend(second.attempts);
        }
        Ok(status)
    }

    /// Looks once; also gives the attempts that are to be looked at again. `asked_again`:
    /// their files were seen before.
    async fn look(
        &self,
        tags: &[Tag],
        asked_again: bool,
    ) -> Result<(SiteStatus, Vec<Tag>), SiteError> {
        let mut request = Request::default();
        tags.iter().for_each(|tag| request.line("tag", &tag.to_string()));
        let answer = self.agent.ask(&["status"], request.end()).await?;
        let jobs = self.jobs(&answer);
        let left = left::read(&answer, &self.config.seal);
        let site_clock = answer.last("clock").and_then(seconds_to_timestamp);
        let (mut again, mut attempts) = (Vec::new(), BTreeMap::new());
        for tag in tags {
            let evidence = left.evidence.get(tag);
            let job = of_tag(&jobs, *tag, evidence);
            let is_over = job.is_none_or(|job| !job.is_active() || job.word == Word::NeverRuns);
            let settled = self.over_for(*tag, is_over).is_some_and(|over| over >= FILES_SETTLE);
            let exit = evidence.and_then(|evidence| evidence.exit.as_ref());
            let overdue = exit.zip(site_clock).is_some_and(|((_, at), now)| now > *at + WORD_LATE);
            let spooled = left.spooled.contains(tag);
            let known = Known { job, evidence, spooled, settled, overdue, asked_again };
            if is_outdated(known) {
                again.push(*tag);
            }
            attempts.insert(*tag, judge(known));
        }
        let idle = self.idle(&answer, &jobs)?;
        Ok((SiteStatus { site_clock, idle, attempts }, again))
    }

    /// How long Slurm has been seen to have nothing of an attempt that runs.
    fn over_for(&self, tag: Tag, is_over: bool) -> Option<Duration> {
        let mut over = self.over();
        if !is_over {
            over.remove(&tag);
            return None;
        }
        let now = Instant::now();
        Some(now.duration_since(*over.entry(tag).or_insert(now)))
    }

    /// What one more submission would find: what Slurm has idle, less what already waits for
    /// it, and never more than we may use.
    fn idle(&self, answer: &Answer, jobs: &[Job]) -> Result<Resources, SiteError> {
        let load = self.load(answer)?;
        let sum = |wanted: fn(&Job) -> bool| {
            let ours = jobs.iter().filter(|job| wanted(job));
            ours.map(|job| job.processors).fold(0, u32::saturating_add)
        };
        let mut idle = self.total();
        let ours = idle.processors.min(load.total).saturating_sub(sum(takes_processors));
        let free = load.idle.saturating_sub(sum(|job| job.word == Word::Waiting));
        idle.processors = ours.min(free);
        Ok(idle)
    }

    pub(super) async fn find(&self, tag: Tag) -> Result<TagLookup, SiteError> {
        let answer = self.agent.ask(&["find", &tag.to_string()], Request::default()).await?;
        let known = answer.last("number");
        let jobs = self.jobs(&answer).into_iter();
        // What is over and never got its directory is nothing that could be adopted.
        let ours =
            jobs.filter(|job| job.tag == tag && (job.is_active() || known == Some(&job.number)));
        let mut found = Vec::new();
        for job in ours {
            found.push(Found { lrm_id: lrm_id(&job.number)?, submitted_at: job.submitted_at });
        }
        if let (Some(number), true) = (known, found.is_empty()) {
            let submitted_at = Timestamp::default();
            found.push(Found { lrm_id: lrm_id(number)?, submitted_at });
        }
        Ok(TagLookup { found })
    }

    pub(super) async fn decide(
        &self,
        tag: Tag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let (name, nonce) = (tag.to_string(), nonce());
        let answer = match decision {
            GateDecision::Void => {
                self.agent.ask(&["gate", &name, "void", &nonce], self.void(tag)).await?
            }
            GateDecision::Go(go) => {
                let text = encode_go_for_site(go);
                let wait_ms = go.start_at.since(super::now()).0.to_string();
                let length = text.len().to_string();
                let words = ["gate", &name, "go", &nonce, &wait_ms, &length];
                self.agent.ask(&words, Request::bytes(text)).await?
            }
        };
        let verdict = answer.last("verdict").ok_or_else(|| {
            SiteError::OutcomeUnknown(format!("the decision of {tag} was not told"))
        })?;
        // Only an open gate let in a payload that could replace it.
        let decided = state::verdict(verdict, tag, &self.config.seal);
        Ok(decided.unwrap_or(GateState::Opened))
    }

    fn void(&self, tag: Tag) -> Request {
        Request::bytes(format!("{}\n", first_of_void(tag, &self.config.seal)).into_bytes())
    }

    pub(super) async fn end(&self, tag: Tag) -> Result<(), SiteError> {
        // After its grace the wrapper has said its last word, or never will.
        let patience = (self.grace().await?.as_secs_ceil() + FILES_SETTLE.as_secs()).to_string();
        let (name, nonce) = (tag.to_string(), nonce());
        self.agent.ask(&["cancel", &name, &patience, &nonce], self.void(tag)).await?;
        Ok(())
    }

    pub(super) async fn remove(&self, tag: Tag) -> Result<(), SiteError> {
        let words = ["remove", &tag.to_string(), &nonce()];
        self.agent.ask(&words, Request::default()).await?;
        self.over().remove(&tag);
        Ok(())
    }

    pub(super) async fn list(&self) -> Result<Vec<Tag>, SiteError> {
        let answer = self.agent.ask(&["list"], Request::default()).await?;
        let named = answer.all("name").filter_map(|name| name.parse().ok());
        let queued = self.jobs(&answer).into_iter().filter(Job::is_active);
        let mut tags: Vec<Tag> = named.chain(queued.map(|job| job.tag)).collect();
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }
}

fn takes_processors(job: &Job) -> bool {
    job.is_active() && job.word != Word::NeverRuns
}

/// Of several jobs under a tag the one that got the directory; until one has, one that may.
fn of_tag<'a>(jobs: &'a [Job], tag: Tag, evidence: Option<&Evidence>) -> Option<&'a Job> {
    let holder = evidence.and_then(|e| e.ready.as_ref()).and_then(|(ready, _)| ready.job.as_ref());
    let ours = || jobs.iter().filter(|job| job.tag == tag);
    ours()
        .find(|job| Some(&job.number) == holder)
        .or_else(|| ours().find(|job| job.is_active()))
        .or_else(|| ours().max_by_key(|job| job.submitted_at))
}

fn submitted(answer: &Answer, has_own: bool) -> Result<Submitted, SiteError> {
    if let Some(number) = answer.last("number") {
        return Ok(Submitted { lrm_id: lrm_id(number)? });
    }
    let said: Vec<&str> = answer.all("said").collect();
    let code = answer.last("code").and_then(|code| code.parse().ok()).unwrap_or(0);
    Err(match code {
        0 => SiteError::OutcomeUnknown(format!("sbatch gave no number: {}", said.join("; "))),
        code => errors::refused(code, &said, has_own),
    })
}

fn lrm_id(number: &str) -> Result<LrmId, SiteError> {
    LrmId::new(number).map_err(|error| SiteError::OutcomeUnknown(error.to_string()))
}
