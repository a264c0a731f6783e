//! A faulty site does what it is told to do wrong, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test program")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cospan_domain::ids::{AttemptTag, HostName, RelPath};
use cospan_domain::units::DurationUs;
use cospan_sites::contract::{
    SiteFixture, attempt_tag, await_observation, bring_to_gate, go_decision, run_to_end,
    script_program, submit_request,
};
use cospan_sites::faulty_site::{
    CallFaultTally, FaultInjection, FaultSwitch, FaultySite, InjectedFault,
};
use cospan_sites::port::{
    AttemptObservation, ExitCause, GateDecision, GateState, Site, SiteCallKind, SiteError,
};
use support::LocalSiteFixture;

/// A fixture whose adapters are wrapped, with nothing armed.
struct Wrapped(LocalSiteFixture);

impl SiteFixture for Wrapped {
    fn site(&self) -> Arc<dyn Site> {
        Arc::new(FaultySite::new(self.0.site(), FaultSwitch::new()))
    }

    fn reopened(&self) -> Arc<dyn Site> {
        Arc::new(FaultySite::new(self.0.reopened(), FaultSwitch::new()))
    }

    fn take_away(&self) {
        self.0.take_away();
    }

    fn bring_back(&self) {
        self.0.bring_back();
    }

    fn lose(&self, tag: AttemptTag) {
        self.0.lose(tag);
    }

    fn put_user_file(&self, path: &RelPath, bytes: &[u8]) {
        self.0.put_user_file(path, bytes);
    }

    fn near(&self) -> (HostName, DurationUs) {
        self.0.near()
    }

    fn mute(&self) -> HostName {
        self.0.mute()
    }
}

mod unarmed {
    use super::*;

    cospan_sites::site_contract!(|| Wrapped(LocalSiteFixture::new()));
}

