//! The demonstration as a process: what it reports is recomputed from its
//! files, and nothing is left of it, however it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Far more than it may take on a machine with nothing else to do.
const PATIENCE: Duration = Duration::from_secs(300);

/// A place on a disk: a temporary directory of the system may be in memory.
fn home() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn quickstart(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cospan"));
    command
        .env_remove("COSPAN_CONFIG")
        .env_remove("COSPAN_SERVER")
        .env_remove("COSPAN_TOKEN")
        .env("HOME", place.parent().unwrap())
        .arg("quickstart")
        .arg("--directory")
        .arg(place)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Processes that name the place in their environment or arguments: the server,
/// the attempts (by COSPAN_TAG and their directory) and the agents that copy.
fn processes_of(place: &Path) -> Vec<String> {
    let place = std::fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    let needle = place.as_os_str().as_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let read = |file: &str| std::fs::read(path.join(file)).unwrap_or_default();
        let arguments = read("cmdline");
        let environment = read("environ");
        let names = |text: &[u8]| text.windows(needle.len()).any(|window| window == needle);
        // One that has ended, but was not waited for, has neither.
        if names(&arguments) || names(&environment) {
            found.push(String::from_utf8_lossy(&arguments).replace('\0', " "));
        }
    }
    found
}

fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!(
            "{error}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key} in {value}"))
}

fn digest(file: &str) -> String {
    blake3::hash(&std::fs::read(file).unwrap())
        .to_hex()
        .to_string()
}

/// What each component must have written, from the input alone.
fn wanted(component: &str, input: &str) -> String {
    let lines: Vec<&str> = input.lines().collect();
    let parts = lines.chunks(lines.len() / 6);
    parts
        .map(|part: &[&str]| match component {
            "count" => {
                let words: usize = part
                    .iter()
                    .map(|line| line.split_whitespace().count())
                    .sum();
                let bytes: usize = part.iter().map(|line| line.len() + 1).sum();
                format!("{} {words} {bytes}\n", part.len())
            }
            "tally" => {
                let mut names: Vec<&str> = part
                    .iter()
                    .map(|line| line.split_once(' ').unwrap().0)
                    .collect();
                names.sort_unstable();
                let groups = names.chunk_by(|a, b| a == b);
                groups
                    .map(|group| format!("{} {}\n", group.len(), group[0]))
                    .collect()
            }
            "select" => {
                let ours = part.iter().filter(|line| line.starts_with("station-07 "));
                ours.map(|line| format!("{line}\n")).collect()
            }
            other => panic!("component {other}"),
        })
        .collect()
}

