//! Resources of the sites of this machine: as configured, else as found. Sites that share the
//! machine share what was found, so that nothing counts twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::resources::Resources;
use cospan_domain::units::Bytes;
use cospan_sites::local_site::machine::{MachineResources, free_space_for};
use tracing::{info, warn};

use crate::config::Config;
use crate::config::sections::Site;
use crate::site_kinds::is_of_this_machine;

/// All resources of each site of this machine.
pub(super) fn site_totals(
    config: &Config,
    machine: MachineResources,
) -> BTreeMap<SiteName, Resources> {
    let here: Vec<&Site> = config
        .site
        .iter()
        .filter(|site| is_of_this_machine(site))
        .collect();
    let mut totals: BTreeMap<SiteName, Resources> = here
        .iter()
        .map(|site| (site.name.clone(), site.total_resources()))
        .collect();
    share_found(
        &mut totals,
        &here,
        "memory_mb",
        machine.memory.0 / Site::MB,
        |site| site.memory.map(in_mb),
    );
    share_found(&mut totals, &here, "gpus", machine.gpus, |site| site.gpus);
    for (sites, room) in group_by_file_system(&here) {
        share_found(&mut totals, &sites, "disk_mb", in_mb(room), |site| {
            site.disk.map(in_mb)
        });
    }
    for site in here
        .iter()
        .filter(|site| site.memory.is_none() || site.disk.is_none() || site.gpus.is_none())
    {
        let all = totals.get(&site.name).map(|total| &total.others);
        info!(
            site = %site.name,
            resources = ?all,
            "resources that are not configured were detected"
        );
    }
    totals
}

fn in_mb(size: Bytes) -> u64 {
    size.0 / Site::MB
}

/// Divides what was found of a resource, less what the configuration gives to other sites, among
/// those whose configuration says nothing of it: the same to each, and the remainder to the first
/// ones.
fn share_found(
    totals: &mut BTreeMap<SiteName, Resources>,
    sites: &[&Site],
    resource: &str,
    found: u64,
    given: impl Fn(&Site) -> Option<u64>,
) {
    let taken: u64 = sites
        .iter()
        .filter_map(|site| given(site))
        .fold(0, u64::saturating_add);
    let silent: Vec<&Site> = sites
        .iter()
        .copied()
        .filter(|site| given(site).is_none())
        .collect();
    let left = found.saturating_sub(taken);
    let count = silent.len() as u64;
    for (position, site) in silent.into_iter().enumerate() {
        let more = u64::from((position as u64) < left % count);
        let part = left / count + more;
        if let Some(total) = totals.get_mut(&site.name).filter(|_| part > 0) {
            total.others.insert(Arc::from(resource), part);
        }
    }
}

/// Sites by their file system, with its free room.
fn group_by_file_system<'c>(sites: &[&'c Site]) -> Vec<(Vec<&'c Site>, Bytes)> {
    let mut found: BTreeMap<u64, (Vec<&Site>, Bytes)> = BTreeMap::new();
    for &site in sites {
        match free_space_for(&site.root) {
            Ok((device, room)) => found
                .entry(device)
                .or_insert((Vec::new(), room))
                .0
                .push(site),
            Err(problem) => {
                warn!(site = %site.name, %problem, "cannot find out how much disk it has");
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Local sites with these lines each.
    fn totals_of(sites: &[&str]) -> Vec<Resources> {
        let home = tempfile::tempdir().unwrap();
        let text: String = sites.iter().enumerate().map(|(n, lines): (usize, &&str)| {
            let root = home.path().join(format!("s{n}"));
            format!(
                "[[site]]\nname = \"s{n}\"\nkind = \"local\"\nroot = {root:?}\nprocessors = 2\n{lines}\n"
            )
        }).collect();
        let config = Config::parse(Path::new("cospan.toml"), &text)
            .unwrap()
            .config;
        let machine = MachineResources {
            memory: Bytes(8_000_000_000),
            gpus: 3,
        };
        site_totals(&config, machine).into_values().collect()
    }

    #[test]
    fn a_site_that_says_nothing_has_what_its_machine_has() {
        let total = &totals_of(&[""])[0];
        assert_eq!((total.other("memory_mb"), total.other("gpus")), (8_000, 3));
        assert!(total.other("disk_mb") > 0);
    }

    #[test]
    fn what_is_configured_counts_and_the_rest_is_shared_by_the_others() {
        let totals = totals_of(&["memory = \"2GB\"\ngpus = 0\ndisk = \"1GB\"", "", ""]);
        let of = |name: &str| {
            totals
                .iter()
                .map(|total| total.other(name))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("memory_mb"), [2_000, 3_000, 3_000]);
        assert_eq!(of("gpus"), [0, 2, 1], "no processor is promised twice");
        assert_eq!(of("disk_mb")[0], 1_000);
        // More is configured than there is: nothing is left.
        let totals = totals_of(&["memory = \"9GB\"", ""]);
        assert_eq!(totals[1].other("memory_mb"), 0);
    }
}
