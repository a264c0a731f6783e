//! A server with sites of its own, and the commands that users give it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cospan_chaos_tests::server::{ServerProcess, serve_permission};
use cospan_chaos_tests::test_environment::{Layout, TestEnvironment};

/// Longest that anything is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Scene {
    pub(super) environment: TestEnvironment,
    pub(super) server: ServerProcess,
}

/// A server of so many sites with four processors each.
pub(super) fn scene(sites: usize) -> Scene {
    scene_with(Layout {
        sites,
        processors: 4,
        ..Layout::default()
    })
}

pub(super) fn scene_with(layout: Layout) -> Scene {
    scene_on(environment(&layout))
}

pub(super) fn environment(layout: &Layout) -> TestEnvironment {
    TestEnvironment::new(Path::new(env!("CARGO_TARGET_TMPDIR")), layout).unwrap()
}

pub(super) fn scene_on(environment: TestEnvironment) -> Scene {
    let mut server = ServerProcess::new(env!("CARGO_BIN_EXE_cospan").as_ref(), &environment);
    server.start().unwrap();
    let scene = Scene {
        environment,
        server,
    };
    until("all sites are usable", || {
        scene.get("/v1/sites")["sites"]
            .as_array()
            .unwrap()
            .iter()
            .all(is_usable)
    });
    scene
}

/// Waits until it is so.
pub(super) fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every one of these words is in it.
pub(super) fn has(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

fn is_usable(site: &serde_json::Value) -> bool {
    site["state"] == "usable"
}

impl Scene {
    pub(super) fn get(&self, path: &str) -> serde_json::Value {
        self.server.api().unwrap().get_expected(path).unwrap()
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
        command
            .arg("--config")
            .arg(self.environment.config())
            .args(arguments);
        command
            .env_clear()
            .env("HOME", self.environment.path())
            .envs(serve_permission());
        command
    }

    pub(super) fn cospan(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Refused with this exit code and these words.
    pub(super) fn refused(&self, arguments: &[&str], exit: i32, words: &[&str]) {
        let output = self.cospan(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        has(&said, words);
    }

    pub(super) fn must(&self, arguments: &[&str]) -> String {
        let output = self.cospan(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn state_of(&self, id: u64) -> String {
        self.get(&format!("/v1/jobs/{id}"))["phase"]["state"]
            .as_str()
            .unwrap()
            .into()
    }

    pub(super) fn job_file(&self, text: &str) -> String {
        self.file("job.toml", text)
    }

    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let file = self.environment.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Submits a job, and waits for it.
    pub(super) fn run(&self, text: &str) {
        self.must(&["submit", &self.job_file(text), "--wait"]);
    }
}
