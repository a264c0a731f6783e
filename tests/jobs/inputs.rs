//! Inputs that change after they were registered.

use std::fs;

use super::job_fixture::{has, scene};

const READS: &str = r#"
wall_time = "1m"
[[component]]
name = "only"
processors = 1
executable = "/bin/sh"
arguments = ["-c", "cat mesh"]
input = [{ file = "mesh", path = "mesh" }]
"#;

#[test]
fn an_input_that_changed_in_place_is_refused_until_it_is_registered_anew() {
    let mut scene = scene(1);
    let files = scene.environment.sites[0].root.join("files");
    fs::create_dir_all(&files).unwrap();
    let mesh = files.join("mesh");
    fs::write(&mesh, "old\n").unwrap();
    let add = ["file", "add", "mesh", "--site", "s1", "--path", "mesh"];
    scene.must(&add);
    scene.run(READS);
    assert_eq!(scene.must(&["logs", "1"]), "old\n");

    // The copy that the first job used is there still, and of the same size.
    fs::write(&mesh, "new\n").unwrap();
    let job = scene.job_file(READS);
    let told = [
        "file mesh is not what was registered",
        "changed at s1",
        "--path mesh --replace",
    ];
    scene.refused(&["submit", &job], 3, &told);
    // What was accepted before is the same submission still.
    let again = ["submit", &job, "--idempotency-key", "k"];
    scene.refused(&again, 3, &told);

    scene.refused(
        &add,
        3,
        &["the name stands for other content", "replace it: --replace"],
    );
    scene.must(&[&add[..], &["--replace"]].concat());
    scene.must(&again);
    scene.must(&["wait", "2"]);
    assert_eq!(scene.must(&["logs", "2"]), "new\n");
    fs::write(&mesh, "newer\n").unwrap();
    has(&scene.must(&again), &["job 2 already submitted"]);
    scene.refused(&["submit", &job], 3, &told);

    // Written again as it was, it is what was registered.
    fs::write(&mesh, "new\n").unwrap();
    scene.run(READS);
    assert_eq!(scene.must(&["logs", "3"]), "new\n");
    scene.server.kill().unwrap();
}
