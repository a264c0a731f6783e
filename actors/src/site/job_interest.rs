//! The times at which a site is polled because of what jobs have there.

use std::sync::Arc;

use cospan_domain::ids::{ComponentIndex, JobId};
use cospan_domain::job::demands::ComponentHolding;
use cospan_domain::units::{DurationMs, Timestamp};
use imbl::OrdMap;

/// The longest pause between two polls for attempts that wait in the site's own queue.
const QUEUE_INTERVAL: DurationMs = DurationMs(15_000);
/// The pause for such attempts is this part of the time for which they have waited.
const QUEUE_PATIENCE: u64 = 8;

/// The holdings of jobs at a site, as far as they matter for the time of the next poll. Computed
/// only when they have changed, as that time is asked for far more often.
#[derive(Default)]
pub(super) struct SiteHoldings {
    pub(super) holdings: OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>>,
    /// The time since which attempts live there, other than those that wait in its queue.
    live: Option<Timestamp>,
    /// The submission of the last of those that wait in its own queue.
    queued: Option<Timestamp>,
    /// The time since which jobs wait for some of those.
    awaited: Option<Timestamp>,
}

impl SiteHoldings {
    /// Follows a change of the holdings; returns true if there was one.
    pub(super) fn update_holdings(
        &mut self,
        holdings: Option<&OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>>>,
        now: Timestamp,
    ) -> bool {
        let as_before = match holdings {
            Some(holdings) => holdings.ptr_eq(&self.holdings),
            None => self.holdings.is_empty(),
        };
        if as_before {
            return false;
        }
        self.holdings = holdings.cloned().unwrap_or_default();
        let mut lives = false;
        let mut is_awaited = false;
        let mut queued: Option<Timestamp> = None;
        for holding in self.holdings.values().filter(|holding| holding.live) {
            lives |= !holding.queued;
            is_awaited |= holding.awaited;
            if holding.queued {
                // A time to come was noted before the clock was set back.
                queued = queued.max(Some(holding.visible_from.unwrap_or(now).min(now)));
            }
        }
        self.live = lives.then(|| self.live.unwrap_or(now));
        self.awaited = is_awaited.then(|| self.awaited.unwrap_or(now));
        self.queued = queued;
        true
    }

    /// The number of processors that jobs have or will claim.
    pub(super) fn held_processors(&self) -> u32 {
        let held = self
            .holdings
            .values()
            .map(|holding| holding.resources.processors);
        held.fold(0, u32::saturating_add)
    }

    /// Returns when to ask for the attempts that live there; `None` while none does. An attempt
    /// submitted just now is not asked for.
    pub(super) fn next_attempts_poll(
        &self,
        polled_at: Timestamp,
        interval: DurationMs,
        soon: DurationMs,
    ) -> Option<Timestamp> {
        let live = self.live.map(|since| since.max(polled_at) + interval);
        let awaited = self.awaited.map(|since| since.max(polled_at) + soon);
        // An attempt that may wait for hours is not asked for every two seconds.
        let queued = self.queued.map(|submitted| {
            let pause = DurationMs(polled_at.since(submitted).0 / QUEUE_PATIENCE);
            submitted.max(polled_at) + pause.min(QUEUE_INTERVAL).max(interval)
        });
        live.into_iter().chain(queued).chain(awaited).min()
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::Attempt;
    use cospan_domain::resources::Resources;

    use super::*;
    use crate::transfer::testing::site;

    #[test]
    fn what_waits_in_a_queue_is_asked_for_the_more_rarely_the_longer() {
        let interval = DurationMs(2_000);
        let soon = DurationMs(1_000);
        let mut holding =
            ComponentHolding::clone(&holdings(&[(1, false)])[&(JobId(1), ComponentIndex(0))]);
        holding.queued = true;
        holding.visible_from = Some(Timestamp(10_000));
        let held = OrdMap::unit((JobId(1), ComponentIndex(0)), Arc::new(holding));
        let mut seen = SiteHoldings::default();
        seen.update_holdings(Some(&held), Timestamp(10_000));
        let pause = |polled_at| {
            seen.next_attempts_poll(Timestamp(polled_at), interval, soon)
                .unwrap()
                .0
                - polled_at
        };
        assert_eq!(pause(10_000), 2_000, "submitted just now");
        assert_eq!(pause(50_000), 5_000, "for 40 s");
        assert_eq!(pause(900_000), 15_000, "for a quarter of an hour");
    }

    fn holdings(each: &[(u64, bool)]) -> OrdMap<(JobId, ComponentIndex), Arc<ComponentHolding>> {
        each.iter()
            .map(|&(job, awaited)| {
                let component = ComponentIndex(0);
                let resources = Resources::processors(1);
                let site = site("Delft");
                let visible_from = None;
                let live = true;
                let attempt = Attempt(1);
                let origin = None;
                let holding = ComponentHolding {
                    component,
                    attempt,
                    origin,
                    site,
                    resources,
                    visible_from,
                    live,
                    awaited,
                    queued: false,
                };
                ((JobId(job), component), Arc::new(holding))
            })
            .collect()
    }

    #[test]
    fn what_was_just_submitted_is_asked_for_later_and_puts_off_nothing_else() {
        let interval = DurationMs(5_000);
        let soon = DurationMs(1_000);
        let mut seen = SiteHoldings::default();
        let mut due = |held: &[(u64, bool)], now| {
            seen.update_holdings(Some(&holdings(held)), Timestamp(now));
            seen.next_attempts_poll(Timestamp(100), interval, soon)
        };
        assert_eq!(due(&[], 90_000), None, "nothing lives there");
        assert_eq!(
            due(&[(1, false)], 91_000),
            Some(Timestamp(96_000)),
            "since it lives there"
        );
        assert_eq!(
            due(&[(1, false), (2, false)], 93_000),
            Some(Timestamp(96_000)),
            "as before"
        );
        assert_eq!(
            due(&[(1, false), (2, true)], 94_000),
            Some(Timestamp(95_000)),
            "one is awaited"
        );
        assert_eq!(
            due(&[(2, false)], 94_500),
            Some(Timestamp(96_000)),
            "it is no more"
        );
        assert_eq!(due(&[], 94_600), None, "both are gone");
        assert_eq!(
            due(&[(3, true)], 99_000),
            Some(Timestamp(100_000)),
            "another, much later"
        );
    }
}
