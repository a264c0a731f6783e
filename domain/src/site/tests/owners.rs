//! Errors that are all of one owner's jobs.

use std::collections::BTreeSet;

use super::*;
use crate::ids::InstanceId;
use crate::site::barred_owners_record::{MAX_KEPT_OFF, OWN_PROBE_PATIENCE, OwnerBan};
use crate::site::site_command::ProbeOutcome;
use crate::site::site_state::Breaker;
use crate::units::DurationMs;

fn owner(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

impl SiteTestBench {
    fn record_error_of(&mut self, job: u64, name: &str) -> Vec<&'static str> {
        let SiteCommand::RecordError {
            attempt,
            class,
            detail,
            isolated,
            jitter,
            ..
        } = error_command(job, FailureClass::Site)
        else {
            unreachable!()
        };
        let owner = Some(owner(name));
        self.event_names(SiteCommand::RecordError {
            attempt,
            owner,
            class,
            detail,
            isolated,
            jitter,
        })
    }

    fn end_own_probe(&mut self, outcome: ProbeOutcome) -> Vec<&'static str> {
        let number = self.record.last_own_probe;
        let detail = text("no such file or directory");
        self.event_names(SiteCommand::OwnProbeOver {
            number,
            outcome,
            detail,
            jitter: PerMillion(0),
        })
    }

    fn ban_of(&self, name: &str) -> Option<OwnerBan> {
        self.record.bar_reason_for(&owner(name), self.now)
    }

    /// So many errors of one owner's jobs, each time other jobs.
    fn accuse_owner(&mut self) {
        let first = self.journal.len() as u64 * 10;
        (first..first + 3).for_each(|job| drop(self.record_error_of(job, "mallory")));
    }

    fn barred_seconds(&self, name: &str) -> u64 {
        match self.ban_of(name) {
            Some(OwnerBan::KeptOff { until }) => until.since(self.now).0 / 1000,
            ban => panic!("{ban:?}"),
        }
    }
}

#[test]
fn errors_of_one_owner_have_a_probe_of_our_own_decide() {
    let mut bench = SiteTestBench::new();
    assert_eq!(bench.record_error_of(1, "mallory"), ["ErrorCharged"]);
    assert_eq!(bench.record_error_of(2, "mallory"), ["ErrorCharged"]);
    assert_eq!(
        bench.record_error_of(3, "mallory"),
        ["ErrorCharged", "OwnProbeWanted"]
    );
    assert_eq!(
        bench.record_error_of(4, "mallory"),
        ["ErrorCharged"],
        "one is enough"
    );
    assert_eq!(
        (bench.record.consecutive_errors, &bench.record.breaker),
        (4, &Breaker::Closed)
    );
    assert_eq!(
        (bench.ban_of("mallory"), bench.ban_of("alice")),
        (Some(OwnerBan::Probed), None)
    );
    assert_eq!(
        bench.end_own_probe(ProbeOutcome::Succeeded),
        ["OwnProbeEnded", "OwnerKeptOff"]
    );
    assert_eq!(
        (bench.record.consecutive_errors, &bench.record.breaker),
        (0, &Breaker::Closed)
    );
    assert_eq!(bench.barred_seconds("mallory"), 60);
    assert!(
        bench.owed_notifications().is_empty(),
        "nobody need look after the site"
    );
}

#[test]
fn a_probe_of_our_own_that_fails_opens_the_breaker_and_tells_why() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    let told = bench.end_own_probe(ProbeOutcome::Failed);
    assert_eq!(told, ["OwnProbeEnded", "BreakerOpened", "NotificationOwed"]);
    let probe_at = bench.now + DurationMs::from_secs(60);
    assert_eq!(
        bench.record.breaker,
        Breaker::Open {
            since: bench.now,
            probe_at,
            trips: 1
        }
    );
    let message = &bench.record.owed[0];
    assert_eq!(
        &*message.text,
        "site delft is unusable after 3 errors in a row; it is probed in 1m00s"
    );
    assert_eq!(
        &**message.details.last().unwrap(),
        "all errors before came from jobs of mallory; our own probe failed too: no such file or \
         directory"
    );
    assert_eq!(
        bench.ban_of("mallory"),
        None,
        "it was not that owner's doing"
    );
}

