//! What Slurm says of its jobs and nodes.

use cospan_domain::ids::Tag;
use cospan_domain::units::Timestamp;

/// What Slurm says a job is doing, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Waits in the queue.
    Waiting,
    /// Its processes run, or are stopped.
    Running,
    /// It is over, or nearly: what is left is being tidied up.
    Completing,
    /// It is over.
    Over(Over),
}

/// How a job ended, as Slurm says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// By itself, with whatever code.
    Ended,
    /// Somebody cancelled it.
    Cancelled,
    /// Its processors went to another job.
    Preempted,
    /// It ran longer than it was given.
    TimeLimit,
    /// A node failed.
    NodeFailed,
    /// It took more memory than it asked for.
    OutOfMemory,
}

/// One of our jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: String,
    pub(super) tag: Tag,
    /// Slurm's word.
    pub(super) word: String,
    pub(super) state: State,
    /// Why it waits, or ended.
    pub(super) reason: String,
    pub(super) processors: u32,
    pub(super) submitted_at: Timestamp,
    /// When it started, or is expected to.
    pub(super) start_at: Option<Timestamp>,
    /// When it ended, or is expected to.
    pub(super) end_at: Option<Timestamp>,
}

impl Job {
    /// Whether it may still do something.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.state, State::Over(_))
    }

    /// Reads a line of `squeue`: number, state, reason, processors, times of submission, start
    /// and end, directory, name, comment. `None` if it is another's: the tag is name and comment
    /// at once, and the directory is the site's root.
    pub(super) fn read(line: &str, root: &str) -> Option<Self> {
        let mut fields = line.splitn(10, '|');
        let mut next = || fields.next();
        let (number, word, reason, processors) = (next()?, next()?, next()?, next()?);
        let (submitted, start, end) = (next()?, next()?, next()?);
        let (directory, name, comment) = (next()?, next()?, next()?);
        let tag = comment.parse().ok().filter(|_| name == comment && directory == root)?;
        Some(Self {
            number: number.to_owned(),
            tag,
            word: word.to_owned(),
            state: state(word),
            reason: reason.to_owned(),
            processors: processors.parse().ok()?,
            submitted_at: seconds(submitted)?,
            start_at: seconds(start),
            end_at: seconds(end),
        })
    }
}

/// A word that is not known is that of something that may still run.
fn state(word: &str) -> State {
    match word {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD"
        | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => State::Waiting,
        "COMPLETING" | "STAGE_OUT" | "SIGNALING" => State::Completing,
        "COMPLETED" | "FAILED" => State::Over(Over::Ended),
        "CANCELLED" | "DEADLINE" | "REVOKED" => State::Over(Over::Cancelled),
        "PREEMPTED" => State::Over(Over::Preempted),
        "TIMEOUT" => State::Over(Over::TimeLimit),
        "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => {
            State::Over(Over::NodeFailed)
        }
        "OUT_OF_MEMORY" => State::Over(Over::OutOfMemory),
        _ => State::Running,
    }
}

fn seconds(text: &str) -> Option<Timestamp> {
    text.parse::<u64>().ok().map(|seconds| Timestamp(seconds.saturating_mul(1_000)))
}

/// Processors of a partition that takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Load {
    pub(super) idle: u32,
    /// All but those of nodes that are out of order.
    pub(super) total: u32,
}

/// Adds up the lines of `sinfo` that speak of a partition, or of the default one: name,
/// availability, processors as allocated/idle/other/total. `None` if there is no such partition.
pub(super) fn load<'a>(
    lines: impl Iterator<Item = &'a str>,
    partition: Option<&str>,
) -> Option<Load> {
    let mut found: Option<Load> = None;
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
        let counts: Vec<u32> = counts.split('/').filter_map(|count| count.parse().ok()).collect();
        let [allocated, idle, _, _] = counts[..] else { continue };
        if is_meant {
            let sum = found.get_or_insert_default();
            sum.total = sum.total.saturating_add(allocated).saturating_add(idle);
            // What is drained finishes its jobs, and starts none.
            sum.idle = sum.idle.saturating_add(if up == "up" { idle } else { 0 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "cabcdefgh-7-0-1";

    fn line(state: &str, name: &str, comment: &str) -> String {
        format!("31|{state}|None|8|1795567550|1795567551|N/A|/r s|{name}|{comment}")
    }

    fn read(line: &str) -> Option<Job> {
        Job::read(line, "/r s")
    }

    #[test]
    fn our_job_is_read_with_what_matters() {
        let job = read(&line("RUNNING", TAG, TAG)).unwrap();
        assert_eq!((job.number.as_str(), job.processors), ("31", 8));
        assert_eq!((job.state, job.end_at), (State::Running, None));
        assert_eq!(job.submitted_at, Timestamp(1_795_567_550_000));
        assert_eq!(job.tag.to_string(), TAG);
    }

    #[test]
    fn a_job_whose_name_or_comment_says_something_else_is_anothers() {
        for (name, comment) in
            [("wrap", "(null)"), (TAG, "(null)"), ("wrap", TAG), ("a|b", TAG), ("", "")]
        {
            assert_eq!(read(&line("RUNNING", name, comment)), None, "{name} {comment}");
        }
        assert_eq!(Job::read(&line("RUNNING", TAG, TAG), "/other"), None, "of another site");
        assert_eq!(read("slurm_load_jobs error: Invalid job id specified"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn what_is_not_known_to_be_over_may_still_run() {
        let state = |word: &str| read(&line(word, TAG, TAG)).unwrap().state;
        assert_eq!(state("SUSPENDED"), State::Running);
        assert_eq!(state("SOMETHING_NEW"), State::Running);
        assert_eq!(state("CONFIGURING"), State::Waiting);
        assert_eq!(state("TIMEOUT"), State::Over(Over::TimeLimit));
        assert_eq!(state("FAILED"), State::Over(Over::Ended));
    }

    #[test]
    fn a_partitions_processors_are_added_up() {
        let lines = [
            "normal*|up|8/120/64/192|1-00:00:00",
            "normal*|inact|0/10/0/10|1:00:00",
            "urgent|up|1/2/0/3|infinite",
            "odd",
        ];
        let of = |partition| load(lines.iter().copied(), partition);
        assert_eq!(of(None), Some(Load { idle: 120, total: 138 }));
        assert_eq!(of(Some("normal")), Some(Load { idle: 120, total: 138 }));
        assert_eq!(of(Some("urgent")), Some(Load { idle: 2, total: 3 }));
        assert_eq!(of(Some("none")), None);
    }
}
