//! The launch of an attempt.

use std::sync::Arc;

use super::runner_of;
use crate::ids::{Attempt, ComponentIndex, SiteName};
use crate::job::job_state::Job;
use crate::job::spec::{ComponentSpec, ProgramAtSite};
use crate::labels::SiteLabels;
use crate::units::DurationMs;

/// The launch of an attempt. The runner adds to it what the programs have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptLaunch {
    /// The program as it runs at the site.
    pub at_site: ProgramAtSite,
    /// The component's latest attempt that began at this site, if the job is restarted: it left a
    /// work directory there.
    pub earlier: Option<Attempt>,
    /// True if the attempt finds a file that lists the hosts of all components.
    pub lists_hosts: bool,
}

impl AttemptLaunch {
    /// Set if every payload of the job had begun before.
    pub const RESTART: &'static str = "COSPAN_RESTART";

    /// Builds the launch of the next attempt of a placed component, at a site with these labels;
    /// `None` if there is no such component.
    pub fn for_component(
        job: &Job,
        index: ComponentIndex,
        site: &SiteName,
        labels: &SiteLabels,
    ) -> Option<Self> {
        let spec = job.component_spec(index)?;
        let mut launch = Self {
            at_site: spec.program_at(site, labels),
            ..Self::as_described(spec)
        };
        if job.is_restarted() {
            launch.set_variable(Self::RESTART, "1");
            if let Some(change) = &spec.restart {
                launch.at_site.apply_override(change);
            }
            let began = job
                .components
                .get(index.0 as usize)
                .and_then(|c| c.began.as_ref());
            launch.earlier = began
                .filter(|began| began.site == *site)
                .map(|began| began.attempt);
        }
        // A runner that this version does not know adds nothing.
        if let Ok(runner) = runner_of(&job.spec) {
            runner.prepare_launch(job, &mut launch);
        }
        Some(launch)
    }

    /// Takes the component's program as it was described.
    pub fn as_described(spec: &ComponentSpec) -> Self {
        let at_site = ProgramAtSite {
            program: spec.program.unpack(),
            lrm_options: Vec::new(),
        };
        Self {
            at_site,
            earlier: None,
            lists_hosts: false,
        }
    }

    /// Sets a variable of the payload.
    pub fn set_variable(&mut self, name: &str, value: impl Into<Arc<str>>) {
        self.at_site
            .program
            .environment
            .insert(name.into(), value.into());
    }
}

impl Job {
    /// Returns true if every payload of the job is known to have begun before. Until then every
    /// start is a first one: components that work together must not disagree on it. A flexible job
    /// that was started is restarted also with another split. A component that begins later than
    /// the common start is not known to have begun by that.
    pub fn is_restarted(&self) -> bool {
        let mut components = self.components.iter();
        let all_begin_at_start = self.spec.longest_offset() == DurationMs::ZERO;
        (all_begin_at_start && self.instants.started.is_some())
            || (!self.components.is_empty() && components.all(|c| c.began.is_some()))
    }
}
