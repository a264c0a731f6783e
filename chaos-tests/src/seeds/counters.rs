//! Compares the metrics of a control plane with the changes that became durable while it ran, and
//! with what there is.

use std::collections::BTreeMap;

use cospan_actors::journal::JournalChange;
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_domain::job::job_state::{Job, PhaseKind};
use prometheus::core::Collector;

use cospan_simulator::control_plane_run::ControlPlaneRun;

/// The work of one control plane so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    submitted: u64,
    ended: BTreeMap<PhaseKind, u64>,
}

impl Counters {
    /// Records a change.
    pub(super) fn record_change(&mut self, change: &JournalChange) {
        match change {
            JournalChange::NewJobs(jobs) => self.submitted += jobs.len() as u64,
            JournalChange::Job { old, new, .. } if new.is_final() && !old.is_final() => {
                *self.ended.entry(new.phase.kind()).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Lists metrics with a wrong value. `jobs`: all that are kept.
    pub(super) fn wrong_metrics<'a>(
        &self,
        metrics: &ControlPlaneMetrics,
        jobs: impl Iterator<Item = &'a Job>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let shown = metrics.jobs_submitted.get();
        note_difference(&mut found, "jobs submitted", shown, self.submitted);
        for kind in [PhaseKind::Finished, PhaseKind::Failed, PhaseKind::Cancelled] {
            let is = self.ended.get(&kind).copied().unwrap_or(0);
            let how = kind.as_str();
            let shown = metrics.jobs_ended.with_label_values(&[how]).get();
            note_difference(&mut found, how, shown, is);
        }
        let mut phases: BTreeMap<PhaseKind, u64> = BTreeMap::new();
        jobs.for_each(|job| *phases.entry(job.phase.kind()).or_default() += 1);
        for kind in PhaseKind::ALL {
            let shown = metrics.jobs.with_label_values(&[kind.as_str()]).get();
            let is = phases.get(&kind).copied().unwrap_or(0);
            let shown = u64::try_from(shown).unwrap_or(u64::MAX);
            note_difference(&mut found, kind.as_str(), shown, is);
        }
        let shown = u64::try_from(metrics.held.get()).unwrap_or(u64::MAX);
        note_difference(&mut found, "jobs held", shown, 0);
        found
    }
}

fn note_difference(found: &mut Vec<String>, what: &str, shown: u64, is: u64) {
    if shown != is {
        found.push(format!("{what} is shown as {shown} and is {is}"));
    }
}

/// Lists metrics of sites at rest with a wrong value.
pub(super) fn wrong_site_metrics(plane_run: &ControlPlaneRun) -> Vec<String> {
    let metrics = &plane_run.plane.shared().metrics;
    let mut found = Vec::new();
    for site in plane_run.plane.list_sites() {
        let name = site.name.as_str();
        let total = plane_run.world.read(|world| {
            let cluster = world
                .sites()
                .iter()
                .find(|cluster| *cluster.name() == site.name);
            cluster.map(|cluster| i64::from(cluster.processors()))
        });
        let idle = site
            .report
            .idle
            .as_ref()
            .map(|(_, idle)| i64::from(idle.processors));
        let shown = ["total", "idle", "held"].map(|usage| {
            let gauge = &metrics.site_processors;
            Some(gauge.with_label_values(&[name, usage]).get())
        });
        if shown != [total, idle, Some(0)] {
            found.push(format!(
                "processors of {name}: {shown:?}, not {total:?}, {idle:?}, 0"
            ));
        }
        let states = shown_states(metrics, name);
        if states != [site.report.state_text(site.state)] {
            found.push(format!(
                "{name} is shown as {states:?} and is {:?}",
                site.state
            ));
        }
    }
    found
}

/// Lists the states that the metrics show for a site.
pub(super) fn shown_states(metrics: &ControlPlaneMetrics, site: &str) -> Vec<String> {
    let families = metrics.site_state.collect();
    let gauges = families.iter().flat_map(|family| family.get_metric());
    let is_shown = gauges.filter(|gauge| gauge.get_gauge().get_value() != 0.0);
    let states = is_shown.filter_map(|gauge| {
        let labels = gauge.get_label();
        let shown_site = labels.iter().find(|label| label.name() == "site");
        let is_here = shown_site.is_some_and(|label| label.value() == site);
        let state = labels.iter().find(|label| label.name() == "state");
        state
            .filter(|_| is_here)
            .map(|label| label.value().to_owned())
    });
    states.collect()
}
