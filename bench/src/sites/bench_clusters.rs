//! Clusters, a server of this program that drives them as an ordinary user, and its client.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};

use super::clusters::BenchClusterGroup;
use super::payloads::{self, PayloadLog};
use super::setup::{job_document, prepare_directory, spawn_server};
use crate::server::free_port;
use cospan_api::v1::commands::JobSelection;
use cospan_api::v1::job::JobReport;
use cospan_api::v1::parse::{JobFormat, parse_all};
use cospan_client::{Client, JobAction, ServerAddress, SiteAction, SubmitOptions};
use cospan_sites::slurm_testbed::{Testbed, TestbedAccount, TestbedCluster, capture_output};

/// Directory of all files of the bench.
pub(super) const BASE: &str = "/var/tmp/cospan-bench";

/// Longest wait for jobs to end once nothing hinders them any more.
const END_MAX: Duration = Duration::from_secs(300);

/// A controller writes changes down after five seconds.
const WRITTEN_WITHIN: Duration = Duration::from_secs(6);

/// Time between two recounts of a cluster's jobs, which its operators request.
const RECOUNT_EVERY: Duration = Duration::from_secs(15);

/// The shared equipment of all sections of the bench.
pub(super) struct BenchEnvironment {
    pub(super) testbed: Testbed,
    account: TestbedAccount,
    clusters: &'static [TestbedCluster],
    place: PathBuf,
    /// SSH configuration for the cluster that is driven over SSH.
    pub(super) ssh: Option<PathBuf>,
    server: Child,
    client: Client,
}

/// A component of a job of the bench.
#[derive(Debug, Clone, Copy)]
pub(super) struct BenchComponent {
    /// The site; all parts of a job name one, or none does.
    pub(super) site: Option<&'static str>,
    pub(super) processors: u32,
}

/// Seconds since 1970, by this machine's clock.
pub(super) fn unix_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

impl BenchEnvironment {
    /// Starts the clusters of a lane and the server.
    pub(super) fn start(lane: &BenchClusterGroup) -> Result<Self> {
        crate::print_progress(&format!("clusters under Slurm: {}", lane.name));
        let testbed = Testbed::below(BASE)?;
        let account = testbed.ensure_account()?;
        // The first installs what is missing.
        let (first, others) = lane
            .clusters
            .split_first()
            .context("a lane without clusters")?;
        testbed.start_cluster(*first)?;
        run_side_by_side(others, |cluster| Ok(testbed.start_cluster(*cluster)?))?;
        let ssh = lane
            .ssh
            .map(|port| testbed.start_ssh_server(port))
            .transpose()?;
        let place = testbed
            .base_directory()
            .join(format!("bench-{}", lane.name));
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(place.join("bin"))?;
        let port = free_port()?;
        prepare_directory(&place, &testbed, lane.clusters, ssh.as_deref(), port)?;
        for path in ["", "payloads", "alone", "queries"] {
            account.chown_file(&place.join(path))?;
        }
        let server = spawn_server(&place, &account)?;
        let address = ServerAddress::Http(format!("http://127.0.0.1:{port}"));
        let client = Client::new(address.clone(), None, None)?;
        let clusters = lane.clusters;
        let mut ground = Self {
            testbed,
            account,
            clusters,
            place,
            ssh,
            server,
            client,
        };
        ground.await_ready()?;
        let token = fs::read_to_string(ground.place.join("data/keys/admin.token"))?;
        ground.client = Client::new(address, Some(token.trim().to_owned()), None)?;
        lane.clusters
            .iter()
            .try_for_each(|cluster| ground.await_site(*cluster))?;
        Ok(ground)
    }

