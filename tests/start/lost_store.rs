//! A store that is gone, cut, or an older copy: the server ends, or does not start, and says
//! what is missing; and goes on once that was accepted.

use std::fs;

use super::*;

fn job(number: usize) -> Value {
    let component = json!({ "name": "only", "processors": 1, "executable": "/bin/true" });
    json!({ "name": format!("job {number}"), "wall_time": "1m", "component": [component] })
}

/// Has jobs accepted, and gives back the highest id.
fn accepted(server: &ServerProcess, count: usize) -> u64 {
    let jobs: Vec<Value> = (0..count).map(job).collect();
    let answer = server
        .api()
        .unwrap()
        .post_expected("/v1/jobs", &json!(jobs))
        .unwrap();
    answer["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_u64().unwrap())
        .max()
        .unwrap()
}

pub(super) fn store(environment: &TestEnvironment) -> PathBuf {
    environment.data().join("store")
}

pub(super) fn copied(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(copied.success());
}

/// What the program says when it gives up what is missing.
pub(super) fn given_up(environment: &TestEnvironment) -> String {
    let output = with_config(environment, &[], &["store", "accept-loss"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// Refused at each door with what is missing, until that is given up; then no id comes again.
fn is_refused_until_its_loss_is_accepted(environment: &TestEnvironment, highest: u64) {
    let words = [
        "had reached unit",
        "store.floor",
        "restore a copy",
        "`cospan store accept-loss`",
    ];
    let serve = with_config(environment, &[], &["serve"]);
    refused(&serve, &words);
    assert_eq!(
        serve.status.code(),
        Some(2),
        "the service manager does not try again"
    );
    refused(&with_config(environment, &[], &["store", "check"]), &words);
    let said = given_up(environment);
    assert!(
        said.contains("missing are") && said.contains("given up"),
        "{said}"
    );
    assert!(given_up(environment).contains("nothing is missing"));
    let mut server = server(environment);
    server.start().unwrap();
    let next = accepted(&server, 1);
    assert!(next > highest, "job {next} was given out before: {highest}");
    server.kill().unwrap();
    server.start().unwrap();
}

#[test]
fn a_server_whose_store_vanishes_ends_and_its_start_is_refused() {
    for moved in [false, true] {
        let environment = environment();
        let mut server = server(&environment);
        server.start().unwrap();
        let highest = accepted(&server, 5);
        let store = store(&environment);
        if moved {
            fs::rename(&store, environment.path().join("away")).unwrap();
        } else {
            fs::remove_dir_all(&store).unwrap();
        }
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = server.exit_status().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it serves without a store");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(70));
        let log = fs::read_to_string(environment.log()).unwrap();
        assert!(
            log.contains("it was removed, moved, or replaced by another"),
            "{log}"
        );
        refused(
            &with_config(&environment, &[], &["serve"]),
            &["is not there"],
        );
        assert!(
            !store.exists(),
            "nothing is in the way of whoever brings it back"
        );
        if moved {
            fs::rename(environment.path().join("away"), &store).unwrap();
            server.start().unwrap();
            server
                .api()
                .unwrap()
                .get_expected(&format!("/v1/jobs/{highest}"))
                .unwrap();
            continue;
        }
        is_refused_until_its_loss_is_accepted(&environment, highest);
    }
}

#[test]
fn an_older_copy_in_the_stores_place_is_refused_until_its_loss_is_accepted() {
    // Made at rest or in use; put back after a stop in peace or a kill.
    for (at_rest, in_peace) in [(true, true), (true, false), (false, true), (false, false)] {
        let environment = environment();
        let store = store(&environment);
        let copy = environment.path().join("copy");
        let mut server = server(&environment);
        server.start().unwrap();
        accepted(&server, 3);
        if at_rest {
            stop(&mut server);
        }
        copied(&store, &copy);
        if at_rest {
            server.start().unwrap();
        }
        let highest = accepted(&server, 50);
        if in_peace {
            stop(&mut server);
        } else {
            server.kill().unwrap();
        }
        fs::remove_dir_all(&store).unwrap();
        copied(&copy, &store);
        is_refused_until_its_loss_is_accepted(&environment, highest);
    }
}

#[test]
fn a_store_cut_to_four_fifths_after_a_kill_is_refused() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let highest = accepted(&server, 100);
    server.kill().unwrap();
    let db = store(&environment).join("db");
    let bytes = fs::read(&db).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    fs::write(&db, &bytes[..used * 4 / 5]).unwrap();
    is_refused_until_its_loss_is_accepted(&environment, highest);
}

#[test]
fn an_export_takes_the_place_of_a_store_that_is_gone() {
    let environment = environment();
    let mut server = server(&environment);
    server.start().unwrap();
    let kept = accepted(&server, 3);
    let file = environment.path().join("export").display().to_string();
    assert!(
        client(&environment, &["store", "export", &file])
            .status
            .success()
    );
    let highest = accepted(&server, 200);
    server.kill().unwrap();
    fs::remove_dir_all(store(&environment)).unwrap();
    let imported = with_config(&environment, &[], &["store", "import", &file]);
    assert!(
        imported.status.success(),
        "{}",
        String::from_utf8_lossy(&imported.stderr)
    );
    server.start().unwrap();
    server
        .api()
        .unwrap()
        .get_expected(&format!("/v1/jobs/{kept}"))
        .unwrap();
    assert!(accepted(&server, 1) > highest, "an id was given out twice");
}
