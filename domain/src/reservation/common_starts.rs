//! Possible starts of parts of one size, at each site and together: from the free time that sites
//! publish (FlexCo, section 4), without a request for a reservation.

use std::collections::BTreeMap;

use super::agreement::StartWindow;
use super::timeline::TimeSpan;
use crate::ids::SiteName;
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// Free time at some site: a span, and the resources free all through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeSlot {
    /// The span, by the site's clock.
    pub span: TimeSpan,
    /// The resources free all through it.
    pub free: Resources,
}

/// Parts of one size that are to start together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EqualParts {
    pub count: u32,
    /// Needs of each of them.
    pub resources: Resources,
    pub length: DurationMs,
}

/// Starts at which the same number of parts could begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleStarts {
    /// The first of them and the last.
    pub window: StartWindow,
    /// The number of parts, at most those that are wanted.
    pub parts: u32,
}

/// Starts of all parts together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonStarts {
    /// The first of them and the last.
    pub window: StartWindow,
    /// Parts that would go to each site at the first start: to as few sites as can be.
    pub sites: BTreeMap<SiteName, u32>,
}

/// The number of parts that could start from each time on, up to the next.
type StartCounts = Vec<(Timestamp, u32)>;

/// Lists when parts could start at a site with this free time: windows one after the other, without
/// those in which none can.
pub fn possible_starts(
    free: &[FreeSlot],
    parts: &EqualParts,
    window: StartWindow,
) -> Vec<PossibleStarts> {
    let counts = count_startable_parts(free, parts, window);
    let ends = counts
        .iter()
        .skip(1)
        .map(|(at, _)| *at)
        .chain([instant_after(window.latest)]);
    let windows = counts.iter().zip(ends).filter(|((_, parts), _)| *parts > 0);
    windows
        .map(
            |((from, parts), to): (&(Timestamp, u32), Timestamp)| PossibleStarts {
                window: StartWindow::new(*from, instant_before(to)),
                parts: *parts,
            },
        )
        .collect()
}

/// Lists the free processors from each time on, up to the next, as a site published its free time.
pub fn free_processors(free: &[FreeSlot], window: StartWindow) -> Vec<(Timestamp, u32)> {
    let one = Resources::processors(1);
    let parts = EqualParts {
        count: u32::MAX,
        resources: one,
        length: DurationMs(1),
    };
    let mut steps = count_startable_parts(free, &parts, window);
    if steps
        .first()
        .is_none_or(|(from, _)| *from > window.earliest)
    {
        steps.insert(0, (window.earliest, 0));
    }
    // Drops what begins after the last start.
    steps.retain(|(from, _)| *from <= window.latest);
    steps
}

/// Lists when all parts could start at once, at these sites together; several may go to one.
pub fn common_starts(
    sites: &BTreeMap<SiteName, Vec<FreeSlot>>,
    parts: &EqualParts,
    window: StartWindow,
) -> Vec<CommonStarts> {
    let names: Vec<&SiteName> = sites.keys().collect();
    let of_sites = sites.values().enumerate().flat_map(|(site, free)| {
        count_startable_parts(free, parts, window)
            .into_iter()
            .map(move |(at, count)| (at, site, count))
    });
    let mut changes: Vec<(Timestamp, usize, u32)> = of_sites.collect();
    changes.sort_unstable();
    let mut now = vec![0; names.len()];
    let mut found = Vec::<CommonStarts>::new();
    let mut is_open = false;
    for at in changes.chunk_by(|a, b| a.0 == b.0) {
        at.iter().for_each(|(_, site, count)| now[*site] = *count);
        let time = at[0].0;
        let together = now.iter().sum::<u32>();
        match (is_open, together >= parts.count) {
            (false, true) => found.push(CommonStarts {
                window: StartWindow::new(time, window.latest),
                sites: divide_parts(&names, &now, parts.count),
            }),
            (true, false) => found.iter_mut().last().into_iter().for_each(|last| {
                last.window.latest = instant_before(time);
            }),
            (true, true) | (false, false) => {}
        }
        is_open = together >= parts.count;
    }
    found
}

