//! Reservations that Slurm makes for us, and those that its administrators made.

use cospan_domain::acquisition::PartitionAccount;
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

use super::fixture::SlurmSiteFixture;

const MINUTE: DurationMs = DurationMs::from_secs(60);
const HOUR: DurationMs = DurationMs::from_secs(3_600);

fn reservation(job: u64) -> ReservationTag {
    let attempt = attempt_tag(job);
    ReservationTag {
        instance: attempt.instance,
        job: attempt.job,
        serial: ReservationSerial(1),
    }
}

fn granting(site: &dyn Site) -> &dyn SiteReservations {
    site.reservations().unwrap()
}

/// In whole seconds, as Slurm counts.
async fn clock(site: &dyn Site) -> Timestamp {
    let now = site.queue().status(&[]).await.unwrap().site_clock.unwrap();
    Timestamp(now.0.div_ceil(1_000) * 1_000)
}

fn wanted(
    job: u64,
    processors: u32,
    window: StartWindow,
    length: DurationMs,
) -> TaggedReservationRequest {
    let resources = Resources::processors(processors);
    let request = ReservationRequest {
        resources,
        length,
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

/// Gives it up as soon as no job uses it.
async fn released(granting: &dyn SiteReservations, tag: ReservationTag) -> bool {
    loop {
        match granting.release(tag).await {
            Err(SiteError::OutcomeUnknown(why)) if why.contains("have not ended") => {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

/// The cluster's own word of a job's state.
fn state(fixture: &SlurmSiteFixture, number: &str) -> String {
    fixture
        .slurm(&["squeue", "-h", "-t", "all", "-j", number, "-o", "%T"])
        .trim()
        .to_owned()
}

/// A job of somebody who knows nothing of all this.
fn foreign(fixture: &SlurmSiteFixture, processors: u32, minutes: u32) -> String {
    let count = format!("-n{processors}");
    let time = format!("-t{minutes}");
    let words = [
        "sbatch",
        "--parsable",
        &count,
        &time,
        "-o/dev/null",
        "--wrap=sleep 600",
    ];
    fixture.slurm(&words).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slurm_promises_what_is_free_then_and_says_when_else() {
    let Some(fixture) = SlurmSiteFixture::offered_granting() else {
        return;
    };
    let site = fixture.site();
    let granting = granting(&*site);
    assert!(
        site.monitor()
            .describe()
            .await
            .unwrap()
            .capabilities
            .reservations
    );
    let later = clock(&*site).await + HOUR;
    let exactly = StartWindow::single_start(later);
    let first = wanted(1, 40, exactly, HOUR);
    assert_eq!(
        granting.request(&first).await,
        Ok(ReservationAnswer::Granted { start: later })
    );
    let again = fixture.reopened();
    let again = again.reservations().unwrap();
    assert_eq!(
        again.request(&first).await,
        Ok(ReservationAnswer::Granted { start: later }),
        "made once"
    );
    let second = granting
        .request(&wanted(2, 30, exactly, HOUR))
        .await
        .unwrap();
    let ReservationAnswer::NotBefore { next } = second else {
        panic!("{second:?}")
    };
    assert!(
        next >= later + HOUR && next <= later + HOUR + HOUR,
        "{next:?}"
    );
    let window = StartWindow::new(later, next);
    let second = granting.request(&wanted(2, 30, window, HOUR)).await;
    assert_eq!(
        second,
        Ok(ReservationAnswer::Granted { start: next }),
        "that was true"
    );
    let third = granting.request(&wanted(3, 24, exactly, HOUR)).await;
    assert_eq!(
        third,
        Ok(ReservationAnswer::Granted { start: later }),
        "beside the first"
    );
    assert_eq!(
        granting.request(&wanted(4, 65, window, HOUR)).await,
        Ok(ReservationAnswer::Never)
    );

    let seen = again.find(reservation(1)).await.unwrap().unwrap();
    assert_eq!(
        (seen.span, seen.confirmed),
        (TimeSpan::new(later, later + HOUR), false)
    );
    assert_eq!(seen.resources, Resources::processors(40));
    assert_eq!(granting.confirm(reservation(1)).await, Ok(true));
    assert!(again.find(reservation(1)).await.unwrap().unwrap().confirmed);
    assert_eq!(granting.list().await.unwrap().len(), 3);

    // Slurm would move a reservation of cores over another one.
    let over_another = wanted(2, 30, exactly, HOUR);
    assert_eq!(
        granting.modify(&over_another).await,
        Ok(Some(ReservationAnswer::Never))
    );
    let kept = again.find(reservation(2)).await.unwrap().unwrap();
    assert_eq!(kept.span.from, next, "as it was");

    for job in 1..=3 {
        assert_eq!(granting.release(reservation(job)).await, Ok(true));
    }
    assert_eq!(granting.release(reservation(1)).await, Ok(false));
    assert_eq!(granting.confirm(reservation(1)).await, Ok(false));
    assert_eq!(granting.renew(reservation(1), HOUR).await, Ok(false));
    assert_eq!(granting.modify(&over_another).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_gets_in_when_it_begins_and_no_other_job_does() {
    let Some(fixture) = SlurmSiteFixture::offered_granting() else {
        return;
    };
    let site = fixture.site();
    let granting = granting(&*site);
    let soon = clock(&*site).await + DurationMs::from_secs(6);
    let all = wanted(1, 64, StartWindow::single_start(soon), MINUTE + MINUTE);
    assert_eq!(
        granting.request(&all).await,
        Ok(ReservationAnswer::Granted { start: soon })
    );
    assert_eq!(granting.confirm(reservation(1)).await, Ok(true));
    let other = foreign(&fixture, 1, 10);
    let fresh = fixture.reopened();
    let before = fresh.queue().status(&[]).await.unwrap();
    assert_eq!(before.idle.processors, 64, "not yet");
    assert_eq!(
        before.ebbs.first().map(|ebb| ebb.left.processors),
        Some(0),
        "{before:?}"
    );
    // Waits in Slurm's queue until it begins.
    let owner = AttemptSubmitRequest {
        resources: Resources::processors(64),
        wall_time: MINUTE,
        hold_max: MINUTE,
        reservation: Some(reservation(1)),
        ..submit_request(attempt_tag(1), script_program("exit 0"))
    };
    bring_to_gate(&*site, &owner).await;
    assert!(clock(&*site).await >= soon);
    assert_eq!(state(&fixture, &other), "PENDING", "nobody else's");
    assert_eq!(
        fixture
            .reopened()
            .queue()
            .status(&[])
            .await
            .unwrap()
            .idle
            .processors,
        0
    );
    let refused = granting.release(reservation(1)).await;
    assert!(
        matches!(refused, Err(SiteError::OutcomeUnknown(_))),
        "in use: {refused:?}"
    );
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    assert!(released(granting, reservation(1)).await);
    while state(&fixture, &other) != "RUNNING" {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    fixture.slurm(&["scancel", &other]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_under_slurm_is_not_promised_before_its_end() {
    let Some(fixture) = SlurmSiteFixture::offered_granting() else {
        return;
    };
    let site = fixture.site();
    let granting = granting(&*site);
    let other = foreign(&fixture, 40, 10);
    while state(&fixture, &other) != "RUNNING" {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let now = clock(&*site).await;
    let soon = StartWindow::new(now, now + MINUTE);
    let answer = granting.request(&wanted(1, 30, soon, HOUR)).await.unwrap();
    let ReservationAnswer::NotBefore { next } = answer else {
        panic!("{answer:?}")
    };
    assert!(
        next >= now + DurationMs::from_secs(590),
        "its time limit: {next:?}"
    );
    let slots = granting
        .slots(TimeSpan::new(now, now + HOUR), 10)
        .await
        .unwrap();
    assert!(
        slots
            .iter()
            .any(|slot| slot.free.processors == 24 && slot.span.from <= now + MINUTE)
    );
    assert!(
        slots
            .iter()
            .any(|slot| slot.free.processors == 64 && slot.span.from == next)
    );
    fixture.slurm(&["scancel", &other]);
    await_idle(&*site, 64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_an_administrator_made_is_used_by_its_name() {
    let Some(fixture) = SlurmSiteFixture::offered_granting() else {
        return;
    };
    let user = fixture.user();
    let words = [
        "scontrol",
        "create",
        "reservation",
        "reservationname=course",
        "starttime=now",
    ];
    let words = [&words[..], &["duration=00:30:00", "corecnt=8", &user]].concat();
    assert_eq!(fixture.slurm(&words).trim(), "Reservation created: course");
    let site = fixture.site();
    let lane = PartitionAccount::reservation_partition_name("course");
    let lanes = site.monitor().describe().await.unwrap().lanes.unwrap();
    let known = &lanes.partitions[&lane];
    assert_eq!(known.total.processors, 8);
    assert_eq!(known.longest, Some(DurationMs::from_secs(1_800)));
    let outside = site.queue().status(&[]).await.unwrap();
    assert_eq!(
        (outside.idle.processors, outside.idle_in[&lane].processors),
        (56, 8)
    );
    // All else is taken: only what is idle inside counts.
    let other = foreign(&fixture, 56, 10);
    while state(&fixture, &other) != "RUNNING" {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let long = AttemptSubmitRequest {
        wall_time: HOUR,
        lrm_options: vec!["--reservation=course".into()],
        ..submit_request(attempt_tag(2), script_program("exit 0"))
    };
    let long = site.queue().submit(&long).await;
    assert!(
        matches!(&long, Err(SiteError::Unfit(why)) if why.contains("are left")),
        "{long:?}"
    );
    let inside = AttemptSubmitRequest {
        resources: Resources::processors(6),
        lrm_options: vec!["--reservation=course".into()],
        ..submit_request(attempt_tag(1), script_program("exit 0"))
    };
    bring_to_gate(&*site, &inside).await;
    let status = fixture.reopened();
    status.monitor().describe().await.unwrap();
    let status = status.queue().status(&[]).await.unwrap();
    assert_eq!(
        (status.idle.processors, status.idle_in[&lane].processors),
        (0, 2)
    );
    fixture.slurm(&["scancel", &other]);
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
    while !fixture
        .slurm(&["squeue", "-h", "-t", "all", "-R", "course", "-t", "R,PD,CG"])
        .is_empty()
    {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    fixture.slurm(&["scontrol", "delete", "reservationname=course"]);
}
