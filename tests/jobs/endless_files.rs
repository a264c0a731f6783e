//! Files that take hours to read, and who waits for them: only their owner, and only while somebody
//! wants to know what they are.

use std::os::unix::ffi::OsStrExt;
use std::process::{Output, Stdio};

use super::job_fixture::{Scene, has, scene, until};

/// A file without bytes on the disk, and with more to read than a day is long for.
const LENGTH: u64 = 8 << 40;

fn leaving(number: usize, makes: &str) -> String {
    format!(
        r#"
wall_time = "1m"
[[component]]
name = "one"
site = "s1"
processors = 1
executable = "/bin/sh"
arguments = ["-c", "{makes}"]
output = [{{ path = "t", site = "s2", register = "m/sp{number}" }}]
"#
    )
}

/// Counts the processes that find out what files of the scene are.
fn inspecting_agents(scene: &Scene) -> usize {
    let place = scene.environment.path().as_os_str().as_bytes();
    let commands = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let command = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let mut words = command.split(|byte| *byte == 0);
        let inspects = words.by_ref().any(|word| word == b"inspect");
        Some(inspects && words.any(|word| word.starts_with(place)))
    });
    commands.filter(|is_one| *is_one).count()
}

struct OtherUser<'a> {
    scene: &'a Scene,
    token: String,
}

impl<'a> OtherUser<'a> {
    fn add(scene: &'a Scene, name: &str) -> Self {
        let token = scene.must(&["key", "add", name]).trim().to_owned();
        let user = Self { scene, token };
        until("the server knows the key", || {
            user.run(&["list"]).status.success()
        });
        user
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.scene.command(arguments);
        command.env("COSPAN_TOKEN", &self.token).output().unwrap()
    }

    fn must(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn endless_outputs_of_one_key_keep_no_other_waiting_and_are_left_when_it_cancels() {
    let mut scene = scene(2);
    let makes = format!("truncate -s {LENGTH} t");
    for number in 1..=4 {
        scene.must(&["submit", &scene.job_file(&leaving(number, &makes))]);
    }
    until("all that its turns allow is read", || {
        (1..=4).all(|job| scene.state_of(job) == "collecting") && inspecting_agents(&scene) == 2
    });
    until("it is told what is read, and what waits", || {
        let told: Vec<String> = (1..=4)
            .map(|job: u64| scene.must(&["explain", &job.to_string()]))
            .collect();
        let with = |words: &str| told.iter().filter(|told| told.contains(words)).count();
        with("is being read at s1, ") == 2
            && with("of 8.8 TB so far") == 2
            && with("output t of component one waits for its owner's turn to be read at s1") == 2
    });
    let otto = OtherUser::add(&scene, "otto");
    let small = scene.file("small", &"x".repeat(4096));
    otto.must(&["file", "upload", &small, "--site", "s1"]);
    let job = leaving(5, "echo 42 > t");
    otto.must(&["submit", &scene.job_file(&job), "--wait"]);
    has(
        &scene.get("/v1/files/m/sp5").to_string(),
        &["\"owner\":\"otto\""],
    );
    assert_eq!(inspecting_agents(&scene), 2, "the others are still read");
    scene.must(&["cancel", "1-4"]);
    until("nothing is read that nobody wants", || {
        inspecting_agents(&scene) == 0
    });
    scene.server.kill().unwrap();
}

#[test]
fn a_file_is_read_no_longer_than_its_client_waits_and_the_server_lives() {
    let mut scene = scene(1);
    let files = scene.environment.sites[0].root.join("files");
    std::fs::create_dir_all(&files).unwrap();
    let file = std::fs::File::create(files.join("t")).unwrap();
    file.set_len(LENGTH).unwrap();
    let add = ["file", "add", "huge", "--site", "s1", "--path", "t"];
    let mut adding = scene.command(&add);
    adding.stderr(Stdio::null());
    let mut client = adding.spawn().unwrap();
    until("it is read", || inspecting_agents(&scene) == 1);
    client.kill().unwrap();
    client.wait().unwrap();
    until("its client is gone", || inspecting_agents(&scene) == 0);
    let mut client = adding.spawn().unwrap();
    until("it is read again", || inspecting_agents(&scene) == 1);
    scene.server.kill().unwrap();
    until("the server is gone", || inspecting_agents(&scene) == 0);
    client.kill().unwrap();
    client.wait().unwrap();
}
