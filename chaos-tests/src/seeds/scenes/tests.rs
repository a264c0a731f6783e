//! Scenes against their transcripts.

use std::path::PathBuf;

use expect_test::expect_file;

use super::*;

#[test]
fn each_scene_goes_as_its_transcript_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenes");
    let mut names = Vec::new();
    let mut broken = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        if !script::needs_panics(&text) || cfg!(cospan_chaos) {
            match script::play_file(&text) {
                Ok(played) => expect_file![path].assert_eq(&played),
                Err(problem) => broken.push(format!("{name}: {problem:#}")),
            }
        }
        names.push(name);
    }
    assert_eq!(broken, Vec::<String>::new());
    names.sort();
    let listed: Vec<&str> = TEXTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, names, "seeds play other scenes");
}

#[test]
fn a_transcript_that_is_not_what_happened_is_noticed() {
    let text = "given sites amsterdam 4\nsubmit 4 for 1s\n  00:00:00.000  = job 2\n";
    assert!(other_line(text).is_some());
}

#[test]
fn requests_that_come_together_go_as_they_were_worked_out() {
    for seed in 0..12 {
        let mut chance = StdRng::seed_from_u64(seed);
        let found = together::play_together(&mut chance).unwrap();
        assert_eq!(found, Vec::<String>::new(), "seed {seed}");
    }
}
