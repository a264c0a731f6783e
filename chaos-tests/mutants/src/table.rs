//! Writes the page of the book about mutants.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;

use crate::hunt::{HuntResult, MutantFate};
use crate::listed::{Mutant, reason_beyond_seeds};
use crate::rewrite::Impossible;
use crate::{KnownMutants, is_killed};

/// The kind of survivors that no seed can find by its nature.
const NO_SEED: &str = "no seed can";
/// Kinds of survivors that neither tests nor seeds could find.
const BEYOND: [&str; 3] = [NO_SEED, "equivalent", "not used yet"];

/// Ways in which a mutant was found before any seed was tried.
const BY_TEST: &str = "a unit test";
const BY_SCENE: &str = "a scene goes otherwise";

/// A remark about a survivor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    /// For example equivalent, performance or gap.
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// Reads the remarks, by the key of their mutant.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_remarks(path: &Path) -> Result<BTreeMap<String, Remark>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(BTreeMap::new());
    };
    Ok(text
        .lines()
        .filter_map(|line: &str| {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            Some((
                parts.next()?,
                Remark {
                    kind: parts.next()?,
                    text: parts.next()?,
                },
            ))
        })
        .collect())
}

/// The outcomes of each mutant of the sample, setting by setting.
type Fates<'a> = BTreeMap<u32, Vec<&'a HuntResult>>;

/// Writes the page.
///
/// # Errors
/// Text cannot be written: never.
pub(crate) fn page(
    known: &KnownMutants,
    sample: &[u32],
    seed: u64,
    outcomes: &[HuntResult],
    remarks: &BTreeMap<String, Remark>,
) -> Result<String> {
    let all = sample.iter().map(|mutant| {
        let of_it = outcomes.iter().filter(|o| o.mutant == *mutant);
        (*mutant, of_it.collect::<Vec<_>>())
    });
    // The sample is in random order, so its beginning is a sample as well.
    let fates: Fates<'_> = all
        .take_while(|(_, outcomes)| !outcomes.is_empty())
        .collect();
    let mut page = include_str!("../planted/page.md").to_owned();
    write_counts(&mut page, known, fates.len(), seed)?;
    write_killed(&mut page, known, &fates, remarks)?;
    write_found_by(&mut page, &fates)?;
    survivors(&mut page, known, &fates, remarks)?;
    Ok(page)
}

fn write_counts(page: &mut String, known: &KnownMutants, sampled: usize, seed: u64) -> Result<()> {
    writeln!(page, "\n## What was tried\n\n| mutants | |\n|---|---|")?;
    writeln!(
        page,
        "| listed by cargo-mutants | {} |",
        known.mutants.len()
    )?;
    let constants = count_impossible(known, Impossible::Constant);
    writeln!(
        page,
        "| left out: constants, where no switch can be | {constants} |"
    )?;
    let unviable = known.unviable.len()
        + count_impossible(known, Impossible::Binds)
        + count_impossible(known, Impossible::NotFound);
    writeln!(page, "| unviable: they do not compile | {unviable} |")?;
    writeln!(page, "| planted | {} |", known.planted_mutants().len())?;
    writeln!(page, "| sampled (seed {seed}) | {sampled} |")?;
    Ok(())
}

fn count_impossible(known: &KnownMutants, why: Impossible) -> usize {
    known.impossible.values().filter(|is| **is == why).count()
}

/// Returns the broken rule and the seed that found the mutant, without names of jobs.
fn rule(fate: &MutantFate) -> Option<(String, u64)> {
    Some(match fate {
        MutantFate::UnitTest(_) => (BY_TEST.to_owned(), 0),
        MutantFate::Rule(seed, said) => (strip_job_names(said), *seed),
        MutantFate::Panic(seed, _) => ("a part of the control plane panicked".to_owned(), *seed),
        MutantFate::Timeout(seed) => ("the run did not end".to_owned(), *seed),
        MutantFate::Died(seed, _) => ("the process died".to_owned(), *seed),
        MutantFate::Survived | MutantFate::NotReached => return None,
    })
}

fn strip_job_names(said: &str) -> String {
    let known = [
        (BY_SCENE, BY_SCENE),
        ("makes no progress", "a job makes no progress"),
        ("never counted its error", "a charge was not counted"),
        (
            "pays for its own error",
            "a site pays for a job's own error",
        ),
        ("its record breaks", "a record breaks an invariant"),
        ("do not give its record", "events do not give the record"),
        (
            "was submitted twice",
            "a job was submitted twice under one key",
        ),
        ("was refused", "a job was refused"),
        (
            "goes round in circles",
            "the control plane goes round in circles",
        ),
        ("is not archived", "an ended job is not archived"),
        ("takes nothing", "a job is placed where nothing may be"),
        ("came to", "an answer is not so"),
        (
            "the simulator itself broke",
            "a part of the control plane panicked",
        ),
        ("older record", "a job went back to an older record"),
        (" led from ", "a transition that is not listed"),
        ("ended by itself", "the control plane ended by itself"),
        ("changes were not judged", "changes were not judged"),
        ("moved while we are", "a job is moved while we are cut off"),
        ("is done, but not so", "an answer is not so"),
        ("are listed", "an answer is not so"),
        ("after it was stopped", "an answer is not so"),
        ("refused at rest", "a job was refused"),
        (
            "the simulation panicked",
            "a part of the control plane panicked",
        ),
        ("nobody was told of the end", "nobody was told of an end"),
    ];
    let found = known
        .iter()
        .find(|(part, _)| said.contains(part))
        .map(|(_, name)| *name);
    found
        .unwrap_or_else(|| said.split(": ").next().unwrap_or(said))
        .to_owned()
}

