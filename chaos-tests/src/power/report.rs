//! The outcomes of power cuts, and their report.

use std::fmt;
use std::time::Duration;

use super::PowerStage;
use super::series::Series;
use crate::kills::percentile_ms;

/// The outcome of one cut.
#[derive(Debug, Clone)]
pub struct CutResult {
    /// The work under way at the cut.
    pub stage: PowerStage,
    /// Time from the cut to a server that takes work; `None`: it did not start.
    pub restart: Option<Duration>,
    /// Sites that took no work.
    pub unusable: Vec<String>,
    /// Things that were reported as done and are lost.
    pub lost: Vec<String>,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct PowerRunResult {
    pub cuts: Vec<CutResult>,
    /// Failures of the whole, or of a disk that could not be worked on.
    pub broken: Vec<String>,
    /// Numbers of jobs, keys, uploads and exports that were reported as done.
    pub told: [usize; 4],
    pub took: Duration,
}

impl CutResult {
    /// Lists what was found wrong.
    pub fn problems(&self) -> Vec<&String> {
        self.unusable.iter().chain(&self.lost).collect()
    }
}

impl fmt::Display for CutResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restart = match self.restart {
            Some(restart) => format!("ready after {} ms", restart.as_millis()),
            None => "IT DOES NOT START".to_owned(),
        };
        write!(f, "{}: {restart}", self.stage)?;
        self.problems()
            .iter()
            .try_for_each(|problem| write!(f, "; {problem}"))
    }
}

impl PowerRunResult {
    /// Adds the outcome of a series.
    pub(super) fn add(&mut self, series: Series<'_>) {
        self.cuts.extend(series.cuts);
        self.broken.extend(series.broken);
        (0..self.told.len()).for_each(|at| self.told[at] += series.told[at]);
    }

    /// Returns true if the run shows what it was to show.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty()
            && self
                .cuts
                .iter()
                .all(|cut: &CutResult| cut.restart.is_some() && cut.problems().is_empty())
    }

    /// Formats the outcome for people.
    pub fn report(&self) -> String {
        let mut text = format!(
            "{:14}{:>6}{:>9}{:>14}{:>14}\n",
            "cut during", "cuts", "started", "sites usable", "nothing lost"
        );
        for stage in PowerStage::ALL {
            let cuts: Vec<&CutResult> = self.cuts.iter().filter(|cut| cut.stage == stage).collect();
            text += &format_row(&stage.to_string(), &cuts);
        }
        text += &format_row("all", &self.cuts.iter().collect::<Vec<_>>());
        let mut restarts: Vec<Duration> = self.cuts.iter().filter_map(|cut| cut.restart).collect();
        restarts.sort();
        let [jobs, keys, uploads, exports] = self.told;
        text += &format!(
            "start to ready: p50 {} ms, p90 {} ms, max {} ms\n\
             acknowledged: {jobs} jobs, {keys} keys, {uploads} uploads, {exports} exports\n\
             took {:.1} s\n",
            percentile_ms(&restarts, 50),
            percentile_ms(&restarts, 90),
            percentile_ms(&restarts, 100),
            self.took.as_secs_f64()
        );
        for cut in &self.cuts {
            for problem in cut.problems() {
                text += &format!("BROKEN by a cut during {}: {problem}\n", cut.stage);
            }
        }
        self.broken
            .iter()
            .for_each(|broken| text += &format!("BROKEN {broken}\n"));
        text
    }
}

fn format_row(name: &str, cuts: &[&CutResult]) -> String {
    let all = cuts.len();
    let restarted = cuts.iter().filter(|cut| cut.restart.is_some());
    let started = restarted.clone().count();
    let usable = restarted.clone().filter(|cut| cut.unusable.is_empty());
    let usable = usable.count();
    let kept = restarted.filter(|cut| cut.lost.is_empty()).count();
    format!("{name:14}{all:>6}{started:>9}{usable:>14}{kept:>14}\n")
}
