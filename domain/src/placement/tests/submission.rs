//! What is refused at submission.

use crate::ids::{ComponentIndex, KeyName};
use crate::job::spec::{FlexibleBounds, RequestType};
use crate::labels::{LabelConstraint, LabelRule};
use crate::placed::ReasonCode;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::PerMillion;

fn small_site(name: &str, processors: u32) -> GridSite {
    site_with_resources(
        name,
        Resources::processors(processors),
        Resources::processors(0),
    )
}

#[test]
fn a_component_larger_than_every_site_is_refused_with_the_nearest_site() {
    let grid = grid([small_site("A", 16), small_site("B", 32)]);
    assert_eq!(
        check_placeable(&request_of_sizes(&[32]), &grid),
        Ok(()),
        "idle or not does not matter"
    );
    let error = check_placeable(&request_of_sizes(&[8, 33]), &grid).unwrap_err();
    assert_eq!(
        error.to_string(),
        "component 1 fits no site, even an empty one; nearest is B: \
         needs 33 processors; one component gets 32 at most"
    );
}

#[test]
fn a_site_that_has_not_been_heard_from_is_unknown_and_not_small() {
    let grid = grid([
        small_site("A", 16),
        GridSite::never_answered(site_name("B")),
    ]);
    assert_eq!(
        check_placeable(&request_of_sizes(&[1_000, 1_000]), &grid),
        Ok(())
    );
}

#[test]
fn the_bounds_on_one_component_and_the_quota_count_too() {
    let mut narrow = small_site("A", 100);
    narrow.shape = narrow.shape.map(|shape| {
        let largest_component = Resources::processors(10);
        std::sync::Arc::new(SiteProperties {
            largest_component,
            ..(*shape).clone()
        })
    });
    assert!(check_placeable(&request_of_sizes(&[11]), &grid([narrow.clone()])).is_err());
    assert_eq!(
        check_placeable(&request_of_sizes(&[10, 10]), &grid([narrow])),
        Ok(())
    );
    let quota = SiteQuota {
        share: PerMillion(500_000),
        basis: QuotaBasis::Level,
    };
    let bounded = GridSite {
        quota,
        ..small_site("A", 100)
    };
    let error = check_placeable(&request_of_sizes(&[51]), &grid([bounded])).unwrap_err();
    assert!(
        error.to_string().contains("the quota allows 50 at most"),
        "{error}"
    );
}

#[test]
fn components_that_fit_only_one_at_a_time_are_refused() {
    let two = grid([small_site("A", 16), small_site("B", 16)]);
    assert_eq!(check_placeable(&request_of_sizes(&[16, 16]), &two), Ok(()));
    let error = check_placeable(&request_of_sizes(&[16, 16, 1]), &two).unwrap_err();
    assert!(
        matches!(error, UnplaceableError::TogetherTooLarge(_)),
        "{error}"
    );
    let at_a = || ComponentRequest {
        site: Some(site_name("A")),
        ..component(9)
    };
    let fixed = PlacementRequest::new(worst_fit(), RequestType::Fixed, true, vec![at_a(), at_a()]);
    let error = check_placeable(&fixed, &two).unwrap_err();
    assert!(
        error.to_string().contains("needs 18 processors, has 16"),
        "{error}"
    );
}

#[test]
fn an_unknown_site_in_a_fixed_request_is_refused_with_those_there_are() {
    let one = ComponentRequest {
        site: Some(site_name("Z")),
        ..component(1)
    };
    let fixed = PlacementRequest::new(worst_fit(), RequestType::Fixed, true, vec![one]);
    let error =
        check_placeable(&fixed, &grid([small_site("A", 4), small_site("B", 4)])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "component 0 names site Z, which is not configured; there are: A, B"
    );
    assert_eq!(
        check_placeable(&request_of_sizes(&[1]), &grid([])),
        Err(UnplaceableError::NoSites)
    );
}

#[test]
fn a_label_that_no_site_has_is_refused_although_another_resource_would_do() {
    let mut one = component(4);
    one.constraints.push(LabelConstraint {
        key: "arch".into(),
        rule: LabelRule::Is("arm64".into()),
    });
    let error = check_placeable(&request(vec![one]), &grid([small_site("A", 4)])).unwrap_err();
    let UnplaceableError::ComponentTooLarge {
        component, reason, ..
    } = error
    else {
        panic!()
    };
    assert_eq!(
        (component, reason.code()),
        (ComponentIndex(0), ReasonCode::LabelMismatch)
    );
}

#[test]
fn a_site_whose_batch_system_refused_the_component_is_not_asked_again() {
    let refused_by = |names: &[&str]| {
        let mut component = ComponentRequest::of_resources(Resources::processors(8));
        component.unfit_for = names
            .iter()
            .map(|name| (site_name(name), "Unspecified error".into()))
            .collect();
        PlacementRequest::new(worst_fit(), RequestType::NonFixed, true, vec![component])
    };
    let sites = [open_site("A", 32), open_site("B", 16)];
    let chosen = place_on_grid(&refused_by(&["A"]), &grid(sites.clone())).unwrap();
    assert_eq!(sites_of(&chosen), ["B"], "A has more");
    let everywhere = refused_by(&["A", "B"]);
    let refused = place_on_grid(&everywhere, &grid(sites.clone())).unwrap_err();
    assert_eq!(
        refused.reason.to_string(),
        "its batch system refuses the component: Unspecified error"
    );
    let first = ComponentIndex(0);
    let is_left =
        |request: &PlacementRequest, sites: &[GridSite]| fits_any_site(request, first, sites);
    assert!(is_left(&refused_by(&["A"]), &sites));
    assert!(!is_left(&everywhere, &sites));
    let unheard = GridSite::never_answered(site_name("C"));
    assert!(
        is_left(&everywhere, &[sites[0].clone(), unheard]),
        "C is unknown, not unfit"
    );
    assert!(!is_left(
        &refused_by(&["A"]),
        &[sites[0].clone(), small_site("C", 4)]
    ));
}

