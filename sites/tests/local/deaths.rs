//! Wrappers and payloads that die or stop in every way.

use std::time::{Duration, Instant};

use cospan_sites::contract::{
    Ground, PATIENCE, await_exit, await_idle, await_printed, await_seen, bring_to_gate, order,
    printed, script, start, tag,
};
use cospan_sites::port::{ExitCause, Observation, Site};
use rustix::process::Signal;

use crate::support::{LocalGround, pid_in, processes_naming, signal};

const WAITS: &str = "echo begun; while :; do sleep 0.05; done";

fn is_vanished(seen: &Observation) -> bool {
    matches!(seen, Observation::Vanished { .. })
}

/// No process of a ground's attempts is left.
async fn await_nobody(ground: &LocalGround) {
    let started = Instant::now();
    while !processes_naming(&ground.root().join("attempts")).is_empty() {
        assert!(started.elapsed() < PATIENCE, "processes are left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_killed_at_the_gate_is_seen_to_have_vanished_before_it_began() {
    let ground = LocalGround::new();
    bring_to_gate(&*ground.site, &order(tag(1), script(WAITS))).await;
    signal(pid_in(&ground, tag(1), "ready"), Signal::KILL);
    let seen = await_seen(&*ground.site, tag(1), is_vanished).await;
    assert!(matches!(seen, Observation::Vanished { began: false, .. }), "{seen:?}");
    await_idle(&*ground.site, 8).await;
    await_nobody(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_payload_of_a_killed_wrapper_is_ended_before_it_is_called_vanished() {
    let ground = LocalGround::new();
    start(&*ground.site, &order(tag(1), script(WAITS))).await;
    await_printed(&*ground.site, tag(1), "begun").await;
    signal(pid_in(&ground, tag(1), "ready"), Signal::KILL);
    let seen = await_seen(&*ground.site, tag(1), is_vanished).await;
    assert!(matches!(seen, Observation::Vanished { began: true, .. }), "{seen:?}");
    assert!(processes_naming(&ground.root().join("attempts")).is_empty());
    await_idle(&*ground.site, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_killed_while_nobody_looked_is_found_out_by_the_next_incarnation() {
    let ground = LocalGround::new();
    start(&*ground.site, &order(tag(1), script(WAITS))).await;
    await_printed(&*ground.site, tag(1), "begun").await;
    let next = ground.reopened();
    signal(pid_in(&ground, tag(1), "ready"), Signal::KILL);
    let seen = await_seen(&*next, tag(1), is_vanished).await;
    assert!(matches!(seen, Observation::Vanished { began: true, .. }), "{seen:?}");
    await_nobody(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_killed_from_outside_is_its_own_end_and_not_the_wrappers() {
    let ground = LocalGround::new();
    start(&*ground.site, &order(tag(1), script(WAITS))).await;
    await_printed(&*ground.site, tag(1), "begun").await;
    signal(pid_in(&ground, tag(1), "begun"), Signal::KILL);
    assert_eq!(await_exit(&*ground.site, tag(1)).await, ExitCause::Signal(9));
    await_nobody(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_is_not_ended_because_somebody_set_the_clock() {
    const DAYS: Duration = Duration::from_secs(400 * 86_400);
    let ground = LocalGround::new();
    start(&*ground.site, &order(tag(1), script(WAITS))).await;
    await_printed(&*ground.site, tag(1), "begun").await;
    // By the clock as it is now it began long ago.
    let begun = ground.root().join(format!("attempts/{}/begun", tag(1)));
    let file = std::fs::File::options().append(true).open(begun).unwrap();
    file.set_modified(std::time::SystemTime::now() - DAYS).unwrap();
    let next = ground.reopened();
    for _ in 0..3 {
        await_seen(&*next, tag(1), |seen| matches!(seen, Observation::Begun(_))).await;
    }
    next.cancel(tag(1), None).await.unwrap();
    assert_eq!(await_exit(&*next, tag(1)).await, ExitCause::Terminated);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_processes_are_ended_as_well() {
    for who in ["ready", "begun"] {
        let ground = LocalGround::new();
        start(&*ground.site, &order(tag(1), script(WAITS))).await;
        await_printed(&*ground.site, tag(1), "begun").await;
        signal(pid_in(&ground, tag(1), who), Signal::STOP);
        ground.site.cancel(tag(1), None).await.unwrap();
        assert_eq!(await_exit(&*ground.site, tag(1)).await, ExitCause::Terminated, "{who}");
        await_idle(&*ground.site, 8).await;
        await_nobody(&ground).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_wrapper_at_the_gate_is_ended() {
    let ground = LocalGround::new();
    bring_to_gate(&*ground.site, &order(tag(1), script(WAITS))).await;
    signal(pid_in(&ground, tag(1), "ready"), Signal::STOP);
    ground.site.cancel(tag(1), None).await.unwrap();
    await_seen(&*ground.site, tag(1), |seen| *seen == Observation::Void).await;
    await_nobody(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_left_its_group_is_found_by_its_environment() {
    let ground = LocalGround::new();
    let runaway = "setsid sh -c 'trap \"\" TERM; echo away; sleep 600' & wait";
    start(&*ground.site, &order(tag(1), script(runaway))).await;
    await_printed(&*ground.site, tag(1), "away").await;
    ground.site.cancel(tag(1), None).await.unwrap();
    assert_eq!(await_exit(&*ground.site, tag(1)).await, ExitCause::Terminated);
    await_nobody(&ground).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_payload_left_running_is_ended_after_it() {
    let ground = LocalGround::new();
    let runaway = "setsid sh -c 'echo away; sleep 600' & while ! [ -e stop ]; do sleep 0.05; done";
    start(&*ground.site, &order(tag(1), script(runaway))).await;
    await_printed(&*ground.site, tag(1), "away").await;
    let work = ground.root().join(format!("attempts/{}/work", tag(1)));
    std::fs::write(work.join("stop"), "").unwrap();
    assert_eq!(await_exit(&*ground.site, tag(1)).await, ExitCause::Code(0));
    let started = Instant::now();
    while !processes_naming(&ground.root().join("attempts")).is_empty() {
        ground.site.status(&[]).await.unwrap();
        assert!(started.elapsed() < PATIENCE, "processes are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_wrappers_do_not_stay_as_zombies() {
    let ground = LocalGround::new();
    for job in 1..=5 {
        start(&*ground.site, &order(tag(job), script("exit 0"))).await;
    }
    let wrappers: Vec<u32> = (1..=5).map(|job| pid_in(&ground, tag(job), "ready")).collect();
    let started = Instant::now();
    // Nobody asks for their status any more.
    while wrappers.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(started.elapsed() < PATIENCE, "a zombie is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_hinted_at_without_any_poll() {
    let ground = LocalGround::new();
    let mut changes = ground.site.changes().unwrap();
    let site: &dyn Site = &*ground.site;
    site.submit(&order(tag(1), script("exit 0"))).await.unwrap();
    tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    assert!(ground.root().join(format!("attempts/{}/ready", tag(1))).exists());
    changes.mark_unchanged();
    site.decide_gate(tag(1), &cospan_sites::contract::go()).await.unwrap();
    tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    assert_eq!(await_exit(site, tag(1)).await, ExitCause::Code(0));
    assert_eq!(printed(site, tag(1)).await, "");
}
