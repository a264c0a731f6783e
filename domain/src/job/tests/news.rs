//! What is worth telling a job, and what it knows already.

use super::world::{World, spec};
use crate::ids::ComponentIndex;
use crate::job::command::{JobCommand, Sighting};
use crate::job::decide::is_news;
use crate::job::state::PhaseKind;

#[test]
fn what_a_site_repeats_is_news_after_an_absence_or_when_it_should_be_over() {
    let mut world = World::new(spec(1));
    let told = |world: &World, sighting: Sighting| {
        is_news(&world.job, &world.parameters, ComponentIndex(0), world.now, &sighting)
    };
    let begun = || Sighting::Begun("node1".into());
    world.place();
    world.accept_all();
    assert!(!told(&world, Sighting::Pending), "it was submitted");
    assert!(told(&world, begun()));
    world.pass(100);
    assert_eq!(world.see(0, Sighting::Absent), ["AttemptAbsent"]);
    assert!(told(&world, Sighting::Pending), "it is there after all");
    world.see(0, Sighting::Ready("node1".into()));
    assert!(!told(&world, Sighting::Ready("node1".into())));
    world.see(0, begun());
    assert!(!told(&world, begun()));
    assert!(told(&world, Sighting::Succeeded));
    world.pass(3_600 + 61);
    assert!(told(&world, begun()), "it ought to be over");
}

#[test]
fn nothing_has_been_missed_before_all_that_was_seen_until_now_is_known() {
    let mut world = World::new(spec(2));
    world.place();
    world.accept_all();
    world.see_all(Sighting::Ready("n".into()));
    world.pass(31);
    let (component, attempt) = (ComponentIndex(0), world.attempt(0));
    let late = JobCommand::GateAnswered { component, attempt, open: true };
    assert_eq!(world.tell(late).unwrap(), ["GateOpened"]);
    world.see_all(Sighting::Succeeded);
    assert_eq!(world.phase(), PhaseKind::Finished);
}
