//! A site on a real Slurm, in a directory of its own.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "parts for tests")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, HostName, JobId, RelPath, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationMs, DurationUs};
use cospan_sites::contract::{SiteFixture, kill_attempt_processes};
use cospan_sites::examination::SiteFinding;
use cospan_sites::exec::child::ChildProcessExecutor;
use cospan_sites::exec::ssh::{SshConfig, SshExecutor};
use cospan_sites::exec::{CommandExecutor, CommandOutput, ExecCommand, ExecError};
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::{FilePlace, InspectedFile, Site};
use cospan_sites::slurm_site::cluster_check::probe_cluster;
use cospan_sites::slurm_site::{SlurmSite, SlurmSiteConfig};
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;

/// Stands in for `ping`: there is no network in tests.
const PING: &str = r#"
case $1 in
    near) echo 'rtt min/avg/max/mdev = 0.840/1.022/1.340/0.117 ms' ;;
    *) echo '3 packets transmitted, 0 received, 100% packet loss'; exit 1 ;;
esac
"#;

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

/// The program that copies files: the one that was built, or where that account can read it.
fn agent() -> String {
    let built = || env!("CARGO_BIN_EXE_site-agent").into();
    std::env::var("COSPAN_TEST_SITE_AGENT").unwrap_or_else(|_| built())
}

fn skipped<T>(needed: &str) -> Option<T> {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Not by a macro for tests: their output is kept back when they pass.
    let told = writeln!(
        std::io::stderr(),
        "SKIPPED {test}: it needs {needed} in {}",
        file!()
    );
    told.unwrap();
    None
}

