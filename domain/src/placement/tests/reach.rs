//! Links that are not there.

use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;

fn small_site(name: &str) -> GridSite {
    site_with_resources(name, Resources::processors(2), Resources::processors(2))
}

fn component_reading_file(processors: u32) -> ComponentRequest {
    ComponentRequest {
        inputs: [content_of_gigabytes(1, 1)].into(),
        ..component(processors)
    }
}

fn missing_link_in_words(
    components: Vec<ComponentRequest>,
    grid: &GridSnapshot,
) -> Option<(u32, String)> {
    let missing = find_missing_link(&request(components), grid)?;
    Some((
        missing.component.0,
        format!("{}-{}", missing.from, missing.to),
    ))
}

#[test]
fn a_job_that_needs_two_sites_and_has_input_at_one_lacks_a_link() {
    let at_a = [(content_of_gigabytes(1, 1), "A")];
    let apart = grid_with([small_site("A"), small_site("B")], &at_a, &[]);
    assert_eq!(
        missing_link_in_words(
            vec![component_reading_file(2), component_reading_file(2)],
            &apart
        ),
        Some((0, "A-B".into()))
    );
    // One of them has room where its input is.
    assert_eq!(
        missing_link_in_words(
            vec![component_reading_file(1), component_reading_file(1)],
            &apart
        ),
        None
    );
    assert_eq!(
        missing_link_in_words(vec![component_reading_file(2), component(2)], &apart),
        None
    );
    let joined = grid_with(
        [small_site("A"), small_site("B")],
        &at_a,
        &[("A", "B", 100)],
    );
    assert_eq!(
        missing_link_in_words(
            vec![component_reading_file(2), component_reading_file(2)],
            &joined
        ),
        None
    );
    let dead = grid_with([small_site("A"), small_site("B")], &at_a, &[("A", "B", 0)]);
    assert_eq!(
        missing_link_in_words(
            vec![component_reading_file(2), component_reading_file(2)],
            &dead
        ),
        Some((0, "A-B".into()))
    );
}

#[test]
fn a_component_of_a_named_site_lacks_the_link_to_that() {
    let sites = || [small_site("A"), small_site("B"), small_site("C")];
    let apart = grid_with(
        sites(),
        &[(content_of_gigabytes(1, 1), "A")],
        &[("A", "B", 100)],
    );
    let at = |name: &str| ComponentRequest {
        site: Some(site_name(name)),
        ..component_reading_file(1)
    };
    assert_eq!(
        missing_link_in_words(vec![at("B"), at("C")], &apart),
        Some((1, "A-C".into()))
    );
    assert_eq!(missing_link_in_words(vec![at("A"), at("B")], &apart), None);
}

#[test]
fn what_no_site_has_or_none_could_hold_is_not_for_want_of_a_link() {
    let apart = grid_with([small_site("A"), small_site("B")], &[], &[]);
    assert_eq!(
        missing_link_in_words(
            vec![component_reading_file(2), component_reading_file(2)],
            &apart
        ),
        None
    );
    let at_a = grid_with(
        [small_site("A"), small_site("B")],
        &[(content_of_gigabytes(1, 1), "A")],
        &[],
    );
    assert_eq!(
        missing_link_in_words(
            vec![
                component_reading_file(2),
                component_reading_file(2),
                component_reading_file(2)
            ],
            &at_a
        ),
        None
    );
    let unheard = GridSite::never_answered(site_name("B"));
    let unknown = grid_with(
        [small_site("A"), unheard],
        &[(content_of_gigabytes(1, 1), "A")],
        &[],
    );
    assert_eq!(
        missing_link_in_words(
            vec![component_reading_file(2), component_reading_file(2)],
            &unknown
        ),
        None
    );
}
