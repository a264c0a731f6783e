//! Looks after what payloads left: reads outputs, sees that those that stay are there, and enters
//! those that were brought in the catalogue.

use std::sync::Arc;

use cospan_domain::ids::RelPath;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_due::JobEffect;
use cospan_domain::job::spec::OutputDestination;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::{SiteCallKind, SiteError, SiteFiles};

use super::job_actor::JobActor;
use super::job_effects::{END_AGAIN, PendingEffect, RETRY, attempt_tag_of, call_own_site};
use super::site_facts::is_copy_ready;
use crate::catalogue::{InformationActor, RegisterOutput};
use crate::chaos::{self, CrashPoint};
use crate::site::{SiteCallMessage, inspect_file};

/// The most characters in the job's record of why an output cannot be kept.
const WHY_MAX: usize = 500;

/// Finds out the content of an output, or whether those that stay are there.
pub(super) fn read_output(actor: &JobActor, effect: &JobEffect, output: u32) -> PendingEffect {
    let spec = actor.job().component_spec(effect.component);
    let asked = spec.and_then(|spec| spec.outputs.get(output as usize));
    if asked.is_some_and(|asked| matches!(asked.collect, OutputDestination::Fetch)) {
        see_staying_outputs(actor, effect)
    } else {
        inspect_output(actor, effect, output)
    }
}

/// Sees that all outputs of a component that stay are there, without reading them.
fn see_staying_outputs(actor: &JobActor, effect: &JobEffect) -> PendingEffect {
    let component = effect.component;
    let tag = attempt_tag_of(actor, effect);
    let mut calls = Vec::new();
    for (output, path) in staying_outputs(actor, effect) {
        let place = FilePlace::Output(tag, path);
        let call = SiteCallMessage::new(SiteCallKind::Read, move |site| {
            Box::pin(async move { see_file(site.files(), &place).await })
        });
        let call = call.for_owner(&actor.job().owner);
        calls.push((output, call_own_site(actor, effect, call)));
    }
    Box::pin(async move {
        for (output, call) in calls {
            match call.await {
                Ok(()) => {}
                Err(SiteError::Refused(why)) => {
                    let content = Err(shorten_reason(&why));
                    let missing = JobCommand::OutputRead {
                        component,
                        output,
                        content,
                    };
                    return (Some(missing), RETRY);
                }
                Err(_) => return (None, END_AGAIN),
            }
        }
        (Some(JobCommand::OutputsStay { component }), RETRY)
    })
}

fn staying_outputs(actor: &JobActor, effect: &JobEffect) -> Vec<(u32, RelPath)> {
    let spec = actor.job().component_spec(effect.component);
    let outputs = spec.into_iter().flat_map(|spec| &spec.outputs);
    (0..)
        .zip(outputs)
        .filter(|(_, output)| matches!(output.collect, OutputDestination::Fetch))
        .map(|(at, output)| (at, output.path.clone()))
        .collect()
}

/// Returns an error if there is no such file or directory.
async fn see_file(files: &dyn SiteFiles, place: &FilePlace) -> Result<(), SiteError> {
    let Err(unseen) = files.stamp(place).await else {
        return Ok(());
    };
    // Sites that know files by their size alone take a directory for none.
    match files.list(place).await {
        Ok(Some(_)) => Ok(()),
        _ => Err(unseen),
    }
}

fn shorten_reason(why: &str) -> Arc<str> {
    why.chars().take(WHY_MAX).collect::<String>().into()
}

fn inspect_output(actor: &JobActor, effect: &JobEffect, output: u32) -> PendingEffect {
    let component = effect.component;
    let spec = actor.job().component_spec(component);
    let path = spec
        .and_then(|spec| spec.outputs.get(output as usize))
        .map(|o| o.path.clone());
    let tag = attempt_tag_of(actor, effect);
    let site = actor.site_of_effect(effect);
    let owner = actor.job().owner.clone();
    let shared = actor.shared.clone();
    Box::pin(async move {
        chaos::reach_point(CrashPoint::SpawnedFuture);
        let inspected = match site.zip(path) {
            Some((site, path)) => {
                inspect_file(&shared, &owner, &site, FilePlace::Output(tag, path)).await
            }
            None => Err(SiteError::Refused("no such output".into())),
        };
        let content = match inspected {
            Ok(inspected) => Ok(inspected.content),
            Err(SiteError::Refused(why)) => Err(shorten_reason(&why)),
            Err(_) => return (None, END_AGAIN),
        };
        (
            Some(JobCommand::OutputRead {
                component,
                output,
                content,
            }),
            RETRY,
        )
    })
}

/// Enters an output that was brought to its site in the catalogue.
pub(super) fn register_output(
    actor: &JobActor,
    effect: &JobEffect,
    output: u32,
) -> Option<PendingEffect> {
    let component = effect.component;
    let spec = actor.job().component_spec(component)?;
    let OutputDestination::ToSite { site, register } = &spec.outputs.get(output as usize)?.collect
    else {
        return None;
    };
    let state = actor.job().components.get(component.0 as usize)?;
    let content = state.collected.get(output as usize)?.content?;
    if !is_copy_ready(&actor.shared, content.digest, site) {
        return None;
    }
    let information = actor.shared.actors.addr::<InformationActor>(&())?;
    let message = RegisterOutput {
        name: register.clone(),
        content,
        site: site.clone(),
        by: actor.job().owner.clone(),
    };
    Some(Box::pin(async move {
        match information.send(message).await {
            Ok(Ok(())) => (
                Some(JobCommand::OutputRegistered { component, output }),
                RETRY,
            ),
            Ok(Err(_)) | Err(_) => (None, END_AGAIN),
        }
    }))
}
