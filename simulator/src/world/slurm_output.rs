//! Slurm's commands and the files of wrappers at a simulated site: lines as a real Slurm 22.05
//! printed them, filled with values from the world.

use std::fmt::Write as _;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Timestamp;
use cospan_sites::port::{AttemptObservation, ExitCause, GateState, PayloadExit};

use super::SimulatedWorld;
use super::agenda::SiteIndex;
use super::batch::LrmJobId;
use super::world_site::{BatchJobOwner, SimulatedCluster};

/// The root of every simulated site.
pub const ROOT: &str = "/simulated";

/// `scontrol show config` and `sinfo -o '%P|%D|%c|%m|%G|%f|%d'`.
const CONFIG: &str = "config ClusterName             = {name}
config KillWait                = 5 sec
config MinJobAge               = 300 sec
config ProctrackType           = proctrack/linuxproc
config SLURM_VERSION           = 22.05.8
nodes normal*|{nodes}|{each}|64000|(null)|(null)|0
";

/// `sinfo -o '%P|%a|%C|%l|%L'`.
const LOAD: &str = "load normal*|up|{allocated}/{idle}/{other}/{total}|1-00:00:00|n/a
";

/// `squeue -o '%i|%T|%r|%C|%V|%S|%e|%Z|%j|%k'` with times in seconds.
const QUEUE: &str = "queue {number}|{state}|{reason}|{processors}|{submitted}|{start}|{end}\
|{root}|{tag}|{tag}
";

/// The text that a wrapper writes when its payload begins.
const BEGUN: &str = "pid 13\nstart 35\n";

/// Time that Slurm remembers a job that is over.
const REMEMBERED_MS: u64 = 300_000;

/// A job as `squeue` shows it.
struct SqueueLine {
    number: LrmJobId,
    state: &'static str,
    reason: &'static str,
    processors: u32,
    submitted: Timestamp,
}

impl SqueueLine {
    fn write_line(&self, tag: AttemptTag, out: &mut String) {
        let number = self.number.0.to_string();
        let processors = self.processors.to_string();
        let submitted = (self.submitted.0 / 1_000).to_string();
        let tag = tag.to_string();
        let values = [
            ("{number}", number.as_str()),
            ("{state}", self.state),
            ("{reason}", self.reason),
            ("{processors}", &processors),
            ("{submitted}", &submitted),
            ("{start}", "N/A"),
            ("{end}", "N/A"),
            ("{root}", ROOT),
            ("{tag}", &tag),
        ];
        fill_template(QUEUE, &values, out);
    }
}

/// Fills the places of a template.
fn fill_template(template: &str, values: &[(&str, &str)], out: &mut String) {
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        let (name, after) = behind.split_once('}').unwrap_or((behind, ""));
        out.push_str(
            values
                .iter()
                .find(|(key, _): &&(&str, &str)| key[1..key.len() - 1] == *name)
                .map_or("", |(_, value)| value),
        );
        rest = after;
    }
    out.push_str(rest);
}

impl SimulatedWorld {
    /// Returns what Slurm prints of itself and of its nodes.
    pub fn slurm_config(&self, site: SiteIndex) -> String {
        let cluster = &self.sites[site.0];
        let nodes = cluster.nodes;
        let each = cluster.processors / cluster.nodes.max(1);
        let nodes = nodes.to_string();
        let each = each.to_string();
        let values = [
            ("{name}", cluster.name.as_str()),
            ("{nodes}", &nodes),
            ("{each}", &each),
        ];
        let mut said = String::new();
        fill_template(CONFIG, &values, &mut said);
        said + &self.load_line(site, None)
    }

    /// Returns the processors of the partition, with `idle` in place of the idle ones if it is
    /// given.
    fn load_line(&self, site: SiteIndex, idle: Option<u32>) -> String {
        let cluster = &self.sites[site.0];
        let then = cluster.ailments.stale.as_ref();
        let true_idle = then.map_or(cluster.batch.idle_processors(), |then| then.idle);
        let other =
            cluster.processors - cluster.batch.used_processors() - cluster.batch.idle_processors();
        let idle = idle.unwrap_or(true_idle).min(cluster.processors - other);
        let allocated = cluster.processors - other - idle;
        let values = [
            ("{allocated}", allocated.to_string()),
            ("{idle}", idle.to_string()),
            ("{other}", other.to_string()),
            ("{total}", cluster.processors.to_string()),
        ];
        let values: Vec<(&str, &str)> =
            values.iter().map(|(key, value)| (*key, &**value)).collect();
        let mut said = String::new();
        fill_template(LOAD, &values, &mut said);
        said
    }

