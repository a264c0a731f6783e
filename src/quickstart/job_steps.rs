//! The job from submission to its end, through the death of a site.

use std::time::Instant;

use super::QuickstartError;
use super::demo_job::{self, PARTS};
use super::demo_server::DemoServer;
use super::demo_steps::{Done, QuickstartStory, ms};
use super::follow_job::{Follow, site_of};
use super::narrator::bad;
use super::processes;
use super::quickstart_report::{DeadSite, Durations};
use crate::api::v1::job::JobReport;
use crate::api::v1::site::SiteReport;
use crate::client::SubmitOptions;

impl QuickstartStory<'_> {
    /// Submits the job and follows it to its end.
    pub(super) fn run(
        &mut self,
        server: &DemoServer,
        durations: &mut Durations,
    ) -> Result<Done, QuickstartError> {
        self.teller.step(
            "Submit, transfer, claim, start",
            "Accepted means durable. Input travels first; processors are claimed when it\n\
             is about to arrive; nothing starts before every component holds its own.",
        )?;
        let jobs = demo_job::job()?;
        let submitted = server.ask(|client| client.submit(&jobs, &SubmitOptions::default()))?;
        let begin = Instant::now();
        let id = submitted.jobs.first().map_or(0, |row| row.id);
        self.teller.happened(&format!("job {id} is accepted"))?;
        let mut follow = Follow::new(server, id, PARTS);
        self.until_the_start(&mut follow, begin, durations)?;
        let halfway = self.until_the_middle(&mut follow)?;
        let before = halfway
            .components
            .iter()
            .map(|c| site_of(c).to_owned())
            .collect();
        let (victim, killed) = self.kill_a_site(&halfway)?;
        let death = Instant::now();
        self.until_the_second_start(server, &mut follow, &victim, death, durations)?;
        let job = self.until_the_end(&mut follow)?;
        durations.job = ms(begin);
        let dead = self.dead_site(server, &victim, killed)?;
        Ok(Done { job, before, dead })
    }

    fn until_the_start(
        &mut self,
        follow: &mut Follow<'_>,
        begin: Instant,
        durations: &mut Durations,
    ) -> Result<(), QuickstartError> {
        loop {
            let look = follow.look(&mut self.teller)?;
            if look.saw("InputsArrived") {
                durations.transfer = ms(begin);
            }
            if look.saw("JobStarted") {
                durations.first_start = ms(begin);
                return Ok(());
            }
            follow.tell_transfers(&mut self.teller)?;
            follow.pause();
        }
    }

    /// Waits until every component is about half-way.
    fn until_the_middle(&mut self, follow: &mut Follow<'_>) -> Result<JobReport, QuickstartError> {
        self.teller.step(
            "The run",
            "Real processes at three sites. What they print is read through the API.",
        )?;
        follow.until_all_did(PARTS / 2, &mut self.teller)
    }

    /// Kills a site as a power cut does: its directory disappears, and its processes with it.
    fn kill_a_site(&mut self, job: &JobReport) -> Result<(String, usize), QuickstartError> {
        // Not the site with the only replica of the input.
        let sites = job.components.iter().rev().map(site_of);
        let mut others = sites.filter(|site| *site != demo_job::input_site());
        let victim = others.next().unwrap_or_default().to_owned();
        self.teller.step(
            &format!("{victim} dies"),
            "Its process groups are killed with SIGKILL, its directory is moved away.\n\
             Silence proves nothing yet, so the control plane waits a little.",
        )?;
        let root = self.demo.site(&victim);
        let grave = self.demo.grave(&victim);
        // The directory first, so that the site cannot report its end.
        std::fs::rename(&root, &grave).map_err(QuickstartError::file("move away", &root))?;
        let killed = processes::kill_all(&root).map_err(QuickstartError::Processes)?;
        self.teller.happened(&bad(&format!(
            "{victim} is gone: {killed} processes killed"
        )))?;
        Ok((victim, killed))
    }

    fn until_the_second_start(
        &mut self,
        server: &DemoServer,
        follow: &mut Follow<'_>,
        victim: &str,
        death: Instant,
        durations: &mut Durations,
    ) -> Result<(), QuickstartError> {
        loop {
            let look = follow.look(&mut self.teller)?;
            let site = server.ask(|client| client.site(victim))?;
            if look.saw("SiteCharged") {
                durations.noticed = ms(death);
                self.teller.happened(&bad(&standing(&site)))?;
            }
            if look.saw("JobStarted") {
                durations.second_start = ms(death);
                return Ok(());
            }
            if durations.noticed == 0 {
                let silent = site.age_ms.unwrap_or_default() as f64 / 1_000.0;
                let text = format!("{victim} was last heard {silent:.1} s ago");
                self.teller
                    .progress(&text, "waiting whether it answers again")?;
            } else {
                follow.tell_transfers(&mut self.teller)?;
            }
            follow.pause();
        }
    }

    fn until_the_end(&mut self, follow: &mut Follow<'_>) -> Result<JobReport, QuickstartError> {
        self.teller.step(
            "The second run, without it",
            "A fresh round from the beginning: outputs are taken from one round only.",
        )?;
        loop {
            let look = follow.look(&mut self.teller)?;
            if look.saw("JobFinished") {
                return Ok(look.job);
            }
            if look.job.phase.state == "running" {
                follow.tell_run(&mut self.teller, &look.job)?;
            }
            follow.pause();
        }
    }

    fn dead_site(
        &self,
        server: &DemoServer,
        name: &str,
        killed: usize,
    ) -> Result<DeadSite, QuickstartError> {
        let site = server.ask(|client| client.site(name))?;
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
fn standing(site: &SiteReport) -> String {
    let until = match site.next_probe_at {
        Some(_) => "; it is unusable until a probe finds it well",
        None => "",
    };
    format!("{} is {}{until}", site.name, site.state)
}
