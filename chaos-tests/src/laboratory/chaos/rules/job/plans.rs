//! One try to claim processors: what starts where it is, what goes elsewhere, who gives way;
//! and where components that are restarted alone begin anew.

use std::collections::BTreeMap;

use cospan_domain::claim::{
    ClaimField, ClaimParameters, ClaimTry, Victim, Wanted, choose_victims, plan_claim, startable,
};
use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::spec::{Priority, Request};
use cospan_domain::job::state::{Job, Phase, Restart, RestartStep, Run};
use cospan_domain::placed::{Placement, Source};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, content, drawn, indexed, site};

/// How long a restarted component waits where its input is.
const STAYS: u64 = 60_000;

/// Sites as they are told to be.
#[derive(Debug, Clone)]
struct Told {
    idle: BTreeMap<SiteName, Resources>,
    others: BTreeMap<ComponentIndex, Placement>,
    victims: Vec<(SiteName, Victim)>,
}

impl ClaimField for Told {
    fn idle_at(&self, site: &SiteName) -> Option<Resources> {
        self.idle.get(site).cloned()
    }

    fn take(&mut self, site: &SiteName, used: &Resources) {
        if let Some(idle) = self.idle.get_mut(site) {
            idle.processors = idle.processors.saturating_sub(used.processors);
        }
    }

    fn replace(&mut self, _: &Job, component: ComponentIndex) -> Option<Placement> {
        self.others.get(&component).cloned()
    }

    fn victims_at(&self, site: &SiteName) -> Vec<Victim> {
        let here = self.victims.iter().filter(|(at, _)| at == site);
        here.map(|(_, victim)| victim.clone()).collect()
    }
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let since = NOW;
    let phases = [Phase::Claiming { since }, Phase::Running { since }];
    phases.into_iter().filter_map(|phase| tried(chance, phase)).collect()
}

fn tried(chance: &mut StdRng, phase: Phase) -> Option<String> {
    let Some((job, told)) = draw(chance, phase) else {
        return Some("no claim can be drawn".to_owned());
    };
    let threshold = PerMillion([1_000_000, 500_000, 0][chance.random_range(0..3)]);
    let parameters = ClaimParameters { threshold, ..ClaimParameters::default() };
    let is = plan_claim(&job, &parameters, NOW, &mut told.clone());
    let ought = match job.phase {
        Phase::Running { .. } => restarted(&job, told.clone()),
        _ => claimed(&job, threshold, told.clone()),
    };
    let text = || format!("{job:?} claims {is:?} of {told:?}, not {ought:?}");
    (is != ought).then(text)
}

fn draw(chance: &mut StdRng, phase: Phase) -> Option<(Job, Told)> {
    let mut job = drawn(chance, 1).ok()?;
    let runs = matches!(phase, Phase::Running { .. });
    job.phase = phase;
    job.priority = Priority::ALL[chance.random_range(0..6) % 4];
    job.promoted = chance.random_bool(0.15);
    let later = DurationMs(5_000 * chance.random_range(0..6));
    job.instants.start_estimate = chance.random_bool(0.9).then_some(NOW + later);
    job.preempting = chance.random_bool(0.25).then_some(JobId(9)).into_iter().collect();
    for c in &mut job.components {
        let idle = chance.random_bool(0.7);
        c.run = if idle { Run::Idle } else { c.run.clone() };
        c.charge = c.charge.take().filter(|_| chance.random_bool(0.5));
        if chance.random_bool(0.7) {
            let steps = [RestartStep::ToPlace, RestartStep::Staging, RestartStep::Staged];
            let step = steps[chance.random_range(0..6).min(2)];
            let since = NOW - DurationMs(30_000 * chance.random_range(0..=3));
            let not_before = NOW + DurationMs([0, 0, 1][chance.random_range(0..3)]);
            c.restart = Some(Restart { step, since, tries: 0, not_before });
        }
        if let Some(placement) = &mut c.placement {
            placement.sources = sources(chance)?;
        }
    }
    if chance.random_bool(0.2) {
        std::sync::Arc::make_mut(&mut job.spec).request = Request::Fixed;
    }
    let mut told = Told { idle: BTreeMap::new(), others: BTreeMap::new(), victims: Vec::new() };
    for _ in 0..3 {
        let most = if runs { 5 } else { 10 };
        told.idle.insert(site(chance).ok()?, Resources::processors(chance.random_range(0..=most)));
    }
    for (index, _) in indexed(&job) {
        let placement = Placement {
            site: site(chance).ok()?,
            sources: sources(chance)?,
            transfer_time: DurationMs(5_000 * chance.random_range(0..6)),
            share: None,
        };
        if chance.random_bool(if runs { 0.7 } else { 0.3 }) {
            told.others.insert(index, placement);
        }
    }
    for number in 1..=6 {
        let victim = Victim {
            job: JobId(number),
            priority: Priority::ALL[chance.random_range(1..4)],
            resources: Resources::processors(chance.random_range(1..=8)),
            start_estimate: NOW,
            submitted_at: NOW,
            at_gate: chance.random_bool(0.3),
        };
        told.victims.push((site(chance).ok()?, victim));
    }
    Some((job, told))
}

