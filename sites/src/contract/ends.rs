//! Ends of all kinds, and what they leave.

use super::*;

/// The wrapper enforces the wall time.
pub async fn the_wall_time_ends_a_payload(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let mut order = submit_request(attempt_tag(1), script_program("sleep 600"));
    order.wall_time = DurationMs::from_secs(1);
    assert_eq!(run_to_end(&*site, &order).await, ExitCause::WallTime);
    await_ended(&*site, attempt_tag(1)).await;
}

/// A cancelled attempt at the gate frees its processors.
pub async fn cancelling_at_the_gate_voids_the_attempt(fixture: &impl SiteFixture) {
    let site = fixture.site();
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(1), script_program("echo ran")),
    )
    .await;
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    await_observation(&*site, attempt_tag(1), |seen| {
        *seen == AttemptObservation::Void
    })
    .await;
    await_ended(&*site, attempt_tag(1)).await;
}

/// Cancel only asks for the end; `status` says when it has come.
pub async fn cancelling_a_payload_ends_it_and_may_be_repeated(fixture: &impl SiteFixture) {
    let site = fixture.site();
    start_attempt(
        &*site,
        &submit_request(attempt_tag(1), script_program("echo begun; sleep 600")),
    )
    .await;
    await_printed(&*site, attempt_tag(1), "begun").await;
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    assert_eq!(
        await_exit(&*site, attempt_tag(1)).await,
        ExitCause::Terminated
    );
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    await_ended(&*site, attempt_tag(1)).await;
}

/// The kill follows after the grace.
pub async fn a_payload_that_ignores_term_is_killed(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let stubborn = script_program("trap '' TERM; echo begun; while :; do sleep 600; done");
    start_attempt(&*site, &submit_request(attempt_tag(1), stubborn)).await;
    await_printed(&*site, attempt_tag(1), "begun").await;
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    assert_eq!(
        await_exit(&*site, attempt_tag(1)).await,
        ExitCause::Terminated
    );
    await_ended(&*site, attempt_tag(1)).await;
}

/// A submission may be on its way.
pub async fn cancelling_an_unknown_attempt_keeps_it_from_ever_running(fixture: &impl SiteFixture) {
    let site = fixture.site();
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    let _ = site
        .queue()
        .submit(&submit_request(attempt_tag(1), script_program("echo ran")))
        .await;
    await_observation(&*site, attempt_tag(1), |seen| {
        *seen == AttemptObservation::Void
    })
    .await;
    await_ended(&*site, attempt_tag(1)).await;
}

/// Otherwise a process would go on that nobody knows of.
pub async fn only_ended_attempts_are_removed(fixture: &impl SiteFixture) {
    let site = fixture.site();
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    let answer = site.queue().remove_attempt(attempt_tag(1)).await;
    assert!(matches!(answer, Err(SiteError::Refused(_))), "{answer:?}");
    site.gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await
        .unwrap();
    await_exit(&*site, attempt_tag(1)).await;
    await_removed(&*site, attempt_tag(1)).await;
    assert_eq!(
        await_observation(&*site, attempt_tag(1), |_| true).await,
        AttemptObservation::Absent
    );
    assert_eq!(site.queue().list_attempts().await, Ok(vec![]));
    assert_eq!(
        site.queue().remove_attempt(attempt_tag(1)).await,
        Ok(()),
        "nothing left is nothing to do"
    );
}

/// Ended attempts are listed as well, until they are removed.
pub async fn what_left_something_is_listed(fixture: &impl SiteFixture) {
    let site = fixture.site();
    assert_eq!(site.queue().list_attempts().await, Ok(vec![]));
    run_to_end(
        &*site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(2), script_program("exit 0")),
    )
    .await;
    assert_eq!(
        site.queue().list_attempts().await,
        Ok(vec![attempt_tag(1), attempt_tag(2)])
    );
    site.queue().cancel(attempt_tag(2), None).await.unwrap();
    await_ended(&*site, attempt_tag(2)).await;
}

async fn await_removed(site: &dyn Site, tag: AttemptTag) {
    let started = Instant::now();
    // The record of the end may be there a moment before the wrapper is gone.
    while let Err(error) = site.queue().remove_attempt(tag).await {
        assert!(started.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
