use proptest::prelude::*;

use super::*;
use crate::placed::ReasonCode;
use crate::placement::testing::*;

fn at(secs: u64) -> Timestamp {
    Timestamp(secs * 1_000)
}

fn release(secs: u64, site: &str, processors: u32) -> ExpectedRelease {
    let resources = Resources::processors(processors);
    ExpectedRelease {
        at: at(secs),
        site: site_name(site),
        resources,
        visible: true,
    }
}

fn waiter(sizes_of: &[u32], holds_secs: u64) -> PlacementWaiter {
    PlacementWaiter {
        request: request_of_sizes(sizes_of).into(),
        not_before: Timestamp(0),
        holds_for: DurationMs::from_secs(holds_secs),
    }
}

fn site_with_own_jobs(name: &str, idle: u32, held: u32) -> GridSite {
    GridSite {
        ours: Resources::processors(held),
        ..open_site(name, idle)
    }
}

fn forecast_with_copies(
    grid: &GridSnapshot,
    releases: Vec<ExpectedRelease>,
    copies: &BTreeMap<(Digest, SiteName), Timestamp>,
    others: WaitingJobs<'_>,
    job: &PlacementWaiter,
) -> Result<PlacementForecast, Option<PlacementRefusal>> {
    let changes = ExpectedChanges { releases, copies };
    forecast_placement(grid, &SitePairHistory::All, changes, others, job, at(0))
}

fn forecast_in_short(
    grid: &GridSnapshot,
    releases: Vec<ExpectedRelease>,
    ahead: &[PlacementWaiter],
    job: &PlacementWaiter,
) -> Result<(u64, usize), Option<ReasonCode>> {
    let others = WaitingJobs { ahead, behind: &[] };
    let found = forecast_with_copies(grid, releases, &BTreeMap::new(), others, job);
    let told = found.map(|forecast| (forecast.at.0 / 1_000, forecast.ended));
    told.map_err(|refusal| refusal.map(|refusal| refusal.reason.code()))
}

#[test]
fn a_job_starts_when_enough_has_ended() {
    let grid = grid([
        site_with_own_jobs("A", 2, 10),
        site_with_own_jobs("B", 0, 4),
    ]);
    let ends = || {
        vec![
            release(60, "A", 4),
            release(30, "B", 4),
            release(90, "A", 6),
        ]
    };
    assert_eq!(
        forecast_in_short(&grid, ends(), &[], &waiter(&[2], 1)),
        Ok((0, 0))
    );
    assert_eq!(
        forecast_in_short(&grid, ends(), &[], &waiter(&[4], 1)),
        Ok((30, 1))
    );
    assert_eq!(
        forecast_in_short(&grid, ends(), &[], &waiter(&[6, 4], 1)),
        Ok((60, 2))
    );
    assert_eq!(
        forecast_in_short(&grid, ends(), &[], &waiter(&[12], 1)),
        Ok((90, 3))
    );
}

#[test]
fn what_local_users_hold_is_not_said_to_end() {
    let refused = forecast_in_short(
        &grid([site_with_own_jobs("A", 2, 4)]),
        vec![release(9, "A", 4)],
        &[],
        &waiter(&[7], 1),
    );
    assert_eq!(refused, Err(Some(ReasonCode::NotEnoughIdle)));
}

#[test]
fn what_is_promised_and_not_seen_yet_is_given_back_too() {
    let pending = GridSite {
        pending: Resources::processors(4),
        ..site_with_own_jobs("A", 6, 4)
    };
    let unseen = ExpectedRelease {
        visible: false,
        ..release(9, "A", 4)
    };
    assert_eq!(
        forecast_in_short(&grid([pending]), vec![unseen], &[], &waiter(&[6], 1)),
        Ok((9, 1))
    );
}

#[test]
fn jobs_before_it_are_placed_first_and_end_too() {
    let grid = grid([site_with_own_jobs("A", 4, 0)]);
    let before = [waiter(&[4], 100), waiter(&[4], 50)];
    assert_eq!(
        forecast_in_short(&grid, vec![], &before, &waiter(&[2], 1)),
        Ok((150, 2))
    );
    let before = [waiter(&[2], 100), waiter(&[9], 50)];
    assert_eq!(
        forecast_in_short(&grid, vec![], &before, &waiter(&[2], 1)),
        Ok((0, 0)),
        "one can not"
    );
}

#[test]
fn a_job_that_backs_off_waits_for_its_time() {
    let grid = grid([site_with_own_jobs("A", 4, 0)]);
    let later = PlacementWaiter {
        not_before: at(40),
        ..waiter(&[4], 1)
    };
    assert_eq!(forecast_in_short(&grid, vec![], &[], &later), Ok((40, 0)));
    assert_eq!(
        forecast_in_short(&grid, vec![], &[later], &waiter(&[4], 1)),
        Ok((0, 0))
    );
}

