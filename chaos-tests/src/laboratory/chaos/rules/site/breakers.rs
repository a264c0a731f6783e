//! Sites with drawn settings and records near every bound: a command is told to the domain, and
//! events, next record, messages that are due and refusals are compared with [`verdicts`].
//!
//! [`verdicts`]: super::verdicts

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use cospan_domain::machine::Machine;
use cospan_domain::site::SiteMachine;
use cospan_domain::site::command::{Operation, ProbeOutcome, Rejection, SiteCommand};
use cospan_domain::site::contact::ContactParameters;
use cospan_domain::site::due::SiteEffect;
use cospan_domain::site::event::{Happened, SiteEvent};
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::parameters::SiteParameters;
use cospan_domain::site::state::{
    AttemptId, Breaker, Notification, NotificationId, NotificationKind, SiteRecord, Window,
};
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::verdicts::{Desk, OUTCOMES, WINDOWS, interval};

const STEPS: usize = 20;
const SECOND: u64 = 1_000;
pub(super) const KINDS: [NotificationKind; 6] = [
    NotificationKind::Unusable,
    NotificationKind::ProbeFailed,
    NotificationKind::Usable,
    NotificationKind::Unreachable,
    NotificationKind::CredentialsExpired,
    NotificationKind::Answering,
];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut found: Vec<String> = settings(chance).into_iter().collect();
    let (Ok(name), Ok(by)) = (SiteName::new("delft"), KeyName::new("operator")) else {
        return found;
    };
    let parameters = SiteParameters {
        site_error_threshold: chance.random_range(0..4),
        probe_interval: DurationMs(chance.random_range(1..5) * 10 * SECOND + 1),
        probe_interval_max: DurationMs(chance.random_range(1..10) * 10 * SECOND),
        probe_spread: PerMillion([0, 250_000, 333_333][chance.random_range(0..3)]),
        probe_limit: chance.random_range(0..6),
    };
    let mut record = start(chance, name, &by);
    let mut now = Timestamp(1_000_000);
    for _ in 0..STEPS {
        now.0 += if chance.random_bool(0.02) { 3_600_000 } else { pause(chance, &record, now) };
        let command = draw(chance, &by, &record, now);
        found.extend(follow(&mut record, &parameters, &command, now));
        if !found.is_empty() {
            return found;
        }
    }
    found.extend(unfit(chance, &record, now));
    found
}

/// Often just until something changes by itself, or not quite.
fn pause(chance: &mut StdRng, record: &SiteRecord, now: Timestamp) -> u64 {
    let probe = match record.breaker {
        Breaker::Open { probe_at, .. } => Some(probe_at),
        _ => None,
    };
    let windows = record.operator.windows.iter().flat_map(|window| [window.from, window.until]);
    let forced = record.operator.forced.as_ref().map(|forced| forced.until);
    let changes: Vec<u64> = windows.chain(forced).map(|at| at.0).filter(|at| *at > now.0).collect();
    let next = match chance.random_range(0..4) {
        0 | 1 => probe.map(|at| at.0).filter(|at| *at > now.0),
        2 => changes.into_iter().min(),
        _ => None,
    };
    match next {
        Some(at) => at - now.0 - u64::from(chance.random_bool(0.3)),
        None => chance.random_range(0..3) * 5 * SECOND,
    }
}

/// A site with nothing recorded, or one whose record is nearly full.
fn start(chance: &mut StdRng, name: SiteName, by: &KeyName) -> SiteRecord {
    let mut record = SiteRecord::new(name);
    if chance.random_bool(0.3) {
        let filled = OUTCOMES - chance.random_range(0..3);
        record.counted = (0..filled).map(|job| attempt(1_000 + job as u64, 0)).collect();
        record.last_notification = NotificationId(chance.random_range(0..9));
        record.notifications_dropped = chance.random_range(0..9);
    }
    let windows = if chance.random_bool(0.3) { WINDOWS - chance.random_range(0..3) } else { 0 };
    for number in 0..windows as u64 {
        let from = Timestamp(1_000_000 + 10 * SECOND * number);
        let window = Window { from, until: from, by: by.clone(), reason: "before".into() };
        let until = Timestamp(from.0 + 10 * SECOND * chance.random_range(1..3));
        record.operator.windows.push(Window { until, ..window });
    }
    record
}

fn attempt(job: u64, component: u32) -> AttemptId {
    AttemptId { job: JobId(job), component: ComponentIndex(component), attempt: Attempt(1) }
}

