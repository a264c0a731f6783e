//! The processors of a script that takes whole nodes: as many as these have wherever it may go.

use cospan_api::v1::site::SiteReport;

use crate::cli::context::CommandContext;

/// Returns the smallest node that any site of the server has in these partitions (separated by
/// commas), or in its default partition; with the partition and its site. A server that cannot be
/// asked is ignored: the submission will report the reason.
pub(super) fn smallest_partition_node(
    context: &CommandContext,
    names: Option<&str>,
) -> Option<(u32, String)> {
    let sites = context.client().ok()?.list_sites().ok()?.sites;
    smallest_of_sites(&sites, names)
}

fn smallest_of_sites(sites: &[SiteReport], names: Option<&str>) -> Option<(u32, String)> {
    let mut smallest: Option<(u32, String)> = None;
    for site in sites {
        let Some(names) = names.or(site.default_partition.as_deref()) else {
            continue;
        };
        for name in names.split(',') {
            let Some(&processors) = site.smallest_nodes.get(name) else {
                continue;
            };
            if smallest
                .as_ref()
                .is_none_or(|(least, _)| processors < *least)
            {
                smallest = Some((processors, format!("partition {name} of {}", site.name)));
            }
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, default: &str, nodes: &[(&str, u32)]) -> SiteReport {
        SiteReport {
            name: name.into(),
            default_partition: Some(default.into()),
            smallest_nodes: nodes.iter().map(|(p, n)| ((*p).into(), *n)).collect(),
            ..SiteReport::default()
        }
    }

    #[test]
    fn the_smallest_that_any_of_its_partitions_has_counts() {
        let sites = [
            site("alpha", "normal", &[("normal", 64), ("short", 16)]),
            site("beta", "short", &[("long", 128), ("short", 48)]),
        ];
        let found = |names| smallest_of_sites(&sites, names);
        assert_eq!(found(None), Some((48, "partition short of beta".into())));
        assert_eq!(
            found(Some("short")),
            Some((16, "partition short of alpha".into()))
        );
        assert_eq!(
            found(Some("long,normal")),
            Some((64, "partition normal of alpha".into()))
        );
        assert_eq!(found(Some("gpu")), None);
    }
}
