//! Components of a reserved job that are claimed at its start, at sites that grant no reservations.

use super::JobReservations;
use crate::acquisition::Acquisition;
use crate::ids::ComponentIndex;
use crate::placed::Placement;
use crate::units::DurationMs;

/// A component without a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreservedComponent {
    pub component: ComponentIndex,
    /// The placement where it is claimed first; it may be claimed elsewhere if nothing is idle
    /// there.
    pub placement: Placement,
}

impl UnreservedComponent {
    /// Chooses the components that are not reserved, each with its best placement. `reserved` and
    /// `unreserved`: by component, placements at sites that grant reservations, and at sites that
    /// grant none.
    pub(crate) fn choose_unreserved(
        reserved: &[Vec<Placement>],
        unreserved: &[Vec<Placement>],
    ) -> Vec<Self> {
        let all = reserved.iter().zip(unreserved).enumerate();
        let chosen = all.filter(|(_, (reserved, _))| reserved.is_empty());
        let chosen = chosen.filter_map(|(index, (_, unreserved))| {
            let placement = unreserved.first()?.clone();
            Some(Self {
                component: ComponentIndex(index as u32),
                placement,
            })
        });
        chosen.collect()
    }

    pub(super) fn claimed_placement(&self) -> (ComponentIndex, Placement) {
        let acquisition = Acquisition::ClaimNow;
        (
            self.component,
            Placement {
                acquisition,
                ..self.placement.clone()
            },
        )
    }
}

impl JobReservations {
    /// Returns how much later than the reserved start the payloads may begin, so that each still
    /// has its whole wall time; idle processors are sought for that long. Zero if all of the job is
    /// reserved.
    pub fn extra_claim_time(&self) -> DurationMs {
        if self.claimed.is_empty() {
            return DurationMs::ZERO;
        }
        let reserved = self.search.part_reservations().iter().flatten();
        let starts = reserved.map(|held| held.start);
        let first = starts.clone().min().unwrap_or_default();
        let last = starts.max().unwrap_or_default();
        let tolerance = self.search.job.tolerance;
        DurationMs(tolerance.0.saturating_sub(last.since(first).0))
    }
}
