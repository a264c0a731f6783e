//! Has sites carry out the effects that are due for a job.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, SpawnHandle, WrapFuture};
use cospan_domain::content::FileChunk;
use cospan_domain::ids::{AttemptTag, ComponentIndex, SiteName};
use cospan_domain::job::decide::is_last_absence;
use cospan_domain::job::job_command::{
    AttemptSighting, JobCommand, SiteClockTimes, SubmissionAnswer,
};
use cospan_domain::job::job_due::{JobEffect, JobEffectKind, charge_of_component};
use cospan_domain::job::job_state::{AttemptState, Component, Job};
use cospan_domain::job::spec::ComponentSpec;
use cospan_domain::placed::Placement;
use cospan_domain::runner::AttemptLaunch;
use cospan_domain::site::failure::FailureClass;
use cospan_domain::site::site_command::SiteRejection;
use cospan_domain::site::site_state::{AttemptId, Breaker, SiteRecord};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{
    AcceptedAttempt, AttemptObservation, AttemptSubmitRequest, GateDecision, GateState, GoDecision,
    RoundPeer, SiteCallKind, SiteError, TagLookupAnswer,
};

use super::job_actor::JobActor;
use super::site_facts::{labels_of_site, submission_settle_time};
use super::{output_effects, reservation_calls};
use crate::chaos::{self, CrashPoint};
use crate::grid_snapshot::fits_another_site;
use crate::grid_snapshot::may_go_to_probed_site;
use crate::site::{AskAdmission, ClusterActor, ErrorCharge, SiteCallMessage};
use crate::supervision::ActorId;

/// The pause before an effect that failed is tried again, at first; see [`super::retry_pause`].
pub(super) const RETRY: DurationMs = DurationMs(1_000);
/// The pause before an attempt that is still there is asked again to end, at first.
pub(super) const END_AGAIN: DurationMs = DurationMs(5_000);

/// The variable with the number of processors of the component.
const NPROC: &str = "COSPAN_NPROC";
/// The variable with the chunks that a component reads.
const CHUNKS: &str = "COSPAN_CHUNKS";

type EffectOutcome = (Option<JobCommand>, DurationMs);
pub(super) type PendingEffect = futures_util::future::BoxFuture<'static, EffectOutcome>;

/// Starts an effect. Returns none if it must wait for something that will make the job look again.
pub(super) fn perform_effect(
    actor: &mut JobActor,
    effect: &JobEffect,
    ctx: &mut Context<JobActor>,
) -> Option<SpawnHandle> {
    let pending = start_effect(actor, effect)?;
    chaos::reach_for_effect(effect.kind.name(), CrashPoint::BeforeEffect);
    let effect = effect.clone();
    let done = pending
        .into_actor(actor)
        .map(move |(command, again), actor, ctx| {
            chaos::reach_for_effect(effect.kind.name(), CrashPoint::AfterEffect);
            actor.handle_effect_result(&effect, command, again, ctx);
        });
    Some(ctx.spawn(done))
}

fn start_effect(actor: &JobActor, effect: &JobEffect) -> Option<PendingEffect> {
    match effect.kind {
        JobEffectKind::Submit => Some(submit_attempt(actor, effect)),
        JobEffectKind::Withdraw => Some(withdraw_submission(effect)),
        JobEffectKind::LookUp => Some(look_up_attempt(actor, effect)),
        JobEffectKind::OpenGate => Some(open_gate(actor, effect)),
        JobEffectKind::End => Some(end_attempt(actor, effect)),
        JobEffectKind::RecordCharge => Some(charge_site(actor, effect)),
        JobEffectKind::ReadOutput(output) => {
            Some(output_effects::read_output(actor, effect, output))
        }
        JobEffectKind::RegisterOutput(output) => {
            output_effects::register_output(actor, effect, output)
        }
        JobEffectKind::Reserve => reservation_calls::call_site_for_reservation(actor),
    }
}

pub(super) fn attempt_tag_of(actor: &JobActor, effect: &JobEffect) -> AttemptTag {
    actor
        .job()
        .tag_of(actor.shared.instance, effect.component, effect.attempt)
}

/// Makes one call to the site of the effect's component, through the site's actor.
pub(super) fn call_own_site<T: Send + 'static>(
    actor: &JobActor,
    effect: &JobEffect,
    call: SiteCallMessage<T>,
) -> futures_util::future::BoxFuture<'static, Result<T, SiteError>> {
    call_site(actor, actor.site_of_effect(effect).as_ref(), call)
}

