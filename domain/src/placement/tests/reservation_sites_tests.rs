//! The sites that may be asked for a reservation, where a job reads files.

use std::sync::Arc;

use crate::placed::Placement;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;

#[test]
fn sites_without_the_file_are_asked_for_reservations_after_the_one_that_has_it() {
    let with_reservations = |name: &str, granted: bool| {
        let site = open_site(name, 8);
        let shape = site.shape.as_deref().cloned().unwrap();
        let shape = SiteProperties {
            reservations: granted,
            ..shape
        };
        GridSite {
            shape: Some(Arc::new(shape)),
            ..site
        }
    };
    let reading = ComponentRequest {
        inputs: [content_of_gigabytes(1, 3)].into(),
        ..component(4)
    };
    let names = |ranked: Vec<Placement>| {
        let names = ranked.iter().map(|it| it.site.to_string());
        names.collect::<Vec<_>>()
    };
    let links = [("F", "A", 100), ("F", "B", 50)];
    for policy in ["close-to-files", "worst-fit"] {
        let asked = with_policy(policy, &request(vec![reading.clone()]));
        for source_grants in [true, false] {
            let grid = grid_with(
                [
                    with_reservations("A", true),
                    with_reservations("B", true),
                    with_reservations("F", source_grants),
                ],
                &[(content_of_gigabytes(1, 3), "F")],
                &links,
            );
            let mut found = names(rank_reservable_sites(&asked, &grid));
            if policy == "close-to-files" {
                let by_distance = ["F", "A", "B"].map(String::from);
                assert_eq!(found, by_distance[usize::from(!source_grants)..]);
            }
            found.sort();
            let all = ["A", "B", "F"].map(String::from);
            assert_eq!(found, all[..2 + usize::from(source_grants)], "{policy}");
            let left = [(site_name("B"), Resources::processors(4))].into();
            let placed = place_on_resources(&asked, &grid, &left).map(names);
            assert_eq!(placed, Some(vec!["B".to_owned()]), "the file comes from F");
        }
    }
}
