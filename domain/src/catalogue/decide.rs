//! What follows from a command to a logical file.

use std::collections::BTreeSet;

use crate::catalogue::command::{Asker, FileCommand, Grip, Rejection};
use crate::catalogue::event::{FileEvent, Happened};
use crate::catalogue::state::{Entry, FileRecord, MAX_REPLICAS, Stamp};
use crate::content::Content;
use crate::ids::{Digest, SiteName};
use crate::transfer::place::FilePlace;
use crate::units::Timestamp;

type Decided = Result<Vec<Happened>, Rejection>;
type Replica = (SiteName, FilePlace);

/// Decides a command.
///
/// # Errors
/// The command does not fit the record, would change another key's file, or would take
/// something from jobs that need it; nothing happened.
pub fn decide(
    record: &FileRecord,
    command: FileCommand,
    now: Timestamp,
) -> Result<Vec<FileEvent>, Rejection> {
    let entry = record.entry.as_ref();
    if let (Some(entry), Some(by)) = (entry, command.asker())
        && !by.reaches(entry)
    {
        return Err(Rejection::Anothers);
    }
    let happened = match command {
        FileCommand::Register {
            content,
            directory,
            replicas,
            by,
            replace,
            grip,
        } => {
            let asked = Asked {
                content,
                directory,
                replicas: sorted(replicas)?,
                by,
            };
            match entry {
                None => Ok(vec![asked.registered()]),
                Some(entry) if asked.is_the_same_as(entry) => asked.additions(entry),
                Some(entry) => asked.replacement(entry, replace, grip),
            }
        }
        FileCommand::AddReplica {
            site,
            place,
            digest,
            by,
        } => add(
            entry.ok_or(Rejection::NotRegistered)?,
            (site, place),
            digest,
            by,
        ),
        FileCommand::RemoveReplica {
            site,
            place,
            by,
            grip,
        } => remove(
            entry.ok_or(Rejection::NotRegistered)?,
            (site, place),
            by,
            grip,
        ),
        FileCommand::NoteStamp {
            site,
            place,
            stamp,
            content,
        } => note(
            entry.ok_or(Rejection::NotRegistered)?,
            (site, place),
            stamp,
            content,
        ),
        FileCommand::Unregister { by, grip } => {
            entry.ok_or(Rejection::NotRegistered)?;
            grip.check()?;
            Ok(vec![Happened::FileUnregistered { by: by.key }])
        }
    }?;
    Ok(happened
        .into_iter()
        .map(|what| FileEvent { at: now, what })
        .collect())
}

/// What a registration asks for, its replicas in order and each once.
struct Asked {
    content: Content,
    directory: bool,
    replicas: Vec<Replica>,
    by: Asker,
}

impl Asked {
    fn is_the_same_as(&self, entry: &Entry) -> bool {
        self.content == entry.content && self.directory == entry.directory
    }

    fn registered(self) -> Happened {
        let Self {
            content,
            directory,
            replicas,
            by,
        } = self;
        Happened::FileRegistered {
            content,
            directory,
            replicas,
            by: by.key,
        }
    }

    fn additions(self, entry: &Entry) -> Decided {
        let new: Vec<_> = self
            .replicas
            .into_iter()
            .filter(|replica| !entry.replicas.contains(replica))
            .collect();
        if entry.replicas.len() + new.len() > MAX_REPLICAS {
            return Err(Rejection::TooManyReplicas);
        }
        let by = self.by.key;
        let added = |(site, place)| Happened::ReplicaAdded {
            site,
            place,
            by: by.clone(),
        };
        Ok(new.into_iter().map(added).collect())
    }

    fn replacement(self, entry: &Entry, replace: bool, grip: Grip) -> Decided {
        let (known, given) = (entry.content.digest, self.content.digest);
        if !replace {
            return Err(if entry.directory == self.directory || known != given {
                Rejection::OtherContent { known, given }
            } else {
                Rejection::OtherKind {
                    known_directory: entry.directory,
                }
            });
        }
        grip.check()?;
        Ok(vec![self.registered()])
    }
}

impl Grip {
    fn check(self) -> Result<(), Rejection> {
        if self.needed_by == 0 || self.force {
            return Ok(());
        }
        Err(Rejection::NeededByJobs {
            jobs: self.needed_by,
        })
    }
}

fn sorted(replicas: Vec<Replica>) -> Result<Vec<Replica>, Rejection> {
    let replicas: BTreeSet<_> = replicas.into_iter().collect();
    match replicas.len() {
        0 => Err(Rejection::NoReplica),
        1..=MAX_REPLICAS => Ok(replicas.into_iter().collect()),
        _ => Err(Rejection::TooManyReplicas),
    }
}

fn add(entry: &Entry, replica: Replica, found: Digest, by: Asker) -> Decided {
    let known = entry.content.digest;
    if found != known {
        return Err(Rejection::DigestDiffers { known, found });
    }
    if entry.replicas.contains(&replica) {
        return Ok(Vec::new());
    }
    if entry.replicas.len() >= MAX_REPLICAS {
        return Err(Rejection::TooManyReplicas);
    }
    let (site, place) = replica;
    Ok(vec![Happened::ReplicaAdded {
        site,
        place,
        by: by.key,
    }])
}

/// What was seen of other content, or of a replica that is gone, says nothing.
fn note(entry: &Entry, replica: Replica, stamp: Stamp, content: Content) -> Decided {
    if entry.content != content || !entry.replicas.contains(&replica) {
        return Err(Rejection::NoSuchReplica);
    }
    if entry.stamps.get(&replica) == Some(&stamp) {
        return Ok(Vec::new());
    }
    let (site, place) = replica;
    Ok(vec![Happened::ReplicaStamped { site, place, stamp }])
}

/// The name outlives its last replica, so that jobs are told what is missing.
fn remove(entry: &Entry, replica: Replica, by: Asker, grip: Grip) -> Decided {
    if !entry.replicas.contains(&replica) {
        return Err(Rejection::NoSuchReplica);
    }
    if entry.replicas.len() == 1 {
        grip.check()?;
    }
    let (site, place) = replica;
    Ok(vec![Happened::ReplicaRemoved {
        site,
        place,
        by: by.key,
    }])
}
