//! The record of a site: what operators said, what its errors come to, and whether it takes
//! work. Errors and probes come in orders that sites under faults seldom give.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use cospan_domain::site::availability::{Obstacle, obstacles, serves_files, state};
use cospan_domain::site::command::{Operation, ProbeOutcome, SiteCommand};
use cospan_domain::site::contact::Contact;
use cospan_domain::site::decide::decide;
use cospan_domain::site::due::next_wake;
use cospan_domain::site::evolve::evolve;
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::parameters::SiteParameters;
use cospan_domain::site::state::{AttemptId, Breaker, SiteRecord};
use cospan_domain::units::{PerMillion, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Commands of one case.
const STEPS: usize = 36;
/// Maintenance windows of a site, as the reference has it.
const WINDOWS_MAX: usize = 32;
/// Errors in a row until a site is unusable, and probes side by side until it is usable.
const ERRORS_MAX: u32 = 3;
const PROBES_MAX: u32 = 4;
/// So long a site waits for those who may run twice.
const WAITS: u64 = 60 * MINUTE;
const MINUTE: u64 = 60_000;

/// Whether its errors keep work away.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trust {
    Full,
    /// Opened so often, the last time then.
    None(u32, u64),
    /// Opened so often; so many may try it out, and these do; the first one began then.
    Some(u32, u32, BTreeSet<AttemptId>, u64),
}

/// What is plainly so.
#[derive(Debug, Clone)]
struct Site {
    drained: bool,
    frozen: bool,
    windows: BTreeMap<u64, u64>,
    forced: Option<(bool, u64)>,
    errors: u32,
    counted: BTreeSet<AttemptId>,
    trust: Trust,
}

fn id(job: u64, component: u32) -> AttemptId {
    AttemptId { job: JobId(job), component: ComponentIndex(component), attempt: Attempt(1) }
}

fn trying(running: &BTreeSet<AttemptId>) -> u32 {
    let jobs: BTreeSet<JobId> = running.iter().map(|attempt| attempt.job).collect();
    u32::try_from(jobs.len()).unwrap_or(u32::MAX)
}

impl Site {
    fn is_probe(&self, attempt: AttemptId) -> bool {
        matches!(&self.trust, Trust::Some(.., running, _) if running.contains(&attempt))
    }

    fn forget(&mut self, attempt: AttemptId) {
        if let Trust::Some(.., running, _) = &mut self.trust {
            running.remove(&attempt);
        }
    }

    fn open(&mut self, now: u64) {
        let trips = match &self.trust {
            Trust::Full => 0,
            Trust::None(trips, _) | Trust::Some(trips, ..) => *trips,
        };
        self.trust = Trust::None(trips + 1, now);
    }

    fn fail(&mut self, attempt: AttemptId, class: FailureClass, isolated: bool, now: u64) {
        let is_news = class == FailureClass::Site && !self.counted.contains(&attempt);
        if !is_news {
            return self.forget(attempt);
        }
        self.counted.insert(attempt);
        if isolated {
            return self.forget(attempt);
        }
        self.errors += 1;
        if self.is_probe(attempt) || (self.trust == Trust::Full && self.errors >= ERRORS_MAX) {
            self.open(now);
        }
    }

    fn succeed(&mut self, attempt: AttemptId) {
        if self.counted.contains(&attempt) {
            return self.forget(attempt);
        }
        let probe = self.is_probe(attempt);
        if probe || self.errors > 0 {
            self.errors = 0;
            self.counted.insert(attempt);
        }
        let Trust::Some(_, allowed, running, _) = &mut self.trust else { return };
        if !running.remove(&attempt) || running.iter().any(|other| other.job == attempt.job) {
            return;
        }
        match *allowed < PROBES_MAX {
            true => *allowed = (*allowed * 2).min(PROBES_MAX),
            false => (self.trust, self.errors) = (Trust::Full, 0),
        }
    }

