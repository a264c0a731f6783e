//! Placing into the queues of sites what nothing idle serves.

use std::sync::Arc;

use crate::acquisition::{
    Acquisition, AcquisitionMode, AcquisitionOptions, Partition, PartitionAccount, PartitionDemand,
    QueueTimeLimits, SiteExperience, SitePartitions,
};
use crate::job::spec::{FlexibleBounds, OverrideScope};
use crate::placement::testing::{
    flexible_request, grid, open_site, place_on_grid, place_with_recorder, request as request_of,
    request_of_sizes, shares_of, site_name, site_with_resources, sites_of,
};
use crate::placement::unplaceable::check_holds_all;
use crate::placement::{
    GridSite, PlacementAcceptance, PlacementHindrance, PlacementRequest, RefusalReason,
    SiteProperties, SiteSuitability, rank_reservable_sites, rank_unreserved_sites,
};
use crate::resources::Resources;
use crate::units::{DurationMs, Timestamp};

/// A site of so many processors, all in use, so many of them by us; jobs may wait there.
fn busy_site(name: &str, total: u32, ours: u32) -> GridSite {
    let total = Resources::processors(total);
    let ours = Resources::processors(ours);
    let mut site = site_with_resources(name, total, Resources::processors(0));
    let shape = site.shape.as_deref().cloned().unwrap();
    site.shape = Some(Arc::new(SiteProperties {
        queues: true,
        ..shape
    }));
    GridSite { ours, ..site }
}

fn with_acquisition_mode(mode: AcquisitionMode, request: PlacementRequest) -> PlacementRequest {
    let limits = QueueTimeLimits {
        deadline: DurationMs(7),
        max_hold: DurationMs(3),
    };
    request.with_acquisition(AcquisitionOptions { mode, limits })
}

#[test]
fn where_nothing_is_idle_a_job_waits_in_the_queues_that_there_are() {
    let grid = grid([
        busy_site("A", 64, 0),
        busy_site("B", 32, 0),
        open_site("C", 8),
    ]);
    let request = with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[30, 30]));
    let plan = place_on_grid(&request, &grid).unwrap();
    assert_eq!(
        sites_of(&plan),
        ["A", "A"],
        "Worst-Fit, by what there is to wait for"
    );
    let limits = request.acquisition().limits;
    assert!(
        plan.placements
            .iter()
            .all(|p| p.acquisition == Acquisition::Queue(limits))
    );
}

#[test]
fn what_is_idle_is_claimed_rather_than_waited_for() {
    let grid = grid([busy_site("A", 64, 0), open_site("C", 8)]);
    let plan = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[8])),
        &grid,
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["C"]);
    assert_eq!(plan.placements[0].acquisition, Acquisition::ClaimNow);
    let plan = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Queued, request_of_sizes(&[8])),
        &grid,
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["A"], "unless the job says so");
}

#[test]
fn a_job_that_wants_idle_processors_only_waits_for_them_here() {
    let grid = grid([busy_site("A", 64, 0)]);
    let refusal = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Immediate, request_of_sizes(&[8])),
        &grid,
    )
    .unwrap_err();
    assert!(
        matches!(refusal.reason, RefusalReason::NotEnoughIdle { .. }),
        "{refusal:?}"
    );
}

#[test]
fn no_more_of_ours_waits_at_a_site_than_it_could_hold() {
    let grid = grid([busy_site("A", 64, 40), busy_site("B", 32, 0)]);
    let plan = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[20, 30])),
        &grid,
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["A", "B"]);
    assert!(
        place_on_grid(
            &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[30, 30])),
            &grid
        )
        .is_err()
    );
}

#[test]
fn a_job_for_queues_is_told_which_sites_have_none() {
    let grid = grid([open_site("C", 8)]);
    let refusal = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Queued, request_of_sizes(&[8])),
        &grid,
    )
    .unwrap_err();
    assert_eq!(
        refusal.reason,
        RefusalReason::Closed(PlacementHindrance::NoQueue)
    );
}

#[test]
fn an_explanation_tells_of_the_way_that_was_taken() {
    let queue = grid([busy_site("A", 64, 0), open_site("C", 8)]);
    let (_, told) = place_with_recorder(
        &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[30])),
        &queue,
    );
    let outcomes = |told: &crate::placement::VerdictRecorder| -> Vec<bool> {
        told.verdicts
            .iter()
            .map(|v| matches!(v.outcome, SiteSuitability::Chosen))
            .collect()
    };
    assert_eq!(outcomes(&told), [true, false]);
    let (_, told) = place_with_recorder(
        &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[65])),
        &queue,
    );
    assert_eq!(
        told.verdicts.len(),
        2,
        "what is idle, where no queue serves either"
    );
}

