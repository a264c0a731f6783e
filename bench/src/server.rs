//! A server that a bench starts and kills.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::measured_program::cospan_program;

/// Longest wait for a server to be ready.
const READY_MAX: Duration = Duration::from_secs(120);

/// A server with its directory.
pub(super) struct BenchServer {
    directory: PathBuf,
    child: Child,
    /// Port on which it listens.
    pub(super) port: u16,
    /// The key that opens it.
    pub(super) token: String,
}

/// A free port of the loopback address.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl BenchServer {
    /// Writes the configuration and starts a server.  The configuration is the shipped one, but for
    /// addresses, directories and sites, and for room for all jobs of one key, which machines with
    /// little memory do not give by default.
    pub(super) fn start(directory: &Path, sites: &[(&str, u32)]) -> Result<Self> {
        Self::start_within(directory, sites, "auto")
    }

    /// Starts a server with this much memory.
    pub(super) fn start_within(
        directory: &Path,
        sites: &[(&str, u32)],
        memory: &str,
    ) -> Result<Self> {
        let port = free_port()?;
        let data = directory.join("data");
        let mut text = format!(
            "[server]\ndata_directory = {:?}\nlisten = [\"127.0.0.1:{port}\"]\n\
             memory = {memory:?}\n[log]\nfilter = \"warn\"\n\
             [limits]\nmax_job_memory = \"8GB\"\nmax_job_memory_per_key = \"8GB\"\n",
            data.display()
        );
        for (name, processors) in sites {
            let root = directory.join("sites").join(name);
            text += &format!(
                "[[site]]\nname = {name:?}\nkind = \"local\"\nroot = {:?}\nprocessors = {processors}\n",
                root.display()
            );
        }
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("cospan.toml"), text)?;
        let child = spawn(directory)?;
        let mut server = Self {
            directory: directory.to_owned(),
            child,
            port,
            token: String::new(),
        };
        server.wait_ready()?;
        server.token = std::fs::read_to_string(data.join("keys/admin.token"))
            .context("the server made no key")?
            .trim()
            .to_owned();
        Ok(server)
    }

    /// Kills the server with signal 9.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts the server again on its store; returns at once.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.directory)?;
        Ok(())
    }

    /// Waits until the server takes work.
    pub(super) fn wait_ready(&mut self) -> Result<()> {
        let address = format!("http://127.0.0.1:{}/readyz", self.port);
        let begin = Instant::now();
        while ureq::get(&address).call().is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status} instead of getting ready");
            }
            if begin.elapsed() > READY_MAX {
                bail!("the server was not ready after {READY_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Makes another key, and waits until the server accepts it.
    pub(super) fn add_key(&self, name: &str) -> Result<String> {
        let made = program_command(&self.directory)?
            .args(["key", "add", name])
            .output()?;
        if !made.status.success() {
            bail!("no key was made: {}", String::from_utf8_lossy(&made.stderr));
        }
        let token = String::from_utf8(made.stdout)?.trim().to_owned();
        let address = format!("http://127.0.0.1:{}/v1/jobs?limit=1", self.port);
        let begin = Instant::now();
        while ureq::get(&address)
            .header("authorization", &format!("Bearer {token}"))
            .call()
            .is_err()
        {
            if begin.elapsed() > READY_MAX {
                bail!("the new key was not taken after {READY_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(token)
    }

    /// Reads a JSON document of its API.
    pub(super) fn get_json(&self, path: &str) -> Result<serde_json::Value> {
        let address = format!("http://127.0.0.1:{}{path}", self.port);
        let key = format!("Bearer {}", self.token);
        let mut answer = ureq::get(&address).header("authorization", &key).call()?;
        Ok(serde_json::from_reader(answer.body_mut().as_reader())?)
    }

    /// Reads a text of its API.
    pub(super) fn get_text(&self, path: &str) -> Result<String> {
        let address = format!("http://127.0.0.1:{}{path}", self.port);
        let key = format!("Bearer {}", self.token);
        let mut answer = ureq::get(&address).header("authorization", &key).call()?;
        Ok(answer.body_mut().read_to_string()?)
    }

    /// Resident memory in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        self.read_status_bytes("VmRSS:")
    }

    /// Peak resident memory since the start, in bytes.
    pub(super) fn peak_resident_bytes(&self) -> Result<u64> {
        self.read_status_bytes("VmHWM:")
    }

    fn read_status_bytes(&self, what: &'static str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(what));
        let kb: Option<u64> =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        Ok(kb.context(what)? * 1_024)
    }

    /// Processor time used, in clock ticks.
    pub(super) fn cpu_ticks(&self) -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let rest = stat.rsplit_once(')').context("no stat")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let user = fields.get(11).and_then(|field| field.parse::<u64>().ok());
        let system = fields.get(12).and_then(|field| field.parse::<u64>().ok());
        Ok(user.context("no utime")? + system.context("no stime")?)
    }
}

/// The program with the server's configuration.
fn program_command(directory: &Path) -> Result<Command> {
    let mut command = Command::new(cospan_program()?);
    command.arg("--config").arg(directory.join("cospan.toml"));
    Ok(command)
}

fn spawn(directory: &Path) -> Result<Child> {
    program_command(directory)?
        .arg("serve")
        .env_remove("COSPAN_LOG")
        .env_remove("COSPAN_LISTEN")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("the server could not be started")
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // It has ended already, or must end whatever the result of the bench.
        let _ = self.kill();
    }
}