#[test]
fn errors_of_several_owners_open_the_breaker_whatever_probe_is_under_way() {
    let mut bench = SiteTestBench::new();
    bench.record_error_of(1, "mallory");
    bench.record_error_of(2, "alice");
    let told = bench.record_error_of(3, "mallory");
    assert_eq!(told, ["ErrorCharged", "BreakerOpened", "NotificationOwed"]);
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    let told = bench.record_error_of(7, "alice");
    assert_eq!(told, ["ErrorCharged", "BreakerOpened", "NotificationOwed"]);
    assert!(
        bench.end_own_probe(ProbeOutcome::Succeeded).is_empty(),
        "it comes too late"
    );
}

#[test]
fn errors_of_which_nobody_knows_whose_they_are_count_as_several_owners() {
    let mut bench = SiteTestBench::new();
    bench.record_error(1);
    bench.record_error_of(2, "mallory");
    let told = bench.record_error_of(3, "mallory");
    assert_eq!(told, ["ErrorCharged", "BreakerOpened", "NotificationOwed"]);
}

#[test]
fn a_success_meanwhile_is_as_good_as_the_probe() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    assert_eq!(
        bench.record_success(9),
        ["SuccessCounted", "OwnProbeEnded", "OwnerKeptOff"]
    );
    assert_eq!(bench.record.consecutive_errors, 0);
    assert!(matches!(
        bench.ban_of("mallory"),
        Some(OwnerBan::KeptOff { .. })
    ));
}

#[test]
fn an_owner_who_errs_again_at_once_stays_away_for_longer_and_longer() {
    let mut bench = SiteTestBench::new();
    let mut waits = Vec::new();
    for _ in 0..8 {
        bench.accuse_owner();
        bench.end_own_probe(ProbeOutcome::Succeeded);
        waits.push(bench.barred_seconds("mallory"));
        bench.wait_secs(waits.last().copied().unwrap());
        assert_eq!(bench.ban_of("mallory"), None, "it may come again");
    }
    assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
    bench.wait_secs(3600);
    bench.accuse_owner();
    bench.end_own_probe(ProbeOutcome::Succeeded);
    assert_eq!(bench.barred_seconds("mallory"), 60, "that was long ago");
}

#[test]
fn a_probe_that_told_nothing_leaves_the_count_as_it_was() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    assert_eq!(
        bench.end_own_probe(ProbeOutcome::Inconclusive),
        ["OwnProbeEnded", "OwnerKeptOff"]
    );
    assert_eq!(bench.record.consecutive_errors, 3);
    assert_eq!(
        bench.record_error_of(8, "mallory"),
        ["ErrorCharged", "OwnProbeWanted"],
        "another try"
    );
    bench.end_own_probe(ProbeOutcome::Inconclusive);
    let told = bench.record_error_of(9, "alice");
    assert_eq!(told, ["ErrorCharged", "BreakerOpened", "NotificationOwed"]);
}

#[test]
fn an_owner_that_stays_away_gets_nothing_in_and_others_do() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    let start = |name: &str| {
        let probe = attempt(50);
        let owner = Some(owner(name));
        SiteCommand::StartProbe {
            probe,
            owner,
            may_probe: true,
        }
    };
    assert_eq!(
        bench.apply_command(start("mallory")),
        Err(SiteRejection::Banned(OwnerBan::Probed))
    );
    assert_eq!(bench.apply_command(start("alice")), Ok(Vec::new()));
    bench.end_own_probe(ProbeOutcome::Succeeded);
    let until = bench.now + DurationMs::from_secs(60);
    assert_eq!(
        bench.apply_command(start("mallory")),
        Err(SiteRejection::Banned(OwnerBan::KeptOff { until }))
    );
    bench.wait_secs(60);
    assert_eq!(bench.apply_command(start("mallory")), Ok(Vec::new()));
}

