//! The answers of a site that takes reservations (the broker's paper, section 2.3): granted with a
//! start, never, or perhaps from some later start on.

use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

use super::timeline::{OpeningRequest, Timeline};

/// The starts that are accepted: `earliest`, `latest`, and every instant between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StartWindow {
    /// The first start that is accepted.
    pub earliest: Timestamp,
    /// The last one, which is accepted, too.
    pub latest: Timestamp,
}

impl StartWindow {
    /// Spans `earliest` to `latest`, both included.
    pub fn new(earliest: Timestamp, latest: Timestamp) -> Self {
        Self { earliest, latest }
    }

    /// Accepts one start and no other: a fixed request.
    pub fn single_start(start: Timestamp) -> Self {
        Self::new(start, start)
    }

    /// Returns true if a start is accepted.
    pub fn contains(self, start: Timestamp) -> bool {
        (self.earliest..=self.latest).contains(&start)
    }

    /// Returns true if no start is accepted.
    pub fn is_empty(self) -> bool {
        self.earliest > self.latest
    }

    /// Returns the same window, later by `offset`.
    pub fn shifted_by(self, offset: DurationMs) -> Self {
        Self::new(self.earliest + offset, self.latest + offset)
    }
}

/// A request for a reservation at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationRequest {
    pub resources: Resources,
    /// Length of the reservation, with all the time it must cover ([`reservation_length`]).
    pub length: DurationMs,
    /// The starts that are accepted.
    pub window: StartWindow,
    /// True if the site may move the start within the window later.
    pub flexible: bool,
}

/// A site's answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReservationAnswer {
    /// Reserved from `start` on, for the length that was asked for.
    Granted {
        /// A start within the window.
        start: Timestamp,
    },
    /// Refused, for any start.
    Never,
    /// Refused. The same request may be granted for a start at `next` or later: T_next.
    NotBefore {
        /// A start after the window.
        next: Timestamp,
    },
}

/// Answers a request by what is free: with the earliest start within the window, else with the
/// earliest one after it.
pub fn answer_request(timeline: &Timeline, request: &ReservationRequest) -> ReservationAnswer {
    let Ok(need) = timeline.to_amounts(&request.resources) else {
        return ReservationAnswer::Never;
    };
    let wanted = OpeningRequest::after(request.window.earliest, need, request.length);
    match timeline.earliest_start(&wanted) {
        None => ReservationAnswer::Never,
        Some(start) if request.window.contains(start) => ReservationAnswer::Granted { start },
        Some(next) => ReservationAnswer::NotBefore { next },
    }
}

/// Returns the length of a reservation for a job that may start anywhere within `tolerance`, at a
/// site whose clock may be off by `skew`, if `lead` is needed before the common start and `margin`
/// after its wall time.
pub fn reservation_length(
    tolerance: DurationMs,
    skew: DurationMs,
    lead: DurationMs,
    wall_time: DurationMs,
    margin: DurationMs,
) -> DurationMs {
    tolerance + skew + lead + wall_time + margin
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::timeline::TimeSpan;

    const HOUR: DurationMs = DurationMs::from_secs(3_600);

    fn hour(hours: u64) -> Timestamp {
        Timestamp(hours * HOUR.0)
    }

    /// 8 processors, of which 6 are taken from 2 to 5.
    fn timeline_with_taken() -> Timeline {
        let mut site = Timeline::new(hour(0), &Resources::processors(8)).unwrap();
        let taken = site.to_amounts(&Resources::processors(6)).unwrap();
        site.book(TimeSpan::new(hour(2), hour(5)), &taken);
        site
    }

    fn answer_in_test_site(processors: u32, hours: u64, window: (u64, u64)) -> ReservationAnswer {
        let request = ReservationRequest {
            resources: Resources::processors(processors),
            length: DurationMs(HOUR.0 * hours),
            window: StartWindow::new(hour(window.0), hour(window.1)),
            flexible: false,
        };
        answer_request(&timeline_with_taken(), &request)
    }

    #[test]
    fn the_earliest_start_within_the_window_is_granted() {
        assert_eq!(
            answer_in_test_site(8, 2, (0, 3)),
            ReservationAnswer::Granted { start: hour(0) }
        );
        assert_eq!(
            answer_in_test_site(2, 2, (3, 4)),
            ReservationAnswer::Granted { start: hour(3) }
        );
        assert_eq!(
            answer_in_test_site(8, 2, (1, 5)),
            ReservationAnswer::Granted { start: hour(5) },
            "the last start counts"
        );
    }

    #[test]
    fn a_refusal_says_from_when_on_the_same_may_be_granted() {
        assert_eq!(
            answer_in_test_site(8, 2, (1, 4)),
            ReservationAnswer::NotBefore { next: hour(5) }
        );
        assert_eq!(
            answer_in_test_site(3, 3, (0, 0)),
            ReservationAnswer::NotBefore { next: hour(5) }
        );
    }

    #[test]
    fn a_fixed_request_is_granted_at_its_start_or_not_at_all() {
        assert_eq!(
            answer_in_test_site(8, 1, (1, 1)),
            ReservationAnswer::Granted { start: hour(1) }
        );
        assert_eq!(
            answer_in_test_site(8, 2, (1, 1)),
            ReservationAnswer::NotBefore { next: hour(5) }
        );
    }

    #[test]
    fn what_the_site_does_not_have_is_refused_for_ever() {
        assert_eq!(answer_in_test_site(9, 1, (0, 99)), ReservationAnswer::Never);
        let resources = Resources {
            processors: 1,
            others: [("gpus".into(), 1)].into(),
        };
        let window = StartWindow::single_start(hour(1));
        let request = ReservationRequest {
            resources,
            length: HOUR,
            window,
            flexible: true,
        };
        assert_eq!(
            answer_request(&timeline_with_taken(), &request),
            ReservationAnswer::Never
        );
    }

    #[test]
    fn nothing_is_granted_in_the_past_or_in_no_window() {
        let mut site = timeline_with_taken();
        site.forget_before(hour(6));
        let request = |from, to| ReservationRequest {
            resources: Resources::processors(8),
            length: HOUR,
            window: StartWindow::new(hour(from), hour(to)),
            flexible: false,
        };
        // What is known of the past ends with the step in which now lies.
        assert_eq!(
            answer_request(&site, &request(0, 4)),
            ReservationAnswer::NotBefore { next: hour(5) }
        );
        assert_eq!(
            answer_request(&site, &request(9, 7)),
            ReservationAnswer::NotBefore { next: hour(9) }
        );
    }

    #[test]
    fn a_lease_lasts_for_all_that_may_pass_before_its_job_has_ended() {
        let minute = |minutes: u64| DurationMs::from_secs(minutes * 60);
        let length = reservation_length(minute(5), minute(1), minute(2), HOUR, minute(10));
        assert_eq!(length, minute(78));
    }
}
