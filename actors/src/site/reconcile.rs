//! Convergence with the site: whatever lives there under our instance's tags and is nobody's
//! current attempt is ended on sight; what ended long ago is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use cospan_domain::ids::{AttemptTag, InstanceId, JobId, SiteName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::reservation::{ReservationSerial, ReservationTag, TimeSpan};
use cospan_domain::site::shared_reservation::SharedReservation;
use cospan_domain::site::site_command::SiteCommand;
use cospan_domain::site::site_state::AttemptId;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::{AttemptObservation, GateDecision, Site, SiteError};
use tracing::{info, warn};

use super::shared_reservations::expected_reservations;
use super::{ClusterActor, own_probe};
use crate::committed::CommittedView;
use crate::context::SharedState;

/// The number of removals that are under way at the same time.
const SWEPT_AT_ONCE: usize = 8;

/// The pause until something that is ending is looked at again, and the number of such looks before
/// they become rarer.
const SOON: DurationMs = DurationMs::from_secs(10);
const SOON_TIMES: u32 = 6;

/// The fate of an attempt found at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundAttemptAction {
    /// It is its job's current attempt, or another instance's: not touched.
    Leave,
    /// It is nobody's: ended if it lives; its files stay for a while.
    End,
    /// It is nobody's, and its files have been kept long enough.
    Remove,
}

/// The instances whose attempts and reservations at a site this control plane may end.
#[derive(Clone, Copy)]
pub(super) struct OwnInstances<'a> {
    pub(super) instance: InstanceId,
    /// Instances whose store it took over, where none of them can be using the site.
    pub(super) former: &'a [InstanceId],
}

impl<'a> OwnInstances<'a> {
    fn own_instances_at(site: &dyn Site, shared: &'a SharedState) -> Self {
        let former = if site.queue().is_ours_alone() {
            &shared.former[..]
        } else {
            &[]
        };
        Self {
            instance: shared.instance,
            former,
        }
    }

    fn is_own_reservation(&self, tag: &ReservationTag) -> bool {
        tag.instance == self.instance || self.former.contains(&tag.instance)
    }
}

/// Decides the fate of what was found under a tag.
pub(super) fn decide_attempt_action(
    tag: &AttemptTag,
    ours: OwnInstances<'_>,
    view: &CommittedView,
    now: Timestamp,
    keep: DurationMs,
) -> FoundAttemptAction {
    let instance = ours.instance;
    let job = view.jobs.get(&tag.job);
    // What was taken over from another control plane is ours as well.
    let expected = job.map_or(instance, |job| {
        job.tag_of(instance, tag.component, tag.attempt).instance
    });
    if tag.instance != expected {
        // No job of ours knows what it did after its store was exported.
        let is_left = ours.former.contains(&tag.instance);
        return if is_left {
            FoundAttemptAction::Remove
        } else {
            FoundAttemptAction::Leave
        };
    }
    let Some(job) = job else {
        return FoundAttemptAction::Remove;
    };
    let component = job.components.get(tag.component.0 as usize);
    if component.is_some_and(|c| c.attempt == tag.attempt && c.run.may_live()) {
        return FoundAttemptAction::Leave;
    }
    match end_time_of(job) {
        Some(at) if now >= at + keep => FoundAttemptAction::Remove,
        Some(_) | None => FoundAttemptAction::End,
    }
}

/// Returns true if the reservation under this tag is of use to its job, or to those that share it,
/// or may be.
fn is_reservation_needed(tag: &ReservationTag, site: &SiteName, shared: &SharedState) -> bool {
    if tag.instance != shared.instance {
        return false;
    }
    let view = shared.view.load();
    if tag.is_shared() {
        let shared = view
            .sites
            .get(site)
            .and_then(|record| record.shared_reservation_numbered(tag.serial));
        return shared.is_some_and(SharedReservation::may_exist_at_site);
    }
    let job = view.jobs.get(&tag.job).filter(|job| !job.is_final());
    let reservation = job.and_then(|job| job.reservation.as_deref());
    reservation.is_some_and(|reservation| reservation.needs_serial(tag.serial))
}

