//! Demands of a job's record on sites: processors, and content that must stay there.
//!
//! Both are derived from the record and never counted, so that a crash cannot leave processors or
//! files behind that nobody accounts for.

use std::collections::BTreeSet;

use crate::content::Content;
use crate::ids::{
    Attempt, AttemptTag, ComponentIndex, Digest, InstanceId, JobId, LogicalName, SiteName,
};
use crate::job::job_state::{
    AttemptState, Component, Job, JobPhase, OutputCollection, RestartStep,
};
use crate::job::spec::{OutputDestination, OutputSpec};
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// Corrections of a clock set it back by less than this between two looks at it.
const CORRECTION: DurationMs = DurationMs(5_000);

/// The resources of one component at its site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentHolding {
    pub component: ComponentIndex,
    /// The last attempt of the component.
    pub attempt: Attempt,
    /// The instance in the tag of that attempt, if it is not ours.
    pub origin: Option<InstanceId>,
    pub site: SiteName,
    pub resources: Resources,
    /// The time of a status request from which on the site's own count includes it; `None` while it
    /// is only planned.
    pub visible_from: Option<Timestamp>,
    /// True if an attempt of it may live there: its status is to be requested.
    pub live: bool,
    /// True if the job waits for it, and not for ever: changes there are to be seen soon.
    pub awaited: bool,
    /// True if it waits in the site's own queue, perhaps for hours.
    pub queued: bool,
}

impl ComponentHolding {
    /// Returns true if the site's own count of what is idle includes it, if the site was asked at
    /// this time and it is `now`. A time that is still to come was noted before the last start of
    /// the control plane, by a clock that has been set back since: whatever was asked after that
    /// start was asked later.
    pub fn is_counted(&self, asked_at: Timestamp, now: Timestamp) -> bool {
        self.visible_from
            .is_some_and(|from| from <= asked_at || from > now + CORRECTION)
    }

    /// Returns the tag of its last attempt, given our instance and its job.
    pub fn attempt_tag(&self, ours: InstanceId, job: JobId) -> AttemptTag {
        let instance = self.origin.unwrap_or(ours);
        AttemptTag {
            instance,
            job,
            component: self.component,
            attempt: self.attempt,
        }
    }
}

/// Lists the resources that a job has at sites, or will claim there.
pub fn list_holdings(job: &Job) -> Vec<ComponentHolding> {
    let claims = matches!(
        job.phase,
        JobPhase::Placed { .. } | JobPhase::Claiming { .. }
    );
    let awaited = matches!(
        job.phase,
        JobPhase::Claiming { .. } | JobPhase::Starting { .. }
    );
    job.indexed_components()
        .filter(|(_, component)| {
            let is_promised = component.acquisition().reservation_use().is_some();
            let planned = matches!(component.run, AttemptState::Idle)
                && ((claims && !is_promised) || is_placed_again(component));
            planned || component.run.may_live()
        })
        .filter_map(|(index, component)| {
            let placement = component.placement.as_ref()?;
            Some(ComponentHolding {
                component: index,
                attempt: component.attempt,
                origin: component.foreign_instance_of(component.attempt),
                site: placement.site.clone(),
                // Reserved processors belong to nobody else, and are not in use before.
                resources: if waits_for_start(component) {
                    Resources::default()
                } else {
                    job.resources_of(index)?
                },
                visible_from: visible_from(&component.run),
                live: component.run.may_live(),
                awaited: (awaited && !component.is_queued_at_site()) || component.restart.is_some(),
                queued: component.is_queued_at_site(),
            })
        })
        .collect()
}

/// Returns true if it is restarted alone, and has a site for that.
fn is_placed_again(component: &Component) -> bool {
    component
        .restart
        .as_ref()
        .is_some_and(|restart| restart.step != RestartStep::ToPlace)
}

/// Returns true if its job has started without it, and its processors are not claimed yet.
fn waits_for_start(component: &Component) -> bool {
    component.is_to_begin_later() && matches!(component.run, AttemptState::Idle)
}

/// Returns true if it is restarted alone, and has no new site yet.
fn lacks_new_site(component: &Component) -> bool {
    matches!(component.run, AttemptState::Idle)
        && component
            .restart
            .as_ref()
            .is_some_and(|r| r.step == RestartStep::ToPlace)
}

