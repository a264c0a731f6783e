//! Makes the calls that are due about the reservations of a job.

use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::job::job_command::JobCommand;
use cospan_domain::job::job_state::{Job, JobReservations};
use cospan_domain::placement::{PlacementAcceptance, PlacementHindrance};
use cospan_domain::reservation::{
    ReservationCall, ReservationOutcome, ReservationRequest, ReservationSerial, ReservationTag,
    StartWindow,
};
use cospan_domain::site::availability::site_state;
use cospan_domain::units::DurationMs;
use cospan_sites::port::{
    Site, SiteCallKind, SiteError, SiteReservations, TaggedReservationRequest,
};

use super::job_actor::JobActor;
use super::job_effects::{PendingEffect, RETRY, call_site};
use super::reservation_quota::{self, QuotaDecision};
use crate::context::SharedState;
use crate::site::SiteCallMessage;

/// The time for which a site keeps a reservation that is not confirmed: longer than a search may
/// take, as each one is renewed before they are confirmed.
const KEPT: DurationMs = DurationMs::from_secs(1_800);

/// A call with everything that the site has to know.
struct PreparedReservationCall {
    ask: ReservationCall,
    tag: ReservationTag,
    order: Option<TaggedReservationRequest>,
}

impl PreparedReservationCall {
    fn due_call_of(
        job: &Job,
        tag: impl Fn(ReservationSerial) -> ReservationTag,
    ) -> Option<(u32, Self)> {
        let reservation = job.reservation.as_deref()?;
        let (number, ask) = reservation.due_call()?;
        let (serial, wanted) = match &ask {
            ReservationCall::Create {
                serial,
                part,
                window,
                ..
            }
            | ReservationCall::Modify {
                serial,
                part,
                window,
                ..
            } => (
                *serial,
                Some(request_for_part(reservation, *part, *window)?),
            ),
            ReservationCall::Check { serial, .. }
            | ReservationCall::Confirm { serial, .. }
            | ReservationCall::Cancel { serial, .. } => (*serial, None),
        };
        let tag = tag(serial);
        let order = wanted.map(|request| TaggedReservationRequest {
            tag,
            number: number + 1,
            request,
            keep_for: KEPT,
        });
        Some((number, Self { ask, tag, order }))
    }

    /// Makes the call. A new reservation is looked up first: an earlier request may have arrived,
    /// and its answer may have been lost.
    async fn make_call(&self, site: &dyn Site) -> Result<ReservationOutcome, SiteError> {
        let granting: &dyn SiteReservations = site
            .reservations()
            .ok_or_else(|| SiteError::Unfit("it grants no reservations".to_owned()))?;
        let lost = ReservationOutcome::Lost { next: None };
        match (&self.ask, &self.order) {
            (ReservationCall::Create { .. }, Some(order)) => match granting.find(self.tag).await? {
                Some(seen) => Ok(ReservationOutcome::Granted {
                    start: seen.granted_start(order.request.window),
                }),
                None => granting.request(order).await.map(ReservationOutcome::from),
            },
            (ReservationCall::Modify { .. }, Some(order)) => Ok(granting
                .modify(order)
                .await?
                .map_or(lost, ReservationOutcome::from)),
            (ReservationCall::Confirm { .. }, _) => {
                granting.confirm(self.tag).await.map(done_or_lost_outcome)
            }
            (ReservationCall::Cancel { .. }, _) => granting
                .release(self.tag)
                .await
                .map(|_| ReservationOutcome::Done),
            (
                ReservationCall::Check { .. }
                | ReservationCall::Create { .. }
                | ReservationCall::Modify { .. },
                _,
            ) => granting
                .renew(self.tag, KEPT)
                .await
                .map(done_or_lost_outcome),
        }
    }

    /// Returns the outcome that an error stands for, if it is certain that nothing was done and
    /// will be.
    fn outcome_of_error(&self, error: &SiteError) -> Option<ReservationOutcome> {
        match error {
            SiteError::Refused(_) | SiteError::Unfit(_) | SiteError::SiteFull(_) => {
                Some(self.ask.without_answer())
            }
            SiteError::NotSent(_)
            | SiteError::LockedOut(_)
            | SiteError::OutOfOrder(_)
            | SiteError::OutcomeUnknown(_) => None,
        }
    }
}

