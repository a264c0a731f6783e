//! Every option of `sbatch`, and its treatment.

use super::getopt::OptionArity::{self, Nothing, Perhaps, Value};

/// An option that `sbatch` knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SbatchOption {
    pub(super) name: &'static str,
    /// The short name.
    pub(super) short: Option<char>,
    pub(super) takes: OptionArity,
    /// The treatment.
    pub(super) meaning: OptionTreatment,
}

/// The treatment of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionTreatment {
    /// It says something that job files can say as well.
    Read,
    /// Sites under Slurm get it as it is.
    Passed,
    /// It has no effect here, for this reason; empty if nobody would miss it.
    NoEffect(&'static str),
    /// It is refused, with this remedy.
    Refused(&'static str),
}

use OptionTreatment::{NoEffect, Passed, Read, Refused};

const fn sbatch_option(
    name: &'static str,
    short: Option<char>,
    takes: OptionArity,
    meaning: OptionTreatment,
) -> SbatchOption {
    SbatchOption {
        name,
        short,
        takes,
        meaning,
    }
}

const CONTAINER: &str = "start the container within the script";

const ELSEWHERE: &str = "take it out; only jobs submitted at a site itself can use it";

/// Other names of some of them.
pub(super) const ALIASES: [(&str, &str); 2] = [
    ("cluster", "clusters"),
    ("tasks-per-node", "ntasks-per-node"),
];

/// All of them, by name.
pub(super) static TABLE: &[SbatchOption] = &[
    sbatch_option("account", Some('A'), Value, Read),
    sbatch_option("acctg-freq", None, Value, Passed),
    sbatch_option("array", Some('a'), Value, Read),
    sbatch_option(
        "batch",
        None,
        Value,
        Refused("take it out; the wrapper may run on any node"),
    ),
    sbatch_option("bb", None, Value, Passed),
    sbatch_option("bbf", None, Value, Refused("give its lines with --bb")),
    sbatch_option(
        "begin",
        Some('b'),
        Value,
        Refused("take it out, and submit the script when it may run"),
    ),
    sbatch_option("chdir", Some('D'), Value, Read),
    sbatch_option(
        "cluster-constraint",
        None,
        Value,
        Refused("take it out; placement chooses the site"),
    ),
    sbatch_option(
        "clusters",
        Some('M'),
        Value,
        Refused("take it out; placement chooses the site, or a job file names it"),
    ),
    sbatch_option(
        "comment",
        None,
        Value,
        NoEffect("the comment of a job names the attempt"),
    ),
    sbatch_option("consolidate-segments", None, Nothing, Passed),
    sbatch_option("constraint", Some('C'), Value, Read),
    sbatch_option("container", None, Value, Refused(CONTAINER)),
    sbatch_option("container-id", None, Value, Refused(CONTAINER)),
    sbatch_option("container-type", None, Value, Refused(CONTAINER)),
    sbatch_option("context", None, Value, Refused(ELSEWHERE)),
    sbatch_option("contiguous", None, Nothing, Passed),
    sbatch_option("core-spec", Some('S'), Value, Passed),
    sbatch_option("cores-per-socket", None, Value, Passed),
    sbatch_option("cpu-freq", None, Value, Passed),
    sbatch_option("cpus-per-gpu", None, Value, Passed),
    sbatch_option("cpus-per-task", Some('c'), Value, Read),
    sbatch_option(
        "deadline",
        None,
        Value,
        Refused("take it out; --time bounds how long it runs"),
    ),
    sbatch_option("delay-boot", None, Value, Refused(ELSEWHERE)),
    sbatch_option(
        "dependency",
        Some('d'),
        Value,
        Refused("take it out, and wait for the other job: `cospan wait ID && cospan submit ...`"),
    ),
    sbatch_option("distribution", Some('m'), Value, Passed),
    sbatch_option("error", Some('e'), Value, Read),
    sbatch_option("exclude", Some('x'), Value, Passed),
    sbatch_option("exclusive", None, Perhaps, Passed),
    sbatch_option("export", None, Value, Read),
    sbatch_option(
        "export-file",
        None,
        Value,
        Refused("read the file within the script"),
    ),
    sbatch_option(
        "external",
        None,
        Nothing,
        Refused("take it out; a script needs a job that runs it"),
    ),
    sbatch_option(
        "extra",
        None,
        Value,
        NoEffect("only programs of others read it"),
    ),
    sbatch_option("extra-node-info", Some('B'), Value, Passed),
    sbatch_option("get-user-env", None, Perhaps, NoEffect("")),
    sbatch_option(
        "gid",
        None,
        Value,
        Refused("take it out; all runs as the site's own account"),
    ),
    sbatch_option("gpu-bind", None, Value, Passed),
    sbatch_option("gpu-freq", None, Value, Passed),
    sbatch_option("gpus", Some('G'), Value, Read),
    sbatch_option("gpus-per-node", None, Value, Read),
    sbatch_option("gpus-per-socket", None, Value, Passed),
    sbatch_option("gpus-per-task", None, Value, Read),
    sbatch_option("gres", None, Value, Read),
    sbatch_option("gres-flags", None, Value, Passed),
    sbatch_option("hint", None, Value, Passed),
    sbatch_option(
        "hold",
        Some('H'),
        Nothing,
        Refused("take it out, and use `cospan freeze last`"),
    ),
    sbatch_option("ignore-pbs", None, Nothing, NoEffect("")),
    sbatch_option(
        "input",
        Some('i'),
        Value,
        Refused("read the file within the script"),
    ),
    sbatch_option("job-name", Some('J'), Value, Read),
    sbatch_option("kill-on-invalid-dep", None, Value, NoEffect("")),
    sbatch_option("licenses", Some('L'), Value, Passed),
    sbatch_option("mail-type", None, Value, Passed),
    sbatch_option("mail-user", None, Value, Passed),
    sbatch_option("mcs-label", None, Value, Refused(ELSEWHERE)),
    sbatch_option("mem", None, Value, Read),
    sbatch_option("mem-bind", None, Value, Passed),
    sbatch_option("mem-per-cpu", None, Value, Read),
    sbatch_option("mem-per-gpu", None, Value, Read),
    sbatch_option("mem-update", None, Value, Refused(ELSEWHERE)),
    sbatch_option("mincpus", None, Value, Read),
    sbatch_option("network", None, Value, Passed),
    sbatch_option("nice", None, Perhaps, Passed),
    sbatch_option(
        "no-kill",
        Some('k'),
        Perhaps,
        Refused("take it out; a failed node ends the attempt"),
    ),
    sbatch_option("no-requeue", None, Nothing, Read),
    sbatch_option(
        "nodefile",
        Some('F'),
        Value,
        Refused("name its nodes with --nodelist"),
    ),
    sbatch_option("nodelist", Some('w'), Value, Passed),
    sbatch_option("nodes", Some('N'), Value, Read),
    sbatch_option("ntasks", Some('n'), Value, Read),
    sbatch_option("ntasks-per-core", None, Value, Passed),
    sbatch_option("ntasks-per-gpu", None, Value, Passed),
    sbatch_option("ntasks-per-node", None, Value, Read),
    sbatch_option("ntasks-per-socket", None, Value, Passed),
    sbatch_option("ntasks-per-tres", None, Value, Passed),
    sbatch_option("oom-kill-step", None, Perhaps, Passed),
    sbatch_option("open-mode", None, Value, Read),
    sbatch_option("output", Some('o'), Value, Read),
    sbatch_option("overcommit", Some('O'), Nothing, Passed),
    sbatch_option("oversubscribe", Some('s'), Nothing, Passed),
    sbatch_option("parsable", None, Nothing, NoEffect("")),
    sbatch_option("partition", Some('p'), Value, Read),
    sbatch_option("power", None, Value, Refused(ELSEWHERE)),
    sbatch_option("prefer", None, Value, Passed),
    sbatch_option(
        "priority",
        None,
        Value,
        Refused("take it out, and use `cospan priority`"),
    ),
    sbatch_option("profile", None, Value, Passed),
    sbatch_option(
        "propagate",
        None,
        Perhaps,
        NoEffect("nothing of where it is submitted is taken along"),
    ),
    sbatch_option("qos", Some('q'), Value, Read),
    sbatch_option("quiet", Some('Q'), Nothing, NoEffect("")),
    sbatch_option("reboot", None, Nothing, Refused(ELSEWHERE)),
    sbatch_option("requeue", None, Nothing, Read),
    sbatch_option("reservation", None, Value, Passed),
    sbatch_option("resources", None, Value, Refused(ELSEWHERE)),
    sbatch_option("resv-ports", None, Perhaps, Passed),
    sbatch_option("segment", None, Value, Passed),
    sbatch_option("signal", None, Value, Read),
    sbatch_option("sockets-per-node", None, Value, Passed),
    sbatch_option("spread-job", None, Nothing, Passed),
    sbatch_option("spread-segments", None, Nothing, Passed),
    sbatch_option("stepmgr", None, Nothing, Passed),
    sbatch_option("switches", None, Value, Passed),
    sbatch_option(
        "test-only",
        None,
        Nothing,
        Refused("use `cospan submit --dry-run`"),
    ),
    sbatch_option("thread-spec", None, Value, Refused(ELSEWHERE)),
    sbatch_option("threads-per-core", None, Value, Passed),
    sbatch_option("time", Some('t'), Value, Read),
    sbatch_option(
        "time-min",
        None,
        Value,
        Refused("take it out; --time is what it gets"),
    ),
    sbatch_option("tmp", None, Value, Passed),
    sbatch_option("tres-bind", None, Value, Passed),
    sbatch_option("tres-per-task", None, Value, Read),
    sbatch_option(
        "uid",
        None,
        Value,
        Refused("take it out; all runs as the site's own account"),
    ),
    sbatch_option("use-min-nodes", None, Nothing, Passed),
    sbatch_option("verbose", Some('v'), Nothing, NoEffect("")),
    sbatch_option(
        "wait",
        Some('W'),
        Nothing,
        Refused("use `cospan submit --wait`"),
    ),
    sbatch_option("wait-all-nodes", None, Value, Refused(ELSEWHERE)),
    sbatch_option("wckey", None, Value, Passed),
    sbatch_option(
        "wrap",
        None,
        Value,
        Refused("write the command into the script"),
    ),
];
