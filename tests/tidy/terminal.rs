//! Where text for people goes.

use super::{fail_if_any, sources};

/// Where standard output and error are written to, and why there.
const WRITERS: [(&str, &str); 5] = [
    ("src/terminal/mod.rs", "what all else passes"),
    ("src/terminal/seen.rs", "the same"),
    ("src/cli/commands/serve.rs", "the log, whose fields are spelt before"),
    ("src/bench/forge.rs", "a document for the process that started it"),
    ("sites/src/files/agent/mod.rs", "words of its own into the file of its task"),
];

#[test]
fn what_people_read_passes_the_one_place_that_hides_nothing() {
    let writes = [
        concat!("stdout", "()"),
        concat!("stderr", "()"),
        concat!("io::", "stderr"),
        concat!("\\x", "1b"),
    ];
    let mut problems = Vec::new();
    for source in sources() {
        if WRITERS.iter().any(|(path, _)| source.path == *path) {
            continue;
        }
        for (number, line) in source.production() {
            let line = line.replace("terminal::stdout()", "");
            let line =
                line.replace(".stdout()", "").replace(".stderr()", "").replace(".use_stderr()", "");
            if writes.iter().any(|word| line.contains(word)) {
                problems.push(format!("{}:{number}: print it through src/terminal", source.path));
            }
        }
    }
    fail_if_any(&problems);
}
