//! The processors that are idle at a site now, and how long each stays so: what is reserved for
//! later is idle until then, and can be used for what is over by then.

use std::ops::ControlFlow;

use super::timeline::{FOREVER, TimeSpan, Timeline};
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// The most drops that a site reports; anything less later counts from the last of them on.
const EBBS_MAX: usize = 64;

/// A drop: from some time on less is left of what is idle now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleDrop {
    /// The time of the drop, by the site's clock.
    pub at: Timestamp,
    /// Time from now until the drop.
    pub after: DurationMs,
    /// The resources left for a job that begins now and still runs then.
    pub left: Resources,
}

/// Lists the drops of what is idle now, by what is free later: each time at which less is left than
/// at any before.
pub fn list_idle_drops(timeline: &Timeline, idle: &Resources, now: Timestamp) -> Vec<IdleDrop> {
    let mut least = idle.clone();
    let mut ebbs = Vec::<IdleDrop>::new();
    let _: ControlFlow<()> = timeline.visit_steps(TimeSpan::new(now, FOREVER), |at, free| {
        let at = at.max(now);
        let mut left = least.clone();
        left.limit_to(&timeline.kinds().to_resources(&free));
        if left != least {
            least = left.clone();
            match ebbs.last_mut().filter(|last| last.at >= at) {
                Some(last) => last.left = left,
                None => ebbs.push(IdleDrop {
                    at,
                    after: at.since(now),
                    left,
                }),
            }
        }
        ControlFlow::Continue(())
    });
    if ebbs.len() > EBBS_MAX {
        ebbs.truncate(EBBS_MAX);
        ebbs.iter_mut()
            .last()
            .into_iter()
            .for_each(|last| last.left = least.clone());
    }
    ebbs
}

impl IdleDrop {
    /// Returns the same drop, reported `age` ago; if its time has come meanwhile, it holds now.
    pub fn aged_by(&self, age: DurationMs) -> Self {
        Self {
            after: DurationMs(self.after.0.saturating_sub(age.0)),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn booked(processors: u32, bookings: &[(u64, u64, u32)]) -> Timeline {
        let mut site = Timeline::new(Timestamp(0), &Resources::processors(processors)).unwrap();
        for (from, to, processors) in bookings {
            let taken = site
                .to_amounts(&Resources::processors(*processors))
                .unwrap();
            site.book(TimeSpan::new(Timestamp(*from), Timestamp(*to)), &taken);
        }
        site
    }

    fn drops_in_hours(site: &Timeline, idle: u32, now: u64) -> Vec<(u64, u64, u32)> {
        let ebbs = list_idle_drops(site, &Resources::processors(idle), Timestamp(now)).into_iter();
        ebbs.map(|ebb| (ebb.at.0, ebb.after.0, ebb.left.processors))
            .collect()
    }

    #[test]
    fn what_is_reserved_later_is_left_until_then() {
        let site = booked(16, &[(50, 90, 4), (70, 80, 8), (200, 300, 2)]);
        assert_eq!(drops_in_hours(&site, 16, 10), [(50, 40, 12), (70, 60, 4)]);
        // What runs has ended by then: nobody has to give way.
        let site = booked(16, &[(10, 40, 6), (50, 90, 6)]);
        assert_eq!(drops_in_hours(&site, 10, 10), []);
    }

    #[test]
    fn a_site_that_has_promised_too_much_has_nothing_left() {
        let site = booked(4, &[(20, 30, 4), (20, 40, 3)]);
        assert_eq!(drops_in_hours(&site, 4, 0), [(20, 20, 0)]);
    }

    #[test]
    fn so_much_is_told_that_nothing_later_is_missed() {
        let later: Vec<_> = (1..=200_u64).map(|at| (at * 10, 9_000, 1)).collect();
        let ebbs = drops_in_hours(&booked(300, &later), 300, 0);
        assert_eq!(
            (ebbs.len(), ebbs[62].2, ebbs[63]),
            (EBBS_MAX, 237, (640, 640, 100))
        );
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_is_not_free_all_the_time(
            bookings in prop::collection::vec((0..60_u64, 1..40_u64, 1..5_u32), 0..8),
            idle in 0..10_u32,
        ) {
            let bookings: Vec<_> = bookings.into_iter().map(|(a, b, n)| (a, a + b, n)).collect();
            let site = booked(8, &bookings);
            let ebbs = list_idle_drops(&site, &Resources::processors(idle), Timestamp(0));
            for length in 1..120 {
                let least = site.least_free(TimeSpan::new(Timestamp(0), Timestamp(length)));
                let reached = ebbs.iter().rfind(|ebb| ebb.after < DurationMs(length));
                let left = reached.map_or(idle, |ebb| ebb.left.processors);
                prop_assert_eq!(left, idle.min(least.whole_processors()), "for {}", length);
            }
        }
    }
}
