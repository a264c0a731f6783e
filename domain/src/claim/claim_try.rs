//! The plan of one claiming try of one job: the components that start, those that move, and the
//! jobs that give way.

use super::claim_parameters::ClaimParameters;
use super::preemption::{PreemptibleJob, choose_victims};
use super::startable_components::{ClaimPlace, UnclaimedComponent, find_startable};
use crate::ids::{ComponentIndex, JobId, Round, SiteName};
use crate::job::job_state::{Component, ComponentRestart, Job, JobPhase, RestartStep};
use crate::job::spec::{Priority, RequestType};
use crate::placed::Placement;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// The result of a try, for the job to decide on. If nothing starts, the try failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimTry {
    /// The round that it is for.
    pub round: Round,
    /// Components whose processors are to be claimed now.
    pub start: Vec<ComponentIndex>,
    /// Those of them that go to another site than they were placed at.
    pub moves: Vec<(ComponentIndex, Placement)>,
    /// Jobs that are preempted.
    pub preempting: Vec<JobId>,
}

/// The sites as a claim sees them.
pub trait ClaimableSites {
    /// Returns the place where a component takes its processors at a site.
    fn place(&self, _job: &Job, _component: ComponentIndex, site: &SiteName) -> ClaimPlace {
        ClaimPlace::site_default(site.clone())
    }

    /// Returns what the site's batch system reports as idle, less what was taken; `None` if
    /// unknown.
    fn idle_at(&self, place: &ClaimPlace) -> Option<Resources>;

    /// Returns true if a request of this size waited at the component's site lately, so that idle
    /// processors there are not claimed for it now.
    fn waited_lately(&self, _job: &Job, _component: ComponentIndex) -> bool {
        false
    }

    /// Takes from what is idle; if that is less, takes all of it.
    fn take(&mut self, place: &ClaimPlace, used: &Resources);

    /// Places one component again, alone, by the job's policy and without splitting it.
    fn replace(&mut self, job: &Job, component: ComponentIndex) -> Option<Placement>;

    /// Lists our jobs there that may give way, with what they hold.
    fn victims_at(&self, place: &ClaimPlace) -> Vec<PreemptibleJob>;
}

/// Plans one try of the Incremental Claiming Policy (KOALA, section 4.5, steps 1 to 4), and takes
/// what it starts from the field. With T = 1 the second and third step never run.
pub fn plan_claim(
    job: &Job,
    parameters: &ClaimParameters,
    now: Timestamp,
    field: &mut impl ClaimableSites,
) -> ClaimTry {
    if matches!(job.phase, JobPhase::Running { .. }) {
        return plan_restart(job, now, field);
    }
    let mut plan = ClaimTry {
        round: job.round,
        ..ClaimTry::default()
    };
    let mut wanted = list_unclaimed(job, field);
    let waited =
        |wanted: &UnclaimedComponent| !wanted.queued && field.waited_lately(job, wanted.component);
    let kept_back: Vec<ComponentIndex> = wanted
        .extract_if(.., |wanted| waited(wanted))
        .map(|wanted| wanted.component)
        .collect();
    let mut found = find_startable(wanted, |place| field.idle_at(place));
    found.not.extend(&kept_back);
    let started = job
        .components
        .iter()
        .filter(|component| component.is_claimed())
        .count();
    if !found.reaches_threshold(job.claim_threshold(parameters), started) {
        return plan;
    }
    for &component in &found.now {
        if let Some((place, need)) = place_of(job, component, field) {
            if !waits_in_queue(job, component) {
                field.take(&place, &need);
            }
            plan.start.push(component);
        }
    }
    let start = job.instants.start_estimate.unwrap_or(now);
    for &component in &found.not {
        let moves = move_elsewhere(job, component, start.since(now), field, &mut plan);
        // Nothing helps a component that waited lately: others there would go first.
        if !moves && !kept_back.contains(&component) {
            preempt_for(job, component, field, &mut plan);
        }
    }
    plan
}

/// The time for which a restarted component stays where its input was brought, if there is no room
/// now.
const STAYS: DurationMs = DurationMs(60_000);

