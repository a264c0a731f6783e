//! Reservations at this site: the site itself keeps them, in one file, and enforces them.
//!
//! The timeline is built anew for each call, from what runs and what is reserved: both are few, and
//! nothing can then disagree with them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::reservation::{
    IdleDrop, Reservation, ReservationAnswer, ReservationLedger, ReservationTag, ResourceAmounts,
    StartWindow, TimeSpan, Timeline, list_idle_drops,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, Timestamp};
use serde::{Deserialize, Serialize};

use super::attempt_root::VerifiedSiteRoot;
use super::live_attempts::LiveAttempts;
use super::{LocalSite, LocalSiteState, not_done_error, outcome_unknown_error, steady_now};
use crate::port::{
    AttemptSubmitRequest, FreeSlot, ObservedReservation, ReservationsByTag, SiteError,
    SiteReservations, TaggedReservationRequest,
};

/// The file of all reservations; missing while there are none.
pub(super) const LEASES: &str = "leases.json";
/// The time that the work of others is assumed to go on: their number has no end.
const FOREIGN: DurationMs = DurationMs::from_secs(86_400);

/// A reservation as it is stored; times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredReservation {
    processors: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    others: BTreeMap<Arc<str>, u64>,
    from: u64,
    to: u64,
    earliest: u64,
    latest: u64,
    #[serde(default)]
    flexible: bool,
    /// The time at which it ends unless it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    /// The number of the last request to change it.
    #[serde(default)]
    number: u32,
}

impl StoredReservation {
    fn from_reservation(lease: &Reservation, timeline: &Timeline) -> Self {
        let Resources { processors, others } = timeline.kinds().to_resources(&lease.amounts);
        let others = others.into_iter().filter(|(_, count)| *count > 0).collect();
        Self {
            processors,
            others,
            from: lease.span.from.0,
            to: lease.span.to.0,
            earliest: lease.window.earliest.0,
            latest: lease.window.latest.0,
            flexible: lease.flexible,
            expires: lease.expires.map(|expires| expires.0),
            number: lease.number,
        }
    }

    fn reserved_resources(&self) -> Resources {
        Resources {
            processors: self.processors,
            others: self.others.clone(),
        }
    }

    fn reserved_span(&self) -> TimeSpan {
        TimeSpan::new(Timestamp(self.from), Timestamp(self.to))
    }

    fn to_reservation(&self, amounts: ResourceAmounts) -> Reservation {
        Reservation {
            span: self.reserved_span(),
            amounts,
            window: StartWindow::new(Timestamp(self.earliest), Timestamp(self.latest)),
            flexible: self.flexible,
            expires: self.expires.map(Timestamp),
            number: self.number,
        }
    }

    fn to_observed(&self) -> ObservedReservation {
        let confirmed = self.expires.is_none();
        ObservedReservation {
            span: self.reserved_span(),
            resources: self.reserved_resources(),
            confirmed,
        }
    }
}

/// Reservations by the text of their tags.
type StoredReservations = BTreeMap<String, StoredReservation>;

/// Loads the reservations that have not ended.
fn load_reservations(root: &VerifiedSiteRoot, now: Timestamp) -> io::Result<StoredReservations> {
    let Some(file) = root.read_file(LEASES)? else {
        return Ok(StoredReservations::new());
    };
    let mut leases: StoredReservations = serde_json::from_slice(&file.bytes)?;
    leases.retain(|_, kept| now.0 < kept.to && kept.expires.is_none_or(|at| now.0 < at));
    Ok(leases)
}

/// Returns what reservations keep from everybody else now, besides what runs under them.
pub(super) fn reserved_unused(
    root: &VerifiedSiteRoot,
    ledger: &LiveAttempts,
    now: Timestamp,
) -> io::Result<Resources> {
    let mut kept_free = Resources::default();
    for (tag, kept) in load_reservations(root, now)?
        .iter()
        .filter(|(_, kept)| kept.from <= now.0)
    {
        let mut rest = kept.reserved_resources();
        rest.subtract(&ledger.used_in_reservation(tag));
        kept_free.add(&rest);
    }
    Ok(kept_free)
}

