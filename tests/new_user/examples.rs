//! Every file in `examples/` runs.

use std::collections::BTreeSet;
use std::path::Path;

use super::newcomer::Newcomer;

/// What each is run with, in this order. The server is that of the first.
const RUNS: [(&str, &str); 6] = [
    (
        "cospan.toml",
        "cospan config check && cospan serve --background",
    ),
    (
        "wave.toml",
        "cospan submit wave.toml --wait && cospan output last --to wave",
    ),
    ("sweep.toml", "cospan submit sweep.toml --wait"),
    ("flexible.toml", "cospan submit flexible.toml --wait"),
    (
        "script.sh",
        "cospan submit script.sh --wait && cospan logs last",
    ),
    (
        "grid.toml",
        "cospan simulate grid.toml --model lublin --jobs 20",
    ),
];

#[test]
fn every_file_among_the_examples_runs() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let user = Newcomer::new();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(&examples).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = std::fs::read_to_string(examples.join(&name)).unwrap();
        // Others may run the examples where they are meant to be run.
        let text = text.replace("/var/tmp/cospan", &user.home().display().to_string());
        std::fs::write(user.home().join(&name), text).unwrap();
        found.insert(name);
    }
    let known: BTreeSet<String> = RUNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let known: BTreeSet<String> = known.into_iter().chain(["README.md".into()]).collect();
    assert_eq!(found, known);
    let mut said = String::new();
    for (name, run) in RUNS {
        said = user.must(&format!("export COSPAN_CONFIG=$PWD/cospan.toml\n{run}")) + &said;
        let listed = include_str!("../../examples/README.md").contains(&format!("[{name}]"));
        assert!(listed, "{name} is not in examples/README.md");
    }
    assert!(said.contains("count has 2 tasks"), "{said}");
    assert!(user.home().join("wave/south/where.txt").exists());
}
