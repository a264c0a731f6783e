//! What others wrote, on its way to a terminal.

use serde_json::json;

use super::fake_server::{Fake, FakeAnswer};
use super::{code, cospan, job, run, stderr, stdout};

/// Clears a screen, turns text around, hides a word, and begins a row of its own.
const HOSTILE: &str = "w\u{1b}[2J\u{9b}31m\u{7}\u{202e}\u{2066}\u{2069}\u{61c}\u{200b}\u{feff}\
    \u{ad}\u{2060}\u{2028}\u{e0041}\r8  finished\njob 7 finished";

fn hides_nothing(text: &str) {
    assert!(!text.contains(|c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    }), "{text:?}");
}

fn hostile_server() -> Fake {
    Fake::start(|request| match request.path.as_str() {
        "/v1/jobs/1" => {
            let mut job = job(1, "failed");
            job["phase"]["reason"] = json!(HOSTILE);
            job["owner"] = json!(HOSTILE);
            job["document"]["name"] = json!(HOSTILE);
            FakeAnswer::json(&job)
        }
        "/v1/jobs/1/explain" => FakeAnswer::json(&json!({
            "job": 1, "summary": HOSTILE, "estimate_unknown": HOSTILE, "verdicts": [],
            "transfers": [{
                "component": HOSTILE, "from": HOSTILE, "site": HOSTILE, "digest": HOSTILE,
                "done_bytes": 0, "size_bytes": 1, "here": false, "problem": HOSTILE,
            }],
        })),
        "/v1/jobs/1/events" => FakeAnswer::json(&json!({ "events": [] })),
        "/v1/jobs/2" => FakeAnswer::problem(409, "C4002", HOSTILE),
        "/v1/jobs/3" => FakeAnswer::new(502, "text/html", HOSTILE),
        _ => FakeAnswer::no_such(&request.path),
    })
}

#[test]
fn nothing_that_others_wrote_moves_the_cursor_or_hides_a_word() {
    let server = hostile_server();
    for arguments in [
        &["show", "1"][..],
        &["wait", "1"],
        &["explain", "1"],
        &["show", "2"],
        &["show", "3"],
        &["show", HOSTILE],
        &[HOSTILE],
        &["submit", HOSTILE],
    ] {
        let output = run(&server, arguments);
        hides_nothing(&stdout(&output));
        hides_nothing(&stderr(&output));
        let shown = stdout(&output) + &stderr(&output);
        // What is no answer of ours is not told word by word.
        assert!(
            arguments[1..] == ["3"] || shown.contains("\\u{202e}"),
            "{arguments:?}: {shown}"
        );
        let forged = shown.lines().any(|line| line.starts_with("job 7"));
        assert!(arguments[1..] != ["1"] || !forged, "{arguments:?}: {shown}");
    }
}

#[test]
fn structured_answers_are_exact_and_hide_nothing() {
    let server = hostile_server();
    for format in ["json", "yaml"] {
        let output = run(&server, &["show", "1", "-o", format]);
        hides_nothing(&stdout(&output));
        let read: serde_json::Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
        assert_eq!(read[0]["document"]["name"], HOSTILE, "{}", stderr(&output));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
}

#[test]
fn a_file_name_in_a_message_hides_nothing() {
    let home = tempfile::tempdir().unwrap();
    let name = "a\u{1b}[31m\u{202e}b.toml";
    std::fs::write(home.path().join(name), "nonsense =").unwrap();
    let output = cospan(home.path())
        .args(["submit", name, "--dry-run"])
        .output()
        .unwrap();
    hides_nothing(&stderr(&output));
    assert!(
        stderr(&output).contains("a\\u{1b}[31m\\u{202e}b.toml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn help_is_an_answer_whatever_is_hidden_beside_it() {
    let home = tempfile::tempdir().unwrap();
    for (variable, arguments) in [
        ("COSPAN_TOKEN", &["--help"][..]),
        ("COSPAN_OTHER", &["submit", "--help"]),
        ("COSPAN_ALLOW_CHAOS", &["--version"]),
        ("COSPAN_ALLOW_CHAOS", &["list", "--name", "a\tb", "--help"]),
    ] {
        let output = cospan(home.path())
            .env(variable, "a\nb")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        assert!(
            stdout(&output).contains("cospan"),
            "{arguments:?}: {}",
            stdout(&output)
        );
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}
