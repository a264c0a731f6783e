//! What holds of any grid.

use proptest::prelude::*;

use super::super::{Dimension, split_in_order};
use super::*;

prop_compose! {
    fn an_amount()(
        processors in 0..2_000u64, mflops in prop_oneof![Just(0u64), 1..u64::MAX],
        memory_mb in prop_oneof![0..9u64, any::<u64>()], disk_mb in any::<u64>(),
    ) -> BidAmounts {
        BidAmounts { processors, power: Mflops(mflops), memory_mb, disk_mb }
    }
}

fn a_rate() -> impl Strategy<Value = BitsPerSecond> {
    prop_oneof![0..3u64, any::<u64>()].prop_map(BitsPerSecond)
}

fn a_route() -> impl Strategy<Value = InputRoute> {
    let size = || any::<u64>().prop_map(Bytes);
    prop_oneof![
        size().prop_map(InputRoute::Here),
        (size(), a_rate(), a_rate()).prop_map(|(size, upload, download)| InputRoute::From {
            site: 0,
            size,
            upload,
            download
        }),
    ]
}

prop_compose! {
    fn a_need()(
        amounts in an_amount(), source_potential in a_rate(), run_time in 0..9_999_999u64,
        weights in prop::collection::vec(0..1_000_000u32, Dimension::COUNT),
        local_rate in prop::option::of((1..u64::MAX).prop_map(BitsPerSecond)),
    ) -> BidNeed {
        let weights = Dimension::ALL.iter().zip(weights);
        let weights = weights.map(|(dimension, weight)| {
            (dimension.as_str(), DimensionWeight::from_thousandths(weight).unwrap())
        });
        let weights = DimensionWeights::from_named(weights).unwrap_or_default();
        let terms = BidTerms { run_time: DurationMs(run_time), weights, local_rate };
        BidNeed { amounts, source_potential, terms }
    }
}

prop_compose! {
    fn an_offer()(
        free in an_amount(), power_per_processor in prop::option::of(any::<u64>().prop_map(Mflops)),
        potential in a_rate(), routes in prop::collection::vec(a_route(), 0..3),
    ) -> SiteSupply {
        SiteSupply { free, power_per_processor, potential, routes }
    }
}

proptest! {
    #[test]
    fn every_index_and_the_distance_are_numbers_of_0_or_more(
        need in a_need(), offer in an_offer(),
    ) {
        if let Ok(bid) = compute_bid(&need, &offer) {
            let all = bid.indices.iter().chain([&bid.x, &bid.y, &bid.distance]);
            prop_assert!(all.clone().all(|part| part.is_finite() && *part >= 0.0), "{bid:?}");
            prop_assert!(bid.distance >= bid.x.max(bid.y) * (1.0 - 1e-12));
        }
    }

    #[test]
    fn no_site_gives_more_than_is_asked_for_or_free(need in a_need(), offer in an_offer()) {
        if let Ok(Bid { amounts, .. }) = compute_bid(&need, &offer) {
            prop_assert!(amounts.processors <= need.amounts.processors.min(offer.free.processors));
            prop_assert!(amounts.power <= need.amounts.power);
            prop_assert!(amounts.memory_mb <= need.amounts.memory_mb.min(offer.free.memory_mb));
            prop_assert!(amounts.disk_mb <= need.amounts.disk_mb.min(offer.free.disk_mb));
        }
    }

    #[test]
    fn a_site_with_more_of_everything_is_no_farther(
        need in a_need(), offer in an_offer(), more in 0..50_000u64,
    ) {
        let free = BidAmounts {
            processors: offer.free.processors + more,
            memory_mb: offer.free.memory_mb.saturating_add(more),
            disk_mb: offer.free.disk_mb.saturating_add(more),
            ..offer.free
        };
        let richer = compute_bid(&need, &SiteSupply { free, ..offer.clone() });
        if let (Ok(poor), Ok(rich)) = (compute_bid(&need, &offer), richer) {
            prop_assert!(rich.distance <= poor.distance);
        }
    }

    #[test]
    fn the_order_of_the_answers_does_not_matter(
        need in a_need(), offers in prop::collection::vec(an_offer(), 1..8), turn in 0..8usize,
    ) {
        let bids: Vec<(usize, Bid)> = offers.iter().enumerate()
            .filter_map(|(name, offer)| Some((name, compute_bid(&need, offer).ok()?))).collect();
        let order = |bids: &[(usize, Bid)]| -> Vec<usize> {
            let named: Vec<(usize, &Bid)> = bids.iter().map(|(name, bid)| (*name, bid)).collect();
            rank_bids(&named).into_iter().map(|at| named[at].0).collect()
        };
        let mut turned = bids.clone();
        turned.rotate_left(turn.min(bids.len()));
        prop_assert_eq!(order(&bids), order(&turned));
        turned.reverse();
        prop_assert_eq!(order(&bids), order(&turned));
    }

    #[test]
    fn parts_are_found_exactly_when_there_are_any(
        total in 1..60u32, min in 0..8u32, most in 1..8usize,
        usable in prop::collection::vec(0..20u32, 0..7),
    ) {
        let parts = split_in_order(total, min, most, &usable);
        let least = min.max(1);
        let fits = |set: u32| {
            let taken: Vec<u32> =
                (0..usable.len()).filter(|at| set >> at & 1 == 1).map(|at| usable[at]).collect();
            let count = taken.len() as u32;
            (1..=most as u32).contains(&count) && count * least <= total
                && taken.iter().all(|left| *left >= least) && taken.iter().sum::<u32>() >= total
        };
        prop_assert_eq!(!parts.is_empty(), (0..1u32 << usable.len()).any(fits), "{:?}", parts);
        if !parts.is_empty() {
            prop_assert_eq!(parts.iter().map(|(_, size)| size).sum::<u32>(), total);
            prop_assert!(parts.len() <= most);
            prop_assert!(parts.iter().all(|&(at, size)| least <= size && size <= usable[at]));
            prop_assert!(parts.is_sorted_by_key(|(at, _)| *at), "in the order of the sites");
        }
    }
}
