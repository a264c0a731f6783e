//! Checks that registered files have not changed: each is examined when a command names it, so that
//! no job reads stale content without notice.

use std::time::Duration;

use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiAnswer, ApiCommand, ApiRefusal, ControlPlane, JobSubmission};
use cospan_actors::catalogue::NoteFileStamp;
use cospan_domain::catalogue::file_state::{CatalogueEntry, FileStamp};
use cospan_domain::ids::{KeyName, LogicalName, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use tracing::{info, warn};

/// Longest wait for a site to examine a file: then its content is unknown, and copies are checked
/// against the digest anyway.
const PATIENCE: Duration = Duration::from_secs(3);

/// Carries out a command. Files that jobs name are examined before; the present state of those that
/// are registered is remembered.
pub(super) async fn run_checked_command(
    plane: &ControlPlane,
    command: ApiCommand,
) -> Result<ApiAnswer, ApiRefusal> {
    match &command.what {
        ApiRequest::Submit(submissions) => {
            let refused = jobs_with_changed_files(plane, &command.by, submissions).await;
            plane.execute_command_refusing(command, refused).await
        }
        ApiRequest::AddFile {
            name, site, path, ..
        } => {
            let name = name.clone();
            let replica = (site.clone(), path.clone());
            // Examined before it is read: a change meanwhile shows later as another state.
            let stamp = examine_file(plane, &command.by, &replica).await;
            let answer = plane.execute_command(command).await?;
            remember_stamp(plane, &name, replica, stamp).await;
            Ok(answer)
        }
        _ => plane.execute_command(command).await,
    }
}

/// A file of a user at a site.
type UserReplica = (SiteName, RelPath);

/// The jobs that name a file which has changed since it was registered, by their index.
async fn jobs_with_changed_files(
    plane: &ControlPlane,
    by: &KeyName,
    jobs: &[JobSubmission],
) -> Vec<(usize, ApiRefusal)> {
    let named: Vec<_> = jobs.iter().map(|job| job.spec.unbound_names()).collect();
    let mut names: Vec<&LogicalName> = named.iter().flatten().collect();
    names.sort_unstable();
    names.dedup();
    let mut refused = Vec::new();
    for name in names {
        let Some((site, path)) = changed_replica(plane, by, name).await else {
            continue;
        };
        info!(file = %name, %site, path = path.as_str(), "a registered file has changed");
        let of = named
            .iter()
            .enumerate()
            .filter(|(_, names)| names.contains(name));
        refused.extend(of.map(|(index, _)| {
            let name = name.clone();
            let site = site.clone();
            let path = path.clone();
            (
                index,
                ApiRefusal::FileChanged {
                    index,
                    name,
                    site,
                    path,
                },
            )
        }));
    }
    refused
}

/// The first replica of a file whose content differs from the registered one.
async fn changed_replica(
    plane: &ControlPlane,
    by: &KeyName,
    name: &LogicalName,
) -> Option<UserReplica> {
    let entry = plane.view().files.get(name)?.entry.clone()?;
    for (site, place) in &entry.replicas {
        let FilePlace::User(path) = place else {
            continue;
        };
        let replica = (site.clone(), path.clone());
        let Some(stamp) = examine_file(plane, by, &replica).await else {
            continue;
        };
        if entry.stamps.get(&(site.clone(), place.clone())) == Some(&stamp) {
            continue;
        }
        if has_other_content(plane, name, &entry, &replica).await {
            return Some(replica);
        }
        remember_stamp(plane, name, replica, Some(stamp)).await;
    }
    None
}

/// Reads a replica again. A replica that cannot be read now is not known to differ.
async fn has_other_content(
    plane: &ControlPlane,
    name: &LogicalName,
    entry: &CatalogueEntry,
    (site, path): &UserReplica,
) -> bool {
    let name = name.clone();
    let site = site.clone();
    let path = path.clone();
    // Registering the same content at the same place again changes nothing, whoever owns it.
    let replace = false;
    let reaches_all = true;
    let what = ApiRequest::AddFile {
        name: name.clone(),
        site: site.clone(),
        path,
        replace,
        reaches_all,
    };
    let command = ApiCommand {
        by: entry.registered_by.clone(),
        what,
    };
    match plane.execute_command(command).await {
        Ok(_) => false,
        Err(ApiRefusal::Conflict(_)) => true,
        Err(problem) => {
            warn!(file = %name, %site, %problem, "it looks changed, and could not be read");
            false
        }
    }
}

async fn examine_file(
    plane: &ControlPlane,
    by: &KeyName,
    (site, path): &UserReplica,
) -> Option<FileStamp> {
    let look = plane.stamp_site_file(by, site, FilePlace::User(path.clone()));
    tokio::time::timeout(PATIENCE, look).await.ok()?.ok()?
}

/// Remembers the state of a replica before it was read. If that fails the replica is read once more
/// later.
async fn remember_stamp(
    plane: &ControlPlane,
    name: &LogicalName,
    (site, path): UserReplica,
    stamp: Option<FileStamp>,
) {
    let view = plane.view();
    let entry = view.files.get(name).and_then(|file| file.entry.as_ref());
    let (Some(stamp), Some(entry)) = (stamp, entry) else {
        return;
    };
    let note = NoteFileStamp {
        name: name.clone(),
        site,
        path,
        stamp,
        content: entry.content,
    };
    if let Err(problem) = plane.note_replica_stamp(note).await {
        info!(file = %name, %problem, "how it looks was not noted");
    }
}
