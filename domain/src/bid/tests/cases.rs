//! What sites cannot answer, and what is no weight.

use super::super::Dimension::{Compute, Data, Potential};
use super::super::{split_in_order, suggest_remedy};
use super::*;
use crate::bid::DimensionWeightError;

#[test]
fn a_site_without_figures_declines_a_job_that_asks_for_gflops() {
    let silent = SiteSupply {
        power_per_processor: None,
        ..example_sites()[1].clone()
    };
    assert_eq!(
        compute_bid(&example_need(150), &silent),
        Err(BidRefusal::NoGflops)
    );
    let amounts = BidAmounts {
        processors: 200,
        power: Mflops(0),
        ..example_need(150).amounts
    };
    let answer = compute_bid(
        &BidNeed {
            amounts,
            ..example_need(150)
        },
        &silent,
    )
    .unwrap();
    assert_eq!(
        answer.index(Compute),
        0.5,
        "a job that asks for processors it answers"
    );
}

#[test]
fn processors_beside_gflops_count_with_what_the_site_makes_of_them() {
    let amounts = BidAmounts {
        processors: 10,
        power: Mflops(100_000),
        ..BidAmounts::default()
    };
    let need = BidNeed {
        amounts,
        ..example_need(0)
    };
    let mut site = example_site(40, 0, 0, 0, Vec::new());
    site.power_per_processor = Some(Mflops(2_000));
    let answer = compute_bid(&need, &site).unwrap();
    assert!(is_near(answer.index(Compute), 1.0 - 80.0 / 120.0));
    assert_eq!(
        (answer.amounts.processors, answer.amounts.power),
        (10, Mflops(60_000))
    );
}

#[test]
fn a_site_that_nothing_reaches_from_the_data_declines() {
    for routes in [routes_over_link(0, 60), routes_over_link(100, 0)] {
        let cut_off = SiteSupply {
            routes,
            ..example_sites()[1].clone()
        };
        assert_eq!(
            compute_bid(&example_need(150), &cut_off),
            Err(BidRefusal::NoBandwidth)
        );
    }
    let mut cut_off = example_sites()[1].clone();
    cut_off.routes.clear();
    assert_eq!(
        compute_bid(&example_need(150), &cut_off).unwrap().y,
        0.0,
        "a job without data does not mind"
    );
}

#[test]
fn the_times_of_several_inputs_add_up() {
    let mut site = example_sites()[1].clone();
    site.routes.extend(routes_over_link(50, 100));
    assert!(is_near(
        compute_bid(&example_need(150), &site).unwrap().y,
        0.4 + 0.48
    ));
}

#[test]
fn no_index_of_a_job_without_input_is_below_0() {
    let answer = compute_bid(&example_need(0), &example_site(100, 64, 200, 0, Vec::new())).unwrap();
    let all = answer
        .indices
        .iter()
        .chain([&answer.x, &answer.y, &answer.distance]);
    let shown: Vec<String> = all.map(|part| format!("{part:.3}")).collect();
    assert_eq!(shown, vec!["0.000"; 8]);
}

#[test]
fn data_at_the_site_costs_what_reading_it_there_takes() {
    let need = example_need(150);
    let local_rate = Some(megabits_per_second(8_000));
    let need = BidNeed {
        terms: BidTerms {
            local_rate,
            ..need.terms
        },
        ..need
    };
    assert!(is_near(
        compute_bid(&need, &example_sites()[0]).unwrap().index(Data),
        0.003
    ));
}

#[test]
fn without_a_run_time_nothing_is_measured() {
    let need = example_need(150);
    let terms = BidTerms {
        run_time: DurationMs::ZERO,
        ..need.terms
    };
    assert_eq!(
        compute_bid(&BidNeed { terms, ..need }, &example_sites()[0]),
        Err(BidRefusal::NoRunTime)
    );
}

#[test]
fn where_the_source_can_send_nothing_no_potential_is_asked_for() {
    assert_eq!(
        compute_bid(&example_need(0), &example_sites()[2])
            .unwrap()
            .index(Potential),
        0.0
    );
}

#[test]
fn a_weight_is_a_number_from_0_to_1000() {
    for wrong in [-0.1, 1_000.1, f64::NAN, f64::INFINITY, 0.000_1] {
        assert!(
            matches!(
                DimensionWeight::new(wrong),
                Err(DimensionWeightError::OutOfRange(_))
            ),
            "{wrong}"
        );
    }
    assert_eq!("0.5".parse::<DimensionWeight>().unwrap().factor(), 0.5);
    let words = "-1".parse::<DimensionWeight>().unwrap_err().to_string();
    assert_eq!(
        words,
        "a weight is -1; it must be from 0 to 1000, with at most three decimals"
    );
    assert!(
        "one"
            .parse::<DimensionWeight>()
            .unwrap_err()
            .to_string()
            .contains("\"one\"")
    );
}

