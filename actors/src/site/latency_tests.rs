//! How far sites are from each other, with sites in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use cospan_domain::ids::HostName;
use cospan_domain::units::{BitsPerSecond, DurationMs, DurationUs};

use crate::actor_settings::ActorSettings;
use crate::link_measurements::LinkFigures;
use crate::supervision::ActorKind;
use crate::transfer::testing::{MemoryWorld, run_paused, site};

const NAMES: [&str; 3] = ["Delft", "Leiden", "Utrecht"];
const MINUTE: Duration = Duration::from_secs(60);

fn host(name: &str) -> HostName {
    HostName::new(&format!("fs0.{name}.nl")).expect("a host")
}

/// Each site has a host and a link to each other one, of which 9 ms are configured.
fn link_all_sites(settings: &mut ActorSettings) {
    settings.network.hosts = NAMES.map(|name| (site(name), host(name))).into();
    let pairs = settings
        .links
        .keys()
        .map(|pair| (pair.clone(), DurationMs(9)));
    settings.network.latencies = pairs.collect();
}

/// A message from Delft takes 2 ms to Leiden and back, and as long to Utrecht.
fn measuring_world(change: impl FnOnce(&mut ActorSettings)) -> MemoryWorld {
    let world = MemoryWorld::with_settings(&NAMES, |settings| {
        link_all_sites(settings);
        change(settings);
    });
    for from in NAMES {
        let trips = NAMES.map(|to| (host(to), Some(DurationUs(2_000))));
        world.fake_site(from).lock_state().round_trips = BTreeMap::from(trips);
    }
    world
}

fn link_between(world: &MemoryWorld, from: &str, to: &str) -> LinkFigures {
    world
        .shared
        .links
        .known_link(&site(from), &site(to))
        .expect("a link")
}

fn latency_between(world: &MemoryWorld, from: &str, to: &str) -> Option<u64> {
    link_between(world, from, to)
        .latency
        .map(|latency| latency.0)
}

/// How often a site was told to measure its way to another.
fn measurements_asked(world: &MemoryWorld, from: &str, to: &str) -> usize {
    world
        .fake_site(from)
        .lock_state()
        .measured
        .iter()
        .filter(|(asked, _)| *asked == host(to))
        .count()
}

#[test]
fn sites_measure_each_other_once_an_interval_one_after_another() {
    run_paused(|| async {
        let world = measuring_world(|_| ());
        tokio::time::sleep(30 * MINUTE + Duration::from_secs(1)).await;
        let mut times = Vec::new();
        for from in NAMES {
            for to in NAMES.into_iter().filter(|to| *to != from) {
                assert_eq!(measurements_asked(&world, from, to), 3, "{from} to {to}");
                assert_eq!(
                    latency_between(&world, from, to),
                    Some(1_000),
                    "half of it: {from} to {to}"
                );
            }
            assert_eq!(measurements_asked(&world, from, from), 0);
            times.extend(
                world
                    .fake_site(from)
                    .lock_state()
                    .measured
                    .iter()
                    .map(|(_, at)| *at),
            );
        }
        times.sort();
        let least = times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .min()
            .expect("several");
        assert!(
            least > Duration::from_secs(90),
            "{least:?} between two of all sites"
        );
        let measured = link_between(&world, "Delft", "Leiden")
            .measured_latency
            .expect("it was measured");
        assert_eq!(measured.measurements, 3);
    });
}

