//! The copy of the sources that holds every mutant, and what its compiler says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::listed::Mutant;
use crate::places;
use crate::rewrite::{Impossible, Rewriting, check_switchable};

/// Finds arithmetic overflow like a test build; optimised for a fast build, not for a fast program.
const PROFILE: &str = "
[profile.release.package.cospan-domain]
overflow-checks = true
debug-assertions = true

[profile.release.package.cospan-actors]
overflow-checks = true
debug-assertions = true
opt-level = 1
debug = false

[profile.release.package.cospan-chaos-tests]
opt-level = 2
debug = false
";

/// A copy of the work tree.
pub(crate) struct TreeCopy {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

/// The mutants and errors that the compiler complains about.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Mutants that do not compile.
    pub(crate) mutants: BTreeSet<u32>,
    /// Errors that belong to no mutant.
    pub(crate) others: Vec<String>,
}

impl TreeCopy {
    /// Says for some of these mutants why they cannot have a switch.
    ///
    /// # Errors
    /// A source cannot be read.
    pub(crate) fn impossible(
        tree: &Path,
        mutants: &BTreeMap<u32, Mutant>,
    ) -> Result<BTreeMap<u32, Impossible>> {
        let mut found = BTreeMap::new();
        for file in files(mutants) {
            let places = places::find(&std::fs::read_to_string(tree.join(file))?)?;
            for (number, mutant) in mutants.iter().filter(|(_, mutant)| mutant.file == *file) {
                if let Err(why) = check_switchable(&places, mutant) {
                    found.insert(*number, why);
                }
            }
        }
        Ok(found)
    }

    /// Writes the copy again, with those of the listed mutants that are to be planted.
    ///
    /// # Errors
    /// Files cannot be read or written.
    pub(crate) fn write(
        &self,
        tree: &Path,
        listed: &BTreeMap<u32, Mutant>,
        planted: &BTreeSet<u32>,
    ) -> Result<()> {
        for file in files(listed) {
            let source = std::fs::read_to_string(tree.join(file))?;
            let is_here =
                |number: &u32, mutant: &Mutant| mutant.file == *file && planted.contains(number);
            let here = listed
                .iter()
                .filter(|(number, mutant)| is_here(number, mutant));
            let rewriting = Rewriting::new(
                &places::find(&source)?,
                here.map(|(number, m)| (*number, m)),
            );
            self.write_if_changed(file, &rewriting.apply(&source))?;
        }
        let switch = include_str!("../planted/mutant_switch.rs");
        let count = listed.len().to_string();
        self.write_if_changed(
            "domain/src/mutant_switch.rs",
            &switch.replace("NUMBER_OF_MUTANTS", &count),
        )?;
        let runner = include_str!("../planted/mutant_seeds.rs");
        self.write_if_changed("chaos-tests/src/bin/mutant_seeds.rs", runner)?;
        let library = std::fs::read_to_string(tree.join("domain/src/lib.rs"))?;
        let switched = "pub mod mutant_switch;\nextern crate self as cospan_domain;\n";
        self.write_if_changed("domain/src/lib.rs", &format!("{library}\n{switched}"))?;
        let manifest = std::fs::read_to_string(tree.join("Cargo.toml"))?;
        self.write_if_changed("Cargo.toml", &format!("{manifest}\n{PROFILE}"))
    }

    fn write_if_changed(&self, file: &str, text: &str) -> Result<()> {
        let path = self.root.join(file);
        if std::fs::read_to_string(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Builds the program that runs seeds, or returns what the compiler complains about.
    ///
    /// # Errors
    /// Cargo cannot be run.
    pub(crate) fn build(&self) -> Result<Refused> {
        let output = Command::new("cargo")
            .args(["build", "--release", "-j1", "--message-format=json"])
            .args([
                "-p",
                "cospan-chaos-tests",
                "--bin",
                "mutant_seeds",
                "--target-dir",
            ])
            .arg(&self.target)
            .env("RUSTFLAGS", "--cfg cospan_chaos --cap-lints allow")
            .current_dir(&self.root)
            .stderr(Stdio::null())
            .output()
            .context("cannot run cargo")?;
        let mut refused = Refused::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let told: Value = serde_json::from_str(line)?;
            if told["reason"] == "compiler-message" && told["message"]["level"] == "error" {
                self.read_compiler_message(&told["message"], &mut refused)?;
            }
        }
        ensure!(
            output.status.success() || !refused.mutants.is_empty() || !refused.others.is_empty(),
            "cargo build failed without a word: run it in {}",
            self.root.display()
        );
        Ok(refused)
    }

    /// Builds the unit tests of the mutated packages and returns their programs.
    ///
    /// # Errors
    /// They do not compile.
    pub(crate) fn build_tests(&self) -> Result<Vec<PathBuf>> {
        let output = Command::new("cargo")
            .args([
                "test",
                "--release",
                "--no-run",
                "--lib",
                "--message-format=json",
            ])
            .args(["-p", "cospan-domain", "-p", "cospan-actors", "--target-dir"])
            .arg(&self.target)
            .env("RUSTFLAGS", "--cfg cospan_chaos --cap-lints allow")
            .current_dir(&self.root)
            .stderr(Stdio::null())
            .output()
            .context("cannot run cargo")?;
        ensure!(
            output.status.success(),
            "the unit tests of the copy do not compile"
        );
        let mut programs = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let told: Value = serde_json::from_str(line)?;
            if told["profile"]["test"] == true && told["executable"].is_string() {
                programs.extend(told["executable"].as_str().map(PathBuf::from));
            }
        }
        Ok(programs)
    }

    fn read_compiler_message(&self, message: &Value, refused: &mut Refused) -> Result<()> {
        let Some(spans) = message["spans"].as_array() else {
            return Ok(());
        };
        let primary = spans.iter().filter(|span| span["is_primary"] == true);
        let ordered = primary.chain(spans.iter().filter(|span| span["is_primary"] != true));
        let mut blamed = None;
        for span in ordered {
            let (Some(file), Some(at)) = (span["file_name"].as_str(), span["byte_start"].as_u64())
            else {
                continue;
            };
            let Ok(text) = std::fs::read_to_string(self.root.join(file)) else {
                continue;
            };
            blamed = blamed.or_else(|| innermost(&text, usize::try_from(at).unwrap_or(usize::MAX)));
        }
        match blamed {
            Some(mutant) => drop(refused.mutants.insert(mutant)),
            None if spans.is_empty() => {}
            None => refused
                .others
                .push(message["rendered"].as_str().unwrap_or("").to_owned()),
        }
        Ok(())
    }
}

fn files(mutants: &BTreeMap<u32, Mutant>) -> BTreeSet<&String> {
    mutants.values().map(|mutant| &mutant.file).collect()
}

/// Returns the innermost mutant around this byte.
fn innermost(text: &str, at: usize) -> Option<u32> {
    let mut open = Vec::new();
    let mut from = 0;
    while let Some(found) = text.get(from..)?.find("/*").map(|found| from + found) {
        if found >= at {
            break;
        }
        let end = found + text[found..].find("*/")? + 2;
        let inner = &text[found + 2..end - 2];
        if let Some(number) = inner.strip_prefix('<').and_then(|n| n.parse::<u32>().ok()) {
            open.push(number);
        } else if inner
            .strip_suffix('>')
            .is_some_and(|n| n.parse::<u32>().is_ok())
        {
            open.pop();
        }
        from = end;
    }
    open.pop()
}
