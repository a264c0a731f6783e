//! Payloads that write, replace and hide what their wrapper writes.

use std::time::{Duration, Instant};

use cospan_domain::ids::AttemptTag;
use cospan_sites::contract::{
    PATIENCE, SiteFixture, attempt_tag, await_exit, await_idle, await_observation, await_printed,
    script_program, start_attempt, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, ExitCause, GateDecision, GateState, Site, SiteEndReason,
};
use rustix::process::Signal;

use crate::support::unprivileged::unprivileged;
use crate::support::{LocalSiteFixture, pid_in, processes_naming, signal};

const WAITS: &str = "echo forged; while ! [ -e stop ]; do sleep 0.05; done";

/// Starts a payload that does this first and then waits.
async fn begun(fixture: &LocalSiteFixture, first: &str) -> AttemptTag {
    let text = format!("{first}; {WAITS}; exit 3");
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program(&text)),
    )
    .await;
    await_printed(&*fixture.site, attempt_tag(1), "forged").await;
    attempt_tag(1)
}

const FORGED_EXIT: &str = r"printf 'cause code 0\nran 1\nend %s\n' $COSPAN_TAG > ../exit";
const FORGED_VOID: &str = r"rm ../decision; printf 'void\nend %s\n' $COSPAN_TAG > ../decision";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_payload_says_of_its_end_counts_for_nothing_while_it_runs() {
    for forged in [FORGED_EXIT, FORGED_VOID] {
        let fixture = LocalSiteFixture::new();
        let tag = begun(&fixture, forged).await;
        // Also for one who has not seen it before.
        for site in [fixture.site.clone() as _, fixture.reopened()] {
            let seen = await_observation(&*site, tag, |_| true).await;
            assert!(matches!(seen, AttemptObservation::Begun(_)), "{seen:?}");
        }
        let decided = fixture
            .site
            .gate()
            .decide_gate(tag, &GateDecision::Void)
            .await;
        assert_eq!(decided, Ok(GateState::Opened));
        std::fs::write(fixture.root().join(format!("attempts/{tag}/work/stop")), "").unwrap();
        assert_eq!(await_exit(&*fixture.site, tag).await, ExitCause::Code(3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_kills_its_wrapper_and_claims_success_has_none() {
    for forged in [FORGED_EXIT, FORGED_VOID] {
        let fixture = LocalSiteFixture::new();
        let tag = begun(&fixture, forged).await;
        signal(pid_in(&fixture, tag, "ready"), Signal::KILL);
        let seen = await_observation(&*fixture.site, tag, |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Ended { .. })
        })
        .await;
        let AttemptObservation::Ended {
            began: true,
            why: SiteEndReason::Spoiled,
            ..
        } = seen
        else {
            panic!("{seen:?}")
        };
        assert!(processes_naming(&fixture.root().join("attempts")).is_empty());
        await_idle(&*fixture.site, 8).await;
    }
}

/// What payloads put in the place of state files, or do to their directory.
const OBSTACLES: [&str; 7] = [
    "mkdir -p ../exit/full",
    "ln -s /nowhere ../exit",
    "rm ../begun; mkdir ../begun",
    "rm ../ready; ln -s /nowhere ../ready",
    "rm ../decision; mkdir ../decision",
    "mkdir -p closed/more; chmod 000 closed/more closed",
    "chmod 000 ..",
];

fn as_nobody<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    unprivileged(|| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test());
    });
}

/// No attempt stays for ever because its files are not what they were.
#[test]
fn whatever_a_payload_does_to_the_files_it_can_be_ended_and_removed() {
    as_nobody(|| async {
        for obstacle in OBSTACLES {
            let fixture = LocalSiteFixture::anywhere();
            let text = format!(
                "echo begun; until [ -e go ]; do sleep 0.02; done; {obstacle}; exec sleep 300"
            );
            start_attempt(
                &*fixture.site,
                &submit_request(attempt_tag(1), script_program(&text)),
            )
            .await;
            await_printed(&*fixture.site, attempt_tag(1), "begun").await;
            std::fs::write(
                fixture
                    .root()
                    .join(format!("attempts/{}/work/go", attempt_tag(1))),
                "",
            )
            .unwrap();
            await_that(|| asleep(&fixture)).await;
            // Whoever looks at it afresh has nothing but its files.
            for site in [fixture.site.clone() as _, fixture.reopened()] {
                let seen = await_observation(&*site, attempt_tag(1), |_| true).await;
                let goes_on = matches!(
                    seen,
                    AttemptObservation::Begun(_) | AttemptObservation::Unknown(_)
                );
                assert!(goes_on, "after {obstacle:?}: {seen:?}");
            }
            let site = fixture.reopened();
            site.queue().cancel(attempt_tag(1), None).await.unwrap();
            await_observation(&*site, attempt_tag(1), |seen: &AttemptObservation| {
                matches!(
                    seen,
                    AttemptObservation::Exited(_) | AttemptObservation::Ended { .. }
                )
            })
            .await;
            await_idle(&*site, 8).await;
            site.queue().remove_attempt(attempt_tag(1)).await.unwrap();
            assert_eq!(
                site.queue().list_attempts().await.unwrap(),
                [],
                "after {obstacle:?}"
            );
        }
    });
}

