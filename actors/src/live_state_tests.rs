//! All sites together.

use super::*;

fn site(name: &str) -> SiteName {
    SiteName::new(name).expect("a site's name")
}

#[test]
fn it_is_told_once_when_no_site_takes_work_and_once_when_one_does_again() {
    let delft = site("Delft");
    let leiden = site("Leiden");
    let live = LiveState::new(
        [delft.clone(), leiden.clone()].iter(),
        DurationMs::from_secs(60),
    );
    let stands = |site: &SiteName, state| live.note_site_state(site, state, 2);
    assert_eq!(
        stands(&delft, SiteState::Unusable),
        None,
        "nothing is known of the other"
    );
    assert_eq!(
        stands(&leiden, SiteState::Unknown),
        None,
        "it may still answer"
    );
    assert_eq!(stands(&leiden, SiteState::Usable), None);
    let none = SiteAvailabilityChange::None(vec![
        (delft.clone(), SiteState::Unusable),
        (leiden.clone(), SiteState::Draining),
    ]);
    assert_eq!(stands(&leiden, SiteState::Draining), Some(none));
    assert_eq!(stands(&leiden, SiteState::Drained), None, "that was told");
    assert_eq!(
        stands(
            &delft,
            SiteState::Probing {
                free: 1,
                any: false
            }
        ),
        Some(SiteAvailabilityChange::Some)
    );
    assert_eq!(
        stands(
            &delft,
            SiteState::Probing {
                free: 0,
                any: false
            }
        ),
        None,
        "it is being tried out"
    );
    assert_eq!(stands(&delft, SiteState::Usable), None);
}
