//! The `[[link]]` tables and `[network]`.

use std::collections::BTreeMap;

use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, DurationMs};
use toml::de::DeValue;

use super::super::grid_table::{GridFileValue, GridTable, read_bool, read_parsed, read_text};
use super::super::problems::suggest_name;
use super::super::{GridLink, NetworkDefaults, grid_quantity};

pub(super) fn read_bandwidth(value: &DeValue<'_>) -> Result<BitsPerSecond, String> {
    grid_quantity::parse_bandwidth(read_text(value)?)
}

pub(super) fn read_length(value: &DeValue<'_>) -> Result<DurationMs, String> {
    grid_quantity::parse_length(read_text(value)?)
}

/// Reads `[network]`, which may be left out.
pub(super) fn read_network_defaults(root: &GridTable<'_, '_>) -> Option<NetworkDefaults> {
    let otherwise = NetworkDefaults::default();
    if !root.has_key("network") {
        return Some(otherwise);
    }
    let table = root.sub_table("network", "[network]".into())?;
    table.allow_only(&["default_bandwidth", "default_latency"]);
    let given = table.value_or("default_bandwidth", otherwise.bandwidth, read_bandwidth);
    let latency = table.value_or("default_latency", otherwise.latency, read_length);
    Some(NetworkDefaults {
        bandwidth: given?,
        latency: latency?,
    })
}

/// Reads all links; the problems of wrong ones are recorded, and they are left out.
pub(super) fn read_links(
    root: &GridTable<'_, '_>,
    names: &BTreeMap<SiteName, usize>,
    otherwise: NetworkDefaults,
) -> Vec<GridLink> {
    let mut directions = BTreeMap::new();
    let tables = root.sub_tables("link");
    let links = tables
        .iter()
        .flatten()
        .map(|table| read_link(table, names, otherwise, &mut directions));
    links.flatten().collect()
}

/// The lines on which links in each direction are given.
type LinkDirectionLines = BTreeMap<(SiteName, SiteName), usize>;

fn read_link(
    table: &GridTable<'_, '_>,
    names: &BTreeMap<SiteName, usize>,
    otherwise: NetworkDefaults,
    directions: &mut LinkDirectionLines,
) -> Option<GridLink> {
    table.allow_only(&[
        "from",
        "to",
        "bandwidth",
        "believed",
        "latency",
        "both_ways",
    ]);
    let from = read_end(table, "from", names);
    let to = read_end(table, "to", names);
    let carried = table.required_value("bandwidth", read_bandwidth);
    let carries = carried
        .as_ref()
        .map_or(otherwise.bandwidth, |carried| carried.value);
    let believed = table.value_or("believed", carries, read_bandwidth);
    let latency = table.value_or("latency", otherwise.latency, read_length);
    let both_ways = table.value_or("both_ways", true, read_bool);
    let from = from?;
    let to = to?;
    let both_ways = both_ways?;
    if from.value == to.value {
        let message = format!("{} leads from {} to itself", table.title(), to.value);
        table.add_problem(&to.at, message, "name two sites");
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
    check_directions(table, &link, directions);
    Some(link)
}

/// Records a problem if an earlier link has the same direction.
fn check_directions(
    table: &GridTable<'_, '_>,
    link: &GridLink,
    directions: &mut LinkDirectionLines,
) {
    let there = (link.from.clone(), link.to.clone());
    let back = link.both_ways.then(|| (link.to.clone(), link.from.clone()));
    let line = table.line_at(table.table_span());
    for direction in std::iter::once(there).chain(back) {
        let (from, to) = direction.clone();
        if let Some(first) = directions.insert(direction, line) {
            let message =
                format!("the link from {from} to {to} is given twice, first on line {first}");
            table.add_problem(
                table.table_span(),
                message,
                "leave one out, or set both_ways = false",
            );
        }
    }
}

fn read_end(
    table: &GridTable<'_, '_>,
    key: &str,
    names: &BTreeMap<SiteName, usize>,
) -> Option<GridFileValue<SiteName>> {
    let end = table.required_value(key, read_parsed::<SiteName>)?;
    if names.contains_key(&end.value) {
        return Some(end);
    }
    let known: Vec<&str> = names.keys().map(SiteName::as_str).collect();
    let message = format!(
        "{key} in {}: there is no site {:?}",
        table.title(),
        end.value
    );
    table.add_problem(&end.at, message, suggest_name(end.value.as_str(), &known));
    None
}
