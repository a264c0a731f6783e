//! Probes a cluster, before it is a site and whenever it does not work.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cospan_domain::units::{Bytes, DurationMs};

use super::nodes::{parse_at_least, parse_gpus};
use super::{
    MANAGER, SlurmSiteConfig, VARIABLES, agent_environment, parse_kill_wait, slurm_setting,
};
use super::{findings, trial_findings};
use crate::agent::attempt_remains::seconds_to_timestamp;
use crate::agent::{SiteAgentAnswer, SiteAgentClient, SiteAgentRequest};
use crate::examination::{SiteFinding, is_any_bad};
use crate::exec::{CommandChannel, CommandExecutor, ExecCommand, ProgramOrScript};
use crate::local_site::attempt_root::unique_word;
use crate::port::SiteError;

/// The longest that looking at a cluster may take, with a job of one processor.
const LONGEST: Duration = Duration::from_secs(60);

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmPartition {
    /// The name of the partition.
    pub name: String,
    /// True if jobs go here that name none.
    pub is_default: bool,
    /// True if it accepts jobs that may start.
    pub is_up: bool,
    /// The longest run, in Slurm's words.
    pub time_limit: String,
    /// The number of its nodes.
    pub nodes: u64,
    /// Processors of all its nodes: those of drained nodes come back.
    pub processors: u32,
    /// Processors of nodes that are in order.
    pub in_order: u32,
    /// Processors that are free.
    pub idle: u32,
    /// Memory of all its nodes.
    pub memory: Bytes,
    /// Graphics processors of all its nodes.
    pub gpus: u64,
    /// Disk of all its nodes that Slurm counts; usually it counts none.
    pub disk: Bytes,
}

/// The facts that were found. What was not found is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterProbeFacts {
    /// The account that we have there.
    pub account: String,
    /// The host on which Slurm's commands work.
    pub host: String,
    /// Slurm's version.
    pub version: String,
    /// The cluster's own name.
    pub cluster: String,
    /// The time from TERM to KILL of a job that it ends, if it says so.
    pub kill_wait: Option<DurationMs>,
    /// The way in which it finds the processes of a job.
    pub process_tracking: String,
    /// All partitions that the account sees.
    pub partitions: Vec<SlurmPartition>,
    /// The account's limits, as Slurm's accounting has them; `None` if there is none.
    pub limits: Option<Vec<String>>,
    /// The directory.
    pub root: String,
    /// True if the directory is there.
    pub root_is_there: bool,
    /// Kind of its file system.
    pub file_system: String,
    /// The free space there.
    pub free: Bytes,
    /// The milliseconds that its clock is ahead of ours.
    pub clock_ahead_ms: i64,
}

impl ClusterProbeFacts {
    /// Returns the partition of this name, or the default one.
    pub fn find_partition(&self, name: Option<&str>) -> Option<&SlurmPartition> {
        self.partitions
            .iter()
            .find(|found: &&SlurmPartition| match name {
                Some(name) => found.name == name,
                None => found.is_default,
            })
    }
}

/// The result of a probe: facts, and what they mean.
#[derive(Debug, Clone, Default)]
pub struct ClusterProbeOutcome {
    /// The facts.
    pub facts: ClusterProbeFacts,
    /// The judgements on them.
    pub findings: Vec<SiteFinding>,
}

/// Probes a cluster; with `trial` a job of one processor checks that nodes see the root, which must
/// be there. An empty root means the ordinary one, in the account's home directory.
///
/// # Errors
/// It was not reached.
pub async fn probe_cluster(
    config: &SlurmSiteConfig,
    exec: Arc<dyn CommandExecutor>,
    trial: bool,
) -> Result<ClusterProbeOutcome, SiteError> {
    let agent = SiteAgentClient {
        exec,
        text: crate::agent::join_script_parts(&[
            VARIABLES,
            MANAGER,
            include_str!("../slurm/probe.sh"),
        ]),
        site: config.name.clone(),
        root: config.root.clone(),
        environment: agent_environment(config),
        deadline: LONGEST,
    };
    let nonce = unique_word();
    let options = super::options::site_options(config);
    let answer = agent
        .send_request(
            &agent_words("probe", &nonce, &options),
            SiteAgentRequest::default(),
        )
        .await
        .map_err(SiteError::from)?;
    let mut facts = read_facts(&answer);
    facts.clock_ahead_ms = measure_clock_ahead(&agent).await?;
    let mut findings = findings::list_findings(&answer, &facts, config);
    findings.push(check_bulk_channel(&agent).await);
    let is_well = !is_any_bad(&findings);
    if trial && is_well && facts.root_is_there {
        let words = agent_words("trial", &nonce, &options);
        let tried = agent
            .send_request(&words, SiteAgentRequest::default())
            .await;
        trial_findings::add_trial_finding(&mut findings, tried.map_err(SiteError::from), &facts);
    }
    Ok(ClusterProbeOutcome { facts, findings })
}

fn agent_words<'w>(verb: &'w str, nonce: &'w str, options: &'w [String]) -> Vec<&'w str> {
    let options = options.iter().map(String::as_str);
    [verb, nonce].into_iter().chain(options).collect()
}

