//! The decisions on commands to a logical file.

use std::collections::BTreeSet;

use crate::catalogue::file_command::{FileCommand, FileRejection, RequestingKey, TakingPermission};
use crate::catalogue::file_event::{FileEvent, FileEventKind};
use crate::catalogue::file_state::{CatalogueEntry, FileRecord, FileStamp, MAX_REPLICAS};
use crate::content::Content;
use crate::ids::{Digest, SiteName};
use crate::transfer::file_place::FilePlace;
use crate::units::Timestamp;

type FileDecision = Result<Vec<FileEventKind>, FileRejection>;
type CatalogueReplica = (SiteName, FilePlace);

/// Decides a command.
///
/// # Errors
/// The command does not fit the record, would change another key's file, or would take something
/// from jobs that need it; nothing happened.
pub fn decide(
    record: &FileRecord,
    command: FileCommand,
    now: Timestamp,
) -> Result<Vec<FileEvent>, FileRejection> {
    let entry = record.entry.as_ref();
    if let (Some(entry), Some(by)) = (entry, command.requesting_key())
        && !by.may_change(entry)
    {
        return Err(FileRejection::Anothers);
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
            let asked = RegistrationRequest {
                content,
                directory,
                replicas: sort_replicas(replicas)?,
                by,
            };
            match entry {
                None => Ok(vec![asked.into_registered_event()]),
                Some(entry) if asked.matches_entry(entry) => asked.add_replicas(entry),
                Some(entry) => asked.replace_entry(entry, replace, grip),
            }
        }
        FileCommand::AddReplica {
            site,
            place,
            digest,
            by,
        } => add_replica(
            entry.ok_or(FileRejection::NotRegistered)?,
            (site, place),
            digest,
            by,
        ),
        FileCommand::RemoveReplica {
            site,
            place,
            by,
            grip,
        } => remove_replica(
            entry.ok_or(FileRejection::NotRegistered)?,
            (site, place),
            by,
            grip,
        ),
        FileCommand::NoteStamp {
            site,
            place,
            stamp,
            content,
        } => record_stamp(
            entry.ok_or(FileRejection::NotRegistered)?,
            (site, place),
            stamp,
            content,
        ),
        FileCommand::Unregister { by, grip } => {
            entry.ok_or(FileRejection::NotRegistered)?;
            grip.check_sufficient()?;
            Ok(vec![FileEventKind::FileUnregistered { by: by.key }])
        }
    }?;
    Ok(happened
        .into_iter()
        .map(|what| FileEvent { at: now, what })
        .collect())
}

/// A registration, with its replicas sorted and without duplicates.
struct RegistrationRequest {
    content: Content,
    directory: bool,
    replicas: Vec<CatalogueReplica>,
    by: RequestingKey,
}

impl RegistrationRequest {
    fn matches_entry(&self, entry: &CatalogueEntry) -> bool {
        self.content == entry.content && self.directory == entry.directory
    }

    fn into_registered_event(self) -> FileEventKind {
        let Self {
            content,
            directory,
            replicas,
            by,
        } = self;
        FileEventKind::FileRegistered {
            content,
            directory,
            replicas,
            by: by.key,
        }
    }

    fn add_replicas(self, entry: &CatalogueEntry) -> FileDecision {
        let new: Vec<_> = self
            .replicas
            .into_iter()
            .filter(|replica| !entry.replicas.contains(replica))
            .collect();
        if entry.replicas.len() + new.len() > MAX_REPLICAS {
            return Err(FileRejection::TooManyReplicas);
        }
        let by = self.by.key;
        Ok(new
            .into_iter()
            .map(|(site, place)| FileEventKind::ReplicaAdded {
                site,
                place,
                by: by.clone(),
            })
            .collect())
    }

    fn replace_entry(
        self,
        entry: &CatalogueEntry,
        replace: bool,
        grip: TakingPermission,
    ) -> FileDecision {
        let known = entry.content.digest;
        let given = self.content.digest;
        if !replace {
            return Err(if entry.directory == self.directory || known != given {
                FileRejection::OtherContent { known, given }
            } else {
                FileRejection::OtherKind {
                    known_directory: entry.directory,
                }
            });
        }
        grip.check_sufficient()?;
        Ok(vec![self.into_registered_event()])
    }
}

impl TakingPermission {
    fn check_sufficient(self) -> Result<(), FileRejection> {
        if self.needed_by == 0 || self.force {
            return Ok(());
        }
        Err(FileRejection::NeededByJobs {
            jobs: self.needed_by,
        })
    }
}

fn sort_replicas(replicas: Vec<CatalogueReplica>) -> Result<Vec<CatalogueReplica>, FileRejection> {
    let replicas: BTreeSet<_> = replicas.into_iter().collect();
    match replicas.len() {
        0 => Err(FileRejection::NoReplica),
        1..=MAX_REPLICAS => Ok(replicas.into_iter().collect()),
        _ => Err(FileRejection::TooManyReplicas),
    }
}

fn add_replica(
    entry: &CatalogueEntry,
    replica: CatalogueReplica,
    found: Digest,
    by: RequestingKey,
) -> FileDecision {
    let known = entry.content.digest;
    if found != known {
        return Err(FileRejection::DigestDiffers { known, found });
    }
    if entry.replicas.contains(&replica) {
        return Ok(Vec::new());
    }
    if entry.replicas.len() >= MAX_REPLICAS {
        return Err(FileRejection::TooManyReplicas);
    }
    let (site, place) = replica;
    Ok(vec![FileEventKind::ReplicaAdded {
        site,
        place,
        by: by.key,
    }])
}

/// Records a stamp. A stamp of other content, or of a replica that is gone, says nothing.
fn record_stamp(
    entry: &CatalogueEntry,
    replica: CatalogueReplica,
    stamp: FileStamp,
    content: Content,
) -> FileDecision {
    if entry.content != content || !entry.replicas.contains(&replica) {
        return Err(FileRejection::NoSuchReplica);
    }
    if entry.stamps.get(&replica) == Some(&stamp) {
        return Ok(Vec::new());
    }
    let (site, place) = replica;
    Ok(vec![FileEventKind::ReplicaStamped { site, place, stamp }])
}

/// Removes a replica. The name outlives its last one, so that jobs learn what is missing.
fn remove_replica(
    entry: &CatalogueEntry,
    replica: CatalogueReplica,
    by: RequestingKey,
    grip: TakingPermission,
) -> FileDecision {
    if !entry.replicas.contains(&replica) {
        return Err(FileRejection::NoSuchReplica);
    }
    if entry.replicas.len() == 1 {
        grip.check_sufficient()?;
    }
    let (site, place) = replica;
    Ok(vec![FileEventKind::ReplicaRemoved {
        site,
        place,
        by: by.key,
    }])
}
