//! Registers outputs of jobs as logical files.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context, Handler, Message};
use cospan_domain::catalogue::file_command::{FileCommand, RequestingKey, TakingPermission};
use cospan_domain::content::Content;
use cospan_domain::ids::{KeyName, LogicalName, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use tracing::error;

use super::catalogue_actor::{InformationActor, send_file_command};
use super::file_refusal;
use crate::awaited_work::ReplyFuture;
use crate::chaos::{self, CrashPoint};
use crate::commands::ApiRefusal;
use crate::context::SharedState;
use crate::site::inspect_file;
use crate::supervision::ActorKind;

/// Registers an output that is whole in a site's store as a logical file. May be repeated. Answered
/// once the catalogue has the output, which from then on keeps the copy where it is.
///
/// The output takes the name from any other file of the job's owner: a job that runs again is meant
/// to leave its newest result there. Jobs that read the earlier content keep its digest, and go on
/// if it is anywhere else. Of two jobs that leave the same name at the same time, either may be the
/// last. A name that another key has taken since the job was submitted stays as it is; the job then
/// fails, with its output where it was made.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), ApiRefusal>")]
pub struct RegisterOutput {
    /// The output's logical name.
    pub name: LogicalName,
    /// The output's content.
    pub content: Content,
    /// The site whose store has it.
    pub site: SiteName,
    /// The owner of the job.
    pub by: KeyName,
}

impl Handler<RegisterOutput> for InformationActor {
    type Result = ReplyFuture<Result<(), ApiRefusal>>;

    fn handle(&mut self, output: RegisterOutput, ctx: &mut Context<Self>) -> Self::Result {
        chaos::enter_handler(ActorKind::Information);
        ReplyFuture::new(register_as_file(self.shared.clone(), ctx.address(), output))
    }
}

async fn register_as_file(
    shared: Arc<SharedState>,
    information: Addr<InformationActor>,
    output: RegisterOutput,
) -> Result<(), ApiRefusal> {
    chaos::reach_point(CrashPoint::SpawnedFuture);
    let RegisterOutput {
        name,
        content,
        site,
        by,
    } = output;
    let place = FilePlace::Store(content.digest);
    let replica = (site.clone(), place.clone());
    let view = shared.view.load();
    let entry = view.files.get(&name).and_then(|file| file.entry.as_ref());
    if entry.is_some_and(|e| {
        e.registered_by == by && e.content == content && e.replicas.contains(&replica)
    }) {
        return Ok(());
    }
    drop(view);
    // Distinguishes files from directories, and content that came here whole from content that
    // rotted since.
    let found = inspect_file(&shared, &by, &site, place.clone()).await;
    let found =
        found.map_err(|error| file_refusal::unreadable_file_refusal(&site, "an output", &error))?;
    if found.content != content {
        error!(
            %site,
            digest = %content.digest,
            found = %found.content.digest,
            "content is damaged"
        );
        let text = format!("content {} at {site} is damaged", content.digest);
        return Err(ApiRefusal::Site(text));
    }
    let command = FileCommand::Register {
        content,
        directory: found.directory,
        replicas: vec![replica],
        by: RequestingKey::for_own_files(by),
        replace: true,
        grip: TakingPermission {
            needed_by: 0,
            force: true,
        },
    };
    send_file_command(information, name, command).await
}
