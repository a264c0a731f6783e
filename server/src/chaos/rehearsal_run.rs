//! The stage runs one rehearsal at a time: it injects the faults, follows their effects on the
//! control plane, and makes sure that they end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_actors::api::ControlPlane;
use cospan_actors::commits::CommittedChange;
use cospan_domain::ids::{KeyName, SiteName};
use cospan_sites::faulty_site::FaultSwitch;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tracing::{info, warn};

use super::plan_check::{PlanBounds, PlanFlaw, find_plan_flaws};
use super::rehearsal::{Rehearsal, RehearsalEnd};
use super::rehearsal_metrics::ChaosMetrics;
use super::rehearsals::{FaultHandles, RehearsalLimits, RehearsalRefusal};
use cospan_api::v1::Length;
use cospan_api::v1::chaos::{
    ChaosPlan, ChaosReport, ChaosStatus, InjectionPlan, RehearsalReport, StrikeReport,
};

/// Time between two looks at the rehearsal, and at what has not recovered yet.
const LOOK: Duration = Duration::from_millis(500);
/// Number of looks between two lines in the log while faults are injected.
const LOOKS_A_LINE: u64 = 60;

/// The wrapped sites, and the rehearsal at them.
pub(super) struct RehearsalController {
    plane: ControlPlane,
    faults: FaultHandles,
    limits: RehearsalLimits,
    metrics: ChaosMetrics,
    /// The running rehearsal, or the latest one.
    latest: Mutex<Option<Rehearsal>>,
}

impl RehearsalController {
    pub(super) fn new(
        plane: ControlPlane,
        faults: FaultHandles,
        limits: RehearsalLimits,
        metrics: ChaosMetrics,
    ) -> Self {
        Self {
            plane,
            faults,
            limits,
            metrics,
            latest: Mutex::new(None),
        }
    }

    pub(super) fn subscribe(&self) -> Receiver<CommittedChange> {
        self.plane.subscribe_to_changes()
    }

    /// Ends the running rehearsal at somebody's request.
    pub(super) fn stop_rehearsal(&self, by: KeyName) -> Result<ChaosReport, RehearsalRefusal> {
        let mut latest = self.lock_latest();
        let running = latest
            .as_mut()
            .filter(|rehearsal| rehearsal.ended.is_none());
        let rehearsal = running.ok_or(RehearsalRefusal::None)?;
        self.end_rehearsal(rehearsal, Some(by));
        Ok(self.build_report(rehearsal))
    }

    pub(super) fn report_latest(&self) -> Result<ChaosReport, RehearsalRefusal> {
        let mut latest = self.lock_latest();
        let rehearsal = latest.as_mut().ok_or(RehearsalRefusal::None)?;
        // Updated, unless the rehearsal is over and everything has recovered: then the report stays
        // as it was.
        if rehearsal.recovered_at.is_none() {
            self.update_counts(rehearsal);
        }
        Ok(self.build_report(rehearsal))
    }

