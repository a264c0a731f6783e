//! What follows from a try to claim processors, from a silent site, and from one that is
//! emptied while components that are restarted alone are on their way there.

use cospan_domain::claim::{ClaimParameters, ClaimTry};
use cospan_domain::ids::{ComponentIndex, LrmId};
use cospan_domain::job::command::{JobCommand, Rejection, Sight};
use cospan_domain::job::decide::decide;
use cospan_domain::job::event::Happened;
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::state::{AbortCause, Job, Phase, Restart, RestartStep, Run};
use cospan_domain::runner::RestartScope;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::records::{NOW, drawn, indexed, site};

/// How long a job waits for a site that is silent.
const PATIENCE: DurationMs = DurationMs(1_800_000);

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    [claimed(chance), silent(chance), missed(chance), left(chance)].into_iter().flatten().collect()
}

/// Parts of a job that holds some of its processors, or none.
fn claiming(chance: &mut StdRng) -> Option<Job> {
    let mut job = drawn(chance, 1).ok()?;
    let (placed, length) = (NOW.0 - 20_000, chance.random_range(10_000..90_000));
    let start = Timestamp(placed + length);
    job.phase = Phase::Placed { at: Timestamp(placed), start_estimate: start };
    job.instants.placed = Some(Timestamp(placed));
    job.instants.start_estimate = Some(start);
    job.next_claim = Some(NOW - DurationMs(1_000 * chance.random_range(0..5)));
    (job.held, job.frozen_by, job.start_at) = (None, None, None);
    job.inputs_here = false;
    let gate = |lrm_id| Run::AtGate { lrm_id, host: "host".into(), since: NOW };
    for c in &mut job.components {
        (c.restart, c.charge, c.given_back) = (None, None, false);
        c.avoid.clear();
        c.attempt.0 = 1;
        let holds = chance.random_bool(0.3);
        c.run = LrmId::new("17").ok().filter(|_| holds).map_or(Run::Idle, gate);
        let (at, seconds) = (site(chance).ok()?, chance.random_range(0..3));
        let sources = Vec::new();
        let transfer_time = DurationMs(1_000 * seconds);
        c.placement = Some(cospan_domain::job::state::Placement {
            site: at,
            sources,
            transfer_time,
            share: None,
        });
    }
    if job.components.iter().any(|c| !matches!(c.run, Run::Idle)) {
        job.phase = Phase::Claiming { since: NOW };
    }
    let max = chance.random_bool(0.6).then(|| chance.random_range(1..4));
    std::sync::Arc::make_mut(&mut job.spec).max_claim_tries = max;
    job.setbacks.claims = chance.random_range(0..4);
    Some(job)
}

/// Nothing is claimed that would be given back at once: all that is missing, or some if there
/// is another try. Whoever still lacks something tries again, as often as it may.
fn claimed(chance: &mut StdRng) -> Option<String> {
    let job = claiming(chance)?;
    let parameters = JobParameters {
        claim: ClaimParameters { l: PerMillion(500_000), ..ClaimParameters::default() },
        ..JobParameters::default()
    };
    let idle = indexed(&job).filter(|(_, c)| matches!(c.run, Run::Idle)).map(|(index, _)| index);
    let idle: Vec<_> = idle.collect();
    let start: Vec<_> = idle.iter().copied().filter(|_| chance.random_bool(0.6)).collect();
    let none = Vec::new;
    let attempt =
        ClaimTry { round: job.round, start: start.clone(), moves: none(), preempting: Vec::new() };
    if idle.is_empty() {
        return None;
    }
    let may = job.spec.max_claim_tries.is_none_or(|max| job.setbacks.claims < max);
    let schedule = job.claim_schedule(&parameters.claim)?;
    let next = job.next_claim.and_then(|planned| schedule.next_try(planned, NOW)).filter(|_| may);
    let whole = start.len() == idle.len();
    let mut ought = Vec::new();
    if whole || next.is_some() && !start.is_empty() {
        ought.push(match start.len() == job.components.len() {
            true => Happened::ClaimBegun,
            false => Happened::ComponentsClaimed { components: start, preempting: Vec::new() },
        });
    }
    let told = |what: &Happened| match what {
        Happened::ClaimBegun | Happened::ComponentsClaimed { .. } => Some(format!("{what:?}")),
        Happened::ClaimMissed { next_claim, .. } => Some(format!("missed until {next_claim:?}")),
        Happened::RoundAborted { why: AbortCause::ClaimLost { .. }, .. } => Some("lost".into()),
        _ => None,
    };
    let mut ought: Vec<String> = ought.iter().filter_map(told).collect();
    match next {
        _ if whole => {}
        Some(next) => ought.push(format!("missed until {next:?}")),
        None => ought.push("lost".into()),
    }
    let order = JobCommand::Claim(attempt, Sight::default());
    let events = decide(&job, &parameters, order.clone(), NOW);
    let is: Vec<String> = events.iter().flatten().filter_map(|event| told(&event.what)).collect();
    (is != ought).then(|| format!("{order:?} comes to {is:?}, not {ought:?}: {job:?}"))
}

