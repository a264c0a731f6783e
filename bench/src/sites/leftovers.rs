//! Leftovers of a run of the bench that was interrupted or killed: servers of this program and
//! clusters, which would run for ever.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::bench_clusters::run_side_by_side;
use crate::interrupt::run_at_interrupt;
use crate::print_progress;
use cospan_sites::slurm_testbed::Testbed;

/// Locks the testbed's directory, so that only one run works below it.
///
/// # Errors
/// Another run holds the lock.
pub(super) fn lock_testbed(testbed: &Testbed) -> Result<File> {
    fs::create_dir_all(testbed.base_directory())?;
    let lock = File::create(testbed.base_directory().join("lock"))?;
    lock.try_lock().with_context(|| {
        format!(
            "another run works below {}: wait for its end",
            testbed.base_directory().display()
        )
    })?;
    Ok(lock)
}

/// Ends what runs below the testbed's directory if the user interrupts from now on.
pub(super) fn end_at_interrupt(testbed: &Testbed) {
    let testbed = testbed.clone();
    run_at_interrupt(move || {
        // The next start reports what cannot be ended, and tries again.
        let _ = end_leftovers(&testbed);
    });
}

/// Ends all clusters of the testbed, and all processes whose program lies below its directory.
///
/// # Errors
/// A cluster does not end.
pub(super) fn end_leftovers(testbed: &Testbed) -> Result<()> {
    let clusters = clusters_below(testbed.base_directory());
    let servers = kill_programs_below(testbed.base_directory());
    if clusters.is_empty() && servers == 0 {
        return Ok(());
    }
    print_progress("ending clusters and servers of the bench");
    run_side_by_side(&clusters, |name| Ok(testbed.end_cluster(name)?))?;
    // The programs that started payloads are still left.
    kill_programs_below(testbed.base_directory());
    Ok(())
}

/// Clusters that have a directory for the process numbers of their daemons.
fn clusters_below(base: &Path) -> Vec<String> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let clusters = entries.filter(|entry| entry.path().join("run").is_dir());
    clusters
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Kills all programs below the directory; returns their number.
fn kill_programs_below(base: &Path) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let below = numbers.filter(|number: &i32| {
        let program = fs::read_link(format!("/proc/{number}/exe"));
        program.is_ok_and(|program| program.starts_with(base))
    });
    let below: Vec<Pid> = below.filter_map(Pid::from_raw).collect();
    for process in &below {
        // One that has ended meanwhile is fine.
        let _ = kill_process(*process, Signal::KILL);
    }
    below.len()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn programs_below_a_directory_are_killed_and_no_others() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let copied = base.join("sleep");
        // A file that this process wrote itself could be busy in a child of another test.
        assert!(
            Command::new("cp")
                .args(["/bin/sleep".as_ref(), &*copied])
                .status()
                .unwrap()
                .success()
        );
        let mut below = Command::new(&copied).arg("60").spawn().unwrap();
        let mut beside = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        assert_eq!(kill_programs_below(&base), 1);
        assert!(!below.wait().unwrap().success());
        assert_eq!(kill_programs_below(&base), 0);
        assert!(
            beside.try_wait().unwrap().is_none(),
            "another program was killed"
        );
        beside.kill().unwrap();
        beside.wait().unwrap();
    }

    #[test]
    fn clusters_are_the_directories_with_daemons() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("alpha/run")).unwrap();
        fs::create_dir_all(base.path().join("bench-both/data")).unwrap();
        assert_eq!(clusters_below(base.path()), ["alpha"]);
        assert!(clusters_below(&base.path().join("none")).is_empty());
    }
}
