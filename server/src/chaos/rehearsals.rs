//! Rehearsals as the rest of the server sees them: it begins them, ends them and shows them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cospan_actors::api::ControlPlane;
use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::faulty_site::{FaultSwitch, FaultySite};
use cospan_sites::port::Site;

use super::plan_check::PlanFlaw;
use super::rehearsal_metrics::ChaosMetrics;
use super::rehearsal_run::{RehearsalController, watch_rehearsal};
use cospan_api::v1::Length;
use cospan_api::v1::chaos::{ChaosPlan, ChaosReport, ChaosStatus, RehearsalReport};

/// Bounds of one rehearsal.
#[derive(Debug, Clone, Copy)]
pub struct RehearsalLimits {
    /// The longest rehearsal.
    pub max_duration: DurationMs,
    /// Share of the sites that one rehearsal may concern, in percent; one site is always allowed.
    pub max_sites_percent: u32,
}

/// The reason why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RehearsalRefusal {
    /// The configuration does not allow rehearsals.
    Off,
    /// All flaws of the plan.
    Plan(Vec<PlanFlaw>),
    /// Another rehearsal runs.
    Busy {
        /// The key that began the other rehearsal.
        by: String,
        /// When the other rehearsal ends at the latest.
        ends_at: Timestamp,
    },
    /// There is no rehearsal.
    None,
}

/// The handles for fault injection, by site.
pub type FaultHandles = BTreeMap<SiteName, FaultSwitch>;

/// Wraps sites, so that faults can be injected into the calls to them. If `files` names a
/// directory, faults can also be injected by a file for each site, with the name of the site.
pub fn wrap_sites(
    sites: Vec<Arc<dyn Site>>,
    files: Option<&Path>,
) -> (Vec<Arc<dyn Site>>, FaultHandles) {
    let mut handles = FaultHandles::new();
    let wrapped = sites.into_iter().map(|site| {
        let faults = FaultSwitch::new();
        handles.insert(site.name().clone(), faults.clone());
        let file = files.map(|directory| directory.join(site.name().as_str()));
        let faulty = FaultySite::new(site, faults);
        let faulty = match file {
            Some(file) => faulty.with_control_file(file),
            None => faulty,
        };
        Arc::new(faulty) as Arc<dyn Site>
    });
    let wrapped = wrapped.collect();
    (wrapped, handles)
}

/// All rehearsals of a server; `None` where they are not allowed. Clones share them.
#[derive(Clone)]
pub struct Rehearsals(Option<Arc<RehearsalController>>);

impl Rehearsals {
    /// Allows no rehearsals.
    pub fn disallowed() -> Self {
        Self(None)
    }

    /// Allows rehearsals at sites that were wrapped.
    pub fn new(
        plane: ControlPlane,
        faults: FaultHandles,
        limits: RehearsalLimits,
        metrics: ChaosMetrics,
    ) -> Self {
        Self(Some(Arc::new(RehearsalController::new(
            plane, faults, limits, metrics,
        ))))
    }

    fn require_allowed(&self) -> Result<&Arc<RehearsalController>, RehearsalRefusal> {
        self.0.as_ref().ok_or(RehearsalRefusal::Off)
    }

    /// Returns the rehearsal that would run if this plan began now.
    ///
    /// # Errors
    ///
    /// The plan would be refused.
    pub fn preview(
        &self,
        by: KeyName,
        plan: &ChaosPlan,
    ) -> Result<RehearsalReport, RehearsalRefusal> {
        let stage = self.require_allowed()?;
        let rehearsal = stage.prepare_rehearsal(by, plan)?;
        Ok(rehearsal.report(rehearsal.begun_at))
    }

    /// Begins to inject the faults of a plan. Must be called where an actix system runs.
    ///
    /// # Errors
    ///
    /// Rehearsals are not allowed, the plan has flaws, or another rehearsal runs.
    pub fn begin(
        &self,
        by: KeyName,
        plan: &ChaosPlan,
    ) -> Result<RehearsalReport, RehearsalRefusal> {
        let stage = self.require_allowed()?;
        let rehearsal = stage.prepare_rehearsal(by, plan)?;
        // Subscribes before the first fault, so that none of its effects is missed.
        let changes = stage.subscribe();
        let (number, report) = stage.start_rehearsal(rehearsal)?;
        actix_web::rt::spawn(watch_rehearsal(stage.clone(), number, changes));
        Ok(report)
    }

    /// Ends the running rehearsal at once.
    ///
    /// # Errors
    ///
    /// Rehearsals are not allowed, or none runs.
    pub fn stop(&self, by: KeyName) -> Result<ChaosReport, RehearsalRefusal> {
        self.require_allowed()?.stop_rehearsal(by)
    }

    /// Returns the bounds, and the running rehearsal.
    pub fn status(&self) -> ChaosStatus {
        match &self.0 {
            Some(stage) => stage.current_status(),
            None => ChaosStatus {
                allowed: false,
                max_duration: Length(DurationMs::ZERO),
                max_sites: 0,
                sites: Vec::new(),
                rehearsal: None,
            },
        }
    }

    /// Reports on the running rehearsal, or on the latest one.
    ///
    /// # Errors
    ///
    /// There was no rehearsal since the server started.
    pub fn latest_report(&self) -> Result<ChaosReport, RehearsalRefusal> {
        self.0
            .as_ref()
            .ok_or(RehearsalRefusal::None)?
            .report_latest()
    }

    /// Lists the faults that are being injected at a site.
    pub fn faults_at(&self, site: &str) -> Vec<String> {
        let faults = self
            .0
            .as_ref()
            .map(|stage| stage.faults_at(site))
            .unwrap_or_default();
        faults.into_iter().map(str::to_owned).collect()
    }
}
