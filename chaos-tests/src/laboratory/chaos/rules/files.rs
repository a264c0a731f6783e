//! The catalogue: what a name stands for, where that is, and what may be taken from jobs.

use std::collections::BTreeSet;

use cospan_domain::catalogue::command::{FileCommand, Grip};
use cospan_domain::catalogue::decide::decide;
use cospan_domain::catalogue::evolve::evolve;
use cospan_domain::catalogue::state::FileRecord;
use cospan_domain::ids::{Digest, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::job::spec::Content;
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::units::{Bytes, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

/// Commands of one case.
const STEPS: usize = 16;
/// Replicas of a file, as the reference has it.
const REPLICAS_MAX: usize = 32;

type Place = (SiteName, FilePlace);

/// What the name stands for: which content, whether a directory, and where.
type Known = Option<(u8, bool, BTreeSet<Place>)>;

fn place(number: u64) -> Option<Place> {
    let site = SiteName::new(&format!("site-{}", number % 3)).ok()?;
    Some((site, FilePlace::User(RelPath::new(&format!("file-{number}")).ok()?)))
}

fn content(number: u8) -> Content {
    Content { digest: Digest([number; 32]), size: Bytes(number.into()) }
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let (Ok(name), Ok(by)) = (LogicalName::new("file"), KeyName::new("alice")) else {
        return Vec::new();
    };
    let (mut record, mut known) = (FileRecord::new(name), Known::None);
    for step in 0..STEPS {
        let (command, expected) = draw(chance, &by, &known);
        let at = Timestamp(step as u64);
        let decided = decide(&record, command.clone(), at);
        match (&decided, &expected) {
            (Ok(events), Some(_)) => events.iter().for_each(|event| evolve(&mut record, event)),
            (Err(_), None) => continue,
            _ => return vec![format!("{command:?} of {known:?} came to {decided:?}")],
        }
        known = expected.unwrap_or_default();
        let entry = record.entry.as_ref().map(|entry| {
            let replicas: BTreeSet<Place> = entry.replicas.iter().cloned().collect();
            let once = replicas.len() == entry.replicas.len();
            (entry.content, entry.directory, replicas, once)
        });
        let is = known.clone().map(|(number, kind, at)| (content(number), kind, at, true));
        if entry != is || record.is_gone() != known.is_none() {
            return vec![format!("{command:?} made {record:?} instead of {known:?}")];
        }
    }
    Vec::new()
}

/// A command, and what the name stands for afterwards; `None`: it is refused.
fn draw(chance: &mut StdRng, by: &KeyName, known: &Known) -> (FileCommand, Option<Known>) {
    let by = by.clone();
    let number = chance.random_range(0..2_u8);
    let needed_by = [0, 0, 2][chance.random_range(0..3)];
    let grip = Grip { needed_by, force: chance.random_bool(0.2) };
    let may = grip.needed_by == 0 || grip.force;
    let many = chance.random_bool(0.15);
    let drawn = chance.random_range(0..6_u64);
    let (site, at) = place(drawn).unwrap_or_else(|| unreachable!("a name"));
    match chance.random_range(0..5) {
        0 | 1 => {
            let last = if many { drawn + chance.random_range(30..=34) } else { drawn + 1 };
            let replicas: Vec<Place> = (drawn..last).filter_map(place).collect();
            let (directory, replace) = (chance.random_bool(0.2), chance.random_bool(0.5));
            let asked: BTreeSet<Place> = replicas.iter().cloned().collect();
            let after = register(known, (number, directory), asked, replace && may);
            let content = content(number);
            let command = FileCommand::Register { content, directory, replicas, by, replace, grip };
            (command, after)
        }
        2 | 3 if chance.random_bool(0.6) => {
            let digest = content(number).digest;
            let after = known.clone().filter(|(known, ..)| *known == number);
            let after = after.and_then(|(number, kind, mut places)| {
                places.insert((site.clone(), at.clone()));
                (places.len() <= REPLICAS_MAX).then_some(Some((number, kind, places)))
            });
            (FileCommand::AddReplica { site, place: at, digest, by }, after)
        }
        2 | 3 => {
            let after = known.clone().and_then(|(number, kind, mut places)| {
                let was = places.remove(&(site.clone(), at.clone()));
                (was && (may || !places.is_empty())).then_some(Some((number, kind, places)))
            });
            (FileCommand::RemoveReplica { site, place: at, by, grip }, after)
        }
        _ => {
            let after = known.as_ref().filter(|_| may).map(|_| None);
            (FileCommand::Unregister { by, grip }, after)
        }
    }
}

fn register(
    known: &Known,
    (number, directory): (u8, bool),
    asked: BTreeSet<Place>,
    may_replace: bool,
) -> Option<Known> {
    if asked.is_empty() || asked.len() > REPLICAS_MAX {
        return None;
    }
    match known {
        Some((known, kind, places)) if (*known, *kind) == (number, directory) => {
            let all: BTreeSet<Place> = places.union(&asked).cloned().collect();
            (all.len() <= REPLICAS_MAX).then_some(Some((number, directory, all)))
        }
        Some(_) if !may_replace => None,
        _ => Some(Some((number, directory, asked))),
    }
}
