//! The server of the demonstration: this program again, in a process of its own.

use std::io::{Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::demo_directory::{self, DemoDirectory, DemoSites};
use super::quickstart_error::QuickstartError;
use cospan_api::v1::site::SiteReport;
use cospan_client::{Client, ServerAddress};

/// Longest wait for the server to take work.
const READY_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the first answers of sites.
const SITES_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the server to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Another process may take a free port before the server does.
const PORT_TRIES: u32 = 3;
/// Variables that are meant for this command, and not for its server.
const VARIABLES: [&str; 5] = [
    "COSPAN_CONFIG",
    "COSPAN_SERVER",
    "COSPAN_TOKEN",
    "COSPAN_LOG",
    "COSPAN_LISTEN",
];
/// Bytes of the server's log that are shown when it ended by itself.
const TAIL: u64 = 2_000;

/// The server as the story uses it.
#[derive(Debug)]
pub(super) struct DemoServer {
    shared: Arc<DemoSharedState>,
    pub(super) client: Client,
}

/// The state that the thread that waits for Ctrl-C needs as well.
#[derive(Debug)]
pub(super) struct DemoSharedState {
    demo: DemoDirectory,
    sites: Box<dyn DemoSites>,
    child: Mutex<Option<Child>>,
}

impl DemoSharedState {
    pub(super) fn new(demo: DemoDirectory, sites: Box<dyn DemoSites>) -> Arc<Self> {
        Arc::new(Self {
            demo,
            sites,
            child: Mutex::new(None),
        })
    }

    fn lock_child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the server, then all processes at its sites.
    pub(super) fn end_all(&self) -> Result<(), QuickstartError> {
        self.end_locked(&mut self.lock_child())
    }

    fn end_locked(&self, child: &mut Option<Child>) -> Result<(), QuickstartError> {
        if let Some(mut child) = child.take() {
            stop_child(&mut child);
        }
        self.sites.end_sites(&self.demo)
    }

    /// Does as `end`, for good: while the guard is held nobody can start anything. A directory that
    /// we chose is removed.
    ///
    /// # Errors
    /// Something may be left.
    pub(super) fn end_and_remove(
        &self,
    ) -> (MutexGuard<'_, Option<Child>>, Result<(), QuickstartError>) {
        let mut child = self.lock_child();
        let ended = self.end_locked(&mut child);
        if ended.is_ok() && self.demo.chosen_by_us {
            demo_directory::remove_directory(&self.demo.directory);
        }
        (child, ended)
    }
}

impl DemoServer {
    /// Starts the server and waits until it takes work.
    pub(super) fn start_and_wait(shared: Arc<DemoSharedState>) -> Result<Self, QuickstartError> {
        let demo = shared.demo.clone();
        let mut tries = 0;
        loop {
            tries += 1;
            let port = free_port().map_err(QuickstartError::file_error(
                "listen on",
                "127.0.0.1".as_ref(),
            ))?;
            let config = shared.sites.config_text(&demo, port);
            DemoDirectory::write_file(&demo.config_file(), config.as_bytes())?;
            {
                // Locked while the server starts, so that an interruption finds it.
                let mut child = shared.lock_child();
                *child = Some(spawn_server(&demo, &*shared.sites)?);
            }
            let address = ServerAddress::Http(format!("http://127.0.0.1:{port}"));
            let keyless = Client::new(address.clone(), None, None)?;
            let server = Self {
                shared: shared.clone(),
                client: keyless,
            };
            match server.wait_ready() {
                Ok(()) => {}
                Err(QuickstartError::ServerEnded { tail, .. })
                    if tries < PORT_TRIES && tail.contains("in use") =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            }
            let token = shared.sites.admin_token(&demo)?;
            return Ok(Self {
                client: Client::new(address, token, None)?,
                ..server
            });
        }
    }

    fn wait_ready(&self) -> Result<(), QuickstartError> {
        let begin = Instant::now();
        loop {
            match self.client.get_text("/readyz") {
                Ok(_) => return Ok(()),
                Err(_) => self.check_alive()?,
            }
            self.check_time("the start of the server", begin, READY_MAX)?;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns an error if `begin` is longer ago than `longest`.
    pub(super) fn check_time(
        &self,
        what: &'static str,
        begin: Instant,
        longest: Duration,
    ) -> Result<(), QuickstartError> {
        if begin.elapsed() <= longest {
            return Ok(());
        }
        let log = self.shared.demo.log_file();
        Err(QuickstartError::TooSlow {
            what,
            seconds: longest.as_secs(),
            log,
        })
    }

    /// Returns an error with the end of the server's log if it has ended.
    pub(super) fn check_alive(&self) -> Result<(), QuickstartError> {
        let status = match self.shared.lock_child().as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(None)) | None => return Ok(()),
        };
        let log = self.shared.demo.log_file();
        let tail = log_tail(&log).unwrap_or_else(|error| format!("(not readable: {error})"));
        Err(QuickstartError::ServerEnded { status, log, tail })
    }

    /// Sends a request. If the server does not answer because it has ended, that is the error.
    pub(super) fn call_server<T>(
        &self,
        question: impl FnOnce(&Client) -> Result<T, cospan_client::ClientError>,
    ) -> Result<T, QuickstartError> {
        question(&self.client).map_err(|error| match self.check_alive() {
            Err(ended) => ended,
            Ok(()) => error.into(),
        })
    }

    /// Waits until this many sites are usable, and returns them.
    pub(super) fn wait_for_sites(&self, count: usize) -> Result<Vec<SiteReport>, QuickstartError> {
        let begin = Instant::now();
        loop {
            let sites = self.call_server(|client| client.list_sites())?.sites;
            if sites.iter().all(|site| site.state == "usable") && sites.len() == count {
                return Ok(sites);
            }
            self.check_time("the first answer of the sites", begin, SITES_MAX)?;
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process id, while it runs.
    pub(super) fn server_pid(&self) -> Option<u32> {
        self.shared.lock_child().as_ref().map(Child::id)
    }

    /// Stops the server and all that it started.
    pub(super) fn stop(self) -> Result<(), QuickstartError> {
        self.shared.end_all()
    }

    /// Leaves the server running.
    pub(super) fn keep_running(self) {
        // Nobody waits for it any more; dropping the handle does not end it.
        drop(self.shared.lock_child().take());
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn spawn_server(demo: &DemoDirectory, sites: &dyn DemoSites) -> Result<Child, QuickstartError> {
    let program = sites
        .server_program(demo)
        .map_or_else(std::env::current_exe, Ok);
    let program = program.map_err(QuickstartError::file_error(
        "find",
        "this program's file".as_ref(),
    ))?;
    let log_file = demo.log_file();
    let log = std::fs::File::create(&log_file)
        .map_err(QuickstartError::file_error("write", &log_file))?;
    let mut command = Command::new(&program);
    command.arg("--config").arg(demo.config_file()).arg("serve");
    // Only its configuration file decides how it runs.
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    sites.run_as(&mut command);
    command
        .env_remove("STATE_DIRECTORY")
        .env_remove("NOTIFY_SOCKET")
        .current_dir(&demo.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C is for us; we then stop the server in order.
        .process_group(0)
        .spawn()
        .map_err(QuickstartError::file_error("start", &program))
}

/// Asks the server to stop, and kills it if it does not.
fn stop_child(child: &mut Child) {
    let begin = Instant::now();
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < STOP_MAX {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Both fail only if it is gone.
    let _ = child.kill();
    let _ = child.wait();
}

fn log_tail(file: &std::path::Path) -> std::io::Result<String> {
    let mut log = std::fs::File::open(file)?;
    let size = log.metadata()?.len();
    log.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<String> = text
        .lines()
        .rev()
        .take(8)
        .map(|line| format!("  {line}"))
        .collect();
    Ok(lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}
