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

const fn known(
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

const ELSEWHERE: &str = "take it out; sites keep it for what runs on their own orders";

/// All of them, by name.
pub(super) static TABLE: &[SbatchOption] = &[
    known("account", Some('A'), Value, Read),
    known("acctg-freq", None, Value, Passed),
    known("array", Some('a'), Value, Read),
    known(
        "batch",
        None,
        Value,
        Refused("take it out; the wrapper may run on any node"),
    ),
    known("bb", None, Value, Passed),
    known("bbf", None, Value, Refused("give its lines with --bb")),
    known(
        "begin",
        Some('b'),
        Value,
        Refused("take it out, and submit the script when it may run"),
    ),
    known("chdir", Some('D'), Value, Read),
    known(
        "cluster-constraint",
        None,
        Value,
        Refused("take it out; placement chooses the site"),
    ),
    known(
        "clusters",
        Some('M'),
        Value,
        Refused("take it out; placement chooses the site, or a job file names it"),
    ),
    known(
        "comment",
        None,
        Value,
        NoEffect("the comment of a job names the attempt"),
    ),
    known("constraint", Some('C'), Value, Read),
    known(
        "container",
        None,
        Value,
        Refused("start the container within the script"),
    ),
    known("contiguous", None, Nothing, Passed),
    known("core-spec", Some('S'), Value, Passed),
    known("cores-per-socket", None, Value, Passed),
    known("cpu-freq", None, Value, Passed),
    known("cpus-per-gpu", None, Value, Passed),
    known("cpus-per-task", Some('c'), Value, Read),
    known(
        "deadline",
        None,
        Value,
        Refused("take it out; --time bounds how long it runs"),
    ),
    known("delay-boot", None, Value, Refused(ELSEWHERE)),
    known(
        "dependency",
        Some('d'),
        Value,
        Refused("take it out, and wait for the other job: `cospan wait ID && cospan submit ...`"),
    ),
    known("distribution", Some('m'), Value, Passed),
    known("error", Some('e'), Value, Read),
    known("exclude", Some('x'), Value, Passed),
    known("exclusive", None, Perhaps, Passed),
    known("export", None, Value, Read),
    known(
        "export-file",
        None,
        Value,
        Refused("read the file within the script"),
    ),
    known("extra-node-info", Some('B'), Value, Passed),
    known("get-user-env", None, Perhaps, NoEffect("")),
    known(
        "gid",
        None,
        Value,
        Refused("take it out; all runs as the site's own account"),
    ),
    known("gpu-bind", None, Value, Passed),
    known("gpu-freq", None, Value, Passed),
    known("gpus", Some('G'), Value, Read),
    known("gpus-per-node", None, Value, Read),
    known("gpus-per-socket", None, Value, Passed),
    known("gpus-per-task", None, Value, Read),
    known("gres", None, Value, Read),
    known("gres-flags", None, Value, Passed),
    known("hint", None, Value, Passed),
    known(
        "hold",
        Some('H'),
        Nothing,
        Refused("take it out, and use `cospan freeze last`"),
    ),
    known("ignore-pbs", None, Nothing, NoEffect("")),
    known(
        "input",
        Some('i'),
        Value,
        Refused("read the file within the script"),
    ),
    known("job-name", Some('J'), Value, Read),
    known("kill-on-invalid-dep", None, Value, NoEffect("")),
    known("licenses", Some('L'), Value, Passed),
    known("mail-type", None, Value, Passed),
    known("mail-user", None, Value, Passed),
    known("mcs-label", None, Value, Refused(ELSEWHERE)),
    known("mem", None, Value, Read),
    known("mem-bind", None, Value, Passed),
    known("mem-per-cpu", None, Value, Read),
    known("mem-per-gpu", None, Value, Read),
    known("network", None, Value, Passed),
    known("nice", None, Perhaps, Passed),
    known(
        "no-kill",
        Some('k'),
        Perhaps,
        Refused("take it out; a failed node ends the attempt"),
    ),
    known("no-requeue", None, Nothing, Read),
    known("nodelist", Some('w'), Value, Passed),
    known("nodes", Some('N'), Value, Read),
    known("ntasks", Some('n'), Value, Read),
    known("ntasks-per-core", None, Value, Passed),
    known("ntasks-per-gpu", None, Value, Passed),
    known("ntasks-per-node", None, Value, Read),
    known("ntasks-per-socket", None, Value, Passed),
    known("open-mode", None, Value, Read),
    known("output", Some('o'), Value, Read),
    known("overcommit", Some('O'), Nothing, Passed),
    known("oversubscribe", Some('s'), Nothing, Passed),
    known("parsable", None, Nothing, NoEffect("")),
    known("partition", Some('p'), Value, Read),
    known("power", None, Value, Refused(ELSEWHERE)),
    known("prefer", None, Value, Passed),
    known(
        "priority",
        None,
        Value,
        Refused("take it out, and use `cospan priority`"),
    ),
    known("profile", None, Value, Passed),
    known(
        "propagate",
        None,
        Perhaps,
        NoEffect("nothing of where it is submitted is taken along"),
    ),
    known("qos", Some('q'), Value, Read),
    known("quiet", Some('Q'), Nothing, NoEffect("")),
    known("reboot", None, Nothing, Refused(ELSEWHERE)),
    known("requeue", None, Nothing, Read),
    known("reservation", None, Value, Passed),
    known("signal", None, Value, Read),
    known("sockets-per-node", None, Value, Passed),
    known("spread-job", None, Nothing, Passed),
    known("switches", None, Value, Passed),
    known(
        "test-only",
        None,
        Nothing,
        Refused("use `cospan submit --dry-run`"),
    ),
    known("thread-spec", None, Value, Refused(ELSEWHERE)),
    known("threads-per-core", None, Value, Passed),
    known("time", Some('t'), Value, Read),
    known(
        "time-min",
        None,
        Value,
        Refused("take it out; --time is what it gets"),
    ),
    known("tmp", None, Value, Passed),
    known(
        "uid",
        None,
        Value,
        Refused("take it out; all runs as the site's own account"),
    ),
    known("use-min-nodes", None, Nothing, Passed),
    known("verbose", Some('v'), Nothing, NoEffect("")),
    known(
        "wait",
        Some('W'),
        Nothing,
        Refused("use `cospan submit --wait`"),
    ),
    known("wait-all-nodes", None, Value, Refused(ELSEWHERE)),
    known("wckey", None, Value, Passed),
    known(
        "wrap",
        None,
        Value,
        Refused("write the command into the script"),
    ),
];
