//! Rehearsals as the rest of the server sees them: begun, ended, shown.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cospan_actors::api::ControlPlane;
use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::fault::{Faults, FaultySite};
use cospan_sites::port::Site;

use super::judge::Flaw;
use super::metrics::ChaosMetrics;
use super::stage::{RehearsalStage, watch};
use crate::api::v1::Length;
use crate::api::v1::chaos::{ChaosPlan, ChaosReport, ChaosStatus, RehearsalReport};

/// Bounds of one rehearsal.
#[derive(Debug, Clone, Copy)]
pub struct RehearsalLimits {
    /// Longest one.
    pub max_duration: DurationMs,
    /// Share of the sites that it may strike, in percent; one always.
    pub max_sites_percent: u32,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RehearsalRefusal {
    /// The configuration does not allow it.
    Off,
    /// Everything that is wrong with the plan.
    Plan(Vec<Flaw>),
    /// Another rehearsal runs.
    Busy {
        /// The key that began it.
        by: String,
        /// When it ends at the latest.
        ends_at: Timestamp,
    },
    /// There is none.
    None,
}

/// By site, what faults are injected with.
pub type Handles = BTreeMap<SiteName, Faults>;

/// Wraps sites, so that faults can be injected into the calls to them; by files as well, one
/// for each site, named like it, if there is a directory for them.
pub fn wrap(sites: Vec<Arc<dyn Site>>, files: Option<&Path>) -> (Vec<Arc<dyn Site>>, Handles) {
    let mut handles = Handles::new();
    let wrapped = sites.into_iter().map(|site| {
        let faults = Faults::new();
        handles.insert(site.name().clone(), faults.clone());
        let file = files.map(|directory| directory.join(site.name().as_str()));
        let faulty = FaultySite::new(site, faults);
        let faulty = match file {
            Some(file) => faulty.controlled_by(file),
            None => faulty,
        };
        Arc::new(faulty) as Arc<dyn Site>
    });
    let wrapped = wrapped.collect();
    (wrapped, handles)
}

/// All rehearsals of a server; none where they are not allowed. Clones are the same.
#[derive(Clone)]
pub struct Rehearsals(Option<Arc<RehearsalStage>>);

impl Rehearsals {
    /// None are allowed.
    pub fn off() -> Self {
        Self(None)
    }

    /// Rehearsals at sites that were wrapped.
    pub fn new(
        plane: ControlPlane,
        faults: Handles,
        limits: RehearsalLimits,
        metrics: ChaosMetrics,
    ) -> Self {
        Self(Some(Arc::new(RehearsalStage::new(
            plane, faults, limits, metrics,
        ))))
    }

    fn stage(&self) -> Result<&Arc<RehearsalStage>, RehearsalRefusal> {
        self.0.as_ref().ok_or(RehearsalRefusal::Off)
    }

    /// What would run if this plan began now.
    ///
    /// # Errors
    /// It would be refused.
    pub fn preview(
        &self,
        by: KeyName,
        plan: &ChaosPlan,
    ) -> Result<RehearsalReport, RehearsalRefusal> {
        let stage = self.stage()?;
        let rehearsal = stage.prepare(by, plan)?;
        Ok(rehearsal.report(rehearsal.begun_at))
    }

    /// Begins to inject what a plan says. Must be called where an actix system runs.
    ///
    /// # Errors
    /// It is not allowed, the plan is wrong, or another one runs.
    pub fn begin(
        &self,
        by: KeyName,
        plan: &ChaosPlan,
    ) -> Result<RehearsalReport, RehearsalRefusal> {
        let stage = self.stage()?;
        let rehearsal = stage.prepare(by, plan)?;
        // Before the first fault, so that nothing that follows from it is missed.
        let changes = stage.subscribe();
        let (number, report) = stage.start(rehearsal)?;
        actix_web::rt::spawn(watch(stage.clone(), number, changes));
        Ok(report)
    }

    /// Ends what runs, at once.
    ///
    /// # Errors
    /// It is not allowed, or nothing runs.
    pub fn stop(&self, by: KeyName) -> Result<ChaosReport, RehearsalRefusal> {
        self.stage()?.stop(by)
    }

    /// What is allowed, and what runs.
    pub fn status(&self) -> ChaosStatus {
        match &self.0 {
            Some(stage) => stage.status(),
            None => ChaosStatus {
                allowed: false,
                max_duration: Length(DurationMs::ZERO),
                max_sites: 0,
                sites: Vec::new(),
                rehearsal: None,
            },
        }
    }

    /// What the running rehearsal, or the latest one, came to.
    ///
    /// # Errors
    /// There was none since the server's start.
    pub fn report(&self) -> Result<ChaosReport, RehearsalRefusal> {
        self.0
            .as_ref()
            .ok_or(RehearsalRefusal::None)?
            .report_latest()
    }

    /// The faults that are being injected at a site.
    pub fn faults_at(&self, site: &str) -> Vec<String> {
        let faults = self
            .0
            .as_ref()
            .map(|stage| stage.faults_at(site))
            .unwrap_or_default();
        faults.into_iter().map(str::to_owned).collect()
    }
}