impl LocalSiteState {
    /// Builds the ledger of what is reserved and what is free, now and later.
    fn build_reservation_ledger(
        &self,
        root: &VerifiedSiteRoot,
        ledger: &LiveAttempts,
        leases: &StoredReservations,
        now: Timestamp,
    ) -> Result<ReservationLedger<ReservationTag>, SiteError> {
        let mut timeline = Timeline::new(now, &self.config.total)
            .map_err(|error| SiteError::Refused(error.to_string()))?;
        let foreign = Resources::processors(self.foreign_processors()?);
        let running =
            ledger.used_without_live_reservation(|lease| !leases.contains_key(lease), now);
        for (resources, until) in running.chain([(foreign, now + FOREIGN)]) {
            let amounts = timeline
                .to_amounts(&resources)
                .map_err(|error| SiteError::Refused(error.to_string()))?;
            timeline.book(TimeSpan::new(now, until), &amounts);
        }
        let mut book = ReservationLedger::new(timeline);
        for (tag, kept) in leases {
            let amounts = book.timeline().to_amounts(&kept.reserved_resources());
            let (Ok(tag), Ok(amounts)) = (tag.parse(), amounts) else {
                let place = root.attempts_directory().with_file_name(LEASES);
                let what = format!("{}: {tag} is no reservation of this site", place.display());
                return Err(SiteError::NotSent(what));
            };
            book.restore(tag, kept.to_reservation(amounts));
        }
        Ok(book)
    }

    /// Applies work to the reservations, and stores the resulting one with this tag.
    fn change_reservation<T>(
        &self,
        tag: ReservationTag,
        work: impl FnOnce(&mut ReservationLedger<ReservationTag>, Timestamp) -> T,
    ) -> Result<T, SiteError> {
        let root = self.open_root()?;
        let mut ledger = self.lock_ledger();
        ledger
            .refresh_entries(&root, true)
            .map_err(|e| not_done_error(&e))?;
        let now = steady_now();
        let mut leases = load_reservations(&root, now).map_err(|e| not_done_error(&e))?;
        let mut book = self.build_reservation_ledger(&root, &ledger, &leases, now)?;
        let result = work(&mut book, now);
        let after = book
            .find_by_tag(&tag)
            .map(|lease| StoredReservation::from_reservation(lease, book.timeline()));
        if leases.get(&tag.to_string()) != after.as_ref() {
            match after {
                Some(kept) => leases.insert(tag.to_string(), kept),
                None => leases.remove(&tag.to_string()),
            };
            let bytes = serde_json::to_vec(&leases).map_err(|e| not_done_error(&e.into()))?;
            root.replace_durably(LEASES, &bytes)
                .map_err(|e| outcome_unknown_error(&e))?;
        }
        Ok(result)
    }

    /// Returns the times at which idle resources drop because others have reserved them.
    pub(super) fn idle_drops(
        &self,
        root: &VerifiedSiteRoot,
        ledger: &LiveAttempts,
        idle: &Resources,
    ) -> Result<Vec<IdleDrop>, SiteError> {
        let now = steady_now();
        let leases = load_reservations(root, now).map_err(|e| outcome_unknown_error(&e))?;
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        Ok(list_idle_drops(
            self.build_reservation_ledger(root, ledger, &leases, now)?
                .timeline(),
            idle,
            now,
        ))
    }

    /// Checks that an attempt may start: within its reservation, or without breaking any.
    pub(super) fn check_reservations(
        &self,
        root: &VerifiedSiteRoot,
        ledger: &LiveAttempts,
        order: &AttemptSubmitRequest,
        longest: DurationMs,
    ) -> Result<(), SiteError> {
        let now = steady_now();
        let leases = load_reservations(root, now).map_err(|e| not_done_error(&e))?;
        match order.reservation {
            Some(tag) => check_fits_reservation(&leases, ledger, tag, order, now),
            None if leases.is_empty() => Ok(()),
            None => {
                let book = self.build_reservation_ledger(root, ledger, &leases, now)?;
                let timeline = book.timeline();
                let need = timeline.to_amounts(&order.resources);
                let need = need.map_err(|error| SiteError::Refused(error.to_string()))?;
                let span = TimeSpan::new(now, now + order.hold_max + longest);
                if timeline.is_free(span, &need) {
                    Ok(())
                } else {
                    Err(SiteError::SiteFull(format!(
                        "others have reserved what it asks for, within the next {}",
                        order.hold_max + longest
                    )))
                }
            }
        }
    }
}

