//! The `[[link]]` tables and `[network]`.

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, DurationMs};
use toml::de::DeValue;

use super::super::grid_table::{GridTable, Placed, parsed, text, yes_or_no};
use super::super::problems::instead;
use super::super::{GridLink, NetworkDefaults, grid_quantity};

pub(super) fn bandwidth(value: &DeValue<'_>) -> Result<BitsPerSecond, String> {
    grid_quantity::bandwidth(text(value)?)
}

pub(super) fn length(value: &DeValue<'_>) -> Result<DurationMs, String> {
    grid_quantity::length(text(value)?)
}

/// Reads `[network]`, which may be left out.
pub(super) fn defaults(root: &GridTable<'_, '_>) -> Option<NetworkDefaults> {
    let otherwise = NetworkDefaults::default();
    if !root.has("network") {
        return Some(otherwise);
    }
    let table = root.table("network", "[network]".into())?;
    table.only(&["default_bandwidth", "default_latency"]);
    let given = table.or("default_bandwidth", otherwise.bandwidth, bandwidth);
    let latency = table.or("default_latency", otherwise.latency, length);
    Some(NetworkDefaults {
        bandwidth: given?,
        latency: latency?,
    })
}

/// Reads all links; the problems of wrong ones are recorded, and they are left out.
pub(super) fn links(
    root: &GridTable<'_, '_>,
    names: &BTreeMap<SiteName, usize>,
    otherwise: NetworkDefaults,
) -> Vec<GridLink> {
    let mut directions = BTreeMap::new();
    let tables = root.tables("link");
    let links = tables
        .iter()
        .flatten()
        .map(|table| link(table, names, otherwise, &mut directions));
    links.flatten().collect()
}

/// The lines on which links in each direction are given.
type Directions = BTreeMap<(SiteName, SiteName), usize>;

fn link(
    table: &GridTable<'_, '_>,
    names: &BTreeMap<SiteName, usize>,
    otherwise: NetworkDefaults,
    directions: &mut Directions,
) -> Option<GridLink> {
    table.only(&[
        "from",
        "to",
        "bandwidth",
        "believed",
        "latency",
        "both_ways",
    ]);
    let from = end(table, "from", names);
    let to = end(table, "to", names);
    let carried = table.required("bandwidth", bandwidth);
    let carries = carried
        .as_ref()
        .map_or(otherwise.bandwidth, |carried| carried.value);
    let believed = table.or("believed", carries, bandwidth);
    let latency = table.or("latency", otherwise.latency, length);
    let both_ways = table.or("both_ways", true, yes_or_no);
    let from = from?;
    let to = to?;
    let both_ways = both_ways?;
    if from.value == to.value {
        let message = format!("{} leads from {} to itself", table.title(), to.value);
        table.wrong(&to.at, message, "name two sites");
        return None;
    }
    let link = GridLink {
        from: from.value,
        to: to.value,
        bandwidth: carried?.value,
        believed: believed?,
        latency: latency?,
        both_ways,
    };
    note_directions(table, &link, directions);
    Some(link)
}

/// Records a problem if an earlier link has the same direction.
fn note_directions(table: &GridTable<'_, '_>, link: &GridLink, directions: &mut Directions) {
    let there = (link.from.clone(), link.to.clone());
    let back = link.both_ways.then(|| (link.to.clone(), link.from.clone()));
    let line = table.line(table.at());
    for direction in std::iter::once(there).chain(back) {
        let (from, to) = direction.clone();
        if let Some(first) = directions.insert(direction, line) {
            let message =
                format!("the link from {from} to {to} is given twice, first on line {first}");
            table.wrong(
                table.at(),
                message,
                "leave one out, or set both_ways = false",
            );
        }
    }
}

fn end(
    table: &GridTable<'_, '_>,
    key: &str,
    names: &BTreeMap<SiteName, usize>,
) -> Option<Placed<SiteName>> {
    let end = table.required(key, parsed::<SiteName>)?;
    if names.contains_key(&end.value) {
        return Some(end);
    }
    let known: Vec<&str> = names.keys().map(SiteName::as_str).collect();
    let message = format!(
        "{key} in {}: there is no site {:?}",
        table.title(),
        end.value
    );
    table.wrong(&end.at, message, instead(end.value.as_str(), &known));
    None
}