#[test]
fn a_payload_that_hides_its_files_and_kills_its_wrapper_has_an_error_of_its_own() {
    as_nobody(|| async {
        for obstacle in OBSTACLES {
            if obstacle.contains("closed") {
                continue;
            }
            let fixture = LocalSiteFixture::anywhere();
            let text = format!("sleep 0.1; {obstacle}; kill -KILL $PPID; sleep 300");
            start_attempt(
                &*fixture.site,
                &submit_request(attempt_tag(1), script_program(&text)),
            )
            .await;
            let seen = await_observation(
                &*fixture.site,
                attempt_tag(1),
                |seen: &AttemptObservation| matches!(seen, AttemptObservation::Ended { .. }),
            )
            .await;
            let AttemptObservation::Ended {
                why: SiteEndReason::Spoiled,
                ..
            } = seen
            else {
                panic!("after {obstacle:?}: {seen:?}")
            };
            fixture
                .site
                .queue()
                .remove_attempt(attempt_tag(1))
                .await
                .unwrap();
        }
    });
}

fn asleep(fixture: &LocalSiteFixture) -> bool {
    processes_naming(&fixture.root().join("attempts"))
        .into_iter()
        .any(|pid| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments == b"sleep\x00300\x00"
        })
}

async fn await_that(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "it does not come to that");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Puts another directory in the place of its own. A look at the site may end the wrapper before that
/// sees it.
const REPLACES: &str = "mv $COSPAN_ATTEMPT_DIR ../../../away; mkdir $COSPAN_ATTEMPT_DIR; exit 1";
const FORGED_TROUBLE: &str = r"printf 'why no disk\nend %s\n' $COSPAN_TAG > ../trouble";

/// No wrapper is left to tell how they ended, and it is not the site's doing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_ends_its_own_attempt_is_not_charged_to_its_site() {
    let forges = format!("{FORGED_TROUBLE}; kill -KILL $PPID; sleep 300");
    let deeds = [
        ("kill -KILL $PPID; sleep 300", SiteEndReason::WrapperKilled),
        (
            "rm ../ready ../begun ../decision; kill -KILL $PPID; sleep 300",
            SiteEndReason::WrapperKilled,
        ),
        (
            ": > ../exit; kill -KILL $PPID; sleep 300",
            SiteEndReason::WrapperKilled,
        ),
        (
            "sed 's/^boot .*/boot another/' ../ready > new; mv new ../ready; kill -KILL $PPID; sleep 300",
            SiteEndReason::WrapperKilled,
        ),
        (REPLACES, SiteEndReason::Spoiled),
        (&forges, SiteEndReason::Spoiled),
        (
            "rm -rf $COSPAN_ATTEMPT_DIR; kill -KILL $PPID; sleep 300",
            SiteEndReason::Spoiled,
        ),
        ("rm -rf $COSPAN_ATTEMPT_DIR; exit 1", SiteEndReason::Spoiled),
        (
            "rm -rf $COSPAN_ATTEMPT_DIR; sleep 300",
            SiteEndReason::Spoiled,
        ),
        (
            "mv $COSPAN_ATTEMPT_DIR ../../../away; kill -KILL $PPID; sleep 300",
            SiteEndReason::Spoiled,
        ),
    ];
    for (deed, expected) in deeds {
        let fixture = LocalSiteFixture::new();
        start_attempt(
            &*fixture.site,
            &submit_request(
                attempt_tag(1),
                script_program(&format!("sleep 0.1; {deed}")),
            ),
        )
        .await;
        for _ in 0..3 {
            let seen = await_observation(
                &*fixture.site,
                attempt_tag(1),
                |seen: &AttemptObservation| {
                    matches!(
                        seen,
                        AttemptObservation::Ended { .. } | AttemptObservation::Vanished { .. }
                    )
                },
            )
            .await;
            let AttemptObservation::Ended {
                began: true, why, ..
            } = seen
            else {
                panic!("after {deed:?}: {seen:?}")
            };
            let ended_by_look = deed == REPLACES && why == SiteEndReason::WrapperKilled;
            assert!(why == expected || ended_by_look, "after {deed:?}: {why:?}");
        }
        assert!(processes_naming(&fixture.root().join("attempts")).is_empty());
        await_idle(&*fixture.site, 8).await;
        fixture
            .site
            .queue()
            .remove_attempt(attempt_tag(1))
            .await
            .unwrap();
        assert_eq!(
            await_observation(&*fixture.site, attempt_tag(1), |_| true).await,
            AttemptObservation::Absent
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_that_its_payload_stopped_goes_on() {
    let fixture = LocalSiteFixture::new();
    start_attempt(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program("kill -STOP $PPID; exit 3")),
    )
    .await;
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Code(3)
    );
    await_idle(&*fixture.site, 8).await;
}
