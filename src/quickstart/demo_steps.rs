//! The story: each step does one thing with the public interface, and says why.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cospan_domain::units::Bytes;

use super::demo_directory::{BANDWIDTH, DemoDirectory, SITES};
use super::demo_server::{DemoServer, DemoSharedState};
use super::follow_job::site_of;
use super::narrator::{DemoNarrator, align_columns, bad, good};
use super::quickstart_report::{
    DeadSite, InputReport, MovedComponent, QuickstartReport, StepDurations,
};
use super::{QuickstartError, QuickstartOptions, demo_job};
use cospan_api::v1::explain::VerdictReport;
use cospan_api::v1::file::FileRegistration;
use cospan_api::v1::job::JobReport;
use cospan_client::SubmitOptions;

/// Everything that the story needs.
pub(super) struct QuickstartRun<'o> {
    pub(super) demo: DemoDirectory,
    pub(super) options: &'o QuickstartOptions,
    pub(super) teller: DemoNarrator,
}

/// The facts about a finished job.
pub(super) struct FinishedDemoJob {
    pub(super) job: JobReport,
    /// The sites of its components before one died.
    pub(super) before: Vec<String>,
    /// The site that died.
    pub(super) dead: DeadSite,
}

/// Milliseconds since then.
pub(super) fn ms_since(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl QuickstartRun<'_> {
    /// Runs the story from the beginning to the end.
    pub(super) fn run_steps(
        mut self,
        shared: &Arc<DemoSharedState>,
    ) -> Result<QuickstartReport, QuickstartError> {
        let begin = Instant::now();
        let mut durations = StepDurations::default();
        let server = self.start_server(shared)?;
        durations.server = ms_since(begin);
        let (input, text) = self.register_input(&server)?;
        self.preview_job(&server)?;
        let done = self.run_job(&server, &mut durations)?;
        let components = self.check_outputs(&server, &done, &text)?;
        let moved = components
            .iter()
            .all(|component| component.site_after != done.dead.name);
        durations.total = ms_since(begin);
        let address = server.client.address().to_string();
        let report = QuickstartReport {
            right: moved && components.iter().all(|component| component.right),
            directory: self.demo.directory.display().to_string(),
            config: self.demo.config_file().display().to_string(),
            metrics: format!("{address}/metrics"),
            server: address,
            server_pid: server.server_pid().filter(|_| self.options.keep),
            input,
            jobs: vec![done.job.id],
            rounds: done.job.round,
            components,
            dead_site: done.dead,
            durations_ms: durations,
        };
        if self.options.keep {
            server.keep_running();
        } else {
            server.stop()?;
        }
        self.print_end(&report)?;
        Ok(report)
    }

    fn start_server(
        &mut self,
        shared: &Arc<DemoSharedState>,
    ) -> Result<DemoServer, QuickstartError> {
        self.teller.begin_step(
            "A control plane and three clusters",
            "A server with an embedded store, and three sites played by this machine:\n\
             each with its own directory tree, processors, and slow links to the others.",
        )?;
        let server = DemoServer::start_and_wait(shared.clone())?;
        let sites = server.wait_for_sites(SITES.len())?;
        let pid = server.server_pid().unwrap_or_default();
        let address = server.client.address();
        self.teller
            .print_event(&format!("the server is ready at {address} (process {pid})"))?;
        let rows = sites.iter().map(|site| {
            let processors = site.total.get("processors").copied().unwrap_or_default();
            vec![
                site.name.clone(),
                site.state.clone(),
                format!("{processors} processors"),
                format!("{BANDWIDTH} to each other site"),
            ]
        });
        self.teller
            .print_lines(&align_columns(&rows.collect::<Vec<_>>()))?;
        Ok(server)
    }

    fn register_input(
        &mut self,
        server: &DemoServer,
    ) -> Result<(InputReport, String), QuickstartError> {
        self.teller.begin_step(
            "An input file",
            "It lies at one site. Jobs use its logical name; copies go where they are needed.",
        )?;
        let text = demo_job::input_text();
        let site = demo_job::input_site();
        let file = self
            .demo
            .site_root(site)
            .join("files")
            .join(demo_job::INPUT_PATH);
        DemoDirectory::write_file(&file, text.as_bytes())?;
        let registration = FileRegistration {
            name: demo_job::INPUT.parse()?,
            site: site.parse()?,
            path: demo_job::INPUT_PATH.parse()?,
            replace: false,
        };
        let report = server.call_server(|client| client.add_file(&registration))?;
        let short = report.digest.get(..8).unwrap_or(&report.digest);
        self.teller.print_event(&format!(
            "{} is registered: {} at {site}, digest {short}...",
            report.name,
            Bytes(report.size_bytes),
        ))?;
        let input = InputReport {
            name: report.name,
            site: site.into(),
            file: file.display().to_string(),
            size_bytes: report.size_bytes,
            digest: report.digest,
        };
        Ok((input, text))
    }

    fn preview_job(&mut self, server: &DemoServer) -> Result<(), QuickstartError> {
        DemoDirectory::write_file(&self.demo.job_file(), demo_job::job_text().as_bytes())?;
        self.teller.begin_step(
            "Where would the job go?",
            "One job of three components, with 4, 3 and 2 processors, that start together.\n\
             A dry run says what was found at each site, and why it is chosen or not.",
        )?;
        let jobs = demo_job::job_documents()?;
        let checked =
            server.call_server(|client| client.check_jobs(&jobs, &SubmitOptions::default()))?;
        for job in &checked.jobs {
            let policy = job.policy.as_deref().unwrap_or("-");
            self.teller.print_event(&job.summary)?;
            self.teller
                .print_lines(&format!("found by policy {policy}:\n"))?;
            self.teller.print_lines(&verdict_table(&job.verdicts))?;
        }
        Ok(())
    }

    /// Compares the outputs of the job with the right ones.
    fn check_outputs(
        &mut self,
        server: &DemoServer,
        done: &FinishedDemoJob,
        input: &str,
    ) -> Result<Vec<MovedComponent>, QuickstartError> {
        self.teller.begin_step(
            "Fetch the outputs and check them",
            "Each is compared with what this program works out from the input itself.",
        )?;
        let mut all = Vec::new();
        for (at, component) in done.job.components.iter().enumerate() {
            let file = self
                .demo
                .results_directory()
                .join(&component.name)
                .join(demo_job::OUTPUT);
            fetch_output(server, done.job.id, &component.name, &file)?;
            if self.options.corrupt_output && at == 0 {
                flip_bit(&file)?;
            }
            let found = std::fs::read(&file).map_err(QuickstartError::file_error("read", &file))?;
            let wanted = demo_job::expected_output(&component.name, input);
            let report = MovedComponent {
                name: component.name.clone(),
                processors: component.processors,
                site_before: done.before.get(at).cloned().unwrap_or_default(),
                site_after: site_of(component).into(),
                file: file.display().to_string(),
                size_bytes: found.len() as u64,
                digest: blake3::hash(&found).to_hex().to_string(),
                expected_digest: blake3::hash(wanted.as_bytes()).to_hex().to_string(),
                right: found == wanted.as_bytes(),
            };
            self.teller.print_event(&describe_check(&report))?;
            all.push(report);
        }
        Ok(all)
    }

    fn print_end(&mut self, report: &QuickstartReport) -> Result<(), QuickstartError> {
        let seconds = report.durations_ms.total as f64 / 1_000.0;
        let verdict = if report.right {
            good("Everything is right.")
        } else {
            bad("Something is WRONG; see above.")
        };
        let dead = &report.dead_site.name;
        let mut text = format!(
            "{verdict} {dead} died in the middle, and the job finished without it,\n\
             in its round {}. It took {seconds:.0} s in all.\n\n",
            report.rounds,
        );
        let address = &report.server;
        let rows = [
            ("API", format!("{address}/v1")),
            ("Described at", format!("{address}/v1/openapi.json")),
            ("Metrics", report.metrics.clone()),
            ("Data", self.demo.data_directory().display().to_string()),
            (
                "Results",
                self.demo.results_directory().display().to_string(),
            ),
            ("Server log", self.demo.log_file().display().to_string()),
        ];
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect();
        text.push_str(&align_columns(&rows));
        text.push_str(&self.next_commands(report));
        self.teller.print_closing_words(&text)
    }

    /// Suggests the next commands.
    fn next_commands(&self, report: &QuickstartReport) -> String {
        let program = std::env::current_exe()
            .map_or_else(|_| "cospan".into(), |program| program.display().to_string());
        let directory = &report.directory;
        let id = report.jobs.first().copied().unwrap_or_default();
        let dead = &report.dead_site.name;
        let (first, serve) = match report.server_pid {
            Some(pid) => (
                format!("The server still runs; stop it with: kill {pid}"),
                "",
            ),
            None => (
                "The server was stopped and no process is left; --keep leaves it up.".into(),
                "\n  $cospan serve &                         # on the same data",
            ),
        };
        format!(
            "\n{first}\n\nNext:\n  \
               cd {directory}   # has everything; remove it when you are done\n  \
               cospan=\"{program} --config cospan.toml\"\n  \
               mv {dead}.dead sites/{dead}   # {dead} returns{serve}\n  \
               $cospan site list\n  \
               $cospan show {id}                          # the job and its history\n  \
               $cospan submit job.toml --wait          # run it again\n",
        )
    }
}