#[test]
fn the_demonstration_reports_what_its_files_say_and_leaves_no_process() {
    let home = home();
    let place = home.path().join("quick start");
    let output = quickstart(&place, &["-o", "json"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
    assert_eq!(processes_of(&place), Vec::<String>::new());

    let report = report(&output);
    assert_eq!(report["right"], true);
    assert_eq!(report["jobs"].as_array().unwrap().len(), 1);
    let input = &report["input"];
    assert_eq!(text(input, "digest"), digest(text(input, "file")));
    let data = std::fs::read_to_string(text(input, "file")).unwrap();
    assert_eq!(input["size_bytes"], data.len());

    let dead = text(&report["dead_site"], "name");
    assert!(
        report["dead_site"]["errors"].as_u64().unwrap() >= 1,
        "{report}"
    );
    assert_ne!(text(&report["dead_site"], "state"), "usable");
    assert!(report["rounds"].as_u64().unwrap() >= 2, "{report}");
    let components = report["components"].as_array().unwrap();
    assert_eq!(components.len(), 3);
    assert!(
        components
            .iter()
            .any(|component| text(component, "site_before") == dead)
    );
    for component in components {
        let processors = component["processors"].as_u64().unwrap();
        assert!((2..=4).contains(&processors), "{component}");
        assert_ne!(text(component, "site_after"), dead, "{component}");
        let file = text(component, "file");
        assert_eq!(text(component, "digest"), digest(file));
        assert_eq!(text(component, "expected_digest"), digest(file));
        let found = std::fs::read_to_string(file).unwrap();
        assert_eq!(found, wanted(text(component, "name"), &data), "{component}");
    }
}

/// What differs from one run to the next is not compared: numbers, digests, how far a bar is,
/// and whether a site that is gone is called unusable already when it is first looked at.
fn masked(line: &str) -> String {
    const ONE_OF_TWO: &str = "; it is unusable until a probe finds it well";
    let words = line.replace(ONE_OF_TWO, "");
    words
        .split_whitespace()
        .map(|word: &str| match word.strip_suffix("...") {
            Some(digest) if digest.chars().all(|c| c.is_ascii_hexdigit()) => "DIGEST".to_owned(),
            _ if word.starts_with('[') && word.ends_with(']') => "BAR".to_owned(),
            _ => word
                .split(|c: char| c.is_ascii_digit())
                .filter(|part| !part.is_empty())
                .collect(),
        })
        .collect::<Vec<String>>()
        .join(" ")
}

#[test]
fn readme_and_book_show_what_it_prints() {
    let pages = [
        include_str!("../README.md"),
        include_str!("../docs/src/quickstart.md"),
    ];
    let transcripts = pages.map(|page| {
        let (_, shown) = page.split_once("```text\n1. A control plane").unwrap();
        shown.split("```").next().unwrap()
    });
    let shown = transcripts
        .iter()
        .flat_map(|transcript| transcript.lines().skip(1))
        .map(masked);
    let home = home();
    let output = quickstart(&home.path().join("shown"), &[])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let lines: Vec<String> = told.lines().map(masked).collect();
    let missing: Vec<String> = shown.filter(|line| !lines.contains(line)).collect();
    assert_eq!(missing, Vec::<String>::new(), "not printed:\n{told}");
}

#[test]
fn a_damaged_output_is_found_and_ends_with_1() {
    let home = home();
    let place = home.path().join("damaged");
    let output = quickstart(&place, &["-o", "json", "--corrupt-output"])
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report = report(&output);
    assert_eq!(report["right"], false);
    let wrong: Vec<&Value> = report["components"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["right"] == false)
        .collect();
    assert_eq!(wrong.len(), 1);
    assert_ne!(text(wrong[0], "digest"), text(wrong[0], "expected_digest"));
    assert_eq!(processes_of(&place), Vec::<String>::new());
}

/// Runs it until it tells of this; what it told. It goes on, so its output is to be kept open.
fn until_told(place: &Path, words: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = quickstart(place, &[])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut told = String::new();
    while !told.contains(words) {
        assert_ne!(
            reader.read_line(&mut told).unwrap(),
            0,
            "it never told of {words:?}:\n{told}"
        );
    }
    (child, reader, told)
}

fn ended(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    panic!("it did not end");
}

/// What stands behind this word at the beginning of a line.
fn row<'t>(told: &'t str, word: &str) -> &'t str {
    let line = told.lines().find(|line| line.starts_with(word));
    line.unwrap_or_else(|| panic!("no {word} in {told}"))[word.len()..].trim()
}

/// Ends the server that was kept, however the test ends.
struct KeptServerGuard(String);

impl Drop for KeptServerGuard {
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", &self.0]).output();
    }
}

