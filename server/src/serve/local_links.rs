//! Links between sites of this machine that nobody configured: as fast as its disk.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use cospan_domain::units::{BitsPerSecond, DurationMs};
use tracing::{info, warn};

use crate::config::Config;
use crate::config::sections::{Link, Site};
use crate::site_kinds::is_of_this_machine;

/// Bytes written for one measurement.
const BYTES: usize = 2 << 20;
/// Measurements of which the best counts: other programs use the disk too.
const TIMES: usize = 3;

/// The configuration, with a link to each site of this machine from each other one, unless one is
/// given.
pub(super) fn with_local_links(config: &Config) -> Config {
    let mut config = config.clone();
    let links = config.link.iter();
    let given: BTreeSet<_> = links
        .flat_map(|link| [(&link.from, &link.to), (&link.to, &link.from)])
        .collect();
    let here = config.site.iter().filter(|site| is_of_this_machine(site));
    let mut added = Vec::new();
    for to in here.clone() {
        let mut from = here
            .clone()
            .filter(|from: &&Site| {
                let is_given =
                    given.contains(&(&from.name, &to.name)) || from.bandwidth_to(to).is_some();
                from.name != to.name && !is_given
            })
            .peekable();
        if from.peek().is_none() {
            continue;
        }
        let bandwidth = match measure_rate(&to.root) {
            Ok(bandwidth) => bandwidth,
            Err(problem) => {
                warn!(
                    site = %to.name,
                    %problem,
                    "cannot measure the speed of its disk: give it a [[link]]"
                );
                continue;
            }
        };
        info!(site = %to.name, bits_per_second = bandwidth.0, "no [[link]]: its disk was measured");
        added.extend(from.map(|from| Link {
            from: from.name.clone(),
            to: to.name.clone(),
            bandwidth,
            latency: DurationMs::ZERO,
            both_ways: false,
        }));
    }
    config.link.extend(added);
    config
}

/// The rate at which files reach the disk below this directory.
fn measure_rate(root: &Path) -> io::Result<BitsPerSecond> {
    let path = root.join(format!(".rate-{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    // The file has no name any more, so nothing of it is left whatever happens.
    std::fs::remove_file(&path)?;
    let piece = vec![0x5a; BYTES];
    let mut best = 0;
    for _ in 0..TIMES {
        best = best.max(time_write(&mut file, &piece)?);
    }
    Ok(BitsPerSecond(best))
}

fn time_write(file: &mut File, piece: &[u8]) -> io::Result<u64> {
    let begun = Instant::now();
    file.write_all(piece)?;
    file.sync_data()?;
    let microseconds = begun.elapsed().as_micros().max(1);
    let bits = piece.len() as u128 * 8;
    Ok(u64::try_from(bits * 1_000_000 / microseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Local sites with these names, and links.
    fn config(home: &Path, links: &str) -> Config {
        let site = |name: &str| {
            let root = home.join(name);
            std::fs::create_dir_all(&root).unwrap();
            format!(
                "[[site]]\nname = {name:?}\nkind = \"local\"\nroot = {root:?}\nprocessors = 1\n"
            )
        };
        let text = format!("{}{}{}{links}", site("a"), site("b"), site("c"));
        Config::parse(Path::new("cospan.toml"), &text)
            .unwrap()
            .config
    }

    fn pairs(config: &Config) -> Vec<(String, String)> {
        let links = config
            .link
            .iter()
            .filter(|link| link.bandwidth > BitsPerSecond(0));
        links
            .map(|link| (link.from.to_string(), link.to.to_string()))
            .collect()
    }

    #[test]
    fn sites_of_this_machine_that_no_link_joins_get_one_that_was_measured() {
        let home = tempfile::tempdir().unwrap();
        let completed = with_local_links(&config(home.path(), ""));
        assert_eq!(pairs(&completed).len(), 6, "{:?}", completed.link);
        let left: Vec<_> = std::fs::read_dir(home.path().join("a")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn what_was_configured_between_two_sites_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let link = |to: &str, bandwidth: &str| {
            format!(
                "[[link]]\nfrom = \"a\"\nto = {to:?}\nbandwidth = {bandwidth:?}\nboth_ways = false\n"
            )
        };
        let links = link("b", "1Mbit/s") + &link("c", "0bit/s");
        let completed = with_local_links(&config(home.path(), &links));
        let pairs = pairs(&completed);
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "b"), ("c", "b"), ("b", "c")]);
    }
}