/// Lists the reservations that a site should have for jobs whose rounds have not begun there.
fn expected_job_reservations(
    site: &SiteName,
    shared: &SharedState,
) -> BTreeMap<ReservationTag, (JobId, TimeSpan)> {
    let view = shared.view.load();
    let waiting = view
        .jobs
        .values()
        .filter(|job| matches!(job.phase, JobPhase::Placed { .. }));
    let promised = waiting.flat_map(|job| {
        let here = job.components.iter().filter(|component| {
            component
                .placement
                .as_ref()
                .is_some_and(|placement| placement.site == *site)
        });
        let promised = here.filter_map(|component| component.acquisition().reservation_use());
        promised
            .filter(|promised| !promised.shared)
            .map(|promised| {
                let span = TimeSpan::new(promised.from, promised.to);
                (promised.tag(shared.instance, job.id), (job.id, span))
            })
    });
    promised.collect()
}

/// Tells a job that its site lost a reservation; returns false if its actor does not live. Sites know
/// no jobs: whoever puts them together gives this.
pub(crate) type LostReservationReport =
    fn(&SharedState, JobId, &SiteName, ReservationSerial) -> bool;

/// Reports to jobs the reservations that a site should still have, and lost. Nobody waits for the
/// outcome: a job that gets the report too early or too late ignores it, and a job that is just
/// being rebuilt gets it at the next look.
fn report_lost_reservations(
    site: &SiteName,
    shared: &SharedState,
    lost: &BTreeMap<ReservationTag, (JobId, TimeSpan)>,
    report: LostReservationReport,
) {
    let promised = expected_job_reservations(site, shared);
    for (tag, (job, _)) in lost.iter().filter(|(tag, _)| promised.contains_key(tag)) {
        if report(shared, *job, site, tag.serial) {
            warn!(%site, %job, %tag, "the site does not hold this reservation any more");
        }
    }
}

/// The state of our reservations at a site.
#[derive(Default)]
struct ReservationDifferences {
    /// Reservations that nobody needs; at the next look they are cancelled.
    orphans: BTreeSet<ReservationTag>,
    /// Shared reservations that should be there, but are not.
    gone: BTreeSet<ReservationSerial>,
    /// Shared reservations that are there for another time.
    changed: BTreeSet<ReservationSerial>,
}

/// Compares the reservations at a site with those that we need. Those that nobody needs are
/// cancelled if they were so at the last look, too. Looks also for those that should be there, and
/// are not.
async fn compare_reservations(
    site: &dyn Site,
    shared: &SharedState,
    seen_before: &BTreeSet<ReservationTag>,
    report: LostReservationReport,
) -> Result<ReservationDifferences, SiteError> {
    let Some(granting) = site.reservations() else {
        return Ok(ReservationDifferences::default());
    };
    let record = shared.view.load().sites.get(site.name()).cloned();
    let mut gone = record
        .map(|record| expected_reservations(&record, shared.clock.now()))
        .unwrap_or_default();
    let mut lost = expected_job_reservations(site.name(), shared);
    let mut orphans = BTreeSet::new();
    let mut changed = BTreeSet::new();
    let ours = OwnInstances::own_instances_at(site, shared);
    let listed = granting.list().await?.into_iter();
    for (tag, seen) in listed.filter(|(tag, _)| ours.is_own_reservation(tag)) {
        let is_known = tag.is_shared() && tag.instance == shared.instance;
        let expected = if is_known {
            gone.remove(&tag.serial)
        } else {
            None
        };
        if expected.is_some_and(|span| !seen.has_span(span)) {
            changed.insert(tag.serial);
        }
        if lost.get(&tag).is_some_and(|(_, span)| seen.has_span(*span)) {
            lost.remove(&tag);
        }
        if is_reservation_needed(&tag, site.name(), shared) {
            continue;
        }
        if seen_before.contains(&tag) {
            // A reservation still in use is tried again once the strays in it have ended.
            if let Err(problem) = granting.release(tag).await {
                warn!(
                    site = %site.name(),
                    %tag,
                    %problem,
                    "no job needs this reservation; cannot cancel it"
                );
                orphans.insert(tag);
                continue;
            }
            warn!(site = %site.name(), %tag, "no job needs this reservation; cancelled it");
            let orphans = &shared.metrics.reservations.orphans;
            orphans.with_label_values(&[site.name().as_str()]).inc();
        } else {
            orphans.insert(tag);
        }
    }
    report_lost_reservations(site.name(), shared, &lost, report);
    Ok(ReservationDifferences {
        orphans,
        gone: gone.into_keys().collect(),
        changed,
    })
}

