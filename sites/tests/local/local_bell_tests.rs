//! Attempts are called from their gates, also by those who did not start them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use cospan_domain::units::DurationMs;
use cospan_sites::contract::{
    PATIENCE, attempt_tag, await_exit, bring_to_gate, go_decision, script_program, start_attempt,
    submit_request,
};
use cospan_sites::local_site::LocalSite;
use cospan_sites::port::{ExitCause, Site};

use crate::support::{LocalSiteFixture, processes_naming};

/// A site whose wrappers look at their gates by themselves later than any test waits.
fn fixture() -> LocalSiteFixture {
    LocalSiteFixture::with(|config| config.poll = DurationMs::from_secs(600))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_its_gate_an_attempt_is_one_process() {
    let fixture = fixture();
    bring_to_gate(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program("exit 3")),
    )
    .await;
    let started = Instant::now();
    while processes_naming(&fixture.root().join("attempts")).len() != 1 {
        assert!(started.elapsed() < PATIENCE, "others wait beside it");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fixture
        .site
        .gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await
        .unwrap();
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Code(3)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_of_many_is_called() {
    let fixture = fixture();
    for job in 1..=40 {
        start_attempt(
            &*fixture.site,
            &submit_request(attempt_tag(job), script_program("exit 0")),
        )
        .await;
        assert_eq!(
            await_exit(&*fixture.site, attempt_tag(job)).await,
            ExitCause::Code(0)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_bell_died_with_its_owner_is_called_by_the_next() {
    let fixture = fixture();
    let first = LocalSite::new(fixture.config()).unwrap();
    bring_to_gate(
        &first,
        &submit_request(attempt_tag(1), script_program("exit 3")),
    )
    .await;
    drop(first);
    fixture
        .site
        .gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await
        .unwrap();
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Code(3)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_shell_hears_no_bell_is_called_through_busybox() {
    let Some(busybox) = ["/bin/busybox", "/usr/bin/busybox"]
        .map(Path::new)
        .into_iter()
        .find(|at| at.exists())
    else {
        return;
    };
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let shell = place.path().join("sh");
    symlink(busybox, &shell).unwrap();
    let fixture = LocalSiteFixture::with(|config| {
        config.poll = DurationMs::from_secs(600);
        config.shell = shell;
    });
    bring_to_gate(
        &*fixture.site,
        &submit_request(attempt_tag(1), script_program("exit 3")),
    )
    .await;
    fixture
        .site
        .gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await
        .unwrap();
    assert_eq!(
        await_exit(&*fixture.site, attempt_tag(1)).await,
        ExitCause::Code(3)
    );
}
