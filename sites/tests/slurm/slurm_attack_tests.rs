//! Payloads that write, replace and hide what their wrapper writes, and what they leave behind.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, await_exit, await_observation, script_program,
    start_attempt, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, ExitCause, GateDecision, GateState, Site, SiteEndReason,
};

use super::fixture::SlurmSiteFixture;

const FORGED_EXIT: &str = r"printf 'cause code 0\nran 1\nend %s\n' $COSPAN_TAG > ../exit";
const FORGED_VOID: &str = r"rm ../decision; printf 'void\nend %s\n' $COSPAN_TAG > ../decision";

/// What payloads do to their files.
const DEEDS: [&str; 7] = [
    FORGED_EXIT,
    FORGED_VOID,
    "mkdir -p ../exit/full",
    "rm ../begun; mkdir ../begun",
    "rm ../ready; ln -s /nowhere ../ready",
    "rm ../decision; mkdir ../decision",
    "chmod 000 ..",
];

/// Leaves a process in a session of its own, whose number is in `left`.
const LEAVES: &str = "setsid sh -c 'echo $$ > left; exec sleep 300' & \
                      until [ -s left ]; do sleep 0.01; done;";

fn work(fixture: &SlurmSiteFixture, tag: AttemptTag) -> PathBuf {
    fixture.root().join(format!("attempts/{tag}/work"))
}

/// Waits for a file that a payload makes, or a process that ends.
async fn await_that(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_there(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

async fn await_left(fixture: &SlurmSiteFixture, tag: AttemptTag) -> String {
    let file = work(fixture, tag).join("left");
    let read = || fs::read_to_string(&file).unwrap_or_default();
    await_that("nothing is left", || read().ends_with('\n')).await;
    read().trim().to_owned()
}

/// A connection that is lost in the middle of a removal leaves it half done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_removal_that_was_cut_short_left_is_swept_later() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let make = |name: &str, ago: &str| {
        let place = fixture.root().join("gone").join(name);
        fs::create_dir_all(place.join("work/closed")).unwrap();
        let mut touch = std::process::Command::new("touch");
        assert!(
            touch
                .args(["-d", ago])
                .arg(&place)
                .status()
                .unwrap()
                .success()
        );
        place
    };
    let old = make("old", "1 hour ago");
    let new = make("new", "now");
    fs::set_permissions(
        old.join("work"),
        std::os::unix::fs::PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    assert_eq!(site.queue().list_attempts().await, Ok(Vec::new()));
    assert_eq!(
        (old.exists(), new.exists()),
        (false, true),
        "a removal may be under way"
    );
}

/// Its end may be told before Slurm has tidied it up.
async fn remove(site: &dyn Site, tag: AttemptTag) {
    let started = Instant::now();
    while let Err(error) = site.queue().remove_attempt(tag).await {
        assert!(started.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_payload_does_to_the_files_it_runs_on_and_has_its_own_end() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    for (number, deed) in (1..).zip(DEEDS) {
        let text = format!(
            "{deed}; : > {}/done-{number}; until [ -e stop ]; do sleep 0.1; done; exit 3",
            fixture.root().display()
        );
        start_attempt(
            &*site,
            &submit_request(attempt_tag(number), script_program(&text)),
        )
        .await;
    }
    for (number, deed) in (1..).zip(DEEDS) {
        await_that(deed, || {
            fixture.root().join(format!("done-{number}")).exists()
        })
        .await;
        let seen = await_observation(&*site, attempt_tag(number), |_| true).await;
        let goes_on = matches!(
            seen,
            AttemptObservation::Begun(_) | AttemptObservation::Unknown(_)
        );
        assert!(goes_on, "after {deed:?}: {seen:?}");
        let decided = site
            .gate()
            .decide_gate(attempt_tag(number), &GateDecision::Void)
            .await;
        assert_eq!(decided, Ok(GateState::Opened), "after {deed:?}");
    }
    for (number, deed) in (1..).zip(DEEDS) {
        let stop = work(&fixture, attempt_tag(number)).join("stop");
        if fs::write(&stop, "").is_err() {
            // Its directory is closed: it can be ended all the same.
            site.queue()
                .cancel(attempt_tag(number), None)
                .await
                .unwrap();
            await_observation(&*site, attempt_tag(number), |seen: &AttemptObservation| {
                matches!(
                    seen,
                    AttemptObservation::Exited(_) | AttemptObservation::Ended { .. }
                )
            })
            .await;
        } else {
            assert_eq!(
                await_exit(&*site, attempt_tag(number)).await,
                ExitCause::Code(3),
                "after {deed:?}"
            );
        }
        remove(&*site, attempt_tag(number)).await;
    }
    assert_eq!(site.queue().list_attempts().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_kills_its_wrapper_ends_with_an_error_of_its_own() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    // Each takes Slurm some seconds.
    let all = || (1..).zip(DEEDS.into_iter().step_by(3));
    for (number, deed) in all() {
        let text = format!("{deed}; kill -KILL $PPID; sleep 300");
        start_attempt(
            &*site,
            &submit_request(attempt_tag(number), script_program(&text)),
        )
        .await;
    }
    for (number, deed) in all() {
        let seen = await_observation(&*site, attempt_tag(number), |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Ended { .. })
        })
        .await;
        let AttemptObservation::Ended {
            why: SiteEndReason::Spoiled,
            ..
        } = seen
        else {
            panic!("after {deed:?}: {seen:?}")
        };
        remove(&*site, attempt_tag(number)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_payload_left_is_over_before_its_success_is_told() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    start_attempt(
        &*site,
        &submit_request(attempt_tag(1), script_program(&format!("{LEAVES} exit 0"))),
    )
    .await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    assert!(!is_there(&await_left(&fixture, attempt_tag(1)).await));
}

/// Its wrapper could not end it, because it was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_payload_of_a_killed_wrapper_left_is_over_when_it_is_removed() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    start_attempt(
        &*site,
        &submit_request(
            attempt_tag(1),
            script_program(&format!("{LEAVES} kill -KILL $PPID; sleep 300")),
        ),
    )
    .await;
    let left = await_left(&fixture, attempt_tag(1)).await;
    await_observation(&*site, attempt_tag(1), |seen: &AttemptObservation| {
        matches!(
            seen,
            AttemptObservation::Vanished { .. } | AttemptObservation::Ended { .. }
        )
    })
    .await;
    remove(&*site, attempt_tag(1)).await;
    assert!(!is_there(&left));
}
