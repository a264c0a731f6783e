//! What is due for a job in any state, when it is looked at next, and which rules its
//! record breaks.

use anyhow::Result;
use cospan_domain::claim::ClaimParameters;
use cospan_domain::ids::{ComponentIndex, LrmId};
use cospan_domain::invariants::broken;
use cospan_domain::job::decide::is_last_absence;
use cospan_domain::job::due::{
    EffectKind, JobEffect, avoids, due, next_wake, overdue_at, restart_ends,
};
use cospan_domain::job::parameters::JobParameters;
use cospan_domain::job::spec::{Collect, Request};
use cospan_domain::job::state::{Component, Ending, Job, Phase, Restart, RestartStep, Run};
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::records::{NOW, drawn, indexed, moment};

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let parameters = patience(chance);
    let Ok(job) = draw(chance, &parameters) else { return vec!["no job can be drawn".to_owned()] };
    let mut found = Vec::new();
    let mut check = |what: &str, is: String, ought: String| {
        if is != ought {
            found.push(format!("{what} {is}, not {ought}: {job:?}"));
        }
    };
    check("it breaks", format!("{:?}", told(&job)), format!("{:?}", breaks(&job)));
    let mut effects = due(&job, NOW);
    effects.sort();
    check("due is", format!("{effects:?}"), format!("{:?}", to_do(&job)));
    let at = next_wake(&job, &parameters, NOW);
    check("it wakes", format!("{at:?}"), format!("{:?}", wakes(&job, &parameters)));
    let ends = |c: &Component| (overdue_at(&job, c, &parameters), restart_ends(c, &parameters));
    let ends = job.components.iter().map(ends).collect::<Vec<_>>();
    let ought = |c: &Component| (overdue(&job, c, &parameters), restarted(c, &parameters));
    let ought = job.components.iter().map(ought).collect::<Vec<_>>();
    check("it is late", format!("{ends:?}"), format!("{ought:?}"));
    let shuns = job.components.iter().any(|c| !c.avoid.is_empty());
    check("it avoids sites", avoids(&job).to_string(), shuns.to_string());
    let claim = job.claim_time(&parameters);
    check("it claims", format!("{claim:?}"), format!("{:?}", claims(&job, &parameters)));
    check("it has", summary(&job), summed(&job));
    for component in &job.components {
        let asked_at = moment(chance);
        let last = match component.run {
            Run::Uncertain { settled_at, absences: 1, .. } => settled_at <= asked_at,
            _ => false,
        };
        let is = is_last_absence(&component.run, asked_at);
        check(
            "the last absence",
            format!("{is} at {asked_at:?}"),
            format!("{last} at {asked_at:?}"),
        );
    }
    found
}

/// Any job, and often one that claims or runs, with components that are restarted alone or whose
/// time is just over.
fn draw(chance: &mut StdRng, p: &JobParameters) -> Result<Job> {
    let mut job = drawn(chance, 1)?;
    let (at, since) = (moment(chance), moment(chance));
    match chance.random_range(0..6) {
        0 | 1 => job.phase = Phase::Claiming { since },
        2 | 3 => job.phase = Phase::Running { since },
        4 => job.phase = Phase::Collecting { since },
        _ => return Ok(job),
    }
    let (wall_time, runs) = (job.spec.wall_time, matches!(job.phase, Phase::Running { .. }));
    for c in &mut job.components {
        let over = NOW - wall_time - p.wall_margin;
        match &mut c.run {
            Run::Uncertain { look_at, .. } if chance.random_bool(0.3) => *look_at = NOW,
            run if !runs && chance.random_bool(0.4) => {
                let (lrm_id, host) = (LrmId::new("17")?, "host".into());
                *run = Run::AtGate { lrm_id, host, since: at };
            }
            run if !runs && chance.random_bool(0.2) => {
                *run = Run::Uncertain { settled_at: NOW, absences: 1, look_at: NOW };
            }
            _ if !runs => {}
            Run::Running { since, .. } if chance.random_bool(0.4) => *since = over,
            Run::Running { .. } => {}
            run if chance.random_bool(0.5) => {
                *run = if chance.random_bool(0.6) { Run::Idle } else { run.clone() };
                let (since, not_before) = (moment(chance), NOW);
                let step = RestartStep::Staged;
                c.restart = Some(Restart { step, since, tries: 0, not_before });
            }
            _ => {}
        }
    }
    Ok(job)
}

/// L is a half, and everybody waits for some seconds, so that one wait often outlasts another.
fn patience(chance: &mut StdRng) -> JobParameters {
    let mut some = || DurationMs(1_000 * chance.random_range(1..=60));
    JobParameters {
        claim: ClaimParameters { l: PerMillion(500_000), ..ClaimParameters::default() },
        claim_timeout: some(),
        hold_max: some(),
        go_grace: some(),
        look_up_interval: some(),
        avoid_for: some(),
        wall_margin: some(),
        ..JobParameters::default()
    }
}

fn told(job: &Job) -> Vec<String> {
    broken(job).iter().map(ToString::to_string).collect()
}