/// Makes one call to a site, through its actor.
pub(super) fn call_site<T: Send + 'static>(
    actor: &JobActor,
    site: Option<&SiteName>,
    call: SiteCallMessage<T>,
) -> futures_util::future::BoxFuture<'static, Result<T, SiteError>> {
    let cluster = site.and_then(|site| actor.shared.actors.addr::<ClusterActor>(site));
    Box::pin(async move {
        chaos::reach_point(CrashPoint::SpawnedFuture);
        match cluster {
            None => Err(SiteError::NotSent(
                "the site is not served at the moment".into(),
            )),
            Some(cluster) => match cluster.send(call).await {
                Ok(result) => result,
                Err(error) => Err(SiteError::OutcomeUnknown(format!(
                    "its actor died: {error}"
                ))),
            },
        }
    })
}

/// Returns how long a submission to each component's site may still take effect.
pub(super) fn submission_settle_times(actor: &JobActor) -> Vec<DurationMs> {
    let components = actor.job().components.iter();
    components
        .map(|component| {
            let placement = component.placement.as_ref();
            placement
                .map(|placement| submission_settle_time(&actor.shared, &placement.site))
                .unwrap_or_default()
        })
        .collect()
}

fn submit_attempt(actor: &JobActor, effect: &JobEffect) -> PendingEffect {
    let component = effect.component;
    let attempt = effect.attempt;
    let settle = actor
        .site_of_effect(effect)
        .map(|site| submission_settle_time(&actor.shared, &site))
        .unwrap_or_default();
    let order = make_submit_request(actor, effect);
    let processors = order.resources.processors;
    let job = actor.job().clone();
    let shared = actor.shared.clone();
    let site = actor.site_of_effect(effect);
    let admission = request_admission(actor, effect);
    let answer = call_own_site(
        actor,
        effect,
        SiteCallMessage::new(SiteCallKind::Submit, move |site| {
            Box::pin(async move { site.queue().submit(&order).await })
        }),
    );
    Box::pin(async move {
        if let Err(answer) = admission.await {
            let command = JobCommand::SubmitAnswered {
                component,
                attempt,
                answer,
            };
            return (Some(command), DurationMs::ZERO);
        }
        let answer = match answer.await {
            Ok(AcceptedAttempt { lrm_id }) => SubmissionAnswer::Accepted(lrm_id),
            Err(SiteError::Refused(detail)) => SubmissionAnswer::Refused(detail.into()),
            Err(SiteError::Unfit(detail)) => SubmissionAnswer::Unfit {
                detail: detail.into(),
                fits_elsewhere: site
                    .as_ref()
                    .is_some_and(|site| fits_another_site(&shared, &job, component, site)),
            },
            Err(SiteError::NotSent(detail)) => SubmissionAnswer::NotSent(detail.into()),
            // A state of the site, and no error: jobs wait until somebody mends it.
            Err(SiteError::LockedOut(detail) | SiteError::OutOfOrder(detail)) => {
                SubmissionAnswer::Full(detail.into())
            }
            Err(SiteError::SiteFull(detail)) => {
                // Noted at once, before anybody places on what the site is believed to have.
                if let Some(site) = &site {
                    shared
                        .live
                        .note_refused_claim(site, processors, shared.clock.now());
                }
                SubmissionAnswer::Full(detail.into())
            }
            Err(SiteError::OutcomeUnknown(_)) => SubmissionAnswer::Unknown(settle),
        };
        (
            Some(JobCommand::SubmitAnswered {
                component,
                attempt,
                answer,
            }),
            DurationMs::ZERO,
        )
    })
}