/// Checks that an attempt fits into its reservation now.
fn check_fits_reservation(
    leases: &StoredReservations,
    ledger: &LiveAttempts,
    tag: ReservationTag,
    order: &AttemptSubmitRequest,
    now: Timestamp,
) -> Result<(), SiteError> {
    if !tag.may_serve(order.tag.instance, order.tag.job) {
        return Err(SiteError::Refused(format!(
            "reservation {tag} is another's"
        )));
    }
    let Some(kept) = leases.get(&tag.to_string()) else {
        return Err(SiteError::SiteFull(format!(
            "its reservation {tag} has ended"
        )));
    };
    let span = kept.reserved_span();
    if now < span.from {
        return Err(SiteError::SiteFull(format!(
            "its reservation begins in {}",
            span.from.since(now)
        )));
    }
    if now + order.wall_time > span.to {
        let left = span.to.since(now);
        return Err(SiteError::SiteFull(format!(
            "only {left} are left of its reservation"
        )));
    }
    let mut left = kept.reserved_resources();
    left.subtract(&ledger.used_in_reservation(&tag.to_string()));
    match left.first_shortage(&order.resources) {
        Some(shortage) => Err(SiteError::SiteFull(format!(
            "the attempt {shortage} reserved"
        ))),
        None => Ok(()),
    }
}

#[async_trait]
impl SiteReservations for LocalSite {
    async fn request(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<ReservationAnswer, SiteError> {
        let order = order.clone();
        self.run_blocking(move |shared| {
            shared.change_reservation(
                order.tag,
                move |book: &mut ReservationLedger<ReservationTag>, now| {
                    book.request_reservation(order.tag, &order.request, now + order.keep_for)
                },
            )
        })
        .await
    }

    async fn modify(
        &self,
        order: &TaggedReservationRequest,
    ) -> Result<Option<ReservationAnswer>, SiteError> {
        let order = order.clone();
        self.run_blocking(move |shared| {
            shared.change_reservation(
                order.tag,
                move |book: &mut ReservationLedger<ReservationTag>, _| {
                    book.modify(&order.tag, order.number, &order.request)
                },
            )
        })
        .await
    }

    async fn renew(&self, tag: ReservationTag, keep_for: DurationMs) -> Result<bool, SiteError> {
        self.run_blocking(move |shared| {
            shared.change_reservation(
                tag,
                move |book: &mut ReservationLedger<ReservationTag>, now| {
                    book.renew(&tag, now + keep_for)
                },
            )
        })
        .await
    }

    async fn confirm(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.run_blocking(move |shared| {
            shared.change_reservation(
                tag,
                move |book: &mut ReservationLedger<ReservationTag>, _| book.confirm(&tag),
            )
        })
        .await
    }

    async fn release(&self, tag: ReservationTag) -> Result<bool, SiteError> {
        self.run_blocking(move |shared| {
            shared.change_reservation(
                tag,
                move |book: &mut ReservationLedger<ReservationTag>, _| book.cancel(&tag),
            )
        })
        .await
    }

    async fn find(&self, tag: ReservationTag) -> Result<Option<ObservedReservation>, SiteError> {
        Ok(self.list().await?.remove(&tag))
    }

    async fn list(&self) -> Result<ReservationsByTag, SiteError> {
        self.run_blocking(|shared: &Arc<LocalSiteState>| {
            let leases = load_reservations(&shared.open_root()?, steady_now())
                .map_err(|e| outcome_unknown_error(&e))?;
            let seen = leases
                .iter()
                .map(|(tag, kept)| Some((tag.parse().ok()?, kept.to_observed())));
            Ok(seen.flatten().collect())
        })
        .await
    }

    async fn slots(&self, span: TimeSpan, most: usize) -> Result<Vec<FreeSlot>, SiteError> {
        self.run_blocking(move |shared: &Arc<LocalSiteState>| {
            let root = shared.open_root()?;
            let now = steady_now();
            let mut ledger = shared.lock_ledger();
            ledger
                .refresh_entries(&root, true)
                .map_err(|e| outcome_unknown_error(&e))?;
            let leases = load_reservations(&root, now).map_err(|e| outcome_unknown_error(&e))?;
            let book = shared.build_reservation_ledger(&root, &ledger, &leases, now)?;
            let timeline = book.timeline();
            let span = TimeSpan::new(span.from.max(now), span.to);
            let slots = timeline.slots(span, most).into_iter();
            Ok(slots
                .map(|slot| FreeSlot {
                    span: slot.span,
                    free: timeline.kinds().to_resources(&slot.free),
                })
                .collect())
        })
        .await
    }
}