fn is_over(job: &Job) -> bool {
    matches!(job.phase, Phase::Finished { .. } | Phase::Failed { .. } | Phase::Cancelled { .. })
}

fn lives(run: &Run) -> bool {
    match run {
        Run::Idle | Run::Ended { .. } => false,
        Run::Intended { .. } | Run::Uncertain { .. } | Run::Submitted { .. } => true,
        Run::AtGate { .. } | Run::Opened { .. } | Run::Running { .. } => true,
    }
}

/// The numbered rules of records, as they are written.
fn breaks(job: &Job) -> Vec<String> {
    let waits = matches!(job.phase, Phase::Queued { .. });
    let past = !waits && !is_over(job);
    let any = |so: &dyn Fn(&Component) -> bool| job.components.iter().any(so);
    let open = |c: &Component| matches!(c.run, Run::Opened { .. } | Run::Running { .. });
    let begun = |c: &Component| {
        let exited = |how: &Ending| matches!(how, Ending::Succeeded | Ending::Failed(_));
        match &c.run {
            Run::Running { .. } => true,
            Run::Ended { how, .. } => exited(how),
            _ => false,
        }
    };
    let running = matches!(job.phase, Phase::Running { .. });
    let going = running || matches!(job.phase, Phase::Collecting { .. });
    let elsewhere = |c: &Component| {
        let site = c.placement.as_ref().map(|placement| &placement.site);
        c.charge.as_ref().is_some_and(|charge| Some(&charge.site) != site)
    };
    let rules = [
        ("J1 AliveAtRest", !past && any(&|c| lives(&c.run))),
        ("J2 NoPlace", past && any(&|c| c.placement.is_none())),
        ("J3 BegunBeforeGo", job.start_at.is_none() && any(&open)),
        ("J4 GoWithoutInput", past && job.start_at.is_some() && !job.inputs_here),
        ("J5 NoAttempt", any(&|c| lives(&c.run) && c.attempt.0 == 0)),
        ("J6 NotAllBegun", going && any(&|c| !begun(c) && c.restart.is_none())),
        ("J7 StrangeCharge", any(&elsewhere)),
        ("J8 StrangeRestart", !running && any(&|c| c.restart.is_some())),
    ];
    rules.into_iter().filter(|(_, breaks)| *breaks).map(|(rule, _)| rule.to_owned()).collect()
}

/// For each kind of deed, when it is due.
fn to_do(job: &Job) -> Vec<JobEffect> {
    let mut all = Vec::new();
    for (index, c) in indexed(job).filter(|_| job.held.is_none()) {
        let (claims, runs) = (
            matches!(job.phase, Phase::Claiming { .. }),
            matches!(job.phase, Phase::Running { .. }),
        );
        let aborts = matches!(job.phase, Phase::Aborting { .. });
        let ends = aborts || (claims || runs) && c.given_back;
        let goes = (claims || runs) && !c.given_back;
        let starts = matches!(job.phase, Phase::Starting { .. });
        let uncertain = matches!(c.run, Run::Uncertain { .. });
        let look = matches!(c.run, Run::Uncertain { look_at, .. } if look_at <= NOW);
        let intended = matches!(c.run, Run::Intended { .. });
        let at_gate = matches!(c.run, Run::AtGate { .. });
        let known = lives(&c.run) && !intended && !uncertain;
        let mut kinds = vec![
            (EffectKind::RecordCharge, c.charge.is_some()),
            (EffectKind::Submit, intended && goes),
            (EffectKind::Withdraw, intended && ends),
            (EffectKind::LookUp, look && (goes || ends)),
            (EffectKind::End, ends && (uncertain || known)),
            (EffectKind::OpenGate, at_gate && (starts || runs && !c.given_back)),
        ];
        let collects = matches!(job.phase, Phase::Collecting { .. });
        let asked = match job.spec.request {
            Request::Flexible(_) => &job.spec.components[0],
            _ => &job.spec.components[index.0 as usize],
        };
        for (at, (state, output)) in (0..).zip(c.collected.iter().zip(&asked.outputs)) {
            let to_site = matches!(output.collect, Collect::ToSite { .. });
            let open = collects && to_site && !state.done;
            kinds.push((EffectKind::ReadOutput(at), open && state.content.is_none()));
            kinds.push((EffectKind::RegisterOutput(at), open && state.content.is_some()));
        }
        let due = kinds.into_iter().filter(|(_, due)| *due);
        all.extend(due.map(|(kind, _)| JobEffect { component: index, attempt: c.attempt, kind }));
    }
    all.sort();
    all
}

