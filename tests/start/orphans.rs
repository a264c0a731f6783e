//! What jobs hold at sites that a restored store does not know is given back soon.

use std::fs;

use super::lost_store::{copied, given_up, store};
use super::*;

/// What takes the place of the store in which the jobs were.
#[derive(Debug, Clone, Copy)]
enum Restored {
    Export,
    OlderCopy,
}

/// A minute, and what this machine takes for a start.
const SOON: Duration = Duration::from_secs(60);

/// Keeps what the store is now.
fn keep(
    restored: Restored,
    environment: &TestEnvironment,
    server: &mut ServerProcess,
    kept: &Path,
) {
    match restored {
        Restored::Export => {
            let exported = client(
                environment,
                &["store", "export", &kept.display().to_string()],
            );
            assert!(exported.status.success());
        }
        Restored::OlderCopy => {
            server.kill().unwrap();
            copied(&store(environment), kept);
            server.start().unwrap();
            until_sites_take_jobs(server);
        }
    }
}

/// Puts what was kept in the place of the store.
fn restore(restored: Restored, environment: &TestEnvironment, kept: &Path) {
    match restored {
        Restored::Export => {
            fs::rename(environment.data(), environment.path().join("data-before")).unwrap();
            let file = kept.display().to_string();
            let imported = with_config(environment, &[], &["store", "import", &file]);
            assert!(
                imported.status.success(),
                "{}",
                String::from_utf8_lossy(&imported.stderr)
            );
        }
        Restored::OlderCopy => {
            fs::remove_dir_all(store(environment)).unwrap();
            copied(kept, &store(environment));
            given_up(environment);
        }
    }
}

/// What is left of processors and of reservations at all sites.
fn held(environment: &TestEnvironment) -> Vec<String> {
    let mut held = Vec::new();
    for site in &environment.sites {
        let live = fs::read_dir(site.root.join("live")).unwrap();
        held.extend(live.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
        let leases = fs::read_to_string(site.root.join("leases.json")).unwrap_or_default();
        let leases: Value = serde_json::from_str(&leases).unwrap_or_else(|_| json!({}));
        held.extend(leases.as_object().unwrap().keys().cloned());
    }
    held
}

fn submit(environment: &TestEnvironment, name: &str, script: &str, more: &[&str]) {
    let component = |n: usize| {
        json!({
            "name": format!("c{n}"), "processors": 1,
            "executable": "/bin/sh", "arguments": ["-c", script],
        })
    };
    let job =
        json!({ "name": name, "wall_time": "10m", "component": [component(0), component(1)] });
    let file = environment.path().join(format!("{name}.json"));
    fs::write(&file, job.to_string()).unwrap();
    let file = file.display().to_string();
    let submitted = client(environment, &[&["submit", &file], more].concat());
    assert!(
        submitted.status.success(),
        "{}",
        String::from_utf8_lossy(&submitted.stderr)
    );
}

#[test]
fn what_jobs_hold_that_a_restored_store_does_not_know_is_given_back_within_a_minute() {
    for restored in [Restored::Export, Restored::OlderCopy] {
        let environment = environment();
        let mut server = server(&environment);
        server.start().unwrap();
        until_sites_take_jobs(&server);
        let kept = environment.path().join("kept");
        keep(restored, &environment, &mut server, &kept);
        submit(
            &environment,
            "promised",
            "true",
            &["--start", "in 1h", "--within", "1h"],
        );
        let began = environment.path().join("began");
        submit(
            &environment,
            "runs",
            &format!("touch {began:?}; exec sleep 600"),
            &[],
        );
        until("it runs", || began.exists());
        server.kill().unwrap();
        assert!(held(&environment).len() >= 3, "{:?}", held(&environment));

        restore(restored, &environment, &kept);
        server.start().unwrap();
        let begun = Instant::now();
        while !held(&environment).is_empty() {
            let left = held(&environment);
            assert!(
                begun.elapsed() < SOON,
                "{restored:?}: after a minute there is {left:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        println!("{restored:?}: given back after {:?}", begun.elapsed());
        until("all processors are seen to be idle", || {
            let sites = server.api().unwrap().get_expected("/v1/sites").unwrap();
            let sites = sites["sites"].as_array().unwrap();
            sites
                .iter()
                .all(|site| site["idle"]["processors"] == site["total"]["processors"])
        });
    }
}

#[test]
fn what_another_control_plane_left_at_a_site_is_not_touched() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    until_sites_take_jobs(&server);
    submit(
        &environment,
        "promised",
        "true",
        &["--start", "in 1h", "--within", "1h"],
    );
    server.kill().unwrap();
    let left = held(&environment);
    assert!(!left.is_empty());
    // Not an import of its store.
    fs::rename(environment.data(), environment.path().join("data-before")).unwrap();
    server.start().unwrap();
    until_sites_take_jobs(&server);
    let store = server.api().unwrap().get_expected("/v1/store").unwrap();
    server.kill().unwrap();
    // What it left itself for a job that it does not know is found by the same looks.
    environment
        .sites
        .iter()
        .for_each(|site| leave(&site.root, store["instance"].as_str().unwrap()));
    assert_eq!(
        held(&environment).len(),
        left.len() + environment.sites.len()
    );
    server.start().unwrap();
    until("what is its own is given back", || {
        held(&environment).len() <= left.len()
    });
    assert_eq!(held(&environment), left);
}

/// Has a control plane hold something at a site that is for none of its jobs.
fn leave(root: &Path, instance: &str) {
    let file = root.join("leases.json");
    let leases = fs::read_to_string(&file).unwrap_or_else(|_| "{}".into());
    let mut leases: Value = serde_json::from_str(&leases).unwrap();
    let from = 4_000_000_000_000_u64;
    let to = 4_000_000_060_000_u64;
    leases[format!("c{instance}-999-r1")] =
        json!({ "processors": 1, "from": from, "to": to, "earliest": from, "latest": from });
    fs::write(&file, leases.to_string()).unwrap();
}
