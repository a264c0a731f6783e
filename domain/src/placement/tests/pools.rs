//! Components that ask for another partition than their site's own.

use std::sync::Arc;

use crate::acquisition::{Partition, PartitionAccount, SitePartitions};
use crate::job::spec::OverrideScope;
use crate::placement::testing::{explained, grid, placed, request, site_name, site_of};
use crate::placement::unplaceable::check_holds_all;
use crate::placement::{
    ComponentRequest, GridSite, PlacementRequest, RefusalReason, SiteProperties, rank_to_reserve,
};
use crate::resources::Resources;

fn gpus(processors: u32, gpus: u64) -> Resources {
    Resources {
        processors,
        others: [("gpus".into(), gpus)].into(),
    }
}

/// A site of 64 processors in its own partition, so many of them idle, and of 16 with 8 GPUs in
/// another, `gpu`.
fn delft(idle: u32, idle_of_gpu: u32) -> GridSite {
    let site = site_of(
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
        ("gpu".into(), partition(gpus(16, 8))),
    ];
    let lanes = SitePartitions {
        own,
        partitions: partitions.into(),
        ..SitePartitions::default()
    };
    let shape = site.shape.as_deref().cloned().unwrap();
    let idle_in = [
        ("normal".into(), Resources::processors(idle)),
        ("gpu".into(), gpus(idle_of_gpu, 8)),
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
fn job(partition: Option<&str>, needs: &[Resources]) -> PlacementRequest {
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
    let site = delft(64, 16);
    let could = |partition, need| check_holds_all(&job(partition, &[need]), &[&site]).is_ok();
    assert!(could(Some("gpu"), gpus(2, 2)) && could(Some("normal,gpu"), gpus(64, 8)));
    assert!(!could(None, gpus(2, 2)), "the site's own has none");
    assert!(
        !could(Some("normal"), gpus(2, 2)),
        "which is the same by its name"
    );
    assert!(!could(Some("gpu"), gpus(2, 9)) && !could(Some("gpu"), gpus(17, 1)));
    let both = job(Some("gpu"), &[gpus(16, 8), gpus(16, 8), gpus(16, 8)]);
    assert!(
        check_holds_all(&both, &[&site]).is_ok(),
        "none of it is the site's own"
    );
}

#[test]
fn what_is_idle_to_a_component_is_idle_in_its_partition() {
    let fits = |own, gpu, partition, needs: &[Resources]| {
        placed(&job(partition, needs), &grid([delft(own, gpu)])).map_err(|refusal| refusal.reason)
    };
    assert!(fits(0, 16, Some("gpu"), &[gpus(16, 8)]).is_ok());
    assert!(fits(64, 16, None, &[Resources::processors(64)]).is_ok());
    let refused = fits(64, 4, Some("gpu"), &[gpus(8, 1)]).unwrap_err();
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
    let mut site = delft(0, 16);
    let shape = site.shape.as_deref().cloned().unwrap();
    site.shape = Some(Arc::new(SiteProperties {
        reservations: true,
        ..shape
    }));
    let at = grid([site]);
    let asked = |partition| rank_to_reserve(&job(partition, &[Resources::processors(8)]), &at);
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
    let two = [gpus(8, 4), gpus(8, 4)];
    let three = [gpus(8, 4), gpus(4, 4), gpus(4, 4)];
    let at = grid([delft(0, 16)]);
    assert!(placed(&job(Some("gpu"), &two), &at).is_ok());
    let (refused, _) = explained(&job(Some("gpu"), &three), &at);
    let said = refused.unwrap_err().reason.to_string();
    assert_eq!(
        said,
        "needs 4 gpus, 8 idle of which 8 are promised: 4 more would do"
    );
}
