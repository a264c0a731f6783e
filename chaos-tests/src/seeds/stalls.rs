//! Draws stalls of actors.

use cospan_domain::units::{DurationMs, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::seed_scenario::MINUTE;
use cospan_simulator::stalls::{KINDS, StallSettings};

/// Number of the random stream.
const STREAM: u64 = 0x7374_616c;
/// Share of the seeds in which actors stall.
const EXIST: f64 = 0.2;
/// Longest time between two, and longest stall.
const PAUSES: [u64; 3] = [10 * MINUTE, 30 * MINUTE, 60 * MINUTE];
const LENGTHS: [u64; 3] = [10_000, MINUTE, 5 * MINUTE];

/// Draws first whether there are stalls or full mailboxes, then of whom, then how often; none
/// begins after `until`.
pub(super) fn draw_stalls(seed: u64, until: Timestamp) -> Option<StallSettings> {
    let mut chance = StdRng::seed_from_u64(seed ^ STREAM);
    if !chance.random_bool(EXIST) {
        return None;
    }
    let full = [0, 500_000, 1_000_000][chance.random_range(0..3)];
    let mut kinds = KINDS.map(|_| chance.random_bool(0.5));
    if !kinds.contains(&true) {
        kinds = KINDS.map(|_| true);
    }
    let pause_max = DurationMs(PAUSES[chance.random_range(0..PAUSES.len())]);
    let lasts_max = DurationMs(LENGTHS[chance.random_range(0..LENGTHS.len())]);
    Some(StallSettings {
        kinds,
        pause_max,
        lasts_max,
        full,
        until,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::run::run;
    use crate::seeds::seed_scenario::SeedScenario;
    use cospan_simulator::fault_kinds::FaultKind;

    #[test]
    fn a_fifth_of_the_seeds_has_stalls_or_full_mailboxes_of_some_actors() {
        let until = Timestamp(1);
        let drawn: Vec<StallSettings> = (0..2_000)
            .filter_map(|seed| draw_stalls(seed, until))
            .collect();
        assert!((350..450).contains(&drawn.len()), "{}", drawn.len());
        for full in [0, 500_000, 1_000_000] {
            let count = drawn.iter().filter(|stalls| stalls.full == full).count();
            assert!(count > drawn.len() / 4, "{count} with {full}");
        }
        assert!(
            drawn
                .iter()
                .all(|stalls| stalls.stalled_kinds().next().is_some())
        );
        for (at, kind) in KINDS.iter().enumerate() {
            let struck = drawn.iter().filter(|stalls| stalls.kinds[at]).count();
            assert!(struck > drawn.len() / 3, "{kind:?} in {struck}");
        }
    }

    /// How often it struck with effect in a run in which much else goes wrong as well.
    fn struck(seed: u64, at: usize, kind: FaultKind, full: u32) -> u64 {
        let mut kinds = [false; KINDS.len()];
        kinds[at] = true;
        let pause_max = DurationMs(MINUTE);
        let drawn = SeedScenario::draw(seed, 20, 3, DurationMs::from_secs(2 * 3_600)).unwrap();
        let until = drawn.calm_at;
        let stalls = StallSettings {
            kinds,
            pause_max,
            lasts_max: pause_max,
            full,
            until,
        };
        let verdict = run(SeedScenario {
            stalls: Some(stalls),
            ..drawn
        })
        .unwrap();
        let actor = KINDS[at];
        let told = verdict
            .timeline
            .iter()
            .filter(|(.., what)| what.contains("stalls for"));
        assert!(told.count() > 10, "{kind:?} of {actor:?} is not told");
        let broken = (&verdict.unsafe_, &verdict.not_live);
        assert!(
            verdict.holds(),
            "{kind:?} of {actor:?} at seed {seed}: {broken:#?}"
        );
        verdict
            .struck
            .get(&(kind, actor.as_str()))
            .copied()
            .unwrap_or(0)
    }

    #[test]
    fn every_kind_of_actor_may_stall_or_be_full_and_no_rule_is_broken() {
        for (at, actor) in KINDS.into_iter().enumerate() {
            for (kind, full) in [
                (FaultKind::ActorStalls, 0),
                (FaultKind::MailboxFull, 1_000_000),
            ] {
                // Few have anything to say to some of them.
                let strikes = (5..15).any(|seed| struck(seed, at, kind, full) > 0);
                assert!(strikes, "{kind:?} of {actor:?} struck nobody");
            }
        }
    }
}
