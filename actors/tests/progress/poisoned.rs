//! A job at which every policy panics. Needs a build with planted faults; see the chapter on
//! testing in the book.

use std::sync::Arc;
use std::time::Duration;

use cospan_actors::api::ControlPlane;
use cospan_actors::api::command::{ApiCommand, ApiRequest};
use cospan_actors::clock::RuntimeClock;
use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::poisoned_job::poison_job;
use cospan_domain::units::Timestamp;

use super::{alone, job, plane, prompt_site, submit, under_paused_time, unfinished};

/// No job of another test has this number.
const ILL: JobId = JobId(97);

async fn until(what: &str, so: impl Fn() -> bool) {
    let begun = tokio::time::Instant::now();
    while !so() {
        assert!(begun.elapsed() < super::PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn is_held_and_released() {
    let clock = RuntimeClock::starting_at(Timestamp(100_000_000));
    let site = Arc::new(prompt_site("delft", clock, 1_000, 1));
    let plane: ControlPlane = plane(vec![site], Arc::new(clock), 1);
    until("it is ready", || plane.is_ready()).await;
    for _ in 0..=ILL.0 {
        submit(&plane, job(1, 1)).await;
    }
    let left = || {
        unfinished(&plane)
            .iter()
            .map(|job| job.id)
            .collect::<Vec<_>>()
    };
    until("all others have finished", || left() == [ILL]).await;
    assert!(plane.view().jobs[&ILL].held.is_some(), "it is not held");
    let deaths = plane
        .shared()
        .metrics
        .actor_restarts
        .with_label_values(&["co-allocator"]);
    assert_eq!(deaths.get(), 2);

    poison_job(None);
    let by = KeyName::new("alice").expect("a key's name");
    let release = ApiCommand {
        by,
        what: ApiRequest::Release(vec![ILL]),
    };
    plane.execute_command(release).await.expect("released");
    until("it has finished once it is released", || left().is_empty()).await;
}

#[test]
fn a_job_that_ends_the_co_allocator_twice_is_held_and_others_go_on() {
    let _alone = alone();
    poison_job(Some(ILL));
    under_paused_time(is_held_and_released());
}