    /// Returns what the agent's `status` finds: the `queue` and the `load`, if they are asked for,
    /// and the files of these attempts. The queue shows only the wanted attempts that are not over.
    pub fn slurm_status(
        &mut self,
        site: SiteIndex,
        tags: &[AttemptTag],
        queue: bool,
        load: Option<Option<u32>>,
    ) -> String {
        let clock = self.sites[site.0].ailments.clock_time(self.now);
        let up = format_seconds(self.now);
        let mut said = format!("clock {}\nuptime {up} {up} boot\n", format_seconds(clock));
        if queue {
            self.write_live_lines(site, |tag| !tags.contains(&tag), &mut said);
        }
        let mut files = String::new();
        for tag in tags {
            let seen = self.show_attempt(site, *tag);
            if queue {
                self.write_job_lines(site, *tag, &seen, &mut said);
            }
            self.write_files(site, *tag, &seen, &mut files);
        }
        let load = load.map(|idle| self.load_line(site, idle));
        said + &load.unwrap_or_default() + &files
    }

    /// Returns what the agent's `find` finds.
    pub fn slurm_find(&mut self, site: SiteIndex, tag: AttemptTag) -> String {
        let mut said = String::new();
        if self.find_by_tag(site, tag).found.is_empty() {
            return said;
        }
        let seen = self.show_attempt(site, tag);
        self.write_job_lines(site, tag, &seen, &mut said);
        let attempt = self.sites[site.0].attempts.get(&tag);
        if let Some(attempt) = attempt.filter(|attempt| attempt.has_directory()) {
            let _ = writeln!(said, "number {}", attempt.lrm.0);
        }
        said
    }

    /// Returns what the agent's `list` finds.
    pub fn slurm_list(&self, site: SiteIndex) -> String {
        let mut said = String::new();
        self.write_live_lines(site, |_| true, &mut said);
        for tag in self.list_attempts(site) {
            let _ = writeln!(said, "name {tag}");
        }
        said
    }

    /// Writes the lines of our jobs that wait or run and are wanted.
    fn write_live_lines(
        &self,
        site: SiteIndex,
        wanted: impl Fn(AttemptTag) -> bool,
        said: &mut String,
    ) {
        let cluster = &self.sites[site.0];
        for (number, occupant) in &cluster.occupants {
            let BatchJobOwner::Ours(tag) = occupant else {
                continue;
            };
            if let Some(line) = self.live_line(site, *tag, *number).filter(|_| wanted(*tag)) {
                line.write_line(*tag, said);
            }
        }
    }

    fn live_line(&self, site: SiteIndex, tag: AttemptTag, number: LrmJobId) -> Option<SqueueLine> {
        let cluster = &self.sites[site.0];
        let attempt = cluster.attempts.get(&tag)?;
        let (state, reason) = if cluster.batch.is_running(number) {
            ("RUNNING", "None")
        } else if cluster.batch.is_queued(number) {
            ("PENDING", pending_reason(cluster, number))
        } else {
            ("PENDING", "BeginTime")
        };
        let processors = attempt.processors;
        let submitted = attempt.submitted_at;
        Some(SqueueLine {
            number,
            state,
            reason,
            processors,
            submitted,
        })
    }

    /// Writes the lines of all jobs under a tag, as observed.
    fn write_job_lines(
        &self,
        site: SiteIndex,
        tag: AttemptTag,
        seen: &AttemptObservation,
        said: &mut String,
    ) {
        let cluster = &self.sites[site.0];
        for (number, _) in cluster.doubles_of(tag) {
            self.live_line(site, tag, number)
                .into_iter()
                .for_each(|line| line.write_line(tag, said));
        }
        let Some(attempt) = cluster.attempts.get(&tag) else {
            return;
        };
        let (state, reason) = match seen {
            AttemptObservation::Queued(_) => ("PENDING", pending_reason(cluster, attempt.lrm)),
            AttemptObservation::Starting
            | AttemptObservation::Ready(_)
            | AttemptObservation::Begun(_) => ("RUNNING", "None"),
            AttemptObservation::Exited(_) if attempt.forgotten_until > self.now => {
                ("PENDING", "Priority")
            }
            AttemptObservation::Exited(exit) if self.now.since(exit.ended_at).0 > REMEMBERED_MS => {
                return;
            }
            AttemptObservation::Exited(exit) if exit.cause == ExitCause::Code(0) => {
                ("COMPLETED", "None")
            }
            AttemptObservation::Exited(_) => ("FAILED", "NonZeroExitCode"),
            AttemptObservation::Vanished { detail, .. } if detail.contains("node") => {
                ("NODE_FAIL", "NodeDown")
            }
            AttemptObservation::Vanished { detail, .. } if detail.contains("cancelled") => {
                ("CANCELLED", "None")
            }
            _ => return,
        };
        let number = attempt.lrm;
        let processors = attempt.processors;
        let submitted = attempt.submitted_at;
        SqueueLine {
            number,
            state,
            reason,
            processors,
            submitted,
        }
        .write_line(tag, said);
    }

