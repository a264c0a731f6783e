//! Whether a site takes work, and why not: every obstacle with its data in order, the state
//! that people see, what placement sees, and when that changes by itself. Breaker, operators'
//! orders, contact and clock are drawn apart from each other.

use std::collections::BTreeSet;
use std::fmt::Debug;

use cospan_domain::ids::{Attempt, ComponentIndex, JobId, KeyName, SiteName};
use cospan_domain::machine::Machine;
use cospan_domain::placement::{Acceptance, Hindrance};
use cospan_domain::site::SiteMachine;
use cospan_domain::site::availability::{Obstacle, SiteState, obstacles, serves_files, state};
use cospan_domain::site::contact::Contact;
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::parameters::SiteParameters;
use cospan_domain::site::state::{AttemptId, Breaker, Forced, Order, SiteRecord, Window};
use cospan_domain::units::Timestamp;
use rand::Rng;
use rand::rngs::StdRng;

use super::breakers::KINDS;
use super::verdicts::{anybody_from, jobs_of};

const NOW: Timestamp = Timestamp(10_000_000);
const HOUR: u64 = 3_600_000;

/// What keeps work away, as the sites it is about have it.
struct Case {
    record: SiteRecord,
    contact: Contact,
    held: u32,
    may_probe: bool,
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut found = words();
    for _ in 0..3 {
        let Some(case) = draw(chance) else { return vec!["no site can be drawn".to_owned()] };
        found.extend(differs(&case));
    }
    found
}

/// A moment just before, at or after now, or long before or after.
fn near(chance: &mut StdRng) -> Timestamp {
    let far = [NOW.0 - 1, NOW.0, NOW.0 + 1, NOW.0 - HOUR, NOW.0 - HOUR + 1, NOW.0 + HOUR];
    Timestamp(match chance.random_bool(0.5) {
        true => far[chance.random_range(0..far.len())],
        false => NOW.0 - 30_000 + 1_000 * chance.random_range(0..=60),
    })
}

fn draw(chance: &mut StdRng) -> Option<Case> {
    let mut record = SiteRecord::new(SiteName::new("delft").ok()?);
    let keys = [KeyName::new("alice").ok()?, KeyName::new("bob").ok()?];
    let key = |chance: &mut StdRng| keys[chance.random_range(0..2)].clone();
    let attempts = (0..chance.random_range(0..5)).map(|_| AttemptId {
        job: JobId(chance.random_range(0..3)),
        component: ComponentIndex(chance.random_range(0..2)),
        attempt: Attempt(chance.random_range(1..3)),
    });
    let running: BTreeSet<AttemptId> = attempts.collect();
    record.consecutive_errors = chance.random_range(0..9);
    let (since, trips, probe_at) = (near(chance), chance.random_range(1..4), near(chance));
    record.breaker = match chance.random_range(0..4) {
        0 => Breaker::Closed,
        1 => Breaker::Open { since, probe_at, trips },
        _ => Breaker::HalfOpen { since, allowed: chance.random_range(0..4), running, trips },
    };
    let order =
        |chance: &mut StdRng, by| chance.random_bool(0.2).then(|| Order { by, at: near(chance) });
    let (by, other) = (key(chance), key(chance));
    record.operator.draining = order(chance, by);
    record.operator.frozen = order(chance, other);
    let forced = Forced { usable: chance.random_bool(0.5), until: near(chance), by: key(chance) };
    record.operator.forced = Some(forced).filter(|_| chance.random_bool(0.3));
    let starts: BTreeSet<Timestamp> =
        (0..chance.random_range(0..4)).map(|_| near(chance)).collect();
    for from in starts {
        let (until, by, reason) = (near(chance).max(from), key(chance), "disks".into());
        record.operator.windows.push(Window { from, until, by, reason });
    }
    let (since, at) = (near(chance), near(chance));
    let contact = match chance.random_range(0..6) {
        0 => Contact::NeverAnswered,
        1 => Contact::Unreachable { since, last_answer: Some(at) },
        2 => Contact::CredentialsExpired { since },
        _ => Contact::Answering { last_at: at },
    };
    let (held, may_probe) = (chance.random_range(0..2), chance.random_bool(0.5));
    Some(Case { record, contact, held, may_probe })
}

fn forced(record: &SiteRecord) -> Option<&Forced> {
    record.operator.forced.as_ref().filter(|forced| NOW < forced.until)
}

