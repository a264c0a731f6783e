//! Jobs at sites that are gone for good.

use std::path::Path;

use cospan_chaos_tests::test_environment::Layout;
use cospan_chaos_tests::webhook::Receiver;

use super::job_fixture::{Scene, scene, scene_with, until};

/// The server starts anew on this configuration.
fn restart_on(scene: &mut Scene, configuration: &str) {
    scene.server.kill().unwrap();
    std::fs::write(scene.environment.config(), configuration).unwrap();
    scene.server.start().unwrap();
}

/// A configuration without what speaks of a site.
fn without(configuration: &str, site: &str) -> String {
    let tables = configuration
        .split("\n[[")
        .filter(|table| !table.contains(&format!("\"{site}\"")));
    tables.collect::<Vec<_>>().join("\n[[")
}

#[test]
fn a_site_that_is_away_and_its_return_are_told_to_its_administrator() {
    let receiver = Receiver::start().unwrap();
    let mut scene = scene_with(Layout {
        sites: 2,
        processors: 2,
        notify: format!("webhooks = [{:?}]\n", receiver.address()),
        ..Layout::default()
    });
    let kinds = || {
        let told = receiver.received();
        let kinds = told
            .iter()
            .map(|notice| notice["kind"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    // A site where nothing runs is hardly asked.
    let marks = scene.environment.path().join("ran");
    scene.must(&["submit", &scene.job_file(&job(&marks))]);
    until("it runs", || scene.state_of(1) == "running");
    let root = scene.environment.sites[0].root.clone();
    let away = root.with_extension("away");
    std::fs::rename(&root, &away).unwrap();
    until("it is told to be away", || kinds() == ["unreachable"]);
    std::fs::rename(&away, &root).unwrap();
    until("its return is told", || {
        kinds() == ["unreachable", "answering"]
    });
    let told = receiver.received();
    assert_eq!(told[1]["text"], "site s1 answers again");
    scene.server.kill().unwrap();
}

fn job(marks: &Path) -> String {
    format!(
        r#"
        name = "once"
        wall_time = "10m"
        request = "fixed"
        rerunnable = false
        [[component]]
        name = "one"
        site = "s1"
        processors = 1
        executable = "/bin/sh"
        arguments = ["-c", "echo $$ >> {}; exec sleep 300"]
        "#,
        marks.display()
    )
}

#[test]
fn a_job_at_a_lost_site_is_given_up_on_request_and_ended_if_it_comes_back() {
    let mut scene = scene(2);
    let marks = scene.environment.path().join("ran");
    let configuration = std::fs::read_to_string(scene.environment.config()).unwrap();
    scene.must(&["submit", &scene.job_file(&job(&marks))]);
    until("it runs", || {
        scene.state_of(1) == "running" && marks.exists()
    });
    let ran = || std::fs::read_to_string(&marks).unwrap();
    let pid = ran().trim().to_owned();
    let lives = || Path::new("/proc").join(&pid).exists();

    restart_on(&mut scene, &without(&configuration, "s1"));
    let remedy = "cospan cancel --abandon 1";
    let gone = "component one may still run at s1, which is no longer in the configuration";
    for _ in 0..2 {
        let told = scene.must(&["cancel", "1"]);
        assert!(told.contains(gone) && told.contains(remedy), "{told}");
    }
    let told = scene.must(&["explain", "1"]);
    assert!(told.contains(gone) && told.contains(remedy), "{told}");
    let shown = scene.must(&["show", "1"]);
    assert!(
        shown.contains("component one to end at s1") && shown.contains(remedy),
        "{shown}"
    );
    assert_eq!(scene.state_of(1), "aborting");
    assert!(lives(), "nobody can end it");

    let there = scene.must(&["list", "--site", "s1"]);
    assert!(
        there.contains("aborting"),
        "a job's site is known although it is gone: {there}"
    );
    scene.must(&["cancel", "--abandon", "1"]);
    let waited = scene.cospan(&["wait", "1"]);
    assert_eq!(waited.status.code(), Some(5), "cancelled");
    assert!(scene.must(&["show", "1"]).contains("abandoned"));
    assert!(lives(), "nobody can end it");

    restart_on(&mut scene, &configuration);
    until("its site ends it", || !lives());
    assert_eq!(
        (scene.state_of(1).as_str(), ran().lines().count()),
        ("cancelled", 1),
        "it ran once"
    );
    scene.server.kill().unwrap();
}
