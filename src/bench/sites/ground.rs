//! Two clusters, a server of this program that drives them as an ordinary user, and its client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::payloads::{self, Payloads};
use crate::api::v1::control::JobSelection;
use crate::api::v1::job::JobReport;
use crate::api::v1::parse::{Format, parse_all};
use crate::bench::server::free_port;
use crate::client::{Client, Order, ServerAddress, SiteAction, SubmitOptions};
use crate::testbed::{Account, Cluster, Testbed, said};

/// Where everything of it lies.
const BASE: &str = "/var/tmp/cospan-bench";

/// Driven by its own commands, on this machine.
pub(super) const ALPHA: Cluster = Cluster { name: "alpha", processors: 16, port: 27_710 };
/// Driven over SSH.
pub(super) const BETA: Cluster = Cluster { name: "beta", processors: 16, port: 27_720 };
const SSH_PORT: u16 = 27_730;

/// Longest wait for jobs to come to their end when nothing hinders them any more.
const END_MAX: Duration = Duration::from_secs(300);

/// Commands that ask Slurm something; `sbatch` and `scancel` do something.
const QUERIES: [&str; 4] = ["squeue", "sinfo", "scontrol", "sacct"];

/// Everything that the sections of the bench work with.
pub(super) struct Ground {
    pub(super) testbed: Testbed,
    account: Account,
    place: PathBuf,
    /// How to log in.
    pub(super) ssh: PathBuf,
    server: Child,
    client: Client,
}

/// A component of a job of the bench.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its site; of all parts of a job, or of none.
    pub(super) site: Option<&'static str>,
    /// Its processors.
    pub(super) processors: u32,
}

