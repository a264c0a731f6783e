//! What holds after any commands in any order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::automaton::BreakerModel;
use super::*;
use crate::site::availability::{list_obstacles, site_state};
use crate::site::barred_owners_record::MAX_KEPT_OFF;
use crate::site::contact::SiteContact;
use crate::site::site_command::ProbeOutcome;
use crate::site::site_due::{SiteEffect, next_wake};
use crate::site::site_event::SiteEventKind;
use crate::site::site_state::{
    Breaker, MAX_OWED, MAX_WINDOWS, RECENT_ERRORS, REMEMBERED, SiteNotificationId,
    count_probing_jobs,
};
use crate::units::DurationMs;

/// Time moves on, or the clock is set back by up to an hour.
#[derive(Debug, Clone)]
enum SiteStep {
    Forward(u64),
    Back(u64),
    Tell(SiteCommand),
}

fn any_attempt() -> impl Strategy<Value = AttemptId> {
    (0_u64..12, 0..8_u32).prop_map(move |(job, number)| AttemptId {
        component: ComponentIndex(if job < 3 { number % 2 } else { 0 }),
        attempt: Attempt(number / 2),
        job: JobId(job),
    })
}

fn any_jitter() -> impl Strategy<Value = PerMillion> {
    (0_u32..=1_000_000).prop_map(PerMillion)
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    (3_000_000_u64..12_000_000).prop_map(Timestamp)
}

fn any_operation() -> impl Strategy<Value = OperatorCommand> {
    prop_oneof![
        Just(OperatorCommand::Drain),
        Just(OperatorCommand::Undrain),
        Just(OperatorCommand::Freeze),
        Just(OperatorCommand::Thaw),
        Just(OperatorCommand::Unforce),
        Just(OperatorCommand::ResetErrors),
        (any_time(), any_time()).prop_map(|(from, until)| OperatorCommand::SetWindow {
            from,
            until,
            reason: text("maintenance")
        }),
        any_time().prop_map(|from| OperatorCommand::RemoveWindow { from }),
        (any::<bool>(), any_time())
            .prop_map(|(usable, until)| OperatorCommand::Force { usable, until }),
    ]
}

fn any_own_outcome() -> impl Strategy<Value = ProbeOutcome> {
    prop_oneof![
        Just(ProbeOutcome::Succeeded),
        Just(ProbeOutcome::Failed),
        Just(ProbeOutcome::Inconclusive)
    ]
}

/// Some are two owners', and of some nobody knows whose they are.
pub(super) fn owner_of(job: JobId) -> Option<KeyName> {
    let name = ["", "mallory", "mallory", "alice"][job.0 as usize % 4];
    KeyName::new(name).ok()
}

fn any_command() -> impl Strategy<Value = SiteCommand> {
    let outcomes = any_own_outcome();
    let classes = prop_oneof![
        3 => Just(FailureClass::Site),
        1 => prop::sample::select(&FailureClass::ALL[..]),
    ];
    prop_oneof![
        6 => (any_attempt(), classes, prop::bool::weighted(0.1), any_jitter()).prop_map(
            |(attempt, class, isolated, jitter)| SiteCommand::RecordError {
                owner: owner_of(attempt.job), attempt, class, detail: text("lost"), isolated, jitter
            }
        ),
        2 => any_attempt().prop_map(|attempt| SiteCommand::RecordSuccess { attempt }),
        4 => (any_attempt(), prop::bool::weighted(0.9))
            .prop_map(|(probe, may_probe)| SiteCommand::StartProbe { probe, owner: None, may_probe }),
        2 => (any_attempt(), outcomes, any_jitter())
            .prop_map(|(probe, outcome, jitter)| SiteCommand::EndProbe { probe, outcome, jitter }),
        3 => (0_u32..4, any_own_outcome(), any_jitter()).prop_map(|(number, outcome, jitter)| {
            let number = Attempt(number);
            SiteCommand::OwnProbeOver { number, outcome, detail: text("lost too"), jitter }
        }),
        1 => prop::collection::btree_set(any_attempt(), 0..6)
            .prop_map(|live| SiteCommand::ReconcileProbes { live }),
        2 => any_operation().prop_map(|what| SiteCommand::Operate { by: key(), what }),
        1 => Just(SiteCommand::Notify {
            kind: SiteNotificationKind::Unreachable, text: text("no answer"), details: Vec::new()
        }),
        2 => (0_u64..20).prop_map(|id| SiteCommand::NotificationSent { id: SiteNotificationId(id) }),
    ]
}

fn any_steps() -> impl Strategy<Value = Vec<SiteStep>> {
    let step = prop_oneof![
        8 => any_command().prop_map(SiteStep::Tell),
        3 => (0_u64..200_000).prop_map(SiteStep::Forward),
        1 => (0_u64..3_600_000).prop_map(SiteStep::Back),
    ];
    prop::collection::vec(step, 0..120)
}

