//! The record of a site, command by command: which events are written and with what, what the
//! record is afterwards, which messages are owed to its administrator, and why a command is
//! refused. The record is worked out anew from the command alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{JobId, KeyName};
use cospan_domain::site::command::{Operation, ProbeOutcome, Rejection, SiteCommand};
use cospan_domain::site::event::{Happened, SiteEvent};
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::parameters::SiteParameters;
use cospan_domain::site::state::{
    AttemptId, Breaker, ErrorDetail, Forced, Notification, NotificationId, NotificationKind, Order,
    SiteRecord, Window,
};
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};

/// What the reference says how many are kept: outcomes, errors, messages, windows.
pub(super) const OUTCOMES: usize = 256;
pub(super) const ERRORS: usize = 5;
pub(super) const MESSAGES: usize = 4;
pub(super) const WINDOWS: usize = 32;
/// So long a site waits for those who may run twice.
const WAITS: u64 = 3_600_000;
const TEXT_BYTES: usize = 512;

/// A record and what is written while a command changes it.
pub(super) struct Desk<'a> {
    pub(super) record: SiteRecord,
    pub(super) written: Vec<Happened>,
    pub(super) parameters: &'a SiteParameters,
    pub(super) now: Timestamp,
    /// What the domain wrote: the words of its messages are its own.
    pub(super) told: &'a [SiteEvent],
}

/// One line without spaces around it, and its beginning only if it is long.
pub(super) fn line(text: &str) -> Arc<str> {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.len() <= TEXT_BYTES {
        return line.into();
    }
    let mut begun = String::new();
    for c in line.chars() {
        if begun.len() + c.len_utf8() > TEXT_BYTES - 3 {
            break;
        }
        begun.push(c);
    }
    (begun + "...").into()
}

/// Time to the next probe: doubled each time up to a bound, and a drawn part of the spread.
pub(super) fn interval(parameters: &SiteParameters, trips: u32, jitter: PerMillion) -> DurationMs {
    let mut length = u128::from(parameters.probe_interval.0);
    let most = u128::from(parameters.probe_interval_max.0);
    for _ in 1..trips.min(200) {
        length = (2 * length).min(most);
    }
    let length = length.min(most);
    let part = |of: u128, share: u32| (of * u128::from(share)).div_ceil(1_000_000);
    let spread = part(length, parameters.probe_spread.0);
    let extra = part(spread, jitter.0.min(1_000_000));
    DurationMs(u64::try_from(length + extra).unwrap_or(u64::MAX))
}

fn push<T>(queue: &mut std::collections::VecDeque<T>, item: T, most: usize) -> bool {
    queue.push_back(item);
    let full = queue.len() > most;
    if full {
        queue.pop_front();
    }
    full
}

pub(super) fn jobs_of(running: &BTreeSet<AttemptId>) -> u32 {
    let jobs: BTreeSet<JobId> = running.iter().map(|attempt| attempt.job).collect();
    u32::try_from(jobs.len()).unwrap_or(u32::MAX)
}

/// When anybody may try a site out.
pub(super) fn anybody_from(breaker: &Breaker) -> Option<Timestamp> {
    match breaker {
        Breaker::Closed => None,
        Breaker::Open { probe_at, .. } => Some(Timestamp(probe_at.0 + WAITS)),
        Breaker::HalfOpen { since, .. } => Some(Timestamp(since.0 + WAITS)),
    }
}

