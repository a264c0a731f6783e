//! Programs that say how far a host is, and what they leave behind.

use cospan_domain::ids::HostName;
use cospan_domain::units::DurationUs;
use cospan_sites::port::{Site, SiteError};

use crate::support::LocalSiteFixture;

fn host(name: &str) -> HostName {
    HostName::new(name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_leaves_running_holds_up_no_measurement() {
    let fixture = LocalSiteFixture::new();
    assert_eq!(
        fixture.site.monitor().round_trip(&host("busy")).await,
        Ok(DurationUs(11_500))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_missing_or_says_something_else_measures_nothing() {
    let fixture = LocalSiteFixture::new();
    let Err(SiteError::OutcomeUnknown(why)) = fixture.site.monitor().round_trip(&host("odd")).await
    else {
        panic!("a measurement");
    };
    assert!(why.contains("odd") && why.contains("pong"), "{why}");
    let fixture = LocalSiteFixture::with(|config| config.ping = vec!["/nowhere/ping".into()]);
    let Err(SiteError::OutcomeUnknown(why)) =
        fixture.site.monitor().round_trip(&host("near")).await
    else {
        panic!("a measurement");
    };
    assert!(why.contains("/nowhere/ping near"), "{why}");
}
