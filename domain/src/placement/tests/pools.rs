//! Components that ask for another partition than their site's own.

use std::sync::Arc;

use crate::acquisition::{Partition, PartitionAccount, SitePartitions};
use crate::job::spec::OverrideScope;
use crate::placement::testing::{
    grid, place_on_grid, place_with_recorder, request, site_name, site_with_resources,
};
use crate::placement::unplaceable::check_holds_all;
use crate::placement::{
    ComponentRequest, GridSite, PlacementRequest, RefusalReason, SiteProperties,
    rank_reservable_sites,
};
use crate::resources::Resources;

fn processors_and_gpus(processors: u32, gpus: u64) -> Resources {
    Resources {
        processors,
        others: [("gpus".into(), gpus)].into(),
    }
}

/// A site of 64 processors in its own partition, so many of them idle, and of 16 with 8 GPUs in
/// another, `gpu`.
fn site_with_gpu_partition(idle: u32, idle_of_gpu: u32) -> GridSite {
    let site = site_with_resources(
        "Delft",
        Resources::processors(64),
        Resources::processors(idle),
    );
    let own = PartitionAccount {
        partition: Some("normal".into()),
        account: None,
    };
    let partition = |total| Partition {
        total,
        longest: None,
    };
    let partitions = [
        ("normal".into(), partition(Resources::processors(64))),
        ("gpu".into(), partition(processors_and_gpus(16, 8))),
    ];
    let lanes = SitePartitions {
        own,
        partitions: partitions.into(),
        ..SitePartitions::default()
    };
    let shape = site.shape.as_deref().cloned().unwrap();
    let idle_in = [
        ("normal".into(), Resources::processors(idle)),
        ("gpu".into(), processors_and_gpus(idle_of_gpu, 8)),
    ];
    GridSite {
        shape: Some(Arc::new(SiteProperties {
            lanes: Some(lanes),
            ..shape
        })),
        idle_in: Arc::new(idle_in.into()),
        ..site
    }
}

/// Components that need this, each in `partition` if that is named.
fn request_in_partition(partition: Option<&str>, needs: &[Resources]) -> PlacementRequest {
    let lane = |name: &str| PartitionAccount {
        partition: Some(name.into()),
        account: None,
    };
    let lanes = partition.map(|name| (OverrideScope::Site(site_name("Delft")), lane(name)));
    request(
        needs
            .iter()
            .map(|need: &Resources| ComponentRequest {
                lanes: lanes.clone().into_iter().collect(),
                ..ComponentRequest::of_resources(need.clone())
            })
            .collect(),
    )
}

#[test]
fn what_a_component_may_ask_for_is_what_its_partition_has() {
    let site = site_with_gpu_partition(64, 16);
    let could = |partition, need| {
        check_holds_all(&request_in_partition(partition, &[need]), &[&site]).is_ok()
    };
    assert!(
        could(Some("gpu"), processors_and_gpus(2, 2))
            && could(Some("normal,gpu"), processors_and_gpus(64, 8))
    );
    assert!(
        !could(None, processors_and_gpus(2, 2)),
        "the site's own has none"
    );
    assert!(
        !could(Some("normal"), processors_and_gpus(2, 2)),
        "which is the same by its name"
    );
    assert!(
        !could(Some("gpu"), processors_and_gpus(2, 9))
            && !could(Some("gpu"), processors_and_gpus(17, 1))
    );
    let both = request_in_partition(
        Some("gpu"),
        &[
            processors_and_gpus(16, 8),
            processors_and_gpus(16, 8),
            processors_and_gpus(16, 8),
        ],
    );
    assert!(
        check_holds_all(&both, &[&site]).is_ok(),
        "none of it is the site's own"
    );
}

#[test]
fn what_is_idle_to_a_component_is_idle_in_its_partition() {
    let fits = |own, gpu, partition, needs: &[Resources]| {
        place_on_grid(
            &request_in_partition(partition, needs),
            &grid([site_with_gpu_partition(own, gpu)]),
        )
        .map_err(|refusal| refusal.reason)
    };
    assert!(fits(0, 16, Some("gpu"), &[processors_and_gpus(16, 8)]).is_ok());
    assert!(fits(64, 16, None, &[Resources::processors(64)]).is_ok());
    let refused = fits(64, 4, Some("gpu"), &[processors_and_gpus(8, 1)]).unwrap_err();
    let RefusalReason::NotEnoughIdle {
        needed: 8,
        idle: 4,
        missing: 4,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    assert!(
        fits(0, 16, None, &[Resources::processors(1)]).is_err(),
        "that is another's"
    );
}

#[test]
fn a_site_promises_what_its_own_partition_has_and_no_other() {
    let mut site = site_with_gpu_partition(0, 16);
    let shape = site.shape.as_deref().cloned().unwrap();
    site.shape = Some(Arc::new(SiteProperties {
        reservations: true,
        ..shape
    }));
    let at = grid([site]);
    let asked = |partition| {
        rank_reservable_sites(
            &request_in_partition(partition, &[Resources::processors(8)]),
            &at,
        )
    };
    assert_eq!(asked(None).len(), 1);
    assert_eq!(
        asked(Some("normal")).len(),
        1,
        "which is the same by its name"
    );
    assert_eq!(asked(Some("gpu")), []);
}

#[test]
fn components_of_one_partition_share_what_is_idle_there() {
    let two = [processors_and_gpus(8, 4), processors_and_gpus(8, 4)];
    let three = [
        processors_and_gpus(8, 4),
        processors_and_gpus(4, 4),
        processors_and_gpus(4, 4),
    ];
    let at = grid([site_with_gpu_partition(0, 16)]);
    assert!(place_on_grid(&request_in_partition(Some("gpu"), &two), &at).is_ok());
    let (refused, _) = place_with_recorder(&request_in_partition(Some("gpu"), &three), &at);
    let said = refused.unwrap_err().reason.to_string();
    assert_eq!(
        said,
        "needs 4 gpus; 8 idle of which 8 are deducted, 4 missing"
    );
}
