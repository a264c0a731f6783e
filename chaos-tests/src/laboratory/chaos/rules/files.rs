//! The catalogue: what a name stands for, where that is, and what may be taken from jobs.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cospan_domain::catalogue::FileMachine;
use cospan_domain::catalogue::command::{FileCommand, Grip, Rejection};
use cospan_domain::catalogue::decide::decide;
use cospan_domain::catalogue::event::Happened;
use cospan_domain::catalogue::state::{Entry, FileRecord};
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::machine::Machine;
use cospan_domain::transfer::place::FilePlace;
use cospan_domain::units::{Bytes, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::tables::word;

/// Commands of one case.
const STEPS: u64 = 16;
/// Replicas of a file, as the reference has it.
const REPLICAS_MAX: usize = 32;

type Place = (SiteName, FilePlace);

/// What happens and what the name stands for then, or what may be said against it.
type Follows = Result<(Vec<Happened>, Option<Entry>), Vec<Rejection>>;

fn place(number: u64) -> Result<Place> {
    let site = SiteName::new(&format!("site-{}", number % 3))?;
    Ok((site, FilePlace::User(RelPath::new(&format!("file-{number}"))?)))
}

fn content(number: u8) -> Content {
    Content { digest: Digest([number; 32]), size: Bytes(number.into()) }
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    checked(chance).err().into_iter().map(|problem| format!("{problem:#}")).collect()
}

fn checked(chance: &mut StdRng) -> Result<()> {
    let mut record = FileRecord::new(LogicalName::new("file")?);
    let mut known: Option<Entry> = None;
    for step in 0..STEPS {
        let (command, at) = (draw(chance)?, Timestamp(step));
        let decided = FileMachine::decide(&record, &(), command.clone(), at);
        let directly = decide(&record, command.clone(), at);
        ensure!(decided == directly, "{command:?} comes to {decided:?} and {directly:?}");
        match (decided, follows(known.clone(), &command, at)) {
            (Err(said), Err(problems)) => {
                ensure!(problems.contains(&said), "{command:?} of {known:?}: {said:?}");
                told(&said)?;
                continue;
            }
            (Ok(events), Ok((ought, after))) => {
                let is: Vec<_> = events.iter().map(|event| event.what.clone()).collect();
                ensure!(is == ought, "{command:?} of {known:?}: {is:?}, not {ought:?}");
                for event in &events {
                    let (name, called) = (event.what.name(), word(&event.what));
                    ensure!(name == called && event.at == at, "{event:?} is called {name}");
                    FileMachine::evolve(&mut record, event);
                }
                known = after;
            }
            (is, ought) => anyhow::bail!("{command:?} of {known:?}: {is:?}, not {ought:?}"),
        }
        let right = record.entry == known && record.is_gone() == known.is_none();
        ensure!(right, "{command:?} made {record:?} instead of {known:?}");
        let idle = FileMachine::due(&record, &(), at).is_empty();
        ensure!(idle && FileMachine::next_wake(&record, &(), at).is_none(), "{record:?} acts");
    }
    Ok(())
}

/// A refusal names what stands against it.
fn told(said: &Rejection) -> Result<()> {
    let words = match said {
        Rejection::OtherContent { known, given } => vec![known.to_string(), given.to_string()],
        Rejection::OtherKind { known_directory: true } => {
            vec!["a directory;".into(), "a file".into()]
        }
        Rejection::OtherKind { known_directory: false } => {
            vec!["a file;".into(), "a directory".into()]
        }
        Rejection::DigestDiffers { known, found } => vec![known.to_string(), found.to_string()],
        Rejection::TooManyReplicas => vec![REPLICAS_MAX.to_string()],
        Rejection::NeededByJobs { jobs } => vec![jobs.to_string()],
        Rejection::NotRegistered | Rejection::NoReplica | Rejection::NoSuchReplica => Vec::new(),
    };
    let text = said.to_string();
    ensure!(!text.is_empty() && words.iter().all(|word| text.contains(word)), "{said:?}: {text}");
    Ok(())
}

fn draw(chance: &mut StdRng) -> Result<FileCommand> {
    let by = KeyName::new(["alice", "bob"][chance.random_range(0..2)])?;
    let grip =
        Grip { needed_by: [0, 0, 2][chance.random_range(0..3)], force: chance.random_bool(0.2) };
    let drawn = chance.random_range(0..6_u64);
    let (site, place_there) = place(drawn)?;
    let content = content(chance.random_range(0..2));
    Ok(match chance.random_range(0..7) {
        0..=2 => {
            let more = match chance.random_range(0..8) {
                0 => 0,
                1 => chance.random_range(30..=34),
                _ => chance.random_range(1..3),
            };
            // In no order, and some twice.
            let mut replicas =
                (drawn..drawn + more).rev().map(place).collect::<Result<Vec<_>>>()?;
            replicas.extend(replicas.first().cloned());
            let (directory, replace) = (chance.random_bool(0.3), chance.random_bool(0.5));
            FileCommand::Register { content, directory, replicas, by, replace, grip }
        }
        3 | 4 => FileCommand::AddReplica { site, place: place_there, digest: content.digest, by },
        5 => FileCommand::RemoveReplica { site, place: place_there, by, grip },
        _ => FileCommand::Unregister { by, grip },
    })
}

/// What is needed is taken only by force.
fn held(grip: Grip) -> Vec<Rejection> {
    let held = grip.needed_by > 0 && !grip.force;
    held.then_some(Rejection::NeededByJobs { jobs: grip.needed_by }).into_iter().collect()
}

fn follows(known: Option<Entry>, command: &FileCommand, at: Timestamp) -> Follows {
    if let FileCommand::Register { .. } = command {
        return registered(known, command, at);
    }
    let Some(mut entry) = known else { return Err(vec![Rejection::NotRegistered]) };
    let mut problems = Vec::new();
    let (mut events, mut stays) = (Vec::new(), true);
    match command.clone() {
        FileCommand::AddReplica { site, place, digest: found, by } => {
            let (known, replica) = (entry.content.digest, (site.clone(), place.clone()));
            let new = !entry.replicas.contains(&replica);
            if found != known {
                problems.push(Rejection::DigestDiffers { known, found });
            }
            if new && entry.replicas.len() == REPLICAS_MAX {
                problems.push(Rejection::TooManyReplicas);
            }
            if new {
                entry.replicas.push(replica);
                entry.replicas.sort();
                events.push(Happened::ReplicaAdded { site, place, by });
            }
        }
        FileCommand::RemoveReplica { site, place, by, grip } => {
            let before = entry.replicas.len();
            entry.replicas.retain(|(at, there)| *at != site || *there != place);
            if entry.replicas.len() == before {
                problems.push(Rejection::NoSuchReplica);
            } else if entry.replicas.is_empty() {
                problems.extend(held(grip));
            }
            events.push(Happened::ReplicaRemoved { site, place, by });
        }
        FileCommand::Unregister { by, grip } => {
            problems.extend(held(grip));
            events.push(Happened::FileUnregistered { by });
            stays = false;
        }
        FileCommand::Register { .. } => {}
    }
    if problems.is_empty() { Ok((events, stays.then_some(entry))) } else { Err(problems) }
}

/// The same content is in more places then; other content, or another kind, replaces it if that
/// is asked for.
fn registered(known: Option<Entry>, command: &FileCommand, at: Timestamp) -> Follows {
    let FileCommand::Register { content, directory, replicas, by, replace, grip } = command.clone()
    else {
        return Err(Vec::new());
    };
    let asked: BTreeSet<Place> = replicas.into_iter().collect();
    let mut problems = Vec::new();
    if asked.is_empty() {
        problems.push(Rejection::NoReplica);
    }
    let same = |entry: &Entry| (entry.content, entry.directory) == (content, directory);
    let (mut all, mut new) = (asked.clone(), asked.clone());
    if let Some(entry) = known.as_ref().filter(|entry| same(entry)) {
        all.extend(entry.replicas.iter().cloned());
        new.retain(|replica| !entry.replicas.contains(replica));
    }
    if all.len() > REPLICAS_MAX {
        problems.push(Rejection::TooManyReplicas);
    }
    let replicas: Vec<Place> = all.into_iter().collect();
    let anew = Entry { content, directory, replicas, registered_at: at, registered_by: by.clone() };
    let entry = match known {
        Some(entry) if same(&entry) => Entry { replicas: anew.replicas, ..entry },
        Some(entry) => {
            let (known, given) = (entry.content.digest, content.digest);
            match (replace, known == given) {
                (true, _) => problems.extend(held(grip)),
                (false, false) => problems.push(Rejection::OtherContent { known, given }),
                (false, true) => {
                    problems.push(Rejection::OtherKind { known_directory: entry.directory });
                }
            }
            anew
        }
        None => anew,
    };
    let events = match entry.registered_at == at {
        true => {
            let replicas = asked.into_iter().collect();
            vec![Happened::FileRegistered { content, directory, replicas, by }]
        }
        false => {
            let added = |(site, place)| Happened::ReplicaAdded { site, place, by: by.clone() };
            new.into_iter().map(added).collect()
        }
    };
    if problems.is_empty() { Ok((events, Some(entry))) } else { Err(problems) }
}
