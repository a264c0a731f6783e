//! Agents: joined, left alone, stopped, slowed down.

use std::time::{Duration, Instant};

use cospan_domain::units::Bytes;
use cospan_sites::files::{FileArea, FileAreaConfig};
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus};
use rustix::process::Signal;

use crate::world::{ATTEMPTS, DEADLINE, World, agent, kill, limited, noise, order, wait_for};

fn some_arrived(world: &World, order: &CopyRequest) -> u64 {
    wait_for(|| match world.status(order) {
        CopyStatus::Running { done: Bytes(0) } => None,
        CopyStatus::Running { done } => Some(done.0),
        other => panic!("{other:?}"),
    })
}

/// A copy that would take minutes.
fn slow(world: &World) -> CopyRequest {
    limited(order(world.file("x", &noise(1, 20_000_000)), "x"), 200_000)
}

#[test]
fn a_second_control_plane_finds_the_copy_running_and_sees_it_complete() {
    let world = World::new();
    let order = limited(order(world.file("x", &noise(1, 300_000)), "x"), 100_000);
    world.start(&order);
    let second = FileArea::new(FileAreaConfig {
        root: world.path("b"),
        attempts: ATTEMPTS.into(),
        agent: vec![agent().into()],
        stall: DEADLINE,
    })
    .unwrap();
    assert!(matches!(
        second.copy_status(&order),
        Ok(CopyStatus::Running { .. })
    ));
    second.start_copy(&order, &world.a.as_source()).unwrap();
    // A process that was just started has no command line yet.
    wait_for(|| (world.agents_of(&order).len() == 1).then_some(()));
    wait_for(|| (second.copy_status(&order).unwrap() == CopyStatus::Complete).then_some(()));
}

#[test]
fn whoever_starts_one_copy_at_once_shares_one_process() {
    let world = World::new();
    let order = slow(&world);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| world.start(&order));
        }
    });
    some_arrived(&world, &order);
    assert_eq!(world.agents_of(&order).len(), 1);
    world.b.stop_copy(&order, true).unwrap();
}

#[test]
fn two_copies_of_one_content_at_once_both_complete_and_leave_one() {
    let world = World::new();
    for round in 0..10 {
        // A name of its own, as the slower of two agents may still read the last one.
        let name = format!("x{round}");
        let first = order(world.file(&name, &noise(round, 200_000)), &name);
        let second = CopyRequest {
            nonce: "other-1".into(),
            ..first.clone()
        };
        world.start(&first);
        world.start(&second);
        assert_eq!(world.end_of(&first), CopyStatus::Complete);
        assert_eq!(world.end_of(&second), CopyStatus::Complete);
    }
    assert_eq!(world.b.list_contents().unwrap().len(), 10);
    wait_for(|| world.left_in("incoming").is_empty().then_some(()));
}

#[test]
fn a_stopped_copy_says_so_and_goes_on_from_what_it_has() {
    let world = World::new();
    let slow = slow(&world);
    world.start(&slow);
    let arrived = some_arrived(&world, &slow);
    world.b.stop_copy(&slow, false).unwrap();
    assert_eq!(world.agents_of(&slow), Vec::<i32>::new());
    let CopyStatus::Failed { blame, detail } = world.status(&slow) else {
        panic!()
    };
    assert_eq!(blame, CopyBlame::Process);
    assert!(detail.contains("stopped"), "{detail}");
    let kept = std::fs::metadata(world.task(&slow).join("data"))
        .unwrap()
        .len();
    assert!(kept >= arrived, "{kept} of {arrived} bytes kept");

    // So slow a link that only what was kept can be there when progress is first seen.
    let slower = limited(slow.clone(), 1_000);
    world.start(&slower);
    wait_for(|| match world.status(&slower) {
        CopyStatus::Running { done } => (done.0 >= kept).then_some(()),
        other => panic!("{other:?}"),
    });
    world.b.stop_copy(&slower, false).unwrap();
    assert_eq!(
        world.copy(&CopyRequest {
            limit: None,
            ..slow
        }),
        CopyStatus::Complete
    );
}

