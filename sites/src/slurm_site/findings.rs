//! Interprets facts about a cluster, and says what to do about those that are wrong.

use cospan_domain::units::{Bytes, DurationMs};

use super::cluster_check::{ClusterProbeFacts, SlurmPartition};
use super::reservation_rights::check_reservations;
use super::{BEFORE_KILL, SlurmSiteConfig, payload_grace};
use crate::agent::SiteAgentAnswer;
use crate::examination::{FindingVerdict, SiteFinding};

pub(super) const DIRECTORY: &str = "directory";

/// Less than this is too little for inputs and outputs.
const LITTLE_DISK: Bytes = Bytes(1_000_000_000);

/// Clocks may differ by this many milliseconds unnoticed, and by the next many at all.
const SKEW_ODD_MS: u64 = 2_000;
const SKEW_BAD_MS: u64 = 60_000;

/// File systems that other machines have as well.
const SHARED: [&str; 12] = [
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "fuseblk", "fuse", "afs", "panfs", "gfs2",
    "smb2",
];

const NO_CONFIGURATION: &str = "slurm_conf names no configuration of Slurm there";

const NO_MUNGE: &str =
    "munged does not answer: it must run on the machine on which Slurm's commands are used";

const NO_CONTROLLER: &str = "slurmctld does not answer: wait, or ask the cluster's operators; if other commands reach \
     it, slurm_conf names the wrong cluster";

/// Parts of messages of Slurm's commands, and what to do about them; the
/// more particular ones first.
const ADVICE: [(&str, &str); 24] = [
    (
        "sack socket",
        "Slurm's own credentials (auth/slurm) need sackd, or a daemon of Slurm, on the machine on \
         which its commands are used",
    ),
    (
        "Insane message length",
        "Slurm's commands do not fit the cluster: they may be older than its slurmctld, never newer \
         (`sbatch --version` beside `scontrol show config`); or slurm_conf names a port of another \
         program",
    ),
    ("Munge encode failed", NO_MUNGE),
    (
        "Munge decode failed",
        "the credential of munge is refused: munged must run here with the cluster's own key, and \
         the clocks must agree; ask the cluster's operators, or use a login node by --ssh",
    ),
    (
        "Invalid authentication credential",
        "the credential of munge is refused: does slurm_conf name this cluster's configuration? \
         Else munged runs here with another key, or the clocks differ",
    ),
    (
        "Protocol authentication error",
        "the credential of munge is refused: does slurm_conf name this cluster's configuration? \
         Else munged runs here with another key, the clocks differ, or these commands are newer \
         than the cluster's slurmctld",
    ),
    (
        "Zero Bytes were transmitted",
        "slurmctld hung up: usually it refuses the credential of munge, because slurm_conf names \
         another cluster, or munged runs here with another key; or these commands are newer than \
         slurmctld (`sbatch --version`)",
    ),
    ("unge", NO_MUNGE),
    ("no answer", NO_CONTROLLER),
    ("Unable to contact slurm controller", NO_CONTROLLER),
    (
        "Socket timed out",
        "slurmctld answers too slowly: try again; if it stays so, ask the cluster's operators",
    ),
    (
        "Could not establish a configuration source",
        "Slurm finds no configuration there: give slurm_conf (--slurm-conf), or a login node where \
         it does (--ssh)",
    ),
    ("Unable to process configuration file", NO_CONFIGURATION),
    ("unable to status file", NO_CONFIGURATION),
    ("cannot stat file", NO_CONFIGURATION),
    (
        "Invalid account",
        "the account may not be charged there: see `sacctmgr show assoc user=$USER`, and give \
         account = one of those",
    ),
    (
        "nvalid partition",
        "give partition = one of those that `sinfo` lists",
    ),
    (
        "nvalid qos",
        "give qos = one of those that `sacctmgr show assoc user=$USER` lists",
    ),
    (
        "nvalid feature",
        "correct constraint: `sinfo -o %f` lists the features of nodes",
    ),
    (
        "reservation is invalid",
        "correct reservation: `scontrol show reservation` lists them",
    ),
    (
        "Limit",
        "a limit of the account is reached or too low: see `sacctmgr show assoc user=$USER`",
    ),
    (
        "ot found",
        "put Slurm's commands into the PATH that a shell has there without a terminal",
    ),
    (
        "No space left",
        "make room on the disk, or give root on another one",
    ),
    (
        "quota",
        "make room on the disk, or give root on another one",
    ),
];