    fn await_ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        while self.client.get_text("/readyz").is_err() {
            if let Some(status) = self.server.try_wait()? {
                let log = self.place.join("server.log");
                bail!(
                    "the server ended with {status}; its log is {}",
                    log.display()
                );
            }
            if begin.elapsed() > END_MAX {
                bail!("the server does not get ready");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn await_site(&self, cluster: TestbedCluster) -> Result<()> {
        self.wait_until("the cluster answers", || {
            let mut sites = self.client.list_sites()?.sites.into_iter();
            Ok(sites.any(|site| site.name == cluster.name && site.state == "usable"))
        })
    }

    /// Waits until the condition holds.
    pub(super) fn wait_until(&self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !holds()? {
            if begin.elapsed() > END_MAX {
                bail!(
                    "{what}: not within {END_MAX:?}; see {}",
                    self.place.display()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Submits a job whose payloads take this many seconds; returns its number.
    pub(super) fn submit(&self, parts: &[BenchComponent], seconds: u32, more: &str) -> Result<u64> {
        let script = payloads::payload_script(&self.place, seconds);
        self.submit_script_job(parts, &script, more)
    }

    /// Submits a job whose payloads run this script; returns its number.
    pub(super) fn submit_script_job(
        &self,
        parts: &[BenchComponent],
        script: &str,
        more: &str,
    ) -> Result<u64> {
        let text = job_document(parts, script, more);
        let jobs = parse_all(&text, JobFormat::Toml)?;
        let submitted = self.client.submit(&jobs, &SubmitOptions::default())?;
        Ok(submitted.jobs.first().context("no number")?.id)
    }

    /// Reads the current report of a job.
    pub(super) fn job_report(&self, id: u64) -> Result<JobReport> {
        Ok(self.client.job(id)?)
    }

    /// Waits until each of the jobs satisfies the condition.
    pub(super) fn await_jobs(
        &self,
        what: &str,
        jobs: &[u64],
        holds: impl Fn(&JobReport) -> bool,
    ) -> Result<Vec<JobReport>> {
        self.wait_until(what, || {
            jobs.iter()
                .try_fold(true, |all, id| Ok(all && holds(&self.job_report(*id)?)))
        })?;
        jobs.iter().map(|id| self.job_report(*id)).collect()
    }

    /// Waits for the jobs to end, and keeps these clusters in service meanwhile. Jobs that have not
    /// ended after a long time are returned as they are.
    pub(super) fn await_ends(
        &self,
        jobs: &[u64],
        kept: &[TestbedCluster],
    ) -> Result<Vec<JobReport>> {
        let begin = Instant::now();
        let mut recount_at = RECOUNT_EVERY;
        loop {
            let all: Vec<_> = jobs
                .iter()
                .map(|id| self.job_report(*id))
                .collect::<Result<_>>()?;
            if all.iter().all(|job| job.phase.is_final()) || begin.elapsed() > END_MAX {
                return Ok(all);
            }
            kept.iter()
                .for_each(|cluster| self.restore_service(*cluster, &[]));
            if begin.elapsed() > recount_at {
                recount_at += RECOUNT_EVERY;
                kept.iter().for_each(|cluster| self.recount_jobs(*cluster));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    pub(super) fn cancel(&self, jobs: &[u64]) -> Result<()> {
        let selection = JobSelection {
            ids: jobs.to_vec(),
            ..JobSelection::default()
        };
        self.client
            .send_job_command(JobAction::Cancel, &selection)?;
        Ok(())
    }

    /// Waits until the controller has written down the current state of its jobs.
    pub(super) fn await_state_written(&self, cluster: TestbedCluster) -> Result<()> {
        let file = self
            .testbed
            .base_directory()
            .join(cluster.name)
            .join("state/job_state");
        let since = SystemTime::now();
        self.wait_until("the controller writes its jobs down", || {
            // The new file replaces the old one, unless nothing is new.
            let written = fs::metadata(&file).and_then(|data| data.modified());
            Ok(written.is_ok_and(|at| at > since) || since.elapsed()? > WRITTEN_WITHIN)
        })
    }

    /// Waits until the user has nothing in the queue.
    pub(super) fn await_empty_queue(&self, cluster: TestbedCluster) -> Result<()> {
        self.wait_until("an empty queue", || {
            Ok(self
                .run_as_operator(cluster, &["squeue", "-h", "-u", &self.account.name])?
                .is_empty())
        })
    }

    /// Reads the lines that payloads have written so far.
    pub(super) fn read_payloads(&self) -> Result<PayloadLog> {
        PayloadLog::read_log(&self.place.join("payloads"))
    }

    /// Counts the queries that alpha has received so far.
    pub(super) fn count_queries(&self) -> Result<usize> {
        Ok(fs::read_to_string(self.place.join("queries"))?
            .lines()
            .count())
    }

    /// Runs a command of Slurm as the user; returns its output.
    pub(super) fn run_slurm(&self, cluster: TestbedCluster, words: &[&str]) -> Result<String> {
        let mut command = self.slurm_command(cluster, words);
        self.account.run_as(&mut command, &self.place);
        capture_output(&mut command)?.map_err(anyhow::Error::msg)
    }

    /// Runs a command of Slurm as the clusters' operator; returns its output.
    pub(super) fn run_as_operator(
        &self,
        cluster: TestbedCluster,
        words: &[&str],
    ) -> Result<String> {
        capture_output(&mut self.slurm_command(cluster, words))?.map_err(anyhow::Error::msg)
    }

    fn slurm_command(&self, cluster: TestbedCluster, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("SLURM_CONF", self.testbed.config_file_path(cluster.name));
        command.current_dir(&self.place);
        command
    }

    /// Cancels all that the user has in the queue.
    pub(super) fn cancel_all(&self, cluster: TestbedCluster) -> Result<()> {
        self.run_as_operator(cluster, &["scancel", "--user", &self.account.name])?;
        self.await_empty_queue(cluster)
    }

    /// Makes the server use a cluster again whose breaker is open.
    pub(super) fn reset_site(&self, cluster: TestbedCluster) -> Result<()> {
        self.client
            .send_site_command(cluster.name, &SiteAction::Reset)?;
        self.await_site(cluster)
    }

    /// Waits until the node takes work: it may have come back by itself, or Slurm drained it
    /// because Slurm gave a number out twice.
    pub(super) fn resume_node(&self, cluster: TestbedCluster) -> Result<()> {
        let node = format!("nodename={}0", cluster.name);
        self.wait_until("the node takes work", || {
            let _came_back =
                self.run_as_operator(cluster, &["scontrol", "update", &node, "state=resume"]);
            let state =
                self.run_as_operator(cluster, &["sinfo", "-h", "-p", "normal", "-o", "%T"])?;
            Ok(["idle", "mixed", "allocated"].contains(&state.as_str()))
        })
    }

    /// Does what operators do after a controller forgot jobs and gave numbers out twice: it resumes
    /// nodes that Slurm drained for it, releases jobs that Slurm holds for it, and resets the
    /// breaker of the cluster.
    pub(super) fn restore_service(&self, cluster: TestbedCluster, held: &[String]) {
        let node = format!("nodename={}0", cluster.name);
        let control = ["timeout", "2", "scontrol"];
        // The node may be in service already, and the job not held.
        let _ = self.run_as_operator(
            cluster,
            &[&control[..], &["update", &node, "state=resume"]].concat(),
        );
        for job in held {
            let _ = self.run_as_operator(cluster, &[&control[..], &["release", job]].concat());
        }
        let sites = self
            .client
            .list_sites()
            .map(|all| all.sites)
            .unwrap_or_default();
        if sites.iter().any(|site| {
            site.name == cluster.name && matches!(site.state.as_str(), "unusable" | "probing")
        }) {
            let _ = self
                .client
                .send_site_command(cluster.name, &SiteAction::Reset);
        }
    }

    /// Makes nodes report their jobs. A controller that was killed can take what ended just before
    /// for still running, and keeps its processors up to its time limit.
    fn recount_jobs(&self, cluster: TestbedCluster) {
        // The node may be away.
        let _ = self.testbed.request_recount(cluster.name);
    }

    /// This program, run as the user.
    pub(super) fn bench_command(&self) -> Command {
        let mut command = Command::new(self.place.join("cospan-bench"));
        self.account.run_as(&mut command, &self.place);
        command.current_dir(&self.place);
        command
    }

    /// Creates a directory that belongs to the user.
    pub(super) fn create_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.place.join(name);
        fs::create_dir_all(&path)?;
        self.account.chown_file(&path)?;
        Ok(path)
    }
}

impl Drop for BenchEnvironment {
    fn drop(&mut self) {
        // A server that is gone already is fine; the next start reports what cannot be ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let ssh = self.ssh.as_ref().map(|_| "ssh");
        let names: Vec<_> = self
            .clusters
            .iter()
            .map(|cluster| cluster.name)
            .chain(ssh)
            .collect();
        let _ = run_side_by_side(&names, |name| Ok(self.testbed.end_cluster(name)?));
    }
}

/// Runs the work on all items at once; returns the results in their order, or the first error.
pub(super) fn run_side_by_side<T: Sync, R: Send>(
    all: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let work = &work;
    std::thread::scope(|scope| {
        let works: Vec<_> = all
            .iter()
            .map(|one| scope.spawn(move || work(one)))
            .collect();
        works.into_iter().map(join_thread).collect()
    })
}

/// The result of a thread.
pub(super) fn join_thread<R>(work: ScopedJoinHandle<'_, Result<R>>) -> Result<R> {
    work.join()
        .map_err(|_| anyhow!("a part of the bench panicked"))?
}
