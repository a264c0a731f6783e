//! Flexible jobs that want a reservation: divided over what the sites publish as free (FlexCo), and
//! given the parts that are to be requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{AsyncContext, Context, Handler};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::RequestType;
use cospan_domain::placement::{GridSite, GridSnapshot, place_parts, sites_for_parts};
use cospan_domain::reservation::flexco::{
    FlexPlan, LimitedFreeTime, MetaJob, OfferingSite, plan_best_shape,
};
use cospan_domain::reservation::owner_quota::{OVER_QUOTA, processor_share};
use cospan_domain::reservation::{TimeSpan, Timeline};
use cospan_domain::units::{DurationMs, Timestamp};

use super::rescheduling::ask_free_times;
use super::reservation_sites::can_gain_reserving_sites;
use super::reserver_actor::Reserver;
use crate::chaos::{self, CrashPoint};
use crate::context::SharedState;
use crate::job::{JobCommandMessage, job_actor};
use crate::supervision::{ActorKind, OwedAnswer};

/// The time beyond the latest start in which a start is looked for, to report which one would be
/// possible.
const AHEAD: DurationMs = DurationMs::from_secs(7 * 86_400);
/// The pause before a job for which nothing was free is looked at again.
const PAUSE: DurationMs = DurationMs::from_secs(60);
/// The same pause while some sites have not answered.
const SHORT_PAUSE: DurationMs = DurationMs::from_secs(2);

/// A job was divided and got the command, or is to be looked at again.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct DivisionOutcome {
    job: JobId,
    /// The pause before it is looked at again.
    again: DurationMs,
}

/// The command for a job, or the pause after which it is looked at again.
type DivisionDecision = Result<JobCommand, DurationMs>;

/// The division of a flexible job if it were submitted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivisionPreview {
    /// The number of the shape; 0 is the one that was asked for.
    pub shape: u32,
    /// The time at which its payloads would begin.
    pub start: Timestamp,
    /// True if that is within the starts that the job accepts.
    pub is_accepted: bool,
    /// The processors that each site would give.
    pub parts: Vec<(SiteName, u32)>,
}

/// Works out how a job that is not submitted would be divided by the sites' present answers. `None`
/// if it is not divided.
pub(crate) async fn preview_unsubmitted_division(
    shared: &SharedState,
    grid: &GridSnapshot,
    job: &Job,
) -> Option<Result<DivisionPreview, String>> {
    let wish = job.reservation_terms().filter(|_| needs_division(job))?;
    let said = match decide_division(shared, grid, job).await {
        Ok(JobCommand::Divide { plan, .. }) => {
            let start = plan.start + shared.settings.job.reservation_lead;
            let start = start.max(wish.window.earliest);
            let shape = u32::try_from(plan.shape).unwrap_or_default();
            let is_accepted = start <= wish.window.latest;
            Ok(DivisionPreview {
                shape,
                start,
                is_accepted,
                parts: plan.parts,
            })
        }
        Ok(JobCommand::LoseReservation { reason, .. }) => Err(reason.to_string()),
        Ok(_) | Err(_) => Err("the sites have no room for it now, or have not answered".into()),
    };
    Some(said)
}

/// Returns true if a job with a reservation is divided over what is free.
pub(super) fn needs_division(job: &Job) -> bool {
    matches!(job.spec.request, RequestType::Flexible(_))
}

/// Returns the site at which a job begins: each new job begins at the next one (next-fit).
pub(super) fn first_site_index(job: JobId) -> usize {
    usize::try_from(job.0).unwrap_or_default()
}