fn end_time_of(job: &Job) -> Option<Timestamp> {
    match job.phase {
        JobPhase::Finished { at }
        | JobPhase::Failed { at, .. }
        | JobPhase::Cancelled { at, .. } => Some(at),
        _ => None,
    }
}

impl ClusterActor {
    pub(super) fn next_reconcile_time(&self, now: Timestamp) -> Option<Timestamp> {
        // A full site is reconciled too, which empties it.
        let reaches = self.contact.contact().is_answering() || self.report.out_of_order;
        if self.reconciling || !reaches {
            return None;
        }
        match self.reconciled_at {
            None => Some(now),
            Some(at) => {
                let wanted = self.may_have_own_work();
                wanted.then(|| at + self.reconcile_pause())
            }
        }
    }

    /// The pause until the next sweep: shorter while something stray is ending, as it keeps
    /// processors from others.
    fn reconcile_pause(&self) -> DurationMs {
        let interval = self.shared.settings.reconcile_interval;
        match self.unfinished {
            0 => interval,
            times => interval.min(DurationMs(
                SOON.0 << times.saturating_sub(SOON_TIMES).min(16),
            )),
        }
    }

    /// Returns true if anything of ours may be there: otherwise no timer runs. What jobs left may
    /// outlast their records.
    fn may_have_own_work(&self) -> bool {
        let view = self.shared.view.load();
        self.left_there
            || !view.jobs.is_empty()
            || self
                .record
                .state()
                .shared
                .iter()
                .any(SharedReservation::may_exist_at_site)
            || view.holdings.contains_key(&self.name)
    }

    pub(super) fn is_reconcile_due(&self, now: Timestamp) -> bool {
        self.next_reconcile_time(now)
            .is_some_and(|time| time <= now)
    }

    pub(super) fn start_reconcile(&mut self, ctx: &mut Context<Self>) {
        self.reconciling = true;
        let site = self.site.clone();
        let shared = self.shared.clone();
        let orphans = self.orphans.clone();
        let stuck = self.stuck.clone();
        let sweep = reconcile_site(site, shared, orphans, stuck, self.report_lost);
        ctx.spawn(sweep.into_actor(self).map(|swept, this, ctx| {
            this.reconciling = false;
            let now = this.now();
            this.reconciled_at = Some(now);
            match swept {
                Ok(swept) => this.apply_reconcile(swept, ctx),
                Err(error) => {
                    this.unfinished = this.unfinished.saturating_add(1);
                    info!(site = %this.name, %error, "cannot reconcile; trying again later");
                }
            }
            this.reconcile_probes(ctx);
            this.set_wake_timer(ctx, now);
        }));
    }

