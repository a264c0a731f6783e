//! Style as a test: what a review would otherwise have to say again and again.
//!
//! Exceptions stand here, each with its reason. One that is not needed any more
//! fails as well, so the lists only get shorter.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "tidy/actors.rs"]
mod actors;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/placed_files.rs"]
mod placed_files;
#[path = "tidy/printed_text.rs"]
mod printed_text;
#[path = "tidy/seams.rs"]
mod seams;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders with Rust sources, by crate.
const FOLDERS: [&str; 14] = [
    "src",
    "domain",
    "durable",
    "storage",
    "sites",
    "actors",
    "simulator",
    "printing",
    "api",
    "client",
    "languages",
    "server",
    "bench",
    "chaos-tests",
];

/// Most lines of a file.
const FILE_LINES: usize = 700;
/// Most lines of a function in production code.
const FUNCTION_LINES: usize = 100;

/// Files that are longer, with the number of lines they may have.
const LONG_FILES: [(&str, usize, &str); 0] = [];

/// Functions that are longer, with the number of lines they may have.
const LONG_FUNCTIONS: [(&str, &str, usize, &str); 2] = [
    ("actors/src/metrics.rs", "new", 150, "one line a metric"),
    (
        "domain/src/job/evolve/evolve_attempts.rs",
        "apply_attempt_event",
        105,
        "one arm an event",
    ),
];

/// Where a panic is right.
const PANICS: [(&str, &str, &str); 3] = [
    (
        "src/cli/commands/submit.rs",
        "unreachable!(",
        "a loop that ends by returning",
    ),
    (
        "domain/src/poisoned_job.rs",
        "assert!(",
        "a planted panic, in chaos builds only",
    ),
    (
        "actors/src/chaos/chaos_points.rs",
        "panic!(",
        "planted panics, in chaos builds only",
    ),
];

/// Words that may not stay, and what they tell.
const WORDS: [(&str, &str); 6] = [
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "finish it"),
    (concat!("dbg", "!("), "take it out"),
    (concat!("FIX", "ME"), "fix it, or file an issue"),
    (concat!("X", "XX"), "say what is meant, or file an issue"),
    (concat!("TO", "DO"), "do it, or file an issue"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Rust source: its path below the root, and its lines.
struct Source {
    path: String,
    lines: Vec<String>,
}

impl Source {
    /// Whether it is compiled for tests only.
    fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        let file = parts.last().copied().unwrap_or_default();
        parts[0] == "chaos-tests"
            || parts
                .iter()
                .any(|p| ["tests", "testing", "contract", "examples"].contains(p))
            || file.ends_with("tests.rs")
            || ["testing.rs", "contract.rs"].contains(&file)
    }

    /// Its lines without those of test modules, with their numbers from 1.
    fn production(&self) -> Vec<(usize, &str)> {
        if self.is_test() {
            return Vec::new();
        }
        let opens = |n: usize| {
            self.lines
                .get(n + 1)
                .is_some_and(|l| l.contains("mod tests {"))
        };
        let end = self
            .lines
            .iter()
            .enumerate()
            .position(|(n, l): (usize, &String)| l.trim() == "#[cfg(test)]" && opens(n))
            .unwrap_or(self.lines.len());
        let lines = self.lines[..end].iter().enumerate();
        lines.map(|(n, line)| (n + 1, line.as_str())).collect()
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                walk(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    FOLDERS
        .iter()
        .chain(&["tests"])
        .for_each(|folder| walk(&root().join(folder), &mut paths));
    paths.sort();
    paths
        .into_iter()
        .map(|path: PathBuf| Source {
            path: path.strip_prefix(root()).unwrap().display().to_string(),
            lines: fs::read_to_string(&path)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect(),
        })
        .collect()
}

/// Functions as (name, first line, number of lines). rustfmt puts the closing
/// brace of an item below its first letter, so nothing needs to be parsed.
fn functions<'a>(lines: &[(usize, &'a str)]) -> Vec<(&'a str, usize, usize)> {
    let mut found = Vec::new();
    for (at, &(number, line)) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some(name) = function_name(line.trim_start()) else {
            continue;
        };
        let closing = |l: &str| l.starts_with(&format!("{:indent$}}}", "")) || is_one_line(l);
        let is_one_line = is_one_line(line);
        let end = lines[at..]
            .iter()
            .position(|(_, l)| is_one_line || closing(l))
            .unwrap_or(0);
        found.push((name, number, end + 1));
    }
    found
}

