//! Reservations that a local site grants, keeps and enforces.

use cospan_domain::ids::JobId;
use cospan_domain::reservation::{
    ReservationAnswer, ReservationRequest, ReservationSerial, ReservationTag, StartWindow, TimeSpan,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::contract::{
    SiteFixture, attempt_tag, await_idle, bring_to_gate, script_program, submit_request,
};
use cospan_sites::port::{
    AttemptSubmitRequest, Site, SiteError, SiteReservations, TaggedReservationRequest,
};

use crate::support::LocalSiteFixture;

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const FOREVER: Timestamp = Timestamp(u64::MAX);

fn reservation(job: u64) -> ReservationTag {
    let attempt = attempt_tag(job);
    ReservationTag {
        instance: attempt.instance,
        job: attempt.job,
        serial: ReservationSerial(1),
    }
}

async fn clock(site: &dyn Site) -> Timestamp {
    site.queue().status(&[]).await.unwrap().site_clock.unwrap()
}

/// So many processors for an hour, at any start within this window.
fn wanted(job: u64, processors: u32, window: StartWindow) -> TaggedReservationRequest {
    let request = ReservationRequest {
        resources: Resources::processors(processors),
        length: HOUR,
        window,
        flexible: false,
    };
    TaggedReservationRequest {
        tag: reservation(job),
        number: 1,
        request,
        keep_for: HOUR,
    }
}

/// Reserves from now on, for good.
async fn reserved_now(fixture: &LocalSiteFixture, job: u64, processors: u32) {
    let now = clock(&*fixture.site).await;
    let order = wanted(job, processors, StartWindow::new(now, FOREVER));
    let granted = fixture.site.request(&order).await;
    assert!(
        matches!(granted, Ok(ReservationAnswer::Granted { .. })),
        "{granted:?}"
    );
    assert_eq!(fixture.site.confirm(reservation(job)).await, Ok(true));
}

/// An attempt of so many processors that runs and waits for so long at most.
fn attempt(job: u64, processors: u32, length: DurationMs) -> AttemptSubmitRequest {
    AttemptSubmitRequest {
        resources: Resources::processors(processors),
        wall_time: length,
        hold_max: length,
        ..submit_request(attempt_tag(job), script_program("exit 0"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_is_kept_for_its_owner_and_for_nobody_else() {
    let fixture = LocalSiteFixture::new();
    let minute = DurationMs::from_secs(60);
    reserved_now(&fixture, 1, 6).await;
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        2
    );
    let other = fixture.site.queue().submit(&attempt(2, 3, minute)).await;
    assert!(matches!(other, Err(SiteError::SiteFull(_))), "{other:?}");
    let stolen = AttemptSubmitRequest {
        reservation: Some(reservation(1)),
        ..attempt(2, 3, minute)
    };
    let stolen = fixture.site.queue().submit(&stolen).await;
    assert!(matches!(stolen, Err(SiteError::Refused(_))), "{stolen:?}");

    let owner = AttemptSubmitRequest {
        reservation: Some(reservation(1)),
        ..attempt(1, 6, minute)
    };
    bring_to_gate(&*fixture.site, &owner).await;
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        2,
        "counted once"
    );
    fixture
        .site
        .queue()
        .cancel(attempt_tag(1), None)
        .await
        .unwrap();
    assert_eq!(fixture.site.release(reservation(1)).await, Ok(true));
    await_idle(&*fixture.site, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_would_run_into_a_reservation_is_refused() {
    let fixture = LocalSiteFixture::new();
    let soon = clock(&*fixture.site).await + DurationMs::from_secs(600);
    let answer = fixture
        .site
        .request(&wanted(1, 6, StartWindow::single_start(soon)))
        .await;
    assert_eq!(answer, Ok(ReservationAnswer::Granted { start: soon }));
    assert_eq!(
        fixture
            .site
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        8,
        "not now"
    );
    let long = fixture
        .site
        .queue()
        .submit(&attempt(2, 3, DurationMs::from_secs(600)))
        .await;
    assert!(
        matches!(&long, Err(SiteError::SiteFull(why)) if why.contains("reserved")),
        "{long:?}"
    );
    bring_to_gate(&*fixture.site, &attempt(3, 2, DurationMs::from_secs(600))).await;
    bring_to_gate(&*fixture.site, &attempt(4, 3, DurationMs::from_secs(60))).await;
    let early = AttemptSubmitRequest {
        reservation: Some(reservation(1)),
        ..attempt(1, 1, HOUR)
    };
    let early = fixture.site.queue().submit(&early).await;
    assert!(
        matches!(early, Err(SiteError::SiteFull(_))),
        "its time has not come: {early:?}"
    );
    for job in [3, 4] {
        fixture
            .site
            .queue()
            .cancel(attempt_tag(job), None)
            .await
            .unwrap();
    }
    await_idle(&*fixture.site, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_is_not_promised_before_it_must_have_ended() {
    let fixture = LocalSiteFixture::new();
    bring_to_gate(&*fixture.site, &attempt(1, 5, DurationMs::from_secs(600))).await;
    let now = clock(&*fixture.site).await;
    let soon = StartWindow::new(now, now + DurationMs::from_secs(60));
    let answer = fixture.site.request(&wanted(2, 4, soon)).await.unwrap();
    let ReservationAnswer::NotBefore { next } = answer else {
        panic!("{answer:?}")
    };
    assert!(
        next > now + DurationMs::from_secs(1_000),
        "its hold and its wall time"
    );
    let answer = fixture.site.request(&wanted(2, 3, soon)).await;
    assert!(
        matches!(answer, Ok(ReservationAnswer::Granted { .. })),
        "{answer:?}"
    );
    fixture
        .site
        .queue()
        .cancel(attempt_tag(1), None)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_outlive_whoever_serves_the_site_and_are_made_once() {
    let fixture = LocalSiteFixture::new();
    let later = clock(&*fixture.site).await + HOUR;
    let order = wanted(1, 8, StartWindow::single_start(later));
    let granted = Ok(ReservationAnswer::Granted { start: later });
    assert_eq!(fixture.site.request(&order).await, granted);
    let site = fixture.reopened();
    let again = site.reservations().unwrap();
    assert_eq!(
        again.request(&order).await,
        granted,
        "a request that arrived twice"
    );
    let seen = again.find(reservation(1)).await.unwrap().unwrap();
    assert_eq!(
        (seen.span, seen.confirmed),
        (TimeSpan::new(later, later + HOUR), false)
    );
    assert_eq!(again.list().await.unwrap().len(), 1);
    let moved = wanted(1, 4, StartWindow::single_start(later + HOUR));
    let moved = TaggedReservationRequest { number: 2, ..moved };
    let granted = Ok(Some(ReservationAnswer::Granted {
        start: later + HOUR,
    }));
    assert_eq!(again.modify(&moved).await, granted);
    assert_eq!(
        fixture
            .reopened()
            .reservations()
            .unwrap()
            .modify(&order)
            .await,
        granted,
        "late"
    );
    let slots = again
        .slots(TimeSpan::new(Timestamp(0), later + HOUR + HOUR + HOUR), 10)
        .await;
    let slots = slots.unwrap();
    let free = |from: Timestamp| {
        let covers = slots
            .iter()
            .filter(|slot| slot.span.from <= from && from < slot.span.to);
        covers.map(|slot| slot.free.processors).max()
    };
    assert_eq!(
        (free(later), free(later + HOUR)),
        (Some(8), Some(4)),
        "{slots:?}"
    );
    assert_eq!(again.release(reservation(1)).await, Ok(true));
    assert_eq!(fixture.site.release(reservation(1)).await, Ok(false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_nobody_confirms_ends_by_itself() {
    let fixture = LocalSiteFixture::new();
    let later = StartWindow::single_start(clock(&*fixture.site).await + HOUR);
    let shortly = DurationMs(20);
    let order = TaggedReservationRequest {
        keep_for: shortly,
        ..wanted(1, 8, later)
    };
    fixture.site.request(&order).await.unwrap();
    while fixture.site.find(reservation(1)).await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(fixture.site.confirm(reservation(1)).await, Ok(false));
    assert_eq!(fixture.site.renew(reservation(1), HOUR).await, Ok(false));
    let other = ReservationTag {
        job: JobId(2),
        ..reservation(2)
    };
    let answer = fixture
        .site
        .request(&TaggedReservationRequest {
            tag: other,
            ..order
        })
        .await;
    assert!(
        matches!(answer, Ok(ReservationAnswer::Granted { .. })),
        "what it held is free: {answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_for_later_is_told_with_the_load() {
    let fixture = LocalSiteFixture::new();
    let before = fixture.site.queue().status(&[]).await.unwrap();
    assert!(before.ebbs.is_empty(), "{before:?}");
    let from = before.site_clock.unwrap() + HOUR;
    let granted = fixture
        .site
        .request(&wanted(1, 3, StartWindow::new(from, from)))
        .await;
    assert_eq!(granted, Ok(ReservationAnswer::Granted { start: from }));
    let told = fixture.site.queue().status(&[]).await.unwrap();
    assert_eq!(told.idle, before.idle, "it is there until then");
    let [ebb] = &told.ebbs[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        (ebb.at, ebb.left.processors),
        (from, before.idle.processors - 3)
    );
    assert!(
        ebb.after <= HOUR && ebb.after > DurationMs(HOUR.0 - 60_000),
        "{ebb:?}"
    );

    // It is enforced for as long as it is told.
    let lasting = |job, length| attempt(job, before.idle.processors, length);
    let across = fixture.site.queue().submit(&lasting(2, HOUR)).await;
    assert!(matches!(across, Err(SiteError::SiteFull(_))), "{across:?}");
    fixture
        .site
        .queue()
        .submit(&lasting(3, DurationMs::from_secs(60)))
        .await
        .unwrap();
}