fn done_or_lost_outcome(is_there: bool) -> ReservationOutcome {
    if is_there {
        ReservationOutcome::Done
    } else {
        ReservationOutcome::Lost { next: None }
    }
}

fn request_for_part(
    reservation: &JobReservations,
    part: usize,
    window: StartWindow,
) -> Option<ReservationRequest> {
    let part = reservation.calling_search()?.job.parts.get(part)?;
    let resources = part.resources.clone();
    Some(ReservationRequest {
        resources,
        length: part.length,
        window,
        flexible: false,
    })
}

/// Returns true if the offers of all sites are not to be kept, as one of the sites takes no jobs
/// any more. A silent site is asked.
fn is_any_site_closed(actor: &JobActor, ask: &ReservationCall) -> bool {
    let reservation = actor.job().reservation.as_deref();
    let owned = reservation.and_then(JobReservations::calling_search);
    let held = owned
        .into_iter()
        .flat_map(|search| search.owned_reservations().map(|owned| &owned.site));
    // Components are not placed either where they would be claimed while the site takes none.
    let claimed = reservation
        .into_iter()
        .flat_map(|reservation| &reservation.claimed);
    let claimed = claimed.map(|claimed| &claimed.placement.site);
    let keeps = matches!(
        ask,
        ReservationCall::Check { .. } | ReservationCall::Confirm { .. }
    );
    keeps
        && held
            .chain(claimed)
            .chain([ask.site()])
            .any(|site| is_site_refusing_jobs(&actor.shared, site))
}

fn is_site_refusing_jobs(shared: &SharedState, name: &SiteName) -> bool {
    let view = shared.view.load();
    let Some(record) = view.sites.get(name) else {
        return false;
    };
    let report = shared.live.site_report(name).unwrap_or_default();
    let held = view.holdings.get(name).map_or(0, |held| held.len() as u32);
    match site_state(record, report.contact, held, shared.clock.now()).acceptance() {
        PlacementAcceptance::Open | PlacementAcceptance::ProbesOnly => false,
        PlacementAcceptance::Closed(hindrance) => matches!(
            hindrance,
            PlacementHindrance::Unusable
                | PlacementHindrance::Draining
                | PlacementHindrance::Drained
                | PlacementHindrance::Maintenance
                | PlacementHindrance::Frozen
        ),
    }
}

/// Makes the call that is due at its site; `None` if none is.
pub(super) fn call_site_for_reservation(actor: &JobActor) -> Option<PendingEffect> {
    let instance = actor.shared.instance;
    let job = actor.job().id;
    let (question, asked) =
        PreparedReservationCall::due_call_of(actor.job(), |serial| ReservationTag {
            instance,
            job,
            serial,
        })?;
    let site: SiteName = asked.ask.site().clone();
    if is_any_site_closed(actor, &asked.ask) {
        let outcome = asked.ask.without_answer();
        let answered = Some(JobCommand::ReservationAnswered { question, outcome });
        return Some(Box::pin(async move { (answered, RETRY) }));
    }
    match reservation_quota::decide_by_quota(actor, &asked.ask) {
        QuotaDecision::Granted => {}
        QuotaDecision::Later => return Some(Box::pin(async { (None, RETRY) })),
        QuotaDecision::Withheld { most, next } => {
            let said = JobCommand::WithholdReservation {
                question,
                most,
                next,
            };
            return Some(Box::pin(async move { (Some(said), RETRY) }));
        }
    }
    let asked = Arc::new(asked);
    let put = asked.clone();
    let put = SiteCallMessage::new(SiteCallKind::Reserve, move |site| {
        Box::pin(async move { put.make_call(&*site).await })
    });
    let answer = call_site(actor, Some(&site), put);
    Some(Box::pin(async move {
        let outcome = match answer.await {
            Ok(outcome) => Some(outcome),
            Err(error) => asked.outcome_of_error(&error),
        };
        (
            outcome.map(|outcome| JobCommand::ReservationAnswered { question, outcome }),
            RETRY,
        )
    }))
}
