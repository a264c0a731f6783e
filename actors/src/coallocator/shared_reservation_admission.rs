//! Jobs that named a shared reservation: placed on what is left of it, in the order of their
//! numbers, and past those that do not fit. They wait in no placement queue, as nothing has to be
//! idle for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context, Handler, SpawnHandle};
use cospan_domain::acquisition::{Acquisition, UsedReservation};
use cospan_domain::ids::{ComponentIndex, JobId, SiteName};
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::placed::Placement;
use cospan_domain::placement::{GridSnapshot, place_on_resources};
use cospan_domain::reservation::ReservationSerial;
use cospan_domain::resources::Resources;
use cospan_domain::site::joint_reservation::JointReservation;
use cospan_domain::site::shared_reservation::SharedReservation;
use cospan_domain::units::{DurationMs, Timestamp};

use super::coallocator_actor::CoAllocator;
use crate::chaos::{self, CrashPoint};
use crate::committed::CommittedView;
use crate::job::{JobCommandMessage, job_actor, send_job_command};
use crate::supervision::{ActorKind, OwedAnswer};

/// The time from the placement to the claim that the site takes in.
const SPARE: DurationMs = DurationMs::from_secs(10);

/// The pause before a job is looked at again whose place another may have taken.
const LOOK_AGAIN: DurationMs = DurationMs(20);

/// The place of a reservation: its site, and its number there.
type ReservationPlace = (SiteName, ReservationSerial);
/// Resources taken of reservations.
type ReservationUsage = Vec<(ReservationPlace, Resources)>;

/// Jobs in shared reservations.
#[derive(Debug, Default)]
pub(super) struct SharedReservationJobs {
    /// Jobs that wait, each with the time before which it is not to be placed.
    waiting: BTreeMap<JobId, Timestamp>,
    /// Jobs that have not ended.
    sharing: BTreeSet<JobId>,
    /// Jobs whose command is under way, with what they take where.
    told: BTreeMap<JobId, ReservationUsage>,
    wake: Option<SpawnHandle>,
}

/// A job was sent the decision.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct AdmissionDecisionSent(JobId);

/// The decision on a job that waits.
enum AdmissionDecision {
    /// The job has a place.
    Place(ReservationUsage, Vec<Placement>),
    /// The job will have none.
    Fail(Arc<str>),
    /// The job waits; at the latest until then.
    Wait(Option<Timestamp>),
}

impl SharedReservationJobs {
    /// Follows a job as it stands in the view.
    pub(super) fn update_sharing_job(&mut self, id: JobId, job: Option<&Job>) {
        let job = job.filter(|job| job.shared_reservation().is_some() && !job.is_final());
        match job {
            Some(_) => drop(self.sharing.insert(id)),
            None => drop(self.sharing.remove(&id)),
        }
        match job
            .filter(|job| job.waits_in_shared_reservation())
            .map(|job| &job.phase)
        {
            Some(JobPhase::Queued { not_before, .. }) => drop(self.waiting.insert(id, *not_before)),
            Some(_) | None => drop(self.waiting.remove(&id)),
        }
    }

    /// Returns what jobs take of a reservation, or are about to.
    fn taken_of_reservation(&self, view: &CommittedView, place: &ReservationPlace) -> Resources {
        let mut taken = Resources::default();
        let told = self.told.values().flatten().filter(|(of, _)| of == place);
        told.for_each(|(_, resources)| taken.add(resources));
        let settled = self.sharing.iter().filter(|id| !self.told.contains_key(id));
        for job in settled.filter_map(|id| view.jobs.get(id)) {
            taken.add(&taken_by_job(job, place));
        }
        taken
    }
}

/// Returns what a job that was placed takes of a reservation until it has ended.
fn taken_by_job(job: &Job, (site, serial): &ReservationPlace) -> Resources {
    let mut taken = Resources::default();
    let waits = matches!(job.phase, JobPhase::Queued { .. });
    for (index, component) in job.components.iter().enumerate().filter(|_| !waits) {
        let promised = component.acquisition().reservation_use();
        let there = component
            .placement
            .as_ref()
            .is_some_and(|placed| placed.site == *site);
        if there && promised.is_some_and(|it| it.shared && it.serial == *serial) {
            taken.add(
                &job.resources_of(ComponentIndex(index as u32))
                    .unwrap_or_default(),
            );
        }
    }
    taken
}

impl CoAllocator {
    /// Places the jobs whose time has come, as far as there is room for them.
    pub(super) fn place_sharing_jobs(&mut self, ctx: &mut Context<Self>) {
        if self.within.waiting.is_empty() {
            return;
        }
        let view = self.shared.view.load();
        let now = self.shared.clock.now();
        let grid = self.grid.snapshot(&self.shared);
        let mut next: Option<Timestamp> = None;
        let waiting: Vec<(JobId, Timestamp)> = self
            .within
            .waiting
            .iter()
            .map(|(id, time)| (*id, *time))
            .collect();
        for (id, not_before) in waiting {
            let untold = !self.within.told.contains_key(&id);
            let Some(job) = view.jobs.get(&id).filter(|_| untold) else {
                continue;
            };
            let verdict = if not_before <= now {
                self.decide_admission(job, &view, &grid, now)
            } else {
                AdmissionDecision::Wait(Some(not_before))
            };
            match verdict {
                AdmissionDecision::Place(takes, placements) => {
                    let room = self.shared.promised.check_room(&view, &placements);
                    if room.is_there {
                        self.within.told.insert(id, takes);
                        self.send_placement(id, placements, ctx);
                    } else {
                        // A job before it took the room for copies.
                        next = next.into_iter().chain([now + LOOK_AGAIN]).min();
                    }
                }
                AdmissionDecision::Fail(reason) => {
                    self.within.told.insert(id, Vec::new());
                    let wish = job.reservation_terms();
                    let command = JobCommand::LoseReservation { reason, wish };
                    let heard = AdmissionDecisionSent(id);
                    send_job_command(&self.shared, id, command, heard, ctx.address());
                }
                AdmissionDecision::Wait(until) => next = next.into_iter().chain(until).min(),
            }
        }
        self.schedule_sharing_look(next.map(|next| next.since(now)), ctx);
    }