/// Of the windows that now is in the one that ends last.
fn window(record: &SiteRecord) -> Option<Timestamp> {
    let open = record.operator.windows.iter().filter(|w| (w.from..w.until).contains(&NOW));
    open.map(|window| window.until).max()
}

fn anybody(record: &SiteRecord) -> bool {
    anybody_from(&record.breaker).is_some_and(|from| from <= NOW)
}

/// What errors, or an operator's word about them, keep away.
fn distrust(record: &SiteRecord, may_probe: bool) -> Option<Obstacle> {
    let may_probe = may_probe || anybody(record);
    match (forced(record), &record.breaker) {
        (Some(Forced { usable: false, until, by }), _) => {
            Some(Obstacle::ForcedUnusable { by: by.clone(), until: *until })
        }
        (Some(_), _) | (None, Breaker::Closed) => None,
        (None, Breaker::Open { probe_at, .. }) if NOW < *probe_at => {
            Some(Obstacle::BreakerOpen { errors: record.consecutive_errors, probe_at: *probe_at })
        }
        _ if !may_probe => Some(Obstacle::OnlyRerunnable),
        (None, Breaker::HalfOpen { allowed, running, .. }) if jobs_of(running) >= *allowed => {
            Some(Obstacle::ProbesTaken { allowed: *allowed })
        }
        _ => None,
    }
}

/// The most lasting first.
fn all(case: &Case, may_probe: bool) -> Vec<Obstacle> {
    let (record, mut all) = (&case.record, Vec::new());
    if let Some(order) = &record.operator.draining {
        all.push(Obstacle::Draining { by: order.by.clone(), empty: case.held == 0 });
    }
    all.extend(window(record).map(|until| Obstacle::Maintenance { until }));
    match case.contact {
        Contact::NeverAnswered => all.push(Obstacle::NeverAnswered),
        Contact::Unreachable { since, .. } => all.push(Obstacle::Unreachable { since }),
        Contact::CredentialsExpired { since } => all.push(Obstacle::CredentialsExpired { since }),
        Contact::Answering { .. } => {}
    }
    all.extend(distrust(record, may_probe));
    if let Some(order) = &record.operator.frozen {
        all.push(Obstacle::Frozen { by: order.by.clone() });
    }
    all
}

/// What people see, what placement sees, and how many more jobs may try it out.
fn seen(case: &Case) -> (SiteState, Acceptance, Option<u32>) {
    let closed = |state, hindrance| (state, Acceptance::Closed(hindrance), None);
    let (record, any) = (&case.record, anybody(&case.record));
    let probing = |free: u32| {
        let acceptance = match (free, any) {
            (0, _) => Acceptance::Closed(Hindrance::Probing),
            (_, true) => Acceptance::Open,
            (_, false) => Acceptance::ProbesOnly,
        };
        (SiteState::Probing { free, any }, acceptance, Some(free))
    };
    match all(case, true).first() {
        None => match (forced(record), &record.breaker) {
            (Some(_), _) | (None, Breaker::Closed) => (SiteState::Usable, Acceptance::Open, None),
            (None, Breaker::Open { .. }) => probing(1),
            (None, Breaker::HalfOpen { allowed, running, .. }) => {
                probing(*allowed - jobs_of(running))
            }
        },
        Some(Obstacle::Draining { .. }) if case.held == 0 => {
            closed(SiteState::Drained, Hindrance::Drained)
        }
        Some(Obstacle::Draining { .. }) => closed(SiteState::Draining, Hindrance::Draining),
        Some(Obstacle::Maintenance { .. }) => {
            closed(SiteState::Maintenance, Hindrance::Maintenance)
        }
        Some(Obstacle::CredentialsExpired { .. }) => {
            closed(SiteState::CredentialsExpired, Hindrance::CredentialsExpired)
        }
        Some(Obstacle::Unreachable { .. }) => {
            closed(SiteState::Unreachable, Hindrance::Unreachable)
        }
        Some(Obstacle::NeverAnswered) => closed(SiteState::Unknown, Hindrance::Unknown),
        Some(Obstacle::ForcedUnusable { .. } | Obstacle::BreakerOpen { .. }) => {
            closed(SiteState::Unusable, Hindrance::Unusable)
        }
        Some(Obstacle::ProbesTaken { .. } | Obstacle::OnlyRerunnable) => probing(0),
        Some(Obstacle::Frozen { .. }) => closed(SiteState::Frozen, Hindrance::Frozen),
    }
}

