//! Where text for people goes.

use super::{fail_if_any, sources};

/// Where standard output and error are written to, and why there.
const WRITERS: [(&str, &str); 5] = [
    ("printing/src/terminal/mod.rs", "what all else passes"),
    ("printing/src/terminal/visible_text.rs", "the same"),
    (
        "src/cli/commands/serve.rs",
        "the log, whose fields are spelt before",
    ),
    (
        "bench/src/forged_store.rs",
        "a document for the process that started it",
    ),
    (
        "sites/src/files/agent/mod.rs",
        "words of its own into the file of its task",
    ),
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
            let line = line
                .replace(".stdout()", "")
                .replace(".stderr()", "")
                .replace(".use_stderr()", "");
            if writes.iter().any(|word| line.contains(word)) {
                problems.push(format!(
                    "{}:{number}: print it through printing/src/terminal",
                    source.path
                ));
            }
        }
    }
    fail_if_any(&problems);
}

/// Keys that every entry of a log in JSON has itself. tracing-subscriber 0.3.23 writes a field of
/// such a name beside its own, and readers keep one of the two.
const KEYS: [&str; 5] = ["timestamp", "level", "target", "span", "spans"];

#[test]
fn no_field_of_a_log_has_the_name_of_what_every_entry_has() {
    let is_field = |line: &str, key: &str| {
        ["%", "?"].iter().any(|how| {
            let named = line.contains(&format!(" {key} = {how}"));
            named || line.contains(&format!("({key} = {how}"))
        })
    };
    let mut problems = Vec::new();
    for source in sources() {
        for (number, line) in source.production() {
            if let Some(key) = KEYS.iter().find(|key| is_field(line, key)) {
                problems.push(format!(
                    "{}:{number}: {key} is what logs call theirs",
                    source.path
                ));
            }
        }
    }
    fail_if_any(&problems);
}
