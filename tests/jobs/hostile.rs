//! One user whose jobs end their own attempts in every way, beside another user.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use cospan_chaos_tests::api::Api;

use super::job_fixture::{PATIENCE, Scene, scene, until};

/// What payloads do to their own attempts.
const DEEDS: [&str; 4] = [
    "kill -KILL $PPID; sleep 60",
    "rm -rf $COSPAN_ATTEMPT_DIR; kill -KILL $PPID; sleep 60",
    "rm -f ../ready ../begun ../decision; kill -KILL $PPID; sleep 60",
    "kill -STOP $PPID; exit 1",
];
/// So often each.
const TIMES: usize = 6;
/// Another user's job waits for no longer, with room left.
const SOON: Duration = Duration::from_secs(10);

fn key(scene: &Scene, name: &str) -> Api {
    let token = scene.must(&["key", "add", name]).trim().to_owned();
    let api = Api::new(scene.environment.port(), token);
    until("the server knows the key", || {
        api.get_expected("/v1/jobs").is_ok()
    });
    api
}

fn submit(api: &Api, script: &str) -> u64 {
    let job = json!({ "wall_time": "1m", "component": [{
        "name": "one", "processors": 1, "executable": "/bin/sh", "arguments": ["-c", script],
    }]});
    let answer = api.post_expected("/v1/jobs", &job).unwrap();
    answer["jobs"][0]["id"]
        .as_u64()
        .unwrap_or_else(|| panic!("no id: {answer}"))
}

fn state(api: &Api, id: u64) -> Value {
    api.get_expected(&format!("/v1/jobs/{id}")).unwrap()
}

fn is_over(job: &Value) -> bool {
    ["finished", "failed", "cancelled"]
        .iter()
        .any(|state| job["phase"]["state"] == *state)
}

#[test]
fn a_user_whose_jobs_end_their_own_attempts_closes_no_site_and_keeps_nobody_waiting() {
    let mut scene = scene(3);
    let mallory = key(&scene, "mallory");
    let alice = key(&scene, "alice");
    let deeds = DEEDS.iter().cycle().take(DEEDS.len() * TIMES);
    let hostile: Vec<u64> = deeds.map(|deed| submit(&mallory, deed)).collect();
    let begun = Instant::now();
    let mut left = hostile.clone();
    while !left.is_empty() {
        let submitted = Instant::now();
        let honest = submit(&alice, "exit 0");
        until("another user's job is over", || {
            is_over(&state(&alice, honest))
        });
        let job = state(&alice, honest);
        assert_eq!(job["phase"]["state"], "finished", "{job}");
        assert!(
            submitted.elapsed() < SOON,
            "it took {:?}",
            submitted.elapsed()
        );
        for site in scene.get("/v1/sites")["sites"].as_array().unwrap() {
            assert_eq!(site["state"], "usable", "{site}");
            assert_eq!(site["consecutive_errors"], 0, "{site}");
        }
        left.retain(|id| !is_over(&state(&mallory, *id)));
        assert!(
            begun.elapsed() < PATIENCE,
            "{} jobs are not over",
            left.len()
        );
    }
    for id in hostile {
        let job = state(&mallory, id);
        assert_eq!(job["phase"]["state"], "failed", "{job}");
        assert_eq!(job["setbacks"]["site_errors"], 0, "{job}");
        assert!(
            job["phase"]["reason"]
                .as_str()
                .is_some_and(|why| !why.is_empty()),
            "{job}"
        );
    }
    scene.server.kill().unwrap();
}
