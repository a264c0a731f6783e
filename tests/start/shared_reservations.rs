//! Reservations that belong to no job, on real sites: jobs that name them run within.

use std::path::Path;
use std::process::Output;

use cospan_chaos_tests::server::ServerProcess;
use cospan_chaos_tests::test_environment::TestEnvironment;
use serde_json::{Value, json};

use super::{client, environment, server, until, until_it_is, until_sites_take_jobs};

/// A file with a job that sleeps until it is let go, if it is not short.
fn job_file(environment: &TestEnvironment, name: &str, more: Value) -> String {
    let mut job = json!({
        "name": name, "wall_time": "1m",
        "component": [{ "name": "c", "processors": 2, "executable": "/bin/sh",
            "arguments": ["-c", "true"] }],
    });
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    let file = environment.path().join(format!("{name}.json"));
    std::fs::write(&file, job.to_string()).unwrap();
    file.display().to_string()
}

fn said(output: &Output) -> String {
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    said.concat()
}

fn ask(environment: &TestEnvironment, words: &str) -> Output {
    client(environment, &words.split(' ').collect::<Vec<_>>())
}

fn shared(server: &ServerProcess) -> Value {
    server
        .api()
        .unwrap()
        .get_expected("/v1/shared-reservations/course")
        .unwrap()
}

/// The reservations that a site holds, as it keeps them.
fn held(root: &Path) -> Value {
    let text = std::fs::read_to_string(root.join("leases.json"));
    text.map_or(json!({}), |text| serde_json::from_str(&text).unwrap())
}

#[test]
fn jobs_run_within_a_reservation_that_others_cannot_use_across_a_kill() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let site = &environment.sites[0].name;
    let root = &*environment.sites[0].root;
    let create = format!("reservation create course --site {site} -n 2 --for 30m");
    let create = create.replace("-n 2", "--processors 2 --start now");
    let created = ask(&environment, &create);
    assert!(created.status.success(), "{}", said(&created));
    assert_eq!(held(root).as_object().unwrap().len(), 1, "{}", held(root));
    until("its processors do not count as idle", || {
        let sites = server.api().unwrap().get_expected("/v1/sites").unwrap();
        sites["sites"][0]["idle"]["processors"] == 0
    });
    let twice = ask(&environment, &create);
    assert_eq!(twice.status.code(), Some(3), "{}", said(&twice));

    server.kill().unwrap();
    server.start().unwrap();
    assert_eq!(shared(&server)["state"], "confirmed");
    // All of that site is reserved: whoever names no reservation goes to the other one.
    let within = json!({ "reservation": { "use": "course" } });
    let file = job_file(&environment, "within", within);
    for _ in 0..2 {
        let submitted = client(&environment, &["submit", &file]);
        assert!(submitted.status.success(), "{}", said(&submitted));
    }
    for id in [1, 2] {
        until_it_is(&server, id, "finished");
        let job = server
            .api()
            .unwrap()
            .get_expected(&format!("/v1/jobs/{id}"))
            .unwrap();
        assert_eq!(job["components"][0]["site"], json!(site), "{job}");
    }
    let pinned = job_file(&environment, "outside", json!({}));
    assert!(client(&environment, &["submit", &pinned]).status.success());
    until_it_is(&server, 3, "finished");
    let job = server.api().unwrap().get_expected("/v1/jobs/3").unwrap();
    assert_ne!(job["components"][0]["site"], json!(site), "{job}");

    let before = shared(&server)["until"].clone();
    let extended = ask(&environment, "reservation extend course --for 30m");
    assert!(extended.status.success(), "{}", said(&extended));
    assert_ne!(shared(&server)["until"], before);
    let listed = said(&ask(&environment, "reservation list"));
    assert!(
        listed.contains("course") && listed.contains("confirmed"),
        "{listed}"
    );
    let cancelled = ask(&environment, "reservation cancel course");
    assert!(
        said(&cancelled).contains("processor-hours"),
        "{}",
        said(&cancelled)
    );
    until("it is given back", || held(root) == json!({}));
    assert_eq!(shared(&server)["state"], "cancelled");
}

#[test]
fn a_job_begins_no_earlier_than_the_reservation_that_it_shares() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let site = &environment.sites[0].name;
    let words = format!("reservation create course --site {site}=2 --for 30m --start");
    let words: Vec<&str> = words.split(' ').chain(["in 5s"]).collect();
    assert!(client(&environment, &words).status.success());
    let began = environment.path().join("began");
    let arguments = json!(["-c", format!("date +%s%3N > '{}'", began.display())]);
    let file = job_file(
        &environment,
        "within",
        json!({ "reservation": { "use": "course" },
            "component": [{ "name": "c", "processors": 1, "executable": "/bin/sh",
                "arguments": arguments }] }),
    );
    let submitted = client(&environment, &["submit", &file]);
    assert!(submitted.status.success(), "{}", said(&submitted));
    until_it_is(&server, 1, "finished");
    let from: jiff::Timestamp = shared(&server)["start"].as_str().unwrap().parse().unwrap();
    let began: i64 = std::fs::read_to_string(began)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(
        began >= from.as_millisecond(),
        "{began} {}",
        shared(&server)
    );
}

/// What is said of a job that has failed.
fn why(server: &ServerProcess, id: u64) -> String {
    let job = server
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{id}"))
        .unwrap();
    job["phase"].to_string()
}