/// Returns what to do about a message of Slurm's commands.
pub fn advice_for(said: &str) -> &'static str {
    let known = ADVICE.iter().find(|(part, _)| said.contains(part));
    known.map_or("see what the same command says by hand", |(_, advice)| {
        advice
    })
}

pub(super) fn good_finding(what: &'static str, found: impl Into<String>) -> SiteFinding {
    SiteFinding {
        what,
        verdict: FindingVerdict::Good,
        found: found.into(),
        advice: String::new(),
    }
}

pub(super) fn odd_finding(
    what: &'static str,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> SiteFinding {
    SiteFinding {
        what,
        verdict: FindingVerdict::Odd,
        found: found.into(),
        advice: advice.into(),
    }
}

pub(super) fn bad_finding(
    what: &'static str,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> SiteFinding {
    SiteFinding {
        verdict: FindingVerdict::Bad,
        ..odd_finding(what, found, advice)
    }
}

/// Lists all findings of one look.
pub(super) fn list_findings(
    answer: &SiteAgentAnswer,
    facts: &ClusterProbeFacts,
    config: &SlurmSiteConfig,
) -> Vec<SiteFinding> {
    let partition = config.partition.as_deref();
    let mut all = vec![good_finding(
        "login",
        format!("{} on {}", facts.account, facts.host),
    )];
    all.push(check_tools(answer));
    all.extend(answer.last_value("unset").map(|names| {
        odd_finding(
            "variables",
            format!("not used: {names}"),
            "what start files set for Slurm's commands would lead jobs astray: say it in the \
             site's configuration",
        )
    }));
    all.extend(answer.last_value("tmpdir").map(describe_missing_tmpdir));
    all.push(check_slurm(answer, facts));
    all.push(check_partition(answer, facts, partition));
    let chosen = facts.find_partition(partition).map(|chosen| &chosen.name);
    let others = facts
        .partitions
        .iter()
        .filter(|other| Some(&other.name) != chosen);
    all.extend(others.map(|other| good_finding("partition", describe_partition(other))));
    if answer.last_value("partition_failed").is_none() {
        all.extend(answer.values_of("drained").map(describe_drained_nodes));
        all.push(check_submission(answer));
        all.push(check_account(facts));
        all.push(check_reservations(
            answer,
            &facts.account,
            config.reservations,
        ));
        all.push(check_ending(facts, config.grace));
        all.push(check_tracking(facts));
    }
    all.push(check_directory(answer, facts));
    all.push(check_disk(facts));
    all.push(check_clock(facts));
    all
}

/// Describes a `TMPDIR` that start files name and that is no directory we can write to.
pub(super) fn describe_missing_tmpdir(told: &str) -> SiteFinding {
    odd_finding(
        "temporary",
        format!("TMPDIR is {told}, which is not there or cannot be written"),
        "programs that need it fail: have the start files make it, or not set it",
    )
}