#[test]
fn discarding_leaves_nothing_and_stopping_nothing_is_fine() {
    let world = World::new();
    let order = slow(&world);
    world.b.stop_copy(&order, false).unwrap();
    world.b.stop_copy(&order, true).unwrap();
    world.start(&order);
    some_arrived(&world, &order);
    world.b.stop_copy(&order, true).unwrap();
    assert_eq!(world.status(&order), CopyStatus::Absent);
    assert_eq!(world.agents_of(&order), Vec::<i32>::new());
    assert_eq!(world.left_in("incoming"), Vec::<String>::new());
    assert_eq!(world.left_in("trash"), Vec::<String>::new());
}

#[test]
fn a_frozen_agent_runs_until_it_is_stopped_for_good() {
    let world = World::new();
    let order = slow(&world);
    world.start(&order);
    some_arrived(&world, &order);
    let frozen = world.agents_of(&order);
    frozen.iter().for_each(|pid| kill(*pid, Signal::STOP));
    assert!(matches!(world.status(&order), CopyStatus::Running { .. }));
    world.b.stop_copy(&order, false).unwrap();
    assert!(matches!(world.status(&order), CopyStatus::Failed { .. }));
}

#[test]
fn a_term_from_outside_ends_a_copy_cleanly_and_a_kill_without_a_word() {
    let world = World::new();
    let order = slow(&world);
    for (signal, expected) in [
        (Signal::TERM, "stopped by a signal"),
        (Signal::KILL, "killed"),
    ] {
        world.start(&order);
        some_arrived(&world, &order);
        world
            .agents_of(&order)
            .iter()
            .for_each(|pid| kill(*pid, signal));
        let CopyStatus::Failed { blame, detail } = world.end_of(&order) else {
            panic!()
        };
        assert_eq!(blame, CopyBlame::Process);
        assert!(detail.contains(expected), "{detail}");
    }
}

#[test]
fn copies_over_one_link_together_keep_to_its_bandwidth() {
    const BYTES_PER_SECOND: u64 = 2_000_000;
    const BYTES_EACH: usize = 1_200_000;
    let world = World::new();
    let orders = [1, 2, 3].map(|number| {
        let name = format!("x{number}");
        let content = world.file(&name, &noise(number, BYTES_EACH));
        limited(order(content, &name), BYTES_PER_SECOND)
    });
    let started = Instant::now();
    orders.iter().for_each(|order| world.start(order));
    for order in &orders {
        assert_eq!(world.end_of(order), CopyStatus::Complete);
    }
    let seconds = started.elapsed().as_secs_f64();
    let ratio = (3 * BYTES_EACH) as f64 / seconds / BYTES_PER_SECOND as f64;
    assert!(
        ratio <= 1.1,
        "{ratio:.3} of the link's bandwidth in {seconds:.2} s"
    );
    println!("{ratio:.3} of the link's bandwidth");
}

#[test]
fn an_agent_that_is_handed_another_lock_does_not_touch_the_task() {
    let world = World::new();
    let order = slow(&world);
    world.start(&order);
    some_arrived(&world, &order);
    let task = world.task(&order);
    let name = task.file_name().unwrap();
    let started = Instant::now();
    for lock in [
        std::fs::File::open("/dev/null"),
        std::fs::File::open(task.join("lock")),
    ] {
        let mut second = std::process::Command::new(agent())
            .args(["copy".as_ref(), world.path("b").as_os_str(), name])
            .stdin(lock.unwrap())
            .spawn()
            .unwrap();
        // One that goes to work all the same would be at it for minutes.
        let ended = wait_for(|| match second.try_wait().unwrap() {
            None if started.elapsed() > DEADLINE / 4 => Some(None),
            None => None,
            ended => Some(ended),
        });
        // It may be over by now.
        let _ = second.kill();
        assert_eq!(ended.and_then(|status| status.code()), Some(75));
    }
    assert!(matches!(world.status(&order), CopyStatus::Running { .. }));
    world.b.stop_copy(&order, true).unwrap();
}

#[test]
fn a_copy_that_waits_for_its_share_for_long_has_not_stalled() {
    let world = World::new();
    let impatient = FileArea::new(FileAreaConfig {
        root: world.path("b"),
        attempts: ATTEMPTS.into(),
        agent: vec![agent().into()],
        stall: Duration::from_millis(200),
    })
    .unwrap();
    // Each piece of 512 bytes waits longer than a stall would take.
    let order = limited(order(world.file("x", &noise(1, 2_000)), "x"), 1_000);
    impatient.start_copy(&order, &world.a.as_source()).unwrap();
    assert_eq!(world.end_of(&order), CopyStatus::Complete);
}
