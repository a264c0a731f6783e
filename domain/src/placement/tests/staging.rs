//! Room for copies is shared by all that is placed at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::content::{Content, FileChunk};
use crate::ids::JobId;
use crate::job::spec::{FlexibleBounds, Priority};
use crate::placement::testing::*;
use crate::placement::*;
use crate::queue::{
    PlacementQueues, QueueParameters, ScanSliceBudget, ScanStep, ScanTrigger, WaitingJob,
};
use crate::units::{Bytes, Timestamp};

/// A site with room for copies of so many gigabytes.
fn site_with_staging_room(name: &str, idle: u32, gigabytes: u64) -> GridSite {
    GridSite {
        staging_left: Some(Bytes(gigabytes * GB)),
        ..open_site(name, idle)
    }
}

fn component_reading(inputs: &[Content]) -> ComponentRequest {
    ComponentRequest {
        inputs: inputs.iter().copied().collect(),
        ..component(4)
    }
}

/// Two files of 3 GB at F, which takes nothing itself, and links to A and B.
fn grid_with_two_files(sites: [GridSite; 2]) -> GridSnapshot {
    let closed = PlacementAcceptance::Closed(PlacementHindrance::Drained);
    let holder = GridSite {
        acceptance: closed,
        ..open_site("F", 0)
    };
    let sites = sites.into_iter().chain([holder]);
    let replicas = [
        (content_of_gigabytes(1, 3), "F"),
        (content_of_gigabytes(2, 3), "F"),
    ];
    grid_with(sites, &replicas, &[("F", "A", 100), ("F", "B", 100)])
}

#[test]
fn components_of_one_job_share_the_room_of_a_site_and_a_common_copy() {
    let grid = || {
        grid_with_two_files([
            site_with_staging_room("A", 50, 5),
            site_with_staging_room("B", 20, 5),
        ])
    };
    for policy in ["worst-fit", "close-to-files", "cluster-minimization"] {
        let other = request(vec![
            component_reading(&[content_of_gigabytes(1, 3)]),
            component_reading(&[content_of_gigabytes(2, 3)]),
        ]);
        let other = place_on_grid(&with_policy(policy, &other), &grid()).unwrap();
        assert_eq!(
            sites_of(&other),
            ["A", "B"],
            "{policy}: both do not fit at one"
        );
        let same = request(vec![
            component_reading(&[content_of_gigabytes(1, 3)]),
            component_reading(&[content_of_gigabytes(1, 3)]),
        ]);
        let same = place_on_grid(&with_policy(policy, &same), &grid()).unwrap();
        assert_eq!(
            sites_of(&same),
            ["A", "A"],
            "{policy}: one copy serves both"
        );
    }
}

#[test]
fn a_placement_that_fails_gives_the_room_back() {
    let grid = grid_with_two_files([
        site_with_staging_room("A", 50, 5),
        site_with_staging_room("B", 50, 2),
    ]);
    for policy in ["worst-fit", "connected-cluster-minimization"] {
        let mut remaining = RemainingResources::of_grid(&grid);
        let mut context = PlacementContext {
            grid: &grid,
            remaining: &mut remaining,
            history: &mut SitePairHistory::All,
            observer: &mut SilentObserver,
        };
        let both = request(vec![
            component_reading(&[content_of_gigabytes(1, 3)]),
            component_reading(&[content_of_gigabytes(2, 3)]),
        ]);
        let refusal = try_to_place(&with_policy(policy, &both), &mut context).unwrap_err();
        let left = RefusalReason::StagingFull {
            needed: Bytes(3 * GB),
            left: Bytes(2 * GB),
        };
        assert_eq!(refusal.reason, left, "{policy}");
        assert_eq!(remaining, RemainingResources::of_grid(&grid), "{policy}");
    }
}

/// Jobs that one scan places.
fn jobs_placed_by_scan(requests: Vec<PlacementRequest>, grid: GridSnapshot) -> Vec<u64> {
    let mut queues = PlacementQueues::new(QueueParameters::default(), SitePairHistory::All);
    for (id, request) in (1..).zip(requests) {
        queues.insert(WaitingJob {
            job: JobId(id),
            priority: Priority::High,
            entered: Timestamp(id),
            not_before: Timestamp(0),
            frozen: false,
            max_tries: None,
            request: Arc::new(request),
        });
    }
    let mut scan = queues.begin_scan(ScanTrigger::Event, Arc::new(grid), Timestamp(9));
    let mut placed = Vec::new();
    while let ScanStep::Placed(offer) = queues.step_scan(&mut scan, &mut ScanSliceBudget(u32::MAX))
    {
        placed.push(offer.job.0);
    }
    placed
}

#[test]
fn jobs_that_one_scan_places_share_the_room_of_a_site() {
    let jobs = |contents: [Content; 2]| {
        contents
            .map(|content| request(vec![component_reading(&[content])]))
            .to_vec()
    };
    let narrowed = || {
        grid_with_two_files([
            site_with_staging_room("A", 50, 5),
            site_with_staging_room("B", 50, 2),
        ])
    };
    assert_eq!(
        jobs_placed_by_scan(
            jobs([content_of_gigabytes(1, 3), content_of_gigabytes(2, 3)]),
            narrowed()
        ),
        [1]
    );
    assert_eq!(
        jobs_placed_by_scan(
            jobs([content_of_gigabytes(1, 3), content_of_gigabytes(1, 3)]),
            narrowed()
        ),
        [1, 2],
        "one copy"
    );
    let wide = grid_with_two_files([
        site_with_staging_room("A", 50, 6),
        site_with_staging_room("B", 50, 2),
    ]);
    assert_eq!(
        jobs_placed_by_scan(
            jobs([content_of_gigabytes(1, 3), content_of_gigabytes(2, 3)]),
            wide
        ),
        [1, 2]
    );
}

