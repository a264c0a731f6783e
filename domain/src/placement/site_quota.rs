//! The share of a site that we may fill (communication-aware placement, "Quota").

use crate::resources::Resources;
use crate::units::PerMillion;

/// A bound on what we take of a site, so that its local users find room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SiteQuota {
    /// The share of the site.
    pub share: PerMillion,
    /// The quantity that the share bounds.
    pub basis: QuotaBasis,
}

/// The two readings of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QuotaBasis {
    /// We never fill the site beyond the share, whoever uses it.
    #[default]
    Level,
    /// We never hold more than the share ourselves.
    Share,
}

impl SiteQuota {
    /// No bound: the whole site.
    pub const NONE: SiteQuota = SiteQuota {
        share: PerMillion::ONE,
        basis: QuotaBasis::Level,
    };

    /// Returns the share of `total`, rounded down.
    pub fn share_of_total(&self, total: u64) -> u64 {
        if self.share >= PerMillion::ONE {
            return total;
        }
        let exact = u128::from(total) * u128::from(self.share.0);
        (exact / 1_000_000) as u64
    }

    /// Returns true if it can ever leave less than what is idle.
    pub fn is_bounding(&self) -> bool {
        self.share < PerMillion::ONE || self.basis == QuotaBasis::Share
    }

    /// Returns how much of one resource we may still take, if `total` is the capacity, `idle` is
    /// idle and `ours` is in our use.
    pub fn usable_amount(&self, total: u64, idle: u64, ours: u64) -> u64 {
        match self.basis {
            QuotaBasis::Level if !self.is_bounding() => idle,
            QuotaBasis::Level => self
                .share_of_total(total)
                .saturating_sub(total.saturating_sub(idle))
                .min(idle),
            QuotaBasis::Share => idle.min(self.share_of_total(total).saturating_sub(ours)),
        }
    }

    /// Returns the most of each resource that we may ever hold of `total`.
    pub fn max_resources(&self, total: &Resources) -> Resources {
        Resources {
            processors: self.share_of_total(total.processors.into()) as u32,
            others: total
                .others
                .iter()
                .map(|(name, &all)| (name.clone(), self.share_of_total(all)))
                .collect(),
        }
    }

    /// Computes [`SiteQuota::usable_amount`] for every resource that is idle.
    pub fn usable_resources(
        &self,
        total: &Resources,
        idle: &Resources,
        ours: &Resources,
    ) -> Resources {
        let processors = self.usable_amount(
            total.processors.into(),
            idle.processors.into(),
            ours.processors.into(),
        );
        let others = idle.others.iter().map(|(name, &idle)| {
            (
                name.clone(),
                self.usable_amount(total.other(name), idle, ours.other(name)),
            )
        });
        Resources {
            processors: u32::try_from(processors).unwrap_or(u32::MAX),
            others: others.collect(),
        }
    }
}

impl Default for SiteQuota {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(per_mille: u32, basis: QuotaBasis) -> SiteQuota {
        SiteQuota {
            share: PerMillion(per_mille * 1000),
            basis,
        }
    }

    /// Vectors: total, idle, ours, quota per mille, level, share.
    #[test]
    fn quota_is_read_as_a_level_or_as_a_share() {
        let rows = [
            (40, 30, 0, 500, 10, 20),
            (40, 26, 0, 500, 6, 20),
            (64, 40, 4, 750, 24, 40),
            (64, 50, 14, 750, 34, 34),
            (100, 100, 0, 290, 29, 29),
            (40, 12, 0, 500, 0, 12),
            (70, 33, 40, 1000, 33, 30),
            (70, 33, 10, 1000, 33, 33),
        ];
        for (total, idle, ours, per_mille, level, share) in rows {
            let usable = |basis| quota(per_mille, basis).usable_amount(total, idle, ours);
            assert_eq!(
                usable(QuotaBasis::Level),
                level,
                "level of {total} {idle} {per_mille}"
            );
            assert_eq!(
                usable(QuotaBasis::Share),
                share,
                "share of {total} {idle} {per_mille}"
            );
        }
    }

    #[test]
    fn a_quota_binds_every_resource() {
        let vector = |processors, gpus| Resources {
            processors,
            others: [("gpus".into(), gpus)].into(),
        };
        let usable = quota(500, QuotaBasis::Level).usable_resources(
            &vector(40, 8),
            &vector(30, 8),
            &vector(0, 0),
        );
        assert_eq!(usable, vector(10, 4));
    }
}
