//! Records that break a rule are told from those that broke it before.

use super::job_world::{JobWorld, spec};
use crate::invariants::{
    BrokenInvariant, is_fault_of_ours, list_broken_invariants, newly_broken_invariant,
};
use crate::job::job_state::Job;

fn placed_job() -> Job {
    let mut world = JobWorld::new(spec(2));
    world.place_job();
    world.job
}

#[test]
fn a_change_that_loses_a_place_breaks_a_rule_and_the_job_is_held_by_a_fault_of_ours() {
    let old = placed_job();
    let mut new = old.clone();
    new.components[1].placement = None;
    let rule = newly_broken_invariant(&old, &new);
    assert_eq!(rule, Some(BrokenInvariant::NoPlace));
    let reason = rule.unwrap().hold_reason();
    assert!(is_fault_of_ours(&reason), "{reason}");
    assert!(reason.contains("J2 NoPlace"), "{reason}");
}

#[test]
fn what_an_earlier_version_left_broken_keeps_no_job_from_going_on() {
    let mut old = placed_job();
    old.components[1].placement = None;
    let mut new = old.clone();
    new.revision += 1;
    assert_eq!(list_broken_invariants(&new), [BrokenInvariant::NoPlace]);
    assert_eq!(newly_broken_invariant(&old, &new), None);
}
