//! The part of a site that one user may have in reservations at a time.

use super::timeline::TimeSpan;
use crate::units::{PerMillion, Timestamp};

/// The text added to a refusal if the limit of a user is a reason for it.
pub const OVER_QUOTA: &str = "; a user may hold only a part of a site in reservations at a time \
                              (`reservations.most_share`): ask for fewer processors or another \
                              time, cancel another reservation, or ask an operator";

/// Processors that a user has in a reservation at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerReservation {
    pub span: TimeSpan,
    pub processors: u32,
}

/// Says if a user may reserve more at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationAllowance {
    /// More is allowed.
    Allowed,
    /// Not allowed before this time: then enough of their reservations have ended.
    From(Timestamp),
    /// The number is never allowed.
    Never,
}

/// Returns this share of a site's processors, rounded down.
pub fn processor_share(processors: u32, share: PerMillion) -> u32 {
    let part = u64::from(processors) * u64::from(share.0) / u64::from(PerMillion::ONE.0);
    u32::try_from(part).unwrap_or(processors)
}

/// Decides if somebody with these reservations may have more, and at no time more than `most`
/// altogether.
pub fn decide_allowance(
    held: &[OwnerReservation],
    wanted: OwnerReservation,
    most: u32,
) -> ReservationAllowance {
    if wanted.processors > most {
        return ReservationAllowance::Never;
    }
    let length = wanted.span.to.since(wanted.span.from);
    let fits = |from: Timestamp| {
        let span = TimeSpan::new(from, from + length);
        peak_within(held, span) + u64::from(wanted.processors) <= u64::from(most)
    };
    if fits(wanted.span.from) {
        return ReservationAllowance::Allowed;
    }
    // The total falls only where a reservation ends.
    let ends = held
        .iter()
        .map(|held| held.span.to)
        .filter(|end| *end > wanted.span.from);
    ends.filter(|end| fits(*end))
        .min()
        .map_or(ReservationAllowance::Never, ReservationAllowance::From)
}

/// Returns the most that is reserved at a time within a span: the total rises only at its begin, or
/// where a reservation begins.
fn peak_within(held: &[OwnerReservation], within: TimeSpan) -> u64 {
    let begins = held.iter().map(|held| held.span.from);
    let begins = begins.filter(|begin| within.from <= *begin && *begin < within.to);
    begins
        .chain([within.from])
        .map(|time: Timestamp| {
            let then = held
                .iter()
                .filter(|held| held.span.from <= time && time < held.span.to);
            then.map(|held| u64::from(held.processors)).sum::<u64>()
        })
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner_reservation(from: u64, to: u64, processors: u32) -> OwnerReservation {
        OwnerReservation {
            span: TimeSpan::new(Timestamp(from), Timestamp(to)),
            processors,
        }
    }

    #[test]
    fn what_begins_when_another_ends_is_not_counted_with_it() {
        let one = [owner_reservation(10, 20, 3)];
        assert_eq!(
            decide_allowance(&one, owner_reservation(20, 30, 4), 4),
            ReservationAllowance::Allowed
        );
        assert_eq!(
            decide_allowance(&one, owner_reservation(19, 29, 4), 4),
            ReservationAllowance::From(Timestamp(20))
        );
        assert_eq!(
            decide_allowance(&one, owner_reservation(19, 29, 1), 4),
            ReservationAllowance::Allowed
        );
        assert_eq!(
            decide_allowance(&[], owner_reservation(19, 29, 5), 4),
            ReservationAllowance::Never
        );
    }

    #[test]
    fn a_share_is_rounded_down() {
        assert_eq!(processor_share(16, PerMillion(250_000)), 4);
        assert_eq!(processor_share(7, PerMillion(500_000)), 3);
        assert_eq!(processor_share(u32::MAX, PerMillion::ONE), u32::MAX);
        assert_eq!(processor_share(16, PerMillion(0)), 0);
    }

    proptest! {
        /// Instant by instant it says the same, and no earlier time than it names would do.
        #[test]
        fn nobody_holds_more_than_their_share_nor_waits_longer_than_needed(
            others in proptest::collection::vec((0..40_u64, 1..20_u64, 1..6_u32), 0..8),
            (from, length, processors) in (0..40_u64, 1..20_u64, 1..8_u32),
            most in 0..12_u32,
        ) {
            let others: Vec<OwnerReservation> =
                others.into_iter().map(|(from, length, n)| owner_reservation(from, from + length, n)).collect();
            let fits = |from: u64| (from..from + length).all(|time| {
                let then = others.iter().filter(|o| o.span.from.0 <= time && time < o.span.to.0);
                then.map(|o| o.processors).sum::<u32>() + processors <= most
            });
            let first = (from..100).find(|from| fits(*from));
            let said = decide_allowance(&others, owner_reservation(from, from + length, processors), most);
            match first {
                Some(time) if time == from => prop_assert_eq!(said, ReservationAllowance::Allowed),
                Some(time) => prop_assert_eq!(said, ReservationAllowance::From(Timestamp(time))),
                None => prop_assert_eq!(said, ReservationAllowance::Never),
            }
        }
    }
}