impl Desk<'_> {
    pub(super) fn carry_out(&mut self, command: &SiteCommand) -> Result<(), Rejection> {
        match command {
            SiteCommand::RecordError { attempt, class, detail, isolated, jitter } => {
                self.fail(*attempt, *class, detail, *isolated, *jitter);
            }
            SiteCommand::RecordSuccess { attempt } => self.succeed(*attempt),
            SiteCommand::StartProbe { probe, may_probe } => {
                return self.let_in(*probe, *may_probe);
            }
            SiteCommand::EndProbe { probe, .. } if !self.is_probe(*probe) => {}
            SiteCommand::EndProbe { probe, outcome, jitter } => match outcome {
                ProbeOutcome::Succeeded => self.succeed(*probe),
                ProbeOutcome::Failed => self.open(NotificationKind::ProbeFailed, *jitter),
                ProbeOutcome::Inconclusive => self.end_probe(*probe, false, None),
            },
            SiteCommand::ReconcileProbes { live } => {
                let Breaker::HalfOpen { running, .. } = &self.record.breaker else { return Ok(()) };
                let gone: Vec<AttemptId> = running.difference(live).copied().collect();
                gone.into_iter().for_each(|probe| self.end_probe(probe, false, None));
            }
            SiteCommand::Notify { kind, text, details } => {
                let details = details.iter().take(ERRORS).map(|detail| line(detail)).collect();
                self.owe(*kind, Some(line(text)), &[], details);
            }
            SiteCommand::NotificationSent { id } => {
                let before = self.record.owed.len();
                self.record.owed.retain(|owed| owed.id != *id);
                if self.record.owed.len() < before {
                    self.written.push(Happened::NotificationSent { id: *id });
                }
            }
            SiteCommand::Operate { by, what } => return self.operate(by, what),
        }
        Ok(())
    }

    fn is_probe(&self, attempt: AttemptId) -> bool {
        matches!(&self.record.breaker, Breaker::HalfOpen { running, .. } if running.contains(&attempt))
    }

    fn remember(&mut self, attempt: AttemptId) {
        push(&mut self.record.counted, attempt, OUTCOMES);
    }

    fn end_probe(&mut self, probe: AttemptId, succeeded: bool, next: Option<u32>) {
        let Breaker::HalfOpen { allowed, running, .. } = &mut self.record.breaker else { return };
        if running.remove(&probe) {
            *allowed = next.unwrap_or(*allowed);
            self.written.push(Happened::ProbeEnded { probe, succeeded, allowed: *allowed });
        }
    }

    /// An error of the site counts once; the one too many, or one of a probe, opens.
    fn fail(
        &mut self,
        attempt: AttemptId,
        class: FailureClass,
        detail: &str,
        isolated: bool,
        jitter: PerMillion,
    ) {
        if class != FailureClass::Site || self.record.counted.contains(&attempt) {
            return self.end_probe(attempt, false, None);
        }
        self.remember(attempt);
        if isolated {
            self.written.push(Happened::ErrorExcused { attempt });
            return self.end_probe(attempt, false, None);
        }
        let (detail, at) = (line(detail), self.now);
        self.written.push(Happened::ErrorCharged { attempt, class, detail: detail.clone() });
        push(&mut self.record.recent_errors, ErrorDetail { attempt, class, at, detail }, ERRORS);
        self.record.consecutive_errors += 1;
        let many = self.record.consecutive_errors >= self.parameters.site_error_threshold.max(1);
        if self.is_probe(attempt) {
            self.open(NotificationKind::ProbeFailed, jitter);
        } else if self.record.breaker == Breaker::Closed && many {
            self.open(NotificationKind::Unusable, jitter);
        }
    }

    fn open(&mut self, kind: NotificationKind, jitter: PerMillion) {
        let trips = self.record.breaker.trips() + 1;
        let interval = interval(self.parameters, trips, jitter);
        let probe_at = Timestamp(self.now.0 + interval.0);
        self.record.breaker = Breaker::Open { since: self.now, probe_at, trips };
        self.written.push(Happened::BreakerOpened { probe_at, trips });
        let mut words = vec![self.record.site.to_string(), "unusable".into(), interval.to_string()];
        words.push(match kind {
            NotificationKind::Unusable => format!(" {} ", self.record.consecutive_errors),
            _ => "probe failed".into(),
        });
        let details = self.record.recent_errors.iter().map(|error| error.detail.clone()).collect();
        self.owe(kind, None, &words, details);
    }

    fn succeed(&mut self, attempt: AttemptId) {
        if self.record.counted.contains(&attempt) {
            return self.end_probe(attempt, false, None);
        }
        let probe = self.is_probe(attempt);
        if probe || self.record.consecutive_errors > 0 {
            self.written.push(Happened::SuccessCounted { attempt });
            self.record.consecutive_errors = 0;
            self.remember(attempt);
        }
        let Breaker::HalfOpen { allowed, running, .. } = &self.record.breaker else { return };
        let most = self.parameters.probe_limit.max(1);
        let alone = jobs_of(running) > jobs_of(&without(running, attempt));
        match () {
            () if !probe => {}
            () if !alone => self.end_probe(attempt, true, None),
            () if *allowed < most => {
                let doubled = (2 * *allowed).min(most);
                self.end_probe(attempt, true, Some(doubled));
            }
            () => {
                self.record.breaker = Breaker::Closed;
                self.written.push(Happened::BreakerClosed);
                let words = [self.record.site.to_string(), " usable again".into()];
                self.owe(NotificationKind::Usable, None, &words, Vec::new());
            }
        }
    }

    /// Whether a component may go there while errors keep work away.
    fn let_in(&mut self, probe: AttemptId, may_probe: bool) -> Result<(), Rejection> {
        let now = self.now;
        if let Some(Forced { usable, until, .. }) = self.record.operator.forced
            && now < until
        {
            return if usable { Ok(()) } else { Err(Rejection::ForcedUnusable { until }) };
        }
        let may = may_probe || anybody_from(&self.record.breaker).is_some_and(|from| from <= now);
        let errors = self.record.consecutive_errors;
        match &mut self.record.breaker {
            Breaker::Closed => return Ok(()),
            Breaker::Open { probe_at, .. } if now < *probe_at => {
                return Err(Rejection::NotYetProbed { errors, probe_at: *probe_at });
            }
            Breaker::Open { .. } if !may => return Err(Rejection::OnlyRerunnable),
            Breaker::Open { trips, .. } => {
                let (trips, running) = (*trips, [probe].into());
                self.record.breaker = Breaker::HalfOpen { since: now, allowed: 1, running, trips };
            }
            Breaker::HalfOpen { allowed, running, .. } => {
                let joins = running.iter().any(|other| other.job == probe.job);
                if !joins && !may {
                    return Err(Rejection::OnlyRerunnable);
                }
                if !joins && jobs_of(running) >= *allowed {
                    return Err(Rejection::ProbesTaken { allowed: *allowed });
                }
                if !running.insert(probe) {
                    return Ok(());
                }
            }
        }
        self.written.push(Happened::ProbeStarted { probe });
        Ok(())
    }

    /// A message is owed; of too many the newest are kept. What it says by itself has `words`.
    fn owe(
        &mut self,
        kind: NotificationKind,
        text: Option<Arc<str>>,
        words: &[String],
        details: Vec<Arc<str>>,
    ) {
        let told = self.told.get(self.written.len()).map(|event| &event.what);
        let own = match told {
            Some(Happened::NotificationOwed(message)) => &*message.text,
            _ => "",
        };
        let lacks = words.iter().find(|word| !own.contains(word.as_str()));
        let own = lacks.map_or_else(|| own.into(), |word| format!("what says {word:?}").into());
        let id = NotificationId(self.record.last_notification.0 + 1);
        let text = text.unwrap_or(own);
        let message = Notification { id, kind, at: self.now, text, details };
        self.record.last_notification = id;
        if push(&mut self.record.owed, message.clone(), MESSAGES) {
            self.record.notifications_dropped += 1;
        }
        self.written.push(Happened::NotificationOwed(message));
    }

    fn operate(&mut self, by: &KeyName, what: &Operation) -> Result<(), Rejection> {
        let (operator, by, at) = (&mut self.record.operator, by.clone(), self.now);
        let order = Order { by: by.clone(), at };
        let event = match what {
            Operation::Drain if operator.draining.is_none() => {
                operator.draining = Some(order);
                Happened::DrainOrdered { by }
            }
            Operation::Undrain if operator.draining.take().is_some() => {
                Happened::DrainLifted { by }
            }
            Operation::Freeze if operator.frozen.is_none() => {
                operator.frozen = Some(order);
                Happened::FreezeOrdered { by }
            }
            Operation::Thaw if operator.frozen.take().is_some() => Happened::FreezeLifted { by },
            Operation::Unforce if operator.forced.take().is_some() => {
                Happened::VerdictReleased { by }
            }
            Operation::Drain | Operation::Undrain | Operation::Freeze | Operation::Thaw => {
                return Err(Rejection::AlreadySo);
            }
            Operation::Unforce => return Err(Rejection::AlreadySo),
            Operation::SetWindow { from, until, reason } => {
                return self.set_window(*from, *until, reason, by);
            }
            Operation::RemoveWindow { from } => {
                let at = operator.windows.iter().position(|window| window.from == *from);
                operator.windows.remove(at.ok_or(Rejection::NoSuchWindow)?);
                Happened::WindowRemoved { from: *from, by }
            }
            Operation::Force { until, .. } if *until <= at => return Err(Rejection::Past),
            Operation::Force { usable, until } => {
                let (usable, until) = (*usable, *until);
                operator.forced = Some(Forced { usable, until, by: by.clone() });
                Happened::VerdictForced { usable, until, by }
            }
            Operation::ResetErrors => {
                operator.reset = Some(order);
                self.record.breaker = Breaker::Closed;
                self.record.consecutive_errors = 0;
                Happened::ErrorsReset { by }
            }
        };
        self.written.push(event);
        Ok(())
    }

    /// Windows that are over make room for one more.
    fn set_window(
        &mut self,
        from: Timestamp,
        until: Timestamp,
        reason: &str,
        by: KeyName,
    ) -> Result<(), Rejection> {
        if until <= from || until <= self.now {
            return Err(Rejection::EmptyWindow);
        }
        let stays = |window: &Window| window.from != from && self.now < window.until;
        let mut windows = self.record.operator.windows.clone();
        windows.retain(stays);
        if windows.len() >= WINDOWS {
            return Err(Rejection::TooManyWindows);
        }
        let reason = line(reason);
        windows.push(Window { from, until, by: by.clone(), reason: reason.clone() });
        windows.sort_by_key(|window| window.from);
        self.record.operator.windows = windows;
        self.written.push(Happened::WindowSet { from, until, reason, by });
        Ok(())
    }
}

fn without(running: &BTreeSet<AttemptId>, attempt: AttemptId) -> BTreeSet<AttemptId> {
    running.iter().copied().filter(|other| *other != attempt).collect()
}