/// A job that runs where nothing is heard is given up once it waited for as long as its user
/// said, not before.
fn silent(chance: &mut StdRng) -> Option<String> {
    let mut job = drawn(chance, 1).ok()?;
    job.phase = Phase::Running { since: NOW };
    (job.held, job.inputs_here, job.start_at) = (None, true, Some(NOW));
    for c in &mut job.components {
        (c.restart, c.charge, c.given_back) = (None, None, false);
        c.run = Run::Running { lrm_id: LrmId::new("17").ok()?, host: "host".into(), since: NOW };
    }
    let over = [0, 0, 1, 1_000][chance.random_range(0..4)];
    let now = NOW + PATIENCE;
    let since = Timestamp(NOW.0 + over);
    let component = ComponentIndex(0);
    job.components[0].placement.as_ref()?;
    std::sync::Arc::make_mut(&mut job.spec).rerunnable = true;
    std::sync::Arc::make_mut(&mut job.spec).wall_time = PATIENCE + PATIENCE;
    let sight = Sight { unreachable: vec![(component, since)], ..Sight::default() };
    let events = decide(&job, &JobParameters::default(), JobCommand::Look(sight), now);
    let mut events = events.iter().flatten().map(|event| &event.what);
    let given_up = events.any(|what| {
        matches!(what, Happened::RoundAborted { why: AbortCause::Unreachable { component: one }, .. } if *one == component)
    });
    let ought = since + PATIENCE <= now;
    (given_up != ought)
        .then(|| format!("silent since {since:?}, given up at {now:?}: {given_up}, {job:?}"))
}

/// Who has not begun in time after the start was decided loses it for all, not before.
fn missed(chance: &mut StdRng) -> Option<String> {
    let mut job = drawn(chance, 1).ok()?;
    (job.held, job.inputs_here, job.start_at) = (None, true, Some(NOW));
    job.phase = Phase::Starting { since: NOW };
    let mut begun = true;
    for c in &mut job.components {
        (c.restart, c.charge, c.given_back) = (None, None, false);
        let (lrm_id, host, runs) = (LrmId::new("17").ok()?, "host".into(), chance.random_bool(0.5));
        begun &= runs;
        c.run = match runs {
            true => Run::Running { lrm_id, host, since: NOW },
            false => Run::Opened { lrm_id, host, at: NOW },
        };
    }
    let grace = JobParameters::default().go_grace;
    let now = NOW + DurationMs((grace.0 + chance.random_range(0..3)).saturating_sub(1));
    let look = JobCommand::Look(Sight::default());
    let events = decide(&job, &JobParameters::default(), look, now);
    let aborted = |what: &Happened| {
        matches!(what, Happened::RoundAborted { why: AbortCause::StartMissed { .. }, .. })
    };
    let is = events.iter().flatten().any(|event| aborted(&event.what));
    let ought = !begun && NOW + grace <= now;
    (is != ought).then(|| format!("a start is missed at {now:?}: {is}, not {ought}: {job:?}"))
}

/// What is not claimed at a site that is emptied looks for another; the rest stays.
fn left(chance: &mut StdRng) -> Option<String> {
    let mut job = drawn(chance, 1).ok()?;
    job.phase = Phase::Running { since: NOW };
    job.held = None;
    if chance.random_bool(0.5) {
        std::sync::Arc::make_mut(&mut job.spec).run.restart_scope = RestartScope::Component;
    }
    let steps = [RestartStep::ToPlace, RestartStep::Staging, RestartStep::Staged];
    for c in &mut job.components {
        let step = steps[chance.random_range(0..3)];
        let restart = Restart { step, since: NOW, tries: 0, not_before: NOW };
        c.restart = chance.random_bool(0.8).then_some(restart);
        (c.given_back, c.charge) = (false, None);
        c.run = if chance.random_bool(0.6) { Run::Idle } else { c.run.clone() };
    }
    let leaves = site(chance).ok()?;
    let concerned = job.components.iter().any(|c| {
        let on_its_way = c.restart.as_ref().is_some_and(|r| r.step != RestartStep::ToPlace);
        let there = c.placement.as_ref().is_some_and(|placement| placement.site == leaves);
        there && on_its_way && matches!(c.run, Run::Idle)
    });
    let order = JobCommand::LeaveSite(leaves);
    let is = decide(&job, &JobParameters::default(), order.clone(), NOW);
    // Either that one alone begins anew, or all of them.
    let count =
        |so: fn(&Happened) -> bool| is.iter().flatten().filter(|event| so(&event.what)).count();
    let failed = count(|what| matches!(what, Happened::ComponentFailed { .. }));
    let aborted = count(|what| matches!(what, Happened::RoundAborted { .. }));
    let alone = job.components.len() > 1 || failed + aborted == 1;
    let right = match &is {
        Ok(_) => concerned && alone,
        Err(rejection) => !concerned && *rejection == Rejection::Stale,
    };
    (!right).then(|| format!("{order:?} comes to {is:?}: {job:?}"))
}
