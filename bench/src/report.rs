//! The one form in which all benches report.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

/// The target of a count of mistakes.
pub(super) const MUST_BE_NONE: &str = "0";

/// The report of a bench.
#[derive(Debug, Clone, Serialize)]
pub struct BenchReport {
    /// The name of the bench.
    pub bench: &'static str,
    /// Figures that were measured.
    pub figures: Vec<BenchFigure>,
    /// Floors: the most that the machine can do, measured in the same run.
    pub floors: Vec<BenchFigure>,
    /// The machine on which it ran, by property.
    pub machine: BTreeMap<String, String>,
}

/// A measured quantity.
#[derive(Debug, Clone, Serialize)]
pub struct BenchFigure {
    pub name: Cow<'static, str>,
    pub value: f64,
    pub unit: &'static str,
    /// The target value; empty if there is no target.
    pub target: &'static str,
}

impl BenchFigure {
    /// A figure, rounded to the digits that can be trusted.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        target: &'static str,
    ) -> Self {
        let name = name.into();
        Self {
            name,
            value: (value * 1_000.0).round() / 1_000.0,
            unit,
            target,
        }
    }
}

impl BenchReport {
    /// An empty report of a bench, with the machine filled in.
    pub(super) fn new(bench: &'static str) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let cpu = read_file("/proc/cpuinfo");
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let machine = [
            ("cores".to_owned(), cores.to_string()),
            (
                "processor".to_owned(),
                model.map_or_else(String::new, |(_, name)| name.to_owned()),
            ),
            (
                "kernel".to_owned(),
                read_file("/proc/sys/kernel/osrelease").trim().to_owned(),
            ),
            (
                "load_before".to_owned(),
                read_file("/proc/loadavg").trim().to_owned(),
            ),
        ];
        Self {
            bench,
            figures: Vec::new(),
            floors: Vec::new(),
            machine: machine.into(),
        }
    }

    pub(super) fn add_figure(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        target: &'static str,
    ) {
        self.figures
            .push(BenchFigure::new(name, value, unit, target));
    }

    /// Figures that count mistakes and are not zero.
    pub fn failed_figures(&self) -> Vec<&BenchFigure> {
        self.figures
            .iter()
            .filter(|figure: &&BenchFigure| figure.target == MUST_BE_NONE && figure.value != 0.0)
            .collect()
    }

    pub(super) fn add_floor(&mut self, name: &'static str, value: f64, unit: &'static str) {
        self.floors.push(BenchFigure::new(name, value, unit, ""));
    }
}

fn read_file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_must_be_none_is_a_mistake() {
        let mut report = BenchReport::new("sites");
        report.add_figure("slow", 9.0, "s", "<= 4");
        report.add_figure("jobs", 9.0, "jobs", "");
        report.add_figure("lost", 0.0, "jobs", MUST_BE_NONE);
        report.add_figure("doubled", 2.0, "jobs", MUST_BE_NONE);
        let made: Vec<&str> = report
            .failed_figures()
            .iter()
            .map(|figure| &*figure.name)
            .collect();
        assert_eq!(made, ["doubled"]);
    }
}