/// A site of 64 idle processors, where 32 for an hour waited lately in its partition `short`.
fn site_with_recent_wait(name: &str, queues: bool) -> GridSite {
    let mut site = site_with_resources(name, Resources::processors(64), Resources::processors(64));
    let shape = site.shape.as_deref().cloned().unwrap();
    let lanes = SitePartitions {
        own: partition_account("short"),
        ..SitePartitions::default()
    };
    site.shape = Some(Arc::new(SiteProperties {
        queues,
        lanes: Some(lanes),
        ..shape
    }));
    let mut waits = SiteExperience::default();
    let ask = PartitionDemand::new(32, DurationMs::from_secs(3_600));
    waits.record_wait(
        partition_account("short"),
        ask,
        &"Priority".into(),
        Timestamp(1),
        Timestamp(2),
    );
    GridSite {
        waits: Some(waits.into()),
        ..site
    }
}

fn partition_account(partition: &str) -> PartitionAccount {
    PartitionAccount {
        partition: Some(partition.into()),
        account: None,
    }
}

fn with_wall_hours(hours: u64, request: PlacementRequest) -> PlacementRequest {
    request.with_wall_time(Some(DurationMs::from_secs(3_600 * hours)))
}

#[test]
fn what_is_idle_where_as_much_waited_lately_is_not_claimed() {
    let grid = grid([site_with_recent_wait("A", false), open_site("C", 40)]);
    let at = |request: &PlacementRequest| {
        place_on_grid(request, &grid).map(|plan| plan.placements[0].site.clone())
    };
    assert_eq!(
        at(&with_wall_hours(1, request_of_sizes(&[32])))
            .unwrap()
            .as_str(),
        "C"
    );
    assert_eq!(
        at(&with_wall_hours(1, request_of_sizes(&[31])))
            .unwrap()
            .as_str(),
        "A",
        "smaller"
    );
    assert_eq!(
        at(&with_wall_hours(0, request_of_sizes(&[64])))
            .unwrap()
            .as_str(),
        "A",
        "shorter"
    );
    let refusal = at(&with_wall_hours(2, request_of_sizes(&[48]))).unwrap_err();
    assert!(
        matches!(refusal.reason, RefusalReason::NotEnoughIdle { .. }),
        "at C: {refusal}"
    );
}

#[test]
fn a_component_that_asks_another_partition_is_not_kept_from_what_is_idle() {
    let grid = grid([site_with_recent_wait("A", false)]);
    let refusal = place_on_grid(&with_wall_hours(1, request_of_sizes(&[40])), &grid).unwrap_err();
    assert_eq!(refusal.reason.code().as_str(), "waited-lately");
    assert!(
        refusal
            .to_string()
            .contains("short was asked for 32 processors"),
        "{refusal}"
    );
    let mut request = request_of_sizes(&[40]).components().to_vec();
    request[0].lanes = vec![(
        OverrideScope::Site(site_name("A")),
        partition_account("long"),
    )];
    assert_eq!(
        sites_of(&place_on_grid(&with_wall_hours(1, request_of(request)), &grid).unwrap()),
        ["A"]
    );
}

/// A site whose partition `short` gives a job an hour, and `long` two.
fn site_with_time_limits(name: &str) -> GridSite {
    let mut site = site_with_recent_wait(name, true);
    let hours = |hours: u64| Partition {
        total: Resources::processors(64),
        longest: Some(DurationMs::from_secs(3_600 * hours)),
    };
    let partitions = [("short".into(), hours(1)), ("long".into(), hours(2))].into();
    let shape = site.shape.as_deref().cloned().unwrap();
    let lanes = SitePartitions {
        own: partition_account("short"),
        partitions,
        ..SitePartitions::default()
    };
    site.shape = Some(Arc::new(SiteProperties {
        lanes: Some(lanes),
        ..shape
    }));
    let idle_in = [("long".into(), Resources::processors(64))].into();
    GridSite {
        waits: None,
        idle_in: Arc::new(idle_in),
        ..site
    }
}

