//! Judges shared reservations: by what sites have, and by the attempts that ran in them.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::api::CommittedView;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{InstanceId, KeyName, SiteName};
use cospan_domain::reservation::{Reservation, ReservationSerial, ReservationTag};
use cospan_domain::site::joint_reservation::{JointReservation, JointReservationState};
use cospan_domain::site::shared_reservation::{
    SharedReservation, SharedReservationEnd, SharedReservationStage,
};
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::units::{DurationMs, Timestamp};

use super::seed_oracle::SeedEvidence;
use super::seed_scenario::HOUR;
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_simulator::world::SimulatedWorld;
use cospan_simulator::world::world_history::WorldLedgerEvent;

/// Keys that might use a reservation, each time that was changed.
type Allowed = Vec<BTreeSet<KeyName>>;

/// All records of them, also of those that the sites' records forgot, with everybody who ever might
/// use each.
#[derive(Debug, Default)]
pub struct Sharing(BTreeMap<(SiteName, ReservationSerial), (SharedReservation, Allowed)>);

impl Sharing {
    /// Records a site's record.
    pub(super) fn learn_record(&mut self, record: &SiteRecord) {
        for shared in &record.shared {
            let place = (record.site.clone(), shared.serial);
            let (known, allowed) = self
                .0
                .entry(place)
                .or_insert_with(|| (shared.clone(), Vec::new()));
            known.clone_from(shared);
            if !allowed.contains(&shared.wish.allowed) {
                allowed.push(shared.wish.allowed.clone());
            }
        }
    }
}

/// Lists attempts that ran in a reservation that their jobs did not name, or that was not for their
/// owners.
pub(super) fn used_by_others(evidence: &SeedEvidence<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in evidence.world.ledger().entries() {
        let WorldLedgerEvent::Reserved(lease) = entry.deed else {
            continue;
        };
        if !lease.is_shared() || entry.tag.instance != evidence.instance {
            continue;
        }
        let known = evidence.shared.0.get(&(entry.site.clone(), lease.serial));
        let job = evidence.jobs.get(&entry.tag.job);
        let (Some((known, allowed)), Some(job)) = (known, job) else {
            wrong.push(format!(
                "{} used {lease}, which was never wanted",
                entry.tag
            ));
            continue;
        };
        let wish = &known.wish;
        let owner = &job.owner;
        // An attempt that was let in runs on when it is for others.
        let may = allowed
            .iter()
            .any(|keys| keys.is_empty() || keys.contains(owner));
        if job.shared_reservation() != Some(&wish.name) || !may {
            wrong.push(format!(
                "{} of {owner} used {lease}, {}",
                entry.tag, wish.name
            ));
        }
    }
    wrong
}

/// Lists reservations that a site's record says are kept, and that the site does not have, or has
/// under another name.
pub(super) fn not_kept(plane_run: &ControlPlaneRun, change: &JournalChange) -> Vec<String> {
    let JournalChange::Site { old, new } = change else {
        return Vec::new();
    };
    let view = plane_run.plane.view();
    let now = plane_run.plane.now();
    // It may have been cancelled since.
    if view.sites.get(&new.site) != Some(new) {
        return Vec::new();
    }
    let old = old.as_deref();
    let instance = plane_run.plane.shared().instance;
    let shared = new.shared.iter();
    let wanted = shared.filter(|shared| stage_before(old, shared).is_none());
    let twice = wanted.filter_map(|shared| named_twice(&view, shared, now));
    // The control plane, too, looks later at what becomes of it when it is extended.
    let confirmed = new.shared.iter().filter(|shared| {
        shared.stage == SharedReservationStage::Confirmed
            && stage_before(old, shared) == Some(&SharedReservationStage::Granted)
    });
    let wrong = plane_run.world.read(|world| {
        let missing =
            confirmed.filter_map(|shared| missing_at_site(world, instance, &new.site, shared));
        let each = new.shared.iter();
        let early = each
            .clone()
            .filter_map(|shared| confirmed_early(world, instance, new, shared));
        let ended = each.filter(|shared| {
            let was = stage_before(old, shared);
            let was = was.is_some_and(|was| !matches!(was, SharedReservationStage::Ended(_)));
            was && !matches!(
                shared.end_reason(),
                Some(SharedReservationEnd::Lost | SharedReservationEnd::Refused { .. })
            )
        });
        // A reservation that a site refuses to cancel is nobody's then, and cancelled later.
        let told = ended.filter(|_| !plane_run.call_faults.may_inject(FaultKind::Refused));
        let left = told.filter_map(|shared| not_cancelled(world, instance, new, shared));
        missing.chain(early).chain(left).collect::<Vec<_>>()
    });
    let unheard = old.and_then(|old| lost_without_message(old, new, now));
    twice.chain(wrong).chain(unheard).collect()
}