impl Reserver {
    /// Asks sites what they have free, and sends a job its division over that.
    pub(super) fn divide_job(
        &mut self,
        job: &Arc<Job>,
        grid: &Arc<GridSnapshot>,
        ctx: &mut Context<Self>,
    ) {
        self.seeking.mark_sending(job.id);
        let shared = self.shared.clone();
        let grid = grid.clone();
        let job = job.clone();
        let owed = OwedAnswer::new(
            ctx.address(),
            DivisionOutcome {
                job: job.id,
                again: PAUSE,
            },
        );
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            let again = match decide_division(&shared, &grid, &job).await {
                Ok(command) => {
                    if let Some(addr) = job_actor(&shared, job.id).await {
                        let _ = addr.send(JobCommandMessage(command)).await;
                    }
                    DurationMs::ZERO
                }
                Err(again) => again,
            };
            owed.send_answer(DivisionOutcome { job: job.id, again })
                .await;
        });
    }
}

async fn decide_division(shared: &SharedState, grid: &GridSnapshot, job: &Job) -> DivisionDecision {
    let now = shared.clock.now();
    let wish = job.reservation_terms();
    let mut meta = job.divisible_job(&shared.settings.job, now).ok_or(PAUSE)?;
    if meta.ready > meta.latest {
        return Ok(lost_reservation_command(
            job,
            "its latest start has passed without a reservation".into(),
        ));
    }
    for _ in 0..2 {
        let free = ask_free_times(
            shared,
            grid,
            TimeSpan::new(now, meta.latest + meta.longest_run()),
        )
        .await;
        let offers = free_offers_for_job(shared, grid, job, &free, now);
        if let Some((plan, placements)) = plan_division(shared, grid, job, &meta, &offers) {
            return Ok(JobCommand::Divide {
                plan,
                placements,
                wish,
            });
        }
        let waits = job.claims_first() || can_gain_reserving_sites(grid, &job.owner);
        match waits {
            true if grid
                .sites()
                .iter()
                .any(|site| site.grants_reservations().is_none()) =>
            {
                return Err(SHORT_PAUSE);
            }
            true => return Err(PAUSE),
            false if smallest_shape_processors(&meta) > total_offered_processors(&offers) => {
                return Ok(lost_reservation_command(
                    job,
                    explain_too_large(&meta, &offers) + over_quota_note(shared, grid, job),
                ));
            }
            // A later start may be possible: look for it, to report it.
            false => meta.latest = meta.latest + AHEAD,
        }
    }
    let reason = "no site that grants reservations has so much free within a week after its latest \
                  start; ask for fewer processors, or allow smaller components \
                  (min_component_size), or more of them (max_components)";
    Ok(lost_reservation_command(
        job,
        reason.to_owned() + over_quota_note(shared, grid, job),
    ))
}

fn lost_reservation_command(job: &Job, reason: String) -> JobCommand {
    JobCommand::LoseReservation {
        reason: reason.into(),
        wish: job.reservation_terms(),
    }
}

fn plan_division(
    shared: &SharedState,
    grid: &GridSnapshot,
    job: &Job,
    meta: &MetaJob,
    offers: &[(SiteName, LimitedFreeTime)],
) -> Option<(FlexPlan, Vec<cospan_domain::placed::Placement>)> {
    let plan = plan_best_shape(
        meta,
        &as_site_offers(offers),
        first_site_index(job.id),
        shared.clock.now(),
    )?;
    let placements = place_parts(job, &plan.parts, grid, &shared.settings.default_policies)?;
    Some((plan, placements))
}

/// Borrows the offers in the form that planning takes.
pub(super) fn as_site_offers(offers: &[(SiteName, LimitedFreeTime)]) -> Vec<OfferingSite<'_>> {
    offers
        .iter()
        .map(|(name, time)| OfferingSite { name, time })
        .collect()
}