    /// Whether a component may go there, and is let in.
    fn enter(&mut self, probe: AttemptId, may_probe: bool, probe_at: u64, now: u64) -> bool {
        if let Some((usable, until)) = self.forced
            && now < until
        {
            return usable;
        }
        let may_probe = may_probe || self.tried_by_any_from(probe_at) <= now;
        match &mut self.trust {
            Trust::Full => true,
            Trust::Some(.., running, _) if running.iter().any(|r| r.job == probe.job) => {
                running.insert(probe);
                true
            }
            Trust::None(..) if now < probe_at || !may_probe => false,
            Trust::None(trips, _) => {
                self.trust = Trust::Some(*trips, 1, [probe].into(), now);
                true
            }
            Trust::Some(_, allowed, running, _) => {
                let enters = may_probe && trying(running) < *allowed;
                if enters {
                    running.insert(probe);
                }
                enters
            }
        }
    }

    /// When anybody may try it out; never before it has failed.
    fn tried_by_any_from(&self, probe_at: u64) -> u64 {
        match &self.trust {
            Trust::Full => u64::MAX,
            Trust::None(..) => probe_at + WAITS,
            Trust::Some(.., since) => since + WAITS,
        }
    }

    /// Whether an order makes sense, which is then carried out.
    fn operate(&mut self, what: &Operation, now: u64) -> bool {
        match what {
            Operation::Drain => !std::mem::replace(&mut self.drained, true),
            Operation::Undrain => std::mem::replace(&mut self.drained, false),
            Operation::Freeze => !std::mem::replace(&mut self.frozen, true),
            Operation::Thaw => std::mem::replace(&mut self.frozen, false),
            Operation::SetWindow { from, until, .. } => {
                let to_come = |(other, end): &(&u64, &u64)| **other != from.0 && now < **end;
                let others = self.windows.iter().filter(to_come).count();
                let fits = from < until && now < until.0 && others < WINDOWS_MAX;
                if fits {
                    self.windows.retain(|_, end| now < *end);
                    self.windows.insert(from.0, until.0);
                }
                fits
            }
            Operation::RemoveWindow { from } => self.windows.remove(&from.0).is_some(),
            Operation::Force { usable, until } => {
                let fits = now < until.0;
                self.forced = if fits { Some((*usable, until.0)) } else { self.forced };
                fits
            }
            Operation::Unforce => self.forced.take().is_some(),
            Operation::ResetErrors => {
                (self.trust, self.errors) = (Trust::Full, 0);
                true
            }
        }
    }

    /// Everything that keeps work away, in words.
    fn hindrances(
        &self,
        contact: Contact,
        may_probe: bool,
        held: u32,
        now: u64,
        probe_at: u64,
    ) -> Vec<&'static str> {
        let forced = self.forced.filter(|(_, until)| now < *until);
        let may_probe = may_probe || self.tried_by_any_from(probe_at) <= now;
        let distrusted = match (&forced, &self.trust) {
            (Some((true, _)), _) | (None, Trust::Full) => None,
            (Some((false, _)), _) => Some("forced-unusable"),
            (None, Trust::None(..)) if now < probe_at => Some("breaker-open"),
            (None, Trust::None(..) | Trust::Some(..)) if !may_probe => Some("only-rerunnable"),
            (None, Trust::None(..)) => None,
            (None, Trust::Some(_, allowed, running, _)) => {
                (trying(running) >= *allowed).then_some("probes-taken")
            }
        };
        let silent = match contact {
            Contact::Answering { .. } => None,
            Contact::NeverAnswered => Some("never-answered"),
            Contact::Unreachable { .. } => Some("unreachable"),
            Contact::CredentialsExpired { .. } => Some("credentials-expired"),
        };
        let drained = self.drained.then_some(if held == 0 { "drained" } else { "draining" });
        let worked_on = self.is_worked_on(now).then_some("maintenance");
        let frozen = self.frozen.then_some("frozen");
        [drained, worked_on, silent, distrusted, frozen].into_iter().flatten().collect()
    }

    fn is_worked_on(&self, now: u64) -> bool {
        self.windows.iter().any(|(from, until)| (*from..*until).contains(&now))
    }
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let (Ok(name), Ok(by)) = (SiteName::new("delft"), KeyName::new("operator")) else {
        return Vec::new();
    };
    let parameters = SiteParameters::default();
    let mut record = SiteRecord::new(name);
    let mut site = Site {
        drained: false,
        frozen: false,
        windows: BTreeMap::new(),
        forced: None,
        errors: 0,
        counted: BTreeSet::new(),
        trust: Trust::Full,
    };
    let crowded = chance.random_bool(0.3);
    let mut now = 1_000_000;
    for _ in 0..STEPS {
        now += if chance.random_bool(0.05) { WAITS } else { chance.random_range(0..2 * MINUTE) };
        let command = draw(chance, &by, crowded, now);
        let before = record.breaker.clone();
        let decided = decide(&record, &parameters, command.clone(), Timestamp(now));
        let expected = follow(&mut site, &command, probe_at(&before), now);
        if decided.is_ok() != expected {
            return vec![format!("{command:?} at {now} came to {decided:?}: {record:?}")];
        }
        decided.iter().flatten().for_each(|event| evolve(&mut record, event));
        if let Some(text) = differs(chance, &site, &record, now) {
            return vec![format!("{text} after {command:?} at {now}: {record:?}, not {site:?}")];
        }
    }
    Vec::new()
}

