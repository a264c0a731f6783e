//! What a simulated site answers under faults, and what of them is counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_rt::System;
use cospan_actors::clock::RuntimeClock;
use cospan_domain::ids::{InstanceId, SiteName};
use cospan_domain::units::Timestamp;
use cospan_sites::port::Site;

use super::doom::{Doom, Moment};
use super::handle::WorldHandle;
use super::site::SimulatedSite;
use super::weather::{CallFault, Climate, Weather};
use crate::world::batch::Discipline;
use crate::world::cluster::ClusterSpec;
use crate::world::trouble::{Struck, Trouble};
use crate::world::{Pace, World};

const BEGINS: Timestamp = Timestamp(1_000_000_000);

/// An empty site of one processor, where everything meets this fault.
fn site(
    fault: Option<CallFault>,
    trouble: Option<Trouble>,
    moment: Option<Moment>,
) -> SimulatedSite {
    let name = SiteName::new("delft").unwrap();
    let spec = ClusterSpec {
        name: name.clone(),
        nodes: 1,
        processors_per_node: 1,
        discipline: Discipline::Easy,
        local_jobs: Vec::new(),
        files: BTreeMap::new(),
    };
    let mut world = World::new(vec![spec], &[], Pace::default(), 1, BEGINS);
    let index = world.index_of(&name).unwrap();
    trouble.into_iter().for_each(|trouble| world.plan(BEGINS, index, trouble));
    let faults = fault.into_iter().map(|fault| (fault, 1_000_000)).collect();
    let weather = Arc::new(Weather::new(Climate { faults, ..Climate::default() }, 1));
    SimulatedSite {
        name,
        index,
        world: WorldHandle::new(world),
        clock: Arc::new(RuntimeClock::starting_at(BEGINS)),
        doom: Doom::at(moment, weather.tally().clone()),
        weather,
        instance: InstanceId::from_random(1),
        hints: false,
    }
}

fn struck(site: &SimulatedSite) -> Struck {
    site.weather.tally().struck()
}

#[test]
fn a_wrong_number_is_counted_as_often_as_it_is_wrong() {
    let site = site(Some(CallFault::WrongIdle), None, None);
    let wrong = System::new().block_on(async {
        let mut wrong = 0;
        for _ in 0..100 {
            wrong += u64::from(site.status(&[]).await.unwrap().idle.processors != 1);
        }
        wrong
    });
    assert!((1..100).contains(&wrong), "some numbers drawn are the true one: {wrong}");
    assert_eq!(struck(&site), [(("wrong-idle", "status"), wrong)].into());
}

#[test]
fn an_answer_that_is_cut_short_and_said_nothing_is_not_counted() {
    let site = site(Some(CallFault::Truncated), None, None);
    System::new().block_on(async { site.status(&[]).await.unwrap() });
    assert_eq!(struck(&site), Struck::new());
}

#[test]
fn nobody_is_killed_after_a_call_that_was_turned_away() {
    let site = site(None, Some(Trouble::Revoked(true)), Some(Moment::AfterCall(1)));
    System::new().block_on(async { site.status(&[]).await.unwrap_err() });
    assert!(!site.doom.is_dead());
    assert_eq!(struck(&site), Struck::new(), "neither a kill nor, where nothing stands, trouble");
}