fn start_bench() -> SiteTestBench {
    SiteTestBench {
        now: Timestamp(4_000_000),
        ..SiteTestBench::new()
    }
}

impl SiteTestBench {
    fn apply_step(&mut self, step: &SiteStep) {
        match step {
            SiteStep::Forward(ms) => self.now.0 += ms,
            SiteStep::Back(ms) => self.now = self.now - DurationMs(*ms),
            SiteStep::Tell(command) => drop(self.apply_command(command.clone())),
        }
    }
}

fn check_bounds(record: &SiteRecord, parameters: &SiteParameters) {
    assert!(record.counted.len() <= REMEMBERED && record.erring_jobs.len() <= REMEMBERED);
    assert_eq!(
        record.counted.len(),
        record.counted.iter().collect::<BTreeSet<_>>().len()
    );
    assert!(record.recent_errors.len() <= RECENT_ERRORS);
    assert!(record.owed.len() <= MAX_OWED);
    assert!(record.kept_off.len() <= MAX_KEPT_OFF);
    if let Some(probe) = &record.own_probe {
        assert_eq!(record.breaker, Breaker::Closed);
        assert_eq!(record.accused.as_ref(), Some(&probe.owner));
        assert!(record.consecutive_errors >= parameters.site_error_threshold);
    }
    assert!(record.operator.windows.len() <= MAX_WINDOWS);
    match &record.breaker {
        Breaker::Closed => {
            let is_below = record.consecutive_errors < parameters.site_error_threshold;
            assert!(
                is_below || record.accused.is_some(),
                "errors of several owners open it"
            );
            assert_eq!(record.erring_jobs.len(), record.consecutive_errors as usize);
        }
        Breaker::Open {
            since,
            probe_at,
            trips,
        } => {
            assert!(since < probe_at && *trips >= 1);
            let most = parameters.probe_interval_max.0 + parameters.probe_interval_max.0 / 4;
            assert!(probe_at.since(*since).0 <= most);
        }
        Breaker::HalfOpen {
            allowed,
            running,
            trips,
            ..
        } => {
            assert!((1..=parameters.probe_limit).contains(allowed) && *trips >= 1);
            assert!(count_probing_jobs(running) <= *allowed);
        }
    }
}

/// Commands that the shell tells until it knows that they arrived.
fn is_told_at_least_once(command: &SiteCommand) -> bool {
    !matches!(
        command,
        SiteCommand::Operate { .. } | SiteCommand::Notify { .. }
    )
}

