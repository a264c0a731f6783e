//! Links between sites as configured: each by itself, or by what sites send and receive.

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::units::BitsPerSecond;

use crate::config::Config;
use crate::config::sections::{Link, Site};

/// A property of every link, in each of its directions.
pub(super) fn link_property<T: Copy>(
    config: &Config,
    of: impl Fn(&Link) -> T,
) -> BTreeMap<(SiteName, SiteName), T> {
    let mut links = BTreeMap::new();
    for link in &config.link {
        links.insert((link.from.clone(), link.to.clone()), of(link));
        if link.both_ways {
            links.insert((link.to.clone(), link.from.clone()), of(link));
        }
    }
    links
}

/// Pairs of sites without a link that have an `upload` and a `download`, in each direction.
fn pairs_by_ends(config: &Config) -> impl Iterator<Item = (&Site, &Site, BitsPerSecond)> {
    let given = link_property(config, |_| ());
    let pairs = config
        .site
        .iter()
        .flat_map(|from| config.site.iter().map(move |to| (from, to)));
    let by_ends = pairs.filter_map(|(from, to)| Some((from, to, from.bandwidth_to(to)?)));
    by_ends.filter(move |(from, to, _)| {
        from.name != to.name && !given.contains_key(&(from.name.clone(), to.name.clone()))
    })
}

/// The bandwidth of each pair of sites, as given or by their ends.
pub(super) fn bandwidths(config: &Config) -> BTreeMap<(SiteName, SiteName), BitsPerSecond> {
    let mut all = link_property(config, |link| link.bandwidth);
    let ends =
        pairs_by_ends(config).map(|(from, to, rate)| ((from.name.clone(), to.name.clone()), rate));
    all.extend(ends);
    all
}

/// Bandwidths at which sites send and that others cannot receive.
pub(super) fn upload_limits(config: &Config) -> BTreeMap<(SiteName, SiteName), BitsPerSecond> {
    pairs_by_ends(config)
        .filter_map(|(from, to, _): (&Site, &Site, _)| {
            Some(((from.name.clone(), to.name.clone()), from.upload?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Sites with what they send and receive, in Mbit/s.
    fn config(links: &str) -> Config {
        let sites = [
            ("a", "upload = \"100Mbit/s\"\ndownload = \"50Mbit/s\""),
            ("b", "upload = \"20Mbit/s\"\ndownload = \"60Mbit/s\""),
            ("c", "upload = \"30Mbit/s\""),
        ];
        let text = sites
            .map(|(name, ends): (&str, &str)| {
                let of = format!(
                    "name = {name:?}\nkind = \"local\"\nroot = \"/{name}\"\nprocessors = 1\n"
                );
                format!("[[site]]\n{of}{ends}\n")
            })
            .concat()
            + links;
        Config::parse(Path::new("cospan.toml"), &text)
            .unwrap()
            .config
    }

    fn told(all: &BTreeMap<(SiteName, SiteName), BitsPerSecond>) -> Vec<(&str, &str, u64)> {
        let told = all
            .iter()
            .map(|((from, to), rate)| (from.as_str(), to.as_str(), rate.0));
        told.map(|(from, to, rate)| (from, to, rate / 1_000_000))
            .collect()
    }

    #[test]
    fn between_two_sites_counts_the_lesser_of_what_one_sends_and_one_receives() {
        let config = config("");
        let expected = [
            ("a", "b", 60),
            ("b", "a", 20),
            ("c", "a", 30),
            ("c", "b", 30),
        ];
        assert_eq!(
            told(&bandwidths(&config)),
            expected,
            "nobody knows what c receives"
        );
        let sends = [
            ("a", "b", 100),
            ("b", "a", 20),
            ("c", "a", 30),
            ("c", "b", 30),
        ];
        assert_eq!(told(&upload_limits(&config)), sends);
    }

    #[test]
    fn a_link_that_is_given_counts_instead_of_the_ends() {
        let link =
            "[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth = \"7Mbit/s\"\nboth_ways = false\n";
        let config = config(link);
        assert_eq!(told(&bandwidths(&config))[0], ("a", "b", 7));
        assert!(
            !told(&upload_limits(&config))
                .iter()
                .any(|(from, to, _)| (*from, *to) == ("a", "b"))
        );
    }
}
