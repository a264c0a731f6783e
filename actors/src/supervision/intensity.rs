//! Limits on how often an actor may die before more than a restart is due (as in OTP).

use std::collections::VecDeque;

use cospan_domain::units::{DurationMs, Timestamp};

use super::ActorKind;

/// The consequence of a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Rebuild the actor after this pause (to be spread by the caller).
    Restart(DurationMs),
    /// Rebuild it no more; its job or site is held, with a command to retry.
    Hold,
    /// The process must end: a supervisor above starts it anew.
    Exit,
}

/// The number of deaths that is too many, and the consequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeathLimit {
    /// This many deaths ...
    pub deaths: usize,
    /// ... within this time.
    pub within: DurationMs,
    /// The consequence.
    pub then: RestartDecision,
}

/// The limit for a kind of actor.
pub fn death_limit_of(kind: ActorKind) -> DeathLimit {
    let minute = DurationMs::from_secs(60);
    match kind {
        ActorKind::Journal => DeathLimit {
            deaths: 1,
            within: minute,
            then: RestartDecision::Exit,
        },
        ActorKind::Intake
        | ActorKind::Information
        | ActorKind::DataManager
        | ActorKind::CoAllocator
        | ActorKind::Reserver
        | ActorKind::Claimer
        | ActorKind::Notifier => DeathLimit {
            deaths: 5,
            within: minute,
            then: RestartDecision::Exit,
        },
        ActorKind::Cluster | ActorKind::Job | ActorKind::Transfer | ActorKind::ClaimTimer => {
            DeathLimit {
                deaths: 3,
                within: minute,
                then: RestartDecision::Hold,
            }
        }
    }
}

/// Recent deaths of one actor.
#[derive(Debug, Clone, Default)]
pub struct RecentDeaths(VecDeque<Timestamp>);

impl RecentDeaths {
    /// The longest pause before a restart.
    pub const PAUSE_MAX: DurationMs = DurationMs(5_000);

    /// Returns true if any of them still counts towards the limit.
    pub fn has_counting_death(&self, limit: DeathLimit, now: Timestamp) -> bool {
        self.0
            .back()
            .is_some_and(|&last| now.since(last) <= limit.within)
    }

    /// Records a death; returns its consequence.
    pub fn record_death(&mut self, limit: DeathLimit, now: Timestamp) -> RestartDecision {
        self.0.push_back(now);
        while self
            .0
            .front()
            .is_some_and(|&first| now.since(first) > limit.within)
        {
            self.0.pop_front();
        }
        if self.0.len() >= limit.deaths {
            self.0.clear();
            return limit.then;
        }
        let pause = 10u64 << (2 * self.0.len()).min(20);
        RestartDecision::Restart(DurationMs(pause).min(Self::PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_dies_three_times_in_a_minute_is_held() {
        let mut deaths = RecentDeaths::default();
        let job = death_limit_of(ActorKind::Job);
        assert!(matches!(
            deaths.record_death(job, Timestamp(0)),
            RestartDecision::Restart(_)
        ));
        assert!(matches!(
            deaths.record_death(job, Timestamp(1_000)),
            RestartDecision::Restart(_)
        ));
        assert_eq!(
            deaths.record_death(job, Timestamp(2_000)),
            RestartDecision::Hold
        );
    }

    #[test]
    fn deaths_long_ago_do_not_count() {
        let mut deaths = RecentDeaths::default();
        let job = death_limit_of(ActorKind::Job);
        for day in 0..10 {
            let step = deaths.record_death(job, Timestamp(day * 86_400_000));
            assert!(matches!(step, RestartDecision::Restart(_)), "day {day}");
        }
    }

    #[test]
    fn pauses_grow_with_each_death() {
        let mut deaths = RecentDeaths::default();
        let kind = death_limit_of(ActorKind::CoAllocator);
        let pause = |step| match step {
            RestartDecision::Restart(pause) => pause,
            other => panic!("{other:?}"),
        };
        let first = pause(deaths.record_death(kind, Timestamp(0)));
        let second = pause(deaths.record_death(kind, Timestamp(1)));
        assert!(first < second);
    }

    #[test]
    fn the_limits_are_those_of_the_book() {
        let book = include_str!("../../../docs/src/architecture.md");
        let (_, chapter) = book
            .split_once("### Supervision")
            .expect("a chapter of the book");
        let chapter = chapter.replace('-', " ");
        let rows = chapter.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let deaths: usize = cells.get(1)?.parse().ok()?;
            Some((
                cells[0].split(", ").collect::<Vec<_>>(),
                deaths,
                *cells.get(2)?,
            ))
        });
        let rows: Vec<_> = rows.collect();
        for kind in ActorKind::ALL {
            let name = kind.as_str().replace('-', " ");
            let limit = death_limit_of(kind);
            let row = rows
                .iter()
                .find(|(kinds, ..)| kinds.contains(&name.as_str()));
            let (_, deaths, what) = row.unwrap_or_else(|| panic!("{name} is not in the book"));
            assert_eq!(limit.deaths, *deaths, "{name}");
            assert_eq!(
                limit.then == RestartDecision::Exit,
                what.contains("process ends"),
                "{name}"
            );
            assert_eq!(limit.within, DurationMs::from_secs(60), "{name}");
        }
    }

    #[test]
    fn the_journal_has_no_second_life() {
        assert_eq!(
            RecentDeaths::default().record_death(death_limit_of(ActorKind::Journal), Timestamp(0)),
            RestartDecision::Exit
        );
    }
}