    fn apply_reconcile(&mut self, swept: ReconcileOutcome, ctx: &mut Context<Self>) {
        let ReconcileOutcome {
            ended,
            left_there,
            unfinished,
            leases,
            stuck,
        } = swept;
        let ReservationDifferences {
            orphans,
            gone,
            changed,
        } = leases;
        self.left_there = left_there;
        self.stuck = stuck;
        // Processors that were given back are idle now.
        self.hinted |= unfinished || self.unfinished > 0;
        self.unfinished = if unfinished {
            self.unfinished.saturating_add(1)
        } else {
            0
        };
        self.orphans = orphans;
        if !gone.is_empty() || !changed.is_empty() {
            self.record
                .push_command(SiteCommand::SharedMissing { gone, changed }, None);
            self.commit_record(ctx);
        }
        if ended > 0 {
            info!(site = %self.name, ended, "reconciled");
        }
    }

    /// Ends probes whose attempts are over without a report as inconclusive.
    fn reconcile_probes(&mut self, ctx: &mut Context<Self>) {
        let view = self.shared.view.load();
        let live: BTreeSet<AttemptId> = view
            .holdings
            .get(&self.name)
            .into_iter()
            .flat_map(|site| site.keys())
            .filter_map(|(job, component)| attempt_of(&view, *job, component.0))
            .collect();
        drop(view);
        self.record
            .push_command(SiteCommand::ReconcileProbes { live }, None);
        self.commit_record(ctx);
    }
}

/// Looks at everything that is at a site; ends and removes what is nobody's.
async fn reconcile_site(
    site: Arc<dyn Site>,
    shared: Arc<SharedState>,
    seen_before: BTreeSet<ReservationTag>,
    told: BTreeSet<AttemptTag>,
    report: LostReservationReport,
) -> Result<ReconcileOutcome, SiteError> {
    let found = site.queue().list_attempts().await?;
    let keep = shared.settings.keep_attempts;
    let ours = OwnInstances::own_instances_at(&*site, &shared);
    let mut strays = Vec::new();
    let mut left_there = false;
    let mut living = false;
    let mut stuck = BTreeSet::new();
    for some in found.chunks(SWEPT_AT_ONCE) {
        let mut removals = Vec::new();
        for tag in some.iter().copied() {
            let view = shared.view.load();
            let state = view.sites.get(site.name()).map(AsRef::as_ref);
            if own_probe::is_current_probe(&tag, state) {
                left_there = true;
                continue;
            }
            drop(view);
            // The decision uses the view of this moment: a job may have begun a new attempt.
            match decide_attempt_action(&tag, ours, &shared.view.load(), shared.clock.now(), keep) {
                FoundAttemptAction::Leave => left_there |= tag.instance == shared.instance,
                FoundAttemptAction::End => strays.push(tag),
                FoundAttemptAction::Remove => removals.push(remove_attempt_files(&*site, tag)),
            }
        }
        let removed = futures_util::future::join_all(removals).await;
        living |= removed.iter().any(|(_, removed)| is_being_ended(removed));
        stuck.append(&mut collect_stuck_attempts(&*site, removed, &told).await?);
    }
    let leases = compare_reservations(&*site, &shared, &seen_before, report).await?;
    let mut ended = 0;
    if !strays.is_empty() {
        let status = site.queue().status(&strays).await?;
        for (tag, seen) in status.attempts.iter().filter(|(_, seen)| is_alive(seen)) {
            warn!(
                site = %site.name(),
                %tag,
                ?seen,
                "an attempt of no known job still runs; ending it"
            );
            match end_stray_attempt(&*site, *tag).await {
                Ok(()) => ended += 1,
                // The others are ended all the same.
                Err(error) => {
                    warn!(site = %site.name(), %tag, %error, "cannot end it; trying again later");
                }
            }
        }
    }
    let unfinished = living || ended > 0 || !leases.orphans.is_empty();
    let left_there = left_there || unfinished || !strays.is_empty() || !stuck.is_empty();
    Ok(ReconcileOutcome {
        ended,
        left_there,
        unfinished,
        leases,
        stuck,
    })
}

/// Returns true if an attempt still has to end before it can be removed.
fn is_being_ended(removed: &Result<(), SiteError>) -> bool {
    matches!(removed, Err(SiteError::Refused(_)))
}