/// Seconds since 1970, by this machine's clock.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl Ground {
    /// Starts the clusters and the server.
    pub(super) fn start() -> Result<Self> {
        let testbed = Testbed::below(BASE)?;
        testbed.check_free()?;
        let account = testbed.account()?;
        for cluster in [ALPHA, BETA] {
            crate::cli::progress("clusters under Slurm");
            testbed.up(cluster)?;
        }
        let ssh = testbed.ssh(SSH_PORT)?;
        let place = testbed.base().join("bench");
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(place.join("bin"))?;
        let port = free_port()?;
        prepare(&place, &testbed, &ssh, port)?;
        account.own(&place)?;
        account.own(&place.join("payloads"))?;
        account.own(&place.join("queries"))?;
        let server = spawn(&place, &account)?;
        let address = ServerAddress::Http(format!("http://127.0.0.1:{port}"));
        let client = Client::new(address.clone(), None, None)?;
        let mut ground = Self { testbed, account, place, ssh, server, client };
        ground.await_ready()?;
        let token = fs::read_to_string(ground.place.join("data/keys/admin.token"))?;
        ground.client = Client::new(address, Some(token.trim().to_owned()), None)?;
        ground.await_sites()?;
        Ok(ground)
    }

    fn await_ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        while self.client.text("/readyz").is_err() {
            if let Some(status) = self.server.try_wait()? {
                let log = self.place.join("server.log");
                bail!("the server ended with {status}; its log is {}", log.display());
            }
            if begin.elapsed() > END_MAX {
                bail!("the server does not get ready");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits until both clusters answer.
    pub(super) fn await_sites(&self) -> Result<()> {
        let usable = || -> Result<bool> {
            let sites = self.client.sites()?.sites;
            Ok(sites.iter().all(|site| site.state == "usable"))
        };
        self.wait("both clusters answer", usable)
    }

    /// Waits until something holds.
    pub(super) fn wait(&self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !holds()? {
            if begin.elapsed() > END_MAX {
                bail!("{what}: not within {END_MAX:?}; see {}", self.place.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Submits a job whose payloads take so long; its number.
    pub(super) fn submit(&self, parts: &[Part], seconds: u32, more: &str) -> Result<u64> {
        let script = payloads::script(&self.place.join("payloads"), seconds);
        self.submit_script(parts, &script, more)
    }

    /// The same with payloads that run this script.
    pub(super) fn submit_script(&self, parts: &[Part], script: &str, more: &str) -> Result<u64> {
        let text = document(parts, script, more);
        let jobs = parse_all(&text, Format::Toml)?;
        let submitted = self.client.submit(&jobs, &SubmitOptions::default())?;
        Ok(submitted.jobs.first().context("no number")?.id)
    }

    /// A job as it stands.
    pub(super) fn job(&self, id: u64) -> Result<JobReport> {
        Ok(self.client.job(id)?)
    }

    /// Waits until each of them satisfies something.
    pub(super) fn await_jobs(
        &self,
        what: &str,
        jobs: &[u64],
        holds: impl Fn(&JobReport) -> bool,
    ) -> Result<Vec<JobReport>> {
        self.wait(what, || {
            jobs.iter().try_fold(true, |all, id| Ok(all && holds(&self.job(*id)?)))
        })?;
        jobs.iter().map(|id| self.job(*id)).collect()
    }

    /// Waits for their ends; those that have none after long come as they stand.
    pub(super) fn await_ends(&self, jobs: &[u64]) -> Result<Vec<JobReport>> {
        let begin = Instant::now();
        loop {
            let all: Vec<_> = jobs.iter().map(|id| self.job(*id)).collect::<Result<_>>()?;
            if all.iter().all(|job| job.phase.is_final()) || begin.elapsed() > END_MAX {
                return Ok(all);
            }
            [ALPHA, BETA].into_iter().for_each(|cluster| self.keep_in_service(cluster, &[]));
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Cancels jobs.
    pub(super) fn cancel(&self, jobs: &[u64]) -> Result<()> {
        let selection = JobSelection { ids: jobs.to_vec(), ..JobSelection::default() };
        self.client.order(Order::Cancel, &selection)?;
        Ok(())
    }

    /// What payloads wrote down so far.
    pub(super) fn payloads(&self) -> Result<Payloads> {
        Payloads::read(&self.place.join("payloads"))
    }

    /// How often alpha was asked something so far.
    pub(super) fn queries(&self) -> Result<usize> {
        Ok(fs::read_to_string(self.place.join("queries"))?.lines().count())
    }

    /// Runs a command of Slurm as the user; what it prints.
    pub(super) fn slurm(&self, cluster: Cluster, words: &[&str]) -> Result<String> {
        let mut command = self.command(cluster, words);
        self.account.run_as(&mut command, &self.place);
        said(&mut command)?.map_err(anyhow::Error::msg)
    }

    /// The same as the clusters' operator.
    pub(super) fn operate(&self, cluster: Cluster, words: &[&str]) -> Result<String> {
        said(&mut self.command(cluster, words))?.map_err(anyhow::Error::msg)
    }

    fn command(&self, cluster: Cluster, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", self.testbed.conf(cluster.name));
        command.current_dir(&self.place);
        command
    }

    /// Ends all that the user has in the queue.
    pub(super) fn clear(&self, cluster: Cluster) -> Result<()> {
        self.operate(cluster, &["scancel", "--user", &self.account.name])?;
        self.wait("an empty queue", || {
            Ok(self.operate(cluster, &["squeue", "-h", "-u", &self.account.name])?.is_empty())
        })
    }

    /// Has the server use a cluster again that it has closed.
    pub(super) fn reopen(&self, cluster: Cluster) -> Result<()> {
        self.client.order_site(cluster.name, &SiteAction::Reset)?;
        self.await_sites()
    }

    /// Until the node takes work: it may have come back by itself, or Slurm drained it because it
    /// gave a number out twice.
    pub(super) fn resume(&self, cluster: Cluster) -> Result<()> {
        let node = format!("nodename={}0", cluster.name);
        self.wait("the node takes work", || {
            let _came_back = self.operate(cluster, &["scontrol", "update", &node, "state=resume"]);
            let state = self.operate(cluster, &["sinfo", "-h", "-p", "normal", "-o", "%T"])?;
            Ok(["idle", "mixed", "allocated"].contains(&state.as_str()))
        })
    }

    /// What an operator does after a controller gave numbers out twice: nodes that Slurm drained for
    /// it are put back into service, and jobs that it holds for it released.
    pub(super) fn keep_in_service(&self, cluster: Cluster, held: &[String]) {
        let node = format!("nodename={}0", cluster.name);
        let control = ["timeout", "2", "scontrol"];
        // It may be in service, and the job not held.
        let _ = self.operate(cluster, &[&control[..], &["update", &node, "state=resume"]].concat());
        for job in held {
            let _ = self.operate(cluster, &[&control[..], &["release", job]].concat());
        }
    }

    /// This program again, as the user.
    pub(super) fn program(&self) -> Command {
        let mut command = Command::new(self.place.join("cospan"));
        self.account.run_as(&mut command, &self.place);
        command.current_dir(&self.place);
        command
    }

    /// A directory of the user's.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.place.join(name);
        fs::create_dir_all(&path)?;
        self.account.own(&path)?;
        Ok(path)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // Gone already is as good; what cannot be ended is told by the next start.
        let _ = self.server.kill();
        let _ = self.server.wait();
        for name in [ALPHA.name, BETA.name, "ssh"] {
            let _ = self.testbed.down(name);
        }
    }
}

/// A job file.
fn document(parts: &[Part], script: &str, more: &str) -> String {
    let request = if parts.iter().all(|part| part.site.is_some()) { "fixed" } else { "non-fixed" };
    let mut text = format!("wall_time = \"10m\"\nrequest = \"{request}\"\n{more}\n");
    for (number, Part { site, processors }) in parts.iter().enumerate() {
        let site = site.map_or_else(String::new, |site| format!("site = \"{site}\"\n"));
        text += &format!(
            "[[component]]\nname = \"part{number}\"\nprocessors = {processors}\n{site}\
             executable = \"/bin/sh\"\narguments = [\"-c\", '''{script}''']\n"
        );
    }
    text
}

/// Writes what the server needs: itself, its configuration, and commands that count.
fn prepare(place: &Path, testbed: &Testbed, ssh: &Path, port: u16) -> Result<()> {
    let here = std::env::current_exe().context("cannot find this program's file")?;
    fs::copy(here, place.join("cospan"))?;
    let executable = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    executable(&place.join("cospan"))?;
    for file in ["payloads", "queries"] {
        fs::write(place.join(file), "")?;
    }
    for query in QUERIES {
        let (counter, log) = (place.join("bin").join(query), place.join("queries"));
        let text = format!("#!/bin/sh\necho >> {}\nexec /usr/bin/{query} \"$@\"\n", log.display());
        fs::write(&counter, text)?;
        executable(&counter)?;
    }
    let mut text = format!(
        "[server]\ndata_directory = {:?}\nlisten = [\"127.0.0.1:{port}\"]\n",
        place.join("data")
    );
    for (cluster, way) in [(ALPHA, String::new()), (BETA, over(ssh))] {
        let root = place.join("sites").join(cluster.name);
        text += &format!(
            "[[site]]\nname = {:?}\nkind = \"slurm\"\nroot = {root:?}\nslurm_conf = {:?}\n\
             processors = {}\n{way}",
            cluster.name,
            testbed.conf(cluster.name),
            cluster.processors,
        );
    }
    Ok(fs::write(place.join("cospan.toml"), text)?)
}

fn over(ssh: &Path) -> String {
    format!("ssh = \"testbed\"\nssh_config = {ssh:?}\n")
}

fn spawn(place: &Path, account: &Account) -> Result<Child> {
    let log = fs::File::create(place.join("server.log"))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(place.join("cospan"));
    account.run_as(&mut command, place);
    command.arg("--config").arg(place.join("cospan.toml")).arg("serve");
    command.env("PATH", format!("{}:{path}", place.join("bin").display()));
    command
        .env_remove("COSPAN_LOG")
        .env_remove("COSPAN_LISTEN")
        .current_dir(place)
        .process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().context("the server could not be started")
}
