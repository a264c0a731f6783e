//! The gate: exactly one decision wins, and nothing runs without it.

use super::*;

/// There is no attempt that could be let in.
pub async fn go_without_a_directory_is_refused(fixture: &impl SiteFixture) {
    let answer = fixture
        .site()
        .gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await;
    assert!(matches!(answer, Err(SiteError::Refused(_))), "{answer:?}");
}

/// The payload would print if it ran.
pub async fn nothing_runs_before_the_gate_opens(fixture: &impl SiteFixture) {
    let site = fixture.site();
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(1), script_program("echo ran")),
    )
    .await;
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &GateDecision::Void)
            .await,
        Ok(GateState::Voided)
    );
    assert_eq!(
        await_observation(&*site, attempt_tag(1), |_| true).await,
        AttemptObservation::Void
    );
    await_ended(&*site, attempt_tag(1)).await;
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "");
}

/// The next attempt may be started although an earlier submission may still turn up.
pub async fn void_without_a_directory_keeps_a_late_wrapper_out(fixture: &impl SiteFixture) {
    let site = fixture.site();
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &GateDecision::Void)
            .await,
        Ok(GateState::Voided)
    );
    assert_eq!(
        await_observation(&*site, attempt_tag(1), |_| true).await,
        AttemptObservation::Void
    );
    // Whatever the answer is, it never runs.
    let _ = site
        .queue()
        .submit(&submit_request(attempt_tag(1), script_program("echo ran")))
        .await;
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &go_decision())
            .await,
        Ok(GateState::Voided)
    );
    await_ended(&*site, attempt_tag(1)).await;
    assert_eq!(
        await_observation(&*site, attempt_tag(1), |_| true).await,
        AttemptObservation::Void
    );
}

/// Later decisions change nothing.
pub async fn the_first_decision_stands(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let opened = submit_request(attempt_tag(1), script_program("exit 3"));
    start_attempt(&*site, &opened).await;
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &GateDecision::Void)
            .await,
        Ok(GateState::Opened)
    );
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &go_decision())
            .await,
        Ok(GateState::Opened)
    );
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(3));

    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(2), script_program("exit 3")),
    )
    .await;
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(2), &GateDecision::Void)
            .await,
        Ok(GateState::Voided)
    );
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(2), &go_decision())
            .await,
        Ok(GateState::Voided)
    );
}

/// Otherwise a control plane that never comes back would hold processors for ever.
pub async fn a_wrapper_that_is_held_too_long_closes_the_gate_itself(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let mut order = submit_request(attempt_tag(1), script_program("echo ran"));
    order.hold_max = DurationMs::from_secs(1);
    site.queue().submit(&order).await.unwrap();
    await_observation(&*site, attempt_tag(1), |seen| {
        *seen == AttemptObservation::Void
    })
    .await;
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &go_decision())
            .await,
        Ok(GateState::Voided)
    );
    await_ended(&*site, attempt_tag(1)).await;
}

/// The answer may have been lost.
pub async fn a_repeated_submission_starts_no_second_payload(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let order = submit_request(attempt_tag(1), script_program("echo ran"));
    let first = site.queue().submit(&order).await.unwrap();
    assert_eq!(site.queue().submit(&order).await, Ok(first.clone()));
    bring_to_gate(&*site, &order).await;
    assert_eq!(fixture.reopened().queue().submit(&order).await, Ok(first));
    start_attempt(&*site, &order).await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "ran\n");
}

/// This holds long after the end, too.
pub async fn a_repeated_submission_of_an_ended_attempt_starts_nothing(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let order = submit_request(attempt_tag(1), script_program("echo ran"));
    run_to_end(&*site, &order).await;
    let _ = site.queue().submit(&order).await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "ran\n");
}

/// Waits until an attempt occupies nothing any more.
pub async fn await_ended(site: &dyn Site, tag: AttemptTag) {
    let total = site.monitor().describe().await.unwrap().total.processors;
    await_idle(site, total).await;
    await_observation(site, tag, |seen| {
        !matches!(seen, AttemptObservation::Unknown(_))
    })
    .await;
}
