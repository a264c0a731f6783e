//! Settings of administrators: what makes no sense is refused before there is a control
//! plane, everything else is taken. The bounds are those of the reference, written anew.

use cospan_domain::claim::parameters::{ClaimParameters, MinClaimStep};
use cospan_domain::job::spec::Priority;
use cospan_domain::queue::QueueParameters;
use cospan_domain::units::{DurationMs, PerMillion};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Tells the stream apart.
const SETTINGS: u64 = 0x7365_7474;
/// Settings that each seed tries.
const DRAWS: usize = 12;
/// Most scans or rounds of one kind in a cycle.
const WEIGHT_MAX: u32 = 1_000;

/// Settings that are judged otherwise than the reference says.
pub(super) fn wrongly_judged(seed: u64) -> Vec<String> {
    let mut chance = StdRng::seed_from_u64(seed ^ SETTINGS);
    let mut found = Vec::new();
    for _ in 0..DRAWS {
        let queue = draw_queue(&mut chance);
        let told = queue.validate();
        if told.is_ok() != makes_sense(&queue) {
            found.push(format!("{queue:?}: {told:?}"));
        }
        if told.is_ok_and(|warnings| warnings.len() != oddities(&queue)) {
            found.push(format!("oddities of {queue:?}"));
        }
        if makes_sense(&queue) && !keeps_turns(&queue, chance.random_range(0..2_000)) {
            found.push(format!("whose turn it is with {queue:?}"));
        }
        let claims = draw_claims(&mut chance);
        let told = claims.validate();
        if told.is_ok() != is_possible(&claims) {
            found.push(format!("{claims:?}: {told:?}"));
        }
    }
    found
}

fn draw_queue(chance: &mut StdRng) -> QueueParameters {
    let mut weight = || {
        let likely = [1, 1, 1, 2, 2, 3, WEIGHT_MAX, WEIGHT_MAX + 1, 0];
        *likely[..if chance.random_bool(0.8) { 6 } else { 9 }].choose(chance).unwrap_or(&1)
    };
    let [n_h, n_l, n1, n2, n3, n4] = std::array::from_fn(|_| weight());
    let rare = |chance: &mut StdRng| chance.random_bool(0.1);
    QueueParameters {
        n_h,
        n_l,
        n1,
        n2,
        n3,
        n4,
        scan_interval: DurationMs(u64::from(!rare(chance))),
        promote_after: [None, Some(0), Some(1)][chance.random_range(0..3)],
        events: chance.random_bool(0.5),
        turn_processors: u32::from(!rare(chance)),
        ..QueueParameters::default()
    }
}

fn makes_sense(queue: &QueueParameters) -> bool {
    let weights = [queue.n_h, queue.n_l, queue.n1, queue.n2, queue.n3, queue.n4];
    weights.iter().all(|weight| (1..=WEIGHT_MAX).contains(weight))
        && queue.n_l <= queue.n_h
        && queue.scan_interval.0 > 0
        && queue.promote_after != Some(0)
        && queue.turn_processors > 0
}

/// Classes that are scanned more often than the more urgent one beside them.
fn oddities(queue: &QueueParameters) -> usize {
    usize::from(queue.n2 > queue.n1) + usize::from(queue.n4 > queue.n3)
}

/// Whether it is the right queue's turn at this position: `n_h` rounds of `n1` scans of
/// super-high and `n2` of high, then `n_l` rounds of `n3` of low and `n4` of super-low.
fn keeps_turns(queue: &QueueParameters, position: u64) -> bool {
    let round = |first, scans: u32, second, more: u32| {
        let firsts = std::iter::repeat_n(first, scans as usize);
        firsts.chain(std::iter::repeat_n(second, more as usize)).collect::<Vec<_>>()
    };
    let high = round(Priority::SuperHigh, queue.n1, Priority::High, queue.n2);
    let low = round(Priority::Low, queue.n3, Priority::SuperLow, queue.n4);
    let rounds = |round: &[Priority], times: u32| round.repeat(times.min(3) as usize);
    if queue.n_h > 3 || queue.n_l > 3 {
        return true;
    }
    let cycle = [rounds(&high, queue.n_h), rounds(&low, queue.n_l)].concat();
    let length = cycle.len() as u64;
    let turn = usize::try_from(position % length).ok().and_then(|at| cycle.get(at));
    queue.cycle_length() == length && turn == Some(&queue.class_at(position))
}

fn draw_claims(chance: &mut StdRng) -> ClaimParameters {
    let mut ratio = || {
        let likely = [0, 250_000, 750_000, 1_000_000, 1_000_001];
        PerMillion(*likely.choose(chance).unwrap_or(&0))
    };
    let (l, l_step, l_min, threshold) = (ratio(), ratio(), ratio(), ratio());
    let steps = [
        MinClaimStep::Auto,
        MinClaimStep::Fixed(DurationMs(1)),
        MinClaimStep::Fixed(DurationMs(0)),
    ];
    let min_claim_step = steps[chance.random_range(0..3)];
    ClaimParameters { l, l_step, l_min, min_claim_step, threshold, ..ClaimParameters::default() }
}

fn is_possible(claims: &ClaimParameters) -> bool {
    let ratios = [claims.l, claims.l_step, claims.l_min, claims.threshold];
    ratios.iter().all(|ratio| ratio.0 <= 1_000_000)
        && claims.l_min <= claims.l
        && claims.min_claim_step != MinClaimStep::Fixed(DurationMs(0))
}
