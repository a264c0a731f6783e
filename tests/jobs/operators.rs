//! What operators see at three in the morning: a site that is lost, a server that is dead, a
//! signal.

use std::io::{Read, Write};
use std::net::TcpStream;

use cospan_chaos_tests::api::{Api, ApiReply};
use cospan_chaos_tests::test_environment::Layout;

use super::job_fixture::{Scene, environment, has, scene, scene_on, scene_with, until};

fn log(scene: &Scene) -> String {
    std::fs::read_to_string(scene.environment.log()).unwrap()
}

fn metrics(scene: &Scene) -> String {
    let token = scene.environment.data().join("keys/admin.token");
    let token = std::fs::read_to_string(token).unwrap();
    let asked = ureq::get(format!(
        "http://127.0.0.1:{}/metrics",
        scene.environment.port()
    ));
    let asked = asked.header("Authorization", format!("Bearer {}", token.trim()));
    asked.call().unwrap().body_mut().read_to_string().unwrap()
}

#[test]
fn a_site_that_stops_answering_is_shown_long_before_it_is_given_up() {
    let watching = "unreachable_after = \"1h\"\npoll_interval = \"200ms\"\n";
    let mut scene = scene_with(Layout {
        sites: 2,
        watching: watching.into(),
        ..Layout::default()
    });
    let root = &scene.environment.sites[0].root;
    std::fs::rename(root, root.with_extension("away")).unwrap();
    // Nothing of ours is there: it is asked because somebody looks.
    until("the site is silent", || {
        scene.must(&["site", "list"]).contains("silent")
    });
    has(
        &scene.must(&["site", "show", "s1"]),
        &["silent", "has not answered since"],
    );
    has(
        &scene.must(&["doctor"]),
        &["s1 is silent: has not answered since"],
    );
    let shown = metrics(&scene);
    has(
        &shown,
        &["cospan_site_state{site=\"s1\",state=\"silent\"} 1"],
    );
    has(
        &shown,
        &["cospan_site_state{site=\"s2\",state=\"usable\"} 1"],
    );
    let said = log(&scene);
    let line = said
        .lines()
        .find(|line| line.contains("the site does not answer"));
    has(line.unwrap_or(&said), &["WARN", "site=s1", "error="]);
    std::fs::rename(root.with_extension("away"), root).unwrap();
    until("it is usable again", || {
        !scene.must(&["site", "list"]).contains("silent")
    });
    has(&log(&scene), &["the site answers again site=s1"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_site_where_something_else_is_in_the_place_of_what_is_ours_says_so_within_a_poll() {
    let watching = "unreachable_after = \"1h\"\npoll_interval = \"200ms\"\n";
    let mut scene = scene_with(Layout {
        sites: 2,
        watching: watching.into(),
        ..Layout::default()
    });
    let root = scene.environment.sites[0].root.clone();
    let closed = || scene.must(&["site", "list"]).contains("unreachable");
    for entry in ["attempts", "owner", "gone", "spool", "live"] {
        let path = root.join(entry);
        let away = root.join("away");
        std::fs::rename(&path, &away).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        let here = rustix::fs::CWD;
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(here, &path, pipe, mode, 0).unwrap();
        until("the site says so", closed);
        has(
            &scene.must(&["site", "show", "s1"]),
            &["a named pipe", entry, "put back"],
        );
        let job = scene.must(&["submit", "-n", "1", "--wall-time", "1m", "--", "/bin/true"]);
        let id = job
            .split_whitespace()
            .find(|word| word.parse::<u64>().is_ok())
            .unwrap();
        has(&scene.must(&["wait", id]), &[]);
        has(&scene.must(&["show", id]), &["s2"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        until("it is usable again", || !closed());
    }
    let metrics = metrics(&scene);
    has(
        &metrics,
        &["cospan_site_state{site=\"s1\",state=\"usable\"} 1"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_hangup_reads_the_keys_anew_and_ends_nothing() {
    let mut scene = scene(1);
    let hang_up = |scene: &Scene| {
        let pid = scene.server.pid().unwrap().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-HUP", &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    hang_up(&scene);
    until("it says so", || {
        log(&scene).contains("the configuration has not changed")
    });
    let file = scene.environment.config();
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace("[limits]", "[limits]\nmax_components = 7");
    std::fs::write(&file, changed).unwrap();
    hang_up(&scene);
    until("it says so", || {
        log(&scene).contains("restart the server to apply it")
    });
    std::fs::write(&file, format!("{text}\nnonsense = 1\n")).unwrap();
    hang_up(&scene);
    until("it says so", || {
        log(&scene).contains("the configuration has problems")
    });
    assert!(scene.server.exit_status().unwrap().is_none());
    has(&log(&scene), &["SIGHUP: keys reloaded"]);
    scene.server.kill().unwrap();
}

#[test]
fn of_a_dead_server_doctor_says_what_it_looked_at() {
    let mut scene = scene(1);
    scene.server.kill().unwrap();
    let output = scene.cospan(&["doctor"]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8(output.stdout).unwrap();
    has(
        &said,
        &[
            "no server runs with",
            "a server can open it",
            "cospan serve",
        ],
    );
    assert!(!said.contains("`cospan doctor` finds out more"), "{said}");
}

#[test]
fn a_key_works_as_soon_as_it_is_made() {
    let environment = environment(&Layout {
        sites: 1,
        ..Layout::default()
    });
    let file = environment.config();
    let text = std::fs::read_to_string(&file).unwrap();
    let rarely = text.replacen("[server]\n", "[server]\nkey_refresh = \"1h\"\n", 1);
    assert_ne!(text, rarely);
    std::fs::write(&file, rarely).unwrap();
    let mut scene = scene_on(environment);
    let token = scene.must(&["key", "add", "alice", "--role", "reader"]);
    let token = token
        .split_whitespace()
        .find(|word| word.starts_with("cospan_"))
        .unwrap();
    let alice = Api::new(scene.environment.port(), token.to_owned());
    assert!(matches!(alice.get("/v1/sites"), ApiReply::Answered(200, _)));
    scene.server.kill().unwrap();
}

#[test]
fn a_slip_in_a_path_or_a_site_is_told_with_what_is_near() {
    let mut scene = scene(2);
    scene.refused(
        &["file", "add", "mesh", "--site", "s1", "--path", "no/such"],
        3,
        &["C3001"],
    );
    let text = "wall_time = \"1m\"\n[[component]]\nname = \"one\"\nsite = \"s\"\n\
                processors = 1\nexecutable = \"/bin/true\"\n";
    let file = scene.job_file(&text.replace("\"s\"", "\"s12\""));
    scene.refused(
        &["submit", &file],
        3,
        &["site s12, which is not configured", "did you mean s1?"],
    );
    let wrong = text.replace("wall_time = \"1m\"", "wall_tim = \"1m\"\npolicy = \"best\"");
    let words = [
        "3 mistakes",
        "job.toml:1:1: wall_tim",
        "did you mean \"wall_time\"?",
        "policy \"best\"",
    ];
    scene.refused(&["submit", &scene.job_file(&wrong)], 2, &words);
    scene.server.kill().unwrap();
}

#[test]
fn room_on_the_disk_is_counted_and_a_hello_of_tls_is_no_error() {
    let mut scene = scene(1);
    has(
        &metrics(&scene),
        &[
            "cospan_data_directory_free_bytes ",
            "cospan_data_directory_size_bytes ",
        ],
    );
    let mut stream = TcpStream::connect(("127.0.0.1", scene.environment.port())).unwrap();
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 517][..]].concat();
    stream.write_all(&hello).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    until("it is counted", || {
        !metrics(&scene).contains("cospan_http_malformed_total 0")
    });
    assert!(!log(&scene).contains("ERROR"), "{}", log(&scene));
    scene.server.kill().unwrap();
}

#[test]
fn jobs_and_processors_of_each_owner_are_counted_while_they_run() {
    let mut scene = scene(1);
    let text = "wall_time = \"5m\"\n[[component]]\nname = \"one\"\nprocessors = 2\n\
                executable = \"/bin/sleep\"\narguments = [\"300\"]\n";
    scene.must(&["submit", &scene.job_file(text)]);
    let running = r#"cospan_owner_jobs{owner="admin",state="running"} 1"#;
    until("it runs", || metrics(&scene).contains(running));
    has(
        &metrics(&scene),
        &[
            r#"cospan_owner_jobs{owner="admin",state="waiting"} 0"#,
            r#"cospan_owner_processors{owner="admin"} 2"#,
        ],
    );
    scene.must(&["cancel", "1"]);
    until("it is counted no more", || {
        !metrics(&scene).contains("cospan_owner_jobs{")
    });
    scene.server.kill().unwrap();
}
