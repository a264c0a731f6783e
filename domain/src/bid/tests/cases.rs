//! What sites cannot answer, and what is no weight.

use super::super::dimension::Dimension::{Compute, Data, Potential};
use super::super::fragment;
use super::*;
use crate::bid::WeightError;

#[test]
fn a_site_without_figures_declines_a_job_that_asks_for_gflops() {
    let silent = Offer { power_per_processor: None, ..sites()[1].clone() };
    assert_eq!(bid(&job(150), &silent), Err(Decline::NoGflops));
    let amounts = Amounts { processors: 200, power: Mflops(0), ..job(150).amounts };
    let answer = bid(&Need { amounts, ..job(150) }, &silent).unwrap();
    assert_eq!(answer.index(Compute), 0.5, "a job that asks for processors it answers");
}

#[test]
fn processors_beside_gflops_count_with_what_the_site_makes_of_them() {
    let amounts = Amounts { processors: 10, power: Mflops(100_000), ..Amounts::default() };
    let need = Need { amounts, ..job(0) };
    let mut site = site(40, 0, 0, 0, Vec::new());
    site.power_per_processor = Some(Mflops(2_000));
    let answer = bid(&need, &site).unwrap();
    assert!(is_near(answer.index(Compute), 1.0 - 80.0 / 120.0));
    assert_eq!((answer.amounts.processors, answer.amounts.power), (10, Mflops(60_000)));
}

#[test]
fn a_site_that_nothing_reaches_from_the_data_declines() {
    for routes in [from(0, 60), from(100, 0)] {
        let cut_off = Offer { routes, ..sites()[1].clone() };
        assert_eq!(bid(&job(150), &cut_off), Err(Decline::NoBandwidth));
    }
    let mut cut_off = sites()[1].clone();
    cut_off.routes.clear();
    assert_eq!(bid(&job(150), &cut_off).unwrap().y, 0.0, "a job without data does not mind");
}

#[test]
fn the_times_of_several_inputs_add_up() {
    let mut site = sites()[1].clone();
    site.routes.extend(from(50, 100));
    assert!(is_near(bid(&job(150), &site).unwrap().y, 0.4 + 0.48));
}

#[test]
fn data_at_the_site_costs_what_reading_it_there_takes() {
    let need = job(150);
    let local_rate = Some(mbit(8_000));
    let need = Need { terms: Terms { local_rate, ..need.terms }, ..need };
    assert!(is_near(bid(&need, &sites()[0]).unwrap().index(Data), 0.003));
}

#[test]
fn without_a_run_time_nothing_is_measured() {
    let need = job(150);
    let terms = Terms { run_time: DurationMs::ZERO, ..need.terms };
    assert_eq!(bid(&Need { terms, ..need }, &sites()[0]), Err(Decline::NoRunTime));
}

#[test]
fn where_the_source_can_send_nothing_no_potential_is_asked_for() {
    assert_eq!(bid(&job(0), &sites()[2]).unwrap().index(Potential), 0.0);
}

#[test]
fn a_weight_is_a_number_from_0_to_1000() {
    for wrong in [-0.1, 1_000.1, f64::NAN, f64::INFINITY, 0.000_1] {
        assert!(matches!(Weight::new(wrong), Err(WeightError::OutOfRange(_))), "{wrong}");
    }
    assert_eq!("0.5".parse::<Weight>().unwrap().factor(), 0.5);
    let words = "-1".parse::<Weight>().unwrap_err().to_string();
    assert_eq!(words, "a weight is -1; it must be from 0 to 1000, with at most three decimals");
    assert!("one".parse::<Weight>().unwrap_err().to_string().contains("\"one\""));
}

#[test]
fn weights_name_dimensions_and_one_of_them_counts() {
    let words = Weights::of([("cost", Weight::ONE)]).unwrap_err().to_string();
    let expected =
        "no dimension is called \"cost\"; there are: compute, memory, disk, potential, data";
    assert_eq!(words, expected);
    let none = ["compute", "memory", "disk", "potential", "data"].map(|name| (name, Weight::ZERO));
    assert_eq!(Weights::of(none), Err(WeightError::AllZero));
    let some = Weights::of(none[..4].iter().copied()).unwrap();
    let counts: Vec<&str> =
        some.named().filter(|(_, weight)| *weight > Weight::ZERO).map(|(name, _)| name).collect();
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
        amounts: Amounts::default(),
    };
    let (near, far, slow) = (at(0.1, 0.3), at(2.0, 0.1), at(0.1, 0.4));
    let bids = [("d", &slow), ("c", &far), ("b", &near), ("a", &near)];
    assert_eq!(choose(&bids), [3, 1, 2, 0]);
    assert!(choose::<&str>(&[]).is_empty());
}

#[test]
fn a_job_is_cut_in_the_order_of_the_sites() {
    assert_eq!(fragment(12, 1, 9, &[5, 20, 20]), [(0, 5), (1, 7)]);
    assert_eq!(fragment(6, 2, 9, &[5, 20]), [(0, 4), (1, 2)], "the last part is not too small");
    assert_eq!(fragment(12, 6, 9, &[5, 7, 9]), [(1, 6), (2, 6)], "one that is too small is not");
    assert_eq!(fragment(12, 1, 2, &[3, 2, 10]), [(0, 3), (2, 9)], "at most two parts");
    assert_eq!(fragment(12, 1, 2, &[3, 2, 6]), []);
    assert_eq!(fragment(4, 5, 2, &[30]), []);
}
