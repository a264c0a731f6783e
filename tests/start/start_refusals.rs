//! What a server does not start on: each is named, with what to do about it.

use super::*;

#[test]
fn two_servers_on_one_store_the_second_is_refused_and_the_first_goes_on() {
    let environment = environment();
    let mut first = server(&environment);
    first.start().unwrap();
    let second = with_config(
        &environment,
        &[(&port(&environment), "127.0.0.1:0")],
        &["serve"],
    );
    refused(
        &second,
        &["store", "in use", "stop that one", "another data directory"],
    );
    let api = first.api().unwrap();
    assert_eq!(api.get_expected("/v1/jobs").unwrap()["jobs"], json!([]));
}

#[test]
fn of_two_servers_with_one_sites_directory_the_second_goes_without_it_until_the_first_has_ended() {
    let one = environment();
    let other = environment();
    let mut first = server(&one);
    first.start().unwrap();
    let store = first.api().unwrap().get_expected("/v1/store").unwrap();
    let owner = store["instance"].as_str().unwrap();
    let [place, own] = [&one, &other].map(|one| one.sites[0].root.display().to_string());
    let text = std::fs::read_to_string(other.config()).unwrap();
    std::fs::write(other.config(), text.replace(&own, &place)).unwrap();
    let mut second = server(&other);
    second.start().unwrap();
    let words = [
        &*place,
        "is in use by control plane",
        owner,
        "on host",
        "stop the other",
        "root of its own",
    ];
    until_site_tells(&second, "s1", "unreachable", &words);
    // One cannot tell a server from what a payload left: the other sites go on.
    until_site_tells(&second, "s2", "usable", &[]);
    until_site_tells(&first, "s1", "usable", &[]);
    first.kill().unwrap();
    until_site_tells(&second, "s1", "usable", &[]);
    first.start().unwrap();
    until_site_tells(&first, "s1", "unreachable", &["is in use by control plane"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let environment = environment();
    let taken = std::net::TcpListener::bind(port(&environment)).unwrap();
    refused(
        &with_config(&environment, &[], &["serve"]),
        &[
            &port(&environment),
            "in use",
            "stop the other server",
            "choose another address",
        ],
    );
    drop(taken);
    assert!(
        !environment.data().join("store").exists(),
        "nothing was made"
    );
}

#[test]
fn a_data_directory_that_is_a_file_and_a_store_that_is_a_file_are_named() {
    let environment = environment();
    std::fs::write(environment.data(), "").unwrap();
    let data = environment.data().display().to_string();
    let remedy = "move it away, or set server.data_directory";
    refused(
        &with_config(&environment, &[], &["serve"]),
        &[&data, remedy],
    );
    std::fs::remove_file(environment.data()).unwrap();
    std::fs::create_dir(environment.data()).unwrap();
    std::fs::write(environment.data().join("store"), "").unwrap();
    let words = [
        "store cannot hold a store",
        "it is not a directory",
        "name a directory",
    ];
    refused(&with_config(&environment, &[], &["serve"]), &words);
}

#[test]
fn serve_and_doctor_refuse_a_data_directory_that_somebody_else_can_change() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let environment = environment();
    let data = environment.data();
    let told = |words: &[&str]| {
        refused(&with_config(&environment, &[], &["serve"]), words);
        let doctor = with_config(&environment, &[], &["doctor"]);
        let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
    told(&[
        "others can change",
        "mode 777",
        &format!("chmod 700 {}", data.display()),
    ]);
    assert_eq!(
        std::fs::read_dir(&data).unwrap().count(),
        0,
        "nothing was made"
    );
    let real = environment.path().join("real");
    std::fs::rename(&data, &real).unwrap();
    symlink(&real, &data).unwrap();
    told(&[
        "is a symbolic link to",
        &format!("set server.data_directory to {}", real.display()),
    ]);
}

#[test]
fn serve_and_doctor_refuse_a_newer_store_and_say_what_to_do() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    stop(&mut server);
    let marker = environment.data().join("store/cospan-store.json");
    let text = std::fs::read_to_string(&marker).unwrap();
    let newer = text.replace("\"cospan_store\":2,", "\"cospan_store\":3,");
    assert_ne!(newer, text);
    std::fs::write(&marker, newer).unwrap();
    let words = [
        "a newer version (format 3",
        "start that version",
        "export with it",
    ];
    refused(&with_config(&environment, &[], &["serve"]), &words);
    let doctor = with_config(&environment, &[], &["doctor"]);
    let told = String::from_utf8_lossy(&doctor.stdout);
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    assert_eq!(
        doctor.status.code(),
        Some(4),
        "the server is not up: {told}"
    );
}

#[test]
fn a_data_directory_in_memory_is_warned_of_at_start() {
    let environment = environment();
    let data = format!("data_directory = {:?}", environment.data());
    let memory = "data_directory = \"/dev/shm/cospan-test-never-made\"";
    // The start ends at the port, before anything is made.
    let _taken = std::net::TcpListener::bind(port(&environment)).unwrap();
    let warning = "is in memory: a power cut would lose everything";
    refused(
        &with_config(&environment, &[(&data, memory)], &["serve"]),
        &[warning, "in use"],
    );
    let said = with_config(&environment, &[], &["serve"]).stderr;
    assert!(
        !String::from_utf8_lossy(&said).contains("memory"),
        "on a disk all is well"
    );
}

#[test]
fn what_is_no_request_is_counted_and_fills_no_log() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    const COUNT: usize = 200;
    for number in 0..COUNT {
        let mut stream = TcpStream::connect(port(&environment)).unwrap();
        stream
            .write_all(format!("NO HTTP {number}\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    let token = std::fs::read_to_string(environment.data().join("keys/admin.token")).unwrap();
    let counted = || {
        let request = ureq::get(format!("http://{}/metrics", port(&environment)));
        let answer = request
            .header("Authorization", format!("Bearer {}", token.trim()))
            .call();
        let text = answer.unwrap().body_mut().read_to_string().unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("cospan_http_malformed_total "));
        line.unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let begun = Instant::now();
    let mut last = 0.0;
    while last < COUNT as f64 {
        last = counted();
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "only {last} were counted"
        );
    }
    let log = std::fs::read_to_string(environment.log()).unwrap();
    assert!(
        !log.contains("stream error") && !log.contains("ERROR"),
        "{log}"
    );
}
