//! The options of `sbatch` that a job may have.

use std::sync::Arc;

use crate::port::SiteError;

/// Options that a job may have, with a value.
const WITH_VALUE: &[&str] = &[
    "account",
    "acctg-freq",
    "bb",
    "clock",
    "constraint",
    "core-spec",
    "cores-per-socket",
    "cpu-freq",
    "cpus-per-gpu",
    "cpus-per-task",
    "distribution",
    "exclude",
    "extra-node-info",
    "gpu-bind",
    "gpu-freq",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "hint",
    "licenses",
    "mail-type",
    "mail-user",
    "mem",
    "mem-bind",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "network",
    "nodelist",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "ntasks-per-tres",
    "oom-kill-step",
    "partition",
    "prefer",
    "profile",
    "qos",
    "reservation",
    "resv-ports",
    "segment",
    "sockets-per-node",
    "switches",
    "threads-per-core",
    "tmp",
    "tres-bind",
    "tres-per-task",
    "wckey",
];

/// Options that a job may have, without a value.
const FLAGS: [&str; 13] = [
    "consolidate-segments",
    "contiguous",
    "exclusive",
    "kill-on-invalid-dep",
    "nice",
    "oom-kill-step",
    "overcommit",
    "oversubscribe",
    "resv-ports",
    "spread-job",
    "spread-segments",
    "stepmgr",
    "use-min-nodes",
];

/// All other options that `sbatch` had up to 26.05, which no job may have. What is none of all these is
/// one of a plug-in at a site.
const KEPT: &[&str] = &[
    "array",
    "autocomplete",
    "batch",
    "bbf",
    "begin",
    "chdir",
    "cluster",
    "cluster-constraint",
    "clusters",
    "comment",
    "container",
    "container-id",
    "container-type",
    "context",
    "deadline",
    "delay-boot",
    "dependency",
    "error",
    "export",
    "export-file",
    "external",
    "extra",
    "get-user-env",
    "gid",
    "help",
    "hold",
    "ignore-pbs",
    "input",
    "job-name",
    "mcs-label",
    "mem-update",
    "no-kill",
    "no-requeue",
    "nodefile",
    "open-mode",
    "output",
    "parsable",
    "power",
    "priority",
    "propagate",
    "quiet",
    "reboot",
    "requeue",
    "resources",
    "signal",
    "tasks-per-node",
    "test-only",
    "thread-spec",
    "time",
    "time-min",
    "uid",
    "usage",
    "verbose",
    "version",
    "wait",
    "wait-all-nodes",
    "wrap",
];

/// Short names of some of them; their value follows at once.
const SHORT: [(&str, &str); 9] = [
    ("-A", "account"),
    ("-p", "partition"),
    ("-q", "qos"),
    ("-C", "constraint"),
    ("-N", "nodes"),
    ("-w", "nodelist"),
    ("-x", "exclude"),
    ("-L", "licenses"),
    ("-m", "distribution"),
];

/// Checks an option of a job, and returns it as the one word that `sbatch` gets.
///
/// # Errors
/// `Unfit` if a job may not have it.
pub fn check_option(option: &Arc<str>) -> Result<String, SiteError> {
    if option.chars().any(char::is_control) {
        return Err(refuse_option(option, "has a control character"));
    }
    let (name, value) = match option.strip_prefix("--") {
        Some(long) => match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        },
        None => {
            let short = SHORT.iter().find(|(short, _)| option.starts_with(short));
            let Some((short, name)) = short else {
                let why = "is not known here; write it as --option=value";
                return Err(refuse_option(option, why));
            };
            (*name, Some(&option[short.len()..]))
        }
    };
    match value {
        Some("") => Err(refuse_option(
            option,
            "has no value; write it as --option=value",
        )),
        Some(value) if WITH_VALUE.contains(&name) || ["exclusive", "nice"].contains(&name) => {
            Ok(format!("--{name}={value}"))
        }
        None if FLAGS.contains(&name) => Ok(format!("--{name}")),
        None if WITH_VALUE.contains(&name) => Err(refuse_option(
            option,
            "has no value; write it as --option=value",
        )),
        _ if is_plugin_option(option, name) => Ok(option.to_string()),
        _ => Err(refuse_option(
            option,
            "cannot be passed on: Cospan sets it itself, or it would change how an \
             attempt is run and found again",
        )),
    }
}

/// Returns true for a long option that no `sbatch` takes for one of its own, also shortened.
fn is_plugin_option(option: &str, name: &str) -> bool {
    let mut own = WITH_VALUE.iter().chain(&FLAGS).chain(KEPT);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    option.starts_with("--")
        && name.len() > 1
        && name.chars().all(is_name)
        && !own.any(|own| own.starts_with(name))
}

fn refuse_option(option: &str, why: &str) -> SiteError {
    SiteError::Unfit(format!("the option {option:?} of sbatch {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_option_text(option: &str) -> Result<String, SiteError> {
        check_option(&option.into())
    }

    #[test]
    fn what_a_job_may_ask_for_is_passed_on_as_one_word() {
        assert_eq!(check_option_text("--gres=gpu:2").unwrap(), "--gres=gpu:2");
        assert_eq!(check_option_text("-pshort").unwrap(), "--partition=short");
        assert_eq!(check_option_text("--exclusive").unwrap(), "--exclusive");
        assert_eq!(
            check_option_text("--exclusive=user").unwrap(),
            "--exclusive=user"
        );
        assert_eq!(
            check_option_text("--constraint=a&(b|c) $(id)").unwrap(),
            "--constraint=a&(b|c) $(id)"
        );
        let container = "--container-image=docker://x:1";
        assert_eq!(check_option_text(container).unwrap(), container);
        assert_eq!(check_option_text("--x11").unwrap(), "--x11");
    }

    #[test]
    fn what_would_change_the_attempt_itself_is_refused_by_name() {
        for option in [
            "--wrap=id",
            "--wra=id",
            "--container=x",
            "--external",
            "--X=y",
            "--export=ALL",
            "--requeue",
            "--array=1-9",
            "-a1-9",
            "--time=1",
            "-t1",
            "--job-name=x",
            "--comment=x",
            "--output=/x",
            "--chdir=/",
            "--uid=0",
            "--partition",
            "--gres=",
            "-p",
            "--exclusive=",
            "script.sh",
            "",
            "-",
            "--",
            ":",
            "--mem=1\n--wrap=id",
        ] {
            let answer = check_option_text(option);
            assert!(
                matches!(answer, Err(SiteError::Unfit(_))),
                "{option:?}: {answer:?}"
            );
        }
    }
}