/// The first change by the clock alone that is to come.
fn wakes(record: &SiteRecord) -> Option<Timestamp> {
    let mut changes: Vec<Timestamp> = anybody_from(&record.breaker).into_iter().collect();
    if let Breaker::Open { probe_at, .. } = record.breaker {
        changes.push(probe_at);
    }
    changes.extend(record.operator.forced.iter().map(|forced| forced.until));
    changes.extend(record.operator.windows.iter().flat_map(|window| [window.from, window.until]));
    changes.into_iter().filter(|change| *change > NOW).min()
}

fn differs(case: &Case) -> Option<String> {
    let Case { record, contact, held, may_probe } = case;
    let told = obstacles(record, *contact, *held, *may_probe, NOW);
    let expected = all(case, *may_probe);
    let is = state(record, *contact, *held, NOW);
    let (shown, acceptance, room) = seen(case);
    let answers = matches!(contact, Contact::Answering { .. });
    let unreachable = match contact {
        Contact::Unreachable { since, .. } => Some(*since),
        _ => None,
    };
    let wake = SiteMachine::next_wake(record, &SiteParameters::default(), NOW);
    let checks = [
        (told == expected, "what keeps work away"),
        (is == shown, "its state"),
        ((is.acceptance(), is.probe_room()) == (acceptance, room), "how placement sees it"),
        (is.accepts_placement(*may_probe) == expected.is_empty(), "whether it takes work"),
        (serves_files(record, *contact, NOW) == (answers && window(record).is_none()), "files"),
        (wake == wakes(record), "when it changes"),
        (contact.unreachable_since() == unreachable, "since when it is unreachable"),
        (contact.is_answering() == answers, "whether it answers"),
        (record.breaker.tried_by_any_from() == anybody_from(&record.breaker), "who tries it out"),
        (is.as_str() == kebab(&is) && contact.as_str() == kebab(contact), "what it is called"),
        (told.iter().all(speaks), "what an obstacle says"),
    ];
    let (_, what) = checks.into_iter().find(|(right, _)| !right)?;
    let is = format!("{told:?} {is:?} {:?} {wake:?}", is.acceptance());
    let ought = format!("{expected:?} {shown:?} {acceptance:?} {:?}", wakes(record));
    Some(format!("{what} of {record:?}, {contact:?}: {is}, not {ought}"))
}

/// An obstacle is called what it is, and names whom or what it is about.
fn speaks(obstacle: &Obstacle) -> bool {
    let text = obstacle.to_string();
    let says = match obstacle {
        Obstacle::Draining { by, empty } => {
            text.contains(by.as_str()) && text.contains(if *empty { "emptied" } else { "emptying" })
        }
        Obstacle::ForcedUnusable { by, .. } => {
            text.contains(by.as_str()) && text.contains("unusable")
        }
        Obstacle::Frozen { by } => text.contains(by.as_str()) && text.contains("new"),
        Obstacle::BreakerOpen { errors, .. } => text.contains(&format!(" {errors} ")),
        Obstacle::ProbesTaken { allowed } => text.contains(&format!(" {allowed} ")),
        Obstacle::Maintenance { .. } => text.contains("maintenance"),
        Obstacle::CredentialsExpired { .. } => text.contains("credentials"),
        Obstacle::Unreachable { .. } | Obstacle::NeverAnswered => text.contains("answer"),
        Obstacle::OnlyRerunnable => text.contains("twice"),
    };
    let name = match obstacle {
        Obstacle::Draining { empty: true, .. } => "drained".to_owned(),
        _ => kebab(obstacle),
    };
    says && obstacle.code() == name
}

/// The name of a variant, in small letters with hyphens.
fn kebab(is: &impl Debug) -> String {
    let shown = format!("{is:?}");
    let name = shown.split([' ', '{', '(']).next().unwrap_or_default();
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

/// Names in the journal and in messages; of all failures only one is the site's.
fn words() -> Vec<String> {
    let mut found = Vec::new();
    for kind in KINDS.into_iter().filter(|kind| kind.as_str() != kebab(kind)) {
        found.push(format!("{kind:?} is called {}", kind.as_str()));
    }
    for class in FailureClass::ALL {
        let right = class.charges_site() == (kebab(&class) == "site");
        if class.as_str() != kebab(&class) || !right {
            found.push(format!("{class:?} is called {}", class.as_str()));
        }
    }
    found
}