/// The first moment at which something is to be looked up or a patience ends.
fn wakes(job: &Job, p: &JobParameters) -> Option<Timestamp> {
    if job.held.is_some() {
        return None;
    }
    let mut times = Vec::new();
    for c in &job.components {
        // One that is due is made, or waits for what is under way.
        if let Run::Uncertain { look_at, .. } = c.run
            && NOW < look_at
        {
            times.push(look_at);
        }
        match (&job.phase, &c.run) {
            (Phase::Queued { since, .. }, _) if !c.avoid.is_empty() => {
                times.push(*since + p.avoid_for);
            }
            (Phase::Claiming { .. }, Run::AtGate { since, .. }) if !c.given_back => {
                times.push(*since + p.hold_max);
            }
            (Phase::Claiming { since }, run) if !matches!(run, Run::Idle) && !c.given_back => {
                times.push(*since + p.claim_timeout);
            }
            (Phase::Starting { since }, _) => times.push(*since + p.go_grace),
            (Phase::Running { .. }, _) => {
                let over = overdue(job, c, p);
                times.extend(
                    over.map(|over| if NOW < over { over } else { NOW + p.look_up_interval }),
                );
                times.extend(restarted(c, p));
            }
            _ => {}
        }
    }
    if matches!(job.phase, Phase::Placed { .. }) {
        times.extend(claims(job, p));
    }
    times.into_iter().min()
}

/// A payload ought to be over after its wall time and a margin.
fn overdue(job: &Job, c: &Component, p: &JobParameters) -> Option<Timestamp> {
    let Run::Running { since, .. } = c.run else { return None };
    Some(Timestamp(since.0 + job.spec.wall_time.0 + p.wall_margin.0))
}

/// Who begins anew alone waits for other sites, at its gate, for its payload, or for its
/// processors.
fn restarted(c: &Component, p: &JobParameters) -> Option<Timestamp> {
    let restart = c.restart.as_ref().filter(|_| !c.given_back)?;
    let (from, patience) = match &c.run {
        Run::Idle if c.avoid.is_empty() => return None,
        Run::Idle => (restart.since, p.avoid_for),
        Run::AtGate { since, .. } => (*since, p.hold_max),
        Run::Opened { at, .. } => (*at, p.go_grace),
        _ => (restart.since, p.claim_timeout),
    };
    Some(Timestamp(from.0 + patience.0))
}

/// A placed job, one of which a component has nothing yet, or one that is restarted alone.
fn claims(job: &Job, p: &JobParameters) -> Option<Timestamp> {
    let idle = |c: &Component| matches!(c.run, Run::Idle);
    let returned = job.components.iter().any(|c| c.given_back);
    match job.phase {
        Phase::Placed { .. } => {}
        Phase::Claiming { .. } if job.components.iter().any(idle) && !returned => {}
        Phase::Running { .. } => {
            let waits = job.components.iter().filter(|c| idle(c) && c.charge.is_none());
            let ready = waits.filter_map(|c| c.restart.as_ref());
            let ready = ready.filter(|restart| restart.step != RestartStep::Staging);
            return ready.map(|restart| restart.not_before).min();
        }
        _ => return None,
    }
    let (placed, start) = (job.instants.placed?, job.instants.start_estimate?);
    if job.next_claim.is_some() || job.inputs_here {
        return job.next_claim.or(Some(placed));
    }
    // L is a half.
    let first = placed.0 + (start.0 - placed.0).div_ceil(2);
    Some(Timestamp(first.max(start.0.saturating_sub(p.hold_max.0))))
}

/// What else is told of a record.
fn summary(job: &Job) -> String {
    let untold: Vec<_> = job.untold().collect();
    let unclaimed: Vec<_> = job.unclaimed().collect();
    let restarting: Vec<_> = job.restarting().collect();
    let flags = [job.may_live_anywhere(), job.owes_charges(), job.is_placed(), job.is_final()];
    let more = [job.is_staging(), job.may_be_preempted(), job.ended_at().is_some()];
    let counts = (job.component_count(), job.sites_combined());
    format!("{untold:?} {unclaimed:?} {restarting:?} {flags:?} {more:?} {counts:?}")
}

fn summed(job: &Job) -> String {
    let every = &job.components;
    let wanted = job.spec.run.notify.iter();
    let untold: Vec<_> = wanted.filter(|who| is_over(job) && !job.told.contains(*who)).collect();
    let of = |so: fn(&Component) -> bool| -> Vec<ComponentIndex> {
        indexed(job).filter(|(_, c)| so(c)).map(|(index, _)| index).collect()
    };
    let unclaimed = of(|c| matches!(c.run, Run::Idle));
    let restarting = of(|c| c.restart.is_some());
    let mut sites: Vec<_> =
        every.iter().filter_map(|c| Some(&c.placement.as_ref()?.site)).collect();
    sites.sort();
    sites.dedup();
    let waits = matches!(job.phase, Phase::Queued { .. });
    let flags = [
        every.iter().any(|c| lives(&c.run)),
        every.iter().any(|c| c.charge.is_some()),
        !waits && !sites.is_empty(),
        is_over(job),
    ];
    let stages = |c: &Component| {
        c.restart.as_ref().is_some_and(|restart| restart.step == RestartStep::Staging)
    };
    let more =
        [every.iter().any(stages), job.spec.rerunnable || job.start_at.is_none(), is_over(job)];
    let counts = (every.len(), sites.len());
    format!("{untold:?} {unclaimed:?} {restarting:?} {flags:?} {more:?} {counts:?}")
}