fn faulty(fixture: &LocalSiteFixture) -> FaultySite {
    FaultySite::new(fixture.site(), FaultSwitch::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_hides_an_effect_and_a_lost_request_has_none() {
    let fixture = LocalSiteFixture::new();
    let site = faulty(&fixture);
    for (job, fault, effect) in [
        (1, InjectedFault::LostAfter, true),
        (2, InjectedFault::LostBefore, false),
    ] {
        site.faults()
            .arm_for_next_calls(SiteCallKind::Submit, fault, 1);
        let answer = site
            .queue()
            .submit(&submit_request(attempt_tag(job), script_program("exit 0")))
            .await;
        assert!(
            matches!(answer, Err(SiteError::OutcomeUnknown(_))),
            "{answer:?}"
        );
        let found = site
            .queue()
            .find_by_tag(attempt_tag(job))
            .await
            .unwrap()
            .found;
        assert_eq!(!found.is_empty(), effect, "{fault:?}");
    }
    assert_eq!(site.faults().affected_calls(SiteCallKind::Submit), 2);
    await_observation(&site, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
    site.gate()
        .decide_gate(attempt_tag(1), &GateDecision::Void)
        .await
        .unwrap();
    assert_eq!(
        run_to_end(
            &site,
            &submit_request(attempt_tag(3), script_program("exit 0"))
        )
        .await,
        ExitCause::Code(0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_without_effect_have_none() {
    let fixture = LocalSiteFixture::new();
    let site = faulty(&fixture);
    for fault in [
        InjectedFault::NotSent,
        InjectedFault::Refused,
        InjectedFault::SiteFull,
    ] {
        site.faults()
            .arm_for_next_calls(SiteCallKind::Submit, fault, 1);
        assert!(
            site.queue()
                .submit(&submit_request(attempt_tag(1), script_program("exit 0")))
                .await
                .is_err()
        );
        assert_eq!(
            await_observation(&site, attempt_tag(1), |_| true).await,
            AttemptObservation::Absent
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_false_status_lies_about_every_attempt_until_it_is_lifted() {
    let fixture = LocalSiteFixture::new();
    let site = faulty(&fixture);
    bring_to_gate(
        &site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    site.faults()
        .arm_fault(SiteCallKind::Status, InjectedFault::Absent);
    assert_eq!(
        await_observation(&site, attempt_tag(1), |_| true).await,
        AttemptObservation::Absent
    );
    site.faults()
        .arm_fault(SiteCallKind::Status, InjectedFault::Unknown);
    let status = site.queue().status(&[attempt_tag(1)]).await.unwrap();
    assert!(
        matches!(
            status.attempts[&attempt_tag(1)],
            AttemptObservation::Unknown(_)
        ),
        "{status:?}"
    );
    assert_eq!(status.idle.processors, 0);
    site.faults().lift_call_fault(SiteCallKind::Status);
    let seen = await_observation(&site, attempt_tag(1), |_| true).await;
    assert!(matches!(seen, AttemptObservation::Ready(_)), "{seen:?}");
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_call_waits_and_then_happens() {
    let fixture = LocalSiteFixture::new();
    let site = Arc::new(faulty(&fixture));
    bring_to_gate(
        &*site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    site.faults()
        .arm_fault(SiteCallKind::DecideGate, InjectedFault::Freeze);
    let deciding = tokio::spawn({
        let site = site.clone();
        async move {
            site.gate()
                .decide_gate(attempt_tag(1), &go_decision())
                .await
        }
    });
    while site.faults().affected_calls(SiteCallKind::DecideGate) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seen = await_observation(&*site, attempt_tag(1), |_| true).await;
    assert!(matches!(seen, AttemptObservation::Ready(_)), "{seen:?}");
    assert!(!deciding.is_finished());
    site.faults().lift_all_faults();
    assert_eq!(deciding.await.unwrap(), Ok(GateState::Opened));
}

fn injection(fault: InjectedFault, call: SiteCallKind, lasting: Duration) -> FaultInjection {
    let from = tokio::time::Instant::now();
    FaultInjection {
        name: "injected",
        fault,
        calls: vec![call],
        share_ppm: 1_000_000,
        from,
        until: from + lasting,
        seed: 1,
    }
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubled_submission_runs_once() {
    let fixture = LocalSiteFixture::new();
    let site = faulty(&fixture);
    site.faults().inject_faults(vec![injection(
        InjectedFault::Doubled,
        SiteCallKind::Submit,
        LONG,
    )]);
    assert_eq!(
        run_to_end(
            &site,
            &submit_request(attempt_tag(1), script_program("exit 0"))
        )
        .await,
        ExitCause::Code(0)
    );
    assert_eq!(
        site.queue()
            .find_by_tag(attempt_tag(1))
            .await
            .unwrap()
            .found
            .len(),
        1
    );
    assert_eq!(
        site.queue().list_attempts().await.unwrap(),
        [attempt_tag(1)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_comes_after_an_effect_that_did_not_wait() {
    let fixture = LocalSiteFixture::new();
    let site = Arc::new(faulty(&fixture));
    site.faults().inject_faults(vec![injection(
        InjectedFault::LateAnswer(LONG),
        SiteCallKind::Submit,
        LONG,
    )]);
    let submitting = tokio::spawn({
        let site = site.clone();
        async move {
            site.queue()
                .submit(&submit_request(attempt_tag(1), script_program("exit 0")))
                .await
        }
    });
    await_observation(&*site, attempt_tag(1), |seen| {
        matches!(seen, AttemptObservation::Ready(_))
    })
    .await;
    assert!(!submitting.is_finished());
    submitting.abort();
    site.gate()
        .decide_gate(attempt_tag(1), &GateDecision::Void)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_hangs_goes_on_after_the_fault_or_ends_without_effect() {
    let fixture = LocalSiteFixture::new();
    let site = faulty(&fixture);
    let submit = |job| {
        let order = submit_request(attempt_tag(job), script_program("exit 0"));
        let site = &site;
        async move { site.queue().submit(&order).await }
    };
    let short = Duration::from_millis(50);
    site.faults().inject_faults(vec![injection(
        InjectedFault::Hang(LONG),
        SiteCallKind::Submit,
        short,
    )]);
    assert!(submit(1).await.is_ok(), "the window ended");
    site.faults().inject_faults(vec![injection(
        InjectedFault::Hang(LONG),
        SiteCallKind::Submit,
        LONG,
    )]);
    let lift = async {
        while site.faults().tallies().is_empty() {
            tokio::task::yield_now().await;
        }
        site.faults().lift_all_faults();
    };
    assert!(tokio::join!(submit(2), lift).0.is_ok(), "it was lifted");
    site.faults().inject_faults(vec![injection(
        InjectedFault::Hang(short),
        SiteCallKind::Submit,
        LONG,
    )]);
    let answer = submit(3).await;
    assert!(
        matches!(answer, Err(SiteError::OutcomeUnknown(_))),
        "{answer:?}"
    );
    assert_eq!(
        await_observation(&site, attempt_tag(3), |_| true).await,
        AttemptObservation::Absent
    );
    let tally = CallFaultTally {
        calls: 1,
        strikes: 1,
    };
    assert_eq!(
        site.faults().tallies()[&("injected", SiteCallKind::Submit)],
        tally
    );
    for job in [1, 2] {
        await_observation(&site, attempt_tag(job), |seen| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await;
        site.gate()
            .decide_gate(attempt_tag(job), &GateDecision::Void)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_without_idle_processors_tells_the_truth_about_attempts() {
    let fixture = LocalSiteFixture::new();
    let site = faulty(&fixture);
    bring_to_gate(
        &site,
        &submit_request(attempt_tag(1), script_program("exit 0")),
    )
    .await;
    site.faults().inject_faults(vec![injection(
        InjectedFault::NoneIdle,
        SiteCallKind::Status,
        LONG,
    )]);
    let status = site.queue().status(&[attempt_tag(1)]).await.unwrap();
    assert_eq!(status.idle.processors, 0);
    assert!(
        matches!(
            status.attempts[&attempt_tag(1)],
            AttemptObservation::Ready(_)
        ),
        "{status:?}"
    );
    site.queue().cancel(attempt_tag(1), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_file_switches_faults_of_a_running_server() {
    let fixture = LocalSiteFixture::new();
    let path = fixture.root().join("faults");
    let site = FaultySite::new(fixture.site(), FaultSwitch::new()).with_control_file(path.clone());
    assert!(site.queue().status(&[]).await.is_ok(), "no file, no faults");
    replace(&path, "all not-sent\nstatus lost-before next 1\n");
    assert!(matches!(
        site.queue().status(&[]).await,
        Err(SiteError::OutcomeUnknown(_))
    ));
    assert!(site.queue().status(&[]).await.is_ok(), "the one is spent");
    assert!(matches!(
        site.monitor().describe().await,
        Err(SiteError::NotSent(_))
    ));
    replace(&path, "nonsense\n");
    let answer = site.monitor().describe().await;
    assert!(
        matches!(&answer, Err(SiteError::NotSent(why)) if why.contains("line 1")),
        "{answer:?}"
    );
    replace(&path, "");
    assert!(site.monitor().describe().await.is_ok());
}

fn replace(path: &Path, text: &str) {
    std::fs::write(path.with_extension("new"), text).unwrap();
    std::fs::rename(path.with_extension("new"), path).unwrap();
}
