//! Local users take what a site said is idle, between its answer and the claim: the normal case.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cospan_actors::clock::RuntimeClock;
use cospan_domain::units::Timestamp;

use super::progress_site::{PromptSite, Refusals};
use super::{job, plane, prompt_site, submit, under_paused_time, unplanted};

/// Enough for several refusals.
const WATCHED: Duration = Duration::from_secs(600);

/// All claims are refused; how many between two reports at most, and how many in all.
async fn refused() -> (u32, u32) {
    let clock = RuntimeClock::starting_at(Timestamp(100_000_000));
    let snatched = Some(Mutex::new(Refusals::default()));
    let site = Arc::new(PromptSite {
        snatched,
        ..prompt_site("delft", clock, 4, 1)
    });
    let plane = plane(vec![site.clone()], Arc::new(clock), 1);
    while !plane.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..20 {
        submit(&plane, job(1, 4)).await;
    }
    tokio::time::sleep(WATCHED).await;
    let refusals = site
        .snatched
        .as_ref()
        .expect("refusals")
        .lock()
        .expect("refusals");
    (refusals.most, refusals.all)
}

#[test]
fn after_a_refused_claim_nobody_is_sent_there_until_the_site_is_asked() {
    let _unplanted = unplanted();
    let (most, all) = under_paused_time(refused());
    assert!(all > 5, "only {all} claims were made");
    assert_eq!(
        most, 1,
        "others were placed on what the site was known not to have"
    );
}