#[test]
fn a_reset_lets_everybody_in_again() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    bench.end_own_probe(ProbeOutcome::Succeeded);
    bench.accuse_owner();
    bench.apply_operation(OperatorCommand::ResetErrors).unwrap();
    assert_eq!(
        (bench.ban_of("mallory"), &bench.record.own_probe),
        (None, &None)
    );
}

#[test]
fn one_owner_who_fails_each_probe_leaves_room_for_the_others() {
    let mut bench = SiteTestBench::new();
    (1..=3).for_each(|job| drop(bench.record_error(job)));
    bench.wait_secs(60);
    for job in 10..14 {
        let probe = attempt(job);
        let owner = Some(owner("mallory"));
        bench
            .apply_command(SiteCommand::StartProbe {
                probe,
                owner,
                may_probe: true,
            })
            .unwrap();
        bench.record_error_of(job, "mallory");
        assert_eq!(
            bench.record.breaker.trips(),
            2,
            "the others wait no longer for that"
        );
        bench.wait_secs(120.max(bench.barred_seconds("mallory")));
    }
    let probe = attempt(20);
    let mallory = Some(owner("mallory"));
    bench
        .apply_command(SiteCommand::StartProbe {
            probe,
            owner: mallory,
            may_probe: true,
        })
        .unwrap();
    bench.record_error_of(20, "mallory");
    bench.wait_secs(120);
    assert!(
        bench.ban_of("mallory").is_some(),
        "the next probe is another's"
    );
    let probe = attempt(21);
    let alice = Some(owner("alice"));
    bench
        .apply_command(SiteCommand::StartProbe {
            probe,
            owner: alice,
            may_probe: true,
        })
        .unwrap();
    bench.record_error_of(21, "alice");
    assert_eq!(bench.record.breaker.trips(), 3, "another owner says so too");
}

#[test]
fn a_probe_is_given_up_by_the_clock() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    let wake = SiteMachine::next_wake(&bench.record, &bench.parameters, bench.now);
    assert_eq!(wake, Some(bench.now + OWN_PROBE_PATIENCE));
}

#[test]
fn owners_that_stay_away_are_remembered_up_to_a_number() {
    let mut bench = SiteTestBench::new();
    for number in 0..100 {
        let name = format!("mallory-{number}");
        (0..3).for_each(|job| drop(bench.record_error_of(number * 10 + job, &name)));
        bench.end_own_probe(ProbeOutcome::Succeeded);
    }
    assert_eq!(bench.record.kept_off.len(), MAX_KEPT_OFF);
    assert!(bench.ban_of("mallory-99").is_some());
}

#[test]
fn probes_of_our_own_at_different_sites_are_told_apart() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    let probe = bench.record.own_probe.clone().unwrap();
    let instance = InstanceId::from_random(7);
    let tags = ["delft", "leiden", "s1", "s2", "s3"].map(|site| {
        let tag = probe.tag(instance, &SiteName::new(site).unwrap());
        assert_eq!(tag.to_string().parse(), Ok(tag));
        tag
    });
    assert_eq!(tags.iter().collect::<BTreeSet<_>>().len(), tags.len());
}

#[test]
fn an_operator_who_says_that_a_site_is_usable_says_so_for_everybody() {
    let mut bench = SiteTestBench::new();
    bench.accuse_owner();
    let until = bench.now + DurationMs::from_secs(30);
    bench
        .apply_operation(OperatorCommand::Force {
            usable: true,
            until,
        })
        .unwrap();
    assert_eq!(
        (
            bench.ban_of("mallory"),
            bench.record.barred_owners(bench.now).count()
        ),
        (None, 0)
    );
    bench.wait_secs(30);
    assert_eq!(bench.ban_of("mallory"), Some(OwnerBan::Probed));
    bench.end_own_probe(ProbeOutcome::Succeeded);
    let until = bench.now + DurationMs::from_secs(30);
    bench
        .apply_operation(OperatorCommand::Force {
            usable: false,
            until,
        })
        .unwrap();
    assert!(matches!(
        bench.ban_of("mallory"),
        Some(OwnerBan::KeptOff { .. })
    ));
}