/// A table of the components with the verdicts of each site on them.
fn verdict_table(verdicts: &[VerdictReport]) -> String {
    let rows = verdicts.iter().map(|verdict| {
        let code = if verdict.chosen {
            good(&verdict.code)
        } else {
            verdict.code.clone()
        };
        vec![
            verdict.component.clone().unwrap_or_else(|| "-".into()),
            verdict.site.clone().unwrap_or_else(|| "-".into()),
            code,
            verdict.detail.clone(),
        ]
    });
    align_columns(&rows.collect::<Vec<_>>())
}

fn describe_check(report: &MovedComponent) -> String {
    let verdict = if report.right {
        good("right")
    } else {
        bad("WRONG")
    };
    let digest = report.digest.get(..12).unwrap_or(&report.digest);
    format!(
        "{} ran at {}: {digest}... {verdict}",
        report.name, report.site_after
    )
}

fn fetch_output(
    server: &DemoServer,
    job: u64,
    component: &str,
    to: &Path,
) -> Result<(), QuickstartError> {
    let mut download =
        server.call_server(|client| client.download_output(job, component, demo_job::OUTPUT))?;
    let mut bytes = Vec::new();
    let read = download.bytes.read_to_end(&mut bytes);
    read.map_err(|error| server.client.broken_connection_error(&error))?;
    DemoDirectory::write_file(to, &bytes)
}

/// Damages a file by a single bit.
fn flip_bit(file: &Path) -> Result<(), QuickstartError> {
    let mut bytes = std::fs::read(file).map_err(QuickstartError::file_error("read", file))?;
    if let Some(byte) = bytes.first_mut() {
        *byte ^= 1;
    }
    DemoDirectory::write_file(file, &bytes)
}
