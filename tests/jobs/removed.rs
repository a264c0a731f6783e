//! A key that is removed, or lowered, while a real server follows a job for it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::job_fixture::{Scene, scene, until};

/// From the change of a key on, nothing goes on for longer.
const SOON: Duration = Duration::from_secs(1);

/// A key of this role; its token.
fn key(scene: &Scene, name: &str, role: &str) -> String {
    let said = scene.must(&["key", "add", name, "--role", role, "-o", "json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    said["token"].as_str().unwrap().to_owned()
}

/// A request that goes on, of which some has come.
fn following(scene: &Scene, token: &str, path: &str, wanted: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", scene.environment.port())).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut read = String::new();
    while !read.contains(wanted) {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{path}: {read}");
        read.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    stream
}

#[test]
fn what_a_key_follows_ends_within_a_second_of_its_removal_or_lowering() {
    let scene = scene(1);
    let file = scene.job_file(
        "wall_time = \"10m\"\n[[component]]\nname = \"a\"\nprocessors = 1\n\
         executable = \"/bin/sh\"\narguments = [\"-c\", \"echo begun; sleep 300\"]\n",
    );
    scene.must(&["submit", &file]);
    until("it prints", || {
        scene.cospan(&["logs", "1"]).stdout.starts_with(b"begun")
    });
    let log = "/v1/jobs/1/logs/a/stdout?follow=true";
    for change in [
        &["key", "remove", "anna"][..],
        &["key", "grant", "anna", "--role", "user"],
    ] {
        let token = key(&scene, "anna", "administrator");
        let mut streams = [
            following(&scene, &token, log, "begun"),
            following(&scene, &token, "/v1/events", "hello"),
        ];
        let mut follow = scene.command(&["logs", "1", "-f"]);
        follow
            .env("COSPAN_TOKEN", &token)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut follow = follow.spawn().unwrap();
        let mut first = [0; 5];
        follow
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
        scene.must(change);
        let changed = Instant::now();
        for stream in &mut streams {
            // Broken off is an end as well.
            let _ = stream.read_to_end(&mut Vec::new());
            assert!(
                changed.elapsed() < SOON,
                "{change:?}: after {:?}",
                changed.elapsed()
            );
        }
        let ended = follow.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(3), "{change:?}: {said}");
    }
    scene.must(&["key", "remove", "anna"]);
    scene.must(&["cancel", "1"]);
}
