//! Classes by rule: the first that matches speaks, and no key that is bound gets past it.

use proptest::prelude::*;

use super::*;
use crate::ids::{KeyName, RunnerName};

const OWNERS: [&str; 2] = ["alice", "bob"];
const RUNNERS: [&str; 2] = ["default", "sweep"];
const NAMED: ClassRequest = ClassRequest {
    names_none: false,
    uncapped: false,
};
const LEFT_OPEN: ClassRequest = ClassRequest {
    names_none: true,
    uncapped: false,
};

fn key(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

fn hours(hours: u64) -> DurationMs {
    DurationMs::from_secs(hours * 3_600)
}

fn class_properties<'j>(owner: &'j KeyName, runner: &'j str, wall: u64) -> JobClassProperties<'j> {
    JobClassProperties {
        owner,
        runner,
        wall_time: hours(wall),
    }
}

fn drawn_rule() -> impl Strategy<Value = JobClassRule> {
    let class = || prop::option::of(prop::sample::select(Priority::ALL.to_vec()));
    let hours = || prop::option::of((0..6u64).prop_map(hours));
    let owner = prop::option::of(prop::sample::select(OWNERS.to_vec()));
    let runner = prop::option::of(prop::sample::select(RUNNERS.to_vec()));
    (owner, runner, hours(), hours(), class(), class()).prop_map(
        |(owner, runner, min_wall_time, max_wall_time, class, highest)| JobClassRule {
            owner: owner.map(key),
            runner: runner.map(|name| RunnerName::new(name).unwrap()),
            min_wall_time,
            max_wall_time,
            // As the configuration is checked: no rule gives more than it allows.
            class: class.map(|class| highest.map_or(class, |most| class.min(most))),
            highest,
        },
    )
}

/// The class alone.
fn class_for(
    asked: Priority,
    how: ClassRequest,
    job: &JobClassProperties<'_>,
    rules: &[JobClassRule],
) -> Result<Priority, ClassLimitError> {
    decide_class(asked, how, job, rules).map(|classified| classified.class)
}

/// A rule for all jobs.
fn rule_for_all(class: Option<Priority>, highest: Option<Priority>) -> JobClassRule {
    JobClassRule {
        class,
        highest,
        ..JobClassRule::default()
    }
}

#[test]
fn without_rules_every_class_may_be_asked_for_and_low_is_given() {
    let alice = key("alice");
    let asked = Priority::SuperHigh;
    let job = class_properties(&alice, "default", 1);
    assert_eq!(class_for(asked, NAMED, &job, &[]), Ok(Priority::SuperHigh));
    assert_eq!(class_for(asked, LEFT_OPEN, &job, &[]), Ok(Priority::Low));
}

#[test]
fn the_first_rule_that_matches_speaks_alone() {
    let short = JobClassRule {
        max_wall_time: Some(hours(1)),
        ..rule_for_all(Some(Priority::High), None)
    };
    let of_bob = JobClassRule {
        owner: Some(key("bob")),
        ..rule_for_all(Some(Priority::SuperHigh), None)
    };
    let sweeps = JobClassRule {
        runner: RunnerName::new("sweep").ok(),
        ..rule_for_all(None, None)
    };
    let long = JobClassRule {
        min_wall_time: Some(hours(3)),
        ..rule_for_all(Some(Priority::SuperLow), None)
    };
    let rules = [short, of_bob, sweeps, long];
    let alice = key("alice");
    let bob = key("bob");
    let given = |owner, runner, wall| {
        class_for(
            Priority::Low,
            LEFT_OPEN,
            &class_properties(owner, runner, wall),
            &rules,
        )
        .unwrap()
    };
    assert_eq!(
        given(&bob, "default", 1),
        Priority::High,
        "short, whoever asks"
    );
    assert_eq!(given(&bob, "default", 9), Priority::SuperHigh);
    assert_eq!(
        given(&alice, "sweep", 9),
        Priority::Low,
        "a rule that says nothing exempts"
    );
    assert_eq!(given(&alice, "default", 3), Priority::SuperLow);
    assert_eq!(given(&alice, "default", 2), Priority::Low, "no rule speaks");
}

#[test]
fn a_class_above_the_highest_is_refused_with_the_rule_and_the_remedy() {
    let rules = [
        JobClassRule {
            owner: Some(key("bob")),
            ..rule_for_all(None, None)
        },
        { rule_for_all(Some(Priority::SuperLow), Some(Priority::Low)) },
    ];
    let alice = key("alice");
    let job = class_properties(&alice, "default", 1);
    let refused = class_for(Priority::SuperHigh, NAMED, &job, &rules).unwrap_err();
    let words = "the priority super-high is above low, the highest that [[priority]] number 2 of \
                 the configuration allows this job";
    assert_eq!(refused.to_string(), words);
    assert_eq!(
        refused.remedy(),
        "ask for at most low, or ask an administrator"
    );
    assert_eq!(
        class_for(Priority::Low, NAMED, &job, &rules),
        Ok(Priority::Low)
    );
    let uncapped = ClassRequest {
        uncapped: true,
        ..NAMED
    };
    assert_eq!(
        class_for(Priority::SuperHigh, uncapped, &job, &rules),
        Ok(Priority::SuperHigh)
    );
}

#[test]
fn with_the_class_comes_the_jobs_rule_and_whether_that_gave_it() {
    let short = JobClassRule {
        max_wall_time: Some(hours(1)),
        ..rule_for_all(Some(Priority::High), None)
    };
    let of_bob = JobClassRule {
        owner: Some(key("bob")),
        ..rule_for_all(None, Some(Priority::High))
    };
    let rules = [short, of_bob];
    let alice = key("alice");
    let bob = key("bob");
    let of = |owner, wall, how| {
        let of = decide_class(
            Priority::Low,
            how,
            &class_properties(owner, "default", wall),
            &rules,
        )
        .unwrap();
        (of.class, of.given, of.rule)
    };
    assert_eq!(of(&bob, 1, LEFT_OPEN), (Priority::High, true, Some(1)));
    assert_eq!(of(&bob, 1, NAMED), (Priority::Low, false, Some(1)));
    assert_eq!(of(&bob, 9, LEFT_OPEN), (Priority::Low, true, Some(2)));
    assert_eq!(of(&alice, 9, LEFT_OPEN), (Priority::Low, true, None));
    assert_eq!(of(&alice, 9, NAMED), (Priority::Low, false, None));
}

#[test]
fn a_job_that_names_no_class_is_never_refused_for_the_default() {
    let alice = key("alice");
    let rules = [rule_for_all(None, Some(Priority::SuperLow))];
    let given = class_for(
        Priority::Low,
        LEFT_OPEN,
        &class_properties(&alice, "default", 1),
        &rules,
    );
    assert_eq!(given, Ok(Priority::SuperLow));
}

proptest! {
    #[test]
    fn a_bound_key_gets_no_class_above_that_of_the_first_rule_that_matches(
        rules in prop::collection::vec(drawn_rule(), 0..5),
        owner in 0..2usize, runner in 0..2usize, wall in 0..6u64,
        asked in 0..4usize, names_none: bool,
    ) {
        let owner = key(OWNERS[owner]);
        let job = class_properties(&owner, RUNNERS[runner], wall);
        let asked = Priority::ALL[asked];
        let highest = rules.iter().find(|rule: &&JobClassRule| {
            rule.owner.iter().all(|known| *known == owner)
                && rule.runner.iter().all(|known| known.as_str() == job.runner)
                && rule.min_wall_time.unwrap_or_default() <= job.wall_time
                && rule.max_wall_time.unwrap_or(hours(9)) >= job.wall_time
        }).and_then(|rule| rule.highest);
        let highest = highest.unwrap_or(Priority::SuperHigh);
        match class_for(asked, ClassRequest { names_none, uncapped: false }, &job, &rules) {
            Ok(class) => prop_assert!(class <= highest && (names_none || class == asked)),
            Err(refused) => {
                prop_assert!(!names_none && asked > highest);
                prop_assert_eq!((refused.asked, refused.highest), (asked, highest));
            }
        }
    }

}

proptest! {
    // Only one case in six is of a rule that covers the other.
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_rule_behind_one_that_covers_it_changes_nothing(
        first in drawn_rule(), later in drawn_rule(),
        owner in 0..2usize, runner in 0..2usize, wall in 0..6u64, asked in 0..4usize,
        names_none: bool,
    ) {
        if !first.covers_rule(&later) {
            return Ok(());
        }
        let owner = key(OWNERS[owner]);
        let job = class_properties(&owner, RUNNERS[runner], wall);
        let how = ClassRequest { names_none, uncapped: false };
        let class = |rules: &[JobClassRule]| class_for(Priority::ALL[asked], how, &job, rules);
        prop_assert_eq!(class(&[first.clone(), later]), class(&[first]));
    }
}