fn stage_before<'r>(
    old: Option<&'r SiteRecord>,
    shared: &SharedReservation,
) -> Option<&'r SharedReservationStage> {
    let before = old?.shared_reservation_numbered(shared.serial)?;
    Some(&before.stage)
}

/// Returns the reservation as its site has it.
fn reservation_at_site<'w>(
    world: &'w SimulatedWorld,
    instance: InstanceId,
    record: &SiteRecord,
    shared: &SharedReservation,
) -> Option<&'w Reservation> {
    let tag = ReservationTag::shared(instance, shared.serial);
    let cluster = &world.sites()[world.index_of(&record.site)?.index()];
    cluster
        .current_reservations()
        .find(|(held, _)| **held == tag)
        .map(|(_, lease)| lease)
}

/// Returns a reservation that was confirmed to a site before it was written that all have granted
/// it: nobody would know of it if we died now, or nobody could use it.
fn confirmed_early(
    world: &SimulatedWorld,
    instance: InstanceId,
    record: &SiteRecord,
    shared: &SharedReservation,
) -> Option<String> {
    let may = match shared.stage {
        SharedReservationStage::Asked => false,
        SharedReservationStage::Granted => shared.joint_state() != JointReservationState::Looking,
        _ => true,
    };
    let lease = reservation_at_site(world, instance, record, shared)
        .filter(|lease| lease.expires.is_none());
    lease.filter(|_| !may).map(|lease: &Reservation| {
        let name = &shared.wish.name;
        let site = &record.site;
        format!(
            "{name} at {site} is {:?}, and the site keeps {lease:?}",
            shared.stage
        )
    })
}

/// Returns a reservation that is recorded to be over although the site never got the request, and
/// has it.
fn not_cancelled(
    world: &SimulatedWorld,
    instance: InstanceId,
    record: &SiteRecord,
    shared: &SharedReservation,
) -> Option<String> {
    let SharedReservationStage::Ended(why) = &shared.stage else {
        return None;
    };
    let tag = ReservationTag::shared(instance, shared.serial);
    let cluster = &world.sites()[world.index_of(&record.site)?.index()];
    let lease = reservation_at_site(world, instance, record, shared)?;
    let lives = world.now() < lease.span.to && lease.expires.is_none_or(|at| world.now() < at);
    (lives && !cluster.has_cancelled_reservation(tag)).then(|| {
        format!(
            "{tag} at {} is over ({why:?}), and it has {lease:?}",
            record.site
        )
    })
}

/// Returns a reservation that a site was to keep and has no more, without a message to anybody.
fn lost_without_message(old: &SiteRecord, new: &SiteRecord, now: Timestamp) -> Option<String> {
    let lost = new.shared.iter().find(|shared| {
        let kept = old
            .shared_reservation_numbered(shared.serial)
            .is_some_and(|old| old.is_kept(now));
        kept && matches!(
            shared.end_reason(),
            Some(SharedReservationEnd::Lost | SharedReservationEnd::WrongStart)
        )
    })?;
    let told = new.last_notification > old.last_notification;
    (!told).then(|| {
        format!(
            "{} at {} is lost, and nobody is told",
            lost.wish.name, new.site
        )
    })
}

/// After clocks were set back, what is over begins again.
const SET_BACK: DurationMs = DurationMs(2 * HOUR);

fn named_twice(view: &CommittedView, shared: &SharedReservation, now: Timestamp) -> Option<String> {
    let name = &shared.wish.name;
    let now = now + SET_BACK;
    let named = view.sites.values().flat_map(|site| &site.shared);
    let live = named.filter(|other| other.wish.name == *name && !other.is_over(now));
    // Its parts at other sites, and starts that were tried in vain, are no other reservations.
    let others = live.filter(|other| {
        let goes = other.end_reason() == Some(&SharedReservationEnd::AskedAnew);
        !goes && (other.wish.parts.is_empty() || other.wish.parts != shared.wish.parts)
    });
    let live = others.count() + usize::from(!shared.wish.parts.is_empty());
    (live > 1).then(|| format!("{live} reservations are called {name}"))
}

