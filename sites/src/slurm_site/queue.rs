//! Slurm's reports on its jobs and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Timestamp;

use crate::attempt_end::BatchJobState;
use crate::port::QueuedAttempt;

/// A job of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlurmJob {
    pub(super) number: String,
    pub(super) tag: AttemptTag,
    /// The state in Slurm's words; `word` is its meaning.
    pub(super) state: String,
    pub(super) word: BatchJobState,
    /// The reason why it waits, or ended.
    pub(super) reason: String,
    pub(super) processors: u32,
    pub(super) submitted_at: Timestamp,
    /// The time when it started, or is expected to.
    pub(super) start_at: Option<Timestamp>,
    /// The time when it ended, or is expected to.
    pub(super) end_at: Option<Timestamp>,
}

impl SlurmJob {
    /// Describes it as an attempt in the queue.
    pub(super) fn to_queued_attempt(&self) -> QueuedAttempt {
        let behind = lets_others_go_first(&self.reason).then(|| self.reason.as_str().into());
        QueuedAttempt {
            expected: self.start_at,
            behind,
        }
    }

    /// Returns true if it may still do something.
    pub(super) fn is_active(&self) -> bool {
        self.word.is_active()
    }

    /// Parses a line of `squeue`: number, state, reason, processors, times of submission, start and
    /// end, directory, name, comment. `None` if it is another's: the comment is the tag, the name
    /// ends with it, and the directory is the site's root.
    pub(super) fn parse_job(line: &str, root: &str) -> Option<Self> {
        let mut fields = line.splitn(10, '|');
        let number = fields.next()?;
        let state = fields.next()?;
        let reason = fields.next()?;
        let processors = fields.next()?;
        let submitted = fields.next()?;
        let start = fields.next()?;
        let end = fields.next()?;
        let directory = fields.next()?;
        let name = fields.next()?;
        let comment = fields.next()?;
        let tag: AttemptTag = comment.parse().ok().filter(|_| directory == root)?;
        let before = name.strip_suffix(comment)?;
        if !before.is_empty() && !before.ends_with('.') {
            return None;
        }
        Some(Self {
            number: number.to_owned(),
            tag,
            word: interpret_state(state, reason),
            state: state.to_owned(),
            reason: reason.to_owned(),
            processors: processors.parse().ok()?,
            submitted_at: parse_seconds(submitted)?,
            start_at: parse_seconds(start),
            end_at: parse_seconds(end),
        })
    }
}

/// Reasons for waiting that no waiting removes. (Those of limits on each single job end in
/// `PerJob` or `PerJobLimit`.)
const NEVER: [&str; 13] = [
    "AccountNotAllowed",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "MaxMemPerLimit",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
    "QOSTimeLimit",
    "AssociationTimeLimit",
    "ReservationDeleted",
];

/// Interprets Slurm's state and reason together. An unknown state is taken to be one of
/// a job that may still run.
pub(super) fn interpret_state(state: &str, reason: &str) -> BatchJobState {
    match state {
        "PENDING" | "RESV_DEL_HOLD" => interpret_waiting(reason),
        "CONFIGURING" => BatchJobState::Waiting,
        "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => BatchJobState::Requeued,
        "COMPLETING" | "STAGE_OUT" | "SIGNALING" => BatchJobState::Completing,
        "LAUNCH_FAILED" => BatchJobState::LaunchFailed,
        "COMPLETED" | "FAILED" if tells_failed_launch(reason) => BatchJobState::LaunchFailed,
        "COMPLETED" => BatchJobState::Completed,
        "FAILED" => BatchJobState::Failed,
        "CANCELLED" | "REVOKED" => BatchJobState::Cancelled,
        "PREEMPTED" => BatchJobState::Preempted,
        "TIMEOUT" => BatchJobState::TimeLimit,
        "DEADLINE" => BatchJobState::Deadline,
        "NODE_FAIL" | "RECONFIG_FAIL" => BatchJobState::NodeFailed,
        "BOOT_FAIL" => BatchJobState::BootFailed,
        "OUT_OF_MEMORY" => BatchJobState::OutOfMemory,
        _ => BatchJobState::Running,
    }
}

/// Returns true if a job could not be started on its node. Newer Slurm says so by a signal that is
/// none; its other signals ended a script that ran.
fn tells_failed_launch(reason: &str) -> bool {
    reason.contains("LaunchFail") || reason.starts_with("RaisedSignal:53(")
}