#[test]
fn a_server_that_is_kept_answers_and_what_it_says_to_type_next_works() {
    let home = home();
    let place = home.path().join("kept");
    let output = quickstart(&place, &["--keep"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let stop = told.split("The server still runs; stop it with: ").nth(1);
    let stop = stop
        .and_then(|rest| rest.lines().next())
        .unwrap_or_else(|| panic!("{told}"));
    let kept = KeptServerGuard(stop.to_owned());

    let address = row(&told, "API").strip_suffix("/v1").unwrap();
    assert_eq!(row(&told, "Metrics"), format!("{address}/metrics"));
    assert_eq!(
        row(&told, "Described at"),
        format!("{address}/v1/openapi.json")
    );
    let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let ready = cospan_chaos_tests::api::Api::new(port, String::new()).get("/readyz");
    assert!(
        matches!(ready, cospan_chaos_tests::api::ApiReply::Answered(200, _)),
        "{ready:?}"
    );
    for place in ["Data", "Results", "Server log"] {
        assert!(Path::new(row(&told, place)).exists(), "{place}");
    }

    let next = told.split("Next:\n").nth(1).unwrap();
    assert!(next.contains("$cospan submit job.toml --wait"), "{next}");
    let script = format!("set -e\n{next}");
    let typed = Command::new("sh")
        .args(["-c", &script])
        .env("HOME", home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&typed.stdout);
    assert!(
        typed.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&typed.stderr)
    );
    assert!(
        said.contains("amsterdam") && said.contains("finished"),
        "{said}"
    );

    let begun = Instant::now();
    while !processes_of(&place).is_empty() {
        let _ = Command::new("sh").args(["-c", &kept.0]).output().unwrap();
        assert!(begun.elapsed() < PATIENCE, "{:?}", processes_of(&place));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Elsewhere each stage is a line of its own; see the test of an interruption.
#[test]
fn on_a_terminal_progress_changes_in_place() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("SKIPPED: `script`, which plays a terminal, is not installed");
        return;
    }
    let home = home();
    let place = home.path().join("live");
    let plain = quickstart(&place, &[]);
    let words = [plain.get_program()].into_iter().chain(plain.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut terminal = Command::new("script");
    terminal.args([
        "--quiet",
        "--return",
        "--command",
        &words.join(" "),
        "/dev/null",
    ]);
    terminal
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env("HOME", home.path());
    terminal
        .env_remove("COSPAN_CONFIG")
        .env_remove("COSPAN_SERVER")
        .env_remove("COSPAN_TOKEN");
    let output = terminal.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    const ERASED: &str = "\u{1b}[G\u{1b}[2K";
    let stages: Vec<&str> = told
        .split(ERASED)
        .skip(1)
        .filter(|line| line.contains("[#"))
        .collect();
    assert!(stages.len() > 5, "{told:?}");
    assert!(told.contains("Everything is right."), "{told}");
    assert_eq!(processes_of(&place), Vec::<String>::new());
}

/// Ctrl-C once it has told of this; what it had told. So many processes were there.
fn interrupted_after(words: &str, processes: usize) -> String {
    let home = home();
    let place = home.path().join("interrupted");
    let (mut child, _output, told) = until_told(&place, words);
    assert!(
        processes_of(&place).len() >= processes,
        "{:?}",
        processes_of(&place)
    );
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(ended(&mut child), Some(130));
    assert_eq!(processes_of(&place), Vec::<String>::new());
    told
}

#[test]
fn an_interruption_in_the_middle_of_the_run_leaves_no_process() {
    // The server, and three wrappers with what they run.
    let told = interrupted_after("all components have begun together", 5);
    // A line for each stage, as nobody reads on a terminal.
    assert!(
        told.contains("from amsterdam  to berlin [") && !told.contains('\r'),
        "{told}"
    );
}

#[test]
fn an_interruption_while_input_travels_leaves_no_process() {
    // The server at least; agents copy now.
    interrupted_after("from amsterdam  to berlin [", 1);
}

#[test]
fn an_interruption_while_a_site_is_dead_leaves_no_process() {
    // The server, and wrappers at the sites that live.
    interrupted_after("waiting to see whether it answers again", 3);
}

#[test]
fn a_server_that_dies_ends_the_demonstration_without_leaving_a_process() {
    let home = home();
    let place = home.path().join("orphaned");
    let (mut child, _output, _) = until_told(&place, "all components have begun together");
    let config = std::fs::canonicalize(&place).unwrap().join("cospan.toml");
    let config = config.as_os_str().as_bytes();
    let server = std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let arguments = std::fs::read(path.join("cmdline")).ok()?;
        let ours = arguments
            .split(|byte| *byte == 0)
            .any(|word| word == config);
        let pid = path.file_name()?.to_str()?.parse::<i32>().ok()?;
        ours.then(|| rustix::process::Pid::from_raw(pid)).flatten()
    });
    rustix::process::kill_process(server.unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(ended(&mut child), Some(4));
    assert_eq!(processes_of(&place), Vec::<String>::new());
}

#[test]
fn a_directory_that_is_in_use_is_refused() {
    let home = home();
    std::fs::write(home.path().join("thesis.tex"), "").unwrap();
    let output = quickstart(home.path(), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty"));
}