/// Asks the site to admit an attempt: while the site is probed, only a few are let through, and
/// none of a barred owner.
fn request_admission(
    actor: &JobActor,
    effect: &JobEffect,
) -> futures_util::future::BoxFuture<'static, Result<(), SubmissionAnswer>> {
    let shared = actor.shared.clone();
    let site = actor.site_of_effect(effect);
    let attempt = AttemptId {
        job: actor.job().id,
        component: effect.component,
        attempt: effect.attempt,
    };
    let job = actor.job().clone();
    Box::pin(async move {
        let Some(site) = site else { return Ok(()) };
        let record = shared.view.load().sites.get(&site).cloned();
        let owner = job.owner.clone();
        let now = shared.clock.now();
        if record.is_none_or(|record: Arc<SiteRecord>| {
            record.breaker == Breaker::Closed && record.bar_reason_for(&owner, now).is_none()
        }) {
            return Ok(());
        }
        let may_probe = may_go_to_probed_site(&shared, &job, attempt.component, &site);
        let cluster = shared.actors.addr::<ClusterActor>(&site);
        let cluster = cluster.ok_or("the site is not served at the moment");
        let cluster = cluster.map_err(|why| SubmissionAnswer::Full(why.into()))?;
        let admitted = cluster
            .send(AskAdmission {
                attempt,
                owner,
                may_probe,
            })
            .await;
        admitted
            .map_err(|error| SubmissionAnswer::Full(error.to_string().into()))?
            .map_err(|rejection| match rejection {
                SiteRejection::Banned(ban) => SubmissionAnswer::Barred(ban.to_string().into()),
                other => SubmissionAnswer::Full(other.to_string().into()),
            })
    })
}

/// Withdraws a submission. It is due only while nothing of the component is under way, and a
/// rebuild has made every earlier submission uncertain: so it never left.
fn withdraw_submission(effect: &JobEffect) -> PendingEffect {
    let component = effect.component;
    let attempt = effect.attempt;
    let answer = SubmissionAnswer::NotSent("withdrawn before it was submitted".into());
    let command = JobCommand::SubmitAnswered {
        component,
        attempt,
        answer,
    };
    Box::pin(async move { (Some(command), DurationMs::ZERO) })
}

/// Lists the chunks that a component reads, by position of its input.
fn chunks_of(job: &Job, index: ComponentIndex) -> BTreeMap<usize, FileChunk> {
    let Some(spec) = job.component_spec(index) else {
        return BTreeMap::new();
    };
    let placements: Vec<Placement> = job
        .components
        .iter()
        .filter_map(|component| component.placement.clone())
        .collect();
    let inputs = spec.inputs.iter().enumerate();
    inputs
        .filter_map(|(at, input)| {
            let chunk = job.spec.chunk_of(index.0 as usize, input, &placements)?;
            Some((at, chunk))
        })
        .collect()
}

/// Describes its chunks to a component: a line for each with offset, length, size of the whole
/// file, and path.
fn describe_chunks(spec: &ComponentSpec, chunks: &BTreeMap<usize, FileChunk>) -> Arc<str> {
    chunks
        .iter()
        .map(|(at, chunk): (&usize, &FileChunk)| {
            let path = spec
                .inputs
                .get(*at)
                .map(|input| input.path.as_str())
                .unwrap_or_default();
            format!(
                "{} {} {} {path}",
                chunk.offset.0, chunk.length.0, chunk.of.size.0
            )
        })
        .collect::<Vec<_>>()
        .join("\n")
        .into()
}

