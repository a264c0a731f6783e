//! The tag by which a reservation is recognised at its site.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ids::{InstanceId, JobId};

/// `c<instance>-<job>-r<serial>`: the owner of a reservation, and the request that made it. The
/// component is not in it, since a reservation passes from one to another: the job's record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationTag {
    /// The control plane that asked for it.
    pub instance: InstanceId,
    /// The job that owns it.
    pub job: JobId,
    /// The number of the request within that job.
    pub serial: ReservationSerial,
}

impl ReservationTag {
    /// The job of reservations that belong to none: the numbers of jobs begin with 1.
    const NO_JOB: JobId = JobId(0);

    /// Creates the tag of a shared reservation, numbered within its site.
    pub fn shared(instance: InstanceId, serial: ReservationSerial) -> Self {
        Self {
            instance,
            job: Self::NO_JOB,
            serial,
        }
    }

    /// Returns true if it is a shared reservation.
    pub fn is_shared(&self) -> bool {
        self.job == Self::NO_JOB
    }

    /// Returns true if attempts of this job, of this control plane, may use it.
    pub fn may_serve(&self, instance: InstanceId, job: JobId) -> bool {
        self.instance == instance && (self.job == job || self.is_shared())
    }
}

/// The number of a request for a reservation within its job, from 1; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReservationSerial(pub u32);

/// The error for a text that is no reservation's tag.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("reservation tag {text:?} is not c<instance>-<job>-r<serial>")]
pub struct ReservationTagError {
    pub text: String,
}

impl fmt::Display for ReservationTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}-{}-r{}", self.instance, self.job, self.serial.0)
    }
}

impl FromStr for ReservationTag {
    type Err = ReservationTagError;

    fn from_str(text: &str) -> Result<Self, ReservationTagError> {
        parse_reservation_tag(text).ok_or_else(|| ReservationTagError {
            text: text.chars().take(80).collect(),
        })
    }
}

fn parse_reservation_tag(text: &str) -> Option<ReservationTag> {
    let mut parts = text.strip_prefix('c')?.split('-');
    let tag = ReservationTag {
        instance: parts.next()?.parse().ok()?,
        job: parts.next()?.parse().ok()?,
        serial: ReservationSerial(parts.next()?.strip_prefix('r')?.parse().ok()?),
    };
    (parts.next().is_none() && tag.to_string() == text).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Attempt, AttemptTag, ComponentIndex};

    #[test]
    fn a_shared_reservation_serves_every_job_and_anothers_none() {
        let ours = InstanceId::from_random(1);
        let theirs = InstanceId::from_random(2);
        let shared = ReservationTag::shared(ours, ReservationSerial(3));
        assert_eq!(shared.to_string().parse(), Ok(shared));
        assert!(shared.may_serve(ours, JobId(1)) && shared.may_serve(ours, JobId(2)));
        assert!(!shared.may_serve(theirs, JobId(1)));
        let own = ReservationTag {
            job: JobId(1),
            ..shared
        };
        assert!(
            own.may_serve(ours, JobId(1)) && !own.may_serve(ours, JobId(2)) && !own.is_shared()
        );
    }

    #[test]
    fn a_reservations_tag_is_read_back_and_is_never_an_attempts() {
        let instance = InstanceId::from_random(0x1234_5678_9abc);
        let job = JobId(u64::MAX);
        let tag = ReservationTag {
            instance,
            job,
            serial: ReservationSerial(u32::MAX),
        };
        let text = tag.to_string();
        assert!(text.len() <= 63, "{text}");
        assert_eq!(text.parse(), Ok(tag));
        assert!(text.parse::<AttemptTag>().is_err());
        let component = ComponentIndex(0);
        let attempt = Attempt(1);
        let attempt = AttemptTag {
            instance,
            job,
            component,
            attempt,
        }
        .to_string();
        assert!(attempt.parse::<ReservationTag>().is_err());
        for odd in [
            "",
            "cabcdefgh-1-r01",
            "cabcdefgh-1-r",
            "cabcdefgh-1-r1-2",
            "cabcdefgh-1-r+1",
        ] {
            assert!(odd.parse::<ReservationTag>().is_err(), "{odd}");
        }
    }
}
