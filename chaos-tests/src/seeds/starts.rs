//! Judges whether the components of a round began together, by the time of the world itself. No
//! clock of a control plane counts for that; a site's clock does, where it was set between its
//! readiness and its beginning: it is all that anybody there can go by.

use std::collections::BTreeMap;

use cospan_domain::ids::{JobId, Round};
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::units::{DurationMs, Timestamp};

use cospan_simulator::world::SimulatedWorld;

/// The way of an attempt to its common start.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptStart {
    /// Time at which it was at its gate.
    pub(super) ready: Timestamp,
    /// Time at which its payload began.
    pub(super) began: Timestamp,
}

/// The starts of each round; of a component that was restarted alone the first one.
pub(super) type Starts = BTreeMap<(JobId, Round), Vec<AttemptStart>>;

/// Returns how far apart the components of a round may begin.
fn apart_max() -> DurationMs {
    let JobParameters {
        go_lead,
        go_lead_held,
        go_grace,
        ..
    } = JobParameters::default();
    go_lead.max(go_lead_held) + go_grace + DurationMs(1_000)
}

/// Returns by how much the clocks of sites were set in this time.
pub(super) fn clock_steps(world: &SimulatedWorld, from: Timestamp, to: Timestamp) -> DurationMs {
    let steps = world
        .sites()
        .iter()
        .map(|site| site.present_faults().clock_steps(from, to).0);
    DurationMs(steps.sum())
}

/// Lists rounds of which a component began long after another, whatever became of them, and by how
/// much.
pub(super) fn torn(
    world: &SimulatedWorld,
    starts: &Starts,
) -> BTreeMap<(JobId, Round), DurationMs> {
    let torn = starts.iter().filter_map(|(round, starts)| {
        let ready = starts.iter().map(|start| start.ready).min()?;
        let first = starts.iter().map(|start| start.began).min()?;
        let last = starts.iter().map(|start| start.began).max()?;
        let apart = last.since(first);
        let may_be = apart_max() + clock_steps(world, ready, last);
        (apart > may_be).then_some((*round, apart))
    });
    torn.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::seed_scenario::SeedScenario;
    use cospan_simulator::world::WrapperDelays;
    use cospan_simulator::world::site_faults::SiteFault;

    const ROUND: (JobId, Round) = (JobId(1), Round(1));

    fn world() -> SimulatedWorld {
        let scenario = SeedScenario::draw(1, 1, 2, DurationMs::from_secs(3_600)).unwrap();
        SimulatedWorld::new(
            scenario.sites,
            &[],
            WrapperDelays::default(),
            1,
            Timestamp(0),
        )
    }

    fn starts(began: [u64; 2]) -> Starts {
        [(
            ROUND,
            began
                .map(|began| AttemptStart {
                    ready: Timestamp(1_000),
                    began: Timestamp(began),
                })
                .to_vec(),
        )]
        .into()
    }

    #[test]
    fn parts_that_begin_later_than_the_grace_after_others_are_torn() {
        let world = world();
        assert!(torn(&world, &starts([2_000, 33_000])).is_empty());
        assert_eq!(
            torn(&world, &starts([33_001, 2_000])),
            [(ROUND, DurationMs(31_001))].into()
        );
        assert!(torn(&world, &[(ROUND, Vec::new())].into()).is_empty());
    }

    #[test]
    fn a_clock_of_a_site_excuses_what_it_was_set_by_meanwhile() {
        let mut world = world();
        let site = world.index_of(world.sites()[0].name()).unwrap();
        for (at, ahead_ms) in [(500, 90_000), (10_000, 85_000)] {
            world.plan_fault(Timestamp(at), site, SiteFault::Clock(ahead_ms));
        }
        world.advance_to(Timestamp(100_000));
        assert!(
            torn(&world, &starts([2_000, 38_000])).is_empty(),
            "set back by 5 s"
        );
        assert_eq!(
            torn(&world, &starts([2_000, 38_001])).len(),
            1,
            "what was before is known"
        );
    }
}