    /// Sends a job its place. The room for its input is deducted until it has decided.
    fn send_placement(&self, id: JobId, placements: Vec<Placement>, ctx: &mut Context<Self>) {
        let shared = self.shared.clone();
        let deducted = shared.promised.deduct_for_placements(placements.iter());
        let owed = OwedAnswer::new(ctx.address(), AdmissionDecisionSent(id));
        actix_rt::spawn(async move {
            chaos::reach_point(CrashPoint::SpawnedFuture);
            let by = None;
            let place = JobCommandMessage(JobCommand::Place { placements, by });
            let answer = match job_actor(&shared, id).await {
                Some(addr) => addr.send(place).await.ok(),
                None => None,
            };
            if let Some(deducted) = deducted {
                let taken = matches!(answer, Some(Ok(())));
                deducted.end_once_decided(taken, shared.journal()).await;
            }
            owed.send_default_answer().await;
        });
    }

    fn decide_admission(
        &self,
        job: &Job,
        view: &CommittedView,
        grid: &GridSnapshot,
        now: Timestamp,
    ) -> AdmissionDecision {
        let Some(name) = job.shared_reservation() else {
            return AdmissionDecision::Wait(None);
        };
        let group = view.joint_reservation_named(name, now);
        let leader = group.as_ref().and_then(|group| group.leading_part(now));
        let Some((group, (site, reservation))) = group.as_ref().zip(leader) else {
            return AdmissionDecision::Fail(
                format!("its reservation {name} no longer exists").into(),
            );
        };
        if let Some(why) = reservation.exclusion_reason(&job.owner, now) {
            return AdmissionDecision::Fail(
                format!("its reservation {name} at {site} {why}").into(),
            );
        }
        let parts = group
            .usable_parts(now)
            .filter_map(|(_, part)| Some((part, part.reserved_span()?)));
        let parts: Vec<_> = parts.collect();
        // A job that comes to its gate from then on does not begin before the reservation does.
        let go_lead = self.shared.settings.job.go_lead;
        let begins = parts
            .iter()
            .map(|(part, lease)| lease.from.max(part.start() - go_lead))
            .max();
        let ends = parts.iter().map(|(_, lease)| lease.to).min();
        let Some((from, to)) = begins.zip(ends) else {
            return AdmissionDecision::Wait(None);
        };
        if now < from {
            return AdmissionDecision::Wait(Some(from));
        }
        if to < now + SPARE.min(reservation.wish.margin) + job.spec.wall_time {
            // The reservation may be extended.
            return AdmissionDecision::Wait(Some(to));
        }
        let left = group.usable_parts(now).map(|(site, part)| {
            let mut left = part.wish.resources.clone();
            left.subtract(
                &self
                    .within
                    .taken_of_reservation(view, &(site.clone(), part.serial)),
            );
            (site.clone(), left)
        });
        let request = self.shared.placement_request_of(job);
        match place_on_resources(&request, grid, &left.collect()) {
            Some(placements) => admit_job(job, placements, group, now),
            None => AdmissionDecision::Wait(Some(to)),
        }
    }

    fn schedule_sharing_look(&mut self, pause: Option<DurationMs>, ctx: &mut Context<Self>) {
        if let Some(handle) = self.within.wake.take() {
            ctx.cancel_future(handle);
        }
        self.within.wake = pause.map(|pause| {
            ctx.run_later(Duration::from_millis(pause.0.max(5)), |this, ctx| {
                this.within.wake = None;
                this.place_sharing_jobs(ctx);
            })
        });
    }
}

/// Places a job under the reservations that it shares, with what it takes of them.
fn admit_job(
    job: &Job,
    placements: Vec<Placement>,
    group: &JointReservation<'_>,
    now: Timestamp,
) -> AdmissionDecision {
    let parts: BTreeMap<&SiteName, &SharedReservation> = group.usable_parts(now).collect();
    let uses = job
        .spec
        .resource_uses(&placements)
        .filter_map(|(site, used)| {
            let serial = parts.get(&site)?.serial;
            Some(((site, serial), used))
        });
    let takes = uses.collect();
    AdmissionDecision::Place(
        takes,
        placements
            .into_iter()
            .map(|placement: Placement| {
                let part = parts.get(&placement.site);
                let promised = part.and_then(|part| {
                    let serial = part.serial;
                    let lease = part.reserved_span()?;
                    Some(UsedReservation {
                        serial,
                        from: lease.from,
                        to: lease.to,
                        shared: true,
                    })
                });
                let acquisition = promised.map(Acquisition::Reserved).unwrap_or_default();
                Placement {
                    acquisition,
                    ..placement
                }
            })
            .collect(),
    )
}

impl Handler<AdmissionDecisionSent> for CoAllocator {
    type Result = ();

    fn handle(
        &mut self,
        AdmissionDecisionSent(job): AdmissionDecisionSent,
        ctx: &mut Context<Self>,
    ) {
        chaos::enter_handler(ActorKind::CoAllocator);
        self.within.told.remove(&job);
        // The command may have come to nothing.
        self.schedule_sharing_look(Some(LOOK_AGAIN), ctx);
    }
}
