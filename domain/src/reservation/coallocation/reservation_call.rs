//! The calls that a search makes to sites, and their outcomes.

use crate::ids::SiteName;
use crate::reservation::agreement::{ReservationAnswer, ReservationRequest, StartWindow};
use crate::reservation::reservation_ledger::ReservationLedger;
use crate::reservation::reservation_tag::ReservationSerial;
use crate::units::Timestamp;

use super::coallocation_request::Coallocation;

/// A call to a site, about the reservation with a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationCall {
    /// Makes a new reservation.
    Create {
        /// The site that is called.
        site: SiteName,
        /// The serial, used for nothing before.
        serial: ReservationSerial,
        /// The part that it is for, by index.
        part: usize,
        /// The starts that are accepted.
        window: StartWindow,
    },
    /// Gives a reservation another start, or another owner: then processors and duration become
    /// those that the new owner needs.
    Modify {
        /// The site that is called.
        site: SiteName,
        serial: ReservationSerial,
        /// The part that it is to be for.
        part: usize,
        /// The starts that are accepted.
        window: StartWindow,
    },
    /// Checks if a reservation is still there.
    Check {
        /// The site that is called.
        site: SiteName,
        serial: ReservationSerial,
    },
    /// Confirms a reservation.
    Confirm {
        /// The site that is called.
        site: SiteName,
        serial: ReservationSerial,
    },
    /// Cancels a reservation; also done if there is none any more.
    Cancel {
        /// The site that is called.
        site: SiteName,
        serial: ReservationSerial,
    },
}

/// The outcome of an [`ReservationCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationOutcome {
    /// Created or modified, with this start.
    Granted { start: Timestamp },
    /// Checked, confirmed or cancelled.
    Done,
    /// Not created, or not modified and still as it was. `next`: T_next, if the site said so.
    Refused {
        /// The time from which on the same may be granted.
        next: Option<Timestamp>,
    },
    /// The reservation is gone, perhaps by this call.
    Lost {
        /// The time from which on the same may be granted, if the site said so.
        next: Option<Timestamp>,
    },
}

impl From<ReservationAnswer> for ReservationOutcome {
    fn from(answer: ReservationAnswer) -> Self {
        match answer {
            ReservationAnswer::Granted { start } => ReservationOutcome::Granted { start },
            ReservationAnswer::Never => ReservationOutcome::Refused { next: None },
            ReservationAnswer::NotBefore { next } => {
                ReservationOutcome::Refused { next: Some(next) }
            }
        }
    }
}

impl ReservationCall {
    pub fn site(&self) -> &SiteName {
        match self {
            ReservationCall::Create { site, .. }
            | ReservationCall::Modify { site, .. }
            | ReservationCall::Check { site, .. }
            | ReservationCall::Confirm { site, .. }
            | ReservationCall::Cancel { site, .. } => site,
        }
    }

    /// Returns the outcome to assume if the site refuses the call, or never answers. If the site
    /// acted all the same, its reservation belongs to nobody, and is found by its tag.
    pub fn without_answer(&self) -> ReservationOutcome {
        match self {
            ReservationCall::Create { .. } => ReservationOutcome::Refused { next: None },
            ReservationCall::Cancel { .. } => ReservationOutcome::Done,
            ReservationCall::Modify { .. }
            | ReservationCall::Check { .. }
            | ReservationCall::Confirm { .. } => ReservationOutcome::Lost { next: None },
        }
    }

    /// Makes the call to a site that keeps its reservations in a ledger, and is called once, in
    /// turn. `expires`: the end of a new offer, unless it is confirmed.
    pub fn answered_by(
        &self,
        ledger: &mut ReservationLedger<ReservationSerial>,
        job: &Coallocation,
        expires: Timestamp,
    ) -> ReservationOutcome {
        let lost = ReservationOutcome::Lost { next: None };
        match self {
            ReservationCall::Create {
                serial,
                part,
                window,
                ..
            } => ledger
                .request_reservation(*serial, &part_request(job, *part, *window), expires)
                .into(),
            ReservationCall::Modify {
                serial,
                part,
                window,
                ..
            } => ledger
                .modify(serial, 1, &part_request(job, *part, *window))
                .map_or(lost, ReservationOutcome::from),
            ReservationCall::Check { serial, .. } => {
                done_or_lost(ledger.find_by_tag(serial).is_some())
            }
            ReservationCall::Confirm { serial, .. } => done_or_lost(ledger.confirm(serial)),
            ReservationCall::Cancel { serial, .. } => done_or_lost(ledger.cancel(serial)),
        }
    }
}

fn part_request(job: &Coallocation, part: usize, window: StartWindow) -> ReservationRequest {
    ReservationRequest {
        resources: job.parts[part].resources.clone(),
        length: job.parts[part].length,
        window,
        flexible: false,
    }
}

fn done_or_lost(is_there: bool) -> ReservationOutcome {
    if is_there {
        ReservationOutcome::Done
    } else {
        ReservationOutcome::Lost { next: None }
    }
}