fn draw(chance: &mut StdRng, by: &KeyName, record: &SiteRecord, now: Timestamp) -> SiteCommand {
    let any = attempt(chance.random_range(0..10), chance.random_range(0..2));
    let probes: Vec<AttemptId> = match &record.breaker {
        Breaker::HalfOpen { running, .. } => running.iter().copied().collect(),
        _ => Vec::new(),
    };
    let probe = probes.choose(chance).copied().filter(|_| chance.random_bool(0.6)).unwrap_or(any);
    let long = "é ".repeat(180);
    let texts = ["it failed", "it was lost", " no disk\nleft ", long.as_str()];
    let text = |chance: &mut StdRng| Arc::<str>::from(texts[chance.random_range(0..4)]);
    let detail = text(chance);
    let jitter = PerMillion([0, 1, 400_000, 1_000_000, 2_000_000][chance.random_range(0..5)]);
    let class = *FailureClass::ALL.choose(chance).unwrap_or(&FailureClass::Site);
    let class = if chance.random_bool(0.8) { FailureClass::Site } else { class };
    let isolated = chance.random_bool(0.1);
    let over = record.operator.windows.iter().any(|window| window.until == now);
    match chance.random_range(if over { 8 } else { 0 }..16) {
        0..=3 => SiteCommand::RecordError { attempt: probe, class, detail, isolated, jitter },
        4 | 5 => SiteCommand::RecordSuccess { attempt: probe },
        6..=8 => SiteCommand::StartProbe { probe: any, may_probe: chance.random_bool(0.8) },
        9 => {
            let outcomes =
                [ProbeOutcome::Succeeded, ProbeOutcome::Failed, ProbeOutcome::Inconclusive];
            SiteCommand::EndProbe { probe, outcome: outcomes[chance.random_range(0..3)], jitter }
        }
        10 => {
            let live = probes.into_iter().filter(|_| chance.random_bool(0.7));
            SiteCommand::ReconcileProbes { live: live.chain([any]).collect::<BTreeSet<_>>() }
        }
        11 => {
            let kind = KINDS[chance.random_range(0..KINDS.len())];
            let details = (0..chance.random_range(0..8)).map(|_| text(chance)).collect();
            SiteCommand::Notify { kind, text: detail, details }
        }
        12 | 13 => {
            let id = record.last_notification.0.saturating_sub(chance.random_range(0..5));
            SiteCommand::NotificationSent { id: NotificationId(id) }
        }
        _ => SiteCommand::Operate { by: by.clone(), what: order(chance, record, detail, now) },
    }
}

fn order(chance: &mut StdRng, record: &SiteRecord, reason: Arc<str>, now: Timestamp) -> Operation {
    let mut moment = || Timestamp(now.0 - 10 * SECOND + 5 * SECOND * chance.random_range(0..6));
    let (from, until) = (moment(), moment());
    let windows = &record.operator.windows;
    // One that is just over makes room for another.
    let over = windows.iter().any(|window| window.until == now);
    let what = if over { 4 } else { chance.random_range(0..12) };
    let known = windows.choose(chance).map(|window| window.from);
    let from = known.filter(|_| chance.random_bool(0.4)).unwrap_or(from);
    let later = Timestamp(from.0.max(now.0) + SECOND);
    let until = if chance.random_bool(0.5) { later } else { until };
    match what {
        0 => Operation::Drain,
        1 => Operation::Undrain,
        2 => Operation::Freeze,
        3 => Operation::Thaw,
        4..=6 => Operation::SetWindow { from, until, reason },
        7 => Operation::RemoveWindow { from },
        8 => Operation::Force { usable: chance.random_bool(0.5), until },
        9 | 10 => Operation::Unforce,
        _ => Operation::ResetErrors,
    }
}

/// Tells one command to both; where they differ.
fn follow(
    record: &mut SiteRecord,
    parameters: &SiteParameters,
    command: &SiteCommand,
    now: Timestamp,
) -> Option<String> {
    let decided = SiteMachine::decide(record, parameters, command.clone(), now);
    let told = decided.as_deref().unwrap_or_default();
    let (before, written) = (record.clone(), Vec::new());
    let mut desk = Desk { record: before, written, parameters, now, told };
    let expected = desk.carry_out(command).map(|()| {
        desk.written.iter().map(|what| SiteEvent { at: now, what: what.clone() }).collect()
    });
    if decided != expected {
        return Some(format!(
            "{command:?} at {now:?} is {decided:?}, not {expected:?}: {record:?}"
        ));
    }
    if let Err(refusal) = &decided {
        return misses(refusal);
    }
    told.iter().for_each(|event| SiteMachine::evolve(record, event));
    let (after, last) = (&desk.record, desk.record.recent_errors.back());
    let messages: Vec<SiteEffect> =
        after.owed.iter().cloned().map(SiteEffect::SendNotification).collect();
    let named = told.iter().all(|event| {
        let debug = format!("{:?}", event.what);
        debug.split([' ', '(', '{']).next() == Some(event.what.name())
    });
    let checks = [
        (record == after, "the record"),
        (record.last_error() == last, "the last error"),
        (SiteMachine::due(record, parameters, now) == messages, "what is due"),
        (named, "the name of an event"),
    ];
    let wrong = checks.into_iter().find(|(right, _)| !right)?.1;
    Some(format!("{wrong} after {command:?} at {now:?}: {record:?}, not {after:?}"))
}