/// A declaration without a body, or a function on one line.
fn is_one_line(line: &str) -> bool {
    function_name(line.trim_start()).is_some() && (line.ends_with(';') || line.ends_with('}'))
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = match line.strip_prefix("fn ") {
        Some(after) => ("", after),
        None => line.split_once(" fn ")?,
    };
    let is_modifier = |word: &str| {
        word.starts_with("pub") || word.starts_with("in") || ["const", "async"].contains(&word)
    };
    let names = after
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (before
        .split(' ')
        .all(|word| word.is_empty() || is_modifier(word))
        && !names.is_empty())
    .then_some(names)
}

fn fail_if_any(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    let mut problems = Vec::new();
    for source in sources() {
        let lines = source.lines.len();
        let allowed = LONG_FILES.iter().find(|(path, _, _)| *path == source.path);
        match allowed {
            Some((path, most, _)) if lines > *most => {
                problems.push(format!(
                    "{path}: {lines} lines; its exception ends at {most}"
                ));
            }
            Some((path, ..)) if lines <= FILE_LINES => {
                problems.push(format!(
                    "{path}: {lines} lines; it needs no exception any more"
                ));
            }
            None if lines > FILE_LINES => {
                problems.push(format!("{}: {lines} lines; split it", source.path));
            }
            _ => {}
        }
    }
    fail_if_any(&problems);
}

#[test]
fn no_function_is_too_long() {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for source in sources() {
        for (name, line, lines) in functions(&source.production()) {
            let allowed = LONG_FUNCTIONS
                .iter()
                .find(|(p, n, ..)| *p == source.path && *n == name);
            let most = allowed.map_or(FUNCTION_LINES, |(_, _, most, _)| *most);
            if lines > most {
                problems.push(format!("{}:{line}: {name} has {lines} lines", source.path));
            }
            if lines > FUNCTION_LINES {
                needed.insert((source.path.clone(), name.to_owned()));
            }
        }
    }
    for (path, name, ..) in LONG_FUNCTIONS {
        if !needed.contains(&(path.to_owned(), name.to_owned())) {
            problems.push(format!("{path}: {name} needs no exception any more"));
        }
    }
    fail_if_any(&problems);
}