/// Plans components that are restarted alone: each starts where its input is if it can, or else
/// gets another site. They preempt nobody.
fn plan_restart(job: &Job, now: Timestamp, field: &mut impl ClaimableSites) -> ClaimTry {
    let mut plan = ClaimTry {
        round: job.round,
        ..ClaimTry::default()
    };
    for (index, component) in job
        .indexed_components()
        .filter(|(_, c)| c.is_restart_claim_due(now))
    {
        let Some((place, need)) = place_of(job, index, field) else {
            continue;
        };
        if component.is_to_begin_later() {
            // Its processors are reserved: nothing need be idle.
            plan.start.push(index);
            continue;
        }
        let staged = component
            .restart
            .as_ref()
            .filter(|r| r.step == RestartStep::Staged);
        let staged = staged.filter(|_| !field.waited_lately(job, index));
        let idle = staged.and_then(|_| field.idle_at(&place));
        if idle.as_ref().is_some_and(|idle| idle.covers(&need)) {
            field.take(&place, &need);
            plan.start.push(index);
        } else if idle.is_some() && staged.is_some_and(|r| stays_put(component, r, now)) {
            // It stays: moving its input back and forth for room that comes and goes helps nobody.
        } else if let Some(placement) = field.replace(job, index) {
            let place = field.place(job, index, &placement.site);
            field.take(&place, &need);
            if placement.sources.is_empty() {
                plan.start.push(index);
            }
            plan.moves.push((index, placement));
        }
    }
    plan
}

fn stays_put(component: &Component, staged: &ComponentRestart, now: Timestamp) -> bool {
    let brought = component
        .placement
        .as_ref()
        .is_some_and(|place| !place.sources.is_empty());
    brought && now < staged.since + STAYS
}

fn place_of(
    job: &Job,
    component: ComponentIndex,
    field: &impl ClaimableSites,
) -> Option<(ClaimPlace, Resources)> {
    let placement = job
        .components
        .get(component.0 as usize)?
        .placement
        .as_ref()?;
    Some((
        field.place(job, component, &placement.site),
        job.resources_of(component)?,
    ))
}

fn waits_in_queue(job: &Job, component: ComponentIndex) -> bool {
    let component = job.components.get(component.0 as usize);
    component.is_some_and(|component| !component.acquisition().needs_idle_processors())
}

fn list_unclaimed(job: &Job, field: &impl ClaimableSites) -> Vec<UnclaimedComponent> {
    let wanted = job.unclaimed_components().filter_map(|component| {
        let (place, resources) = place_of(job, component, field)?;
        let queued = waits_in_queue(job, component);
        Some(UnclaimedComponent {
            component,
            place,
            resources,
            queued,
        })
    });
    wanted.collect()
}

/// Step 2: moves to another site, if the input can be there by the start time.
fn move_elsewhere(
    job: &Job,
    component: ComponentIndex,
    time_left: DurationMs,
    field: &mut impl ClaimableSites,
    plan: &mut ClaimTry,
) -> bool {
    if matches!(job.spec.request, RequestType::Fixed) {
        return false;
    }
    let Some(placement) = field.replace(job, component) else {
        return false;
    };
    if placement.transfer_time > time_left {
        return false;
    }
    let place = field.place(job, component, &placement.site);
    field.take(&place, &job.resources_of(component).unwrap_or_default());
    plan.moves.push((component, placement));
    plan.start.push(component);
    true
}

/// Step 3: preempts at its own site, if lower jobs there hold enough. One wave a round.
fn preempt_for(
    job: &Job,
    component: ComponentIndex,
    field: &mut impl ClaimableSites,
    plan: &mut ClaimTry,
) {
    let did = !job.preempting.is_empty();
    let may_not = job.priority == Priority::SuperLow || job.promoted || did;
    let place = place_of(job, component, field).filter(|_| !may_not);
    let Some((place, need)) = place else { return };
    let Some(idle) = field.idle_at(&place) else {
        return;
    };
    let mut candidates = field.victims_at(&place);
    candidates.retain(|victim| victim.job != job.id && !plan.preempting.contains(&victim.job));
    if let Some(victims) = choose_victims(&idle, &need, job.priority, candidates) {
        // Whatever they hold beyond that shows once it is idle.
        field.take(&place, &idle);
        plan.preempting
            .extend(victims.iter().map(|victim| victim.job));
        plan.start.push(component);
    }
}
