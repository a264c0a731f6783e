//! The keys that may use a shared reservation, and changes of them.

use std::collections::BTreeSet;

use crate::ids::{KeyName, ReservationName};
use crate::site::shared_reservation::MAX_ALLOWED;
use crate::site::site_command::SiteRejection;
use crate::site::site_event::SiteEventKind;
use crate::site::site_state::SiteRecord;
use crate::units::Timestamp;

/// A change of the keys whose jobs may use a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationAccessChange {
    /// Adds some keys, and removes others.
    Change {
        /// Keys that may use it from now on.
        add: BTreeSet<KeyName>,
        /// Keys that may no longer.
        remove: BTreeSet<KeyName>,
    },
    /// Allows these keys and no others.
    Only(BTreeSet<KeyName>),
    /// Allows every key.
    Everybody,
}

impl ReservationAccessChange {
    /// Returns the keys that may use a reservation after the change, if these could before.
    fn apply_to(self, allowed: &BTreeSet<KeyName>) -> Result<BTreeSet<KeyName>, SiteRejection> {
        let after: BTreeSet<KeyName> = match self {
            Self::Everybody => return Ok(BTreeSet::new()),
            Self::Only(keys) => keys,
            // None named stands for all: to add some to them would shut the others out.
            Self::Change { .. } if allowed.is_empty() => {
                return Err(SiteRejection::OpenToEverybody);
            }
            Self::Change { add, remove } => {
                if let Some(key) = remove.difference(allowed).next() {
                    return Err(SiteRejection::NotAllowed { key: key.clone() });
                }
                allowed.difference(&remove).chain(&add).cloned().collect()
            }
        };
        match after.len() {
            0 => Err(SiteRejection::NobodyLeft),
            count if count > MAX_ALLOWED => Err(SiteRejection::TooManyKeys),
            _ => Ok(after),
        }
    }
}

/// Changes the keys that may use one, by command of an operator. Jobs that run in it go on. Jobs
/// that wait for it and may not use it any more fail at their next turn.
pub(super) fn decide_access(
    record: &SiteRecord,
    name: &ReservationName,
    access: ReservationAccessChange,
    now: Timestamp,
    by: KeyName,
) -> Result<SiteEventKind, SiteRejection> {
    let serial = record.live_serial(name, now)?;
    let shared = record
        .shared_reservation_numbered(serial)
        .ok_or(SiteRejection::NoSuchReservation)?;
    let allowed = access.apply_to(&shared.wish.allowed)?;
    if allowed == shared.wish.allowed {
        Err(SiteRejection::AlreadySo)
    } else {
        Ok(SiteEventKind::SharedAllowed {
            serial,
            allowed,
            by,
        })
    }
}