/// Checks that contents of files have a way there.
async fn check_bulk_channel(agent: &SiteAgentClient) -> SiteFinding {
    let command = ExecCommand {
        work: ProgramOrScript::Program(vec!["true".into()]),
        lane: CommandChannel::Bulk,
        input: Vec::new(),
        environment: agent.environment.clone(),
        deadline: agent.deadline,
        output_max: 1_000,
    };
    findings::judge_bulk_channel(
        agent
            .exec
            .run(command)
            .await
            .err()
            .map(|error| error.to_string()),
    )
}

fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Measures by how much its clock is ahead: reads it in the middle of a short request, when others
/// have made the connection.
async fn measure_clock_ahead(agent: &SiteAgentClient) -> Result<i64, SiteError> {
    let before = now_ms();
    let answer = agent
        .send_request(&["clock"], SiteAgentRequest::default())
        .await
        .map_err(SiteError::from)?;
    let ours = before.midpoint(now_ms());
    let theirs = answer.last_value("clock").and_then(seconds_to_timestamp);
    let theirs = theirs.and_then(|clock| i64::try_from(clock.0).ok());
    Ok(theirs.map_or(0, |theirs| theirs - ours))
}

fn read_facts(answer: &SiteAgentAnswer) -> ClusterProbeFacts {
    let free_kb: u64 = answer
        .last_value("free_kb")
        .and_then(|kb| kb.parse().ok())
        .unwrap_or(0);
    ClusterProbeFacts {
        account: last_text(answer, "account"),
        host: last_text(answer, "host"),
        version: last_text(answer, "version")
            .trim_start_matches("slurm ")
            .to_owned(),
        cluster: slurm_setting(answer, "ClusterName")
            .unwrap_or_default()
            .to_owned(),
        kill_wait: slurm_setting(answer, "KillWait").and_then(parse_kill_wait),
        process_tracking: slurm_setting(answer, "ProctrackType")
            .unwrap_or_default()
            .to_owned(),
        partitions: sum_partitions(answer.values_of("partition")),
        limits: answer
            .last_value("limits_failed")
            .is_none()
            .then(|| answer.values_of("limits").map(str::to_owned).collect()),
        root: last_text(answer, "root"),
        root_is_there: answer.values_of("root_is").any(|is| is == "there"),
        file_system: last_text(answer, "file_system"),
        free: Bytes(free_kb.saturating_mul(1_024)),
        clock_ahead_ms: 0,
    }
}

fn last_text(answer: &SiteAgentAnswer, key: &str) -> String {
    answer.values_of(key).last().unwrap_or_default().to_owned()
}

/// Adds up lines of `sinfo`: name, availability, time limit, processors as
/// allocated/idle/other/total, nodes, megabytes of memory, other resources and
/// megabytes of disk of each node.
fn sum_partitions<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<SlurmPartition> {
    let mut found: Vec<SlurmPartition> = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split('|').collect();
        let &[name, up, time_limit, counts, nodes, memory, gres, disk] = &fields[..] else {
            continue;
        };
        let counts: Vec<u32> = counts
            .split('/')
            .filter_map(|count| count.parse().ok())
            .collect();
        let (&[allocated, idle, _, whole], Ok(nodes)) = (&counts[..], nodes.parse::<u64>()) else {
            continue;
        };
        let short = name.strip_suffix('*').unwrap_or(name);
        let known = found.iter().position(|partition| partition.name == short);
        let index = known.unwrap_or(found.len());
        if known.is_none() {
            found.push(SlurmPartition {
                name: short.to_owned(),
                is_default: name.ends_with('*'),
                is_up: up == "up",
                time_limit: time_limit.to_owned(),
                nodes: 0,
                processors: 0,
                in_order: 0,
                idle: 0,
                memory: Bytes(0),
                gpus: 0,
                disk: Bytes(0),
            });
        }
        let partition = &mut found[index];
        partition.nodes += nodes;
        partition.processors += whole;
        partition.in_order += allocated + idle;
        partition.idle += idle;
        partition.memory.0 +=
            (parse_at_least(memory).saturating_mul(nodes)).saturating_mul(1 << 20);
        partition.disk.0 += (parse_at_least(disk).saturating_mul(nodes)).saturating_mul(1 << 20);
        let gpus: u64 = parse_gpus(gres).map(|(_, count)| count).sum();
        partition.gpus += gpus.saturating_mul(nodes);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_partition_are_added_up() {
        let lines = [
            "normal*|up|1-00:00:00|8/120/64/192|3|64000|(null)|0",
            "normal*|up|1-00:00:00|0/64/0/64|2|128000+|gpu:tesla:2(S:0,1),tmp:1|500",
            "urgent|inact|infinite|0/0/64/64|1|64000|(null)|0",
            "odd",
        ];
        let found = sum_partitions(lines.into_iter());
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), found[0].is_default),
            ("normal", true)
        );
        assert_eq!((found[0].nodes, found[0].idle, found[0].gpus), (5, 184, 4));
        let whole = (found[0].processors, found[0].in_order);
        assert_eq!(whole, (256, 192), "drained nodes come back");
        assert_eq!(found[0].disk, Bytes(1_000 << 20));
        assert_eq!(found[0].memory, Bytes((3 * 64_000 + 2 * 128_000) << 20));
        assert!(!found[1].is_up && !found[1].is_default);
    }
}