#[test]
fn no_partition_takes_what_would_run_longer_than_it_lets_anybody() {
    let grid = grid([site_with_time_limits("A")]);
    let fits = |hours: u64, partition: Option<&str>| {
        let mut parts = request_of_sizes(&[4]).components().to_vec();
        let chosen =
            partition.map(|name| (OverrideScope::Site(site_name("A")), partition_account(name)));
        parts[0].lanes = chosen.into_iter().collect();
        let request = with_acquisition_mode(
            AcquisitionMode::Auto,
            with_wall_hours(hours, request_of(parts)),
        );
        let sites: Vec<&GridSite> = grid.sites().iter().collect();
        let placed = place_on_grid(&request, &grid)
            .map(|_| ())
            .map_err(|refusal| refusal.reason);
        assert_eq!(placed.is_ok(), check_holds_all(&request, &sites).is_ok());
        placed
    };
    assert_eq!(fits(1, None), Ok(()), "its whole time");
    let refused = fits(2, None).unwrap_err();
    let said = "it asks for 2h00m00s; short gives a job 1h00m00s at most";
    assert_eq!(
        (refused.code().as_str(), &*refused.to_string()),
        ("too-long", said)
    );
    assert_eq!(fits(2, Some("long")), Ok(()));
    assert_eq!(
        fits(2, Some("short,long")),
        Ok(()),
        "Slurm takes the one that can"
    );
    assert_eq!(fits(2, Some("unheard")), Ok(()), "nothing is known of it");
    assert!(fits(3, Some("short,long")).is_err());
}

#[test]
fn a_job_may_wait_in_a_queue_where_as_much_waited_before() {
    let grid = grid([site_with_recent_wait("A", true)]);
    let plan = place_on_grid(
        &with_acquisition_mode(
            AcquisitionMode::Auto,
            with_wall_hours(1, request_of_sizes(&[40])),
        ),
        &grid,
    )
    .unwrap();
    assert!(plan.placements[0].acquisition.waits_in_site_queue());
    let plan = place_on_grid(
        &with_acquisition_mode(
            AcquisitionMode::Auto,
            with_wall_hours(1, request_of_sizes(&[30])),
        ),
        &grid,
    )
    .unwrap();
    assert!(!plan.placements[0].acquisition.waits_in_site_queue());
}

#[test]
fn a_flexible_job_is_split_so_that_no_part_is_as_large_as_what_waited() {
    let whole = flexible_request(
        "flexible-cluster-minimization",
        60,
        FlexibleBounds::default(),
    );
    let grid = grid([site_with_recent_wait("A", false), open_site("C", 40)]);
    assert_eq!(
        shares_of(&place_on_grid(&with_wall_hours(1, whole), &grid).unwrap()),
        [("C", 40), ("A", 20)]
    );
    let all = flexible_request(
        "flexible-cluster-minimization",
        71,
        FlexibleBounds::default(),
    );
    assert_eq!(
        shares_of(&place_on_grid(&with_wall_hours(1, all), &grid).unwrap()),
        [("C", 40), ("A", 31)]
    );
}

/// As the snapshot has it that policies see.
fn queue_only_site(name: &str, idle: u32) -> GridSite {
    let site = open_site(name, idle);
    let shape = site.shape.as_deref().cloned().unwrap();
    let shape = Some(Arc::new(SiteProperties {
        queues: true,
        queues_only: true,
        ..shape
    }));
    let acceptance = PlacementAcceptance::Closed(PlacementHindrance::QueueOnly);
    GridSite {
        shape,
        acceptance,
        ..site
    }
}

#[test]
fn nothing_is_claimed_at_a_site_that_only_queues_though_it_is_idle() {
    let grid = grid([queue_only_site("A", 64), open_site("C", 8)]);
    let plan = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[8])),
        &grid,
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["C"]);
    let plan = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Auto, request_of_sizes(&[30])),
        &grid,
    )
    .unwrap();
    assert_eq!(sites_of(&plan), ["A"]);
    assert!(plan.placements[0].acquisition.waits_in_site_queue());
    let refusal = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Immediate, request_of_sizes(&[30])),
        &grid,
    )
    .unwrap_err();
    assert!(matches!(
        refusal.reason,
        RefusalReason::NotEnoughIdle { .. } | RefusalReason::TooSmall { .. }
    ));
    let alone = crate::placement::testing::grid([queue_only_site("A", 64)]);
    let refusal = place_on_grid(
        &with_acquisition_mode(AcquisitionMode::Immediate, request_of_sizes(&[30])),
        &alone,
    )
    .unwrap_err();
    assert_eq!(
        refusal.reason,
        RefusalReason::Closed(PlacementHindrance::QueueOnly)
    );
}

#[test]
fn a_site_that_only_queues_is_asked_for_reservations_all_the_same() {
    let of = |reservations: bool| {
        let site = queue_only_site("A", 64);
        let shape = site.shape.as_deref().cloned().unwrap();
        grid([GridSite {
            shape: Some(Arc::new(SiteProperties {
                reservations,
                ..shape
            })),
            ..site
        }])
    };
    let asked = rank_reservable_sites(&request_of_sizes(&[8]), &of(true));
    assert_eq!(
        asked
            .iter()
            .map(|it| it.site.to_string())
            .collect::<Vec<_>>(),
        ["A"]
    );
    assert!(
        rank_unreserved_sites(&request_of_sizes(&[8]), &of(false)).is_empty(),
        "nothing is claimed there"
    );
}
