//! The policies for components of given sizes: each component, the largest first, at a site that
//! the policy prefers; all of them, or none.

use std::cmp::Reverse;

use cospan_domain::ids::{ComponentIndex, PolicyName};
use cospan_domain::placed::{Placement, Rule};
use cospan_domain::placement::{Outcome, Plan, Reason, Refusal, SiteVerdict};
use cospan_domain::units::DurationMs;

use super::asked::{Asked, by_size};
use super::ground::Ground;
use super::groups::connected;
use super::judge::{Judge, Table};

/// A site, the file site that its files come from if that is one, and why it is this one.
pub(super) type Choice = (usize, Option<usize>, Rule);

/// How a policy chooses.
pub(super) type Pick<'p> = dyn FnMut(&Judge<'_>, usize) -> Option<Choice> + 'p;

/// What comes of a request.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) outcome: Result<Plan, Refusal>,
    pub(super) verdicts: Vec<SiteVerdict>,
    pub(super) ground: Ground,
    pub(super) table: Table,
}

/// Where most is left, then the first by name.
pub(super) fn most_left(judge: &Judge<'_>, part: usize) -> Option<Choice> {
    let open = (0..judge.ground.sites.len()).filter(|at| judge.is_open(part, *at));
    let site = open.min_by_key(|at| (Reverse(judge.ground.left(*at)[0]), *at));
    site.map(|at| (at, None, Rule::MostLeft))
}

/// By decreasing processors left.
pub(super) fn by_usable(ground: &Ground) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ground.sites.len()).collect();
    order.sort_by_key(|at| (Reverse(ground.left(*at)[0]), *at));
    order
}

