//! A kind of site is known to its own folder, and to nobody else.

use std::collections::BTreeSet;

use super::{fail_if_any, is_comment, sources};

/// Words of one kind.
const OF_SLURM: [&str; 3] = ["sbatch", "SlurmSite", "slurm_site::"];
const OF_KINDS: [&str; 2] = ["SiteKind::Slurm", "SiteKind::Local"];

/// Where each kind has its adapter.
const ADAPTERS: &str = "server/src/site_kinds/";
const OF_SLURM_ALONE: &str = "server/src/site_kinds/slurm/";

/// The demonstration starts clusters of its own.
const DEMONSTRATION: &str = "src/quickstart/";

/// Where words of Slurm stand for its job scripts, which are submitted to sites of all kinds.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "src/cli/args_job.rs",
    "sbatch",
    "the help on scripts that are submitted",
)];

/// The words that a file of the server or the command line may not have.
fn barred_words(path: &str) -> Vec<&'static str> {
    let is_concerned = path.starts_with("server/") || path.starts_with("src/");
    if !is_concerned || path.starts_with(DEMONSTRATION) || path.starts_with(OF_SLURM_ALONE) {
        Vec::new()
    } else if path.starts_with(ADAPTERS) {
        OF_SLURM.to_vec()
    } else {
        OF_SLURM.into_iter().chain(OF_KINDS).collect()
    }
}

#[test]
fn nothing_but_its_adapter_knows_a_kind_of_site() {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for source in sources() {
        let barred = barred_words(&source.path);
        for (number, line) in source.production() {
            let Some(word) = barred.iter().find(|word| line.contains(**word)) else {
                continue;
            };
            if is_comment(line) {
                continue;
            }
            let excused = EXCEPTIONS
                .iter()
                .any(|(path, what, _)| *path == source.path && what == word);
            needed.insert((source.path.clone(), *word));
            if !excused {
                problems.push(format!(
                    "{}:{number}: {word}: ask {ADAPTERS}mod.rs",
                    source.path
                ));
            }
        }
    }
    for (path, word, _) in EXCEPTIONS {
        if !needed.contains(&(path.to_owned(), word)) {
            problems.push(format!("{path}: {word} needs no exception any more"));
        }
    }
    fail_if_any(&problems);
}
