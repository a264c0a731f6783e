//! What a simulated site answers under faults, and what of them is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::System;
use cospan_actors::clock::RuntimeClock;
use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, JobId, SiteName};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{
    AttemptObservation, AttemptSubmitRequest, GateDecision, GateState, QueuedAttempt, Site,
};

use super::call_faults::{CallFaultModel, FaultRates};
use super::fault_kinds::FaultKind;
use super::jobs::build_job;
use super::kill_switch::{KillPoint, KillSwitch};
use super::site::SimulatedSite;
use super::world_handle::WorldHandle;
use crate::world::batch::QueueDiscipline;
use crate::world::site_faults::{FaultEffectCounts, SiteFault};
use crate::world::world_history::WorldLedgerEvent;
use crate::world::world_site::{ClusterSpec, LocalJob};
use crate::world::{SimulatedWorld, SiteIndex, WrapperDelays};

const BEGINS: Timestamp = Timestamp(1_000_000_000);

/// A world of one site, whose nodes have one processor each.
fn world_of_one_site(nodes: u32, local_jobs: Vec<LocalJob>) -> (SimulatedWorld, SiteIndex) {
    let name = SiteName::new("delft").unwrap();
    let spec = ClusterSpec {
        name: name.clone(),
        nodes,
        processors_per_node: 1,
        discipline: QueueDiscipline::Easy,
        local_jobs,
        queues: false,
        reserves: false,
        files: BTreeMap::new(),
    };
    let world = SimulatedWorld::new(vec![spec], &[], WrapperDelays::default(), 1, BEGINS);
    let index = world.index_of(&name).unwrap();
    (world, index)
}

/// An empty site of one processor, where everything meets this fault.
fn site_with_fault(
    fault: Option<FaultKind>,
    trouble: Option<SiteFault>,
    moment: Option<KillPoint>,
) -> SimulatedSite {
    let (mut world, index) = world_of_one_site(1, Vec::new());
    trouble
        .into_iter()
        .for_each(|trouble| world.plan_fault(BEGINS, index, trouble));
    let faults = fault.into_iter().map(|fault| (fault, 1_000_000)).collect();
    let call_faults = Arc::new(CallFaultModel::new(
        FaultRates {
            faults,
            ..FaultRates::default()
        },
        1,
    ));
    SimulatedSite {
        name: SiteName::new("delft").unwrap(),
        index,
        world: WorldHandle::new(world),
        clock: Arc::new(RuntimeClock::starting_at(BEGINS)),
        kill_switch: KillSwitch::killing_at(moment, call_faults.tally().clone()),
        call_faults,
        lives: Arc::default(),
        instance: InstanceId::from_random(1),
        hints: false,
    }
}

fn under_virtual_time(work: impl Future<Output = ()>) {
    System::with_tokio_rt(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    })
    .block_on(work);
}

fn fault_effects(site: &SimulatedSite) -> FaultEffectCounts {
    site.call_faults.tally().fault_counts()
}

#[test]
fn a_wrong_number_is_counted_as_often_as_it_is_wrong() {
    let site = site_with_fault(Some(FaultKind::WrongIdle), None, None);
    let wrong = System::new().block_on(async {
        let mut wrong = 0;
        for _ in 0..100 {
            wrong += u64::from(site.queue().status(&[]).await.unwrap().idle.processors != 1);
        }
        wrong
    });
    assert!(
        (1..100).contains(&wrong),
        "some numbers drawn are the true one: {wrong}"
    );
    assert_eq!(
        fault_effects(&site),
        [((FaultKind::WrongIdle, "status"), wrong)].into()
    );
}

#[test]
fn an_answer_that_is_cut_short_and_said_nothing_is_not_counted() {
    let site = site_with_fault(Some(FaultKind::Truncated), None, None);
    System::new().block_on(async { site.queue().status(&[]).await.unwrap() });
    assert_eq!(fault_effects(&site), FaultEffectCounts::new());
}

#[test]
fn nobody_is_killed_after_a_call_that_was_turned_away() {
    let site = site_with_fault(
        None,
        Some(SiteFault::Revoked(true)),
        Some(KillPoint::AfterCall(1)),
    );
    System::new().block_on(async { site.queue().status(&[]).await.unwrap_err() });
    assert!(!site.kill_switch.is_dead());
    assert_eq!(
        fault_effects(&site),
        FaultEffectCounts::new(),
        "neither a kill nor, where nothing stands, trouble"
    );
}