#[test]
fn nothing_is_left_for_later_in_the_text() {
    let mut problems = Vec::new();
    for source in sources() {
        for (number, line) in source.lines.iter().enumerate() {
            for (word, remedy) in WORDS {
                if line.contains(word) {
                    problems.push(format!("{}:{}: {word}: {remedy}", source.path, number + 1));
                }
            }
            let excuse = concat!("for", " now");
            if line.contains(&format!("{excuse}.")) || line.contains(&format!("{excuse},")) {
                problems.push(format!(
                    "{}:{}: {excuse}: say until when",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    fail_if_any(&problems);
}

/// `unwrap` is denied by clippy everywhere but in tests; this sees the rest, and
/// that whoever allows it says why.
#[test]
fn production_code_does_not_panic_on_purpose() {
    const CALLS: [&str; 5] = [
        ".unwrap()",
        ".expect(",
        "panic!(",
        "unreachable!(",
        "assert!(",
    ];
    let mut problems = Vec::new();
    for source in sources() {
        let lines = source.production();
        for (at, (number, line)) in lines.iter().enumerate() {
            let is_debug = line.contains("debug_assert!(");
            let Some(call) = CALLS.into_iter().find(|call| line.contains(call)) else {
                continue;
            };
            let excused = PANICS
                .iter()
                .any(|(path, what, _)| *path == source.path && *what == call);
            let reasoned = lines[at.saturating_sub(3)..at]
                .iter()
                .any(|(_, l)| l.contains("reason ="));
            // A constant that cannot be is found by the compiler.
            let in_const = lines[at.saturating_sub(6)..=at]
                .iter()
                .any(|(_, l)| l.contains("const "));
            if !(is_comment(line) || is_debug || excused || reasoned || in_const) {
                problems.push(format!("{}:{number}: {call}", source.path));
            }
        }
    }
    fail_if_any(&problems);
}

#[test]
fn time_and_chance_come_from_one_place() {
    const SOURCES: [(&str, &str); 6] = [
        ("HashMap", "its order leaks; use BTreeMap"),
        ("HashSet", "its order leaks; use BTreeSet"),
        ("SystemTime", "the clock is actors/src/clock.rs"),
        ("Instant::now", "the clock is actors/src/clock.rs"),
        ("thread_rng", "chance is actors/src/seeded_random.rs"),
        ("rand::", "chance is actors/src/seeded_random.rs"),
    ];
    // tokio's clock is the virtual one in a simulation; it only bounds a wait.
    const EXCEPTIONS: [&str; 3] = [
        "actors/src/clock.rs",
        "actors/src/seeded_random.rs",
        "actors/src/intake/forwarded_commands.rs",
    ];
    let mut problems = Vec::new();
    for source in sources() {
        let concerned = ["domain/src/", "actors/src/"]
            .iter()
            .any(|f| source.path.starts_with(f));
        if !concerned || EXCEPTIONS.contains(&source.path.as_str()) {
            continue;
        }
        for (number, line) in source.production() {
            for (word, remedy) in SOURCES {
                if line.contains(word) && !is_comment(line) {
                    problems.push(format!("{}:{number}: {word}: {remedy}", source.path));
                }
            }
        }
    }
    fail_if_any(&problems);
}

/// Whether a line has this word, and not only as the beginning of another.
fn names(line: &str, word: &str) -> bool {
    line.split(word)
        .skip(1)
        .any(|rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// None of these words stands in the production code below a folder.
fn fail_if_named(folder: &str, words: &[&str]) {
    let sources = sources();
    let mut concerned = sources
        .iter()
        .filter(|source| source.path.starts_with(folder))
        .peekable();
    assert!(concerned.peek().is_some(), "{folder}: nothing there");
    let mut problems = Vec::new();
    for source in concerned {
        for (number, line) in source.production() {
            let word = words.iter().find(|word| names(line, word));
            if let Some(word) = word.filter(|_| !is_comment(line)) {
                problems.push(format!("{}:{number}: {word}", source.path));
            }
        }
    }
    fail_if_any(&problems);
}

/// Clippy bars types that the domain may not use; these are words, or whole modules.
#[test]
fn the_domain_waits_for_nothing_and_reaches_nothing_outside() {
    const OUTSIDE: [&str; 8] = [
        "async",
        ".await",
        "std::fs",
        "std::net",
        "std::process",
        "std::thread",
        "std::env",
        "std::os",
    ];
    fail_if_named("domain/src/", &OUTSIDE);
}

/// Placement reads jobs; what both need, and copies and files with them, are leaves.
#[test]
fn no_job_knows_placement_and_no_leaf_either() {
    fail_if_named("domain/src/job/", &["crate::placement"]);
    for leaf in ["domain/src/content.rs", "domain/src/placed/"] {
        fail_if_named(leaf, &["crate::job", "crate::placement"]);
    }
    for machine in ["domain/src/catalogue/", "domain/src/transfer/"] {
        fail_if_named(machine, &["crate::job"]);
    }
    fail_if_named("domain/src/claim/", &["crate::placement", "crate::queue"]);
}

/// Which site adapter and which engine there is, is decided where everything is put together: in
/// the server.
#[test]
fn actors_know_sites_and_stores_by_their_ports_only() {
    fail_if_named(
        "actors/src/",
        &[
            "cospan_sites::local_site",
            "cospan_sites::slurm_site",
            "EngineKind",
        ],
    );
}

/// A kind of problem that nothing is ever answered with is a promise of the reference.
#[test]
fn every_kind_of_problem_is_given_as_an_answer_somewhere() {
    let sources = sources();
    let lines: Vec<&str> = sources
        .iter()
        .filter(|source| source.path != "api/src/v1/problem.rs")
        .flat_map(|source| source.production().into_iter().map(|(_, line)| line))
        .collect();
    for code in cospan_api::v1::problem::Code::ALL {
        let word = format!("Code::{code:?}");
        assert!(
            lines.iter().any(|line| names(line, &word)),
            "{word} ({})",
            code.as_str()
        );
    }
}

/// Under the paused clock a thread, a child, a file or a socket would see every
/// time-out fire at once, and a hash map or the machine's clock another order in each run.
#[test]
fn virtual_time_has_no_thread_file_socket_or_clock_beside_it() {
    const WORDS: [&str; 9] = [
        "std::thread",
        "std::process",
        "std::fs",
        "std::net",
        "spawn_blocking",
        "Instant::now",
        "SystemTime",
        "HashMap",
        "HashSet",
    ];
    const BESIDE: [&str; 2] = [
        // Runs whole worlds side by side, each on a thread of its own.
        "chaos-tests/src/seeds/campaign.rs",
        // Its thread hashes what became of a world, of which nothing comes back into it.
        "simulator/src/journal_hash.rs",
    ];
    const UNDER: [&str; 2] = ["simulator/src/", "chaos-tests/src/seeds/"];
    let concerned = |source: &Source| {
        let is_tests = source.path.ends_with("tests.rs") || source.path.contains("/tests/");
        UNDER.iter().any(|folder| source.path.starts_with(folder))
            && !BESIDE.contains(&source.path.as_str())
            // It begins worlds on threads, and reads and writes files around them.
            && !source.path.starts_with("simulator/src/simulate/")
            && !is_tests
    };
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| concerned(source)) {
        for (number, line) in source.lines.iter().enumerate() {
            if let Some(word) = WORDS.iter().find(|word| line.contains(**word)) {
                problems.push(format!("{}:{}: {word}", source.path, number + 1));
            }
        }
    }
    fail_if_any(&problems);
}

fn manifest(folder: &str) -> toml::Table {
    let path = root()
        .join(if folder == "src" { "" } else { folder })
        .join("Cargo.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Which of our crates each crate may use. None may use the benches.
#[test]
fn arrows_between_crates_point_one_way() {
    const ARROWS: [(&str, &[&str]); 14] = [
        ("domain", &[]),
        ("durable", &[]),
        ("storage", &["cospan-domain", "cospan-durable"]),
        ("sites", &["cospan-domain", "cospan-durable"]),
        (
            "actors",
            &["cospan-domain", "cospan-storage", "cospan-sites"],
        ),
        (
            "simulator",
            &[
                "cospan-domain",
                "cospan-storage",
                "cospan-sites",
                "cospan-actors",
                "cospan-languages",
                "cospan-api",
                "cospan-printing",
            ],
        ),
        ("printing", &["cospan-domain"]),
        ("api", &["cospan-domain"]),
        ("client", &["cospan-api"]),
        (
            "languages",
            &["cospan-domain", "cospan-api", "cospan-sites"],
        ),
        (
            "server",
            &[
                "cospan-domain",
                "cospan-durable",
                "cospan-storage",
                "cospan-sites",
                "cospan-actors",
                // The kinds of fault alone, for rehearsals.
                "cospan-simulator",
                "cospan-api",
            ],
        ),
        (
            "bench",
            &[
                "cospan-domain",
                "cospan-storage",
                "cospan-sites",
                "cospan-actors",
                "cospan-simulator",
                "cospan-api",
                "cospan-client",
                "cospan-printing",
                "cospan-server",
            ],
        ),
        (
            "src",
            &[
                "cospan-domain",
                "cospan-durable",
                "cospan-storage",
                "cospan-sites",
                "cospan-actors",
                "cospan-simulator",
                // For the tests below tests/; the program does not link it.
                "cospan-chaos-tests",
                "cospan-printing",
                "cospan-api",
                "cospan-client",
                "cospan-languages",
                "cospan-server",
            ],
        ),
        (
            "chaos-tests",
            &[
                "cospan-domain",
                "cospan-storage",
                "cospan-sites",
                "cospan-actors",
                "cospan-simulator",
            ],
        ),
    ];
    let mut problems = Vec::new();
    for (folder, allowed) in ARROWS {
        let manifest = manifest(folder);
        let itself = manifest["package"]["name"].as_str().unwrap().to_owned();
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(toml::Value::Table(dependencies)) = manifest.get(kind) else {
                continue;
            };
            for name in dependencies
                .keys()
                .filter(|name| name.starts_with("cospan"))
            {
                if !allowed.contains(&name.as_str()) && *name != itself {
                    problems.push(format!(
                        "{folder}/Cargo.toml: {kind}: {name} is not allowed"
                    ));
                }
            }
        }
    }
    fail_if_any(&problems);
}

#[test]
fn every_crate_carries_the_lints_of_the_workspace() {
    for folder in FOLDERS {
        let manifest = manifest(folder);
        let inherits = manifest["lints"]["workspace"].as_bool();
        assert_eq!(
            inherits,
            Some(true),
            "{folder}/Cargo.toml: [lints] workspace = true"
        );
    }
    let lints = manifest("src")["workspace"]["lints"].clone();
    assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("forbid"));
}

#[test]
fn functions_are_found_and_measured() {
    let text = "impl A {\n    pub(super) async fn one(&self) -> u8 {\n        1\n    }\n    \
                fn two();\n    fn three() {}\n}\nconst fn four() {\n\n\n}\nlet x = if fn_like {}";
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(n, l)| (n + 1, l)).collect();
    let expected = vec![
        ("one", 2, 3),
        ("two", 5, 1),
        ("three", 6, 1),
        ("four", 8, 4),
    ];
    assert_eq!(functions(&lines), expected);
}
