//! A local site in a directory of its own.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "parts for test programs"
)]

pub mod unprivileged;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cospan_domain::ids::{AttemptTag, HostName, JobId, RelPath, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, DurationUs};
use cospan_sites::contract::{SiteFixture, kill_attempt_processes};
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::Site;
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;

/// Stands in for `ping`: there is no network in tests.
const PING: &str = r#"
case $1 in
    near) echo 'rtt min/avg/max/mdev = 0.840/1.022/1.340/0.117 ms' ;;
    mute) echo '3 packets transmitted, 0 received, 100% packet loss'; exit 1 ;;
    busy) sleep 600 & echo 'round-trip min/avg/max = 11.5/12.0/13.0 ms' ;;
    *) echo 'pong' ;;
esac
"#;

/// A local site made for one test; nothing of it is left when it is dropped.
pub struct LocalSiteFixture {
    place: tempfile::TempDir,
    pub site: Arc<LocalSite>,
}

impl LocalSiteFixture {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With a configuration that differs from the ordinary one.
    pub fn with(change: impl FnOnce(&mut LocalSiteConfig)) -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")), change)
    }

    /// Where nobody may make files, too.
    pub fn anywhere() -> Self {
        Self::within(&std::env::temp_dir(), |_| {})
    }

    fn within(directory: &Path, change: impl FnOnce(&mut LocalSiteConfig)) -> Self {
        let place = tempfile::tempdir_in(directory).unwrap();
        let mut config = config(&place.path().join("root"));
        let ping = place.path().join("ping");
        std::fs::write(&ping, PING).unwrap();
        config.ping = vec!["/bin/sh".into(), ping.display().to_string()];
        change(&mut config);
        let site = LocalSite::new(config).unwrap();
        site.make_root().unwrap();
        Self {
            place,
            site: Arc::new(site),
        }
    }

    pub fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    pub fn config(&self) -> LocalSiteConfig {
        self.site.config().clone()
    }
}

fn config(root: &Path) -> LocalSiteConfig {
    let agent = vec![env!("CARGO_BIN_EXE_site-agent").into()];
    let mut config = LocalSiteConfig::new(
        SiteName::new("here").unwrap(),
        root.to_path_buf(),
        Resources {
            processors: 8,
            others: [("gpus".into(), 2)].into(),
        },
        agent,
    );
    config.grace = DurationMs::from_secs(1);
    config.seal = AttemptAuthenticator::new([4; 32], JobId(0));
    config
}

impl SiteFixture for LocalSiteFixture {
    fn site(&self) -> Arc<dyn Site> {
        self.site.clone()
    }

    fn reopened(&self) -> Arc<dyn Site> {
        Arc::new(LocalSite::new(self.config()).unwrap())
    }

    fn take_away(&self) {
        std::fs::rename(self.root(), self.place.path().join("away")).unwrap();
    }

    fn bring_back(&self) {
        std::fs::rename(self.place.path().join("away"), self.root()).unwrap();
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

impl Drop for LocalSiteFixture {
    /// A test that failed half-way leaves processes behind; they name its root.
    fn drop(&mut self) {
        loop {
            let left = processes_naming(&self.root());
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(kill);
        }
    }
}

/// Processes with a path in their command line or environment.
pub fn processes_naming(path: &Path) -> Vec<u32> {
    let name = path.as_os_str().as_bytes();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid: &u32| {
            ["cmdline", "environ"].iter().any(|file| {
                let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                text.windows(name.len()).any(|window| window == name)
            })
        })
        .collect()
}

pub fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// The process that a state file of an attempt names.
pub fn pid_in(fixture: &LocalSiteFixture, tag: cospan_domain::ids::AttemptTag, file: &str) -> u32 {
    let path = fixture.root().join(format!("attempts/{tag}/{file}"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix("pid "))
        .unwrap()
        .parse()
        .unwrap()
}
