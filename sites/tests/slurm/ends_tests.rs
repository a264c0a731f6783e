//! What it means that Slurm, or somebody there, ended an attempt.

use std::sync::Arc;

use cospan_sites::contract::{
    SiteFixture, attempt_tag, await_observation, bring_to_gate, go_decision, script_program,
    submit_request,
};
use cospan_sites::port::{AttemptObservation, Site, SiteEndReason};

use super::fixture::SlurmSiteFixture;

/// Payloads that end in different ways when they are told to, and one that does not hear it.
const KINDS: [&str; 4] = [
    "trap : TERM; sleep 100; exit 0",
    "sleep 100; echo done",
    "trap 'exit 0' TERM; while :; do sleep 0.01; done",
    "trap '' TERM; sleep 100",
];

/// Of each kind so many.
const EACH: u64 = 6;

async fn run_all(site: &Arc<dyn Site>) -> Vec<cospan_domain::ids::AttemptTag> {
    let mut tags = Vec::new();
    for number in 0..EACH * KINDS.len() as u64 {
        let text = KINDS[number as usize % KINDS.len()];
        tags.push(attempt_tag(number));
        bring_to_gate(
            &**site,
            &submit_request(attempt_tag(number), script_program(text)),
        )
        .await;
        site.gate()
            .decide_gate(attempt_tag(number), &go_decision())
            .await
            .unwrap();
    }
    for tag in &tags {
        await_observation(&**site, *tag, |seen| {
            matches!(seen, AttemptObservation::Begun(_))
        })
        .await;
    }
    tags
}

/// No success, and nobody's error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_cancelled_is_never_success_and_nobodys_error() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let tags = run_all(&site).await;
    for tag in &tags {
        fixture.slurm(&["scancel", &format!("--name={tag}")]);
    }
    for tag in tags {
        let seen = await_observation(&*site, tag, |seen: &AttemptObservation| {
            !matches!(
                seen,
                AttemptObservation::Begun(_) | AttemptObservation::Unknown(_)
            )
        })
        .await;
        let AttemptObservation::Ended {
            began: true, why, ..
        } = seen
        else {
            panic!("{tag}: {seen:?}")
        };
        assert_eq!(why, SiteEndReason::Cancelled, "{tag}");
    }
}

/// It never ran, and its site is well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_took_out_of_the_queue_is_nobodys_error() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let mut all = submit_request(attempt_tag(1), script_program("exit 0"));
    all.resources = site.monitor().describe().await.unwrap().total;
    bring_to_gate(&*site, &all).await;
    site.queue()
        .submit(&submit_request(attempt_tag(2), script_program("exit 0")))
        .await
        .unwrap();
    await_observation(&*site, attempt_tag(2), |seen| {
        matches!(seen, AttemptObservation::Queued(_))
    })
    .await;
    fixture.slurm(&["scancel", &format!("--name={}", attempt_tag(2))]);
    let seen = await_observation(&*site, attempt_tag(2), |seen: &AttemptObservation| {
        matches!(seen, AttemptObservation::Ended { .. })
    })
    .await;
    let AttemptObservation::Ended {
        began: false, why, ..
    } = seen
    else {
        panic!("{seen:?}")
    };
    assert_eq!(why, SiteEndReason::Cancelled);
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
}
