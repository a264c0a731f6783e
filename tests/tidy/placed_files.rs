//! Which code may put a file in place by itself.

use std::collections::BTreeSet;

use super::{fail_if_any, is_comment, sources};

/// Calls after which a power cut may leave an empty file under a name that is looked for.
const CALLS: [&str; 5] = [
    "fs::write(",
    "File::create(",
    "fs::rename(",
    "renameat(",
    ".persist(",
];

/// Where they stand all the same: nothing that a start needs is written by them.
const EXCEPTIONS: [(&str, &str, &str); 18] = [
    (
        "durable/src/lib.rs",
        "fs::rename(",
        "that is where it is done right",
    ),
    (
        "durable/src/lib.rs",
        "renameat(",
        "that is where it is done right",
    ),
    (
        "sites/src/files/open_beneath.rs",
        "renameat(",
        "of synced content, or of words for an agent",
    ),
    (
        "sites/src/local_site/attempt_root.rs",
        "renameat(",
        "what is read of a dead attempt may be cut off",
    ),
    (
        "sites/src/removal.rs",
        "renameat(",
        "of what is removed next",
    ),
    ("sites/src/wrapper/cost.rs", "fs::write(", "a measurement"),
    (
        "bench/src/machine_limits.rs",
        "File::create(",
        "a measurement",
    ),
    ("bench/src/recover.rs", "fs::write(", "the kernel's switch"),
    ("bench/src/server.rs", "fs::write(", "a measurement"),
    ("bench/src/sites/leftovers.rs", "File::create(", "a lock"),
    ("bench/src/sites/setup.rs", "fs::write(", "a measurement"),
    ("bench/src/sites/setup.rs", "File::create(", "a log"),
    (
        "src/cli/commands/submit/work_directory.rs",
        "File::create(",
        "an archive that is sent and forgotten",
    ),
    (
        "src/cli/commands/virtual_map.rs",
        "fs::write(",
        "a picture for its user",
    ),
    (
        "src/cli/commands/output.rs",
        "File::create(",
        "synced, and put in place then",
    ),
    (
        "src/cli/commands/simulate.rs",
        "fs::write(",
        "an example for its user",
    ),
    (
        "src/cli/commands/store.rs",
        "File::create(",
        "synced, and put in place then",
    ),
    (
        "simulator/src/simulate/report/output.rs",
        "fs::write(",
        "a report for its user",
    ),
];

/// The demonstration is made anew each time.
const DEMONSTRATION: &str = "src/quickstart/";

#[test]
fn files_that_a_start_needs_are_put_in_place_by_one_crate() {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for source in sources()
        .iter()
        .filter(|source| !source.path.starts_with(DEMONSTRATION))
    {
        for (number, line) in source.production() {
            let Some(call) = CALLS.into_iter().find(|call| line.contains(call)) else {
                continue;
            };
            if is_comment(line) {
                continue;
            }
            let excused = EXCEPTIONS
                .iter()
                .any(|(path, what, _)| *path == source.path && *what == call);
            needed.insert((source.path.clone(), call));
            if !excused {
                problems.push(format!(
                    "{}:{number}: {call}: use cospan_durable",
                    source.path
                ));
            }
        }
    }
    for (path, call, _) in EXCEPTIONS {
        if !needed.contains(&(path.to_owned(), call)) {
            problems.push(format!("{path}: {call} needs no exception any more"));
        }
    }
    fail_if_any(&problems);
}
