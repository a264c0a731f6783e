//! How sites are asked, with sites in memory.

use std::time::Duration;

use cospan_domain::placement::{Acceptance, GridSnapshot, Hindrance};
use cospan_domain::site::contact::Contact;
use cospan_domain::units::DurationMs;

use crate::coallocator::{GridMaker, Offers};
use crate::transfer::testing::{World, content, paused, site};

fn grid(world: &World) -> std::sync::Arc<GridSnapshot> {
    GridMaker::default().snapshot(&world.shared, &Offers::default())
}

fn contact(world: &World, name: &str) -> Contact {
    world.shared.live.site(&site(name)).expect("a report").contact
}

fn asked_at(world: &World, name: &str) -> u64 {
    let report = world.shared.live.site(&site(name)).expect("a report");
    report.idle.as_ref().map(|(asked_at, _)| asked_at.0).expect("it answered")
}

#[test]
fn a_site_that_takes_queries_and_never_answers_is_unreachable_and_holds_up_no_other() {
    paused(|| async {
        let world = World::new(&["Delft", "Leiden", "Utrecht"]);
        world.settle().await;
        world.shared.live.set_wanted(true);
        world.shared.actors.clusters.look_all();
        world.at("Leiden").inside().hanging = true;
        let began = world.shared.clock.now();
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let (grid, now) = (grid(&world), world.shared.clock.now());
            for name in ["Delft", "Utrecht"] {
                let seen = grid.site(&site(name)).expect("a site");
                assert_eq!(seen.acceptance, Acceptance::Open, "{name}");
                let age = seen.age(now).expect("it answered").0;
                assert!(age <= 6_000, "{name} was asked {age} ms ago");
            }
        }
        let unreachable = Acceptance::Closed(Hindrance::Unreachable);
        let seen = grid(&world).site(&site("Leiden")).expect("a site").acceptance;
        assert_eq!(seen, unreachable, "since {began:?}");
        world.at("Leiden").inside().hanging = false;
        world.until("it answers again", |w| contact(w, "Leiden").is_answering()).await;
    });
}

/// How long a site that hangs for one query is without an answer.
async fn pause_of(world: &World, name: &str) -> u64 {
    let last = asked_at(world, name);
    world.at(name).inside().hanging = true;
    world.shared.live.set_wanted(true);
    world.shared.actors.clusters.look_all();
    world.until("it hangs", |world| world.at(name).inside().hung > 0).await;
    world.at(name).inside().hanging = false;
    let hung_at = world.shared.clock.now();
    world.until("it is asked again", |world| asked_at(world, name) > last).await;
    asked_at(world, name) - hung_at.0
}

#[test]
fn a_site_with_a_time_out_of_its_own_is_asked_again_after_that_and_others_after_theirs() {
    paused(|| async {
        let world = World::set(&["Delft", "Leiden"], |settings| {
            settings.information.query_timeouts.insert(site("Delft"), DurationMs(1_000));
        });
        world.settle().await;
        let (own, common) = (pause_of(&world, "Delft").await, pause_of(&world, "Leiden").await);
        // A second passes before one that did not answer is asked again.
        assert!((1_900..=2_100).contains(&own), "{own} ms");
        assert!((10_900..=11_100).contains(&common), "{common} ms");
    });
}

#[test]
fn a_site_that_jobs_are_placed_at_is_asked_before_what_it_said_expires() {
    paused(|| async {
        let world = World::new(&["Delft", "Leiden"]);
        world.settle().await;
        let (busy, idle) = (asked_at(&world, "Leiden"), asked_at(&world, "Delft"));
        world.add_file("input", content(1), &["Leiden"]).await;
        world.place_job(1, content(1), "Leiden").await;
        let expiry = world.shared.settings.information_expiry.0;
        world.until("it is asked again", |w| asked_at(w, "Leiden") > busy).await;
        let pause = asked_at(&world, "Leiden") - busy;
        assert!(pause < expiry, "{pause} ms");
        tokio::time::sleep(Duration::from_millis(3 * expiry)).await;
        assert_eq!(asked_at(&world, "Delft"), idle, "nobody needs to know");
        let age = world.shared.clock.now().0 - asked_at(&world, "Leiden");
        assert!(age < expiry, "{age} ms");
    });
}
