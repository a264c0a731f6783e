//! The blocks of the README, exactly as they stand there.

use super::newcomer::Newcomer;

fn blocks() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let blocks = readme.split("```sh\n").skip(1);
    blocks
        .filter_map(|rest| rest.split_once("```").map(|(block, _)| block))
        .collect()
}

/// It builds this program from its source, which needs more than an empty directory.
fn builds(block: &&str) -> bool {
    block.lines().any(|line| line.starts_with("cargo "))
}

#[test]
fn every_block_of_the_readme_works_when_it_is_pasted_whole() {
    let (building, pasted): (Vec<&str>, Vec<&str>) = blocks().into_iter().partition(builds);
    assert!(
        building.len() <= 2 && pasted.len() >= 2,
        "{} and {}",
        building.len(),
        pasted.len()
    );
    let user = Newcomer::new();
    for block in pasted {
        user.must(block);
    }
    let sum = |component: &str| {
        let file = format!("cospan/results/{component}/sum.txt");
        std::fs::read_to_string(user.home().join(file)).unwrap()
    };
    assert_eq!(sum("north"), sum("south"));
    assert!(sum("north").ends_with(" 3000000\n"), "{}", sum("north"));
    for file in ["report.html", "jobs.csv", "grid.toml"] {
        assert!(user.home().join("simulation").join(file).exists(), "{file}");
    }
}

/// Pasted into zsh, `#` begins no comment, and everything after it is an argument.
#[test]
fn no_block_of_the_readme_has_a_comment() {
    let blocks = blocks();
    assert!(blocks.len() >= 4);
    for line in blocks.iter().flat_map(|block| block.lines()) {
        assert!(!line.contains(" #") && !line.starts_with('#'), "{line}");
    }
}

#[test]
fn the_addresses_that_quickstart_prints_answer() {
    let user = Newcomer::new();
    let said = user.must("cospan quickstart --keep --directory ~/quick -o json");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let server = report["server"].as_str().unwrap();
    let config = format!("export COSPAN_CONFIG=~/quick/cospan.toml COSPAN_SERVER={server}");
    let listed = user.must(&format!(
        "{config}\ncospan list -o json && cospan site list"
    ));
    assert!(listed.contains("\"finished\""), "{listed}");
    user.must(&format!("{config}\ncospan stop"));
}