    /// Writes the files that a wrapper has left, as observed.
    fn write_files(
        &self,
        site: SiteIndex,
        tag: AttemptTag,
        seen: &AttemptObservation,
        said: &mut String,
    ) {
        let attempt = self.sites[site.0].attempts.get(&tag);
        let job = attempt.map_or(0, |attempt| attempt.lrm.0);
        if attempt.is_some() && *seen != AttemptObservation::Absent {
            let _ = writeln!(said, "d 0.000 spool/{tag}");
        }
        let mut files: Vec<(&str, Timestamp, String)> = Vec::new();
        match seen {
            AttemptObservation::Ready(at_gate) => {
                files.push((
                    "ready",
                    at_gate.since,
                    format_ready_file(&at_gate.host, job),
                ));
                // Decided, and not yet seen by its wrapper.
                let decision = attempt.and_then(|attempt| attempt.decision);
                let verdict = decision.map(|(state, _)| decision_word(state).to_owned());
                files.extend(verdict.map(|verdict| ("decision", at_gate.since, verdict)));
            }
            AttemptObservation::Begun(it) => {
                files.push(("ready", it.at, format_ready_file(&it.host, job)));
                files.push(("decision", it.at, "go\n".to_owned()));
                files.push(("begun", it.at, BEGUN.to_owned()));
            }
            AttemptObservation::Exited(PayloadExit {
                cause,
                began_at,
                ended_at,
            }) => {
                files.push(("ready", *began_at, format_ready_file("n", job)));
                files.push(("decision", *began_at, "go\n".to_owned()));
                if !matches!(cause, ExitCause::CouldNotStart(_) | ExitCause::TooLate) {
                    files.push(("begun", *began_at, BEGUN.to_owned()));
                }
                files.push((
                    "exit",
                    *ended_at,
                    format!("cause {}\nran 1\n", format_cause(cause)),
                ));
            }
            AttemptObservation::Void => files.push(("decision", self.now, "void\n".to_owned())),
            AttemptObservation::Vanished { began: true, .. } => {
                files.push(("ready", self.now, format_ready_file("n", job)));
                files.push(("decision", self.now, "go\n".to_owned()));
                files.push(("begun", self.now, BEGUN.to_owned()));
            }
            _ => return,
        }
        let _ = writeln!(said, "d 0.000 attempts/{tag}");
        for (name, written, text) in files {
            let _ = writeln!(said, "f {} attempts/{tag}/{name}", format_seconds(written));
            // Only the first line of a decision is sent.
            let end = if name == "decision" {
                String::new()
            } else {
                format!("end {tag}\n")
            };
            for line in (text + &end).lines() {
                let _ = writeln!(said, "| {line}");
            }
        }
    }
}

/// As a wrapper says that it is at its gate.
fn format_ready_file(host: &str, job: u64) -> String {
    format!("host {host}\npid 12\nstart 34\nboot b\njob {job}\n")
}

/// Returns the reason: the head of the queue waits for processors, all others for their turn.
fn pending_reason(cluster: &SimulatedCluster, number: LrmJobId) -> &'static str {
    if cluster.batch.heads_queue(number) {
        "Resources"
    } else {
        "Priority"
    }
}

fn decision_word(state: GateState) -> &'static str {
    match state {
        GateState::Opened => "go\n",
        GateState::Voided => "void\n",
    }
}

/// Formats the cause of an exit as a wrapper writes it.
fn format_cause(cause: &ExitCause) -> String {
    match cause {
        ExitCause::Code(code) => format!("code {code}"),
        ExitCause::Signal(signal) => format!("signal {signal}"),
        ExitCause::WallTime => "walltime signal 15".to_owned(),
        ExitCause::Terminated => "terminated signal 15".to_owned(),
        ExitCause::Requeued => "requeued".to_owned(),
        ExitCause::CouldNotStart(_) => "unstarted missing".to_owned(),
        ExitCause::TooLate => "unstarted late".to_owned(),
    }
}

/// Formats a time as `date +%s.%N` and `find -printf %T@` print it.
fn format_seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000)
}
