use super::*;
use crate::reservation::timeline::{FOREVER, ResourceAmounts, Timeline};
use proptest::prelude::*;

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

/// A site of eight processors, some of them taken from and to some time.
fn timeline(taken: &[(u32, u64, u64)]) -> Timeline {
    let mut timeline = Timeline::new(Timestamp(0), &Resources::processors(8)).unwrap();
    for (processors, from, to) in taken {
        let span = TimeSpan::new(Timestamp(*from), Timestamp(*to));
        timeline.book(span, &ResourceAmounts::processors(*processors));
    }
    timeline
}

/// Parts for 50, which may go to A and B.
fn parts(processors: &[u32]) -> Vec<UnsplitPart> {
    processors
        .iter()
        .map(|processors: &u32| UnsplitPart {
            resources: Resources::processors(*processors),
            length: DurationMs(50),
            choices: ["A", "B"].map(|name| (site(name), Timestamp(0))).to_vec(),
        })
        .collect()
}

const EVER: StartWindow = StartWindow {
    earliest: Timestamp(0),
    latest: FOREVER,
};

fn rescheduled_parts(
    parts: &[UnsplitPart],
    present: (u64, &[&str]),
    taken: [&[(u32, u64, u64)]; 2],
    window: StartWindow,
) -> Option<(u64, Vec<String>)> {
    let names = [site("A"), site("B")];
    let times = taken.map(timeline);
    let offers: Vec<_> = names
        .iter()
        .zip(&times)
        .map(|(name, time)| OfferingSite { name, time })
        .collect();
    let present = parts_plan(present);
    let found = reschedule_parts(parts, &present, &offers, window, Timestamp(10));
    found.map(|plan| {
        (
            plan.start.0,
            plan.sites.iter().map(ToString::to_string).collect(),
        )
    })
}

fn parts_plan((start, sites): (u64, &[&str])) -> PartsPlan {
    PartsPlan {
        start: Timestamp(start),
        sites: sites.iter().map(|name| site(name)).collect(),
    }
}

fn expected_plan(start: u64, sites: &[&str]) -> Option<(u64, Vec<String>)> {
    Some((start, sites.iter().map(|&name| name.to_owned()).collect()))
}

#[test]
fn parts_start_when_the_last_of_them_could() {
    let taken: [&[_]; 2] = [&[(8, 0, 30)], &[(4, 0, 60)]];
    assert_eq!(
        rescheduled_parts(&parts(&[8]), (100, &["A"]), taken, EVER),
        expected_plan(30, &["A"])
    );
    assert_eq!(
        rescheduled_parts(&parts(&[8, 4]), (100, &["A", "B"]), taken, EVER),
        expected_plan(30, &["A", "B"])
    );
    assert_eq!(
        rescheduled_parts(&parts(&[8, 8]), (100, &["A", "B"]), taken, EVER),
        expected_plan(60, &["A", "B"])
    );
}

#[test]
fn one_site_with_room_for_all_is_taken_before_several() {
    let free: [&[_]; 2] = [&[(4, 0, 99)], &[]];
    assert_eq!(
        rescheduled_parts(&parts(&[4, 4]), (100, &["A", "B"]), free, EVER),
        expected_plan(10, &["B", "B"])
    );
    // As early, but on fewer sites; and then nothing changes any more.
    let busy: [&[_]; 2] = [&[(4, 0, 99), (8, 0, 20)], &[(8, 0, 20)]];
    assert_eq!(
        rescheduled_parts(&parts(&[4, 4]), (20, &["A", "B"]), busy, EVER),
        expected_plan(20, &["B", "B"])
    );
    assert_eq!(
        rescheduled_parts(&parts(&[4, 4]), (20, &["B", "B"]), busy, EVER),
        None
    );
}

#[test]
fn nothing_later_is_ever_taken() {
    let full: [&[_]; 2] = [&[(8, 0, 150)], &[(8, 0, 150)]];
    assert_eq!(
        rescheduled_parts(&parts(&[8]), (100, &["A"]), full, EVER),
        None
    );
    let window = StartWindow::new(Timestamp(40), Timestamp(60));
    let taken: [&[_]; 2] = [&[], &[]];
    assert_eq!(
        rescheduled_parts(&parts(&[8]), (100, &["A"]), taken, window),
        expected_plan(40, &["A"])
    );
    let taken: [&[_]; 2] = [&[(8, 0, 61)], &[(8, 0, 61)]];
    assert_eq!(
        rescheduled_parts(&parts(&[8]), (100, &["A"]), taken, window),
        None,
        "not within it"
    );
}

#[test]
fn a_part_goes_nowhere_before_its_input_is_there() {
    let mut parts = parts(&[8]);
    parts[0].choices[0].1 = Timestamp(70);
    parts[0].choices[1].1 = Timestamp(40);
    let free: [&[_]; 2] = [&[], &[]];
    assert_eq!(
        rescheduled_parts(&parts, (100, &["A"]), free, EVER),
        expected_plan(40, &["B"])
    );
    parts[0].choices.pop();
    assert_eq!(
        rescheduled_parts(&parts, (100, &["A"]), free, EVER),
        expected_plan(70, &["A"])
    );
}

fn any_taken() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    let one = (1u32..9, 0u64..80, 1u64..60).prop_map(|(n, from, long)| (n, from, from + long));
    prop::collection::vec(one, 0..5)
}

proptest! {
    #[test]
    fn what_is_found_is_free_and_strictly_better(
        a in any_taken(),
        b in any_taken(),
        sizes in prop::collection::vec(1u32..9, 1..4),
        start in 10u64..200,
    ) {
        let parts = parts(&sizes);
        let present = (start, &["A", "B"][..1]);
        let found = rescheduled_parts(&parts, present, [&a, &b], EVER);
        if let Some((found, sites)) = found {
            prop_assert!(found < start);
            for (name, taken) in [("A", &a), ("B", &b)] {
                let here = parts.iter().zip(&sites).filter(|(_, site)| *site == name);
                let used: u32 = here.map(|(part, _)| part.resources.processors).sum();
                let span = TimeSpan::new(Timestamp(found), Timestamp(found + 50));
                let free = timeline(taken).least_free(span).free_processor_count();
                prop_assert!(used == 0 || i64::from(used) <= free, "{name} at {found}");
            }
        }
    }
}