/// A refusal that does not say what it is about.
fn misses(refusal: &Rejection) -> Option<String> {
    let word = match refusal {
        Rejection::NotYetProbed { errors: number, .. } => number.to_string(),
        Rejection::ProbesTaken { allowed } => format!(" {allowed} "),
        Rejection::TooManyWindows => WINDOWS.to_string(),
        Rejection::AlreadySo => "already".into(),
        Rejection::OnlyRerunnable => "twice".into(),
        Rejection::ForcedUnusable { .. } => "operator".into(),
        Rejection::EmptyWindow | Rejection::NoSuchWindow => "window".into(),
        Rejection::Past => "over".into(),
    };
    let text = refusal.to_string();
    (!text.contains(&word)).then(|| format!("{refusal:?} says {text:?}"))
}

/// Journals of other times may have events that do not fit: they change nothing else.
fn unfit(chance: &mut StdRng, record: &SiteRecord, at: Timestamp) -> Option<String> {
    let probe = attempt(77, 0);
    let apply = |record: &SiteRecord, what: Happened| {
        let mut after = record.clone();
        SiteMachine::evolve(&mut after, &SiteEvent { at, what });
        after
    };
    let closed = SiteRecord { breaker: Breaker::Closed, ..record.clone() };
    let open = Breaker::Open { since: at, probe_at: at, trips: 1 };
    let open = SiteRecord { breaker: open, ..record.clone() };
    let ended = Happened::ProbeEnded { probe, succeeded: true, allowed: 2 };
    let same = apply(&closed, Happened::ProbeStarted { probe }) == closed
        && apply(&closed, ended.clone()) == closed
        && apply(&open, ended) == open;
    let known = record.counted.front().copied();
    let again = known.is_none_or(|attempt| {
        let after = apply(record, Happened::ErrorExcused { attempt });
        let excused = after == *record;
        let after = apply(record, Happened::SuccessCounted { attempt });
        excused && after == SiteRecord { consecutive_errors: 0, ..record.clone() }
    });
    let id = NotificationId(chance.random_range(0..=record.last_notification.0));
    let (kind, text, details) = (NotificationKind::Usable, Arc::from("late"), Vec::new());
    let message = Notification { id, kind, at, text, details };
    let late = apply(record, Happened::NotificationOwed(message));
    let right = same && again && late.last_notification == record.last_notification;
    (!right).then(|| format!("events that do not fit change {record:?}"))
}

/// Intervals between probes, and the patience of the reference where none is given.
fn settings(chance: &mut StdRng) -> Option<String> {
    let sizes = [1, 60_000, 3_600_000, u64::MAX / 2, u64::MAX];
    let mut length = || DurationMs(sizes[chance.random_range(0..5)]);
    let (probe_interval, most) = (length(), length());
    let probe_interval_max = DurationMs(most.0.min(u64::MAX / 2));
    let spread = PerMillion(chance.random_range(0..=1_000_000));
    let parameters = SiteParameters {
        probe_interval,
        probe_interval_max,
        probe_spread: spread,
        ..SiteParameters::default()
    };
    let trips = [0, 1, 2, 3, 7, 64, 65, 66, u32::MAX][chance.random_range(0..9)];
    let jitter = PerMillion([0, 1, 500_000, 1_000_000, u32::MAX][chance.random_range(0..5)]);
    let (is, ought) = (parameters.interval(trips, jitter), interval(&parameters, trips, jitter));
    if is != ought {
        return Some(format!("{parameters:?} wait {is:?}, not {ought:?} after {trips} openings"));
    }
    let silent = ContactParameters::default().unreachable_after;
    (silent != DurationMs(30_000)).then(|| format!("a site is unreachable after {silent}"))
}
