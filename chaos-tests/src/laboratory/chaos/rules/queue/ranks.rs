//! Which class a job gets: the first rule of the configuration that matches it speaks for it.
//! Rules are tried one by one, and whether one hides another is tried with every kind of job.

use cospan_domain::ids::{KeyName, RunnerName};
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::{AboveHighest, Asking, ClassRule, Classified, JobTraits, class_of};
use cospan_domain::runner::DEFAULT_RUNNER;
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::super::records::drawn;

/// From the least urgent.
const CLASSES: [Priority; 4] =
    [Priority::SuperLow, Priority::Low, Priority::High, Priority::SuperHigh];
const TIMES: [u64; 5] = [0, 1_000, 2_000, 3_000, u64::MAX];

struct Names {
    owners: [KeyName; 3],
    runners: [RunnerName; 3],
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let Some(names) = names() else { return vec!["names are refused".to_owned()] };
    let rules: Vec<ClassRule> =
        (0..chance.random_range(0..4)).map(|_| rule(chance, &names)).collect();
    let mut found = Vec::new();
    for _ in 0..4 {
        found.extend(classified(chance, &names, &rules));
    }
    found.extend(hidden(&names, &rule(chance, &names), &rule(chance, &names)));
    found.extend(traits(chance, &names));
    found
}

fn names() -> Option<Names> {
    let owner = |name| KeyName::new(name).ok();
    let runner = |name| RunnerName::new(name).ok();
    Some(Names {
        owners: [owner("alice")?, owner("bob")?, owner("carol")?],
        runners: [runner(DEFAULT_RUNNER)?, runner("one")?, runner("other")?],
    })
}

/// Of owners and runners some are in no rule.
fn rule(chance: &mut StdRng, names: &Names) -> ClassRule {
    let least = chance.random_range(0..4);
    let most = chance.random_range(least..5);
    let mut some = |percent: f64| chance.random_bool(percent);
    let [owned, run, long, short, classed, capped] =
        [some(0.3), some(0.3), some(0.4), some(0.4), some(0.5), some(0.6)];
    let owner = names.owners[..2].choose(chance).cloned();
    let runner = names.runners[..2].choose(chance).cloned();
    let (class, highest) = (CLASSES.choose(chance).copied(), CLASSES.choose(chance).copied());
    ClassRule {
        owner: owner.filter(|_| owned),
        runner: runner.filter(|_| run),
        min_wall_time: Some(DurationMs(TIMES[least])).filter(|_| long),
        max_wall_time: Some(DurationMs(TIMES[most])).filter(|_| short),
        class: class.filter(|_| classed),
        highest: highest.filter(|_| capped),
    }
}

fn matches(rule: &ClassRule, job: &JobTraits<'_>) -> bool {
    let ClassRule { owner, runner, min_wall_time, max_wall_time, .. } = rule;
    let (least, most) = (min_wall_time.map_or(0, |t| t.0), max_wall_time.map_or(u64::MAX, |t| t.0));
    !(owner.as_ref().is_some_and(|owner| owner != job.owner)
        || runner.as_ref().is_some_and(|runner| runner.as_str() != job.runner)
        || !(least..=most).contains(&job.wall_time.0))
}

fn rank(class: Priority) -> usize {
    CLASSES.iter().position(|other| *other == class).unwrap_or_default()
}

/// What is asked for, or what the rule gives: not above its highest, unless it says so itself.
fn judge(
    asked: Priority,
    how: Asking,
    job: &JobTraits<'_>,
    rules: &[ClassRule],
) -> Result<Classified, AboveHighest> {
    let at = rules.iter().position(|rule| matches(rule, job));
    let rule = at.map(|at| &rules[at]);
    let highest = rule.and_then(|rule| rule.highest);
    let top = highest.map_or(3, rank);
    let given = rule.and_then(|rule| rule.class).unwrap_or(CLASSES[top.min(rank(Priority::Low))]);
    let number = at.map(|at| at + 1);
    let class = if how.names_none { given } else { asked };
    match (number, highest) {
        (Some(rule), Some(highest)) if !how.names_none && !how.uncapped && rank(asked) > top => {
            Err(AboveHighest { asked, highest, rule })
        }
        _ => Ok(Classified { class, given: how.names_none, rule: number }),
    }
}

fn classified(chance: &mut StdRng, names: &Names, rules: &[ClassRule]) -> Option<String> {
    let job = JobTraits {
        owner: names.owners.choose(chance)?,
        runner: names.runners.choose(chance)?.as_str(),
        wall_time: DurationMs(TIMES[chance.random_range(0..5)]),
    };
    let asked = *CLASSES.choose(chance)?;
    let how = Asking { names_none: chance.random_bool(0.4), uncapped: chance.random_bool(0.2) };
    let (is, ought) = (class_of(asked, how, &job, rules), judge(asked, how, &job, rules));
    if is != ought {
        return Some(format!(
            "{job:?} asks for {asked} {how:?}: {is:?}, not {ought:?} by {rules:?}"
        ));
    }
    let refusal = is.err()?;
    let (text, remedy) = (refusal.to_string(), refusal.remedy());
    let says = [
        text.contains(&format!(" {} ", refusal.asked)),
        text.contains(&format!(" {},", refusal.highest)),
        text.contains(&format!(" {} ", refusal.rule)),
        remedy.contains(refusal.highest.as_str()),
    ];
    (says != [true; 4]).then(|| format!("{refusal:?} says {text:?} and {remedy:?}"))
}

/// A rule hides a later one if every job of that one is its own.
fn hidden(names: &Names, first: &ClassRule, later: &ClassRule) -> Option<String> {
    let mut hides = true;
    for owner in &names.owners {
        for runner in &names.runners {
            for wall_time in TIMES.map(DurationMs) {
                let job = JobTraits { owner, runner: runner.as_str(), wall_time };
                hides &= !matches(later, &job) || matches(first, &job);
            }
        }
    }
    let is = first.covers(later);
    (is != hides).then(|| format!("{first:?} covers {later:?}: {is}"))
}

/// A job is judged by its owner, its wall time and its runner, which most do not name.
fn traits(chance: &mut StdRng, names: &Names) -> Option<String> {
    let job = drawn(chance, 1).ok()?;
    let mut spec = (*job.spec).clone();
    spec.wall_time = DurationMs(chance.random_range(1..9));
    spec.run.runner = names.runners.choose(chance).cloned().filter(|_| chance.random_bool(0.5));
    let owner = names.owners.choose(chance)?;
    let is = JobTraits::of(owner, &spec);
    let runner = spec.run.runner.as_ref().map_or(DEFAULT_RUNNER, |runner| runner.as_str());
    let ought = JobTraits { owner, runner, wall_time: spec.wall_time };
    (is != ought).then(|| format!("a job is judged by {is:?}, not {ought:?}"))
}