/// Returns what the site has instead of what it is recorded to keep. If it lost something without a
/// word it is asked before long.
fn missing_at_site(
    world: &SimulatedWorld,
    instance: InstanceId,
    site: &SiteName,
    shared: &SharedReservation,
) -> Option<String> {
    let tag = ReservationTag::shared(instance, shared.serial);
    let cluster = &world.sites()[world.index_of(site)?.index()];
    let lease = cluster
        .current_reservations()
        .find(|(held, _)| **held == tag)
        .map(|(_, lease)| *lease);
    let recorded = shared.reserved_span()?;
    let is_held = lease.is_some_and(|lease| lease.span == recorded && lease.expires.is_none());
    let is_over = recorded.to <= world.now();
    (!is_held && !is_over && !cluster.has_lost_reservation(tag))
        .then(|| format!("{tag} at {site}: {recorded:?}, and it has {lease:?}"))
}

/// Lists where records and sites disagree about what is kept, once all has come to rest.
pub(super) fn find_disagreements(plane_run: &ControlPlaneRun, instance: InstanceId) -> Vec<String> {
    let view = plane_run.plane.view();
    let now = plane_run.plane.now();
    plane_run.world.read(|world| {
        let records = view.sites.values();
        let kept = records.flat_map(|record| record.shared.iter().map(move |kept| (record, kept)));
        let kept = kept.filter(|(_, shared)| shared.is_kept(now));
        let halves = incomplete_reservations(&view, now);
        let missing = kept.filter_map(|(record, shared)| {
            let tag = ReservationTag::shared(instance, shared.serial);
            let site = &world.sites()[world.index_of(&record.site)?.index()];
            let lease = site
                .current_reservations()
                .find(|(held, _)| **held == tag)
                .map(|(_, lease)| *lease);
            let agrees = lease.is_some_and(|lease| Some(lease.span) == shared.reserved_span());
            (!agrees).then(|| format!("{tag} at {}: {shared:?}, and it has {lease:?}", record.site))
        });
        let open = view.sites.values().flat_map(|record| open_requests(record));
        missing.chain(halves).chain(open).collect()
    })
}

/// Lists reservations of which the site is still to be asked something.
fn open_requests(record: &SiteRecord) -> impl Iterator<Item = String> + '_ {
    let settled = |stage: &SharedReservationStage| {
        matches!(
            stage,
            SharedReservationStage::Confirmed | SharedReservationStage::Ended(_)
        )
    };
    let open = record
        .shared
        .iter()
        .filter(move |shared| !settled(&shared.stage));
    open.map(|shared| {
        format!(
            "{} at {} is still {:?}",
            shared.wish.name, record.site, shared.stage
        )
    })
}

/// Lists parts of reservations at several sites that are there although the others never were, or
/// that begin too far apart.
fn incomplete_reservations(view: &CommittedView, now: Timestamp) -> Vec<String> {
    let all = view
        .sites
        .iter()
        .flat_map(|(site, record)| record.shared.iter().map(move |part| (site, part)));
    let parts = all.filter(|(_, part)| part.together.is_some() && part.is_kept(now));
    let wrong = parts.filter_map(|(site, part)| {
        let group = JointReservation::around_part(site, part, &|site| view.site_record(site));
        let starts = group.parts().iter().filter_map(|(_, part)| part.granted);
        let apart = starts.clone().max()?.since(starts.min()?);
        let is_half = group
            .parts()
            .iter()
            .any(|(_, other): &(&SiteName, &SharedReservation)| {
                other.joint_state() != JointReservationState::Kept
            })
            || apart > part.wish.tolerance;
        is_half.then(|| {
            format!(
                "{} at {site} is kept, but of all: {group:?}",
                part.wish.name
            )
        })
    });
    wrong.collect()
}

/// Returns true if this is kept for jobs that may come yet.
pub(super) fn is_for_others(view: &CommittedView, site: &SiteName, tag: ReservationTag) -> bool {
    let shared = view
        .sites
        .get(site)
        .and_then(|record| record.shared_reservation_numbered(tag.serial));
    tag.is_shared()
        && shared.is_some_and(|shared| shared.stage == SharedReservationStage::Confirmed)
}