/// Waits for a cluster that no other test has, and locks it.
fn free_cluster(confs: &Path, shared: &Path) -> (PathBuf, File) {
    loop {
        for (number, conf) in std::env::split_paths(confs).enumerate() {
            let turn = File::create(shared.join(format!("turn-{number}"))).unwrap();
            if turn.try_lock().is_ok() {
                return (conf, turn);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Finds commands in a directory before those of this machine.
#[derive(Debug)]
struct CommandsFirst {
    child: ChildProcessExecutor,
    directory: PathBuf,
}

#[async_trait]
impl CommandExecutor for CommandsFirst {
    fn ends_overdue(&self) -> bool {
        self.child.ends_overdue()
    }

    async fn run(&self, mut command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let path = format!("{}:/usr/bin:/bin", self.directory.display());
        command.environment.insert("PATH".into(), path.into());
        self.child.run(command).await
    }
}

/// Sets variables for every command.
#[derive(Debug)]
struct WithVariables {
    child: ChildProcessExecutor,
    variables: BTreeMap<OsString, OsString>,
}

#[async_trait]
impl CommandExecutor for WithVariables {
    fn ends_overdue(&self) -> bool {
        self.child.ends_overdue()
    }

    async fn run(&self, mut command: ExecCommand) -> Result<CommandOutput, ExecError> {
        command.environment.extend(self.variables.clone());
        self.child.run(command).await
    }
}

/// A site for one test, which has the cluster for itself; nothing of it is left afterwards.
pub struct SlurmSiteFixture {
    /// Name of the directory that its configuration file is in.
    cluster: OsString,
    place: PathBuf,
    config: SlurmSiteConfig,
    /// The way there, unless it is this machine.
    ssh: Option<SshConfig>,
    /// Calls that did not get through, as whoever cuts connections counts them.
    pub broken: AtomicU32,
    /// Whoever has it locked has the cluster.
    _turn: File,
}

impl SlurmSiteFixture {
    /// `None`, loudly, where there is no cluster for tests.
    pub fn offered() -> Option<Self> {
        match (
            variable("COSPAN_TEST_SLURM_CONF"),
            variable("COSPAN_TEST_SLURM_ROOT"),
        ) {
            (Some(conf), Some(place)) => Some(Self::new(&conf, &place, None)),
            _ => skipped("a real Slurm; see COSPAN_TEST_SLURM_CONF"),
        }
    }

    /// A cluster where the account may make reservations; `None`, loudly, where there is none.
    pub fn offered_granting() -> Option<Self> {
        match (
            variable("COSPAN_TEST_SLURM_GRANTING"),
            variable("COSPAN_TEST_SLURM_ROOT"),
        ) {
            (Some(conf), Some(place)) => {
                let mut fixture = Self::new(&conf, &place.join("granting"), None);
                fixture.config.reservations = true;
                Some(fixture)
            }
            _ => skipped("a real Slurm of the account's own; see COSPAN_TEST_SLURM_GRANTING"),
        }
    }

    /// For whom an administrator reserves.
    pub fn user(&self) -> String {
        let name = std::process::Command::new("id")
            .arg("-un")
            .output()
            .unwrap();
        format!("users={}", String::from_utf8(name.stdout).unwrap().trim())
    }

    /// The same cluster by way of SSH; `None`, loudly, where that is not offered.
    pub fn offered_over_ssh() -> Option<Self> {
        let host = std::env::var("COSPAN_TEST_SLURM_SSH").ok();
        let known = (
            variable("COSPAN_TEST_SLURM_CONF"),
            variable("COSPAN_TEST_SLURM_ROOT"),
            host,
        );
        let (Some(conf), Some(place), Some(host)) = known else {
            return skipped("a real Slurm behind an sshd; see COSPAN_TEST_SLURM_SSH");
        };
        let ssh = SshConfig {
            host,
            config: variable("COSPAN_TEST_SLURM_SSH_CONFIG"),
            socket: PathBuf::new(),
            wanted: "sbatch",
            patience: Duration::from_secs(15),
        };
        Some(Self::new(&conf, &place, Some(ssh)))
    }

    /// Where orders to the controller are left; `None`, loudly, where nobody takes them.
    pub fn orders(&self) -> Option<PathBuf> {
        let orders = variable("COSPAN_TEST_SLURM_ORDERS").map(|all| all.join(&self.cluster));
        orders.or_else(|| skipped("somebody who hurts Slurm; see COSPAN_TEST_SLURM_ORDERS"))
    }

    fn new(confs: &Path, shared: &Path, mut ssh: Option<SshConfig>) -> Self {
        static FIXTURES: AtomicU32 = AtomicU32::new(0);
        std::fs::create_dir_all(shared).unwrap();
        let (conf, turn) = free_cluster(confs, shared);
        let cluster = conf.parent().and_then(Path::file_name).unwrap().to_owned();
        let number = FIXTURES.fetch_add(1, Ordering::Relaxed);
        let place = shared.join(format!("fixture-{}-{number}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        if let Some(ssh) = &mut ssh {
            ssh.socket = place.join("ssh");
        }
        let ping = place.join("ping");
        std::fs::write(&ping, PING).unwrap();
        let mut config = SlurmSiteConfig::new(
            SiteName::new("there").unwrap(),
            place.join("root"),
            Resources::processors(100_000),
            vec![agent().into()],
        );
        config.slurm_conf = Some(conf);
        config.memory = DurationMs::from_secs(1);
        config.seal = AttemptAuthenticator::new([4; 32], JobId(0));
        config.ping = vec!["/bin/sh".into(), ping.display().to_string()];
        let near = (SiteName::new("near").unwrap(), place.join("near"));
        let agent = config.copy_agent.clone();
        let total = Resources::processors(1);
        let local = LocalSiteConfig::new(near.0.clone(), near.1.clone(), total, agent);
        LocalSite::new(local).unwrap().make_root().unwrap();
        config.neighbours.extend([near]);
        let fixture = Self {
            cluster,
            place,
            config,
            ssh,
            broken: AtomicU32::new(0),
            _turn: turn,
        };
        let site = fixture.make();
        // The fixture is made outside of the test's own runtime.
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.unwrap().block_on(site.make_root()).unwrap();
            });
            made.join().unwrap();
        });
        fixture
    }

    /// Ends all jobs, and all reservations once no job is in them.
    fn clear(&self) {
        let listed = self.slurm(&["squeue", "-h", "-o", "%i"]);
        listed
            .lines()
            .for_each(|number| drop(self.slurm(&["scancel", number])));
        for _ in 0..100 {
            let all = self.slurm(&["scontrol", "-o", "show", "reservation"]);
            let name = |line: &str| {
                Some(
                    line.strip_prefix("ReservationName=")?
                        .split(' ')
                        .next()?
                        .to_owned(),
                )
            };
            let names: Vec<String> = all.lines().filter_map(name).collect();
            if names.is_empty() {
                return;
            }
            for name in names {
                self.slurm(&["scontrol", "delete", &format!("reservationname={name}")]);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn slurm_conf(&self) -> String {
        self.config
            .slurm_conf
            .as_ref()
            .unwrap()
            .display()
            .to_string()
    }

    /// The site through commands of Slurm that lie in this directory, where it has them.
    pub fn site_with_commands(&self, directory: &Path) -> Arc<dyn Site> {
        let exec = CommandsFirst {
            child: ChildProcessExecutor::with_process_environment(),
            directory: directory.to_owned(),
        };
        Arc::new(SlurmSite::new(self.config.clone(), Arc::new(exec)).unwrap())
    }

    /// Checks the cluster as before it becomes a site, with a job of one processor; in another root,
    /// if one is given, and with these variables set.
    pub async fn check(
        &self,
        root: Option<PathBuf>,
        variables: &[(&str, &str)],
    ) -> Vec<SiteFinding> {
        let mut config = self.config.clone();
        config.root = root.unwrap_or(config.root);
        let exec = WithVariables {
            child: ChildProcessExecutor::with_process_environment(),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        };
        let probed = probe_cluster(&config, Arc::new(exec), true).await;
        probed.unwrap().findings
    }

    /// A directory whose programs the kernel does not run; `None`, loudly, where there is none.
    pub fn noexec_directory() -> Option<PathBuf> {
        let offered = variable("COSPAN_TEST_SLURM_NOEXEC");
        offered.or_else(|| skipped("a directory mounted noexec; see COSPAN_TEST_SLURM_NOEXEC"))
    }

    fn make(&self) -> SlurmSite {
        let config = self.config.clone();
        match &self.ssh {
            None => SlurmSite::new(
                config,
                Arc::new(ChildProcessExecutor::with_process_environment()),
            )
            .unwrap(),
            Some(ssh) => {
                let exec = SshExecutor::new(ssh.clone()).unwrap();
                SlurmSite::with_remote_root(config, Arc::new(exec)).unwrap()
            }
        }
    }

    /// Ends the connection from outside: this end of it is killed, or the other.
    pub async fn cut(&self, here: bool) {
        let ssh = self.ssh.as_ref().unwrap();
        let client = |words: &[&str]| {
            let mut client = tokio::process::Command::new("ssh");
            client
                .arg("-S")
                .arg(&ssh.socket)
                .args(["-o", "ProxyCommand=false"])
                .args(words);
            client.stdin(std::process::Stdio::null());
            client
        };
        if !here {
            // Whoever serves the connection is the parent of what it starts.
            let _ = client(&[&ssh.host, "kill -9 $PPID"]).output().await;
            return;
        }
        let told = client(&["-O", "check", &ssh.host]).output().await.unwrap();
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let pid = told
            .split("pid=")
            .nth(1)
            .and_then(|rest| rest.split(')').next()?.parse().ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// A site of this machine that copies may come from.
    pub fn neighbour(&self) -> SiteName {
        SiteName::new("near").unwrap()
    }

    /// Puts a user's file there.
    pub fn put_neighbours_file(&self, name: &str, bytes: &[u8]) -> Content {
        std::fs::write(self.neighbours_files().join(name), bytes).unwrap();
        Content {
            digest: Digest(*blake3::hash(bytes).as_bytes()),
            size: Bytes(bytes.len() as u64),
        }
    }

    /// Where users' files are there.
    pub fn neighbours_files(&self) -> PathBuf {
        self.place.join("near/files")
    }

    /// What a file or directory there is.
    pub async fn inspect_neighbours(&self, place: &FilePlace) -> InspectedFile {
        let agent = self.config.copy_agent.clone();
        let total = Resources::processors(1);
        let local = LocalSiteConfig::new(self.neighbour(), self.place.join("near"), total, agent);
        LocalSite::new(local)
            .unwrap()
            .files()
            .inspect(place)
            .await
            .unwrap()
    }

    pub fn root(&self) -> PathBuf {
        self.place.join("root")
    }

    /// Runs a command of Slurm, as an operator would.
    pub fn slurm(&self, words: &[&str]) -> String {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]);
        command.env("SLURM_CONF", self.config.slurm_conf.as_ref().unwrap());
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl SiteFixture for SlurmSiteFixture {
    fn site(&self) -> Arc<dyn Site> {
        Arc::new(self.make())
    }

    fn reopened(&self) -> Arc<dyn Site> {
        Arc::new(self.make())
    }

    fn take_away(&self) {
        std::fs::rename(self.root(), self.place.join("away")).unwrap();
    }

    fn bring_back(&self) {
        std::fs::rename(self.place.join("away"), self.root()).unwrap();
    }

    fn lose(&self, tag: AttemptTag) {
        kill_attempt_processes(&self.root(), tag);
    }

    fn put_user_file(&self, path: &RelPath, bytes: &[u8]) {
        std::fs::write(self.root().join("files").join(path.as_str()), bytes).unwrap();
    }

    fn near(&self) -> (HostName, DurationUs) {
        (HostName::new("near").unwrap(), DurationUs(840))
    }

    fn mute(&self) -> HostName {
        HostName::new("mute").unwrap()
    }
}

impl Drop for SlurmSiteFixture {
    /// A test that failed half-way leaves jobs behind; those below its root are its own. So are all
    /// jobs and reservations of a cluster where it may make any.
    fn drop(&mut self) {
        let root = self.root().display().to_string();
        let listed = self.slurm(&["squeue", "-h", "-o", "%i %Z"]);
        let ours = listed.lines().filter_map(|line| line.split_once(' '));
        for (number, _) in ours.filter(|(_, directory)| *directory == root) {
            self.slurm(&["scancel", number]);
        }
        if self.config.reservations {
            self.clear();
        }
        if let Some(ssh) = &self.ssh {
            let mut client = std::process::Command::new("ssh");
            client
                .arg("-S")
                .arg(&ssh.socket)
                .args(["-O", "exit", &ssh.host]);
            client.stderr(std::process::Stdio::null());
            let _ = client.status();
        }
        let _ = std::fs::remove_dir_all(&self.place);
    }
}