#[test]
fn what_a_flexible_job_stages_counts_for_those_after_it() {
    let mut whole = component_reading(&[content_of_gigabytes(1, 3)]);
    whole.resources.processors = 60;
    let policy = crate::ids::PolicyName::new("flexible-cluster-minimization").unwrap();
    let kind = crate::job::spec::RequestType::Flexible(FlexibleBounds::default());
    let flexible = PlacementRequest::new(policy, kind, true, vec![whole]);
    let other = request(vec![component_reading(&[content_of_gigabytes(2, 3)])]);
    let grid = || {
        grid_with_two_files([
            site_with_staging_room("A", 50, 5),
            site_with_staging_room("B", 50, 5),
        ])
    };
    assert_eq!(jobs_placed_by_scan(vec![other.clone()], grid()), [1]);
    assert_eq!(
        jobs_placed_by_scan(vec![flexible, other], grid()),
        [1],
        "it reads its file at both sites"
    );
}

#[test]
fn a_part_of_a_flexible_job_is_no_larger_than_its_input_has_room_for() {
    let place = |policy: &str, gigabytes: u64| {
        let of = content_of_gigabytes(1, 6);
        let chunk = FileChunk {
            of,
            offset: Bytes(0),
            length: of.size,
        };
        let chunks = BTreeMap::from([(chunk.as_content(), chunk)]);
        let whole = ComponentRequest {
            chunks,
            ..component(60)
        };
        let policy = crate::ids::PolicyName::new(policy).unwrap();
        let kind = crate::job::spec::RequestType::Flexible(FlexibleBounds::default());
        let request = PlacementRequest::new(policy, kind, true, vec![whole]);
        place_on_grid(
            &request,
            &grid_with_two_files([
                site_with_staging_room("A", 60, gigabytes),
                site_with_staging_room("B", 40, 4),
            ]),
        )
    };
    for policy in [
        "flexible-cluster-minimization",
        "connected-flexible-cluster-minimization",
    ] {
        // A tenth of a gigabyte for each processor.
        assert_eq!(
            shares_of(&place(policy, 6).unwrap()),
            [("A", 60)],
            "{policy}"
        );
        assert_eq!(
            shares_of(&place(policy, 5).unwrap()),
            [("A", 50), ("B", 10)],
            "{policy}"
        );
        assert_eq!(
            shares_of(&place(policy, 2).unwrap()),
            [("B", 40), ("A", 20)],
            "{policy}"
        );
        let refusal = place(policy, 1).unwrap_err();
        let no_split = RefusalReason::NoSplit {
            total: 60,
            min: 1,
            sites: 2,
            usable: 50,
        };
        assert_eq!(refusal.reason, no_split, "{policy}");
    }
}

#[test]
fn what_is_staged_at_a_site_already_takes_no_more_room_there() {
    let grid = |staged: &[Content]| {
        let staged = [(
            site_name("A"),
            staged.iter().copied().collect::<BTreeSet<_>>(),
        )];
        grid_with_two_files([
            site_with_staging_room("A", 50, 3),
            site_with_staging_room("B", 20, 2),
        ])
        .with_staged(Arc::new(BTreeMap::from(staged)))
    };
    let both = || {
        request(vec![component_reading(&[
            content_of_gigabytes(1, 3),
            content_of_gigabytes(2, 3),
        ])])
    };
    let refusal = place_on_grid(&both(), &grid(&[])).unwrap_err();
    let left = Bytes(3 * GB);
    assert_eq!(
        refusal.reason,
        RefusalReason::StagingFull {
            needed: Bytes(6 * GB),
            left
        }
    );
    assert_eq!(
        sites_of(&place_on_grid(&both(), &grid(&[content_of_gigabytes(1, 3)])).unwrap()),
        ["A"]
    );
    let mut sites = grid(&[]).sites().to_vec();
    sites[0].staging_left = Some(Bytes(2 * GB));
    let refusal = place_on_grid(
        &both(),
        &grid(&[content_of_gigabytes(1, 3)]).with_sites(sites),
    )
    .unwrap_err();
    let left = Bytes(2 * GB);
    assert_eq!(
        refusal.reason,
        RefusalReason::StagingFull {
            needed: Bytes(3 * GB),
            left
        },
        "the rest"
    );
    let jobs = |contents: [Content; 3]| {
        contents
            .map(|content| request(vec![component_reading(&[content])]))
            .to_vec()
    };
    let three = || {
        jobs([
            content_of_gigabytes(1, 3),
            content_of_gigabytes(2, 3),
            content_of_gigabytes(1, 3),
        ])
    };
    assert_eq!(
        jobs_placed_by_scan(three(), grid(&[content_of_gigabytes(1, 3)])),
        [1, 2, 3],
        "nor what reads it meanwhile"
    );
    assert_eq!(jobs_placed_by_scan(three(), grid(&[])), [1, 3]);
}