fn make_submit_request(actor: &JobActor, effect: &JobEffect) -> AttemptSubmitRequest {
    let job = actor.job();
    let spec = job
        .component_spec(effect.component)
        .unwrap_or(&job.spec.components[0]);
    let site = actor.site_of_effect(effect);
    let labels = site
        .as_ref()
        .map(|site| labels_of_site(&actor.shared, site))
        .unwrap_or_default();
    // Placed before it is submitted, so that it has a site; see `place` in domain.
    let launch =
        site.and_then(|site| AttemptLaunch::for_component(job, effect.component, &site, &labels));
    let mut launch = launch.unwrap_or_else(|| AttemptLaunch::as_described(spec));
    let resources = job.resources_of(effect.component).unwrap_or_default();
    launch.set_variable(NPROC, resources.processors.to_string());
    let chunks = chunks_of(job, effect.component);
    if !chunks.is_empty() {
        launch.set_variable(CHUNKS, describe_chunks(spec, &chunks));
    }
    let inputs = spec.inputs.iter().enumerate();
    let inputs = inputs.filter_map(|(index, input)| {
        let content = match chunks.get(&index) {
            Some(chunk) => chunk.as_content(),
            None => input.file.bound?,
        };
        Some((content, input.path.clone()))
    });
    let inputs = inputs.collect();
    let AttemptLaunch {
        at_site,
        earlier,
        lists_hosts,
    } = launch;
    let staged = at_site.program.executable.staged_content();
    let tag = attempt_tag_of(actor, effect);
    let component = job.components.get(effect.component.0 as usize);
    let now = actor.shared.clock.now();
    let acquisition = component.map(Component::acquisition).unwrap_or_default();
    let promised = acquisition.reservation_use();
    // The time left of a reservation beside the wall time; see `lease_length`.
    let hold_max = match promised.filter(|promised| !promised.shared) {
        Some(promised) => promised.to.since(now + job.wall_time()),
        None => {
            let parameters = &actor.shared.settings.job;
            acquisition.wrapper_hold_limit(job.claim_limits(parameters), parameters.hold_slack)
        }
    };
    let reservation = promised.map(|promised| promised.tag(actor.shared.instance, job.id));
    let not_before = component.and_then(|component| component.not_before);
    let begin_in = not_before.map(|at| at.since(now)).unwrap_or_default();
    AttemptSubmitRequest {
        tag,
        round: job.round,
        epoch: actor.shared.epoch,
        resources,
        program: at_site.program,
        staged_executable: staged.map(|content| content.digest),
        inputs,
        outputs: spec
            .outputs
            .iter()
            .map(|output| output.path.clone())
            .collect(),
        lrm_options: at_site.lrm_options,
        reservation,
        begin_in,
        hold_max,
        wall_time: job.wall_time(),
        warning: job.spec.run.warning,
        earlier: earlier.map(|a| job.tag_of(actor.shared.instance, effect.component, a)),
        lists_hosts,
        name: job.spec.name.clone(),
    }
}

fn look_up_attempt(actor: &JobActor, effect: &JobEffect) -> PendingEffect {
    let component = effect.component;
    let attempt = effect.attempt;
    let tag = attempt_tag_of(actor, effect);
    let interval = actor.shared.settings.job.look_up_interval;
    // By our clock, as everything that is compared with it.
    let asked_at = actor.shared.clock.now();
    let run = actor
        .job()
        .components
        .get(component.0 as usize)
        .map(|component| &component.run);
    let closes = run.is_some_and(|run| is_last_absence(run, asked_at));
    let found = call_own_site(
        actor,
        effect,
        SiteCallMessage::new(SiteCallKind::FindByTag, move |site| {
            Box::pin(async move {
                let lookup = site.queue().find_by_tag(tag).await?;
                if closes && lookup.found.is_empty() {
                    site.gate().decide_gate(tag, &GateDecision::Void).await?;
                }
                // Keep one, withdraw the rest.
                for extra in lookup.found.iter().skip(1) {
                    site.queue().withdraw(tag, &extra.lrm_id).await?;
                }
                Ok(lookup)
            })
        }),
    );
    Box::pin(async move {
        match found.await {
            Ok(TagLookupAnswer { found, .. }) => {
                let found = found.into_iter().next().map(|found| found.lrm_id);
                let command = JobCommand::LookUpAnswered {
                    component,
                    attempt,
                    asked_at,
                    found,
                };
                (Some(command), DurationMs::ZERO)
            }
            Err(_) => (None, interval),
        }
    })
}

fn open_gate(actor: &JobActor, effect: &JobEffect) -> PendingEffect {
    let component = effect.component;
    let attempt = effect.attempt;
    let tag = attempt_tag_of(actor, effect);
    let decision = GateDecision::Go(make_go_decision(actor, effect));
    let decided = call_own_site(
        actor,
        effect,
        SiteCallMessage::new(SiteCallKind::DecideGate, move |site| {
            Box::pin(async move { site.gate().decide_gate(tag, &decision).await })
        }),
    );
    Box::pin(async move {
        match decided.await {
            Ok(state) => {
                let open = state == GateState::Opened;
                (
                    Some(JobCommand::GateAnswered {
                        component,
                        attempt,
                        open,
                    }),
                    RETRY,
                )
            }
            Err(_) => (None, RETRY),
        }
    })
}

