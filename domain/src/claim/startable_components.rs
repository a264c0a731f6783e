//! The components of a job that could start now: the first half of one claiming try.

use std::sync::Arc;

use crate::ids::{ComponentIndex, SiteName};
use crate::resources::Resources;
use crate::units::PerMillion;

/// The place where a component takes its processors: the site's own partition, or the partition, or
/// several, that the component asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimPlace {
    pub site: SiteName,
    /// The partition, if it is not the site's own.
    pub partition: Option<Arc<str>>,
}

impl ClaimPlace {
    /// Returns the site's own partition.
    pub fn site_default(site: SiteName) -> Self {
        Self {
            site,
            partition: None,
        }
    }
}

/// A component that holds no processors yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclaimedComponent {
    pub component: ComponentIndex,
    pub place: ClaimPlace,
    /// The resources that it needs there.
    pub resources: Resources,
    /// True if it waits in its site's own queue, whatever is idle there.
    pub queued: bool,
}

/// The result of one try. `started` of the job's components hold their processors already; with
/// these two sets they make up the whole job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartableComponents {
    /// Components that can start, in decreasing size.
    pub now: Vec<ComponentIndex>,
    /// Components that cannot, in decreasing size.
    pub not: Vec<ComponentIndex>,
}

/// Splits components into those that their sites could start now and those that they could not: in
/// decreasing size, where each that can start lowers the count for the next (KOALA, section 4.5).
/// `idle_at` returns what a site's batch system reports as idle; a site that does not report has
/// nothing. Those that wait in queues need nothing idle.
pub fn find_startable(
    mut wanted: Vec<UnclaimedComponent>,
    mut idle_at: impl FnMut(&ClaimPlace) -> Option<Resources>,
) -> StartableComponents {
    wanted.sort_by_key(|w| (std::cmp::Reverse(w.resources.processors), w.component));
    let mut left = std::collections::BTreeMap::new();
    let mut found = StartableComponents::default();
    for UnclaimedComponent {
        component,
        place,
        resources,
        queued,
    } in wanted
    {
        if queued {
            found.now.push(component);
            continue;
        }
        let idle: &mut Resources = left
            .entry(place)
            .or_insert_with_key(|place| idle_at(place).unwrap_or_default());
        if idle.covers(&resources) {
            idle.subtract(&resources);
            found.now.push(component);
        } else {
            found.not.push(component);
        }
    }
    found
}

impl StartableComponents {
    /// Returns true if the try goes on: F = (|prev| + |now|) / |J| is at least T, where `started`
    /// is |prev|.
    pub fn reaches_threshold(&self, threshold: PerMillion, started: usize) -> bool {
        let have = (started + self.now.len()) as u128;
        let all = have + self.not.len() as u128;
        have * 1_000_000 >= all * u128::from(threshold.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startable_with_idle_at_b(b_idle: u32) -> StartableComponents {
        let wanted = |component, site: &str, processors| UnclaimedComponent {
            component: ComponentIndex(component),
            place: ClaimPlace::site_default(SiteName::new(site).unwrap()),
            resources: Resources::processors(processors),
            queued: false,
        };
        let all = vec![wanted(2, "B", 8), wanted(1, "B", 8), wanted(0, "A", 16)];
        find_startable(all, |place| match place.site.as_str() {
            "A" => Some(Resources::processors(20)),
            "B" => Some(Resources::processors(b_idle)),
            _ => None,
        })
    }

    /// The common setting of section 7, I-1, I-2 and I-3.
    #[test]
    fn a_try_goes_on_if_enough_components_are_startable() {
        let found = startable_with_idle_at_b(12);
        assert_eq!(found.now, [ComponentIndex(0), ComponentIndex(1)]);
        assert_eq!(found.not, [ComponentIndex(2)]);
        for (threshold, reached) in [(1_000_000, false), (700_000, false), (500_000, true)] {
            assert_eq!(
                found.reaches_threshold(PerMillion(threshold), 0),
                reached,
                "T {threshold}"
            );
        }
    }

    /// Vector I-13.
    #[test]
    fn a_job_whose_components_all_fit_is_claimed_whole() {
        let found = startable_with_idle_at_b(16);
        assert!(found.not.is_empty() && found.reaches_threshold(PerMillion::ONE, 0));
    }

    /// Vector I-5: c3 = 12 comes before c2 = 8 and does not fit 11, so c2 does.
    #[test]
    fn larger_components_come_first() {
        let wanted = |component, processors| UnclaimedComponent {
            component: ComponentIndex(component),
            place: ClaimPlace::site_default(SiteName::new("B").unwrap()),
            resources: Resources::processors(processors),
            queued: false,
        };
        let found = find_startable(vec![wanted(1, 8), wanted(2, 12)], |_: &ClaimPlace| {
            Some(Resources::processors(11))
        });
        assert_eq!(
            (found.now, found.not),
            (vec![ComponentIndex(1)], vec![ComponentIndex(2)])
        );
    }

    #[test]
    fn a_site_that_says_nothing_has_nothing_idle() {
        let wanted = UnclaimedComponent {
            component: ComponentIndex(0),
            place: ClaimPlace::site_default(SiteName::new("C").unwrap()),
            resources: Resources::processors(1),
            queued: false,
        };
        assert_eq!(find_startable(vec![wanted], |_| None).now, []);
    }
}
