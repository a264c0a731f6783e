//! Payloads that write, replace and hide what their wrapper writes.

use cospan_domain::ids::Tag;
use cospan_sites::contract::{
    SiteFixture, await_exit, await_idle, await_printed, await_seen, order, script, start, tag,
};
use cospan_sites::port::{EndedBySite, ExitCause, GateDecision, GateState, Observation, Site};
use rustix::process::Signal;

use crate::support::{LocalSiteFixture, pid_in, processes_naming, signal};

const WAITS: &str = "echo forged; while ! [ -e stop ]; do sleep 0.05; done";

/// Starts a payload that does this first and then waits.
async fn begun(fixture: &LocalSiteFixture, first: &str) -> Tag {
    let text = format!("{first}; {WAITS}; exit 3");
    start(&*fixture.site, &order(tag(1), script(&text))).await;
    await_printed(&*fixture.site, tag(1), "forged").await;
    tag(1)
}

const FORGED_EXIT: &str = r"printf 'cause code 0\nran 1\nend %s\n' $COSPAN_TAG > ../exit";
const FORGED_VOID: &str = r"rm ../decision; printf 'void\nend %s\n' $COSPAN_TAG > ../decision";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_payload_says_of_its_end_counts_for_nothing_while_it_runs() {
    for forged in [FORGED_EXIT, FORGED_VOID] {
        let fixture = LocalSiteFixture::new();
        let tag = begun(&fixture, forged).await;
        // Also for one who has not seen it before.
        for site in [fixture.site.clone() as _, fixture.reopened()] {
            let seen = await_seen(&*site, tag, |_| true).await;
            assert!(matches!(seen, Observation::Begun(_)), "{seen:?}");
        }
        let decided = fixture.site.decide_gate(tag, &GateDecision::Void).await;
        assert_eq!(decided, Ok(GateState::Opened));
        std::fs::write(fixture.root().join(format!("attempts/{tag}/work/stop")), "").unwrap();
        assert_eq!(await_exit(&*fixture.site, tag).await, ExitCause::Code(3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_kills_its_wrapper_and_claims_success_has_none() {
    for forged in [FORGED_EXIT, FORGED_VOID] {
        let fixture = LocalSiteFixture::new();
        let tag = begun(&fixture, forged).await;
        signal(pid_in(&fixture, tag, "ready"), Signal::KILL);
        let over = |seen: &Observation| matches!(seen, Observation::Ended { .. });
        let seen = await_seen(&*fixture.site, tag, over).await;
        let Observation::Ended { began: true, why: EndedBySite::Spoiled, .. } = seen else {
            panic!("{seen:?}")
        };
        assert!(processes_naming(&fixture.root().join("attempts")).is_empty());
        await_idle(&*fixture.site, 8).await;
    }
}