fn submit_request() -> AttemptSubmitRequest {
    let instance = InstanceId::from_random(1);
    let component = ComponentIndex(0);
    let tag = AttemptTag {
        instance,
        job: JobId(1),
        component,
        attempt: Attempt(1),
    };
    let second = DurationMs(1_000);
    let spec = build_job(&[1], second, second, 0).unwrap();
    AttemptSubmitRequest::with_one_processor(tag, spec.components[0].program.unpack(), second)
}

fn act_at<T>(site: &SimulatedSite, ms: u64, act: impl FnOnce(&mut SimulatedWorld) -> T) -> T {
    site.world.act_at(BEGINS + DurationMs(ms), act)
}

fn ledger_events(site: &SimulatedSite) -> Vec<WorldLedgerEvent> {
    site.world.read(|world| {
        world
            .ledger()
            .entries()
            .iter()
            .map(|line| line.deed.clone())
            .collect()
    })
}

#[test]
fn of_two_submissions_with_one_tag_one_takes_the_directory_the_other_ends() {
    let site = site_with_fault(None, None, None);
    let order = submit_request();
    act_at(&site, 0, |world| {
        let ids = [(), ()].map(|()| world.submit(site.index, &order).unwrap().lrm_id);
        let found = world.find_by_tag(site.index, order.tag).found;
        assert_eq!(
            found.iter().map(|found| &found.lrm_id).collect::<Vec<_>>(),
            ids.each_ref()
        );
    });
    act_at(&site, 5_000, |world| {
        let state = world
            .decide_gate(site.index, order.tag, &GateDecision::Void)
            .unwrap();
        assert_eq!(state, GateState::Voided);
    });
    act_at(&site, 20_000, |world| {
        assert_eq!(
            world.find_by_tag(site.index, order.tag).found.len(),
            1,
            "the other has left"
        );
        world.remove_attempt(site.index, order.tag).unwrap();
    });
    let ready = ledger_events(&site)
        .into_iter()
        .filter(|deed| *deed == WorldLedgerEvent::Ready)
        .count();
    assert_eq!(ready, 1, "{:?}", ledger_events(&site));
}

#[test]
fn whichever_submission_is_taken_back_the_attempt_goes_on_with_the_other() {
    for taken_back in [0, 1] {
        let site = site_with_fault(None, None, None);
        let order = submit_request();
        act_at(&site, 0, |world| {
            // The site has one processor, and somebody else has it.
            let mut other = order.clone();
            other.tag.job = JobId(2);
            world.submit(site.index, &other).unwrap();
            let ids = [(), ()].map(|()| world.submit(site.index, &order).unwrap().lrm_id);
            world.withdraw(site.index, order.tag, &ids[taken_back]);
            let found = world.find_by_tag(site.index, order.tag).found;
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].lrm_id, ids[1 - taken_back]);
            let seen = world.status(site.index, &[order.tag]).attempts;
            assert_eq!(
                seen[&order.tag],
                AttemptObservation::Queued(QueuedAttempt::default())
            );
            assert!(
                world.remove_attempt(site.index, order.tag).is_err(),
                "it is in the queue"
            );
            world.cancel(site.index, order.tag);
            world.remove_attempt(site.index, order.tag).unwrap();
            assert!(world.find_by_tag(site.index, order.tag).found.is_empty());
        });
    }
}

#[test]
fn what_is_taken_back_too_late_ends_nothing() {
    for late in [0, 1] {
        let site = site_with_fault(None, None, None);
        let order = submit_request();
        let ids = act_at(&site, 0, |world| {
            [(), ()].map(|()| world.submit(site.index, &order).unwrap().lrm_id)
        });
        act_at(&site, 5_000, |world| {
            world.withdraw(site.index, order.tag, &ids[late]);
            let seen = world.status(site.index, &[order.tag]).attempts;
            assert!(
                matches!(seen[&order.tag], AttemptObservation::Ready(_)),
                "{seen:?}"
            );
        });
    }
}

#[test]
fn a_request_that_came_twice_is_submitted_twice() {
    let site = site_with_fault(Some(FaultKind::Doubled), None, None);
    let order = submit_request();
    // Who has the reply, and who has none, is drawn.
    under_virtual_time(async {
        let _ = site.queue().submit(&order).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
    });
    let deeds = ledger_events(&site);
    assert!(
        deeds.contains(&WorldLedgerEvent::SubmittedAgain),
        "{deeds:?}"
    );
    assert_eq!(
        fault_effects(&site),
        [((FaultKind::Doubled, "submit"), 1)].into()
    );
}