fn failure_text(answer: &SiteAgentAnswer, key: &str) -> Option<String> {
    let said: Vec<&str> = answer.values_of(key).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn check_tools(answer: &SiteAgentAnswer) -> SiteFinding {
    let missing: Vec<&str> = answer.values_of("missing").collect();
    if !missing.is_empty() {
        let found = format!("not found: {}", missing.join(", "));
        let slurms = missing.contains(&"sbatch");
        return bad_finding(
            "commands",
            found,
            if slurms {
                advice_for("not found")
            } else {
                "these belong to GNU coreutils and findutils: have them installed there"
            },
        );
    }
    match answer.last_value("lacks") {
        Some(tool) => odd_finding(
            "commands",
            format!("all but {tool}"),
            "what is copied there is compared by its size alone",
        ),
        None => good_finding("commands", "all there"),
    }
}

fn check_slurm(answer: &SiteAgentAnswer, facts: &ClusterProbeFacts) -> SiteFinding {
    match failure_text(answer, "version_failed") {
        Some(said) => bad_finding("Slurm", said.clone(), advice_for(&said)),
        None => good_finding(
            "Slurm",
            format!("{}, cluster {}", facts.version, facts.cluster),
        ),
    }
}

fn check_partition(
    answer: &SiteAgentAnswer,
    facts: &ClusterProbeFacts,
    wanted: Option<&str>,
) -> SiteFinding {
    const WHAT: &str = "partition";
    if let Some(said) = failure_text(answer, "partition_failed") {
        return bad_finding(WHAT, said.clone(), advice_for(&said));
    }
    match facts.find_partition(wanted) {
        None if wanted.is_none() => bad_finding(
            WHAT,
            "there is no default",
            format!("give partition = one of: {}", partition_names(facts)),
        ),
        None => bad_finding(
            WHAT,
            format!("there is no {}", wanted.unwrap_or_default()),
            format!("give partition = one of: {}", partition_names(facts)),
        ),
        Some(found) => {
            let what = describe_partition(found);
            if found.is_up && found.in_order > 0 {
                good_finding(WHAT, what)
            } else {
                odd_finding(
                    WHAT,
                    what,
                    "it starts no jobs at the moment: see `sinfo -R`",
                )
            }
        }
    }
}

fn partition_names(facts: &ClusterProbeFacts) -> String {
    let names: Vec<&str> = facts
        .partitions
        .iter()
        .map(|known| known.name.as_str())
        .collect();
    names.join(", ")
}

fn describe_partition(partition: &SlurmPartition) -> String {
    let SlurmPartition {
        name,
        nodes,
        processors,
        in_order,
        idle,
        gpus,
        time_limit,
        ..
    } = partition;
    let out = match processors.saturating_sub(*in_order) {
        0 => String::new(),
        out => format!(", {out} of nodes out of order"),
    };
    format!(
        "{name}: {nodes} nodes, {processors} processors ({idle} idle{out}), {gpus} GPUs, at most \
         {time_limit}"
    )
}

/// Describes nodes that take no jobs, as `NODES: REASON`.
fn describe_drained_nodes(told: &str) -> SiteFinding {
    let names = told.split(':').next().unwrap_or_default();
    let advice = if told.contains("Duplicate jobid") {
        format!(
            "Slurm gave a job's number out twice: the cluster's operators put them back with `scontrol \
             update nodename={names} state=resume`"
        )
    } else {
        "the cluster's operators know more: see `sinfo -R`".to_owned()
    };
    odd_finding("drained", told, advice)
}

fn check_submission(answer: &SiteAgentAnswer) -> SiteFinding {
    const WHAT: &str = "submission";
    match failure_text(answer, "submission_failed") {
        Some(said) => bad_finding(WHAT, said.clone(), advice_for(&said)),
        None => good_finding(WHAT, "a job of one processor would be taken"),
    }
}

fn check_account(facts: &ClusterProbeFacts) -> SiteFinding {
    match &facts.limits {
        None => good_finding("limits", "Slurm keeps no accounts here"),
        Some(limits) if limits.is_empty() => good_finding("limits", "none are told"),
        Some(limits) => {
            let told = limits.join("; ");
            good_finding(
                "limits",
                format!("account|partition|qos|jobs|submitted|wall|in all: {told}"),
            )
        }
    }
}

/// Checks how much time Slurm leaves a payload that is asked to end.
fn check_ending(facts: &ClusterProbeFacts, wanted: DurationMs) -> SiteFinding {
    const WHAT: &str = "ending";
    let left = payload_grace(wanted, facts.kill_wait);
    match facts.kill_wait {
        Some(wait) if left < wanted => odd_finding(
            WHAT,
            format!("a payload has {left} from TERM to KILL, and not {wanted}: KillWait is {wait}"),
            format!(
                "ask the cluster's operators for a KillWait of {}",
                wanted + BEFORE_KILL
            ),
        ),
        _ => good_finding(WHAT, format!("a payload has {left} from TERM to KILL")),
    }
}

fn check_tracking(facts: &ClusterProbeFacts) -> SiteFinding {
    const WHAT: &str = "processes";
    let kind = facts.process_tracking.as_str();
    match kind {
        "" | "proctrack/cgroup" => good_finding(WHAT, "end with their job"),
        _ => odd_finding(
            WHAT,
            format!("those that leave their session can outlive a job that Slurm ends: {kind}"),
            "ask the cluster's operators for ProctrackType=proctrack/cgroup",
        ),
    }
}

fn check_directory(answer: &SiteAgentAnswer, facts: &ClusterProbeFacts) -> SiteFinding {
    const WHAT: &str = DIRECTORY;
    let root = &facts.root;
    let kind = &facts.file_system;
    if answer.values_of("root_is").any(|is| is == "unwritable") {
        let what = "give root = a directory of the account's own on a file system of the cluster";
        return bad_finding(WHAT, format!("{root} cannot be written"), what);
    }
    let state = if facts.root_is_there {
        ""
    } else {
        ", to be made"
    };
    if SHARED.contains(&kind.as_str()) {
        good_finding(WHAT, format!("{root} ({kind}){state}"))
    } else {
        odd_finding(
            WHAT,
            format!("{root} is on {kind}{state}"),
            "all nodes must have it under this name; `cospan site check` has one of them look",
        )
    }
}

fn check_disk(facts: &ClusterProbeFacts) -> SiteFinding {
    let found = format!("{} free", facts.free);
    match facts.free {
        Bytes(0) => bad_finding("disk", found, advice_for("No space left")),
        free if free < LITTLE_DISK => odd_finding("disk", found, advice_for("No space left")),
        _ => good_finding("disk", found),
    }
}

fn check_clock(facts: &ClusterProbeFacts) -> SiteFinding {
    let apart = facts.clock_ahead_ms.unsigned_abs();
    let found = format!("{} ms apart from ours", facts.clock_ahead_ms);
    let what = "set both by NTP: starts of several components are timed by them";
    match apart {
        SKEW_BAD_MS.. => bad_finding("clock", found, what),
        SKEW_ODD_MS.. => odd_finding("clock", found, what),
        _ => good_finding("clock", found),
    }
}

/// Judges whether a second session could be opened.
pub(super) fn judge_bulk_channel(failed: Option<String>) -> SiteFinding {
    match failed {
        None => good_finding("files", "have their own way there"),
        Some(why) => bad_finding(
            "files",
            why,
            "without a second session neither inputs nor logs travel",
        ),
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::resources::Resources;

    use super::*;

    fn findings_of_answer(text: &str) -> Vec<SiteFinding> {
        let facts = ClusterProbeFacts {
            free: LITTLE_DISK,
            ..ClusterProbeFacts::default()
        };
        list_findings(&SiteAgentAnswer(text.to_owned()), &facts, &config())
    }

    fn config() -> SlurmSiteConfig {
        let name = "there".parse().unwrap();
        let total = Resources::processors(1);
        SlurmSiteConfig::new(name, "/root".into(), total, Vec::new())
    }

    fn finding_about<'a>(all: &'a [SiteFinding], what: &str) -> &'a SiteFinding {
        all.iter().find(|finding| finding.what == what).unwrap()
    }

    #[test]
    fn each_message_of_slurm_has_its_advice() {
        for (message, part) in [
            (
                "sbatch: error: Munge decode failed: Invalid credential",
                "munge",
            ),
            (
                "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
                "slurmctld",
            ),
            (
                "allocation failure: Invalid account or account/partition combination",
                "account",
            ),
            ("sbatch: error: invalid partition specified: x", "partition"),
            ("timeout: failed to run command 'sbatch': not found", "PATH"),
            ("write error: No space left on device", "room"),
            ("munge_encode: Failed to access \"/run/munge\"", "munged"),
            (
                "error: s_p_parse_file: cannot stat file /x: No such file",
                "slurm_conf",
            ),
            (
                "slurm_load_partitions: Zero Bytes were transmitted or received",
                "munge",
            ),
            (
                "sinfo: error: Munge encode failed: (Did you start munged?); sinfo: error: \
                 slurm_send_node_msg: authentication error; Protocol authentication error",
                "munged does not answer",
            ),
            (
                "sinfo: error: Insane message length; slurm_load_partitions: Insane message length",
                "older than its slurmctld",
            ),
            (
                "sbatch: error: sack_create: failed to connect to any sack sockets",
                "sackd",
            ),
            ("no answer", "slurmctld"),
            ("something new", "by hand"),
        ] {
            assert!(advice_for(message).contains(part), "{message}");
        }
    }

    #[test]
    fn what_is_missing_is_bad_and_tells_what_to_do() {
        let all = findings_of_answer("missing sbatch\nmissing squeue\n");
        let tools = finding_about(&all, "commands");
        assert_eq!(tools.verdict, FindingVerdict::Bad);
        assert!(tools.found.contains("sbatch, squeue") && tools.advice.contains("PATH"));
    }

    #[test]
    fn a_controller_that_does_not_answer_is_bad_and_not_a_missing_partition() {
        let all = findings_of_answer(
            "partition_failed slurm_load_partitions: Unable to contact slurm controller",
        );
        let partition = finding_about(&all, "partition");
        assert_eq!(partition.verdict, FindingVerdict::Bad);
        assert!(partition.advice.contains("slurmctld"), "{partition:?}");
    }

    #[test]
    fn each_partition_is_told_the_chosen_one_first() {
        let partition = |name: &str, in_order| SlurmPartition {
            name: name.to_owned(),
            is_default: name == "normal",
            is_up: true,
            time_limit: "1-00:00:00".to_owned(),
            nodes: 4,
            processors: 64,
            in_order,
            idle: 8,
            memory: Bytes(0),
            gpus: 2,
            disk: Bytes(0),
        };
        let partitions = vec![partition("fast", 64), partition("normal", 48)];
        let facts = ClusterProbeFacts {
            partitions,
            ..ClusterProbeFacts::default()
        };
        let all = list_findings(&SiteAgentAnswer(String::new()), &facts, &config());
        let told = all.iter().filter(|finding| finding.what == "partition");
        let told: Vec<&str> = told.map(|finding| finding.found.as_str()).collect();
        assert_eq!(
            told,
            [
                "normal: 4 nodes, 64 processors (8 idle, 16 of nodes out of order), 2 GPUs, at most 1-00:00:00",
                "fast: 4 nodes, 64 processors (8 idle), 2 GPUs, at most 1-00:00:00",
            ]
        );
    }

    #[test]
    fn variables_of_start_files_that_are_not_used_are_told() {
        let all = findings_of_answer("unset SQUEUE_ACCOUNT SBATCH_PARTITION\n");
        let told = finding_about(&all, "variables");
        assert_eq!(told.found, "not used: SQUEUE_ACCOUNT SBATCH_PARTITION");
    }

    #[test]
    fn nodes_that_slurm_drained_are_told_with_their_reason() {
        let all = findings_of_answer("drained n[1-2]: Duplicate jobid\n");
        let drained = finding_about(&all, "drained");
        assert_eq!(drained.found, "n[1-2]: Duplicate jobid");
        assert!(
            drained.advice.contains("nodename=n[1-2] state=resume"),
            "{}",
            drained.advice
        );
    }

    #[test]
    fn a_kill_that_comes_before_the_grace_is_over_is_told() {
        let of = |secs: Option<u64>| {
            let kill_wait = secs.map(DurationMs::from_secs);
            check_ending(
                &ClusterProbeFacts {
                    kill_wait,
                    ..ClusterProbeFacts::default()
                },
                config().grace,
            )
        };
        assert_eq!(
            [None, Some(7), Some(30)].map(|secs| of(secs).verdict),
            [FindingVerdict::Good; 3]
        );
        let early = of(Some(5));
        assert_eq!(early.verdict, FindingVerdict::Odd);
        assert!(
            early.found.contains("KillWait is 5s") && early.advice.contains("7s"),
            "{early:?}"
        );
    }

    #[test]
    fn clocks_that_differ_are_told() {
        let of = |clock_ahead_ms| {
            check_clock(&ClusterProbeFacts {
                clock_ahead_ms,
                ..ClusterProbeFacts::default()
            })
            .verdict
        };
        assert_eq!(
            (of(-300), of(5_000), of(-90_000)),
            (
                FindingVerdict::Good,
                FindingVerdict::Odd,
                FindingVerdict::Bad
            )
        );
    }
}
