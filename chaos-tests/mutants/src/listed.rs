//! The list of `cargo mutants --list --json`, and the mutants in it that no seed can find.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: usize,
    /// Counted in characters.
    pub(crate) column: usize,
}

/// A range in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct SourceExtent {
    pub(crate) start: Position,
    /// The place behind the last character.
    pub(crate) end: Position,
}

/// The function around a mutant.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Function {
    /// The path, with the type it belongs to.
    pub(crate) function_name: String,
}

/// The kind of change to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Genre {
    /// A function's body becomes another value.
    FnValue,
    /// Another operator.
    BinaryOperator,
    /// An operator is removed.
    UnaryOperator,
    /// An arm of a match is removed.
    MatchArm,
    /// A guard of an arm always or never holds.
    MatchArmGuard,
    /// A field is left to the base of its struct.
    StructField,
}

/// A mutant as cargo-mutants lists it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Mutant {
    /// The change and its place: `file:line:column: what`.
    pub(crate) name: String,
    /// Relative to the workspace.
    pub(crate) file: String,
    /// None for constants.
    pub(crate) function: Option<Function>,
    /// The text that is replaced.
    pub(crate) span: SourceExtent,
    pub(crate) replacement: String,
    pub(crate) genre: Genre,
}

impl Mutant {
    /// Returns the change and its file without line and column: it survives edits elsewhere in the
    /// file.
    pub(crate) fn key(&self) -> String {
        let what = self.name.splitn(4, ':').nth(3).unwrap_or(&self.name);
        format!("{}:{what}", self.file)
    }

    /// Returns the change without the place.
    pub(crate) fn change(&self) -> &str {
        self.name.splitn(4, ':').nth(3).unwrap_or(&self.name).trim()
    }

    fn function_path(&self) -> &str {
        self.function
            .as_ref()
            .map_or("", |function| &function.function_name)
    }

    /// Returns the function's name without its type.
    fn method_name(&self) -> &str {
        self.function_path().rsplit("::").next().unwrap_or_default()
    }
}

/// Reads the list.
///
/// # Errors
/// It cannot be read, or is not what cargo-mutants writes.
pub(crate) fn read(path: &Path) -> Result<Vec<Mutant>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no list", path.display()))
}

type MutantFilter = fn(&Mutant) -> bool;

/// Mutants that no seed can find by its nature, each kind with the reason. They are tried all the
/// same, and count as survivors.
pub(crate) const BEYOND_SEEDS: [(&str, MutantFilter); 8] = [
    ("text for people: `Debug`, `Display`", |mutant| {
        ["Debug for", "Display for"]
            .iter()
            .any(|part| mutant.function_path().contains(part))
    }),
    ("words for logs, labels of metrics, and pages", |mutant| {
        let is_data = mutant.file == "domain/src/ids.rs";
        let names = [
            "as_str",
            "cause",
            "code",
            "kind",
            "kind_name",
            "outcome_label",
        ];
        !is_data && names.contains(&mutant.method_name())
    }),
    ("figures for operators, which decide nothing", |mutant| {
        let files = [
            "metrics.rs",
            "job/job_metrics.rs",
            "transfer/copy_metrics.rs",
        ];
        let names = ["show_metrics", "count_phases"];
        files
            .iter()
            .any(|file| mutant.file == format!("actors/src/{file}"))
            || names.contains(&mutant.method_name())
    }),
    ("answers that only the HTTP interface asks for", |mutant| {
        let asked = [
            "is_isolated",
            "job_owner",
            "preview_job",
            "copy_progress",
            "scan_store",
            "site_standing",
            "list_sites",
            "queue_standing",
            "store_size",
            "tag",
        ];
        mutant.file == "actors/src/coallocator/explain.rs"
            || mutant.file == "actors/src/api/handle.rs" && asked.contains(&mutant.method_name())
    }),
    (
        "checks of settings, before there is a control plane",
        |mutant| {
            let names = ["format_ratio", "validate", "odd_settings"];
            mutant.file.ends_with("parameters.rs") && names.contains(&mutant.method_name())
        },
    ),
    (
        "clocks of the machine, where virtual time is another",
        |mutant| {
            ["SystemClock", "SteadyClock"]
                .iter()
                .any(|clock| mutant.function_path().contains(clock))
        },
    ),
    (
        "the rules that oracles judge by, and nobody else reads",
        |mutant| {
            ["domain/src/invariants.rs", "domain/src/job/state_table.rs"]
                .contains(&mutant.file.as_str())
        },
    ),
    (
        "the planted bugs, crash points and their switches",
        |mutant| {
            [
                "domain/src/planted_bugs.rs",
                "actors/src/chaos.rs",
                "actors/src/chaos/chaos_points.rs",
            ]
            .contains(&mutant.file.as_str())
        },
    ),
];

/// Returns the reason why no seed can find this mutant.
pub(crate) fn reason_beyond_seeds(mutant: &Mutant) -> Option<&'static str> {
    BEYOND_SEEDS
        .iter()
        .find(|(_, holds)| holds(mutant))
        .map(|(reason, _)| *reason)
}