/// An attempt of the job with this number.
fn submit_request_of(job: u64) -> AttemptSubmitRequest {
    let order = submit_request();
    AttemptSubmitRequest {
        tag: AttemptTag {
            job: JobId(job),
            ..order.tag
        },
        ..order
    }
}

fn observe_attempt(
    world: &mut SimulatedWorld,
    site: SiteIndex,
    order: &AttemptSubmitRequest,
) -> AttemptObservation {
    world.status(site, &[order.tag]).attempts[&order.tag].clone()
}

#[test]
fn the_end_of_a_killed_local_job_ends_nobody_who_has_its_number_now() {
    let ten = DurationMs(10_000);
    let second = DurationMs(1_000);
    let local = LocalJob {
        at: BEGINS + second,
        processors: 1,
        run_time: ten,
        estimate: ten,
    };
    let (mut world, site) = world_of_one_site(2, vec![local]);
    world.submit(site, &submit_request_of(1)).unwrap();
    world.advance_to(BEGINS + DurationMs(2_000));
    world.kill_node(site, 1, second);
    assert_eq!(
        world.make_scheduler_forget(site, ten),
        1,
        "and both numbers are free again"
    );
    for job in [2, 3] {
        world.submit(site, &submit_request_of(job)).unwrap();
    }
    world.advance_to(BEGINS + DurationMs(20_000));
    for job in [2, 3] {
        let at_gate = observe_attempt(&mut world, site, &submit_request_of(job));
        assert!(
            matches!(at_gate, AttemptObservation::Ready(_)),
            "{at_gate:?}"
        );
    }
    let load = *world.sites()[0].load().last().unwrap();
    assert_eq!((load.held, load.local), (2, 0));
    assert_eq!(world.sites()[0].spare_processors(), Some(0));
}

#[test]
fn a_black_hole_fails_what_starts_there_spares_what_runs_and_looks_idle() {
    let ten = DurationMs(10_000);
    let minute = DurationMs(60_000);
    let later = LocalJob {
        at: BEGINS + ten,
        processors: 1,
        run_time: minute,
        estimate: minute,
    };
    let (mut world, site) = world_of_one_site(2, vec![later]);
    world.submit(site, &submit_request_of(1)).unwrap();
    world.advance_to(BEGINS + DurationMs(5_000));
    for node in [0, 1] {
        world.make_black_hole(site, node, DurationMs(20_000));
    }
    assert_eq!(
        world.sites()[0].spare_processors(),
        Some(1),
        "nobody sees it"
    );
    world.submit(site, &submit_request_of(2)).unwrap();
    world.advance_to(BEGINS + DurationMs(15_000));
    let runs = observe_attempt(&mut world, site, &submit_request_of(1));
    assert!(matches!(runs, AttemptObservation::Ready(_)), "{runs:?}");
    let failed = observe_attempt(&mut world, site, &submit_request_of(2));
    assert!(
        matches!(failed, AttemptObservation::Vanished { began: false, .. }),
        "{failed:?}"
    );
    assert_eq!(
        world.sites()[0].spare_processors(),
        Some(1),
        "the local job failed as well"
    );
    world.advance_to(BEGINS + DurationMs(26_000));
    world.submit(site, &submit_request_of(3)).unwrap();
    world.advance_to(BEGINS + DurationMs(30_000));
    let mended = observe_attempt(&mut world, site, &submit_request_of(3));
    assert!(matches!(mended, AttemptObservation::Ready(_)), "{mended:?}");
}

#[test]
fn a_batch_job_that_waits_for_another_node_comes_to_no_gate() {
    let (mut world, site) = world_of_one_site(2, Vec::new());
    world.set_requeues(true);
    // Both are started at once, and their nodes die before either wrapper comes.
    for _ in 0..2 {
        world.submit(site, &submit_request()).unwrap();
    }
    world.kill_site(site, DurationMs(60_000));
    world.advance_to(BEGINS + DurationMs(30_000));
    assert_eq!(
        observe_attempt(&mut world, site, &submit_request()),
        AttemptObservation::Queued(QueuedAttempt::default())
    );
    world.advance_to(BEGINS + DurationMs(90_000));
    let at_gate = observe_attempt(&mut world, site, &submit_request());
    assert!(
        matches!(at_gate, AttemptObservation::Ready(_)),
        "{at_gate:?}"
    );
    assert_eq!(
        world.sites()[0].spare_processors(),
        Some(1),
        "the other has left"
    );
}
