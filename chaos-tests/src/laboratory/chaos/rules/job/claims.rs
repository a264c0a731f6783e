//! When processors are claimed, what can start, and who gives way.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cospan_domain::claim::{
    ClaimSchedule, ClaimingQueue, MinClaimStep, Victim, Wanted, choose_victims, startable,
};
use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::spec::Priority;
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::quantities::{counts, vector};

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    [tries(chance), starts(chance), victims(chance), queued(chance)].into_iter().flatten().collect()
}

/// The first after L of the transfer, each next after L of what is left but not before the
/// least step, the last at the start.
fn tries(chance: &mut StdRng) -> Vec<String> {
    let ratio = [0, 250_000, 750_000, 1_000_000][chance.random_range(0..4)];
    let transfer = chance.random_range(0..=200_000_u64);
    let fixed = DurationMs(chance.random_range(1..=20_000));
    let (min_step, least) = match chance.random_bool(0.5) {
        true => (MinClaimStep::Auto, transfer.div_ceil(64).max(1_000)),
        false => (MinClaimStep::Fixed(fixed), fixed.0),
    };
    let placed_at = Timestamp(chance.random_range(0..1_000_000));
    let (transfer_time, l) = (DurationMs(transfer), PerMillion(ratio));
    let schedule = ClaimSchedule { placed_at, transfer_time, l, min_step };
    let part = |of: u64| (of * u64::from(ratio)).div_ceil(1_000_000);
    let start = placed_at.0 + transfer;
    let mut planned = placed_at.0 + part(transfer);
    if schedule.first_try().0 != planned || schedule.start_time().0 != start {
        return vec![format!("{schedule:?} begins at {:?}", schedule.first_try())];
    }
    for _ in 0..6 {
        let now = planned + [0, 0, chance.random_range(0..5_000)][chance.random_range(0..3)];
        let expected = (planned < start).then(|| {
            let step = part(start.saturating_sub(now)).max(least);
            (now + step).min(start)
        });
        let next = schedule.next_try(Timestamp(planned), Timestamp(now)).map(|at| at.0);
        if next != expected {
            return vec![format!("{schedule:?} after {planned} at {now}: {next:?}")];
        }
        let Some(next) = next else { break };
        planned = next;
    }
    Vec::new()
}

fn name(number: u32) -> Option<SiteName> {
    SiteName::new(&format!("site-{number}")).ok()
}

/// In decreasing size, each that fits what is idle takes from it.
fn starts(chance: &mut StdRng) -> Vec<String> {
    let idle: Vec<_> = (0..3).map(|_| vector(chance, 16)).collect();
    let wanted: Vec<(u32, u32, _)> = (0..chance.random_range(1..=5))
        .map(|component| (component, chance.random_range(0..4), vector(chance, 8)))
        .collect();
    let given = wanted.iter().filter_map(|(component, site, resources)| {
        let (component, site) = (ComponentIndex(*component), name(*site)?);
        Some(Wanted { component, site, resources: resources.clone() })
    });
    let of = |site: &SiteName| {
        let at = (0..3).find(|number| name(*number).as_ref() == Some(site))?;
        idle.get(at as usize).cloned()
    };
    let found = startable(given.collect(), of);
    let mut left: Vec<[u64; 3]> = idle.iter().map(counts).collect();
    left.push([0; 3]);
    let mut order: Vec<_> = wanted.iter().collect();
    order.sort_by_key(|(component, _, resources)| (Reverse(resources.processors), *component));
    let (mut now, mut not) = (Vec::new(), Vec::new());
    for (component, site, resources) in order {
        let (left, need) = (&mut left[*site as usize], counts(resources));
        let fits = (0..3).all(|at| left[at] >= need[at]);
        if fits {
            (0..3).for_each(|at| left[at] -= need[at]);
        }
        if fits { &mut now } else { &mut not }.push(ComponentIndex(*component));
    }
    let right = (&found.now, &found.not) == (&now, &not);
    let (threshold, started) = (chance.random_range(0..=100), chance.random_range(0..3_u64));
    let have = started + now.len() as u64;
    let reaches = have * 100 >= (have + not.len() as u64) * threshold;
    let ratio = PerMillion(u32::try_from(threshold * 10_000).unwrap_or(0));
    let said = found.reaches(ratio, usize::try_from(started).unwrap_or(0));
    let wrong = !right || said != reaches;
    wrong
        .then(|| format!("of {wanted:?} on {idle:?} these can start: {found:?}"))
        .into_iter()
        .collect()
}

/// Only lower jobs, only if that suffices, and none that is not needed: first who has not
/// begun, then the latest start, the latest submission, the greatest number.
fn victims(chance: &mut StdRng) -> Vec<String> {
    let (idle, need) = (vector(chance, 6), vector(chance, 20));
    let class = Priority::ALL[chance.random_range(0..4)];
    let all: Vec<Victim> = (0..chance.random_range(0..=6))
        .map(|job| Victim {
            job: JobId(job),
            priority: Priority::ALL[chance.random_range(0..4)],
            resources: vector(chance, 8),
            start_estimate: Timestamp(chance.random_range(0..3)),
            submitted_at: Timestamp(chance.random_range(0..3)),
            at_gate: chance.random_bool(0.3),
        })
        .collect();
    let suffices = |jobs: &[&Victim]| {
        (0..3).all(|at| {
            let given: u64 = jobs.iter().map(|victim| counts(&victim.resources)[at]).sum();
            counts(&idle)[at] + given >= counts(&need)[at]
        })
    };
    let mut order: Vec<&Victim> = all.iter().filter(|victim| victim.priority < class).collect();
    order.sort_by_key(|v| (Reverse(v.at_gate), Reverse((v.start_estimate, v.submitted_at, v.job))));
    let enough = (0..=order.len()).find(|count| suffices(&order[..*count]));
    let expected = enough.map(|count| {
        let mut chosen = order[..count].to_vec();
        for victim in order[..count].iter().rev() {
            let without: Vec<&Victim> =
                chosen.iter().copied().filter(|other| other.job != victim.job).collect();
            if suffices(&without) {
                chosen = without;
            }
        }
        chosen.into_iter().map(|victim| victim.job).collect::<Vec<_>>()
    });
    let said = choose_victims(&idle, &need, class, all.clone());
    let said = said.map(|victims| victims.iter().map(|victim| victim.job).collect::<Vec<_>>());
    let wrong = said != expected;
    let text = || format!("{said:?} give way to {need:?} of {class:?} beside {idle:?}: {all:?}");
    wrong.then(text).into_iter().collect()
}

fn queued(chance: &mut StdRng) -> Vec<String> {
    let (mut queue, mut plain) = (ClaimingQueue::default(), BTreeMap::new());
    for _ in 0..12 {
        let job = JobId(chance.random_range(0..5));
        if chance.random_bool(0.7) {
            let at = Timestamp(chance.random_range(0..10));
            queue.insert(job, at);
            plain.insert(job, at);
        } else if queue.remove(job) != plain.remove(&job) {
            return vec![format!("{job} was not to be claimed then")];
        }
        let now = Timestamp(chance.random_range(0..10));
        let mut due: Vec<_> =
            plain.iter().map(|(job, at)| (*at, *job)).filter(|(at, _)| *at <= now).collect();
        due.sort_unstable();
        let right = queue.due(now).collect::<Vec<_>>() == due
            && queue.next_due() == plain.values().min().copied()
            && queue.len() == plain.len()
            && queue.time_of(job) == plain.get(&job).copied();
        if !right {
            return vec![format!("due by {now:?} of {plain:?}: {queue:?}")];
        }
    }
    Vec::new()
}
