//! Runs in which nothing goes wrong but one death of the control plane, so that whatever breaks is
//! due to it.

use anyhow::{Result, ensure};
use cospan_domain::acquisition::ReservationTerms;
use cospan_domain::reservation::StartWindow;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_simulator::call_faults::StoreDiskFaults;
use cospan_simulator::kill_switch::KillPoint;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::draw_reservations::add_reservations;
use super::run::{SeedVerdict, run};
use super::seed_scenario::{Kill, SeedScenario, UserAction};

/// Time during which an undisturbed run submits, and the latest time of the kill.
const LENGTH: DurationMs = DurationMs::from_secs(3_600);

/// A run without faults, and the moments at which the control plane can die in it.
#[derive(Debug)]
pub struct QuietRun {
    /// Name for people.
    pub name: &'static str,
    /// The verdict without a death.
    pub undisturbed: SeedVerdict,
    scenario: SeedScenario,
}

impl QuietRun {
    fn new(name: &'static str, scenario: SeedScenario) -> Result<Self> {
        let undisturbed = run(scenario.clone())?;
        let SeedVerdict {
            unsafe_, not_live, ..
        } = &undisturbed;
        ensure!(
            undisturbed.holds(),
            "{name}, without a death: {unsafe_:?} {not_live:?}"
        );
        Ok(Self {
            name,
            undisturbed,
            scenario,
        })
    }

    /// Plays jobs that are placed, run, restarted and cancelled.
    ///
    /// # Errors
    /// A rule is broken without any fault.
    pub fn of_jobs() -> Result<Self> {
        Self::new("jobs", quiet_scenario(3, 4, 2)?)
    }

    /// Plays jobs with reservations, each moved once: searches, reservations, moves, cancellations.
    ///
    /// # Errors
    /// A rule is broken without any fault.
    pub fn of_promises() -> Result<Self> {
        let mut quiet = quiet_scenario(5, 5, 3)?;
        add_reservations(&mut quiet, &mut StdRng::seed_from_u64(5));
        quiet.troubles.clear();
        move_all(&mut quiet);
        Self::new("promised starts", quiet)
    }

    /// Lists all moments: before and after each durable change, and each call to a site. Calls are
    /// fewer than changes: the last of these moments do not come.
    pub fn moments(&self) -> Vec<KillPoint> {
        let kinds: [fn(u64) -> KillPoint; 4] = [
            KillPoint::BeforeAppend,
            KillPoint::AfterAppend,
            KillPoint::BeforeCall,
            KillPoint::AfterCall,
        ];
        let numbers = 1..=self.undisturbed.changes;
        kinds
            .into_iter()
            .flat_map(|kind| numbers.clone().map(kind))
            .collect()
    }

    /// Plays the same run, in which the control plane dies then and starts again a second later.
    ///
    /// # Errors
    /// The simulation itself fails, or the store cannot be opened any more.
    pub fn with_death_at(&self, moment: KillPoint) -> Result<SeedVerdict> {
        let down = DurationMs(1_000);
        let kill = Kill {
            after: LENGTH,
            moment: Some(moment),
            down,
            clock_ahead_ms: 0,
        };
        run(SeedScenario {
            kills: vec![kill],
            ..self.scenario.clone()
        })
    }

    /// Returns true if the moment came.
    pub fn has_died(&self, verdict: &SeedVerdict) -> bool {
        verdict.control_plane_runs > self.undisturbed.control_plane_runs
    }
}

fn quiet_scenario(seed: u64, jobs: usize, sites: usize) -> Result<SeedScenario> {
    let mut quiet = SeedScenario::draw(seed, jobs, sites, LENGTH)?;
    quiet.fault_rates.faults.clear();
    quiet.fault_rates.failing_syncs = 0;
    quiet.fault_rates.disk = StoreDiskFaults::default();
    quiet.troubles.clear();
    quiet.cut_offs.clear();
    quiet.kills.clear();
    quiet.panics = None;
    quiet.stalls = None;
    Ok(quiet)
}

/// Gives each job a reservation in ten minutes, which is moved by two hours before that.
fn move_all(scenario: &mut SeedScenario) {
    let within = DurationMs::from_secs(3_600);
    let mut moves = Vec::new();
    for (at, action) in &scenario.actions {
        if let UserAction::Submit(number, _) = action {
            let soon = *at + DurationMs::from_secs(600);
            scenario.jobs[*number].rare_options.promised = Some(terms_from(soon, within));
            let later = Some(terms_from(soon + within + within, within));
            moves.push((
                *at + DurationMs::from_secs(120),
                UserAction::Promise(*number, later),
            ));
        }
    }
    scenario
        .actions
        .retain(|(_, action)| !matches!(action, UserAction::Promise(..)));
    scenario.actions.extend(moves);
    scenario.actions.sort_by_key(|(at, _)| *at);
}

fn terms_from(earliest: Timestamp, within: DurationMs) -> ReservationTerms {
    let window = StartWindow::new(earliest, earliest + within);
    ReservationTerms {
        window,
        tolerance: DurationMs::from_secs(60),
        ..Default::default()
    }
}
