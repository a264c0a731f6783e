//! Attempts that wait for long, never start, vanish, or are out of sight for a while.

use super::*;

/// Brings an attempt to its gate that takes all processors, and returns their number.
async fn fill_site(site: &dyn Site) -> u32 {
    let total = site.monitor().describe().await.unwrap().total;
    let mut all = submit_request(attempt_tag(1), script_program("exit 0"));
    all.resources = total.clone();
    bring_to_gate(site, &all).await;
    total.processors
}

/// Submits to a full site; `false` if it has no queue, and then nothing of the attempt is there.
async fn submit_to_full(site: &dyn Site, tag: AttemptTag) -> bool {
    match site
        .queue()
        .submit(&submit_request(tag, script_program("exit 0")))
        .await
    {
        Ok(_) => true,
        Err(SiteError::SiteFull(_)) => {
            assert_eq!(
                await_observation(site, tag, |_| true).await,
                AttemptObservation::Absent
            );
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// It may take long, and any adapter may ask.
pub async fn what_waits_in_the_queue_starts_when_its_turn_comes(fixture: &impl SiteFixture) {
    let site = fixture.site();
    fill_site(&*site).await;
    if !submit_to_full(&*site, attempt_tag(2)).await {
        return;
    }
    let reopened = fixture.reopened();
    for site in [&site, &site, &reopened, &site, &reopened] {
        let seen = await_observation(&**site, attempt_tag(2), |_| true).await;
        assert!(matches!(seen, AttemptObservation::Queued(_)), "{seen:?}");
    }
    site.gate()
        .decide_gate(attempt_tag(1), &GateDecision::Void)
        .await
        .unwrap();
    await_observation(&*site, attempt_tag(2), |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(2), &go_decision())
            .await,
        Ok(GateState::Opened)
    );
    assert_eq!(await_exit(&*site, attempt_tag(2)).await, ExitCause::Code(0));
}

/// It does not start later either, when processors become idle.
pub async fn what_is_cancelled_while_it_waits_never_starts(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let total = fill_site(&*site).await;
    if submit_to_full(&*site, attempt_tag(2)).await {
        site.queue().cancel(attempt_tag(2), None).await.unwrap();
    }
    await_observation(&*site, attempt_tag(2), was_never_begun).await;
    site.gate()
        .decide_gate(attempt_tag(1), &GateDecision::Void)
        .await
        .unwrap();
    await_idle(&*site, total).await;
    assert_ne!(
        site.gate()
            .decide_gate(attempt_tag(2), &go_decision())
            .await,
        Ok(GateState::Opened)
    );
    let seen = await_observation(&*site, attempt_tag(2), |_| true).await;
    assert!(was_never_begun(&seen), "{seen:?}");
}

fn was_never_begun(seen: &AttemptObservation) -> bool {
    matches!(
        seen,
        AttemptObservation::Absent
            | AttemptObservation::Void
            | AttemptObservation::Ended { began: false, .. }
            | AttemptObservation::Vanished { began: false, .. }
    )
}

/// Nothing is left that could say how it ended.
pub async fn what_vanishes_is_over_and_no_success(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let total = site.monitor().describe().await.unwrap().total.processors;
    start_attempt(
        &*site,
        &submit_request(attempt_tag(1), script_program("sleep 600")),
    )
    .await;
    await_observation(&*site, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Begun(_))
    })
    .await;
    fixture.lose(attempt_tag(1));
    await_observation(&*site, attempt_tag(1), is_over).await;
    await_idle(&*site, total).await;
    assert_eq!(
        run_to_end(
            &*site,
            &submit_request(attempt_tag(2), script_program("exit 0"))
        )
        .await,
        ExitCause::Code(0)
    );
    // An adapter that is new here waits for what may still be reported.
    await_observation(&*fixture.reopened(), attempt_tag(1), is_over).await;
}

fn is_over(seen: &AttemptObservation) -> bool {
    matches!(
        seen,
        AttemptObservation::Ended { began: true, .. }
            | AttemptObservation::Vanished { began: true, .. }
    )
}

/// It went on meanwhile.
pub async fn what_was_out_of_sight_comes_back_as_it_was(fixture: &impl SiteFixture) {
    let site = fixture.site();
    start_attempt(
        &*site,
        &submit_request(attempt_tag(1), script_program("sleep 1")),
    )
    .await;
    await_observation(&*site, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Begun(_))
    })
    .await;
    fixture.take_away();
    let reopened = fixture.reopened();
    for site in [&site, &reopened] {
        assert!(site.queue().status(&[attempt_tag(1)]).await.is_err());
        assert!(site.queue().find_by_tag(attempt_tag(1)).await.is_err());
    }
    fixture.bring_back();
    assert_eq!(
        await_exit(&*reopened, attempt_tag(1)).await,
        ExitCause::Code(0)
    );
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
}