    pub(super) fn faults_at(&self, site: &str) -> Vec<&'static str> {
        let latest = self.lock_latest();
        let now = self.plane.now();
        latest
            .as_ref()
            .map(|one| one.faults_at(site, now))
            .unwrap_or_default()
    }

    fn lock_latest(&self) -> MutexGuard<'_, Option<Rehearsal>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current_plan_bounds(&self) -> PlanBounds {
        let count = self.faults.len();
        let share = count * self.limits.max_sites_percent as usize / 100;
        PlanBounds {
            sites: self.faults.keys().map(SiteName::to_string).collect(),
            max_duration: self.limits.max_duration,
            max_sites: u32::try_from(share.max(1)).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn current_status(&self) -> ChaosStatus {
        let PlanBounds {
            sites,
            max_duration,
            max_sites,
        } = self.current_plan_bounds();
        let latest = self.lock_latest();
        let running = latest
            .as_ref()
            .filter(|rehearsal| rehearsal.ended.is_none());
        let rehearsal = running.map(|rehearsal| rehearsal.report(self.plane.now()));
        let max_duration = Length(max_duration);
        ChaosStatus {
            allowed: true,
            max_duration,
            max_sites,
            sites,
            rehearsal,
        }
    }

    pub(super) fn prepare_rehearsal(
        &self,
        by: KeyName,
        plan: &ChaosPlan,
    ) -> Result<Rehearsal, RehearsalRefusal> {
        let numbered: Vec<(usize, InjectionPlan)> =
            plan.inject.iter().cloned().enumerate().collect();
        let mut flaws = find_plan_flaws(plan.lasting.0, &numbered, &self.current_plan_bounds());
        if plan.inject.is_empty() {
            flaws.push(PlanFlaw {
                place: "inject".into(),
                problem: "the plan injects nothing".into(),
                remedy: "give at least one fault".into(),
            });
        }
        if !flaws.is_empty() {
            return Err(RehearsalRefusal::Plan(flaws));
        }
        let seed = plan.seed.unwrap_or_else(draw_seed);
        Ok(Rehearsal::new(plan, seed, by, self.plane.now()))
    }

    pub(super) fn start_rehearsal(
        &self,
        mut rehearsal: Rehearsal,
    ) -> Result<(u64, RehearsalReport), RehearsalRefusal> {
        let mut latest = self.lock_latest();
        if let Some(other) = latest.as_ref().filter(|other| other.ended.is_none()) {
            return Err(RehearsalRefusal::Busy {
                by: other.by.to_string(),
                ends_at: other.ends_at,
            });
        }
        rehearsal.number = latest.as_ref().map_or(1, |other| other.number + 1);
        rehearsal.charged_before = self
            .faults
            .keys()
            .map(|site| (site.clone(), self.charged_errors(site)))
            .collect();
        let instant = Instant::now();
        for (site, faults) in &self.faults {
            faults.inject_faults(rehearsal.injections_at(site, instant));
        }
        self.update_counts(&mut rehearsal);
        let report = rehearsal.report(rehearsal.begun_at);
        warn!(
            by = %rehearsal.by,
            sites = ?rehearsal.rehearsed_sites(),
            seed = report.seed,
            ends_at = %report.ends_at,
            faults = %rehearsal.format_faults(),
            "FAULTS ARE BEING INJECTED ON PURPOSE"
        );
        let number = rehearsal.number;
        *latest = Some(rehearsal);
        Ok((number, report))
    }

    fn charged_errors(&self, site: &SiteName) -> u64 {
        let errors = &self.plane.shared().metrics.site_errors;
        errors.with_label_values(&[site.as_str()]).get()
    }

    /// Ends a rehearsal: no fault is injected any more, and frozen calls continue.
    fn end_rehearsal(&self, rehearsal: &mut Rehearsal, by: Option<KeyName>) {
        self.faults.values().for_each(FaultSwitch::lift_all_faults);
        // No fault was injected after its end, however late the end is noticed.
        let at = self.plane.now().min(rehearsal.ends_at);
        let who = by.as_ref().map_or("its time was over", KeyName::as_str);
        let who = who.to_owned();
        rehearsal.ended = Some(RehearsalEnd { at, by });
        self.update_counts(rehearsal);
        warn!(by = %who, struck = %rehearsal.format_injected(), "no more faults are injected");
    }

    /// Updates metrics and effects.
    fn update_counts(&self, rehearsal: &mut Rehearsal) {
        let now = self.plane.now();
        self.metrics.active.set(rehearsal.count_active(now) as i64);
        for (site, faults) in &self.faults {
            let mut strikes: BTreeMap<&'static str, u64> = BTreeMap::new();
            for ((kind, _), tally) in faults.tallies() {
                *strikes.entry(kind).or_default() += tally.strikes;
            }
            for (kind, count) in strikes {
                let counted = rehearsal.counted.entry((site.clone(), kind)).or_default();
                let counter = self
                    .metrics
                    .strikes
                    .with_label_values(&[site.as_str(), kind]);
                counter.inc_by(count.saturating_sub(*counted));
                *counted = count;
            }
        }
        rehearsal.deeds.isolated |= self.plane.is_isolated();
        for site in self.plane.list_sites() {
            let before = rehearsal
                .charged_before
                .get(&site.name)
                .copied()
                .unwrap_or(0);
            let charged = self.charged_errors(&site.name).saturating_sub(before);
            rehearsal
                .deeds
                .record_state(&site.name, site.state.as_str(), charged, now);
        }
    }

    /// Lists what is not well yet, at the sites of the rehearsal and with jobs.
    fn list_not_recovered(&self, rehearsal: &Rehearsal) -> Vec<String> {
        const WELL: [&str; 5] = ["usable", "draining", "drained", "maintenance", "frozen"];
        let struck = rehearsal.rehearsed_sites();
        let sites = self.plane.list_sites().into_iter();
        let ill = sites.filter(|site| struck.contains(&site.name));
        let ill = ill.filter(|site| !WELL.contains(&site.state.as_str()));
        let mut found: Vec<String> = ill
            .map(|site| format!("site {} is {}", site.name, site.state.as_str()))
            .collect();
        match rehearsal.deeds.count_set_back() {
            0 => {}
            1 => found.push("one job whose round was given up has not begun again".into()),
            jobs => found.push(format!(
                "{jobs} jobs whose round was given up have not begun again"
            )),
        }
        found
    }

    fn build_report(&self, rehearsal: &Rehearsal) -> ChaosReport {
        let strikes = self.faults.iter().flat_map(|(site, faults)| {
            faults
                .tallies()
                .into_iter()
                .map(|((fault, call), tally)| StrikeReport {
                    site: site.to_string(),
                    fault: fault.to_owned(),
                    call: call.as_str().to_owned(),
                    calls: tally.calls,
                    strikes: tally.strikes,
                })
        });
        let well = rehearsal.recovered_at.is_some();
        ChaosReport {
            rehearsal: rehearsal.report(self.plane.now()),
            strikes: strikes.collect(),
            sites: rehearsal.deeds.sites(),
            jobs: rehearsal.deeds.jobs.clone(),
            isolated: rehearsal.deeds.isolated,
            changes_missed: rehearsal.deeds.changes_missed,
            recovered_at: rehearsal.recovered_at.map(Into::into),
            not_recovered: if well {
                Vec::new()
            } else {
                self.list_not_recovered(rehearsal)
            },
        }
    }

    /// Handles a change. Returns false if the watch should end.
    fn handle_change(&self, number: u64, change: Result<CommittedChange, RecvError>) -> bool {
        let mut latest = self.lock_latest();
        let Some(rehearsal) = latest.as_mut().filter(|one| one.number == number) else {
            return false;
        };
        match change {
            Ok(committed) => rehearsal.deeds.apply_change(&committed.change),
            Err(RecvError::Lagged(missed)) => rehearsal.deeds.changes_missed += missed,
            Err(RecvError::Closed) => return false,
        }
        true
    }

    /// Checks the state of the rehearsal. Returns false if the watch should end.
    fn check_rehearsal(&self, number: u64, looks: u64) -> bool {
        let mut latest = self.lock_latest();
        let Some(rehearsal) = latest.as_mut().filter(|one| one.number == number) else {
            return false;
        };
        self.update_counts(rehearsal);
        if rehearsal.ended.is_none() {
            if self.plane.now() >= rehearsal.ends_at {
                self.end_rehearsal(rehearsal, None);
            } else if looks.is_multiple_of(LOOKS_A_LINE) {
                warn!(by = %rehearsal.by, struck = %rehearsal.format_injected(), "faults are being injected on purpose");
            }
            return true;
        }
        if !self.list_not_recovered(rehearsal).is_empty() {
            return true;
        }
        rehearsal.recovered_at = Some(self.plane.now());
        info!("recovered from the faults that were injected");
        false
    }
}

/// Watches a rehearsal until its faults have ended and everything is well again.
pub(super) async fn watch_rehearsal(
    stage: Arc<RehearsalController>,
    number: u64,
    mut changes: Receiver<CommittedChange>,
) {
    let mut looks = 0;
    let mut clock = tokio::time::interval(LOOK);
    loop {
        let goes_on = tokio::select! {
            biased;
            _ = clock.tick() => {
                looks += 1;
                stage.check_rehearsal(number, looks)
            }
            change = changes.recv() => stage.handle_change(number, change),
        };
        if !goes_on {
            return;
        }
    }
}

fn draw_seed() -> u64 {
    let mut bytes = [0; 4];
    // Without random bytes from the system all rehearsals draw alike; the reported seed shows it.
    let _ = getrandom::fill(&mut bytes);
    u64::from(u32::from_le_bytes(bytes))
}