/// Returns the name of a reason, which may go on behind it: "BadConstraints, ..." or "(node list)".
fn reason_name(reason: &str) -> &str {
    reason
        .split(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default()
}

/// Returns true if a job with this reason may wait although what it asks for is idle: others are
/// before it, or its account, or quality of service, has all that it may have.
fn lets_others_go_first(reason: &str) -> bool {
    let name = reason_name(reason);
    name == "Priority" || ["Assoc", "QOS"].iter().any(|limit| name.starts_with(limit))
}

fn interpret_waiting(reason: &str) -> BatchJobState {
    let name = reason_name(reason);
    let per_job = name.ends_with("PerJob") || name.ends_with("PerJobLimit");
    if NEVER.contains(&name) || per_job {
        BatchJobState::NeverRuns
    } else if reason.starts_with("launch failed") {
        BatchJobState::LaunchFailed
    } else {
        BatchJobState::Waiting
    }
}

fn parse_seconds(text: &str) -> Option<Timestamp> {
    text.parse::<u64>()
        .ok()
        .map(|seconds| Timestamp(seconds.saturating_mul(1_000)))
}

/// Processors of a partition that accepts work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PartitionLoad {
    pub(super) idle: u32,
    /// All but those of nodes that are out of order.
    pub(super) total: u32,
    /// All of them: nodes that are out of order or drained come back.
    pub(super) whole: u32,
}

/// Returns the partition of jobs that name none.
pub(super) fn default_partition<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    lines.find_map(|line| line.split('|').next()?.strip_suffix('*'))
}

