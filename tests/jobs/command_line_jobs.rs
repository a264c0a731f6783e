//! Jobs without a file: what stands behind `--`.

use crate::job_fixture::{has, scene};

#[test]
fn a_command_behind_two_dashes_is_a_job() {
    let scene = scene(2);
    let line = "submit -n 2 --components 2 --name pair --env GREETING=hello --result said.txt \
                --wall-time 5m --wait -- sh -c";
    let script = "echo $GREETING from $COSPAN_RANK of $COSPAN_SIZE | tee said.txt";
    let words: Vec<&str> = line
        .split(' ')
        .filter(|word| !word.is_empty())
        .chain([script])
        .collect();
    scene.must(&words);
    has(
        &scene.must(&["logs", "last"]),
        &["hello from 0 of 2", "hello from 1 of 2"],
    );
    let job = scene.get("/v1/jobs/1");
    assert_eq!(job["document"]["name"], "pair");
    assert_eq!(job["document"]["component"][0]["name"], "part-1");
    assert_eq!(job["document"]["component"][1]["processors"], 2);
    let to = scene.environment.path().join("results");
    scene.must(&["output", "last", "--to", to.to_str().unwrap()]);
    let said = std::fs::read_to_string(to.join("part-2/said.txt")).unwrap();
    assert_eq!(said, "hello from 1 of 2\n");
}

#[test]
fn a_command_runs_at_the_sites_that_are_named() {
    let scene = scene(2);
    let sites = scene.get("/v1/sites");
    let name = |at: usize| sites["sites"][at]["name"].as_str().unwrap().to_owned();
    let both = format!("{},{}", name(0), name(1));
    scene.must(&["submit", "--site", &both, "--wait", "--", "hostname"]);
    let job = scene.get("/v1/jobs/1");
    assert_eq!(job["document"]["name"], "hostname");
    for at in [0, 1] {
        assert_eq!(job["components"][at]["site"], name(at));
    }
    scene.refused(
        &[
            "submit",
            "--site",
            &both,
            "--components",
            "3",
            "--",
            "hostname",
        ],
        2,
        &["3 components cannot be at 2 sites"],
    );
}

#[test]
fn what_describes_a_job_is_refused_beside_a_job_file() {
    let scene = scene(1);
    let file = scene.job_file("name = \"x\"\n");
    scene.refused(&["submit", &file, "-n", "4"], 2, &["cannot be used with"]);
    scene.refused(
        &["submit", "--env", "X", "--", "env"],
        2,
        &["write NAME=VALUE"],
    );
    scene.refused(&["submit"], 2, &["FILE"]);
}
