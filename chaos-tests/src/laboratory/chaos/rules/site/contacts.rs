//! Whether sites answer, as their queries tell it, and whether it is we who are cut off: from
//! the list of everything that happened so far.

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::site::contact::{Contact, ContactLog, ContactParameters, QueryResult};
use cospan_domain::site::isolation::Isolation;
use cospan_domain::units::{DurationMs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

const STEPS: usize = 30;
const SECOND: u64 = 1_000;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    queried(chance).into_iter().chain(cut_off(chance)).collect()
}

/// A query's result and when it came.
type Told = (QueryResult, Timestamp);

fn queried(chance: &mut StdRng) -> Option<String> {
    let parameters = ContactParameters {
        unreachable_failures: chance.random_range(0..5),
        unreachable_after: DurationMs(10 * SECOND * chance.random_range(0..4)),
    };
    let (mut log, mut known, mut past) =
        (ContactLog::default(), Contact::NeverAnswered, Vec::<Told>::new());
    let mut now = 1_000_000;
    for _ in 0..STEPS {
        now += 5 * SECOND * chance.random_range(0..5);
        if chance.random_bool(0.05) {
            now -= 60 * SECOND;
        }
        let result = match chance.random_range(0..10) {
            0 => QueryResult::Answered,
            1 => QueryResult::CredentialsExpired,
            _ => QueryResult::Failed,
        };
        past.push((result, Timestamp(now)));
        let before = known;
        known = judge(&past, known, &parameters);
        let news = kind(before) != kind(known);
        let failures = row(&past).len();
        let told = log.observe(result, &parameters, Timestamp(now));
        let is = (told, log.contact(), log.failures() as usize);
        let ought = (news.then_some(known), known, failures);
        if is != ought {
            return Some(format!("{parameters:?}: {is:?}, not {ought:?} after {past:?}"));
        }
    }
    None
}

fn kind(contact: Contact) -> u8 {
    match contact {
        Contact::NeverAnswered => 0,
        Contact::Answering { .. } => 1,
        Contact::Unreachable { .. } => 2,
        Contact::CredentialsExpired { .. } => 3,
    }
}

/// The failures in a row up to now.
fn row(past: &[Told]) -> Vec<Timestamp> {
    let failures = past.iter().rev().take_while(|(result, _)| *result == QueryResult::Failed);
    failures.map(|(_, at)| *at).collect()
}

/// An answer or a refusal is known at once; silence after enough failures over enough time,
/// where nothing else was known to be wrong. A clock that is set back delays nothing.
fn judge(past: &[Told], known: Contact, parameters: &ContactParameters) -> Contact {
    let Some((result, now)) = past.last().copied() else { return known };
    let row = row(past);
    match (result, known) {
        (QueryResult::Answered, _) => Contact::Answering { last_at: now },
        (QueryResult::CredentialsExpired, Contact::CredentialsExpired { .. }) => known,
        (QueryResult::CredentialsExpired, _) => Contact::CredentialsExpired { since: now },
        (_, Contact::Unreachable { .. } | Contact::CredentialsExpired { .. }) => known,
        (QueryResult::Failed, _) => {
            let since = row.iter().copied().min().unwrap_or(now);
            let long = now.0 - since.0 >= parameters.unreachable_after.0;
            if !long || row.len() < parameters.unreachable_failures as usize {
                return known;
            }
            let answers = past.iter().rev().filter(|(told, _)| *told == QueryResult::Answered);
            let last_answer = answers.map(|(_, at)| *at).next();
            Contact::Unreachable { since, last_answer }
        }
    }
}

/// Half of the sites that were there, at least two, lost within a window: until any answers.
fn cut_off(chance: &mut StdRng) -> Option<String> {
    let window = 10 * SECOND * chance.random_range(0..4);
    let mut isolation = Isolation::new(DurationMs(window));
    let mut lost: BTreeMap<SiteName, Option<u64>> = BTreeMap::new();
    for number in 0..chance.random_range(0..8) {
        let site = SiteName::new(&format!("site-{number}")).ok()?;
        isolation.watch(site.clone());
        lost.insert(site, None);
    }
    let (mut since, mut now) = (None, 1_000_000);
    for _ in 0..STEPS {
        now += 5 * SECOND * [0, 0, 1, 2, 9][chance.random_range(0..5)];
        let site = SiteName::new(&format!("site-{}", chance.random_range(0..8))).ok()?;
        let before = since.is_some();
        let (is, ought) = match chance.random_range(0..10) {
            0 | 1 => {
                isolation.watch(site.clone());
                lost.entry(site).or_insert(None);
                (false, false)
            }
            2 if chance.random_bool(0.5) => {
                isolation.forget(&site);
                lost.remove(&site);
                (false, false)
            }
            3 if chance.random_bool(0.5) => {
                let watched = lost.contains_key(&site);
                lost.entry(site.clone()).and_modify(|lost| *lost = None);
                since = since.filter(|_| !watched);
                (isolation.answered(&site), before && watched)
            }
            _ => {
                let news = lost.get(&site).is_some_and(Option::is_none);
                if news {
                    lost.insert(site.clone(), Some(now));
                }
                if news && !before && is_ours(&lost, window, now) {
                    since = Some(Timestamp(now));
                }
                (isolation.lost(&site, Timestamp(now)), !before && since.is_some())
            }
        };
        let told = (is, isolation.since(), isolation.is_isolated());
        if told != (ought, since, since.is_some()) {
            return Some(format!("{told:?}, not {since:?}: {lost:?} within {window} at {now}"));
        }
    }
    None
}

fn is_ours(lost: &BTreeMap<SiteName, Option<u64>>, window: u64, now: u64) -> bool {
    let long_gone = lost.values().flatten().filter(|at| now - **at > window).count();
    let recent = lost.values().flatten().count() - long_gone;
    recent >= 2 && 2 * recent >= lost.len() - long_gone
}