/// The first of these that takes it.
pub(super) fn first_in<'p>(
    order: &'p [usize],
    rule: Rule,
) -> impl FnMut(&Judge<'_>, usize) -> Option<Choice> + 'p {
    move |judge, part| {
        let open = order.iter().find(|at| judge.is_open(part, **at));
        open.map(|at| (*at, None, rule))
    }
}

/// Its named site, or what the policy prefers.
pub(super) fn choose(judge: &Judge<'_>, part: usize, pick: &mut Pick<'_>) -> Option<Choice> {
    match &judge.parts[part].site {
        None => pick(judge, part),
        Some(named) => {
            let at = judge.ground.position(named).filter(|at| judge.is_open(part, *at))?;
            let from = judge.pair(part, at, &[]).map(|(_, from)| from);
            Some((at, from, Rule::NamedSite))
        }
    }
}

/// Places each, or none; what is told of each site comes with it.
pub(super) fn place_each(judge: &mut Judge<'_>, pick: &mut Pick<'_>) -> Told {
    let order = by_size(&judge.parts);
    let (before, mut verdicts) = (judge.ground.clone(), Vec::new());
    let mut chosen: Vec<Option<Choice>> = vec![None; judge.parts.len()];
    for (done, part) in order.iter().copied().enumerate() {
        let choice = choose(judge, part, pick);
        tell(judge, part, choice.map(|choice| choice.0), &mut verdicts);
        let Some((at, ..)) = choice else {
            let refusal = judge.refusal(part);
            tell_rest(judge.clone(), &order[done..], pick, &mut verdicts);
            judge.ground = before;
            return (Err(refusal), verdicts);
        };
        judge.take(part, at);
        chosen[part] = choice;
    }
    (Ok(chosen.into_iter().flatten().collect()), verdicts)
}

/// What was chosen for each component, and what is told of all sites.
pub(super) type Told = (Result<Vec<Choice>, Refusal>, Vec<SiteVerdict>);

fn tell(judge: &Judge<'_>, part: usize, chosen: Option<usize>, told: &mut Vec<SiteVerdict>) {
    for at in 0..judge.ground.sites.len() {
        let mut verdict = judge.verdict(part, at);
        if chosen == Some(at) {
            verdict.outcome = Outcome::Chosen;
        }
        told.push(verdict);
    }
}

fn tell_rest(
    mut judge: Judge<'_>,
    rest: &[usize],
    pick: &mut Pick<'_>,
    told: &mut Vec<SiteVerdict>,
) {
    let Some((refused, rest)) = rest.split_first() else { return };
    judge = judge.supposing(*refused).unwrap_or(judge);
    for (done, part) in rest.iter().copied().enumerate() {
        let site = choose(&judge, part, pick).map(|choice| choice.0);
        tell(&judge, part, site, told);
        match site {
            Some(at) => judge.take(part, at),
            None => return tell_rest(judge, &rest[done..], pick, told),
        }
    }
}

/// The plan of what was chosen, on the grid before.
pub(super) fn plan(judge: &Judge<'_>, chosen: &[Choice]) -> Option<Plan> {
    let placed = chosen.iter().enumerate();
    let placed = placed.map(|(part, (at, from, _))| judge.placement(part, *at, *from, None));
    let rule = chosen.iter().map(|(.., rule)| *rule).max().unwrap_or(Rule::NamedSite);
    plan_of(judge, placed.collect(), rule)
}

pub(super) fn plan_of(judge: &Judge<'_>, placements: Vec<Placement>, rule: Rule) -> Option<Plan> {
    let longest = placements.iter().map(|placement| placement.transfer_time).max();
    Some(Plan {
        seq: judge.ground.seq,
        policy: PolicyName::new(judge.whole.policy).ok()?,
        rule,
        placements,
        transfer_time: longest.unwrap_or(DurationMs(0)),
    })
}

/// What comes of a request for components of given sizes.
pub(super) fn rigid(asked: &Asked, ground: Ground, table: Table, job: u32) -> Option<Came> {
    let paired = (asked.policy == "close-to-files").then_some(&table);
    let parts = asked.parts.clone().into();
    let mut judge = Judge { ground, whole: asked, parts, job, table: paired };
    let order = by_usable(&judge.ground);
    let mut learned = Vec::new();
    let (chosen, verdicts) = match (asked.policy, asked.parts.len()) {
        ("close-to-files", _) => place_each(&mut judge, &mut |judge, part| {
            let choice = close_to_files(judge, part, &learned);
            if let Some((at, Some(_), _)) = choice {
                learned.extend(judge.file_sites(part, at).into_iter().map(|from| (at, from)));
            }
            choice
        }),
        ("worst-fit", _) | (_, 1) => place_each(&mut judge, &mut most_left),
        ("cluster-minimization", _) => {
            place_each(&mut judge, &mut first_in(&order, Rule::FirstInOrder))
        }
        _ => {
            let order = connected(&judge, &order);
            place_each(&mut judge, &mut first_in(&order, Rule::BestConnected))
        }
    };
    let outcome = match chosen {
        Ok(chosen) => Ok(plan(&judge, &chosen)?),
        Err(refusal) => Err(refusal),
    };
    let (ground, mut known) = (judge.ground.clone(), table.clone());
    if let (Table::Pairs(pairs), Ok(_)) = (&mut known, &outcome) {
        pairs.extend(learned);
    }
    Some(Came { outcome, verdicts, ground, table: known })
}

/// The first site by name that has its files; else the pair over which they arrive first. Equal
/// ones by more left, then execution site, then file site; without input as Worst-Fit.
fn close_to_files(judge: &Judge<'_>, part: usize, learned: &[(usize, usize)]) -> Option<Choice> {
    let asked = &judge.parts[part];
    let elsewhere = asked.executable_at.iter().any(|(_, content)| content.is_some());
    let reads = !asked.inputs.is_empty() || !asked.chunks.is_empty() || asked.executable.is_some();
    if !reads && !elsewhere {
        return most_left(judge, part);
    }
    let mut sites = 0..judge.ground.sites.len();
    let has_all = |at: &usize| judge.is_open(part, *at) && judge.missing(part, *at).is_none();
    if let Some(at) = sites.clone().find(has_all) {
        return Some((at, None, Rule::AtFiles));
    }
    let pairs = sites.by_ref().filter_map(|at| {
        let pair = judge.pair(part, at, learned);
        // The table need not have a pair that the job itself adds to it.
        let paired = |reason: &Reason| pair.is_some() && *reason == Reason::NotInHistory;
        if !judge.reasons(part, at).iter().all(paired) {
            return None;
        }
        let all = judge.transfer_time(part, at).map(|time| (time.0, None));
        let (time, from) = pair.map(|(time, from)| (time, Some(from))).or(all)?;
        Some((time, Reverse(judge.ground.left(at)[0]), at, from))
    });
    let best = pairs.min_by_key(|(time, left, at, _)| (*time, *left, *at));
    best.map(|(_, _, at, from)| (at, from, Rule::NearestPair))
}

/// What kept most of the sites that no component went to: the worst reason of each for the first
/// component, the largest first, that it is closed to. Only four that differ are looked at.
pub(super) fn dominant(judge: &Judge<'_>, plan: &Plan) -> Option<(u32, u32)> {
    let mut kinds: Vec<usize> = Vec::new();
    for part in by_size(&judge.parts) {
        if kinds.len() < 4 && kinds.iter().all(|kind| judge.parts[*kind] != judge.parts[part]) {
            kinds.push(part);
        }
    }
    let is_used = |at: &usize| {
        plan.placements.iter().any(|placement| placement.site == judge.ground.sites[*at].name)
    };
    let worst = (0..judge.ground.sites.len()).filter(|at| !is_used(at)).filter_map(|at| {
        let mut reasons = kinds
            .iter()
            .filter_map(|kind| judge.reasons(*kind, at).first().map(|reason| reason.code() as u32));
        reasons.next()
    });
    let worst: Vec<u32> = worst.collect();
    let count = |code: u32| worst.iter().filter(|other| **other == code).count() as u32;
    worst.iter().map(|code| (count(*code), Reverse(*code))).max().map(|(n, code)| (code.0, n))
}

/// Told apart from others by its index.
pub(super) fn numbered(part: usize) -> ComponentIndex {
    ComponentIndex(part as u32)
}