#[test]
fn a_job_runs_at_two_sites_in_what_they_reserve_together_across_a_kill() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let sites = [0, 1].map(|index| &environment.sites[index]);
    let one = &sites[0].name;
    let other = &sites[1].name;
    let created = ask(
        &environment,
        &format!("reservation create course --site {one}=2 {other}=2 --for 30m --allow somebody"),
    );
    assert!(created.status.success(), "{}", said(&created));
    server.kill().unwrap();
    server.start().unwrap();
    let report = shared(&server);
    assert_eq!(
        (&report["state"], &report["processors"]),
        (&json!("confirmed"), &json!(4))
    );
    assert_eq!(report["parts"].as_array().unwrap().len(), 2, "{report}");
    for site in sites {
        assert_eq!(
            held(&site.root).as_object().unwrap().len(),
            1,
            "{}",
            held(&site.root)
        );
    }
    // It is for somebody else, until it is for everybody.
    let component = |name: &str| {
        json!({ "name": name, "processors": 2,
        "executable": "/bin/sh", "arguments": ["-c", "true"] })
    };
    let together = json!({
        "reservation": { "use": "course" }, "component": [component("a"), component("b")],
    });
    let file = job_file(&environment, "together", together);
    let refused = client(&environment, &["submit", &file]);
    assert!(
        said(&refused).contains("is not for key"),
        "{}",
        said(&refused)
    );
    let allowed = ask(&environment, "reservation allow course --everybody");
    assert!(allowed.status.success(), "{}", said(&allowed));
    let submitted = client(&environment, &["submit", &file]);
    assert!(submitted.status.success(), "{}", said(&submitted));
    until_it_is(&server, 1, "finished");
    let job = server.api().unwrap().get_expected("/v1/jobs/1").unwrap();
    let placed: Vec<&Value> = [0, 1].map(|index| &job["components"][index]["site"]).into();
    assert!(
        placed.contains(&&json!(one)) && placed.contains(&&json!(other)),
        "{job}"
    );

    let before = shared(&server)["until"].clone();
    let extended = ask(&environment, "reservation extend course --for 30m");
    assert!(extended.status.success(), "{}", said(&extended));
    assert_ne!(shared(&server)["until"], before);
    let cancelled = ask(&environment, "reservation cancel course");
    assert!(cancelled.status.success(), "{}", said(&cancelled));
    until("all is given back", || {
        sites.iter().all(|site| held(&site.root) == json!({}))
    });
}

#[test]
fn a_job_that_waits_fails_when_its_reservation_is_for_others_from_then_on() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let site = &environment.sites[0].name;
    let words = format!("reservation create course --site {site} --processors 2 --for 30m --start");
    let words: Vec<&str> = words.split(' ').chain(["in 1h"]).collect();
    let created = client(&environment, &words);
    assert!(created.status.success(), "{}", said(&created));
    let file = job_file(
        &environment,
        "waits",
        json!({ "reservation": { "use": "course" } }),
    );
    assert!(client(&environment, &["submit", &file]).status.success());
    let open = ask(&environment, "reservation allow course --add somebody");
    assert_eq!(open.status.code(), Some(3), "{}", said(&open));
    let allowed = ask(&environment, "reservation allow course --only somebody");
    assert!(said(&allowed).contains("somebody"), "{}", said(&allowed));
    until("it has failed", || why(&server, 1).contains("failed"));
    assert!(
        why(&server, 1).contains("is not for its key"),
        "{}",
        why(&server, 1)
    );
}

#[test]
fn a_job_that_cannot_run_within_its_reservation_is_refused_with_the_reason() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let site = &environment.sites[0].name;
    let create =
        format!("reservation create course --site {site} --processors 1 --for 30m --start in@1h");
    let words: Vec<String> = create
        .split(' ')
        .map(|word| word.replace('@', " "))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let created = client(&environment, &words);
    assert!(created.status.success(), "{}", said(&created));
    let theirs = [
        &words[..2],
        &["theirs"],
        &words[3..],
        &["--allow", "somebody"],
    ]
    .concat();
    let created = client(&environment, &theirs);
    assert!(created.status.success(), "{}", said(&created));
    let component = |processors: u32| json!([{ "name": "c", "processors": processors, "executable": "/bin/true" }]);
    let within = |name: &str| json!({ "use": name });
    for (why, job) in [
        (
            "there is no reservation nowhere",
            json!({ "reservation": within("nowhere") }),
        ),
        (
            "is not for key",
            json!({ "reservation": within("theirs"), "component": component(1) }),
        ),
        (
            "needs 2 processors, has 1",
            json!({ "reservation": within("course") }),
        ),
        (
            "its wall time is 1h",
            json!({ "reservation": within("course"), "component": component(1), "wall_time": "1h" }),
        ),
        (
            "reservation.use",
            json!({ "reservation": { "use": "course", "earliest": "now" } }),
        ),
    ] {
        let refused = client(
            &environment,
            &["submit", &job_file(&environment, "no", job)],
        );
        assert!(
            !refused.status.success() && said(&refused).contains(why),
            "{why}: {}",
            said(&refused)
        );
    }
    // One that waits for it fails when it is given back.
    let waits = json!({ "component": component(1) });
    let waits = job_file(&environment, "waits", waits);
    let submitted = client(&environment, &["submit", &waits, "--reservation", "course"]);
    assert!(submitted.status.success(), "{}", said(&submitted));
    until_it_is(&server, 1, "queued");
    let cancelled = ask(&environment, "reservation cancel course");
    assert!(cancelled.status.success(), "{}", said(&cancelled));
    let state =
        || server.api().unwrap().get_expected("/v1/jobs/1").unwrap()["phase"]["state"].clone();
    until("it has failed", || state() == "failed");
}
