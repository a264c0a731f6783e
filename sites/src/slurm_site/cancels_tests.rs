//! What a cancel has done, by what `scancel` says and how it ends.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::ids::SiteName;
use cospan_domain::resources::Resources;

use super::{SlurmSite, SlurmSiteConfig};
use crate::contract::attempt_tag;
use crate::exec::child::ChildProcessExecutor;
use crate::exec::{CommandExecutor, CommandOutput, ExecCommand, ExecError};
use crate::port::{SiteError, SiteQueue};

/// Stands in for all commands of Slurm: one job of ours runs.
const COMMANDS: &str = r#"#!/bin/sh
here=${0%/*}
case ${0##*/} in
    scontrol) echo 'KillWait = 30 sec' ;;
    sinfo)
        case $* in
            *%a*) echo 'normal*|up|0/64/0/64|1-0|1-0' ;;
            *) echo 'normal*|8|8|64000|(null)|(null)|0' ;;
        esac
        ;;
    squeue)
        read -r tag < "$here/tag"
        echo "5 RUNNING ${here%/bin}/root|$tag|$tag"
        ;;
    scancel) echo "$*" >> "$here/scancelled" && cat "$here/said" && exit "$(cat "$here/code")" ;;
esac
"#;

/// Runs commands of a directory, before all others.
#[derive(Debug)]
struct ReplacedCommandExecutor(PathBuf, ChildProcessExecutor);

#[async_trait]
impl CommandExecutor for ReplacedCommandExecutor {
    async fn run(&self, mut command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let path = format!("{}:/usr/bin:/bin", self.0.display());
        command.environment.insert("PATH".into(), path.into());
        self.1.run(command).await
    }
}

fn install_fake_slurm(bin: &Path) {
    std::fs::create_dir(bin).unwrap();
    let all = bin.join("all");
    std::fs::write(&all, COMMANDS).unwrap();
    std::fs::set_permissions(&all, std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["scontrol", "sinfo", "squeue", "scancel", "sacctmgr"] {
        symlink(&all, bin.join(name)).unwrap();
    }
    std::fs::write(bin.join("tag"), format!("{}\n", attempt_tag(1))).unwrap();
}

/// A site whose root and Slurm are in this directory.
pub(super) async fn site_in_directory(directory: &Path) -> SlurmSite {
    let bin = directory.join("bin");
    install_fake_slurm(&bin);
    let name = SiteName::new("there").unwrap();
    let total = Resources::processors(64);
    let config = SlurmSiteConfig::new(name, directory.join("root"), total, Vec::new());
    let exec = ReplacedCommandExecutor(bin, ChildProcessExecutor::with_process_environment());
    let site = SlurmSite::with_remote_root(config, Arc::new(exec)).unwrap();
    site.make_root().await.unwrap();
    site
}

#[tokio::test]
async fn what_has_ended_already_needs_no_cancel() {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    let site = site_in_directory(directory.path()).await;
    let over =
        "scancel: error: Kill job error on job id 5: Job/step already completing or completed";
    let away = "scancel: error: Unable to contact slurm controller (connect failure)";
    for (code, said, is_done) in [
        (0, "", true),
        (1, over, true),
        // The job ended after `scancel` had read the queue, of which it says nothing.
        (229, "", true),
        (229, away, false),
        (1, away, false),
        (124, "", false),
    ] {
        std::fs::write(bin.join("said"), said).unwrap();
        std::fs::write(bin.join("code"), code.to_string()).unwrap();
        let answer = site.cancel(attempt_tag(1), None).await;
        let is_unknown = matches!(answer, Err(SiteError::OutcomeUnknown(_)));
        assert!(
            if is_done { answer.is_ok() } else { is_unknown },
            "{code} {said}: {answer:?}"
        );
    }
}