/// Collects the attempts that could not be removed. One that stays must not keep the others from
/// their end, and is logged once.
async fn collect_stuck_attempts(
    site: &dyn Site,
    removed: Vec<(AttemptTag, Result<(), SiteError>)>,
    told: &BTreeSet<AttemptTag>,
) -> Result<BTreeSet<AttemptTag>, SiteError> {
    let mut stuck = BTreeSet::new();
    for (tag, removed) in removed {
        if is_being_ended(&removed) {
            info!(site = %site.name(), %tag, ?removed, "an attempt of no known job is being ended");
            continue;
        }
        let Err(error) = removed else { continue };
        let is_of_site = matches!(
            error,
            SiteError::NotSent(_) | SiteError::LockedOut(_) | SiteError::OutOfOrder(_)
        );
        if is_of_site {
            // If the site is at fault and not this attempt, this call fails as well.
            site.queue().list_attempts().await?;
        }
        if stuck.insert(tag) && !told.contains(&tag) {
            warn!(site = %site.name(), %tag, %error, "cannot remove an attempt");
        }
    }
    Ok(stuck)
}

/// Ends what may live of an attempt, and removes what it left.
async fn remove_attempt_files(
    site: &dyn Site,
    tag: AttemptTag,
) -> (AttemptTag, Result<(), SiteError>) {
    let removed = async {
        end_stray_attempt(site, tag).await?;
        site.queue().remove_attempt(tag).await
    };
    (tag, removed.await)
}

async fn end_stray_attempt(site: &dyn Site, tag: AttemptTag) -> Result<(), SiteError> {
    site.gate().decide_gate(tag, &GateDecision::Void).await?;
    site.queue().cancel(tag, None).await
}

/// The result of a sweep.
struct ReconcileOutcome {
    /// Attempts that were ended.
    ended: usize,
    left_there: bool,
    /// Something is still to end.
    unfinished: bool,
    leases: ReservationDifferences,
    /// Attempts that could not be removed.
    stuck: BTreeSet<AttemptTag>,
}

fn attempt_of(view: &CommittedView, job: JobId, component: u32) -> Option<AttemptId> {
    let attempt = view
        .jobs
        .get(&job)?
        .components
        .get(component as usize)?
        .attempt;
    let component = cospan_domain::ids::ComponentIndex(component);
    Some(AttemptId {
        job,
        component,
        attempt,
    })
}

fn is_alive(seen: &AttemptObservation) -> bool {
    match seen {
        AttemptObservation::Queued(_)
        | AttemptObservation::Starting
        | AttemptObservation::Ready(_)
        | AttemptObservation::Begun(_) => true,
        AttemptObservation::Absent
        | AttemptObservation::Exited(_)
        | AttemptObservation::Void
        | AttemptObservation::Vanished { .. }
        | AttemptObservation::Ended { .. }
        | AttemptObservation::Unknown(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Attempt, ComponentIndex};

    use super::*;

    #[test]
    fn what_a_former_control_plane_left_is_ended_only_where_nobody_else_can_be() {
        let [us, former, other] = [1, 2, 3].map(InstanceId::from_random);
        let of = |instance, former: &[InstanceId]| {
            let job = JobId(1);
            let component = ComponentIndex(0);
            let attempt = Attempt(1);
            let tag = AttemptTag {
                instance,
                job,
                component,
                attempt,
            };
            let ours = OwnInstances {
                instance: us,
                former,
            };
            decide_attempt_action(
                &tag,
                ours,
                &CommittedView::default(),
                Timestamp(0),
                DurationMs(0),
            )
        };
        assert_eq!(of(former, &[former]), FoundAttemptAction::Remove);
        assert_eq!(
            of(former, &[]),
            FoundAttemptAction::Leave,
            "it may be alive"
        );
        assert_eq!(of(other, &[former]), FoundAttemptAction::Leave);
        assert_eq!(of(us, &[former]), FoundAttemptAction::Remove);
    }
}