fn probe_at(breaker: &Breaker) -> u64 {
    if let Breaker::Open { probe_at, .. } = breaker { probe_at.0 } else { 0 }
}

fn draw(chance: &mut StdRng, by: &KeyName, crowded: bool, now: u64) -> SiteCommand {
    let attempt = id(chance.random_range(0..12), chance.random_range(0..2));
    let jitter = PerMillion(chance.random_range(0..=1_000_000));
    let isolated = chance.random_bool(0.1);
    let class = *FailureClass::ALL.choose(chance).unwrap_or(&FailureClass::Site);
    let class = if chance.random_bool(0.7) { FailureClass::Site } else { class };
    let detail = "it failed".into();
    let what = if crowded { 8 } else { chance.random_range(0..9) };
    match what {
        0..=2 => SiteCommand::RecordError { attempt, class, detail, isolated, jitter },
        3 => SiteCommand::RecordSuccess { attempt },
        4 | 5 => SiteCommand::StartProbe { probe: attempt, may_probe: chance.random_bool(0.8) },
        6 => {
            let outcomes =
                [ProbeOutcome::Succeeded, ProbeOutcome::Failed, ProbeOutcome::Inconclusive];
            let outcome = outcomes[chance.random_range(0..3)];
            SiteCommand::EndProbe { probe: attempt, outcome, jitter }
        }
        7 => {
            let live = (0..12).filter(|_| chance.random_bool(0.7));
            let live = live.flat_map(|job| [id(job, 0), id(job, 1)]).collect();
            SiteCommand::ReconcileProbes { live }
        }
        _ => SiteCommand::Operate { by: by.clone(), what: draw_order(chance, crowded, now) },
    }
}

fn draw_order(chance: &mut StdRng, crowded: bool, now: u64) -> Operation {
    let mut moment = |least: u64, most: u64| {
        Timestamp(now - 5 * MINUTE + chance.random_range(least..=most) * MINUTE)
    };
    let (from, until) = (moment(0, 8), moment(4, 9));
    // So many that there may be no more, or just one.
    let far = Timestamp(now + chance.random_range(100..140) * 100 * MINUTE);
    let (from, until) = if crowded { (far, Timestamp(far.0 + MINUTE)) } else { (from, until) };
    let set = Operation::SetWindow { from, until, reason: "drawn".into() };
    if crowded {
        return set;
    }
    match chance.random_range(0..10) {
        0 => Operation::Drain,
        1 => Operation::Undrain,
        2 => Operation::Freeze,
        3 => Operation::Thaw,
        4 | 5 => set,
        6 => Operation::RemoveWindow { from },
        7 => Operation::Force { usable: chance.random_bool(0.5), until },
        8 => Operation::Unforce,
        _ => Operation::ResetErrors,
    }
}

