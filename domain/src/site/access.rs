//! Who may use a reservation that jobs share, and how that is changed.

use std::collections::BTreeSet;

use crate::ids::{KeyName, ReservationName};
use crate::site::command::SiteRejection;
use crate::site::event::SiteHappening;
use crate::site::shared::MAX_ALLOWED;
use crate::site::state::SiteRecord;
use crate::units::Timestamp;

/// A change of the keys whose jobs may use a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationAccess {
    /// Some more, and some no longer.
    Change {
        /// Those who may from now on.
        add: BTreeSet<KeyName>,
        /// Those who may no longer.
        remove: BTreeSet<KeyName>,
    },
    /// These and no others.
    Only(BTreeSet<KeyName>),
    /// Every key.
    Everybody,
}

impl ReservationAccess {
    /// Who may use one from then on that was for these.
    fn applied(self, allowed: &BTreeSet<KeyName>) -> Result<BTreeSet<KeyName>, SiteRejection> {
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

/// An operator changes who may use one. Jobs that run in it go on; such as wait for it and may use
/// it no longer fail when it is their turn to be looked at.
pub(super) fn allow(
    record: &SiteRecord,
    name: &ReservationName,
    access: ReservationAccess,
    now: Timestamp,
    by: KeyName,
) -> Result<SiteHappening, SiteRejection> {
    let serial = record.live(name, now)?;
    let shared = record
        .shared_with(serial)
        .ok_or(SiteRejection::NoSuchReservation)?;
    let allowed = access.applied(&shared.wish.allowed)?;
    if allowed == shared.wish.allowed {
        Err(SiteRejection::AlreadySo)
    } else {
        Ok(SiteHappening::SharedAllowed {
            serial,
            allowed,
            by,
        })
    }
}