#[test]
fn a_site_that_is_for_other_keys_takes_no_job_however_much_is_idle() {
    let key = |name: &str| KeyName::new(name).unwrap();
    let of_bob = [(site_name("B"), [key("bob"), key("carol")].into())];
    let defaults = PlacementDefaults {
        site_keys: of_bob.into(),
        ..PlacementDefaults::default()
    };
    let of = |owner: &str| request_of_sizes(&[8]).without_barred_sites(&key(owner), &defaults);
    let sites = [open_site("A", 4), open_site("B", 16)];
    assert_eq!(check_placeable(&of("bob"), &grid(sites.clone())), Ok(()));
    assert_eq!(
        sites_of(&place_on_grid(&of("carol"), &grid(sites.clone())).unwrap()),
        ["B"]
    );
    let refused = place_on_grid(&of("alice"), &grid(sites.clone())).unwrap_err();
    assert_eq!(
        refused.reason.code(),
        ReasonCode::NotEnoughIdle,
        "nearest is A: {refused}"
    );
    let error = check_placeable(&of("alice"), &grid([small_site("B", 16)])).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("nearest is B: the site is for keys bob, carol"),
        "{error}"
    );
    let unheard = grid([GridSite::never_answered(site_name("B"))]);
    assert!(
        check_placeable(&of("alice"), &unheard).is_err(),
        "whatever the site is"
    );
    assert_eq!(
        of("bob"),
        of("carol"),
        "who may use the same sites is alike to all"
    );
}

#[test]
fn a_closed_site_still_counts_since_it_may_open() {
    let drained = GridSite {
        acceptance: PlacementAcceptance::Closed(PlacementHindrance::Drained),
        ..small_site("A", 16)
    };
    assert_eq!(
        check_placeable(&request_of_sizes(&[16]), &grid([drained])),
        Ok(())
    );
}

#[test]
fn whatever_closes_the_site_of_a_fixed_job_is_named_with_the_component() {
    let all = [
        PlacementHindrance::Unknown,
        PlacementHindrance::Unreachable,
        PlacementHindrance::Isolated,
        PlacementHindrance::Unusable,
        PlacementHindrance::Probing,
        PlacementHindrance::Draining,
        PlacementHindrance::Drained,
        PlacementHindrance::Maintenance,
        PlacementHindrance::CredentialsExpired,
        PlacementHindrance::Frozen,
    ];
    let at = |name: &str| ComponentRequest {
        site: Some(site_name(name)),
        ..component(1)
    };
    let fixed = |restartable| {
        PlacementRequest::new(
            worst_fit(),
            RequestType::Fixed,
            restartable,
            vec![at("A"), at("B")],
        )
    };
    let with_b = |acceptance| {
        grid([
            small_site("A", 4),
            GridSite {
                acceptance,
                ..small_site("B", 4)
            },
        ])
    };
    let found = |why| Some((ComponentIndex(1), site_name("B"), why));
    let mut texts = std::collections::BTreeSet::new();
    for why in all {
        let grid = with_b(PlacementAcceptance::Closed(why));
        assert_eq!(find_closed_site(&fixed(true), &grid), found(why));
        assert_eq!(
            find_closed_site(&request_of_sizes(&[1, 1]), &grid),
            None,
            "it may go to the other one"
        );
        texts.insert(why.to_string());
    }
    assert_eq!(texts.len(), all.len(), "each has its own words");
    let probed = with_b(PlacementAcceptance::ProbesOnly);
    for restartable in [true, false] {
        assert_eq!(
            find_closed_site(&fixed(restartable), &probed),
            None,
            "it can go nowhere else"
        );
    }
}

#[test]
fn a_flexible_job_that_no_split_could_ever_serve_is_refused() {
    let grid = grid([
        site_with_resources("A", ten_processors(), ten_processors()),
        site_with_resources("B", ten_processors(), ten_processors()),
    ]);
    let check = |total, min, most| {
        let bounds = FlexibleBounds {
            min_component_size: min,
            max_components: Some(most),
            splits: vec![],
        };
        check_placeable(
            &flexible_request("flexible-cluster-minimization", total, bounds),
            &grid,
        )
    };
    assert_eq!(check(20, 1, 2), Ok(()));
    let error = check(21, 1, 2).unwrap_err().to_string();
    assert!(error.ends_with("the 2 site(s) that may take part have 20 together, even empty"));
    assert_eq!(
        check(20, 1, 1),
        Err(UnplaceableError::NoSplit {
            total: 20,
            min: 1,
            sites: 1,
            usable: 10
        })
    );
    assert!(
        check(19, 10, 2).is_err(),
        "one site is too small and two need 20"
    );
    let splits = FlexibleBounds {
        splits: vec![vec![12, 3], vec![5, 5, 5]],
        ..FlexibleBounds::default()
    };
    let listed = flexible_request("flexible-cluster-minimization", 15, splits);
    assert_eq!(check_placeable(&listed, &grid), Ok(()));
}

fn ten_processors() -> Resources {
    Resources::processors(10)
}