/// Returns the content that restarted components wait for.
pub fn staging_content(job: &Job) -> BTreeSet<(Digest, SiteName)> {
    job.components
        .iter()
        .filter(|c: &&Component| {
            c.restart
                .as_ref()
                .is_some_and(|restart| restart.step == RestartStep::Staging)
        })
        .flat_map(staged_inputs_of)
        .map(without_size)
        .collect()
}

/// Iterates over the components whose placement brings this content to this site.
pub fn components_needing<'a>(
    job: &'a Job,
    digest: Digest,
    site: &'a SiteName,
) -> impl Iterator<Item = ComponentIndex> + 'a {
    job.indexed_components()
        .filter(move |(_, component)| {
            staged_inputs_of(component).any(|(other, at)| other.digest == digest && at == *site)
        })
        .map(|(index, _)| index)
}

fn visible_from(run: &AttemptState) -> Option<Timestamp> {
    match run {
        AttemptState::Submitted { at, .. } => Some(*at),
        // It is past its submission, so any later report of the site includes it.
        AttemptState::AtGate { .. }
        | AttemptState::Opened { .. }
        | AttemptState::Running { .. } => Some(Timestamp(0)),
        AttemptState::Idle
        | AttemptState::Intended { .. }
        | AttemptState::Uncertain { .. }
        | AttemptState::Ended { .. } => None,
    }
}

/// Returns the content that must be at a site, or be brought there, for this job.
pub fn needed_digests(job: &Job) -> BTreeSet<(Digest, SiteName)> {
    needed_content(job).into_iter().map(without_size).collect()
}

/// Returns the same with sizes.
pub fn needed_content(job: &Job) -> BTreeSet<(Content, SiteName)> {
    match job.phase {
        JobPhase::Collecting { .. } => outputs_to_bring(job)
            .map(|(_, _, content, (site, _))| (content, site.clone()))
            .collect(),
        // Most jobs bring no input, and this is called at every change of each.
        _ if !job
            .components
            .iter()
            .any(|c: &Component| c.placement.as_ref().is_some_and(|p| !p.sources.is_empty())) =>
        {
            BTreeSet::new()
        }
        JobPhase::Placed { .. }
        | JobPhase::Claiming { .. }
        | JobPhase::Starting { .. }
        | JobPhase::Running { .. } => job
            .components
            .iter()
            .filter(|c| !lacks_new_site(c))
            .flat_map(staged_inputs_of)
            .collect(),
        JobPhase::Aborting { .. } => job
            .components
            .iter()
            .filter(|c| c.run.may_live())
            .flat_map(staged_inputs_of)
            .collect(),
        JobPhase::Queued { .. }
        | JobPhase::Finished { .. }
        | JobPhase::Failed { .. }
        | JobPhase::Cancelled { .. } => BTreeSet::new(),
    }
}

fn without_size((content, site): (Content, SiteName)) -> (Digest, SiteName) {
    (content.digest, site)
}

fn staged_inputs_of(component: &Component) -> impl Iterator<Item = (Content, SiteName)> {
    component.placement.iter().flat_map(|placement| {
        placement
            .sources
            .iter()
            .map(|source| (source.content, placement.site.clone()))
    })
}

/// Iterates over the outputs that were read and are not at their sites yet: component, position,
/// content, and the site and the name that they are to have; none before the payloads have
/// succeeded.
pub fn outputs_to_bring(
    job: &Job,
) -> impl Iterator<Item = (ComponentIndex, u32, Content, (&SiteName, &LogicalName))> {
    uncollected_outputs(job).filter_map(|(index, at, state, output)| match &output.collect {
        OutputDestination::ToSite { site, register } => {
            Some((index, at, state.content?, (site, register)))
        }
        OutputDestination::Fetch => None,
    })
}

/// Iterates over the outputs that go to a site and are not there yet, by component and position.
/// Of those that stay, the last of a component is listed until all of them were seen.
pub(super) fn uncollected_outputs(
    job: &Job,
) -> impl Iterator<Item = (ComponentIndex, u32, &OutputCollection, &OutputSpec)> {
    let collects = matches!(job.phase, JobPhase::Collecting { .. });
    job.components_with_specs()
        .filter(move |_| collects)
        .flat_map(|(index, component, spec)| {
            let outputs = (0..).zip(component.collected.iter().zip(&spec.outputs));
            let last_staying = spec.last_staying_output();
            let open = outputs.filter(move |(at, (state, output))| {
                let stays = matches!(output.collect, OutputDestination::Fetch);
                !state.done && (!stays || last_staying == Some(*at))
            });
            open.map(move |(at, (state, output))| (index, at, state, output))
        })
}
