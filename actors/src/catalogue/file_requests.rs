//! Requests of users to the catalogue.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use cospan_domain::catalogue::file_command::{FileCommand, RequestingKey, TakingPermission};
use cospan_domain::catalogue::file_state::{CatalogueEntry, FileStamp};
use cospan_domain::content::Content;
use cospan_domain::ids::{Digest, JobId, LogicalName, RelPath, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::InspectedFile;

use super::catalogue_actor::{InformationActor, send_file_command};
use super::file_refusal;
use crate::awaited_work::ReplyFuture;
use crate::chaos::{self, CrashPoint};
use crate::commands::ApiRefusal;
use crate::context::SharedState;
use crate::site::inspect_file;
use crate::supervision::ActorKind;

/// The number of jobs looked at in one go while readers are counted.
const SLICE: usize = 512;

/// Register a file that is at a site. Answered once its content was read there and the catalogue
/// has it. Under a name that stands for the same content the place becomes one more replica.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), ApiRefusal>")]
pub struct AddFile {
    /// The file's logical name.
    pub name: LogicalName,
    /// The site that has the file.
    pub site: SiteName,
    /// The path below that site's file root.
    pub path: RelPath,
    /// The name may stand for other content until now; refused nevertheless while unfinished jobs
    /// read that.
    pub replace: bool,
    /// The key that asks.
    pub by: RequestingKey,
}

/// Forget a file, or its replicas at one site. A user's file stays where it is; an output that was
/// collected goes once nobody reads it any more.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), ApiRefusal>")]
pub struct RemoveFile {
    /// The file's logical name.
    pub name: LogicalName,
    /// Forget only the replicas at this site.
    pub site: Option<SiteName>,
    /// Forget the file even if unfinished jobs read it.
    pub force: bool,
    /// The key that asks.
    pub by: RequestingKey,
}

/// Remember the stamp that a replica had with this content.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), ApiRefusal>")]
pub struct NoteFileStamp {
    /// The file's logical name.
    pub name: LogicalName,
    /// The site of the replica.
    pub site: SiteName,
    /// The path below that site's file root.
    pub path: RelPath,
    /// The stamp of the replica.
    pub stamp: FileStamp,
    /// The content of the replica.
    pub content: Content,
}

impl Handler<NoteFileStamp> for InformationActor {
    type Result = ResponseFuture<Result<(), ApiRefusal>>;

    fn handle(&mut self, asked: NoteFileStamp, ctx: &mut Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Information);
        let NoteFileStamp {
            name,
            site,
            path,
            stamp,
            content,
        } = asked;
        let command = FileCommand::NoteStamp {
            site,
            place: FilePlace::User(path),
            stamp,
            content,
        };
        Box::pin(send_file_command(ctx.address(), name, command))
    }
}

impl Handler<AddFile> for InformationActor {
    type Result = ReplyFuture<Result<(), ApiRefusal>>;

    fn handle(&mut self, asked: AddFile, ctx: &mut Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Information);
        ReplyFuture::new(add_file(self.shared.clone(), ctx.address(), asked))
    }
}

impl Handler<RemoveFile> for InformationActor {
    type Result = ResponseFuture<Result<(), ApiRefusal>>;

    fn handle(&mut self, asked: RemoveFile, ctx: &mut Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Information);
        Box::pin(remove_file(self.shared.clone(), ctx.address(), asked))
    }
}

