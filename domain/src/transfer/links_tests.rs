use proptest::prelude::*;

use super::*;
use crate::ids::RelPath;

const GB: u64 = 1_000_000_000;
const FAST: BitsPerSecond = BitsPerSecond(1_000_000_000);
const SLOW: BitsPerSecond = BitsPerSecond(100_000_000);

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

fn content(id: u8, gigabytes: u64) -> Content {
    Content {
        digest: Digest([id; 32]),
        size: Bytes(gigabytes * GB),
    }
}

fn links_of(pairs: &[(&str, &str, BitsPerSecond)]) -> LinkBandwidths {
    pairs
        .iter()
        .map(|(from, to, rate)| (site(from), site(to), *rate))
        .collect()
}

fn replicas(names: &[&str]) -> Vec<(SiteName, FilePlace)> {
    let place = FilePlace::User(RelPath::new("data/in").unwrap());
    names
        .iter()
        .map(|name| (site(name), place.clone()))
        .collect()
}

fn chosen_source(
    names: &[&str],
    links: &LinkBandwidths,
    excluded: &[&str],
) -> Option<(String, DurationMs)> {
    let excluded = excluded.iter().map(|name| site(name)).collect();
    let replicas = replicas(names);
    let pairs = replicas.iter().map(|(site, place)| (site, place));
    choose_source(pairs, &site("x"), Bytes(GB), links, &excluded)
        .map(|chosen| (chosen.source.site.to_string(), chosen.time))
}

#[test]
fn the_nearest_replica_is_chosen_not_the_first() {
    let links = links_of(&[("a", "x", SLOW), ("b", "x", FAST)]);
    assert_eq!(
        chosen_source(&["a", "b"], &links, &[]),
        Some(("b".into(), DurationMs::from_secs(8)))
    );
}

#[test]
fn a_replica_at_the_site_itself_costs_nothing_and_needs_no_link() {
    let links = links_of(&[("a", "x", FAST)]);
    assert_eq!(
        chosen_source(&["a", "x"], &links, &[]),
        Some(("x".into(), DurationMs::ZERO))
    );
}

#[test]
fn equally_near_replicas_are_chosen_by_name() {
    let links = links_of(&[("b", "x", FAST), ("a", "x", FAST), ("c", "x", FAST)]);
    assert_eq!(chosen_source(&["c", "b", "a"], &links, &[]).unwrap().0, "a");
}

#[test]
fn a_pair_with_unknown_or_no_bandwidth_is_no_candidate() {
    let links = links_of(&[
        ("a", "x", BitsPerSecond(0)),
        ("x", "b", FAST),
        ("c", "x", SLOW),
    ]);
    assert_eq!(chosen_source(&["a", "b", "c"], &links, &[]).unwrap().0, "c");
    assert_eq!(chosen_source(&["a", "b"], &links, &[]), None);
}

#[test]
fn an_excluded_source_is_passed_over() {
    let links = links_of(&[("a", "x", FAST), ("b", "x", SLOW)]);
    assert_eq!(chosen_source(&["a", "b"], &links, &["a"]).unwrap().0, "b");
    assert_eq!(chosen_source(&["a", "b"], &links, &["a", "b"]), None);
}

#[test]
fn four_gigabytes_over_100_mbit_take_320_seconds() {
    let links = links_of(&[("a", "x", SLOW)]);
    let time = links.transfer_time(&site("a"), &site("x"), Bytes(4 * GB));
    assert_eq!(time, Some(DurationMs::from_secs(320)));
    assert_eq!(
        links.transfer_time(&site("x"), &site("a"), Bytes(GB)),
        None,
        "one way only"
    );
}

#[test]
fn a_components_time_is_the_sum_over_its_files_that_are_not_there() {
    let links = links_of(&[("a", "x", FAST), ("b", "x", SLOW)]);
    let a = [site("a"), site("b")];
    let b = [site("b")];
    let x = [site("b"), site("x")];
    let needs = [
        ContentNeed {
            content: content(1, 1),
            sites: &a,
        },
        ContentNeed {
            content: content(2, 1),
            sites: &b,
        },
        ContentNeed {
            content: content(3, 50),
            sites: &x,
        },
    ];
    let plan = links.plan_transfers(&needs, &site("x")).unwrap();
    assert_eq!(plan.time, DurationMs::from_secs(8 + 80));
    let from: Vec<_> = plan.sources.iter().map(|(_, from)| from.as_str()).collect();
    assert_eq!(from, ["a", "b", "x"]);
}

#[test]
fn content_that_is_needed_under_two_names_is_moved_once() {
    let links = links_of(&[("a", "x", FAST)]);
    let a = [site("a")];
    let need = ContentNeed {
        content: content(1, 1),
        sites: &a,
    };
    let plan = links
        .plan_transfers(&[need.clone(), need], &site("x"))
        .unwrap();
    assert_eq!(
        (plan.time, plan.sources.len()),
        (DurationMs::from_secs(8), 1)
    );
}

#[test]
fn content_that_cannot_come_makes_the_site_no_candidate() {
    let links = links_of(&[("a", "x", FAST)]);
    let a = [site("a")];
    let b = [site("b")];
    let near = ContentNeed {
        content: content(1, 1),
        sites: &a,
    };
    let far = ContentNeed {
        content: content(2, 1),
        sites: &b,
    };
    assert_eq!(links.plan_transfers(&[near, far], &site("x")), None);
    assert_eq!(
        links.plan_transfers(&[], &site("x")),
        Some(TransferPlan::default())
    );
}

#[test]
fn the_table_lists_what_was_set_in_order_of_names() {
    let mut links = links_of(&[("b", "a", SLOW), ("a", "b", SLOW)]);
    links.set_bandwidth(site("b"), site("a"), FAST);
    let listed: Vec<_> = links
        .all_pairs()
        .map(|(f, t, r)| (f.to_string(), t.to_string(), r))
        .collect();
    assert_eq!(
        listed,
        [
            ("a".into(), "b".into(), SLOW),
            ("b".into(), "a".into(), FAST)
        ]
    );
}

proptest! {
    #[test]
    fn the_choice_does_not_depend_on_the_order_and_none_is_nearer(
        rates in prop::collection::vec((0_u64..4).prop_map(|r| BitsPerSecond(r * 1_000_000)), 6),
        (names, shuffled) in prop::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..6)
            .prop_flat_map(|names| (Just(names.clone()), Just(names).prop_shuffle())),
        excluded in prop::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..4),
    ) {
        let pairs: Vec<_> = ["a", "b", "c", "d", "e", "f"].into_iter().zip(rates)
            .map(|(name, rate)| (name, "x", rate)).collect();
        let links = links_of(&pairs);
        let choice = chosen_source(&names, &links, &excluded);
        prop_assert_eq!(&choice, &chosen_source(&shuffled, &links, &excluded));
        let candidates = names.iter().filter(|name| !excluded.contains(*name)).filter_map(|name| {
            Some((links.transfer_time(&site(name), &site("x"), Bytes(GB))?, name.to_string()))
        });
        prop_assert_eq!(choice.map(|(name, time)| (time, name)), candidates.min());
    }
}
