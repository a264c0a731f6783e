//! The story on real clusters: each step does one thing, and says why.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::demo_directory::DemoDirectory;
use super::super::demo_server::{DemoServer, DemoSharedState};
use super::super::demo_steps::ms_since;
use super::super::follow_job::{DemoJobFollower, site_of};
use super::super::narrator::{DemoNarrator, align_columns, bad, good};
use super::super::quickstart_error::QuickstartError;
use super::testbed_clusters::{CLUSTERS, SlurmClusters};
use super::testbed_job::{self, PARTS};
use super::{TestbedComponentReport, TestbedReport};
use cospan_api::v1::job::JobReport;
use cospan_client::SubmitOptions;

/// Longest time that the controller stays dead: until the server has noticed, but no longer.
const DEAD_MAX: Duration = Duration::from_secs(20);

/// Everything that the story needs.
pub(super) struct TestbedRun {
    pub(super) demo: DemoDirectory,
    pub(super) clusters: SlurmClusters,
    pub(super) keep: bool,
    pub(super) teller: DemoNarrator,
}

impl TestbedRun {
    /// Runs the story from the beginning to the end.
    pub(super) fn run_steps(
        mut self,
        shared: &Arc<DemoSharedState>,
    ) -> Result<TestbedReport, QuickstartError> {
        self.start_clusters()?;
        let server = self.start_server(shared)?;
        let mut report = self.run_job(&server)?;
        report.server_pid = server.server_pid().filter(|_| self.keep);
        if self.keep {
            server.keep_running();
        } else {
            server.stop()?;
        }
        self.print_end(&report)?;
        Ok(report)
    }

    fn start_clusters(&mut self) -> Result<(), QuickstartError> {
        self.teller.begin_step(
            "Two clusters under Slurm",
            "Each with its own slurmctld, slurmd and munged, on this machine's loopback.\n\
             What is missing of Slurm is installed from Debian first.",
        )?;
        for cluster in CLUSTERS {
            let text = format!("{} is being started", cluster.name);
            self.teller.show_progress(&text, &text)?;
            self.clusters.start_cluster(cluster)?;
            let nodes = self.clusters.run_slurm(
                cluster.name,
                &["sinfo", "-h", "-p", "normal", "-o", "%N, %c processors, %T"],
            )?;
            self.teller
                .print_event(&format!("{} is up; sinfo says: {nodes}", cluster.name))?;
        }
        Ok(())
    }

    fn start_server(
        &mut self,
        shared: &Arc<DemoSharedState>,
    ) -> Result<DemoServer, QuickstartError> {
        let user = self.clusters.user_name();
        self.teller.begin_step(
            "A control plane, as an ordinary user",
            &format!(
                "It runs as {user}, and drives both by their own commands: sbatch, squeue,\n\
                 scancel. Nothing is installed on the clusters."
            ),
        )?;
        self.clusters.hand_directory_over(&self.demo)?;
        let server = DemoServer::start_and_wait(shared.clone())?;
        let sites = server.wait_for_sites(CLUSTERS.len())?;
        let pid = server.server_pid().unwrap_or_default();
        let address = server.client.address();
        self.teller
            .print_event(&format!("the server is ready at {address} (process {pid})"))?;
        let rows = sites.iter().map(|site| {
            let processors = site.total.get("processors").copied().unwrap_or_default();
            let manager = site.manager.clone().unwrap_or_default();
            vec![
                site.name.clone(),
                site.state.clone(),
                format!("{processors} processors"),
                manager,
            ]
        });
        self.teller
            .print_lines(&align_columns(&rows.collect::<Vec<_>>()))?;
        Ok(server)
    }

    fn run_job(&mut self, server: &DemoServer) -> Result<TestbedReport, QuickstartError> {
        DemoDirectory::write_file(&self.demo.job_file(), testbed_job::job_text().as_bytes())?;
        self.teller.begin_step(
            "One job over both",
            "Two components, with 6 and 5 processors: no cluster of 8 holds both. Each gets its\n\
             processors from its own Slurm, and none starts before the other can.",
        )?;
        let jobs = testbed_job::job_documents()?;
        let submitted =
            server.call_server(|client| client.submit(&jobs, &SubmitOptions::default()))?;
        let begin = Instant::now();
        let id = submitted.jobs.first().map_or(0, |row| row.id);
        self.teller.print_event(&format!("job {id} is accepted"))?;
        let mut follow = DemoJobFollower::new(server, id, PARTS);
        self.follow_until(&mut follow, "JobStarted")?;
        let start_ms = ms_since(begin);
        for cluster in CLUSTERS {
            let queue = self.clusters.run_slurm(
                cluster.name,
                &["squeue", "-h", "-o", "job %i, %C processors, %T"],
            )?;
            self.teller
                .print_event(&format!("squeue of {} says: {queue}", cluster.name))?;
        }
        let hurt = CLUSTERS[1];
        // By then Slurm has written down that they run.
        follow.wait_for_parts(PARTS / 2, &mut self.teller)?;
        self.kill_controller(server, &mut follow, hurt.name)?;
        self.clusters.start_cluster(hurt)?;
        self.teller
            .print_event(&good(&format!("slurmctld of {} is back", hurt.name)))?;
        let job = self.follow_until(&mut follow, "JobFinished")?;
        self.check_outputs(server, &follow, &job, (start_ms, hurt.name))
    }

