//! Compares the stories of two worlds, and reports the differences.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use anyhow::Result;
use cospan_domain::ids::JobId;

use super::PlayedScenario;
use super::calls::CallCounts;
use super::differ_scenario::DifferScenario;
use super::job_history::{self, JobStory};

/// The number of things compared, and the differences.
#[derive(Debug)]
pub(super) struct WorldComparison {
    jobs: Vec<JobCount>,
    real_calls: CallCounts,
    simulated_calls: CallCounts,
    /// Sentences for people; empty if nothing differed.
    pub(super) differences: Vec<String>,
}

/// The number of journalled units of a job, in real time and simulated.
#[derive(Debug, Clone, Copy)]
struct JobCount {
    id: JobId,
    records: (usize, usize),
    units: (usize, usize),
}

impl WorldComparison {
    /// Compares two runs; `restarts` is true if the control plane was killed on the way.
    pub(super) fn compare_runs(
        real: &PlayedScenario,
        simulated: &PlayedScenario,
        restarts: bool,
    ) -> Self {
        let mut compared = Self {
            jobs: Vec::new(),
            real_calls: real.calls.clone(),
            simulated_calls: simulated.calls.clone(),
            differences: Vec::new(),
        };
        let ids =
            |played: &PlayedScenario| played.stories.iter().map(|s| s.job.id).collect::<Vec<_>>();
        compared.compare_values("jobs", &ids(real), &ids(simulated));
        let work = if restarts {
            CallCounts::work_across_restarts
        } else {
            CallCounts::comparable_calls
        };
        compared.compare_values("calls", &work(&real.calls), &work(&simulated.calls));
        for (real, simulated) in real.stories.iter().zip(&simulated.stories) {
            compared.compare_jobs(real, simulated);
        }
        compared
    }

    fn compare_values<T: PartialEq + fmt::Debug>(&mut self, what: &str, real: &T, simulated: &T) {
        if real != simulated {
            self.differences.push(format!(
                "{what}:\n      real      {real:?}\n      simulated {simulated:?}"
            ));
        }
    }

    fn compare_jobs(&mut self, real: &JobStory, simulated: &JobStory) {
        let id = real.job.id;
        self.jobs.push(JobCount {
            id,
            records: (real.events.len(), simulated.events.len()),
            units: (real.units, simulated.units),
        });
        // A history that was cut at its beginning would prove nothing.
        for (units, job) in [(real.units, &real.job), (simulated.units, &simulated.job)] {
            self.compare_values(
                &format!("job {id}, units kept"),
                &(units as u64 + 1),
                &job.revision,
            );
        }
        let records = (real.events.len(), simulated.events.len());
        self.compare_values(&format!("job {id}, records"), &records.0, &records.1);
        self.compare_lines(
            &format!("job {id}, record"),
            &job_history::record_lines(&real.job),
            &job_history::record_lines(&simulated.job),
        );
        let real = job_history::observer_views(real);
        let simulated = job_history::observer_views(simulated);
        let none = Vec::new();
        for name in real
            .keys()
            .chain(simulated.keys().filter(|name| !real.contains_key(*name)))
        {
            let seen =
                |views: &BTreeMap<String, Vec<String>>| views.get(name).unwrap_or(&none).clone();
            self.compare_lines(
                &format!("job {id} as seen by {name}"),
                &seen(&real),
                &seen(&simulated),
            );
        }
    }

    /// Reports the first line that differs.
    fn compare_lines(&mut self, what: &str, real: &[String], simulated: &[String]) {
        let longer = real.len().max(simulated.len());
        let Some(at) = (0..longer).find(|at| real.get(*at) != simulated.get(*at)) else {
            return;
        };
        let real = line_at(real, at);
        let simulated = line_at(simulated, at);
        self.differences.push(format!(
            "{what}, line {}:\n      real      {real}\n      simulated {simulated}",
            at + 1
        ));
    }
}

fn line_at(lines: &[String], at: usize) -> String {
    let before = at
        .checked_sub(1)
        .map_or("", |before| lines[before].as_str());
    let line = lines.get(at).map_or("nothing more", String::as_str);
    format!("{line}  (after {before:.60})")
}

/// Formats the result of a scenario.
pub(super) fn report(
    scenario: &DifferScenario,
    compared: &Result<WorldComparison>,
    times: u32,
) -> String {
    let number = scenario.number;
    let mut acts = scenario.acts.join(", ");
    if times > 1 {
        let _ = write!(acts, "; the machine stood still, played {times} times");
    }
    let compared = match compared {
        Ok(compared) => compared,
        Err(problem) => return format!("FAIL {number:2} {acts}\n    {problem:#}"),
    };
    let verdict = if compared.differences.is_empty() {
        "same"
    } else {
        "FAIL"
    };
    let mut text = format!("{verdict} {number:2} {acts}");
    for JobCount { id, records, units } in &compared.jobs {
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "\n    job {id}: records {} = {}, in units {} | {}",
            records.0, records.1, units.0, units.1
        );
    }
    let _ = write!(text, "\n    messages, real:      {}", compared.real_calls);
    let _ = write!(
        text,
        "\n    messages, simulated: {}",
        compared.simulated_calls
    );
    for difference in &compared.differences {
        let _ = write!(text, "\n  differs: {difference}");
    }
    text
}

/// The totals over all scenarios.
#[derive(Debug, Default)]
pub(super) struct Total {
    scenarios: usize,
    failed: usize,
    jobs: usize,
    records: (usize, usize),
    units: (usize, usize),
    messages: (u64, u64),
}

impl Total {
    pub(super) fn add(&mut self, compared: &Result<WorldComparison>) {
        self.scenarios += 1;
        let Ok(compared) = compared else {
            self.failed += 1;
            return;
        };
        self.failed += usize::from(!compared.differences.is_empty());
        self.jobs += compared.jobs.len();
        for job in &compared.jobs {
            self.records.0 += job.records.0;
            self.records.1 += job.records.1;
            self.units.0 += job.units.0;
            self.units.1 += job.units.1;
        }
        self.messages.0 += compared.real_calls.comparable_calls().values().sum::<u64>();
        self.messages.1 += compared
            .simulated_calls
            .comparable_calls()
            .values()
            .sum::<u64>();
    }

    pub(super) fn is_good(&self, scenarios: usize) -> bool {
        self.failed == 0 && self.scenarios == scenarios && self.jobs > 0
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = self.jobs.max(1) as f64;
        writeln!(
            f,
            "{} scenarios, {} differ, {} jobs",
            self.scenarios, self.failed, self.jobs
        )?;
        writeln!(f, "for each job:    real  simulated")?;
        let rows = [
            ("records", (self.records.0 as u64, self.records.1 as u64)),
            ("units", (self.units.0 as u64, self.units.1 as u64)),
            ("messages", self.messages),
        ];
        for (name, (real, simulated)) in rows {
            let real = real as f64 / jobs;
            let simulated = simulated as f64 / jobs;
            writeln!(f, "{name:<14} {real:6.2} {simulated:10.2}")?;
        }
        Ok(())
    }
}
