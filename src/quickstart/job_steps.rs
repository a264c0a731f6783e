//! The job from submission to its end, through the death of a site.

use std::time::Instant;

use super::QuickstartError;
use super::demo_job::{self, PARTS};
use super::demo_server::DemoServer;
use super::demo_steps::{FinishedDemoJob, QuickstartRun, ms_since};
use super::follow_job::{DemoJobFollower, site_of};
use super::narrator::bad;
use super::processes;
use super::quickstart_report::{DeadSite, StepDurations};
use cospan_api::v1::job::JobReport;
use cospan_api::v1::site::SiteReport;
use cospan_client::SubmitOptions;

impl QuickstartRun<'_> {
    /// Submits the job and follows it to its end.
    pub(super) fn run_job(
        &mut self,
        server: &DemoServer,
        durations: &mut StepDurations,
    ) -> Result<FinishedDemoJob, QuickstartError> {
        self.teller.begin_step(
            "Submit, transfer, claim, start",
            "Accepted means durable. Input travels first; processors are claimed when it\n\
             is about to arrive; nothing starts before every component holds its own.",
        )?;
        let jobs = demo_job::job_documents()?;
        let submitted =
            server.call_server(|client| client.submit(&jobs, &SubmitOptions::default()))?;
        let begin = Instant::now();
        let id = submitted.jobs.first().map_or(0, |row| row.id);
        self.teller.print_event(&format!("job {id} is accepted"))?;
        let mut follow = DemoJobFollower::new(server, id, PARTS);
        self.wait_for_start(&mut follow, begin, durations)?;
        let halfway = self.wait_for_middle(&mut follow)?;
        let before = halfway
            .components
            .iter()
            .map(|c| site_of(c).to_owned())
            .collect();
        let (victim, killed) = self.kill_site(&halfway)?;
        let death = Instant::now();
        self.wait_for_restart(server, &mut follow, &victim, death, durations)?;
        let job = self.wait_for_end(&mut follow)?;
        durations.job = ms_since(begin);
        let dead = self.report_dead_site(server, &victim, killed)?;
        Ok(FinishedDemoJob { job, before, dead })
    }

    fn wait_for_start(
        &mut self,
        follow: &mut DemoJobFollower<'_>,
        begin: Instant,
        durations: &mut StepDurations,
    ) -> Result<(), QuickstartError> {
        loop {
            let look = follow.poll_job(&mut self.teller)?;
            if look.has_event("InputsArrived") {
                durations.transfer = ms_since(begin);
            }
            if look.has_event("JobStarted") {
                durations.first_start = ms_since(begin);
                return Ok(());
            }
            follow.show_transfers(&mut self.teller)?;
            follow.pause_briefly();
        }
    }

    /// Waits until every component is about half-way.
    fn wait_for_middle(
        &mut self,
        follow: &mut DemoJobFollower<'_>,
    ) -> Result<JobReport, QuickstartError> {
        self.teller.begin_step(
            "The run",
            "Real processes at three sites. What they print is read through the API.",
        )?;
        follow.wait_for_parts(PARTS / 2, &mut self.teller)
    }

    /// Kills a site as a power cut does: its directory disappears, and its processes with it.
    fn kill_site(&mut self, job: &JobReport) -> Result<(String, usize), QuickstartError> {
        // Not the site with the only replica of the input.
        let sites = job.components.iter().rev().map(site_of);
        let mut others = sites.filter(|site| *site != demo_job::input_site());
        let victim = others.next().unwrap_or_default().to_owned();
        self.teller.begin_step(
            &format!("{victim} dies"),
            "Its process groups are killed with SIGKILL, its directory is moved away.\n\
             Silence proves nothing yet, so the control plane waits a little.",
        )?;
        let root = self.demo.site_root(&victim);
        let grave = self.demo.dead_site_directory(&victim);
        // The directory first, so that the site cannot report its end.
        std::fs::rename(&root, &grave).map_err(QuickstartError::file_error("move away", &root))?;
        let killed = processes::kill_all(&root).map_err(QuickstartError::Processes)?;
        self.teller.print_event(&bad(&format!(
            "{victim} is gone: {killed} processes killed"
        )))?;
        Ok((victim, killed))
    }

    fn wait_for_restart(
        &mut self,
        server: &DemoServer,
        follow: &mut DemoJobFollower<'_>,
        victim: &str,
        death: Instant,
        durations: &mut StepDurations,
    ) -> Result<(), QuickstartError> {
        loop {
            let look = follow.poll_job(&mut self.teller)?;
            let site = server.call_server(|client| client.site(victim))?;
            if look.has_event("SiteCharged") {
                durations.noticed = ms_since(death);
                self.teller.print_event(&bad(&describe_state(&site)))?;
            }
            if look.has_event("JobStarted") {
                durations.second_start = ms_since(death);
                return Ok(());
            }
            if durations.noticed == 0 {
                let silent = site.age_ms.unwrap_or_default() as f64 / 1_000.0;
                let text = format!("{victim} was last heard {silent:.1} s ago");
                self.teller
                    .show_progress(&text, "waiting to see whether it answers again")?;
            } else {
                follow.show_transfers(&mut self.teller)?;
            }
            follow.pause_briefly();
        }
    }

    fn wait_for_end(
        &mut self,
        follow: &mut DemoJobFollower<'_>,
    ) -> Result<JobReport, QuickstartError> {
        self.teller.begin_step(
            "The second run, without it",
            "A fresh round from the beginning: outputs are taken from one round only.",
        )?;
        loop {
            let look = follow.poll_job(&mut self.teller)?;
            if look.has_event("JobFinished") {
                return Ok(look.job);
            }
            if look.job.phase.state == "running" {
                follow.show_progress(&mut self.teller, &look.job)?;
            }
            follow.pause_briefly();
        }
    }

    fn report_dead_site(
        &self,
        server: &DemoServer,
        name: &str,
        killed: usize,
    ) -> Result<DeadSite, QuickstartError> {
        let site = server.call_server(|client| client.site(name))?;
        Ok(DeadSite {
            name: name.to_owned(),
            killed,
            state: site.state,
            reason: site.reason,
            errors: site.consecutive_errors,
            last_error: site.last_error,
        })
    }
}

/// The state of a site, and its end.
fn describe_state(site: &SiteReport) -> String {
    let until = match site.next_probe_at {
        Some(_) => "; it is unusable until a probe finds it well",
        None => "",
    };
    format!("{} is {}{until}", site.name, site.state)
}
