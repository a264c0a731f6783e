//! Wrappers and payloads that die or stop in every way.

use std::time::{Duration, Instant};

use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, await_exit, await_idle, await_observation, await_printed,
    bring_to_gate, read_stdout, script_program, start_attempt, submit_request,
};
use cospan_sites::port::{AttemptObservation, ExitCause, Site, SiteEndReason};
use rustix::process::Signal;

use crate::support::{LocalSiteFixture, pid_in, processes_naming, signal};

const WAITS: &str = "echo begun; while :; do sleep 0.05; done";

fn is_vanished(seen: &AttemptObservation) -> bool {
    matches!(seen, AttemptObservation::Vanished { .. })
}

/// No process of a fixture's attempts is left.
async fn await_nobody(fixture: &LocalSiteFixture) {
    let started = Instant::now();
    while !processes_naming(&fixture.root().join("attempts")).is_empty() {
        assert!(started.elapsed() < PATIENCE, "processes are left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_killed_at_the_gate_is_seen_to_have_vanished_before_it_began() {
    let fixture = LocalSiteFixture::new();
    bring_to_gate(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(WAITS)),
    )
    .await;
    signal(pid_in(&fixture, attempt_tag(1), "ready"), Signal::KILL);
    let seen = await_observation(&*fixture.site, attempt_tag(1), is_vanished).await;
    assert!(
        matches!(seen, AttemptObservation::Vanished { began: false, .. }),
        "{seen:?}"
    );
    await_idle(&*fixture.site, 8).await;
    await_nobody(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_payload_of_a_killed_wrapper_is_ended_before_its_end_is_told() {
    let fixture = LocalSiteFixture::new();
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(WAITS)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "begun").await;
    signal(pid_in(&fixture, attempt_tag(1), "ready"), Signal::KILL);
    let seen = await_observation(
        &*fixture.site,
        attempt_tag(1),
        |seen: &AttemptObservation| matches!(seen, AttemptObservation::Ended { .. }),
    )
    .await;
    let why = SiteEndReason::WrapperKilled;
    assert!(
        matches!(seen, AttemptObservation::Ended { began: true, why: w, .. } if w == why),
        "{seen:?}"
    );
    assert!(processes_naming(&fixture.root().join("attempts")).is_empty());
    await_idle(&*fixture.site, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_killed_while_nobody_looked_is_found_by_the_next_incarnation() {
    let fixture = LocalSiteFixture::new();
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(WAITS)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "begun").await;
    let next = fixture.reopened();
    signal(pid_in(&fixture, attempt_tag(1), "ready"), Signal::KILL);
    // Whether it met the wrapper alive decides how much it knows.
    await_observation(&*next, attempt_tag(1), |seen: &AttemptObservation| {
        let is_ended = matches!(seen, AttemptObservation::Ended { began: true, .. });
        is_ended || matches!(seen, AttemptObservation::Vanished { began: true, .. })
    })
    .await;
    await_nobody(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_killed_from_outside_is_its_own_end_and_not_the_wrappers() {
    let fixture = LocalSiteFixture::new();
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(WAITS)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "begun").await;
    signal(pid_in(&fixture, attempt_tag(1), "begun"), Signal::KILL);
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Signal(9)
    );
    await_nobody(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_is_not_ended_because_somebody_set_the_clock() {
    const DAYS: Duration = Duration::from_secs(400 * 86_400);
    let fixture = LocalSiteFixture::new();
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(WAITS)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "begun").await;
    // By the clock as it is now it began long ago.
    let begun = fixture
        .root()
        .join(format!("attempts/{}/begun", attempt_tag(1)));
    let file = std::fs::File::options().append(true).open(begun).unwrap();
    file.set_modified(std::time::SystemTime::now() - DAYS)
        .unwrap();
    let next = fixture.reopened();
    for _ in 0..3 {
        await_observation(&*next, attempt_tag(1), |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await;
    }
    next.queue().cancel(attempt_tag(1), None).await.unwrap();
    assert_eq!(
        await_exit(&*next, attempt_tag(1)).await,
        ExitCause::Terminated
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_processes_are_ended_as_well() {
    for who in ["ready", "begun"] {
        let fixture = LocalSiteFixture::new();
        start_attempt(
            &*fixture.site,
            &submit_request(attempt_tag(1), script_program(WAITS)),
        )
        .await;
        await_printed(&*fixture.site, attempt_tag(1), "begun").await;
        signal(pid_in(&fixture, attempt_tag(1), who), Signal::STOP);
        fixture
            .site
            .queue()
            .cancel(attempt_tag(1), None)
            .await
            .unwrap();
        assert_eq!(
            await_exit(&*fixture.site, attempt_tag(1)).await,
            ExitCause::Terminated,
            "{who}"
        );
        await_idle(&*fixture.site, 8).await;
        await_nobody(&fixture).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_wrapper_at_the_gate_is_ended() {
    let fixture = LocalSiteFixture::new();
    bring_to_gate(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(WAITS)),
    )
    .await;
    signal(pid_in(&fixture, attempt_tag(1), "ready"), Signal::STOP);
    fixture
        .site
        .queue()
        .cancel(attempt_tag(1), None)
        .await
        .unwrap();
    await_observation(&*fixture.site, attempt_tag(1), |seen| {
        *seen == AttemptObservation::Void
    })
    .await;
    await_nobody(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_left_its_group_is_found_by_its_environment() {
    let fixture = LocalSiteFixture::new();
    let runaway = "setsid sh -c 'trap \"\" TERM; echo away; sleep 600' & wait";
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(runaway)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "away").await;
    fixture
        .site
        .queue()
        .cancel(attempt_tag(1), None)
        .await
        .unwrap();
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Terminated
    );
    await_nobody(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_payload_left_running_is_ended_after_it() {
    let fixture = LocalSiteFixture::new();
    let runaway = "setsid sh -c 'echo away; sleep 600' & while ! [ -e stop ]; do sleep 0.05; done";
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(runaway)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "away").await;
    let work = fixture
        .root()
        .join(format!("attempts/{}/work", attempt_tag(1)));
    std::fs::write(work.join("stop"), "").unwrap();
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Code(0)
    );
    let started = Instant::now();
    while !processes_naming(&fixture.root().join("attempts")).is_empty() {
        fixture.site.queue().status(&[]).await.unwrap();
        assert!(started.elapsed() < PATIENCE, "processes are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_wrappers_do_not_stay_as_zombies() {
    let fixture = LocalSiteFixture::new();
    for job in 1..=5 {
        start_attempt(
            &*fixture.site,
            &submit_request(attempt_tag(job), script_program("exit 0")),
        )
        .await;
    }
    let wrappers: Vec<u32> = (1..=5)
        .map(|job| pid_in(&fixture, attempt_tag(job), "ready"))
        .collect();
    let started = Instant::now();
    // Nobody asks for their status any more.
    while wrappers
        .iter()
        .any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists())
    {
        assert!(started.elapsed() < PATIENCE, "a zombie is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_hinted_at_without_any_poll() {
    let fixture = LocalSiteFixture::new();
    let mut changes = fixture.site.monitor().changes().unwrap();
    let site: &dyn Site = &*fixture.site;
    site.queue()
        .submit(&submit_request(attempt_tag(1), script_program("exit 0")))
        .await
        .unwrap();
    tokio::time::timeout(PATIENCE, changes.changed())
        .await
        .unwrap()
        .unwrap();
    assert!(
        fixture
            .root()
            .join(format!("attempts/{}/ready", attempt_tag(1)))
            .exists()
    );
    changes.mark_unchanged();
    site.gate()
        .decide_gate(attempt_tag(1), &cospan_sites::contract::go_decision())
        .await
        .unwrap();
    tokio::time::timeout(PATIENCE, changes.changed())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(await_exit(site, attempt_tag(1)).await, ExitCause::Code(0));
    assert_eq!(read_stdout(site, attempt_tag(1)).await, "");
}
