//! Load, look-ups, and what survives if the control plane or the site is away.

use super::*;

/// A full site is nobody's error, and that passes. A site with a queue
/// takes more, which waits there.
pub async fn a_full_site_says_so_and_has_room_again_afterwards(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let total = site.monitor().describe().await.unwrap().total;
    let mut all = submit_request(attempt_tag(1), script_program("exit 0"));
    all.resources = total.clone();
    assert_eq!(site.queue().status(&[]).await.unwrap().idle, total);
    bring_to_gate(&*site, &all).await;
    assert_eq!(site.queue().status(&[]).await.unwrap().idle.processors, 0);
    let is_queued = match site
        .queue()
        .submit(&submit_request(attempt_tag(2), script_program("exit 0")))
        .await
    {
        Err(SiteError::SiteFull(_)) => false,
        Err(error) => panic!("{error}"),
        Ok(_) => true,
    };
    let seen = await_observation(&*site, attempt_tag(2), |_| true).await;
    if is_queued {
        assert!(matches!(seen, AttemptObservation::Queued(_)), "{seen:?}");
    } else {
        assert_eq!(seen, AttemptObservation::Absent);
    }
    site.gate()
        .decide_gate(attempt_tag(1), &go_decision())
        .await
        .unwrap();
    await_exit(&*site, attempt_tag(1)).await;
    if is_queued {
        await_observation(&*site, attempt_tag(2), |seen| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await;
        site.gate()
            .decide_gate(attempt_tag(2), &go_decision())
            .await
            .unwrap();
        assert_eq!(
            await_exit(&*site, attempt_tag(2)).await,
            ExitCause::Code(0),
            "its turn came"
        );
    }
    await_idle(&*site, total.processors).await;
    assert_eq!(
        run_to_end(
            &*site,
            &submit_request(attempt_tag(3), script_program("exit 0"))
        )
        .await,
        ExitCause::Code(0)
    );
}

/// It would wait for ever.
pub async fn what_exceeds_the_whole_site_is_refused(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let mut order = submit_request(attempt_tag(1), script_program("exit 0"));
    order.resources = Resources::processors(1_000_000);
    let answer = site.queue().submit(&order).await;
    assert!(matches!(answer, Err(SiteError::Refused(_))), "{answer:?}");
}

/// Whoever lost an answer looks up the submission.
pub async fn a_submission_is_found_by_its_tag(fixture: &impl SiteFixture) {
    let site = fixture.site();
    assert_eq!(
        site.queue()
            .find_by_tag(attempt_tag(1))
            .await
            .unwrap()
            .found,
        vec![]
    );
    let submitted = site
        .queue()
        .submit(&submit_request(attempt_tag(1), script_program("exit 0")))
        .await
        .unwrap();
    for site in [fixture.site(), fixture.reopened()] {
        let found = site
            .queue()
            .find_by_tag(attempt_tag(1))
            .await
            .unwrap()
            .found;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].lrm_id, submitted.lrm_id);
    }
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    await_ended(&*site, attempt_tag(1)).await;
}

