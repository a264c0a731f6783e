//! What a search asks of sites, and what it is told.

use crate::ids::SiteName;
use crate::reserve::agreement::{ReservationAnswer, ReservationRequest, StartWindow};
use crate::reserve::ledger::ReservationLedger;
use crate::reserve::tag::Serial;
use crate::units::Timestamp;

use super::request::Coallocation;

/// One thing to ask of one site, about the reservation with a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationCall {
    /// A new reservation.
    Create {
        /// Where.
        site: SiteName,
        /// Its serial, used for nothing before.
        serial: Serial,
        /// For which part, by index.
        part: usize,
        /// When it may start.
        window: StartWindow,
    },
    /// Another start for a reservation, or another owner: then processors and duration become
    /// those that the new owner needs.
    Modify {
        /// Where.
        site: SiteName,
        /// Its serial.
        serial: Serial,
        /// For which part it is to be.
        part: usize,
        /// When it may start.
        window: StartWindow,
    },
    /// Whether a reservation is still there.
    Check {
        /// Where.
        site: SiteName,
        /// Its serial.
        serial: Serial,
    },
    /// To keep a reservation for good.
    Confirm {
        /// Where.
        site: SiteName,
        /// Its serial.
        serial: Serial,
    },
    /// To give a reservation up; it counts as done, too, if there is none any more.
    Cancel {
        /// Where.
        site: SiteName,
        /// Its serial.
        serial: Serial,
    },
}

/// What became of an [`ReservationCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationOutcome {
    /// Created or modified: it starts then.
    Granted {
        /// When.
        start: Timestamp,
    },
    /// Checked, confirmed or cancelled.
    Done,
    /// Not created, or not modified and still as it was. `next`: T_next, if the site said so.
    Refused {
        /// From when on the same may be granted.
        next: Option<Timestamp>,
    },
    /// There is no such reservation any more, perhaps by what was asked.
    Lost {
        /// From when on the same may be granted, if the site said so.
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
    /// The site that is asked.
    pub fn site(&self) -> &SiteName {
        match self {
            ReservationCall::Create { site, .. }
            | ReservationCall::Modify { site, .. }
            | ReservationCall::Check { site, .. }
            | ReservationCall::Confirm { site, .. }
            | ReservationCall::Cancel { site, .. } => site,
        }
    }

    /// What counts as its outcome if the site refuses to do it, or never answers. What it may
    /// have done all the same is nobody's, and found by its tag.
    pub fn without_answer(&self) -> ReservationOutcome {
        match self {
            ReservationCall::Create { .. } => ReservationOutcome::Refused { next: None },
            ReservationCall::Cancel { .. } => ReservationOutcome::Done,
            ReservationCall::Modify { .. }
            | ReservationCall::Check { .. }
            | ReservationCall::Confirm { .. } => ReservationOutcome::Lost { next: None },
        }
    }

    /// What a site says to it that keeps its reservations in a ledger, and is asked once, in turn.
    /// `expires`: until when a new one is kept unconfirmed.
    pub fn answered_by(
        &self,
        ledger: &mut ReservationLedger<Serial>,
        job: &Coallocation,
        expires: Timestamp,
    ) -> ReservationOutcome {
        let request = |part: usize, window| ReservationRequest {
            resources: job.parts[part].resources.clone(),
            length: job.parts[part].length,
            window,
            flexible: false,
        };
        let lost = ReservationOutcome::Lost { next: None };
        let done = |is_there| {
            if is_there {
                ReservationOutcome::Done
            } else {
                lost
            }
        };
        match self {
            ReservationCall::Create {
                serial,
                part,
                window,
                ..
            } => ledger
                .request(*serial, &request(*part, *window), expires)
                .into(),
            ReservationCall::Modify {
                serial,
                part,
                window,
                ..
            } => ledger
                .modify(serial, 1, &request(*part, *window))
                .map_or(lost, ReservationOutcome::from),
            ReservationCall::Check { serial, .. } => done(ledger.find(serial).is_some()),
            ReservationCall::Confirm { serial, .. } => done(ledger.confirm(serial)),
            ReservationCall::Cancel { serial, .. } => done(ledger.cancel(serial)),
        }
    }
}