fn has_survived(outcomes: &[&HuntResult]) -> bool {
    outcomes.iter().all(|outcome| !is_killed(&outcome.fate))
}

fn write_killed(
    page: &mut String,
    known: &KnownMutants,
    fates: &Fates<'_>,
    remarks: &BTreeMap<String, Remark>,
) -> Result<()> {
    let survivors: Vec<u32> = fates
        .iter()
        .filter(|(_, outcomes)| has_survived(outcomes))
        .map(|(number, _)| *number)
        .collect();
    let beyond = survivors.iter().filter(|number| {
        let mutant = known.mutants.get(*number);
        mutant.is_some_and(|mutant| BEYOND.contains(&explain_survivor(mutant, remarks).0))
    });
    let all = fates.len();
    let left = survivors.len();
    let beyond = beyond.count();
    let killed = all - left;
    let unreached = fates
        .values()
        .filter(|outcomes: &&Vec<&HuntResult>| {
            outcomes
                .iter()
                .all(|outcome| outcome.fate == MutantFate::NotReached)
        })
        .count();
    writeln!(
        page,
        "\n**{killed} of {all} were killed: {:.1} %.**",
        100.0 * killed as f64 / all.max(1) as f64
    )?;
    writeln!(
        page,
        "{left} survived; no seed ever came to {unreached} of these."
    )?;
    writeln!(
        page,
        "Of the killed, {} were found by unit tests, which are tried first, and {} by a scene, in \
         the first seed that came there; later ones were not tried.\n",
        count_found_by(fates, BY_TEST),
        count_found_by(fates, BY_SCENE)
    )?;
    let rest = all - beyond;
    writeln!(
        page,
        "Without the {beyond} survivors that neither tests nor seeds could find ({}),",
        BEYOND.join(", ")
    )?;
    writeln!(
        page,
        "{killed} of {rest} were killed: {:.1} %.",
        100.0 * killed as f64 / rest.max(1) as f64
    )?;
    Ok(())
}

fn count_found_by(fates: &Fates<'_>, what: &str) -> usize {
    let found = fates.values().filter(|outcomes| {
        let first = outcomes.iter().find_map(|o| rule(&o.fate));
        first.is_some_and(|(by, _)| by == what)
    });
    found.count()
}

fn write_found_by(page: &mut String, fates: &Fates<'_>) -> Result<()> {
    let mut rules: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for outcomes in fates.values() {
        let found = outcomes.iter().find_map(|outcome| rule(&outcome.fate));
        found
            .into_iter()
            .for_each(|(rule, seed)| rules.entry(rule).or_default().push(seed));
    }
    writeln!(
        page,
        "\n## By what\n\n| found by | mutants | median seed | last |\n|---|---|---|---|"
    )?;
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, seeds)| std::cmp::Reverse(seeds.len()));
    for (rule, mut seeds) in rules {
        seeds.sort_unstable();
        let median = seeds[seeds.len() / 2];
        let last = seeds[seeds.len() - 1];
        writeln!(page, "| {rule} | {} | {median} | {last} |", seeds.len())?;
    }
    Ok(())
}

/// Returns the kind of a survivor and the reason: from the remarks, or by its nature.
fn explain_survivor<'a>(
    mutant: &Mutant,
    remarks: &'a BTreeMap<String, Remark>,
) -> (&'a str, &'a str) {
    match (remarks.get(&mutant.key()), reason_beyond_seeds(mutant)) {
        (Some(remark), _) => (&remark.kind, &remark.text),
        (None, Some(reason)) => (NO_SEED, reason),
        (None, None) => ("not judged", ""),
    }
}

fn survivors(
    page: &mut String,
    known: &KnownMutants,
    fates: &Fates<'_>,
    remarks: &BTreeMap<String, Remark>,
) -> Result<()> {
    let mut rows: BTreeMap<(&String, usize, u32), (&Mutant, bool)> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, outcomes) in fates.iter().filter(|(_, outcomes)| has_survived(outcomes)) {
        let Some(mutant) = known.mutants.get(number) else {
            continue;
        };
        let reached = outcomes
            .iter()
            .any(|outcome| outcome.fate == MutantFate::Survived);
        rows.insert(
            (&mutant.file, mutant.span.start.line, *number),
            (mutant, reached),
        );
        *kinds
            .entry(explain_survivor(mutant, remarks).0)
            .or_default() += 1;
    }
    writeln!(page, "\n## Survivors\n\n| kind | mutants |\n|---|---|")?;
    for (kind, count) in kinds {
        writeln!(page, "| {kind} | {count} |")?;
    }
    writeln!(
        page,
        "\n| place | mutant | reached | kind | why |\n|---|---|---|---|---|"
    )?;
    for ((file, line, _), (mutant, reached)) in rows {
        let (kind, text) = explain_survivor(mutant, remarks);
        let what = mutant.change().replace('|', "\\|");
        let reached = if reached { "yes" } else { "no" };
        writeln!(
            page,
            "| {file}:{line} | `{what}` | {reached} | {kind} | {text} |"
        )?;
    }
    Ok(())
}