/// A site with a queue withdraws only what is in it and matches both number and tag; never what has
/// begun: the request may come late.
pub async fn only_what_waits_in_the_queue_is_withdrawn(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let mut all = submit_request(attempt_tag(1), script_program("exit 3"));
    all.resources = site.monitor().describe().await.unwrap().total;
    let first = site.queue().submit(&all).await.unwrap();
    await_observation(&*site, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
    match site
        .queue()
        .submit(&submit_request(attempt_tag(2), script_program("exit 0")))
        .await
    {
        Err(SiteError::SiteFull(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(queued) => {
            site.queue()
                .withdraw(attempt_tag(3), &queued.lrm_id)
                .await
                .unwrap();
            assert_eq!(
                site.queue()
                    .find_by_tag(attempt_tag(2))
                    .await
                    .unwrap()
                    .found
                    .len(),
                1,
                "of another tag"
            );
            site.queue()
                .withdraw(attempt_tag(2), &queued.lrm_id)
                .await
                .unwrap();
            await_withdrawn(&*site, attempt_tag(2)).await;
        }
    }
    site.queue()
        .withdraw(attempt_tag(1), &first.lrm_id)
        .await
        .unwrap();
    assert_eq!(
        site.gate()
            .decide_gate(attempt_tag(1), &go_decision())
            .await,
        Ok(GateState::Opened)
    );
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(3));
}

async fn await_withdrawn(site: &dyn Site, tag: AttemptTag) {
    let started = Instant::now();
    while !site
        .queue()
        .find_by_tag(tag)
        .await
        .unwrap()
        .found
        .is_empty()
    {
        assert!(started.elapsed() < PATIENCE, "{tag} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The gate outlives the control plane.
pub async fn another_adapter_takes_up_what_waits_at_the_gate(fixture: &impl SiteFixture) {
    let site = fixture.site();
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(1), script_program("echo ran")),
    )
    .await;
    let total = site.monitor().describe().await.unwrap().total.processors;
    drop(site);
    let second = fixture.reopened();
    await_observation(&*second, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
    assert_eq!(
        second.queue().status(&[]).await.unwrap().idle.processors,
        total - 1
    );
    assert_eq!(
        second
            .gate()
            .decide_gate(attempt_tag(1), &go_decision())
            .await,
        Ok(GateState::Opened)
    );
    assert_eq!(
        await_exit(&*second, attempt_tag(1)).await,
        ExitCause::Code(0)
    );
    assert_eq!(read_stdout(&*second, attempt_tag(1)).await, "ran\n");
    await_idle(&*second, total).await;
}

/// The payload as well.
pub async fn another_adapter_takes_up_what_runs(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let waits = script_program("echo begun; while ! [ -e stop ]; do sleep 0.05; done; exit 5");
    start_attempt(&*site, &submit_request(attempt_tag(1), waits)).await;
    await_printed(&*site, attempt_tag(1), "begun").await;
    drop(site);
    let second = fixture.reopened();
    let seen = await_observation(&*second, attempt_tag(1), |_| true).await;
    assert!(matches!(seen, AttemptObservation::Begun(_)), "{seen:?}");
    let total = second.monitor().describe().await.unwrap().total.processors;
    assert_eq!(
        second.queue().status(&[]).await.unwrap().idle.processors,
        total - 1
    );
    second.queue().cancel(attempt_tag(1), None).await.unwrap();
    assert_eq!(
        await_exit(&*second, attempt_tag(1)).await,
        ExitCause::Terminated
    );
    await_idle(&*second, total).await;
    let third = fixture.reopened();
    assert_eq!(
        await_exit(&*third, attempt_tag(1)).await,
        ExitCause::Terminated,
        "an end is read back"
    );
}

/// The request to end may come from the next run of the control plane, at any stage.
pub async fn another_adapter_ends_what_runs(fixture: &impl SiteFixture) {
    let site = fixture.site();
    site.queue()
        .submit(&submit_request(attempt_tag(1), script_program("echo ran")))
        .await
        .unwrap();
    drop(site);
    let second = fixture.reopened();
    second.queue().cancel(attempt_tag(1), None).await.unwrap();
    await_observation(&*second, attempt_tag(1), |seen| {
        *seen == AttemptObservation::Void
    })
    .await;
    await_ended(&*second, attempt_tag(1)).await;
}

/// A host that does not answer is neither near nor far.
pub async fn the_way_to_a_host_is_measured_or_unknown(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let (near, round_trip) = fixture.near();
    assert_eq!(site.monitor().round_trip(&near).await, Ok(round_trip));
    let answer = site.monitor().round_trip(&fixture.mute()).await;
    assert!(
        matches!(answer, Err(SiteError::OutcomeUnknown(_))),
        "{answer:?}"
    );
    assert_eq!(site.monitor().round_trip(&near).await, Ok(round_trip));
}

/// The answer is never `Absent`, never idle, never gone.
pub async fn an_unreachable_site_is_no_information(fixture: &impl SiteFixture) {
    let site = fixture.site();
    let waits = script_program("echo begun; while ! [ -e stop ]; do sleep 0.05; done");
    start_attempt(&*site, &submit_request(attempt_tag(1), waits)).await;
    await_printed(&*site, attempt_tag(1), "begun").await;
    fixture.take_away();
    let reopened = fixture.reopened();
    for site in [&site, &reopened] {
        let status = site.queue().status(&[attempt_tag(1), attempt_tag(2)]).await;
        let untold = matches!(
            status,
            Err(SiteError::NotSent(_) | SiteError::OutcomeUnknown(_))
        );
        assert!(untold, "{status:?}");
        assert!(
            site.queue()
                .submit(&submit_request(attempt_tag(3), script_program("exit 0")))
                .await
                .is_err()
        );
        assert!(site.queue().find_by_tag(attempt_tag(1)).await.is_err());
        assert!(site.queue().list_attempts().await.is_err());
        assert!(site.monitor().round_trip(&fixture.near().0).await.is_err());
        assert!(
            site.gate()
                .decide_gate(attempt_tag(1), &GateDecision::Void)
                .await
                .is_err()
        );
    }
    fixture.bring_back();
    let seen = await_observation(&*site, attempt_tag(1), |_| true).await;
    assert!(matches!(seen, AttemptObservation::Begun(_)), "{seen:?}");
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    assert_eq!(
        await_exit(&*site, attempt_tag(1)).await,
        ExitCause::Terminated
    );
}
