//! Sites measure how far others are from them: each pair once in an interval, one after
//! another, so that not all measure at once. What comes back is what the link is shown to have;
//! what does not changes nothing, and says nothing about the site that measured.

use std::collections::BTreeMap;

use anyhow::Result;
use cospan_domain::ids::{HostName, SiteName};
use cospan_domain::units::{DurationMs, DurationUs};
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{BEGINS, Scene, Stage, site_name};
use crate::world::trouble::Trouble;

/// Never more often than this.
const LEAST_STEP: u64 = 1_000;

/// Who measures whom when, in milliseconds after the beginning.
fn turns(site: usize, sites: usize, hosts: &[usize], interval: u64, end: u64) -> Vec<(u64, usize)> {
    let peers: Vec<usize> = hosts.iter().copied().filter(|peer| *peer != site).collect();
    if interval == 0 || peers.is_empty() {
        return Vec::new();
    }
    let step = (interval / peers.len() as u64).max(LEAST_STEP);
    let first = step * (site as u64 + 1) / sites as u64;
    let times = (0..).map(|turn| first + turn * step).take_while(|at| *at <= end);
    times.zip(peers.into_iter().cycle()).collect()
}

pub(super) fn wrong(chance: &mut StdRng) -> Result<Vec<String>> {
    let sites = chance.random_range(2..=4);
    let mut stage = Stage::of(&vec![4; sites], chance.random())?;
    let hosts: Vec<usize> = (0..sites).filter(|_| chance.random_bool(0.8)).collect();
    let interval = match chance.random_range(0..6) {
        0 => 0,
        1 => chance.random_range(1..=2_000),
        _ => chance.random_range(2_000..=60_000),
    };
    let network = &mut stage.settings.network;
    network.latency_interval = DurationMs(interval);
    for host in &hosts {
        let name = site_name(*host)?;
        network.hosts.insert(name.clone(), HostName::new(name.as_str())?);
    }
    let pairs: Vec<(SiteName, SiteName)> = stage.settings.links.keys().cloned().collect();
    for pair in pairs {
        stage.ways.insert(pair, DurationMs(chance.random_range(1..=50)));
    }
    let end = (interval * chance.random_range(1..=4)).max(500) + chance.random_range(0..=3_000);
    let silent = chance.random_bool(0.5).then(|| chance.random_range(0..sites));
    let (silent_from, ways) = (chance.random_range(500..=end + 1), stage.ways.clone());
    stage.play(move |scene| async move {
        let now = scene.now().since(BEGINS).0;
        let silent = silent.map(|site| (silent_from.max(now + 1), site));
        if let Some((from, site)) = silent {
            scene.plan(DurationMs(from - now), site, Trouble::Silent(true))?;
        }
        let end = end.max(now);
        scene.reign.until(BEGINS + DurationMs(end)).await;
        scene.pass(DurationMs(0)).await;
        let mut answers = [0, 0];
        for site in 0..sites {
            let turns = turns(site, sites, &hosts, interval, end);
            check_site(&scene, site, &turns, &ways, silent, &mut answers)?;
        }
        scene.same("measured", scene.counted("round-trip", "ok"), answers[0]);
        scene.same("in vain", scene.counted("round-trip", "unknown"), answers[1]);
        Ok(())
    })
}

type Ways = BTreeMap<(SiteName, SiteName), DurationMs>;

fn check_site(
    scene: &Scene,
    site: usize,
    turns: &[(u64, usize)],
    ways: &Ways,
    silent: Option<(u64, usize)>,
    answers: &mut [u64; 2],
) -> Result<()> {
    let times: Vec<u64> = turns.iter().map(|(at, _)| *at).collect();
    let hushed = |at: u64, peer| silent.is_some_and(|(from, which)| at >= from && which == peer);
    // One that is silent itself keeps us waiting, and the next turn comes in its time.
    if silent.is_none_or(|(_, which)| which != site) {
        scene.same("turns", scene.asked_since(BEGINS, site, "round-trip")?, times);
    }
    let name = site_name(site)?;
    let mut measured = BTreeMap::new();
    for (at, peer) in turns.iter().filter(|(at, _)| !hushed(*at, site)) {
        let back = !hushed(*at, *peer);
        answers[usize::from(!back)] += 1;
        if back {
            let there = (name.clone(), site_name(*peer)?);
            let way = ways.get(&there).copied().unwrap_or_default();
            let home = ways.get(&(there.1.clone(), there.0)).copied().unwrap_or_default();
            measured.insert(there.1, (*at, DurationUs((way.0 + home.0) * 500)));
        }
    }
    for peer in turns.iter().map(|(_, peer)| *peer) {
        let peer = site_name(peer)?;
        let links = scene.reign.plane.links_to(&peer);
        let link = links.into_iter().find(|link| link.from == name);
        let shown = link.and_then(|link| link.measured_latency.map(|_| link.latency));
        // What was not measured for six intervals counts no more.
        let expiry = 6 * scene.reign.plane.shared().settings.network.latency_interval.0;
        let now = scene.now().since(BEGINS).0;
        let counts = measured.get(&peer).filter(|(at, _)| now < at + expiry);
        scene.same("latency", shown.flatten(), counts.map(|(_, latency)| *latency));
    }
    Ok(())
}
