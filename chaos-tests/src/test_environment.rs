//! The directories of one run: configuration, data, sites, payload and ledger.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::port::HeldPort;
use crate::{disk, payload};

/// One site of a run.
#[derive(Debug, Clone)]
pub struct EnvironmentSite {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub root: PathBuf,
    /// Its processors.
    pub processors: u32,
}

/// What differs between runs.
#[derive(Debug, Clone)]
pub struct Layout {
    /// How many sites.
    pub sites: usize,
    /// Processors of each.
    pub processors: u32,
    /// Lines added to the sections of the configuration, by section.
    pub queue: String,
    /// Lines of `[claim]`.
    pub claim: String,
    /// Lines of `[sites]`.
    pub watching: String,
    /// Lines of `[notify]`.
    pub notify: String,
    /// Lines of `[limits]`.
    pub limits: String,
    /// Bandwidth of each link.
    pub bandwidth: String,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            sites: 4,
            processors: 12,
            queue: "hoard_after = \"2s\"\nhoard_time = \"2s\"\n".into(),
            claim: "claim_timeout = \"20s\"\nclaim_backoff = \"200ms\"\nsite_backoff = \"200ms\"\n\
                    backoff_max = \"2s\"\n"
                .into(),
            watching: "poll_interval = \"200ms\"\nsettle = \"2s\"\nprobe_interval = \"1s\"\n\
                       probe_interval_max = \"2s\"\n"
                .into(),
            notify: String::new(),
            limits: String::new(),
            bandwidth: "30Mbit/s".into(),
        }
    }
}

impl Layout {
    fn sections(&self) -> String {
        format!(
            "[store]\nkeep_copies = \"1s\"\nkeep_partials = \"1s\"\n\n[queue]\nscan_interval = \"1s\"\n{}\n\
             [claim]\n{}\n[sites]\n{}\n[notify]\n{}\n[limits]\n{}\n",
            self.queue, self.claim, self.watching, self.notify, self.limits
        )
    }
}

/// The directories of one run; removed with it unless kept.
#[derive(Debug)]
pub struct TestEnvironment {
    directory: TempDir,
    /// Where data directory and sites are; a directory below it, or itself.
    disk: PathBuf,
    /// Kind of its file system.
    pub file_system: String,
    /// Its sites.
    pub sites: Vec<EnvironmentSite>,
    port: HeldPort,
}

impl TestEnvironment {
    /// Makes everything below a new directory in `base`.
    ///
    /// # Errors
    /// The directory cannot be made, or lies in memory.
    pub fn new(base: &Path, layout: &Layout) -> Result<Self> {
        let processors = vec![layout.processors; layout.sites];
        Self::with_sites(base, &processors, &layout.sections(), &layout.bandwidth)
    }

    /// The same with the data directory and the sites below a directory of this name, and all else
    /// beside it.
    ///
    /// # Errors
    /// As for [`TestEnvironment::new`].
    pub fn with_disk(base: &Path, layout: &Layout, name: &str) -> Result<Self> {
        let processors = vec![layout.processors; layout.sites];
        Self::make(
            base,
            &processors,
            &layout.sections(),
            &layout.bandwidth,
            name,
        )
    }

    /// The same with one site for each count of processors, named s1, s2, ...; these
    /// sections of the configuration; and a link of this bandwidth between any two sites.
    ///
    /// # Errors
    /// As for [`TestEnvironment::new`].
    pub fn with_sites(
        base: &Path,
        processors: &[u32],
        sections: &str,
        bandwidth: &str,
    ) -> Result<Self> {
        Self::make(base, processors, sections, bandwidth, "")
    }

    fn make(
        base: &Path,
        processors: &[u32],
        sections: &str,
        bandwidth: &str,
        disk: &str,
    ) -> Result<Self> {
        fs::create_dir_all(base)?;
        let directory = tempfile::Builder::new().prefix("kill-").tempdir_in(base)?;
        let file_system = disk::check_file_system(directory.path())?;
        let port = HeldPort::take_free_port()?;
        let disk = match disk {
            "" => directory.path().to_owned(),
            name => directory.path().join(name),
        };
        let sites = (1..)
            .zip(processors)
            .map(|(number, processors)| EnvironmentSite {
                name: format!("s{number}"),
                root: disk.join(format!("site-{number}")),
                processors: *processors,
            });
        let sites = sites.collect();
        let environment = Self {
            sites,
            disk,
            file_system,
            port,
            directory,
        };
        fs::write(
            environment.config(),
            environment.configuration(sections, bandwidth),
        )?;
        fs::write(environment.payload(), payload::SCRIPT)?;
        fs::write(environment.ledger(), "")?;
        Ok(environment)
    }

    /// Port of the server; nobody else's, also while the server is down.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The directory of everything.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where data directory and sites are.
    pub fn disk(&self) -> &Path {
        &self.disk
    }

    /// Leaves the directory behind, for people to look at.
    pub fn keep(&mut self) {
        self.directory.disable_cleanup(true);
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path().join("cospan.toml")
    }

    /// The server's data directory.
    pub fn data(&self) -> PathBuf {
        self.disk.join("data")
    }

    /// What payloads write and only the harness reads.
    pub fn ledger(&self) -> PathBuf {
        self.path().join("ledger")
    }

    /// Keeps payloads from ending, or no longer.
    ///
    /// # Errors
    /// The file that says so cannot be written or removed.
    pub fn hold(&self, is_held: bool) -> std::io::Result<()> {
        let file = self.path().join("ledger.hold");
        match is_held {
            true => fs::write(file, ""),
            false if file.exists() => fs::remove_file(file),
            false => Ok(()),
        }
    }

    /// The payload's script.
    pub fn payload(&self) -> PathBuf {
        self.path().join("payload.sh")
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.path().join("server.log")
    }

    /// Points that a chaos build reached.
    pub fn coverage(&self) -> PathBuf {
        self.path().join("coverage")
    }

    fn configuration(&self, sections: &str, bandwidth: &str) -> String {
        let mut text = format!(
            "[server]\ndata_directory = {:?}\nlisten = [\"127.0.0.1:{}\"]\n\n{sections}",
            self.data(),
            self.port(),
        );
        for site in &self.sites {
            let name = &site.name;
            let root = &site.root;
            let processors = site.processors;
            // Writing into a text cannot fail.
            let _ = write!(
                text,
                "\n[[site]]\nname = {name:?}\nkind = \"local\"\nroot = {root:?}\n\
                 processors = {processors}\n"
            );
        }
        for (at, from) in self.sites.iter().enumerate() {
            for to in &self.sites[at + 1..] {
                let from = &from.name;
                let to = &to.name;
                let _ = write!(
                    text,
                    "\n[[link]]\nfrom = {from:?}\nto = {to:?}\nbandwidth = {bandwidth:?}\n"
                );
            }
        }
        text
    }

    /// Puts a file of this size among a site's files, and gives back its path there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn plant_file(&self, site: usize, name: &str, size: usize) -> Result<String> {
        let mut bytes = format!("{name}\n").into_bytes();
        bytes.resize(size.max(bytes.len()), b'.');
        self.plant(site, name, &bytes)
    }

    /// Puts a file with these bytes among a site's files, and gives back its path there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn plant(&self, site: usize, name: &str, bytes: &[u8]) -> Result<String> {
        let directory = self.sites[site].root.join("files");
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        fs::write(directory.join(name), bytes)?;
        Ok(name.into())
    }
}
