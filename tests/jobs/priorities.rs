//! Priorities by rules of the configuration, as users meet them.

use std::fs;

use cospan_chaos_tests::test_environment::Layout;
use serde_json::json;

use super::errors::refused;
use super::job_fixture::{Scene, environment, has, scene_on, until};

/// The rules are of three keys and lengths; the tests submit with the key `admin`.
const RULES: &str = r#"
[[priority]]
key = "bob"
highest = "super-low"

[[priority]]
runner = "parallel"
class = "super-low"

[[priority]]
key = "admin"
max_wall_time = "1h"
class = "high"
highest = "high"
"#;

/// A server with these rules, whose only site takes no jobs.
fn ruled() -> Scene {
    let environment = environment(&Layout {
        sites: 1,
        processors: 4,
        ..Layout::default()
    });
    let config = fs::read_to_string(environment.config()).unwrap();
    fs::write(environment.config(), format!("{config}{RULES}")).unwrap();
    let scene = scene_on(environment);
    scene.must(&["site", "drain", "s1"]);
    scene
}

fn job(above: &str) -> String {
    format!(
        "wall_time = \"1h\"\n{above}\n[[component]]\nname = \"one\"\nprocessors = 1\n\
         executable = \"/bin/true\"\n"
    )
}

fn shown_priority(scene: &Scene, id: &str) -> String {
    let shown = scene.must(&["show", id]);
    let line = shown
        .lines()
        .find(|line| line.trim_start().starts_with("Priority"))
        .unwrap();
    line.split_whitespace().last().unwrap().to_owned()
}

#[test]
fn a_job_has_the_class_of_its_rule_and_none_above_what_that_allows() {
    let mut scene = ruled();
    let submit = |text: &str, more: &[&str]| {
        scene.cospan(&[&["submit", &scene.job_file(text)], more].concat())
    };
    let above = "the priority super-high is above high, the highest that [[priority]] number 3 of \
                 the configuration allows this job";
    let remedy = "ask for at most high, or ask an administrator";
    for more in [&[][..], &["--dry-run"]] {
        let urgent = submit(&job("priority = \"super-high\""), more);
        refused(&urgent, &["priority: ", above, remedy, "C2002"]);
    }
    for text in [
        job("priority = \"low\""),
        job("runner = \"parallel\""),
        job(""),
    ] {
        assert!(submit(&text, &[]).status.success(), "{text}");
    }
    // The same document so often that one of the two workers knows it from before.
    let open = json!({ "wall_time": "1h", "component": [
        { "name": "one", "processors": 1, "executable": "/bin/true" },
    ]});
    for _ in 0..3 {
        scene
            .server
            .api()
            .unwrap()
            .post_expected("/v1/jobs", &open)
            .unwrap();
    }
    let long = job("priority = \"super-high\"").replace("1h", "2h");
    assert!(submit(&long, &[]).status.success(), "no rule is for it");
    let shown: Vec<_> = (1..=7)
        .map(|id| shown_priority(&scene, &id.to_string()))
        .collect();
    assert_eq!(
        shown,
        [
            "low",
            "super-low",
            "high",
            "high",
            "high",
            "high",
            "super-high"
        ]
    );

    let raised = scene.cospan(&["priority", "1-2,9", "super-high"]);
    let said = [raised.stdout, raised.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(raised.status.code(), Some(3), "{said}");
    has(
        &said,
        &[
            "job 1 refused: ",
            above,
            remedy,
            "job 2 has the new",
            "job 9 not found",
        ],
    );
    assert_eq!(shown_priority(&scene, "1"), "low");
    has(
        &scene.must(&["priority", "1", "high"]),
        &["job 1 has the new priority"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_key_with_the_role_is_bound_by_no_rule() {
    let mut scene = ruled();
    scene.must(&["submit", &scene.job_file(&job(""))]);
    scene.must(&["key", "grant", "admin", "--role", "priority"]);
    until("the role is heeded", || {
        scene
            .cospan(&["priority", "1", "super-high"])
            .status
            .success()
    });
    scene.must(&["submit", &scene.job_file(&job("priority = \"super-high\""))]);
    scene.must(&["submit", &scene.job_file(&job(""))]);
    let shown: Vec<_> = (1..=3)
        .map(|id| shown_priority(&scene, &id.to_string()))
        .collect();
    assert_eq!(
        shown,
        ["super-high", "super-high", "high"],
        "what it does not ask for is given"
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_dry_run_tells_the_class_and_the_rule_that_gave_it() {
    let mut scene = ruled();
    let parallel = "runner = \"parallel\"";
    let cases = [
        ("", "high, given by [[priority]] number 3", 3),
        (
            "priority = \"low\"",
            "low, as asked; judged by [[priority]] number 3",
            3,
        ),
        (parallel, "super-low, given by [[priority]] number 2", 2),
    ];
    for (above, told, rule) in cases {
        let file = scene.job_file(&job(above));
        has(
            &scene.must(&["submit", &file, "--dry-run"]),
            &[&format!("  priority {told}\n")],
        );
        let report = scene.must(&["submit", &file, "--dry-run", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let priority = &report["jobs"][0]["priority"];
        let class = told.split(',').next().unwrap();
        let given = told.contains("given");
        assert_eq!(
            *priority,
            json!({ "class": class, "given": given, "rule": rule })
        );
    }
    let long = job("priority = \"super-high\"").replace("1h", "2h");
    let told = scene.must(&["submit", &scene.job_file(&long), "--dry-run"]);
    has(&told, &["  priority super-high, as asked\n"]);
    let open = job("").replace("1h", "2h");
    let told = scene.must(&["submit", &scene.job_file(&open), "--dry-run"]);
    has(&told, &["  priority low, the default\n"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_repeated_submission_is_answered_with_its_job_whatever_rules_hold_now() {
    let mut scene = ruled();
    let file = scene.job_file(&job("priority = \"high\""));
    let submit = |scene: &Scene, key: &str| {
        scene.cospan(&["submit", &file, "--idempotency-key", key, "-o", "json"])
    };
    let first = submit(&scene, "once").stdout;
    scene.server.kill().unwrap();
    let config = fs::read_to_string(scene.environment.config()).unwrap();
    fs::write(
        scene.environment.config(),
        config.replace("\"high\"", "\"low\""),
    )
    .unwrap();
    scene.server.start().unwrap();
    let above = "the priority high is above low, the highest that [[priority]] number 3";
    refused(&submit(&scene, "twice"), &[above]);
    let again: serde_json::Value = serde_json::from_slice(&submit(&scene, "once").stdout).unwrap();
    let first: serde_json::Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(again["jobs"][0]["id"], first["jobs"][0]["id"]);
    assert_eq!(again["jobs"][0]["repeated"], true);
    scene.server.kill().unwrap();
}