/// Lists what the sites that could take part have free for a job: as much as it may have there,
/// from when its input could be there.
pub(super) fn free_offers_for_job(
    shared: &SharedState,
    grid: &GridSnapshot,
    job: &Job,
    free: &BTreeMap<SiteName, Timeline>,
    now: Timestamp,
) -> Vec<(SiteName, LimitedFreeTime)> {
    let sites = sites_for_parts(job, grid, &shared.settings.default_policies).into_iter();
    let offers = sites.filter_map(|(site, placement)| {
        let time = free.get(&site.name)?.clone();
        let processors = most_processors_allowed(shared, job, site)?;
        // At a site where the job has a reservation now, its input is there, or will be.
        let is_here = job.components.iter().any(|component| {
            let placement = component.placement.as_ref();
            placement.is_some_and(|placement| placement.site == site.name)
        });
        let input = if is_here {
            DurationMs::ZERO
        } else {
            placement.transfer_time
        };
        Some((
            site.name.clone(),
            LimitedFreeTime {
                time,
                processors,
                from: now + input,
            },
        ))
    });
    offers.collect()
}

/// Returns the most processors that a job may have at a site.
fn most_processors_allowed(shared: &SharedState, job: &Job, site: &GridSite) -> Option<u32> {
    let total = most_processors_per_job(site)?;
    Some(total.min(quota_processors(shared, job, site).unwrap_or(total)))
}

/// Returns the most processors that a site gives to one job.
fn most_processors_per_job(site: &GridSite) -> Option<u32> {
    let shape = site.shape.as_ref()?;
    Some(
        site.quota
            .max_resources(&shape.total)
            .processors
            .min(shape.largest_component.processors),
    )
}

/// Returns the most of a site's processors that the user of a job may have in reservations, if that
/// is bounded.
fn quota_processors(shared: &SharedState, job: &Job, site: &GridSite) -> Option<u32> {
    let is_exempt = job.reservation_terms().is_some_and(|wish| wish.exempt);
    let total = site.shape.as_ref()?.total.processors;
    (!is_exempt).then(|| processor_share(total, shared.settings.job.reservation_share))
}

/// Returns the text that is added to a refusal if a site could give more than a user may have.
fn over_quota_note(shared: &SharedState, grid: &GridSnapshot, job: &Job) -> &'static str {
    let mut sites = sites_for_parts(job, grid, &shared.settings.default_policies).into_iter();
    let is_bound = sites.any(|(site, _)| {
        quota_processors(shared, job, site)
            .zip(most_processors_per_job(site))
            .is_some_and(|(share, takes)| share < takes)
    });
    if is_bound { OVER_QUOTA } else { "" }
}

/// Returns the processors of the job's smallest shape.
fn smallest_shape_processors(meta: &MetaJob) -> u64 {
    let shapes = meta
        .shapes
        .iter()
        .map(|shape| u64::from(shape.resources.processors));
    shapes.min().unwrap_or_default()
}

/// Returns the processors that the job may have at all of these sites together.
fn total_offered_processors(offers: &[(SiteName, LimitedFreeTime)]) -> u64 {
    offers
        .iter()
        .map(|(_, offer)| u64::from(offer.processors))
        .sum()
}

fn explain_too_large(meta: &MetaJob, offers: &[(SiteName, LimitedFreeTime)]) -> String {
    let names: Vec<&str> = offers.iter().map(|(name, _)| name.as_str()).collect();
    let fewest = smallest_shape_processors(meta);
    let most = total_offered_processors(offers);
    let names = if names.is_empty() {
        "there are none".into()
    } else {
        names.join(", ")
    };
    format!(
        "it asks for {fewest} processors, but the sites that grant reservations, and could take \
         part, have {most} for it altogether ({names}); ask for fewer"
    )
}

impl Handler<DivisionOutcome> for Reserver {
    type Result = ();

    fn handle(&mut self, DivisionOutcome { job, again }: DivisionOutcome, ctx: &mut Context<Self>) {
        chaos::enter_handler(ActorKind::Reserver);
        let not_before = self.shared.clock.now() + again;
        self.seeking.mark_sent_or_postponed(job, not_before);
        self.show_depth();
        self.look_at_seeking_soon(ctx);
    }
}
