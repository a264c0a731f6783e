//! Every start of small cases, beside what the published algorithm finds.
//!
//! Where parts share no site, it finds a common start exactly if there is one. Where they do, it
//! misses some, for the reasons that [`super`](super::super) gives: a tenth at most, counted here.

use super::*;

/// Numbers in no order, the same every time.
fn pseudo_random_numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

struct CoallocationCase {
    tables: LedgerSites,
    job: Coallocation,
}

/// Two or three parts; on three sites that all may share, or on two sites each of their own.
fn draw_case(seed: u64, is_shared: bool, tolerance: u64) -> CoallocationCase {
    let mut draw = pseudo_random_numbers(seed);
    let names = ["A", "B", "C", "D", "E", "F"];
    let sites = if is_shared { 3 } else { 6 };
    let all: Vec<(u32, Vec<TakenProcessors>)> = (0..sites)
        .map(|_| {
            let processors = 1 + draw(3) as u32;
            let mut taken = Vec::new();
            let mut at = 0;
            for _ in 0..draw(4) {
                let from = at + draw(4);
                let length = 1 + draw(5);
                taken.push((1 + draw(u64::from(processors)) as u32, from, from + length));
                at = from + length;
            }
            (processors, taken)
        })
        .collect();
    let sites: Vec<_> = names
        .iter()
        .zip(&all)
        .map(|(name, (all, taken))| (*name, *all, &taken[..]))
        .collect();
    let latest = tolerance + draw(8);
    let parts = (0..2 + draw(2) as usize).map(|index| {
        let mut usable = if is_shared {
            names[..3].to_vec()
        } else {
            names[2 * index..][..2].to_vec()
        };
        if draw(2) == 0 {
            usable.reverse();
        }
        usable.truncate(1 + draw(usable.len() as u64) as usize);
        part(1 + draw(2) as u32, 1 + draw(6), &usable)
    });
    let mut job = job(latest, parts.collect());
    sort_largest_first(&mut job.parts, "memory_mb");
    CoallocationCase {
        tables: LedgerSites::new(&sites),
        job: Coallocation {
            tolerance: DurationMs(tolerance),
            ..job
        },
    }
}

/// The least latest start of all co-allocations that there are.
fn best_latest_start(case: &CoallocationCase) -> Option<u64> {
    let StartWindow { earliest, latest } = case.job.window;
    let windows = earliest.0..=latest.0;
    let ends = windows.filter(|end| {
        let from = earliest.0.max(end.saturating_sub(case.job.tolerance.0));
        parts_fit(
            &case.tables,
            &case.job,
            0,
            StartWindow::new(Timestamp(from), Timestamp(*end)),
        )
    });
    ends.min()
}

/// Whether the parts from this one on have places with starts in the window.
fn parts_fit(tables: &LedgerSites, job: &Coallocation, index: usize, window: StartWindow) -> bool {
    let Some(part) = job.parts.get(index) else {
        return true;
    };
    let starts = || window.earliest.0..=window.latest.0;
    part.sites.iter().any(|site| {
        starts().any(|start| {
            let mut tables = tables.clone();
            let window_of_part = StartWindow::single_start(Timestamp(start));
            let serial = ReservationSerial(index as u32);
            let ask = ReservationCall::Create {
                site: site.clone(),
                serial,
                part: index,
                window: window_of_part,
            };
            let granted = matches!(
                tables.answer_call(job, &ask),
                ReservationOutcome::Granted { .. }
            );
            granted && parts_fit(&tables, job, index + 1, window)
        })
    })
}

struct SearchCounts {
    possible: u32,
    missed: u32,
    /// Of the missed: the window that ends at the best start was never tried.
    slid_over: u32,
    later: u32,
}

fn compare_with_exhaustive(cases: u64, is_shared: bool, tolerance: u64) -> SearchCounts {
    let mut count = SearchCounts {
        possible: 0,
        missed: 0,
        slid_over: 0,
        later: 0,
    };
    for seed in 0..cases {
        let mut case = draw_case(seed, is_shared, tolerance);
        let best = best_latest_start(&case);
        let (search, standing) = case.tables.run_search(case.job.clone());
        let starts: Vec<u64> = search
            .part_reservations()
            .iter()
            .flatten()
            .map(|r| r.start.0)
            .collect();
        let first = starts.iter().min();
        let last = starts.iter().max();
        count.possible += u32::from(best.is_some());
        match (standing, best) {
            (ReservationSearchState::Confirmed, Some(best)) => {
                let first = *first.unwrap();
                let last = *last.unwrap();
                assert_eq!(starts.len(), case.job.parts.len());
                assert!(
                    last - first <= tolerance && last <= case.job.window.latest.0,
                    "{seed}"
                );
                // It takes any start within the first window that works.
                count.later += u32::from(last > best.max(NINE + tolerance));
            }
            (ReservationSearchState::Failed(_), best) => {
                assert!(case.tables.is_empty(), "{seed}");
                count.missed += u32::from(best.is_some());
                let ends: Vec<u64> = case
                    .tables
                    .asked
                    .iter()
                    .map(|(at, _)| at.latest.0)
                    .collect();
                count.slid_over += u32::from(best.is_some_and(|best| !ends.contains(&best)));
            }
            (standing, best) => panic!("{seed}: {standing:?}, but the best start is {best:?}"),
        }
    }
    count
}

#[test]
fn parts_that_share_no_site_start_exactly_if_they_can_and_then_earliest() {
    for tolerance in [0, 1, 3] {
        let SearchCounts {
            possible,
            missed,
            later,
            ..
        } = compare_with_exhaustive(300, false, tolerance);
        assert!(possible > 50, "{possible}");
        assert_eq!(
            (missed, later),
            (0, 0),
            "of {possible} with tolerance {tolerance}"
        );
    }
}

#[test]
fn of_parts_that_share_sites_few_starts_are_missed() {
    for tolerance in [0, 1, 3] {
        let SearchCounts {
            possible, missed, ..
        } = compare_with_exhaustive(300, true, tolerance);
        assert!(
            possible > 50 && missed * 10 < possible,
            "{missed} of {possible}"
        );
    }
}

#[test]
fn of_the_paths_in_a_window_only_the_first_is_tried() {
    // J1 could make room at R1 by going to R3, but R2 comes before that in its order.
    let parts = vec![part(1, 60, &["R1", "R2", "R3"]), part(1, 60, &["R1"])];
    let mut tables = LedgerSites::new(&[("R1", 1, &[]), ("R2", 1, &[(1, 0, 99)]), ("R3", 1, &[])]);
    let job = job(20, parts);
    assert!(
        best_latest_start(&CoallocationCase {
            tables: tables.clone(),
            job: job.clone()
        })
        .is_some()
    );
    assert_eq!(
        tables.run_search(job).1,
        ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart)
    );
}

#[test]
fn two_parts_one_after_the_other_in_the_wrong_order_are_missed() {
    // J2 for a minute and then J1 would do; J1 comes first, and J2 can only follow.
    let parts = vec![part(1, 9, &["R1"]), part(1, 1, &["R1"])];
    let job = Coallocation {
        tolerance: DurationMs(1),
        ..job(20, parts)
    };
    let mut tables = LedgerSites::new(&[("R1", 1, &[])]);
    assert_eq!(
        best_latest_start(&CoallocationCase {
            tables: tables.clone(),
            job: job.clone()
        }),
        Some(NINE + 1)
    );
    assert_eq!(
        tables.run_search(job).1,
        ReservationSearchState::Failed(ReservationSearchFailure::NoCommonStart)
    );
}