/// Adds up the lines of `sinfo` about a partition, or the default one: name, availability,
/// processors as allocated/idle/other/total. `None` if there is no such partition.
pub(super) fn sum_load<'a>(
    lines: impl Iterator<Item = &'a str>,
    partition: Option<&str>,
) -> Option<PartitionLoad> {
    let mut found: Option<PartitionLoad> = None;
    for line in lines {
        let mut fields = line.split('|');
        let (Some(name), Some(up), Some(counts)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_meant = match partition {
            Some(partition) => name.strip_suffix('*').unwrap_or(name) == partition,
            None => name.ends_with('*'),
        };
        let counts: Vec<u32> = counts
            .split('/')
            .filter_map(|count| count.parse().ok())
            .collect();
        let [allocated, idle, _, whole] = counts[..] else {
            continue;
        };
        if is_meant {
            let sum = found.get_or_insert_default();
            sum.total = sum.total.saturating_add(allocated).saturating_add(idle);
            sum.whole = sum.whole.saturating_add(whole);
            // A drained partition finishes its jobs, and starts none.
            sum.idle = sum.idle.saturating_add(if up == "up" { idle } else { 0 });
        }
    }
    found
}

/// Returns the load of each partition.
pub(super) fn loads_by_partition<'a, L: Iterator<Item = &'a str>>(
    lines: impl Fn() -> L,
) -> BTreeMap<Arc<str>, PartitionLoad> {
    let named = lines().filter_map(|line| line.split('|').next());
    let names: BTreeSet<&str> = named
        .map(|name| name.strip_suffix('*').unwrap_or(name))
        .collect();
    let each = names
        .into_iter()
        .filter_map(|name| Some((name.into(), sum_load(lines(), Some(name))?)));
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "cabcdefgh-7-0-1";

    fn squeue_line(state: &str, name: &str, comment: &str) -> String {
        format!("31|{state}|None|8|1795567550|1795567551|N/A|/r s|{name}|{comment}")
    }

    fn parse_test_job(line: &str) -> Option<SlurmJob> {
        SlurmJob::parse_job(line, "/r s")
    }

    #[test]
    fn our_job_is_read_with_what_matters() {
        let job = parse_test_job(&squeue_line("RUNNING", TAG, TAG)).unwrap();
        assert_eq!((job.number.as_str(), job.processors), ("31", 8));
        assert_eq!((job.word, job.end_at), (BatchJobState::Running, None));
        assert_eq!(job.submitted_at, Timestamp(1_795_567_550_000));
        assert_eq!(job.tag.to_string(), TAG);
    }

    #[test]
    fn a_job_whose_name_or_comment_says_something_else_is_anothers() {
        for (name, comment) in [
            ("wrap", "(null)"),
            (TAG, "(null)"),
            ("wrap", TAG),
            ("a|b", TAG),
            ("", ""),
        ]
        .into_iter()
        .chain([
            (&*format!("wave{TAG}"), TAG),
            (&*format!("wave.{TAG}."), TAG),
        ]) {
            assert_eq!(
                parse_test_job(&squeue_line("RUNNING", name, comment)),
                None,
                "{name} {comment}"
            );
        }
        assert_eq!(
            SlurmJob::parse_job(&squeue_line("RUNNING", TAG, TAG), "/other"),
            None,
            "of another site"
        );
        assert_eq!(
            parse_test_job("slurm_load_jobs error: Invalid job id specified"),
            None
        );
        assert_eq!(parse_test_job(""), None);
    }

    #[test]
    fn a_job_is_ours_if_its_tag_ends_its_name() {
        let named = format!("wave_2-b.{TAG}");
        assert_eq!(
            parse_test_job(&squeue_line("RUNNING", &named, TAG)),
            parse_test_job(&squeue_line("RUNNING", TAG, TAG))
        );
    }

    #[test]
    fn what_is_not_known_to_be_over_may_still_run() {
        let read = |state: &str| parse_test_job(&squeue_line(state, TAG, TAG)).unwrap().word;
        assert_eq!(read("SUSPENDED"), BatchJobState::Running);
        assert_eq!(read("SOMETHING_NEW"), BatchJobState::Running);
        assert_eq!(read("EXPEDITING"), BatchJobState::Running);
        assert_eq!(read("CONFIGURING"), BatchJobState::Waiting);
        assert_eq!(read("TIMEOUT"), BatchJobState::TimeLimit);
        assert_eq!(read("FAILED"), BatchJobState::Failed);
    }

    #[test]
    fn what_can_never_run_is_known_by_its_reason() {
        for never in [
            "PartitionNodeLimit",
            "PartitionTimeLimit",
            "PartitionConfig",
            "BadConstraints",
            "QOSMaxWallDurationPerJobLimit",
            "AssocMaxCpuPerJobLimit",
            "MaxMemPerLimit",
        ] {
            assert_eq!(
                interpret_state("PENDING", never),
                BatchJobState::NeverRuns,
                "{never}"
            );
        }
        for passes in [
            "Priority",
            "Resources",
            "None",
            "JobHeldUser",
            "JobHeldAdmin",
            "AssocGrpCpuLimit",
            "QOSMaxJobsPerUserLimit",
            "ReqNodeNotAvail, UnavailableNodes:n[1-4]",
            "PartitionDown",
            "PartitionInactive",
            "",
        ] {
            assert_eq!(
                interpret_state("PENDING", passes),
                BatchJobState::Waiting,
                "{passes}"
            );
        }
        assert_eq!(
            interpret_state("PENDING", "launch failed requeued held"),
            BatchJobState::LaunchFailed
        );
        assert_eq!(
            interpret_state("FAILED", "JobLaunchFailure"),
            BatchJobState::LaunchFailed
        );
        assert_eq!(
            interpret_state("FAILED", "RaisedSignal:53(Real-time signal 19)"),
            BatchJobState::LaunchFailed
        );
        assert_eq!(
            interpret_state("FAILED", "RaisedSignal:9(Killed)"),
            BatchJobState::Failed
        );
        assert_eq!(
            interpret_state("RUNNING", "PartitionTimeLimit"),
            BatchJobState::Running
        );
    }

    #[test]
    fn waits_for_others_or_a_limit_are_told_from_waits_for_processors() {
        for reason in ["Priority", "AssocGrpCpuLimit", "QOSMaxJobsPerUserLimit"] {
            let line = squeue_line("PENDING", TAG, TAG).replacen("None", reason, 1);
            let seen = parse_test_job(&line).unwrap().to_queued_attempt();
            assert_eq!(seen.behind.as_deref(), Some(reason));
            assert_eq!(seen.expected, Some(Timestamp(1_795_567_551_000)));
        }
        for reason in [
            "Resources",
            "None",
            "BeginTime",
            "Dependency",
            "PartitionDown",
            "",
        ] {
            assert!(!lets_others_go_first(reason), "{reason}");
        }
    }

    #[test]
    fn a_partitions_processors_are_added_up() {
        let lines = [
            "normal*|up|8/120/64/192|1-00:00:00",
            "normal*|inact|0/10/0/10|1:00:00",
            "urgent|up|1/2/0/3|infinite",
            "odd",
        ];
        let of = |partition| sum_load(lines.iter().copied(), partition);
        assert_eq!(
            of(None),
            Some(PartitionLoad {
                idle: 120,
                total: 138,
                whole: 202
            })
        );
        assert_eq!(
            of(Some("normal")),
            Some(PartitionLoad {
                idle: 120,
                total: 138,
                whole: 202
            })
        );
        assert_eq!(
            of(Some("urgent")),
            Some(PartitionLoad {
                idle: 2,
                total: 3,
                whole: 3
            })
        );
        assert_eq!(of(Some("none")), None);
        let each = loads_by_partition(|| lines.iter().copied());
        assert_eq!(
            each.keys().map(|name| &**name).collect::<Vec<_>>(),
            ["normal", "urgent"]
        );
        assert_eq!(Some(each["urgent"]), of(Some("urgent")));
    }
}
