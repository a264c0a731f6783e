//! A user with an empty directory and this program, and nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cospan_chaos_tests::server::serve_permission;
use tempfile::TempDir;

pub(super) struct Newcomer {
    home: TempDir,
}

impl Newcomer {
    /// On a disk: a temporary directory of the system may be in memory.
    pub(super) fn new() -> Self {
        Self {
            home: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
        }
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A program in an environment of its own, which finds this one. Servers take free ports:
    /// somebody else may use the usual one.
    pub(super) fn command(&self, program: &str) -> Command {
        let binaries = Path::new(env!("CARGO_BIN_EXE_cospan")).parent().unwrap();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", format!("{}:/usr/bin:/bin", binaries.display()))
            .env("COSPAN_LISTEN", "127.0.0.1:0")
            .envs(serve_permission())
            .stdin(Stdio::null())
            .current_dir(self.home());
        command
    }

    /// Pastes it into a shell that stops at the first line that fails.
    pub(super) fn paste(&self, block: &str) -> Output {
        self.command("bash")
            .args(["-e", "-o", "pipefail", "-c", block])
            .output()
            .unwrap()
    }

    /// The same, for what has to go well; all that was said.
    pub(super) fn must(&self, block: &str) -> String {
        let output = self.paste(block);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(
            output.status.success(),
            "{}\n{block}\n{said}",
            output.status
        );
        said
    }

    fn configurations(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home())
            .into_iter()
            .flatten()
            .flatten();
        let folders = entries
            .map(|entry| entry.path())
            .chain([self.home().to_owned()]);
        folders
            .map(|folder| folder.join("cospan.toml"))
            .filter(|file| file.exists())
            .collect()
    }
}

/// No server stays behind, however a test ends.
impl Drop for Newcomer {
    fn drop(&mut self) {
        for file in self.configurations() {
            let _ = self
                .command("cospan")
                .arg("--config")
                .arg(file)
                .arg("stop")
                .output();
        }
    }
}
