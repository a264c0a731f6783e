//! The pace at which a placement queue moves.

use crate::units::{DurationMs, Timestamp};

/// A job that waited for less was placed at once: its placement says nothing of the queue's pace.
const AT_ONCE: DurationMs = DurationMs(1_000);

/// A visit of a job to the placement queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueVisit {
    /// The time at which it entered the queue.
    pub entered: Timestamp,
    /// The time at which it was placed; `None` while it waits.
    pub placed: Option<Timestamp>,
}

/// The pace at which a queue moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePace {
    /// The number of waiting jobs that were placed.
    pub placed: usize,
    /// The time in which they were.
    pub within: DurationMs,
}

impl QueuePace {
    /// Returns the pace of a queue since it was last empty, but for `longest` at most. Time in which
    /// nobody waited says nothing of how fast those move who wait now, and neither does the placement
    /// of a job that found what it needed at once.
    pub fn of_visits(
        visits: impl IntoIterator<Item = QueueVisit>,
        now: Timestamp,
        longest: DurationMs,
    ) -> Self {
        let mut visits: Vec<QueueVisit> = visits
            .into_iter()
            .filter(|visit| visit.placed.unwrap_or(now).since(visit.entered) >= AT_ONCE)
            .collect();
        visits.sort_by_key(|visit| std::cmp::Reverse(visit.placed.unwrap_or(now)));
        let mut begin = now;
        let mut placed = 0;
        for visit in visits {
            if visit
                .placed
                .is_some_and(|at| at < begin || now.since(at) > longest)
            {
                break;
            }
            placed += usize::from(visit.placed.is_some());
            begin = begin.min(visit.entered);
        }
        Self {
            placed,
            within: now.since(begin).min(longest),
        }
    }

    /// Returns how long a job waits behind `ahead` others at this pace; `None` if none was placed.
    pub fn wait_behind(self, ahead: usize) -> Option<DurationMs> {
        let ahead = ahead as u64;
        let placed = self.placed as u64;
        let whole = self.within.0.checked_div(placed)?;
        let rest = self.within.0 % placed;
        Some(DurationMs(
            whole
                .saturating_mul(ahead)
                .saturating_add(rest.saturating_mul(ahead) / placed),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: DurationMs = DurationMs::from_secs(3_600);

    fn visit(entered: u64, placed: Option<u64>) -> QueueVisit {
        QueueVisit {
            entered: Timestamp(entered * 1_000),
            placed: placed.map(|at| Timestamp(at * 1_000)),
        }
    }

    fn pace_at(now: u64, visits: &[QueueVisit]) -> (usize, u64) {
        let now = Timestamp(now * 1_000);
        let pace = QueuePace::of_visits(visits.iter().copied(), now, HOUR);
        (pace.placed, pace.within.0 / 1_000)
    }

    #[test]
    fn a_queue_that_has_just_begun_has_the_pace_of_its_own_time() {
        let mut visits = vec![visit(10_000, Some(10_005)), visit(10_000, Some(10_010))];
        visits.extend([visit(10_000, None); 84]);
        assert_eq!(pace_at(10_010, &visits), (2, 10), "not of an hour");
        let pace = QueuePace::of_visits(visits, Timestamp(10_010_000), HOUR);
        assert_eq!(pace.wait_behind(84), Some(DurationMs::from_secs(420)));
    }

    #[test]
    fn what_was_placed_before_the_queue_was_empty_does_not_count() {
        let visits = [
            visit(100, Some(200)),
            visit(300, Some(400)),
            visit(350, None),
        ];
        assert_eq!(pace_at(500, &visits), (1, 200));
    }

    #[test]
    fn what_found_room_at_once_says_nothing_of_who_waits() {
        let mut visits = vec![visit(100, Some(100)); 8];
        visits.push(visit(100, None));
        assert_eq!(pace_at(150, &visits), (0, 50));
    }

    #[test]
    fn the_pace_is_that_of_the_last_hour_if_the_queue_is_older() {
        let visits = [visit(0, Some(1_000)), visit(0, Some(9_000)), visit(0, None)];
        assert_eq!(pace_at(10_000, &visits), (1, 3_600));
    }

    #[test]
    fn a_long_queue_is_estimated_by_how_it_moved_lately() {
        let pace = |placed| QueuePace {
            placed,
            within: HOUR,
        };
        let secs = |secs| Some(DurationMs::from_secs(secs));
        assert_eq!(pace(50).wait_behind(100), secs(7_200));
        assert_eq!(pace(50).wait_behind(0), secs(0));
        assert_eq!(pace(0).wait_behind(100), None, "it did not move");
        assert!(pace(1).wait_behind(usize::MAX).is_some(), "however long");
    }
}