/// Divides parts over sites: most first, then in the order of names.
fn divide_parts(names: &[&SiteName], room: &[u32], mut left: u32) -> BTreeMap<SiteName, u32> {
    let mut sites: Vec<(u32, &SiteName)> =
        room.iter().copied().zip(names.iter().copied()).collect();
    sites.sort_by_key(|(room, name)| (std::cmp::Reverse(*room), *name));
    let mut divided = BTreeMap::new();
    for (room, name) in sites {
        let some = room.min(left);
        if some > 0 {
            divided.insert(name.clone(), some);
        }
        left -= some;
    }
    divided
}

/// Counts the parts that could start, from each change on.
fn count_startable_parts(
    free: &[FreeSlot],
    parts: &EqualParts,
    window: StartWindow,
) -> StartCounts {
    let mut changes: Vec<(Timestamp, u32, bool)> = Vec::new();
    for slot in free {
        let first = slot.span.from.max(window.earliest);
        let last = slot.span.to.0.checked_sub(parts.length.0).map(Timestamp);
        let room = parts_that_fit(&slot.free, &parts.resources).min(parts.count);
        if let Some(last) = last.map(|last| last.min(window.latest))
            && first <= last
            && room > 0
        {
            changes.extend([(first, room, true), (instant_after(last), room, false)]);
        }
    }
    changes.sort_unstable();
    let mut open = BTreeMap::<u32, u32>::new();
    let mut counts = StartCounts::new();
    for at in changes.chunk_by(|a, b| a.0 == b.0) {
        for (_, room, begins) in at {
            let slots = open.entry(*room).or_default();
            *slots = if *begins {
                *slots + 1
            } else {
                slots.saturating_sub(1)
            };
        }
        open.retain(|_, slots| *slots > 0);
        let most = open.last_key_value().map_or(0, |(room, _)| *room);
        if counts.last().is_none_or(|(_, before)| *before != most) {
            counts.push((at[0].0, most));
        }
    }
    counts
}

/// Counts the parts that fit.
fn parts_that_fit(free: &Resources, need: &Resources) -> u32 {
    let processors = u64::from(free.processors)
        .checked_div(need.processors.into())
        .unwrap_or(u64::MAX);
    let others = need
        .others
        .iter()
        .map(|(kind, need)| free.other(kind).checked_div(*need).unwrap_or(u64::MAX));
    u32::try_from(others.fold(processors, u64::min)).unwrap_or(u32::MAX)
}

fn instant_after(at: Timestamp) -> Timestamp {
    at + DurationMs(1)
}