fn sources(chance: &mut StdRng) -> Option<Vec<Source>> {
    let source = Source { content: content(7), from: site(chance).ok()?, chunk: None };
    Some(if chance.random_bool(0.6) { vec![source] } else { Vec::new() })
}

/// Where a component goes, and what it gets there.
fn place(job: &Job, index: ComponentIndex) -> Option<(SiteName, Resources)> {
    let placement = job.components[index.0 as usize].placement.as_ref()?;
    let asked = match job.spec.request {
        Request::Flexible(_) => &job.spec.components[0],
        _ => &job.spec.components[index.0 as usize],
    };
    Some((placement.site.clone(), asked.resources.clone()))
}

/// What can start does if it is enough of all. The rest goes elsewhere if its input can be
/// there in time, or lower jobs at its own site give way: once in a round, and not to a job
/// that rose by waiting.
fn claimed(job: &Job, threshold: PerMillion, mut told: Told) -> ClaimTry {
    let mut plan = ClaimTry { round: job.round, ..ClaimTry::default() };
    let idle = indexed(job).filter(|(_, c)| matches!(c.run, Run::Idle));
    let wanted = idle.filter_map(|(component, _)| {
        let (site, resources) = place(job, component)?;
        Some(Wanted { component, site, resources })
    });
    let found = startable(wanted.collect(), |site| told.idle.get(site).cloned());
    let holds = job
        .components
        .iter()
        .filter(|c| !c.given_back && !matches!(c.run, Run::Idle | Run::Ended { .. }));
    let have = (holds.count() + found.now.len()) as u64;
    let all = have + found.not.len() as u64;
    if have * 1_000_000 < all * u64::from(threshold.0) || all > 0 && have == 0 && threshold.0 > 0 {
        return plan;
    }
    for component in found.now {
        let Some((site, need)) = place(job, component) else { continue };
        told.take(&site, &need);
        plan.start.push(component);
    }
    let left = job.instants.start_estimate.map_or(0, |start| start.0.saturating_sub(NOW.0));
    for component in found.not {
        let Some((site, need)) = place(job, component) else { continue };
        let moves = !matches!(job.spec.request, Request::Fixed);
        let other =
            told.others.get(&component).filter(|other| moves && other.transfer_time.0 <= left);
        if let Some(other) = other.cloned() {
            told.take(&other.site, &need);
            plan.moves.push((component, other));
            plan.start.push(component);
            continue;
        }
        let may = job.priority != Priority::SuperLow && !job.promoted && job.preempting.is_empty();
        let Some(idle) = told.idle.get(&site).cloned().filter(|_| may) else { continue };
        let mut lower = told.victims_at(&site);
        lower.retain(|victim| victim.job != job.id && !plan.preempting.contains(&victim.job));
        if let Some(victims) = choose_victims(&idle, &need, job.priority, lower) {
            told.take(&site, &idle);
            plan.preempting.extend(victims.iter().map(|victim| victim.job));
            plan.start.push(component);
        }
    }
    plan
}

/// Each begins anew where its input is, if there is room. It waits there for a minute if
/// something was brought, and then goes elsewhere, at once if nothing has to be brought.
fn restarted(job: &Job, mut told: Told) -> ClaimTry {
    let mut plan = ClaimTry { round: job.round, ..ClaimTry::default() };
    for (index, c) in indexed(job) {
        let Some(restart) = c.restart.as_ref() else { continue };
        let waits = matches!(c.run, Run::Idle) && c.charge.is_none() && restart.not_before <= NOW;
        let Some((site, need)) = place(job, index) else { continue };
        if !waits || restart.step == RestartStep::Staging {
            continue;
        }
        let staged = restart.step == RestartStep::Staged;
        let idle = told.idle.get(&site).cloned().filter(|_| staged);
        let brought = c.placement.as_ref().is_some_and(|placement| !placement.sources.is_empty());
        let patient = NOW < Timestamp(restart.since.0 + STAYS);
        match idle {
            Some(idle) if need.processors <= idle.processors => {
                told.take(&site, &need);
                plan.start.push(index);
            }
            Some(_) if brought && patient => {}
            _ => {
                let Some(other) = told.others.get(&index).cloned() else { continue };
                told.take(&other.site, &need);
                if other.sources.is_empty() {
                    plan.start.push(index);
                }
                plan.moves.push((index, other));
            }
        }
    }
    plan
}