#[test]
fn what_would_have_to_be_tried_too_often_is_not_estimated() {
    const SITES: usize = 120;
    let names: Vec<String> = (0..SITES).map(|number| format!("S{number}")).collect();
    let grid = grid(names.iter().map(|name| site_with_own_jobs(name, 0, 5)));
    let ends = || {
        (1..=490)
            .map(|secs| release(secs, &names[secs as usize % SITES], 1))
            .collect()
    };
    let few = forecast_in_short(&grid, ends(), &[], &waiter(&[4; 10], 1));
    assert!(matches!(few, Ok((361..=490, _))), "{few:?}");
    let many = forecast_in_short(&grid, ends(), &[], &waiter(&[4; 120], 1));
    assert_eq!(many, Err(None), "four million tries would be needed");
}

#[test]
fn a_job_that_fits_passes_one_that_does_not_and_delays_it() {
    let grid = grid([site_with_own_jobs("A", 4, 4)]);
    let behind = [waiter(&[3], 100)];
    let others = WaitingJobs {
        ahead: &[],
        behind: &behind,
    };
    let job = waiter(&[8], 1);
    let ends = vec![release(60, "A", 4)];
    let told = forecast_with_copies(&grid, ends, &BTreeMap::new(), others, &job);
    assert_eq!(told.map(|told| told.at), Ok(at(100)));
}

/// A gigabyte comes to A in 80 s.
#[test]
fn copies_that_are_there_are_not_brought_again() {
    let input = content_of_gigabytes(1, 1);
    let sites = [site_with_own_jobs("A", 4, 0), site_with_own_jobs("B", 0, 0)];
    let grid = grid_with(sites, &[(input, "B")], &[("B", "A", 100)]);
    let mut reading = component(4);
    reading.inputs.insert(input);
    let job = PlacementWaiter {
        request: request(vec![reading]).into(),
        ..waiter(&[4], 10)
    };
    let told = |copies: &BTreeMap<(Digest, SiteName), Timestamp>, ahead: &[PlacementWaiter]| {
        let others = WaitingJobs { ahead, behind: &[] };
        let told = forecast_with_copies(&grid, vec![], copies, others, &job).unwrap();
        (told.at, told.transfer_time.0 / 1_000)
    };
    assert_eq!(told(&BTreeMap::new(), &[]), (at(0), 80));
    let there = (input.digest, site_name("A"));
    let arrives = |secs| BTreeMap::from([(there.clone(), at(secs))]);
    assert_eq!(told(&arrives(0), &[]), (at(0), 0), "it is there");
    assert_eq!(told(&arrives(30), &[]), (at(0), 30), "it is on its way");
    let ahead = [job.clone()];
    assert_eq!(
        told(&BTreeMap::new(), &ahead),
        (at(90), 0),
        "brought for another"
    );
}

proptest! {
    /// If everything ends as it is bound to, the plan fits when it is said to: on the grid
    /// with all of that ended.
    #[test]
    fn a_plan_fits_at_the_time_that_is_told(
        idle in prop::collection::vec(0..10u32, 1..4),
        ends in prop::collection::vec((0..3usize, 1..8u32, 0..50u64), 0..8),
        before in prop::collection::vec(1..12u32, 0..4),
        parts in prop::collection::vec(1..12u32, 1..4),
    ) {
        const NAMES: [&str; 3] = ["A", "B", "C"];
        let held = |index: usize| ends.iter().filter(|e| e.0 == index).map(|e| e.1).sum::<u32>();
        let sites: Vec<GridSite> =
            (0..idle.len()).map(|index| site_with_own_jobs(NAMES[index], idle[index], held(index))).collect();
        let releases: Vec<ExpectedRelease> =
            ends.iter().map(|&(index, size, secs)| release(secs, NAMES[index], size)).collect();
        let ahead: Vec<PlacementWaiter> = before.iter().map(|&size| waiter(&[size], 10)).collect();
        let grid = grid(sites.clone());
        let job = waiter(&parts, 10);
        let others = WaitingJobs { ahead: &ahead, behind: &[] };
        let found = forecast_with_copies(&grid, releases.clone(), &BTreeMap::new(), others, &job);
        if let Ok(told) = found {
            for (name, used) in job.request.resources_of_plan(&told.plan) {
                let site = sites.iter().find(|site| site.name == name).unwrap();
                let ended = releases.iter().filter(|r| r.site == name && r.at <= told.at.max(at(0) + DurationMs(1)));
                let freed: u32 = ended.map(|release| release.resources.processors).sum();
                let idle = site.idle.as_ref().unwrap().idle.processors;
                prop_assert!(used.processors <= idle + freed, "{name} at {:?}", told.at);
            }
        } else {
            let all = sites.iter().map(|site| {
                let mut site = site.clone();
                site.idle.as_mut().unwrap().idle.processors += site.ours.processors;
                site
            });
            // A job before it may hold on to what it needs, but none of them does for ever.
            prop_assert!(place_on_grid(&job.request, &grid_with(all.filter(|site| NAMES.contains(&site.name.as_str())), &[], &[])).is_err());
        }
    }
}