fn instant_before(at: Timestamp) -> Timestamp {
    at - DurationMs(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reservation::timeline::Timeline;

    fn parts(count: u32, processors: u32, length: u64) -> EqualParts {
        let resources = Resources::processors(processors);
        EqualParts {
            count,
            resources,
            length: DurationMs(length),
        }
    }

    fn window(earliest: u64, latest: u64) -> StartWindow {
        StartWindow::new(Timestamp(earliest), Timestamp(latest))
    }

    fn timeline_with_bookings(processors: u32, booked: &[(u64, u64, u32)]) -> Timeline {
        let mut site = Timeline::new(Timestamp(0), &Resources::processors(processors)).unwrap();
        for (from, to, processors) in booked {
            let taken = site
                .to_amounts(&Resources::processors(*processors))
                .unwrap();
            site.book(TimeSpan::new(Timestamp(*from), Timestamp(*to)), &taken);
        }
        site
    }

    /// As a site publishes it.
    fn published_slots(site: &Timeline) -> Vec<FreeSlot> {
        let slots = site
            .slots(TimeSpan::new(Timestamp(0), Timestamp(400)), 1_000)
            .into_iter();
        let free = |slot: &crate::reservation::TimelineSlot| site.kinds().to_resources(&slot.free);
        slots
            .map(|slot| FreeSlot {
                span: slot.span,
                free: free(&slot),
            })
            .collect()
    }

    fn name(site: usize) -> SiteName {
        format!("s{site}").parse().unwrap()
    }

    #[test]
    fn starts_lie_where_enough_is_free_for_long_enough() {
        let free = published_slots(&timeline_with_bookings(8, &[(20, 50, 6)]));
        let starts = |parts: &EqualParts| -> Vec<(u64, u64, u32)> {
            let found = possible_starts(&free, parts, window(0, 100));
            found
                .iter()
                .map(|s| (s.window.earliest.0, s.window.latest.0, s.parts))
                .collect()
        };
        assert_eq!(starts(&parts(1, 4, 10)), [(0, 10, 1), (50, 100, 1)]);
        assert_eq!(starts(&parts(1, 4, 30)), [(50, 100, 1)]);
        assert_eq!(
            starts(&parts(9, 2, 10)),
            [(0, 10, 4), (11, 49, 1), (50, 100, 4)]
        );
        assert!(starts(&parts(1, 9, 1)).is_empty());
    }

    #[test]
    fn free_processors_are_told_from_step_to_step() {
        let free = published_slots(&timeline_with_bookings(8, &[(0, 20, 8), (20, 50, 6)]));
        let told = |free: &[FreeSlot], window: StartWindow| -> Vec<(u64, u32)> {
            free_processors(free, window)
                .into_iter()
                .map(|(from, n)| (from.0, n))
                .collect()
        };
        assert_eq!(told(&free, window(0, 100)), [(0, 0), (20, 2), (50, 8)]);
        assert_eq!(told(&free, window(30, 40)), [(30, 2)]);
        assert_eq!(told(&[], window(5, 40)), [(5, 0)]);
    }

    #[test]
    fn parts_go_to_as_few_sites_as_can_be() {
        let sites = [
            timeline_with_bookings(4, &[]),
            timeline_with_bookings(8, &[]),
            timeline_with_bookings(4, &[(0, 30, 4)]),
        ];
        let free = sites
            .iter()
            .enumerate()
            .map(|(at, site)| (name(at), published_slots(site)));
        let free: BTreeMap<_, _> = free.collect();
        let found = common_starts(&free, &parts(3, 4, 10), window(0, 50));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].window, window(0, 50));
        assert_eq!(found[0].sites, BTreeMap::from([(name(0), 1), (name(1), 2)]));
        let found = common_starts(&free, &parts(4, 4, 10), window(0, 50));
        assert_eq!(found[0].window, window(30, 50));
    }

    fn any_bookings() -> impl Strategy<Value = Vec<(u64, u64, u32)>> {
        prop::collection::vec((0..60_u64, 1..40_u64, 1..5_u32), 0..6).prop_map(|all| {
            all.into_iter()
                .map(|(from, long, n)| (from, from + long, n))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_start_agrees_with_what_is_free(
            booked in prop::collection::vec(any_bookings(), 1..4),
            (count, processors, length) in (1..6_u32, 1..5_u32, 1..30_u64),
        ) {
            let sites: Vec<Timeline> = booked.iter().map(|booked| timeline_with_bookings(8, booked)).collect();
            let free: BTreeMap<_, _> =
                sites.iter().enumerate().map(|(at, site)| (name(at), published_slots(site))).collect();
            let parts = parts(count, processors, length);
            let window = window(5, 90);
            let common = common_starts(&free, &parts, window);
            let alone: Vec<_> =
                free.values().map(|free| possible_starts(free, &parts, window)).collect();
            for at in 0..100 {
                let start = Timestamp(at);
                let span = TimeSpan::new(start, start + parts.length);
                let room = |site: &Timeline| {
                    let least = site.least_free(span).whole_processors();
                    if window.contains(start) { (least / processors).min(count) } else { 0 }
                };
                for (site, starts) in sites.iter().zip(&alone) {
                    let found: Vec<_> =
                        starts.iter().filter(|s| s.window.contains(start)).collect();
                    prop_assert!(found.len() <= 1, "{at}: {found:?}");
                    prop_assert_eq!(found.first().map_or(0, |s| s.parts), room(site), "at {}", at);
                }
                let together = sites.iter().map(room).sum::<u32>() >= count;
                let found = common.iter().any(|common| common.window.contains(start));
                prop_assert_eq!(found, together, "at {}", at);
            }
        }
    }
}
