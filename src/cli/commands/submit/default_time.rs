//! The wall time of a script that gives none: as long as Slurm would let it run.

use cospan_domain::units::DurationMs;

use crate::cli::context::CommandContext;
use cospan_api::v1::site::SiteReport;

/// Returns the longest default time that any site of the server has for these partitions (separated
/// by commas), or for the default partition; with the partition and its site. A server that cannot
/// be asked is ignored: the submission will report the reason.
pub(super) fn longest_partition_time(
    context: &CommandContext,
    names: Option<&str>,
) -> Option<(DurationMs, String)> {
    let sites = context.client().ok()?.list_sites().ok()?.sites;
    longest_of_sites(&sites, names)
}

fn longest_of_sites(sites: &[SiteReport], names: Option<&str>) -> Option<(DurationMs, String)> {
    sites
        .iter()
        .filter_map(|site: &SiteReport| {
            let names = names.or(site.default_partition.as_deref())?;
            let known = names.split(',').filter_map(|name| {
                let ms = site.default_times_ms.get(name)?;
                Some((
                    DurationMs(*ms),
                    format!("partition {name} of {}", site.name),
                ))
            });
            known.max_by_key(|(time, _)| *time)
        })
        .max_by_key(|(time, _)| *time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, default: &str, minutes: &[(&str, u64)]) -> SiteReport {
        SiteReport {
            name: name.into(),
            default_partition: Some(default.into()),
            default_times_ms: minutes
                .iter()
                .map(|(p, n)| ((*p).into(), n * 60_000))
                .collect(),
            ..SiteReport::default()
        }
    }

    #[test]
    fn the_longest_that_any_of_its_partitions_gives_counts() {
        let sites = [
            site("alpha", "normal", &[("normal", 60), ("short", 10)]),
            site("beta", "short", &[("long", 900), ("short", 20)]),
            SiteReport {
                name: "here".into(),
                ..SiteReport::default()
            },
        ];
        let told =
            |names| longest_of_sites(&sites, names).map(|(time, whose)| (time.0 / 60_000, whose));
        assert_eq!(told(None), Some((60, "partition normal of alpha".into())));
        assert_eq!(
            told(Some("short")),
            Some((20, "partition short of beta".into()))
        );
        assert_eq!(
            told(Some("short,long")),
            Some((900, "partition long of beta".into()))
        );
        assert_eq!(told(Some("gpu")), None);
    }
}