#[test]
fn weights_name_dimensions_and_one_of_them_counts() {
    let words = DimensionWeights::from_named([("cost", DimensionWeight::ONE)])
        .unwrap_err()
        .to_string();
    let expected =
        "no dimension is called \"cost\"; there are: compute, memory, disk, potential, data";
    assert_eq!(words, expected);
    let none = ["compute", "memory", "disk", "potential", "data"]
        .map(|name| (name, DimensionWeight::ZERO));
    assert_eq!(
        DimensionWeights::from_named(none),
        Err(DimensionWeightError::AllZero)
    );
    let some = DimensionWeights::from_named(none[..4].iter().copied()).unwrap();
    let counts: Vec<&str> = some
        .by_name()
        .filter(|(_, weight)| *weight > DimensionWeight::ZERO)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(counts, ["data"]);
}

#[test]
fn what_the_nearest_lacks_comes_from_where_the_data_costs_least() {
    let at = |x: f64, y: f64| Bid {
        indices: Default::default(),
        x,
        y,
        distance: x.hypot(y),
        farthest: None,
        amounts: BidAmounts::default(),
    };
    let near = at(0.1, 0.3);
    let far = at(2.0, 0.1);
    let slow = at(0.1, 0.4);
    let bids = [("d", &slow), ("c", &far), ("b", &near), ("a", &near)];
    assert_eq!(rank_bids(&bids), [3, 1, 2, 0]);
    assert!(rank_bids::<&str>(&[]).is_empty());
}

#[test]
fn a_job_is_cut_in_the_order_of_the_sites() {
    assert_eq!(split_in_order(12, 1, 9, &[5, 20, 20]), [(0, 5), (1, 7)]);
    assert_eq!(
        split_in_order(6, 2, 9, &[5, 20]),
        [(0, 4), (1, 2)],
        "the last part is not too small"
    );
    assert_eq!(
        split_in_order(12, 6, 9, &[5, 7, 9]),
        [(1, 6), (2, 6)],
        "one that is too small is not"
    );
    assert_eq!(
        split_in_order(12, 1, 2, &[3, 2, 10]),
        [(0, 3), (2, 9)],
        "at most two parts"
    );
    assert_eq!(split_in_order(12, 1, 2, &[3, 2, 6]), []);
    assert_eq!(split_in_order(4, 5, 2, &[30]), []);
}

#[test]
fn what_would_bring_a_site_nearer_is_told_as_an_amount() {
    let told = |need: &BidNeed, site: &SiteSupply, nearest: f64| {
        suggest_remedy(
            &compute_bid(need, site).unwrap(),
            need,
            site,
            nearest,
            &|site: usize| format!("S{}", site + 1),
        )
        .unwrap_or_default()
    };
    let [first, second, third] = example_sites();
    assert_eq!(
        told(&example_need(150), &first, 0.0),
        "60 more free processors"
    );
    let nearly = example_site(99, 64, 200, 150, local_routes());
    assert_eq!(
        told(&example_need(150), &nearly, 0.0),
        "1 more free processor"
    );
    let mut fast = first.clone();
    fast.power_per_processor = Some(Mflops(1_500));
    let mixed = BidAmounts {
        processors: 10,
        ..example_need(150).amounts
    };
    let more = told(
        &BidNeed {
            amounts: mixed,
            ..example_need(150)
        },
        &fast,
        0.0,
    );
    assert_eq!(more, "37 more free processors", "77 are 10 and 100 GFLOPS");
    let small = example_site(100, 62, 200, 150, local_routes());
    assert_eq!(
        told(&example_need(150), &small, 0.0),
        "2.0 GB more free memory"
    );
    let full = example_site(100, 64, 190, 150, local_routes());
    assert_eq!(
        told(&example_need(150), &full, 0.0),
        "10.0 GB more free disk"
    );
    let sends = "links to other sites that send 100 Mbit/s more together";
    assert_eq!(told(&example_need(150), &third, 0.5), sends);
    assert_eq!(
        told(&example_need(150), &second, 0.6),
        "a copy of the data (30.0 GB)",
        "the nearest"
    );
    assert_eq!(
        told(
            &example_need(150),
            &example_site(100, 64, 200, 150, local_routes()),
            0.0
        ),
        "",
        "at the origin"
    );
}

#[test]
fn a_link_is_told_that_would_make_a_site_as_near_as_the_nearest() {
    let told = |need: &BidNeed, routes: Vec<InputRoute>, nearest: f64| {
        let site = example_site(100, 64, 200, 0, routes);
        suggest_remedy(
            &compute_bid(need, &site).unwrap(),
            need,
            &site,
            nearest,
            &|site| format!("S{}", site + 1),
        )
    };
    let link = |rest: &str| Some(format!("a copy of the data ({rest}"));
    let to_80 = "30.0 GB), or a link of 80 Mbit/s from S1 instead of 20 Mbit/s";
    assert_eq!(
        told(&example_need(0), routes_over_link(20, 90), 0.3),
        link(to_80)
    );
    let half = with_weight(example_need(0), "data", 0.5);
    assert_eq!(
        told(&half, routes_over_link(20, 90), 0.15),
        link(to_80),
        "as it counts"
    );
    let both = [routes_over_link(20, 90), routes_over_link(100, 100)].concat();
    let to_400 = "60.0 GB), or a link of 400 Mbit/s from S1 instead of 20 Mbit/s";
    assert_eq!(
        told(&example_need(0), both.clone(), 0.3),
        link(to_400),
        "0.24 goes to the other"
    );
    assert_eq!(
        told(&example_need(0), both, 0.2),
        link("60.0 GB)"),
        "no link would do"
    );
}
