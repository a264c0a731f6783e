//! Reports the progress of simulations on standard error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cospan_domain::units::DurationMs;

use crate::cli::print::{print_note, warning_word};
use cospan_printing::terminal;
use cospan_simulator::simulate::report::RunRecord;
use cospan_simulator::simulate::{RunName, RunNotes, RunWatcher, SimulationStudy};

/// Time between two updates of a terminal.
const LOOK: Duration = Duration::from_millis(200);
/// Time between two lines in a file that nobody watches.
const LINE: Duration = Duration::from_secs(10);
const DAY_MS: u64 = 86_400_000;

/// The progress of all runs.
pub(super) struct ProgressDisplay {
    terminal: bool,
    runs: usize,
    begun: Instant,
    state: Mutex<ProgressState>,
}

struct ProgressState {
    told: Instant,
    runs_ended: usize,
    jobs: usize,
    /// Number of jobs that have ended, by run.
    ended: BTreeMap<usize, usize>,
    said: BTreeSet<String>,
}

impl ProgressDisplay {
    /// Creates the display before any run begins.
    pub(super) fn new(study: &SimulationStudy) -> Self {
        let now = Instant::now();
        let state = ProgressState {
            told: now,
            runs_ended: 0,
            jobs: 0,
            ended: BTreeMap::new(),
            said: BTreeSet::new(),
        };
        Self {
            terminal: terminal::has_live_errors(),
            runs: study.seeds.len() * study.variants.len(),
            begun: now,
            state: Mutex::new(state),
        }
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress_line(&self, state: &ProgressState, passed: DurationMs) -> String {
        let ended: usize = state.ended.values().sum();
        let rate = ended as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        let day = passed.0 / DAY_MS;
        let jobs = state.jobs;
        let runs = match self.runs {
            1 => String::new(),
            runs => format!("{} of {runs} runs ended, ", state.runs_ended),
        };
        format!("{runs}day {day}: {ended} of {jobs} jobs ended, {rate:.0} jobs/s")
    }

    /// Prints a line that stays.
    fn print_line(&self, text: &str) {
        let clear = if self.terminal {
            terminal::clear_line()
        } else {
            ""
        };
        print_note(&format!("{clear}{text}"));
    }
}

impl RunWatcher for ProgressDisplay {
    fn run_begins(&self, run: &RunName, notes: &RunNotes) {
        let mut state = self.lock_state();
        state.jobs += notes.jobs;
        state.ended.insert(run.index, 0);
        let of = match self.runs {
            1 => String::new(),
            _ => format!("{}, seed {}: ", run.label, run.seed),
        };
        // Notes that are the same for all runs are printed once.
        for line in notes.to_lines() {
            if state.said.insert(line.clone()) {
                match line.strip_prefix(' ') {
                    Some(_) => self.print_line(&line),
                    None => self.print_line(&format!("{}: {of}{line}", warning_word())),
                }
            }
        }
    }

    fn run_goes_on(&self, run: &RunName, passed: DurationMs, jobs_ended: usize) {
        let mut state = self.lock_state();
        state.ended.insert(run.index, jobs_ended);
        let pause = if self.terminal { LOOK } else { LINE };
        if state.told.elapsed() < pause {
            return;
        }
        state.told = Instant::now();
        let line = self.progress_line(&state, passed);
        if self.terminal {
            terminal::print_error(&format!("{}{line}", terminal::clear_line()));
        } else {
            self.print_line(&line);
        }
    }

    fn run_ends(&self, run: &RunName, record: &RunRecord) {
        let mut state = self.lock_state();
        state.runs_ended += 1;
        state.ended.insert(run.index, record.jobs.len());
        let days = record.ended.since(record.began).0 as f64 / DAY_MS as f64;
        let took = self.begun.elapsed().as_secs_f64();
        let RunName { label, seed, .. } = run;
        self.print_line(&format!(
            "{label}, seed {seed}: {} jobs, {days:.1} simulated days; {} of {} runs after {took:.1} s",
            record.jobs.len(),
            state.runs_ended,
            self.runs,
        ));
    }
}
