//! Where something new is a folder or a file and a line: what a kind is called is known there, and to
//! nobody else.

use std::collections::BTreeSet;

use super::{fail_if_any, is_comment, sources};

/// A seam: words of single kinds, and where these may stand.
struct Seam {
    /// Words of kinds.
    words: &'static [&'static str],
    /// The sources that this is about, by the beginning of their path.
    about: &'static [&'static str],
    /// The folder or file of each kind, and the one with its line.
    homes: &'static [&'static str],
    /// Where to turn instead.
    instead: &'static str,
}

/// Every crate with a say in what users get.
const PRODUCT: &[&str] = &[
    "actors/",
    "api/",
    "client/",
    "domain/",
    "languages/",
    "printing/",
    "server/",
    "simulator/",
    "sites/",
    "src/",
    "storage/",
];

/// The demonstration starts clusters of its own.
const DEMONSTRATION: &str = "src/quickstart/";

const SEAMS: &[Seam] = &[
    Seam {
        words: &["sbatch", "SlurmSite", "slurm_site::"],
        about: &["server/", "src/"],
        homes: &["server/src/site_kinds/slurm/", DEMONSTRATION],
        instead: "ask server/src/site_kinds/mod.rs",
    },
    Seam {
        words: &["SiteKind::Slurm", "SiteKind::Local"],
        about: &["server/", "src/"],
        homes: &["server/src/site_kinds/"],
        instead: "ask server/src/site_kinds/mod.rs",
    },
    Seam {
        words: &["crate::sled", "crate::redb"],
        about: &["storage/"],
        homes: &["storage/src/directory_store/directory_engine.rs"],
        instead: "take the engine from directory_engine.rs",
    },
    Seam {
        words: &["LockedDirectory", "StoreMarker", "FloorFile"],
        about: &["storage/"],
        homes: &["storage/src/directory_store"],
        instead: "not every store is in a directory: this belongs to directory_store/",
    },
    Seam {
        words: &[
            "EngineKind",
            "DirectoryStore",
            "StoreOptions",
            "Engine::Sled",
            "Engine::Redb",
        ],
        about: &["actors/", "server/", "simulator/", "src/"],
        homes: &[
            "server/src/store_engines.rs",
            "server/src/config/sections/serving.rs",
        ],
        instead: "ask server/src/store_engines.rs for the store",
    },
    Seam {
        words: &[
            "SbatchScripts",
            "OwnJobFiles",
            "languages::sbatch",
            "languages::own",
        ],
        about: PRODUCT,
        homes: &[
            "languages/src/job_language.rs",
            "languages/src/sbatch/",
            "languages/src/own/",
        ],
        instead: "ask languages/src/job_language.rs",
    },
    Seam {
        words: &[
            "WorstFit",
            "CloseToFiles",
            "ClusterMinimization",
            "MultipleResources",
        ],
        about: PRODUCT,
        homes: &["domain/src/placement/policies/"],
        instead: "ask the policy, or find it by its name",
    },
    Seam {
        words: &["DefaultRunner", "ParallelRunner", "SweepRunner"],
        about: PRODUCT,
        homes: &["domain/src/runner/"],
        instead: "ask the runner, or find it by its name",
    },
    Seam {
        words: &[
            "\"request-lost\"",
            "\"reply-lost\"",
            "\"wrong-idle\"",
            "\"node-down\"",
        ],
        about: PRODUCT,
        homes: &["simulator/src/fault_kinds.rs"],
        instead: "take the kind of fault from simulator/src/fault_kinds.rs",
    },
];

/// Words that stand for something else, or are an example for people.
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    (
        "src/cli/args_job.rs",
        "sbatch",
        "the help on scripts that are submitted",
    ),
    (
        "api/src/v1/chaos.rs",
        "\"reply-lost\"",
        "an example in the description of the interface",
    ),
];

fn begins_with_any(path: &str, begins: &[&str]) -> bool {
    begins.iter().any(|begin| path.starts_with(begin))
}

#[test]
fn nothing_but_its_own_folder_and_one_list_knows_a_kind() {
    let mut problems = Vec::new();
    let mut found = BTreeSet::new();
    for source in sources() {
        for (number, line) in source.production() {
            if is_comment(line) {
                continue;
            }
            for seam in SEAMS {
                let Some(word) = seam.words.iter().find(|word| line.contains(**word)) else {
                    continue;
                };
                if !begins_with_any(&source.path, seam.about) {
                    continue;
                }
                found.insert((source.path.clone(), *word));
                let is_excused = EXCEPTIONS
                    .iter()
                    .any(|(path, what, _)| *path == source.path && what == word);
                if !is_excused && !begins_with_any(&source.path, seam.homes) {
                    let path = &source.path;
                    let instead = seam.instead;
                    problems.push(format!("{path}:{number}: {word}: {instead}"));
                }
            }
        }
    }
    for (path, word, _) in EXCEPTIONS {
        if !found.contains(&(path.to_owned(), word)) {
            problems.push(format!("{path}: {word} needs no exception any more"));
        }
    }
    for seam in SEAMS {
        let is_known = |home: &&&str| found.iter().any(|(path, _)| path.starts_with(**home));
        for home in seam.homes.iter().filter(|home| !is_known(home)) {
            problems.push(format!("{home}: no kind lives there any more"));
        }
    }
    fail_if_any(&problems);
}
