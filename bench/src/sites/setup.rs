//! The environment of the bench's server: its program, its configuration, commands that count, and
//! jobs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::bench_clusters::BenchComponent;
use crate::measured_program::cospan_program;
use cospan_sites::slurm_testbed::{Testbed, TestbedAccount, TestbedCluster};

/// Commands that query Slurm; `sbatch` and `scancel` change something.
const QUERIES: [&str; 4] = ["squeue", "sinfo", "scontrol", "sacct"];

/// Writes a job file.
pub(super) fn job_document(parts: &[BenchComponent], script: &str, more: &str) -> String {
    let request = if parts.iter().all(|part| part.site.is_some()) {
        "fixed"
    } else {
        "non-fixed"
    };
    let mut text = format!("wall_time = \"10m\"\nrequest = \"{request}\"\n{more}\n");
    for (number, BenchComponent { site, processors }) in parts.iter().enumerate() {
        let site = site.map_or_else(String::new, |site| format!("site = \"{site}\"\n"));
        text += &format!(
            "[[component]]\nname = \"part{number}\"\nprocessors = {processors}\n{site}\
             executable = \"/bin/sh\"\narguments = [\"-c\", '''{script}''']\n"
        );
    }
    text
}

/// Writes the files of the server: its program and this one, its configuration, and commands that count. The
/// last cluster is driven over SSH if an SSH configuration is given.
pub(super) fn prepare_directory(
    place: &Path,
    testbed: &Testbed,
    clusters: &[TestbedCluster],
    ssh: Option<&Path>,
    port: u16,
) -> Result<()> {
    let own = std::env::current_exe().context("cannot find this program's file")?;
    for (from, name) in [(cospan_program()?, "cospan"), (own, "cospan-bench")] {
        fs::copy(from, place.join(name))?;
        make_executable(&place.join(name))?;
    }
    for file in ["payloads", "queries"] {
        fs::write(place.join(file), "")?;
    }
    fs::create_dir(place.join("alone"))?;
    for query in QUERIES {
        let counter = place.join("bin").join(query);
        let log = place.join("queries");
        let text = format!(
            "#!/bin/sh\necho >> {}\nexec /usr/bin/{query} \"$@\"\n",
            log.display()
        );
        fs::write(&counter, text)?;
        make_executable(&counter)?;
    }
    fs::write(
        place.join("cospan.toml"),
        configuration(place, testbed, clusters, ssh, port),
    )?;
    Ok(())
}

fn make_executable(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn configuration(
    place: &Path,
    testbed: &Testbed,
    clusters: &[TestbedCluster],
    ssh: Option<&Path>,
    port: u16,
) -> String {
    let mut text = format!(
        "[server]\ndata_directory = {:?}\nlisten = [\"127.0.0.1:{port}\"]\n",
        place.join("data")
    );
    for TestbedCluster {
        name, processors, ..
    } in clusters
    {
        let root = place.join("sites").join(name);
        let conf = testbed.config_file_path(name);
        text += &format!(
            "[[site]]\nname = {name:?}\nkind = \"slurm\"\nroot = {root:?}\n\
             slurm_conf = {conf:?}\nprocessors = {processors}\n"
        );
    }
    if let Some(ssh) = ssh {
        text += &format!("ssh = \"testbed\"\nssh_config = {ssh:?}\n");
    }
    text
}

/// Starts the server as the user.
pub(super) fn spawn_server(place: &Path, account: &TestbedAccount) -> Result<Child> {
    let log = fs::File::create(place.join("server.log"))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(place.join("cospan"));
    account.run_as(&mut command, place);
    command
        .arg("--config")
        .arg(place.join("cospan.toml"))
        .arg("serve");
    command.env("PATH", format!("{}:{path}", place.join("bin").display()));
    command
        .env_remove("COSPAN_LOG")
        .env_remove("COSPAN_LISTEN")
        .current_dir(place)
        .process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().context("the server could not be started")
}