async fn add_file(
    shared: Arc<SharedState>,
    information: Addr<InformationActor>,
    asked: AddFile,
) -> Result<(), ApiRefusal> {
    chaos::reach_point(CrashPoint::SpawnedFuture);
    let AddFile {
        name,
        site,
        path,
        replace,
        by,
    } = asked;
    if !shared.sites.contains_key(&site) {
        return Err(file_refusal::unknown_site_refusal(
            &site,
            shared.sites.keys(),
        ));
    }
    let place = FilePlace::User(path.clone());
    let found = inspect_file(&shared, &by.key, &site, place.clone()).await;
    let InspectedFile { content, directory } = found.map_err(|error| {
        file_refusal::unreadable_file_refusal(&site, &format!("{:?}", path.as_str()), &error)
    })?;
    let known = catalogue_entry_of(&shared, &name);
    let replaced = known.filter(|entry| replace && entry.content.digest != content.digest);
    let needed_by = match &replaced {
        Some(entry) => count_readers(&shared, &name, entry.content.digest).await,
        None => 0,
    };
    let grip = TakingPermission {
        needed_by,
        force: false,
    };
    let replicas = vec![(site, place)];
    let command = FileCommand::Register {
        content,
        directory,
        replicas,
        by,
        replace,
        grip,
    };
    send_file_command(information, name, command).await
}

async fn remove_file(
    shared: Arc<SharedState>,
    information: Addr<InformationActor>,
    asked: RemoveFile,
) -> Result<(), ApiRefusal> {
    chaos::reach_point(CrashPoint::SpawnedFuture);
    let RemoveFile {
        name,
        site,
        force,
        by,
    } = asked;
    let entry = catalogue_entry_of(&shared, &name);
    let replicas = entry
        .as_ref()
        .map(|entry| entry.replicas.clone())
        .unwrap_or_default();
    let needed_by = match &entry {
        Some(entry) if !force => count_readers(&shared, &name, entry.content.digest).await,
        _ => 0,
    };
    let grip = TakingPermission { needed_by, force };
    let Some(site) = site else {
        return send_file_command(information, name, FileCommand::Unregister { by, grip }).await;
    };
    if entry.is_none() {
        return Err(file_refusal::refusal_from_rejection(
            &name,
            &cospan_domain::catalogue::file_command::FileRejection::NotRegistered,
        ));
    }
    let (there, elsewhere): (Vec<_>, Vec<_>) = replicas.into_iter().partition(|r| r.0 == site);
    if there.is_empty() {
        let text = format!("file {:?} has no replica at {site}", name.as_str());
        return Err(ApiRefusal::NotFound(text));
    }
    // All or none: the last ones go only if the very last may.
    if elsewhere.is_empty() && needed_by > 0 {
        let rejection =
            cospan_domain::catalogue::file_command::FileRejection::NeededByJobs { jobs: needed_by };
        return Err(file_refusal::refusal_from_rejection(&name, &rejection));
    }
    for (site, place) in there {
        let by = by.clone();
        let command = FileCommand::RemoveReplica {
            site,
            place,
            by,
            grip,
        };
        send_file_command(information.clone(), name.clone(), command).await?;
    }
    Ok(())
}

fn catalogue_entry_of(shared: &SharedState, name: &LogicalName) -> Option<CatalogueEntry> {
    shared
        .view
        .load()
        .files
        .get(name)
        .and_then(|file| file.entry.clone())
}

/// Counts the unfinished jobs that read the content that the name stands for. It does so in slices,
/// so that a long list of jobs holds up nobody.
async fn count_readers(shared: &SharedState, name: &LogicalName, digest: Digest) -> u32 {
    let jobs = shared.view.load().jobs.clone();
    let mut count = 0_u32;
    let mut next = Some(JobId(0));
    while let Some(from) = next {
        let mut slice = jobs.range(from..);
        let reading = slice
            .by_ref()
            .take(SLICE)
            .filter(|(_, job)| is_read_by_job(job, name, digest));
        count = count.saturating_add(reading.count() as u32);
        next = slice.next().map(|(id, _)| *id);
        tokio::task::yield_now().await;
    }
    count
}

/// Returns true if a job reads this file. A job keeps reading what the name meant at its
/// submission, and nothing else.
fn is_read_by_job(job: &Job, name: &LogicalName, digest: Digest) -> bool {
    !job.is_final()
        && job.spec.components.iter().any(|c| {
            c.file_refs()
                .any(|file: &cospan_domain::job::spec::FileReference| {
                    file.name == *name && file.bound.is_none_or(|content| content.digest == digest)
                })
        })
}