proptest! {
    #[test]
    fn the_record_stays_within_its_bounds_and_equals_its_journal(steps in any_steps()) {
        let mut bench = start_bench();
        for step in &steps {
            bench.apply_step(step);
            check_bounds(&bench.record, &bench.parameters);
        }
        let mut replayed = start_bench().record;
        bench.journal.iter().for_each(|event| SiteMachine::evolve(&mut replayed, event));
        prop_assert_eq!(replayed, bench.record);
    }

    #[test]
    fn count_and_breaker_go_the_way_of_a_plain_automaton(
        steps in any_steps(), site_error_threshold in 1_u32..4, probe_limit in 1_u32..6,
    ) {
        let mut bench = start_bench();
        bench.parameters = SiteParameters { site_error_threshold, probe_limit, ..bench.parameters };
        let mut plain = BreakerModel::new(bench.parameters.clone());
        for step in &steps {
            let SiteStep::Tell(command) = step else {
                bench.apply_step(step);
                continue;
            };
            let forced = bench.record.forced_at(bench.now).map(|forced| forced.usable);
            let expected = plain.apply_command(command, forced, bench.now);
            let told = bench.apply_command(command.clone());
            if matches!(command, SiteCommand::StartProbe { .. }) {
                prop_assert_eq!(told.is_ok(), expected, "{:?}", told);
            }
            prop_assert_eq!(bench.record.consecutive_errors, plain.errors);
            prop_assert_eq!(&bench.record.breaker, &plain.breaker);
        }
        let mut charges: BTreeMap<AttemptId, u32> = BTreeMap::new();
        for event in &bench.journal {
            if let SiteEventKind::ErrorCharged { attempt, .. } = event.what {
                *charges.entry(attempt).or_default() += 1;
            }
        }
        prop_assert!(charges.values().all(|times| *times == 1));
    }

    #[test]
    fn one_job_alone_never_makes_a_site_unusable(
        ends in prop::collection::vec((0..3_u32, any::<bool>(), any::<bool>()), 0..60),
        site_error_threshold in 2_u32..5,
    ) {
        let mut bench = start_bench();
        bench.parameters = SiteParameters { site_error_threshold, ..bench.parameters };
        for (number, (component, isolated, is_error)) in (0..).zip(ends) {
            let component = ComponentIndex(component);
            let attempt = AttemptId { job: JobId(1), component, attempt: Attempt(number) };
            drop(bench.apply_command(if is_error {
                let class = FailureClass::Site;
                let jitter = PerMillion(0);
                let owner = None;
                let detail = text("lost");
                SiteCommand::RecordError { attempt, owner, class, detail, isolated, jitter }
            } else {
                SiteCommand::RecordSuccess { attempt }
            }));
            prop_assert_eq!(&bench.record.breaker, &Breaker::Closed);
            prop_assert!(bench.record.consecutive_errors <= 1);
        }
    }

    #[test]
    fn what_is_told_twice_happens_once(steps in any_steps(), again in any_command()) {
        let mut bench = start_bench();
        steps.iter().for_each(|step| bench.apply_step(step));
        if is_told_at_least_once(&again) && bench.apply_command(again.clone()).is_ok() {
            prop_assert_eq!(bench.apply_command(again), Ok(Vec::new()));
        }
    }

    #[test]
    fn a_message_stays_due_until_sent_or_pushed_out_by_newer_ones(steps in any_steps()) {
        let mut bench = start_bench();
        let due = |bench: &SiteTestBench| -> BTreeSet<u64> {
            SiteMachine::due(&bench.record, &bench.parameters, bench.now)
                .into_iter()
                .map(|SiteEffect::SendNotification(message)| message.id.0)
                .collect()
        };
        for step in &steps {
            let before = due(&bench);
            let seen = bench.journal.len();
            bench.apply_step(step);
            let after = due(&bench);
            for id in before.difference(&after) {
                let sent = bench.journal[seen..].iter().any(|event| {
                    event.what == SiteEventKind::NotificationSent { id: SiteNotificationId(*id) }
                });
                let newer = after.len() == MAX_OWED && after.iter().all(|other| other > id);
                prop_assert!(sent || newer);
            }
        }
    }

    #[test]
    fn no_more_probes_run_than_the_breaker_allows(steps in any_steps(), tried in any_attempt()) {
        let mut bench = start_bench();
        steps.iter().for_each(|step| bench.apply_step(step));
        let state = site_state(&bench.record, SiteContact::Answering { last_at: bench.now }, 0, bench.now);
        let let_in = bench.start_probe(tried.job.0);
        if bench.record.operator == crate::site::site_state::OperatorSettings::default() {
            let running = matches!(&bench.record.breaker,
                Breaker::HalfOpen { running, .. } if running.iter().any(|r| r.job == tried.job));
            prop_assert_eq!(let_in.is_ok(), running || state.accepts_placement(true));
        }
    }

    #[test]
    fn a_site_takes_a_component_exactly_if_nothing_is_in_its_way(
        steps in any_steps(), held in 0_u32..2, may_probe: bool, contact in 0_usize..4,
    ) {
        let mut bench = start_bench();
        steps.iter().for_each(|step| bench.apply_step(step));
        let since = bench.now;
        let contact = [
            SiteContact::Answering { last_at: since },
            SiteContact::NeverAnswered,
            SiteContact::Unreachable { since, last_answer: None },
            SiteContact::CredentialsExpired { since },
        ][contact];
        let state = site_state(&bench.record, contact, held, bench.now);
        let told = list_obstacles(&bench.record, contact, held, may_probe, bench.now);
        prop_assert_eq!(state.accepts_placement(may_probe), told.is_empty(), "{:?} {:?}", state, told);
    }

    #[test]
    fn nothing_changes_by_the_clock_before_the_next_wake(
        steps in any_steps(), ahead in 0_u64..10_000_000,
    ) {
        let mut bench = start_bench();
        steps.iter().for_each(|step| bench.apply_step(step));
        let contact = SiteContact::Answering { last_at: bench.now };
        let at = |now| site_state(&bench.record, contact, 0, now);
        let last = next_wake(&bench.record, bench.now).map_or(u64::MAX, |wake| wake.0 - 1);
        prop_assert!(last >= bench.now.0);
        let later = Timestamp(last.min(bench.now.0 + ahead));
        prop_assert_eq!(at(bench.now), at(later));
    }

    #[test]
    fn a_reset_closes_the_breaker_from_every_state(steps in any_steps()) {
        let mut bench = start_bench();
        steps.iter().for_each(|step| bench.apply_step(step));
        bench.apply_operation(OperatorCommand::ResetErrors).unwrap();
        prop_assert_eq!(&bench.record.breaker, &Breaker::Closed);
        prop_assert_eq!(bench.record.consecutive_errors, 0);
    }
}
