//! The plan file, as operators write it: the reader reads it as a whole, and reports all problems
//! at once.

use std::path::Path;

use cospan_domain::units::DurationMs;
use toml::de::{DeTable, DeValue};

use super::plan_check::{PlanBounds, PlanFlaw, find_plan_flaws};
use crate::config::ConfigProblems;
use crate::config::section::{Section, section};
use crate::config::table_reader::{OptionPlaces, TableReader, sub_tables};
use crate::config::value::{OptionValue, kind_of_value};
use cospan_api::v1::Length;
use cospan_api::v1::chaos::{ChaosPlan, InjectionPlan};

/// A share of calls; its bounds are checked with the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallShare(pub f64);

impl Eq for CallShare {}

impl OptionValue for CallShare {
    fn form() -> String {
        "a number above 0 and at most 1".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let number = match value {
            DeValue::Float(number) => number.as_str().parse(),
            DeValue::Integer(number) => number.as_str().parse(),
            other => {
                return Err(format!(
                    "{} where a number is expected",
                    kind_of_value(other)
                ));
            }
        };
        number
            .map(CallShare)
            .map_err(|_| format!("{} where a number is expected", kind_of_value(value)))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

section! {
    /// A fault, and the calls into which it is injected.
    Injection("inject" repeated) {
        /// The sites.
        "sites" => sites: Vec<String>, since "0.1.0";
        /// The fault.
        "fault" => fault: String, since "0.1.0";
        /// Kinds of calls. If there are none: all kinds that the fault can concern.
        "calls" => calls: Vec<String> = Vec::new(), since "0.1.0";
        /// Share of those calls that get the fault.
        "probability" => probability: CallShare = CallShare(1.0), since "0.1.0";
        /// Time from the start of the rehearsal to the start of the fault.
        "after" => after: Option<DurationMs> = None, since "0.1.0";
        /// Length of the fault; `none`: until the rehearsal ends.
        "lasting" => lasting: Option<DurationMs> = None, since "0.1.0";
        /// Delay of the answer; for `late` only.
        "delay" => delay: Option<DurationMs> = None, since "0.1.0";
    }
}

impl From<Injection> for InjectionPlan {
    fn from(read: Injection) -> Self {
        Self {
            sites: read.sites,
            fault: read.fault,
            calls: read.calls,
            probability: read.probability.0,
            after: read.after.map(Length),
            lasting: read.lasting.map(Length),
            delay: read.delay.map(Length),
        }
    }
}

/// Reads a plan. `file` appears in messages; `lasting` takes precedence over the plan's own value.
///
/// # Errors
///
/// All problems of the plan.
pub fn parse_plan(
    file: &Path,
    text: &str,
    lasting: Option<DurationMs>,
    grounds: &PlanBounds,
) -> Result<ChaosPlan, ConfigProblems> {
    let mut problems = ConfigProblems::of(file, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let remedy = "correct the TOML here; its rules are at https://toml.io";
        problems.add(error.span(), error.message(), remedy);
    }
    if !problems.is_empty() {
        // Further problems that follow from a syntax error would only hide it.
        return Err(problems.sorted());
    }
    let mut places = OptionPlaces::new();
    let root = root.get_ref();
    let title = "the plan".to_owned();
    let tables = sub_tables(root, Injection::KEY, &mut problems, &mut places);
    if tables.is_empty() && problems.is_empty() {
        problems.add(
            None,
            "the plan injects nothing",
            "add an [[inject]] with sites and a fault",
        );
    }
    let mut injections = Vec::new();
    for (index, (path, table)) in tables.into_iter().enumerate() {
        let title = format!("[[inject]] number {}", index + 1);
        let reader = TableReader::new(path, title, Some(table), &mut problems, &mut places);
        injections.extend(Injection::read(reader).map(|read| (index, read.into())));
    }
    let mut reader = TableReader::new(String::new(), title, Some(root), &mut problems, &mut places);
    let written = reader
        .read_option::<Option<DurationMs>>("for", Some(None))
        .flatten();
    let seed = reader
        .read_option::<Option<u64>>("seed", Some(None))
        .flatten();
    reader.check_keys(&["for", "seed", Injection::KEY]);
    let lasting = lasting.or(written).unwrap_or_default();
    for flaw in find_plan_flaws(lasting, &injections, grounds) {
        add_problem(&mut problems, &places, flaw);
    }
    if !problems.is_empty() {
        return Err(problems.sorted());
    }
    let inject = injections
        .into_iter()
        .map(|(_, injection)| injection)
        .collect();
    Ok(ChaosPlan {
        lasting: Length(lasting),
        seed,
        inject,
    })
}

/// Adds a flaw at the place of its key, else where its table or the first of several begins.
fn add_problem(problems: &mut ConfigProblems, places: &OptionPlaces, flaw: PlanFlaw) {
    let table = flaw
        .place
        .rsplit_once('.')
        .map(|(table, _)| table.to_owned());
    let root = format!(".{}", flaw.place);
    let first = format!("{}[0]", flaw.place);
    let known = [Some(flaw.place), Some(root), Some(first), table];
    let place = known
        .iter()
        .flatten()
        .find_map(|place| places.get(place))
        .cloned();
    problems.add(place, flaw.problem, flaw.remedy);
}
