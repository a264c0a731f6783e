//! A site on a real Slurm, in a directory of its own.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "parts for tests")]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cospan_domain::ids::{HostName, RelPath, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationUs;
use cospan_sites::contract::SiteFixture;
use cospan_sites::exec::child::ChildExec;
use cospan_sites::port::Site;
use cospan_sites::slurm::{SlurmConfig, SlurmSite};

/// Stands in for `ping`: there is no network in tests.
const PING: &str = r#"
case $1 in
    near) echo 'rtt min/avg/max/mdev = 0.840/1.022/1.340/0.117 ms' ;;
    *) echo '3 packets transmitted, 0 received, 100% packet loss'; exit 1 ;;
esac
"#;

/// A site for one test, which has the cluster for itself; nothing of it is left afterwards.
pub struct SlurmSiteFixture {
    place: PathBuf,
    config: SlurmConfig,
    /// Whoever has it locked has the cluster.
    _turn: File,
}

impl SlurmSiteFixture {
    /// `None`, loudly, where there is no cluster for tests.
    pub fn offered() -> Option<Self> {
        let (Some(conf), Some(place)) = (
            std::env::var_os("COSPAN_TEST_SLURM_CONF"),
            std::env::var_os("COSPAN_TEST_SLURM_ROOT"),
        ) else {
            let test = std::thread::current().name().unwrap_or("?").to_owned();
            // Not by a macro for tests: their output is kept back when they pass.
            let told = writeln!(
                std::io::stderr(),
                "SKIPPED {test}: it needs a real Slurm; see COSPAN_TEST_SLURM_CONF in {}",
                file!()
            );
            told.unwrap();
            return None;
        };
        Some(Self::new(&PathBuf::from(conf), Path::new(&place)))
    }

    fn new(conf: &Path, shared: &Path) -> Self {
        static FIXTURES: AtomicU32 = AtomicU32::new(0);
        let turn = File::create(shared.join("turn")).unwrap();
        turn.lock().unwrap();
        let number = FIXTURES.fetch_add(1, Ordering::Relaxed);
        let place = shared.join(format!("fixture-{}-{number}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let ping = place.join("ping");
        std::fs::write(&ping, PING).unwrap();
        let mut config = SlurmConfig::new(
            SiteName::new("there").unwrap(),
            place.join("root"),
            Resources::processors(100_000),
            vec![env!("CARGO_BIN_EXE_site-agent").into()],
        );
        config.slurm_conf = Some(conf.to_owned());
        config.ping = vec!["/bin/sh".into(), ping.display().to_string()];
        let fixture = Self { place, config, _turn: turn };
        let site = fixture.make();
        // The fixture is made outside of the test's own runtime.
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(site.initialise()).unwrap();
            });
            made.join().unwrap();
        });
        fixture
    }

    fn make(&self) -> SlurmSite {
        SlurmSite::new(self.config.clone(), Arc::new(ChildExec::of_this_process())).unwrap()
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
    /// A test that failed half-way leaves jobs behind; those below its root are its own.
    fn drop(&mut self) {
        let root = self.root().display().to_string();
        let listed = self.slurm(&["squeue", "-h", "-o", "%i %Z"]);
        let ours = listed.lines().filter_map(|line| line.split_once(' '));
        for (number, _) in ours.filter(|(_, directory)| *directory == root) {
            self.slurm(&["scancel", number]);
        }
        let _ = std::fs::remove_dir_all(&self.place);
    }
}