    /// Follows the job until this event.
    fn follow_until(
        &mut self,
        follow: &mut DemoJobFollower<'_>,
        event: &str,
    ) -> Result<JobReport, QuickstartError> {
        loop {
            let look = follow.poll_job(&mut self.teller)?;
            if look.has_event(event) {
                return Ok(look.job);
            }
            if look.job.phase.state == "running" {
                follow.show_progress(&mut self.teller, &look.job)?;
            }
            follow.pause_briefly();
        }
    }

    fn kill_controller(
        &mut self,
        server: &DemoServer,
        follow: &mut DemoJobFollower<'_>,
        cluster: &str,
    ) -> Result<(), QuickstartError> {
        self.teller.begin_step(
            &format!("{cluster} loses its slurmctld"),
            "It is killed with SIGKILL. What it ran goes on, and nobody can ask about it:\n\
             unknown is not failed, so the control plane waits.",
        )?;
        self.clusters.kill_controller(cluster)?;
        let death = Instant::now();
        self.teller
            .print_event(&bad(&format!("slurmctld of {cluster} is dead")))?;
        let mut told = String::new();
        while death.elapsed() < DEAD_MAX && told.is_empty() {
            let look = follow.poll_job(&mut self.teller)?;
            let site = server.call_server(|client| client.site(cluster))?;
            let reason = site
                .reason
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            let standing = format!("{cluster} is {}{reason}", site.state);
            if site.state != "usable" {
                self.teller.print_event(&bad(&standing))?;
                told = standing;
            }
            follow.show_progress(&mut self.teller, &look.job)?;
            follow.pause_briefly();
        }
        Ok(())
    }

    /// Compares the outputs of the components with the right ones.
    fn check_outputs(
        &mut self,
        server: &DemoServer,
        follow: &DemoJobFollower<'_>,
        job: &JobReport,
        (start_ms, hurt): (u64, &str),
    ) -> Result<TestbedReport, QuickstartError> {
        self.teller.begin_step(
            "What came of it",
            "Each component must have done each part of its work once.",
        )?;
        let mut components = Vec::new();
        let mut began = Vec::new();
        for component in &job.components {
            let printed = follow.read_output(component)?;
            let printed = testbed_job::parse_output(&String::from_utf8_lossy(&printed));
            began.extend(printed.as_ref().map(|printed| printed.began));
            let part = TestbedComponentReport {
                name: component.name.clone(),
                processors: component.processors,
                cluster: site_of(component).into(),
                whole: printed.is_some_and(|printed| printed.whole),
            };
            let verdict = if part.whole {
                good("whole")
            } else {
                bad("NOT WHOLE")
            };
            self.teller
                .print_event(&format!("{} ran at {}: {verdict}", part.name, part.cluster))?;
            components.push(part);
        }
        let first = began.iter().copied().fold(f64::INFINITY, f64::min);
        let last = began.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let spread_ms = ((last - first).max(0.0) * 1_000.0).round() as u64;
        self.teller.print_event(&format!(
            "from submission until all began: {:.1} s; between their starts: {spread_ms} ms",
            start_ms as f64 / 1_000.0,
        ))?;
        Ok(TestbedReport {
            right: components.iter().all(|part| part.whole),
            directory: self.demo.directory.display().to_string(),
            server: server.client.address().to_string(),
            server_pid: None,
            job: job.id,
            rounds: job.round,
            components,
            spread_ms,
            start_ms,
            hurt: hurt.to_owned(),
        })
    }

    fn print_end(&mut self, report: &TestbedReport) -> Result<(), QuickstartError> {
        let verdict = if report.right {
            good("Everything is right.")
        } else {
            bad("Something is WRONG; see above.")
        };
        let harm = match report.rounds {
            1 => "did it no harm".to_owned(),
            rounds => format!("made it start again: this was round {rounds}"),
        };
        let text = format!(
            "{verdict} One job ran on two clusters under Slurm; that {} lost its controller\n{harm}.\n",
            report.hurt,
        );
        self.teller
            .print_closing_words(&(text + &self.next_commands(report)))
    }

    /// Suggests the next commands.
    fn next_commands(&self, report: &TestbedReport) -> String {
        let directory = &report.directory;
        let user = self.clusters.user_name();
        let remove =
            "To remove all that was made and installed:\n  cospan quickstart --testbed --remove\n";
        let Some(pid) = report.server_pid else {
            return format!(
                "\nThe server and the clusters were stopped; --keep leaves them up. What the server\n\
                 wrote is in {directory}.\n{remove}"
            );
        };
        let alpha = self.clusters.conf_file("alpha").display().to_string();
        let job = report.job;
        format!(
            "\nThe server still runs (as {user}; process {pid}), and so do both clusters. Next:\n  \
               cd {directory}\n  \
               cospan=\"runuser -u {user} -- ./cospan --config cospan.toml\"\n  \
               $cospan site list\n  \
               $cospan show {job}                          # the job and its history\n  \
               $cospan submit job.toml --wait          # run it again\n  \
               SLURM_CONF={alpha} squeue   # what Slurm itself says\n{remove}"
        )
    }
}