fn make_go_decision(actor: &JobActor, effect: &JobEffect) -> GoDecision {
    let job = actor.job();
    let peers = job.indexed_components().filter_map(|(index, c)| {
        let host = match &c.run {
            AttemptState::AtGate { host, .. }
            | AttemptState::Opened { host, .. }
            | AttemptState::Running { host, .. } => host.to_string(),
            // A component that is over, or not there yet again, has a place in the list all the
            // same.
            _ => "-".to_owned(),
        };
        Some(RoundPeer {
            attempt: c.attempt,
            site: c.placement.as_ref()?.site.clone(),
            host,
            processors: job.processors_of(index),
        })
    });
    GoDecision {
        round: job.round,
        epoch: actor.shared.epoch,
        start_at: job.component_start(effect.component).unwrap_or_default(),
        start_by: latest_payload_start(actor, effect),
        rank: effect.component,
        peers: peers.collect(),
    }
}

/// Returns the last moment at which the payload may begin, by its site's clock. For a common start
/// it was fixed with the decision; a component that is restarted alone has as long from now.
fn latest_payload_start(actor: &JobActor, effect: &JobEffect) -> Timestamp {
    let component = actor.job().components.get(effect.component.0 as usize);
    let clock = component.and_then(|component| match component.run {
        AttemptState::AtGate { clock, .. } => clock,
        _ => None,
    });
    component
        .and_then(|component| component.start_by)
        .unwrap_or_else(|| {
            actor.shared.clock.now()
                + actor.shared.settings.job.go_grace
                + clock.unwrap_or_default()
        })
}

fn end_attempt(actor: &JobActor, effect: &JobEffect) -> PendingEffect {
    let tag = attempt_tag_of(actor, effect);
    let component = actor.job().components.get(effect.component.0 as usize);
    let lrm_id = component.and_then(|c| c.run.lrm_id().cloned());
    let ended = call_own_site(
        actor,
        effect,
        SiteCallMessage::new(SiteCallKind::Cancel, move |site| {
            Box::pin(async move {
                // Void first: a late payload finds its gate shut.
                let gate = site.gate().decide_gate(tag, &GateDecision::Void).await?;
                site.queue()
                    .cancel(tag, lrm_id.as_ref())
                    .await
                    .map(|()| gate)
            })
        }),
    );
    let shared = actor.shared.clone();
    let site = actor.site_of_effect(effect);
    let component = effect.component;
    let attempt = effect.attempt;
    Box::pin(async move {
        let gate = ended.await;
        let Some(site) = site else {
            return (None, RETRY);
        };
        shared
            .actors
            .request_look_of(&ActorId::Cluster(site.clone()));
        let Ok(gate) = gate else { return (None, RETRY) };
        // A site that does not show the attempt has nothing more to report: shut is as good as seen
        // shut.
        let report = shared.live.site_report(&site);
        let seen = report
            .as_ref()
            .and_then(|report| report.observed.attempts.get(&tag));
        let absent = seen.is_some_and(|observation| *observation == AttemptObservation::Absent);
        let asked_at = shared.clock.now();
        let times = SiteClockTimes::default();
        let sighting = AttemptSighting::Void;
        let over = JobCommand::AttemptObserved {
            component,
            attempt,
            asked_at,
            times,
            sighting,
        };
        (
            (absent && gate == GateState::Voided).then_some(over),
            END_AGAIN,
        )
    })
}

fn charge_site(actor: &JobActor, effect: &JobEffect) -> PendingEffect {
    let component = effect.component;
    let charge = charge_of_component(actor.job(), component).cloned();
    let job = actor.job().id;
    let owner = actor.job().owner.clone();
    let cluster = charge
        .as_ref()
        .and_then(|charge| actor.shared.actors.addr::<ClusterActor>(&charge.site));
    let served = charge
        .as_ref()
        .is_some_and(|c| actor.shared.sites.contains_key(&c.site));
    Box::pin(async move {
        let Some(charge) = charge else {
            return (None, RETRY);
        };
        let attempt = charge.attempt;
        let recorded = JobCommand::ChargeRecorded { component, attempt };
        let attempt = AttemptId {
            job,
            component,
            attempt,
        };
        let class = FailureClass::Site;
        let message = ErrorCharge {
            attempt,
            owner,
            class,
            detail: charge.detail,
        };
        match cluster {
            // A site that left the configuration has no record to charge.
            None if !served => (Some(recorded), RETRY),
            None => (None, RETRY),
            Some(cluster) => match cluster.send(message).await {
                Ok(Ok(())) => (Some(recorded), RETRY),
                Ok(Err(_)) | Err(_) => (None, RETRY),
            },
        }
    })
}
