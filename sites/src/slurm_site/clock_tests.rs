//! The clock of a login node is set, or was never right.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cospan_domain::ids::{ComponentIndex, Epoch, Round};
use cospan_domain::units::{DurationMs, Timestamp};

use super::cancels_tests;
use super::polls_tests::{
    WRITTEN_S, attempt_files, only_observation, poll_site, scripted_site, squeue_line,
};
use crate::contract::attempt_tag;
use crate::port::{
    AttemptObservation, Gate, GateDecision, GateState, GoDecision, RunningPayload, SiteError,
    SiteQueue,
};

const HOUR_S: i64 = 3_600;
/// By so much clocks are set, also to a time before everything that was written.
const SET_S: [i64; 5] = [
    HOUR_S,
    -HOUR_S,
    720 * HOUR_S,
    -720 * HOUR_S,
    -1_800_000_000 + HOUR_S,
];

#[tokio::test(start_paused = true)]
async fn no_time_that_was_told_changes_when_a_clock_is_set() {
    for set_s in SET_S {
        let (cluster, site) = scripted_site();
        let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
        cluster.change_script(|said| {
            said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2);
            said.files = attempt_files(attempt_tag(1), 5, &[("decision", "go"), ("begun", &begun)]);
        });
        let before = poll_site(&site).await;
        let AttemptObservation::Begun(RunningPayload { at, .. }) = only_observation(&before) else {
            panic!("{before:?}")
        };
        assert_eq!(*at, Timestamp(WRITTEN_S.unsigned_abs() * 1_000));
        cluster.change_script(|said| said.set_s = set_s);
        let after = poll_site(&site).await;
        assert_eq!(
            (only_observation(&after), after.site_clock),
            (only_observation(&before), before.site_clock),
            "{set_s}"
        );
        cluster.change_script(|said| said.set_s = 0);
        let again = poll_site(&site).await;
        assert_eq!(
            (only_observation(&again), again.site_clock),
            (only_observation(&before), before.site_clock),
            "{set_s}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_end_is_judged_before_its_time_because_a_clock_was_set() {
    for frozen in [false, true] {
        for set_s in SET_S {
            let (cluster, site) = scripted_site();
            let cause = if frozen { "code 0" } else { "terminated" };
            let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
            let exit = format!("cause {cause}\nran 1\nend {}", attempt_tag(1));
            let all = [("decision", "go"), ("begun", &*begun), ("exit", &*exit)];
            cluster.change_script(|said| {
                said.queue = squeue_line(5, attempt_tag(1), "COMPLETING", 2);
                said.files = attempt_files(attempt_tag(1), 5, &all);
                said.frozen = frozen;
            });
            poll_site(&site).await;
            cluster.change_script(|said| said.set_s = set_s);
            let early = poll_site(&site).await;
            assert!(
                matches!(only_observation(&early), AttemptObservation::Unknown(_)),
                "{set_s}: {early:?}"
            );
            tokio::time::advance(Duration::from_secs(60)).await;
            let late = poll_site(&site).await;
            assert!(
                matches!(only_observation(&late), AttemptObservation::Exited(_)),
                "{set_s}: {late:?}"
            );
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(since.as_millis().try_into().unwrap())
}

/// Has the login node tell the time by a clock that is so far off.
fn set_clock(bin: &Path, how_far: &str) {
    let date = bin.join("date");
    std::fs::write(
        &date,
        format!("#!/bin/sh\nexec /bin/date -d '{how_far}' \"$@\"\n"),
    )
    .unwrap();
    std::fs::set_permissions(&date, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn is_near(at: Timestamp) -> bool {
    at.0.abs_diff(now().0) < 60_000
}

#[tokio::test]
async fn a_login_node_whose_clock_is_wrong_tells_the_time_of_its_files() {
    for how_far in ["1 hour", "-1 hour", "30 days", "1970-01-02"] {
        let directory = tempfile::tempdir().unwrap();
        let site = cancels_tests::site_in_directory(directory.path()).await;
        set_clock(&directory.path().join("bin"), how_far);
        let status = site.status(&[attempt_tag(1)]).await.unwrap();
        assert!(is_near(status.site_clock.unwrap()), "{how_far}: {status:?}");

        let attempt = directory
            .path()
            .join("root/attempts")
            .join(attempt_tag(1).to_string());
        std::fs::create_dir(&attempt).unwrap();
        let round = Round(1);
        let epoch = Epoch(1);
        let rank = ComponentIndex(0);
        let start_at = now() + DurationMs(1_000);
        let go = GoDecision {
            round,
            epoch,
            start_at,
            start_by: start_at,
            rank,
            peers: Vec::new(),
        };
        let opened = site
            .decide_gate(attempt_tag(1), &GateDecision::Go(go))
            .await
            .unwrap();
        assert_eq!(opened, GateState::Opened);
        let decision = std::fs::read_to_string(attempt.join("decision")).unwrap();
        let start = decision
            .lines()
            .find_map(|line| line.strip_prefix("start_ms "))
            .unwrap();
        assert!(
            is_near(Timestamp(start.parse().unwrap())),
            "{how_far}: {decision}"
        );
    }
}

#[tokio::test]
async fn a_clock_that_is_set_between_two_cancels_takes_no_payload_its_grace() {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    let site = cancels_tests::site_in_directory(directory.path()).await;
    std::fs::create_dir(
        directory
            .path()
            .join("root/spool")
            .join(attempt_tag(1).to_string()),
    )
    .unwrap();
    for (name, text) in [("said", ""), ("code", "0")] {
        std::fs::write(bin.join(name), text).unwrap();
    }
    site.cancel(attempt_tag(1), None).await.unwrap();
    set_clock(&bin, "1 hour");
    site.cancel(attempt_tag(1), None).await.unwrap();
    let told = std::fs::read_to_string(bin.join("scancelled")).unwrap();
    assert_eq!(told.lines().count(), 2);
    assert!(
        told.lines().all(|line| line.contains("--signal=TERM")),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_never_arrived_takes_no_payload_its_grace() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| said.away = true);
    assert!(matches!(
        site.cancel(attempt_tag(1), None).await,
        Err(SiteError::NotSent(_))
    ));
    cluster.change_script(|said| said.away = false);
    for how in ["gently", "late"] {
        tokio::time::advance(Duration::from_secs(3_600)).await;
        site.cancel(attempt_tag(1), None).await.unwrap();
        cluster.change_script(|said| assert_eq!(said.cancelled.pop().as_deref(), Some(how)));
    }
}
