//! The story: each step does one thing with the public interface, and says why.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cospan_domain::units::Bytes;

use super::demo_directory::{BANDWIDTH, DemoDirectory, SITES};
use super::demo_server::{DemoServer, DemoShared};
use super::follow_job::site_of;
use super::narrator::{Teller, bad, columns, good};
use super::quickstart_report::{
    DeadSite, Durations, InputReport, MovedComponent, QuickstartReport,
};
use super::{QuickstartError, QuickstartOptions, demo_job};
use crate::api::v1::explain::VerdictReport;
use crate::api::v1::file::FileRegistration;
use crate::api::v1::job::JobReport;
use crate::client::SubmitOptions;

/// Everything that the story needs.
pub(super) struct QuickstartStory<'o> {
    pub(super) demo: DemoDirectory,
    pub(super) options: &'o QuickstartOptions,
    pub(super) teller: Teller,
}

/// The facts about a finished job.
pub(super) struct Done {
    pub(super) job: JobReport,
    /// The sites of its components before one died.
    pub(super) before: Vec<String>,
    /// The site that died.
    pub(super) dead: DeadSite,
}

/// Milliseconds since then.
pub(super) fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl QuickstartStory<'_> {
    /// Runs the story from the beginning to the end.
    pub(super) fn tell(
        mut self,
        shared: &Arc<DemoShared>,
    ) -> Result<QuickstartReport, QuickstartError> {
        let begin = Instant::now();
        let mut durations = Durations::default();
        let server = self.start(shared)?;
        durations.server = ms(begin);
        let (input, text) = self.register(&server)?;
        self.preview(&server)?;
        let done = self.run(&server, &mut durations)?;
        let components = self.check(&server, &done, &text)?;
        let moved = components
            .iter()
            .all(|component| component.site_after != done.dead.name);
        durations.total = ms(begin);
        let address = server.client.address().to_string();
        let report = QuickstartReport {
            right: moved && components.iter().all(|component| component.right),
            directory: self.demo.directory.display().to_string(),
            config: self.demo.config().display().to_string(),
            metrics: format!("{address}/metrics"),
            server: address,
            server_pid: server.pid().filter(|_| self.options.keep),
            input,
            jobs: vec![done.job.id],
            rounds: done.job.round,
            components,
            dead_site: done.dead,
            durations_ms: durations,
        };
        if self.options.keep {
            server.keep();
        } else {
            server.stop()?;
        }
        self.end(&report)?;
        Ok(report)
    }

    fn start(&mut self, shared: &Arc<DemoShared>) -> Result<DemoServer, QuickstartError> {
        self.teller.step(
            "A control plane and three clusters",
            "A server with an embedded store, and three sites played by this machine:\n\
             each with its own directory tree, processors, and slow links to the others.",
        )?;
        let server = DemoServer::start(shared.clone())?;
        let sites = server.usable_sites(SITES.len())?;
        let pid = server.pid().unwrap_or_default();
        let address = server.client.address();
        self.teller
            .happened(&format!("the server is ready at {address} (process {pid})"))?;
        let rows = sites.iter().map(|site| {
            let processors = site.total.get("processors").copied().unwrap_or_default();
            vec![
                site.name.clone(),
                site.state.clone(),
                format!("{processors} processors"),
                format!("{BANDWIDTH} to each other site"),
            ]
        });
        self.teller.lines(&columns(&rows.collect::<Vec<_>>()))?;
        Ok(server)
    }

    fn register(&mut self, server: &DemoServer) -> Result<(InputReport, String), QuickstartError> {
        self.teller.step(
            "An input file",
            "It lies at one site. Jobs use its logical name; copies go where they are needed.",
        )?;
        let text = demo_job::input();
        let site = demo_job::input_site();
        let file = self
            .demo
            .site(site)
            .join("files")
            .join(demo_job::INPUT_PATH);
        DemoDirectory::write(&file, text.as_bytes())?;
        let registration = FileRegistration {
            name: demo_job::INPUT.parse()?,
            site: site.parse()?,
            path: demo_job::INPUT_PATH.parse()?,
            replace: false,
        };
        let report = server.ask(|client| client.add_file(&registration))?;
        let short = report.digest.get(..8).unwrap_or(&report.digest);
        self.teller.happened(&format!(
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

    fn preview(&mut self, server: &DemoServer) -> Result<(), QuickstartError> {
        DemoDirectory::write(&self.demo.job_file(), demo_job::job_text().as_bytes())?;
        self.teller.step(
            "Where would the job go?",
            "One job of three components, with 4, 3 and 2 processors, that start together.\n\
             A dry run says what was found at each site, and why it is chosen or not.",
        )?;
        let jobs = demo_job::job()?;
        let checked = server.ask(|client| client.check(&jobs, &SubmitOptions::default()))?;
        for job in &checked.jobs {
            let policy = job.policy.as_deref().unwrap_or("-");
            self.teller.happened(&job.summary)?;
            self.teller.lines(&format!("found by policy {policy}:\n"))?;
            self.teller.lines(&verdicts(&job.verdicts))?;
        }
        Ok(())
    }

    /// Compares the outputs of the job with the right ones.
    fn check(
        &mut self,
        server: &DemoServer,
        done: &Done,
        input: &str,
    ) -> Result<Vec<MovedComponent>, QuickstartError> {
        self.teller.step(
            "Fetch the outputs and check them",
            "Each is compared with what this program works out from the input itself.",
        )?;
        let mut all = Vec::new();
        for (at, component) in done.job.components.iter().enumerate() {
            let file = self
                .demo
                .results()
                .join(&component.name)
                .join(demo_job::OUTPUT);
            fetch(server, done.job.id, &component.name, &file)?;
            if self.options.corrupt_output && at == 0 {
                corrupt(&file)?;
            }
            let found = std::fs::read(&file).map_err(QuickstartError::file("read", &file))?;
            let wanted = demo_job::expected(&component.name, input);
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
            self.teller.happened(&checked(&report))?;
            all.push(report);
        }
        Ok(all)
    }

    fn end(&mut self, report: &QuickstartReport) -> Result<(), QuickstartError> {
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
            ("Data", self.demo.data().display().to_string()),
            ("Results", self.demo.results().display().to_string()),
            ("Server log", self.demo.log().display().to_string()),
        ];
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect();
        text.push_str(&columns(&rows));
        text.push_str(&self.next(report));
        self.teller.end(&text)
    }

    /// Suggests the next commands.
    fn next(&self, report: &QuickstartReport) -> String {
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
               cd {directory}\n  \
               cospan=\"{program} --config cospan.toml\"\n  \
               mv {dead}.dead sites/{dead}   # {dead} returns{serve}\n  \
               $cospan site list\n  \
               $cospan show {id}                          # the job and its history\n  \
               $cospan submit job.toml --wait          # run it again\n",
        )
    }
}

/// A table of the components with the verdicts of each site on them.
fn verdicts(verdicts: &[VerdictReport]) -> String {
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
    columns(&rows.collect::<Vec<_>>())
}

fn checked(report: &MovedComponent) -> String {
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

fn fetch(server: &DemoServer, job: u64, component: &str, to: &Path) -> Result<(), QuickstartError> {
    let mut download = server.ask(|client| client.output(job, component, demo_job::OUTPUT))?;
    let mut bytes = Vec::new();
    let read = download.bytes.read_to_end(&mut bytes);
    read.map_err(|error| server.client.broken(&error))?;
    DemoDirectory::write(to, &bytes)
}

/// Damages a file by a single bit.
fn corrupt(file: &Path) -> Result<(), QuickstartError> {
    let mut bytes = std::fs::read(file).map_err(QuickstartError::file("read", file))?;
    if let Some(byte) = bytes.first_mut() {
        *byte ^= 1;
    }
    DemoDirectory::write(file, &bytes)
}