#[test]
fn a_host_that_never_answers_delays_nobody_and_is_nobodys_error() {
    run_paused(|| async {
        let world =
            measuring_world(|settings| settings.network.latency_interval = DurationMs(20_000));
        world
            .fake_site("Delft")
            .lock_state()
            .round_trips
            .insert(host("Leiden"), None);
        world
            .fake_site("Delft")
            .lock_state()
            .round_trips
            .remove(&host("Utrecht"));
        world
            .wait_until("both were asked", |w| {
                measurements_asked(w, "Delft", "Utrecht") > 1
            })
            .await;
        for name in NAMES {
            let record = world.shared.view.load().sites.get(&site(name)).cloned();
            assert_eq!(
                record.map_or(0, |record| record.consecutive_errors),
                0,
                "{name}"
            );
        }
        assert_eq!(
            latency_between(&world, "Delft", "Leiden"),
            Some(9_000),
            "what is configured"
        );
        assert_eq!(
            latency_between(&world, "Delft", "Utrecht"),
            Some(9_000),
            "what is configured"
        );
        assert_eq!(latency_between(&world, "Leiden", "Delft"), Some(1_000));
        // While a measurement hangs, the site is asked for other things.
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        let hangs = measurements_asked(&world, "Delft", "Leiden");
        world
            .wait_until("the next one hangs", |w| {
                measurements_asked(w, "Delft", "Leiden") > hangs
            })
            .await;
        let age = || {
            let report = world
                .shared
                .live
                .site_report(&site("Delft"))
                .expect("a report");
            report
                .idle
                .as_ref()
                .map(|(asked_at, _)| *asked_at)
                .expect("it answered")
        };
        let began = age();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(age() > began, "it was asked for its load meanwhile");
        assert_eq!(
            measurements_asked(&world, "Delft", "Leiden"),
            hangs + 1,
            "one at a time"
        );
    });
}

#[test]
fn what_was_measured_counts_until_it_is_too_old() {
    run_paused(|| async {
        let world = measuring_world(|_| ());
        world
            .wait_until("it is measured", |w: &MemoryWorld| {
                link_between(w, "Delft", "Leiden")
                    .measured_latency
                    .is_some()
            })
            .await;
        for name in NAMES {
            world.fake_site(name).lock_state().round_trips.clear();
        }
        tokio::time::sleep(50 * MINUTE).await;
        assert_eq!(latency_between(&world, "Delft", "Leiden"), Some(1_000));
        tokio::time::sleep(15 * MINUTE).await;
        assert_eq!(
            latency_between(&world, "Delft", "Leiden"),
            Some(9_000),
            "as configured again"
        );
    });
}

#[test]
fn a_site_that_is_silent_is_told_to_measure_nothing() {
    run_paused(|| async {
        let world = measuring_world(|_| ());
        world.settle().await;
        world.fake_site("Leiden").lock_state().up = false;
        world.shared.live.set_placement_awaited(true);
        world.shared.actors.request_look_of_all(ActorKind::Cluster);
        world
            .wait_until("it is silent", |w: &MemoryWorld| {
                let report = w.shared.live.site_report(&site("Leiden"));
                report.is_some_and(|report| !report.contact.is_answering())
            })
            .await;
        let before = world.fake_site("Leiden").lock_state().measured.len();
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(
            world.fake_site("Leiden").lock_state().measured.len(),
            before
        );
        world.fake_site("Leiden").lock_state().up = true;
        world
            .wait_until("it measures", |w| {
                w.fake_site("Leiden").lock_state().measured.len() > before
            })
            .await;
    });
}

#[test]
fn without_a_host_a_link_or_an_interval_nothing_is_measured() {
    let off: [fn(&mut ActorSettings); 3] = [
        |settings| settings.network.hosts.clear(),
        |settings| settings.links.clear(),
        |settings| settings.network.latency_interval = DurationMs::ZERO,
    ];
    for change in off {
        run_paused(move || async move {
            let world = measuring_world(change);
            tokio::time::sleep(60 * MINUTE).await;
            assert!(
                NAMES
                    .iter()
                    .all(|name| world.fake_site(name).lock_state().measured.is_empty())
            );
        });
    }
}

#[test]
fn the_network_of_placement_follows_measurements_and_their_end() {
    run_paused(|| async {
        let world = measuring_world(|_| ());
        let slow = world.shared.links.network();
        world
            .wait_until("it is measured", |w: &MemoryWorld| {
                link_between(w, "Delft", "Leiden")
                    .measured_latency
                    .is_some()
            })
            .await;
        assert_ne!(world.shared.links.network(), slow);
        let bandwidth = slow.bandwidth(&site("Delft"), &site("Leiden"));
        assert_eq!(
            bandwidth,
            BitsPerSecond(1_000_000),
            "which is another matter"
        );
        for name in NAMES {
            world.fake_site(name).lock_state().round_trips.clear();
        }
        tokio::time::sleep(70 * MINUTE).await;
        assert_eq!(
            world.shared.links.network(),
            slow,
            "all is as configured again"
        );
    });
}