/// What a command comes to; whether it makes sense.
fn follow(site: &mut Site, command: &SiteCommand, probe_at: u64, now: u64) -> bool {
    match command {
        SiteCommand::RecordError { attempt, class, isolated, .. } => {
            site.fail(*attempt, *class, *isolated, now);
        }
        SiteCommand::RecordSuccess { attempt } => site.succeed(*attempt),
        SiteCommand::StartProbe { probe, may_probe } => {
            return site.enter(*probe, *may_probe, probe_at, now);
        }
        SiteCommand::EndProbe { probe, outcome, .. } if site.is_probe(*probe) => match outcome {
            ProbeOutcome::Succeeded => site.succeed(*probe),
            ProbeOutcome::Failed => site.open(now),
            ProbeOutcome::Inconclusive => site.forget(*probe),
        },
        SiteCommand::ReconcileProbes { live } => {
            if let Trust::Some(.., running, _) = &mut site.trust {
                running.retain(|probe| live.contains(probe));
            }
        }
        SiteCommand::Operate { what, .. } => return site.operate(what, now),
        _ => {}
    }
    true
}

/// What the record says otherwise.
fn differs(
    chance: &mut StdRng,
    site: &Site,
    record: &SiteRecord,
    now: u64,
) -> Option<&'static str> {
    let trust = match &record.breaker {
        Breaker::Closed => Trust::Full,
        Breaker::Open { since, trips, .. } => Trust::None(*trips, since.0),
        Breaker::HalfOpen { allowed, running, trips, since } => {
            Trust::Some(*trips, *allowed, running.clone(), since.0)
        }
    };
    let at = Timestamp(now);
    let contacts = [
        Contact::NeverAnswered,
        Contact::Unreachable { since: at, last_answer: None },
        Contact::CredentialsExpired { since: at },
        Contact::Answering { last_at: at },
    ];
    let contact =
        if chance.random_bool(0.6) { contacts[3] } else { contacts[chance.random_range(0..3)] };
    let (held, may_probe) = (chance.random_range(0..2), chance.random_bool(0.5));
    let probe_at = probe_at(&record.breaker);
    let told = obstacles(record, contact, held, may_probe, at);
    let told: Vec<&str> = told.iter().map(Obstacle::code).collect();
    let plain = site.hindrances(contact, may_probe, held, now, probe_at);
    let takes = state(record, contact, held, at).accepts_placement(may_probe);
    let serves = contact.is_answering() && !site.is_worked_on(now);
    let operator = &record.operator;
    let ordered =
        operator.draining.is_some() == site.drained && operator.frozen.is_some() == site.frozen;
    let windows = operator.windows.iter().map(|window| (window.from.0, window.until.0));
    let open = matches!(site.trust, Trust::None(..)).then_some(probe_at);
    let any = Some(site.tried_by_any_from(probe_at)).filter(|any| *any < u64::MAX);
    let forced = operator.forced.as_ref().map(|forced| forced.until.0);
    let windows_change = site.windows.iter().flat_map(|(from, until)| [*from, *until]);
    let changes = open.into_iter().chain(any).chain(forced).chain(windows_change);
    let wakes = changes.filter(|change| now < *change).min().map(Timestamp);
    let checks = [
        (next_wake(record, at) == wakes, "when it changes by itself"),
        (record.consecutive_errors == site.errors, "errors"),
        (trust == site.trust, "the breaker"),
        (ordered && windows.eq(site.windows.iter().map(|(from, until)| (*from, *until))), "orders"),
        (told == plain, "what keeps work away"),
        (takes == plain.is_empty(), "whether it takes work"),
        (serves_files(record, contact, at) == serves, "whether it serves files"),
    ];
    checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
}
