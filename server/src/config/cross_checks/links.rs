//! The links between sites: each is valid, and none is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use super::CrossChecker;
use crate::config::config_problem::nearest_name;
use crate::config::sections::Site;
use crate::site_kinds::is_of_this_machine;

/// Pairs without a link that a message names; of more it gives the number.
const NAMED: usize = 3;

impl CrossChecker<'_> {
    /// Checks that links join existing sites, and that each is given once.
    pub(super) fn check_links(&mut self) {
        let names: Vec<&str> = self
            .config
            .site
            .iter()
            .map(|site| site.name.as_str())
            .collect();
        if names.is_empty() && self.places.contains_key("site[0]") {
            return;
        }
        let mut seen = BTreeMap::new();
        for (i, link) in self.config.link.iter().enumerate() {
            for (key, name) in [("from", &link.from), ("to", &link.to)] {
                if names.contains(&name.as_str()) {
                    continue;
                }
                let message = format!("{key} of [[link]] number {}: no site {name:?}", i + 1);
                let remedy = match nearest_name(name.as_str(), names.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("add a [[site]] with name = {:?}", name.as_str()),
                };
                self.add_error(&format!("link[{i}].{key}"), message, remedy);
            }
            if link.from == link.to {
                let message = format!("[[link]] number {} goes from a site to itself", i + 1);
                self.add_error(&format!("link[{i}].to"), message, "name two sites");
            }
            let mut directions = vec![(&link.from, &link.to)];
            if link.both_ways && link.from != link.to {
                directions.push((&link.to, &link.from));
            }
            for direction in directions {
                if let Some(first) = seen.insert(direction, i) {
                    let (from, to) = direction;
                    let message = format!(
                        "the link {from} to {to} is given twice (also as number {})",
                        first + 1
                    );
                    self.add_error(
                        &format!("link[{i}].from"),
                        message,
                        "drop one, or set both_ways = false",
                    );
                }
            }
        }
    }

    /// Warns of sites between which nothing can be copied, either way. A link that carries nothing
    /// says that this is intended, and between local sites of this machine the link is measured.
    pub(super) fn check_unlinked(&mut self) {
        let links = self.config.link.iter();
        let linked: BTreeSet<_> = links
            .flat_map(|link| [(&link.from, &link.to), (&link.to, &link.from)])
            .collect();
        let sites = &self.config.site;
        let mut missing = Vec::new();
        for (i, one) in sites.iter().enumerate() {
            missing.extend(
                sites[i + 1..]
                    .iter()
                    .filter(|other: &&Site| {
                        let here = is_of_this_machine(one) && is_of_this_machine(other);
                        let by_ends = one
                            .bandwidth_to(other)
                            .or(other.bandwidth_to(one))
                            .is_some();
                        !here && !by_ends && !linked.contains(&(&one.name, &other.name))
                    })
                    .map(|other| (one, other)),
            );
        }
        let Some(&(one, other)) = missing.first() else {
            return;
        };
        let named: Vec<String> = missing
            .iter()
            .take(NAMED)
            .map(|(one, other)| format!("{} and {}", one.name, other.name))
            .collect();
        let more = missing.len() - named.len();
        let more = if more > 0 {
            format!(", and {more} pairs more")
        } else {
            String::new()
        };
        let message = format!(
            "no [[link]] between {}{more}: what lies at one of them never gets to the other",
            named.join(", ")
        );
        let remedy = format!(
            "add a [[link]] with from = {:?}, to = {:?} and its bandwidth, or give both an upload \
             and a download; \"0bit/s\" says that nothing is to be copied",
            one.name.as_str(),
            other.name.as_str()
        );
        self.add_warning("site[0].name", message, remedy);
    }
}
