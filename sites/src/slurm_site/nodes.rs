//! Slurm's reports of its nodes and of the account, as placement needs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::labels::{ANY, NODE_GPUS, NODE_MEMORY_MB, NODE_PROCESSORS, NODES, SiteLabels};

use crate::agent::SiteAgentAnswer;

/// The label that all sites under Slurm have, so that jobs can have options for them alone.
const LRM: (&str, &str) = ("lrm", "slurm");

/// The name by which disk is counted, in MB.
pub(super) const DISK: &str = "disk_mb";

/// A line of `sinfo`: nodes of a partition that are alike.
struct SinfoLine<'a> {
    partition: &'a str,
    is_default: bool,
    count: u64,
    processors: u64,
    memory_mib: u64,
    gres: &'a str,
    features: &'a str,
    /// Disk for temporary files that Slurm counts, in MiB.
    disk_mib: u64,
}

impl<'a> SinfoLine<'a> {
    /// Parses partition, nodes, processors, megabytes of memory, generic resources and features of
    /// each, and megabytes of its disk.
    fn parse_nodes(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, '|');
        let partition = fields.next()?;
        let count = fields.next()?;
        let processors = fields.next()?;
        let memory = fields.next()?;
        let gres = fields.next()?;
        let last = fields.next()?;
        let (features, disk) = last.rsplit_once('|').unwrap_or((last, "0"));
        Some(Self {
            partition: partition.strip_suffix('*').unwrap_or(partition),
            is_default: partition.ends_with('*'),
            count: count.parse().ok()?,
            processors: parse_at_least(processors),
            memory_mib: parse_at_least(memory),
            gres,
            features,
            disk_mib: parse_at_least(disk),
        })
    }

    fn gpu_count(&self) -> u64 {
        parse_gpus(self.gres)
            .map(|(_, count)| count)
            .fold(0, u64::saturating_add)
    }
}

/// Parses a number that may have a `+` behind it if it is the least of several.
pub(super) fn parse_at_least(text: &str) -> u64 {
    text.trim_end_matches('+').parse().unwrap_or(0)
}

fn to_megabytes(mebibytes: u64) -> u64 {
    let megabytes = u128::from(mebibytes) * (1 << 20) / 1_000_000;
    u64::try_from(megabytes).unwrap_or(u64::MAX)
}

fn all_nodes(answer: &SiteAgentAnswer) -> impl Iterator<Item = SinfoLine<'_>> {
    answer.values_of("nodes").filter_map(SinfoLine::parse_nodes)
}

/// Returns memory, graphics processors and disk of a partition, or of the default one.
pub(super) fn partition_amounts(
    answer: &SiteAgentAnswer,
    partition: Option<&str>,
) -> BTreeMap<Arc<str>, u64> {
    let mut memory = 0_u64;
    let mut gpus = 0_u64;
    let mut disk = 0_u64;
    for nodes in all_nodes(answer).filter(|nodes: &SinfoLine<'_>| match partition {
        Some(name) => nodes.partition == name,
        None => nodes.is_default,
    }) {
        memory = memory.saturating_add(to_megabytes(nodes.memory_mib).saturating_mul(nodes.count));
        gpus = gpus.saturating_add(nodes.gpu_count().saturating_mul(nodes.count));
        disk = disk.saturating_add(to_megabytes(nodes.disk_mib).saturating_mul(nodes.count));
    }
    let told = [("memory_mb", memory), ("gpus", gpus), (DISK, disk)];
    told.into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, n)| (name.into(), n))
        .collect()
}

/// Returns the processors of the smallest node of each partition.
pub(super) fn smallest_nodes(answer: &SiteAgentAnswer) -> BTreeMap<Arc<str>, u32> {
    let mut smallest = BTreeMap::<Arc<str>, u32>::new();
    for nodes in all_nodes(answer) {
        let processors = u32::try_from(nodes.processors).unwrap_or(u32::MAX);
        smallest
            .entry(nodes.partition.into())
            .and_modify(|least| *least = processors.min(*least))
            .or_insert(processors);
    }
    smallest
}

/// Returns true if Slurm counts disk of any node.
pub(super) fn counts_disk(answer: &SiteAgentAnswer) -> bool {
    all_nodes(answer).any(|nodes| nodes.disk_mib > 0)
}

/// Returns the site's partitions, the features and kinds of GPU of its nodes, the number of nodes
/// of the largest partition, the amounts of the largest node, and the account's accounts and
/// qualities of service: any, if Slurm reports none.
pub(super) fn site_labels(answer: &SiteAgentAnswer) -> SiteLabels {
    let mut labels = SiteLabels::new();
    add_label(&mut labels, LRM.0, LRM.1);
    for (key, most) in largest_counts(answer)
        .into_iter()
        .filter(|(_, most)| *most > 0)
    {
        add_label(&mut labels, key, &most.to_string());
    }
    for nodes in all_nodes(answer) {
        add_label(&mut labels, "partition", nodes.partition);
        for feature in split_values(nodes.features) {
            add_label(&mut labels, "feature", feature);
        }
        for kind in parse_gpus(nodes.gres).filter_map(|(kind, _)| kind) {
            add_label(&mut labels, "gpu", kind);
        }
    }
    let mut told = [("account", false), ("qos", false)];
    for line in answer.values_of("assoc") {
        let fields = line.split('|').zip(&mut told);
        for (values, (key, is_told)) in fields {
            for value in split_values(values) {
                add_label(&mut labels, key, value);
                *is_told = true;
            }
        }
    }
    for (key, is_told) in told {
        if !is_told {
            add_label(&mut labels, key, ANY);
        }
    }
    labels
}

fn add_label(labels: &mut SiteLabels, key: &str, value: &str) {
    labels.entry(key.into()).or_default().insert(value.into());
}

/// Returns how many nodes a partition has at most, and the most that one of them has.
fn largest_counts(answer: &SiteAgentAnswer) -> [(&'static str, u64); 4] {
    let mut counts = BTreeMap::<&str, u64>::new();
    for nodes in all_nodes(answer) {
        let count = counts.entry(nodes.partition).or_default();
        *count = count.saturating_add(nodes.count);
    }
    let most = |of: fn(&SinfoLine<'_>) -> u64| {
        all_nodes(answer).map(|nodes| of(&nodes)).max().unwrap_or(0)
    };
    [
        (NODES, counts.into_values().max().unwrap_or(0)),
        (NODE_PROCESSORS, most(|nodes| nodes.processors)),
        (NODE_MEMORY_MB, most(|nodes| to_megabytes(nodes.memory_mib))),
        (NODE_GPUS, most(|nodes| nodes.gpu_count())),
    ]
}

fn split_values(values: &str) -> impl Iterator<Item = &str> {
    values
        .split(',')
        .map(str::trim)
        .filter(|value| !value.is_empty() && *value != "(null)")
}

/// Parses the kinds of graphics processors among a node's resources, and how many of each: `gpu:2`,
/// `gpu:tesla:2(S:0-1),other:1`.
pub(super) fn parse_gpus(gres: &str) -> impl Iterator<Item = (Option<&str>, u64)> {
    // The text in parentheses has commas of its own.
    let mut depth = 0_i32;
    gres.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .filter_map(|one| {
        let plain = one.split('(').next().unwrap_or_default();
        let parts: Vec<&str> = plain.split(':').collect();
        match parts[..] {
            ["gpu"] => Some((None, 1)),
            ["gpu", last] => last
                .parse()
                .map_or(Some((Some(last), 1)), |count| Some((None, count))),
            ["gpu", kind, count] => Some((Some(kind), count.parse().unwrap_or(1))),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "nodes normal*|3|32|64000|(null)|skylake,ib\n\
                        nodes normal*|2|48+|128000+|gpu:tesla:2(S:0,1),tmp:1|skylake\n\
                        nodes urgent|1|16|64000|gpu:4|(null)|2000\n\
                        nodes odd\n";

    fn values(labels: &SiteLabels, key: &str) -> Vec<String> {
        labels
            .get(key)
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn what_a_partition_has_is_added_up() {
        let of = |partition| partition_amounts(&SiteAgentAnswer(SAID.to_owned()), partition);
        let memory = 3 * to_megabytes(64_000) + 2 * to_megabytes(128_000);
        let normal = [("gpus".into(), 4), ("memory_mb".into(), memory)];
        assert_eq!(of(None), normal.into());
        assert_eq!(of(Some("urgent")).get("gpus"), Some(&4));
        assert_eq!(of(Some("urgent")).get(DISK), Some(&to_megabytes(2_000)));
        assert_eq!(of(Some("nowhere")), BTreeMap::new());
    }

    #[test]
    fn the_smallest_node_of_each_partition_is_found() {
        let found = smallest_nodes(&SiteAgentAnswer(SAID.to_owned()));
        assert_eq!(found, [("normal".into(), 32), ("urgent".into(), 16)].into());
    }

    #[test]
    fn partitions_features_and_kinds_of_gpu_are_labels() {
        let found = site_labels(&SiteAgentAnswer(SAID.to_owned()));
        assert_eq!(values(&found, "lrm"), ["slurm"]);
        assert_eq!(values(&found, "partition"), ["normal", "urgent"]);
        assert_eq!(values(&found, "feature"), ["ib", "skylake"]);
        assert_eq!(values(&found, "gpu"), ["tesla"]);
        for (key, most) in [
            (NODES, "5"),
            (NODE_PROCESSORS, "48"),
            (NODE_MEMORY_MB, "134217"),
            (NODE_GPUS, "4"),
        ] {
            assert_eq!(values(&found, key), [most], "{key}");
        }
    }

    #[test]
    fn accounts_are_those_that_slurm_tells_of_and_any_where_it_tells_of_none() {
        let of = |said: &str| {
            let labels = site_labels(&SiteAgentAnswer(said.to_owned()));
            (values(&labels, "account"), values(&labels, "qos"))
        };
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(of(""), (words(&["*"]), words(&["*"])));
        let told = of("assoc physics|normal,fast\nassoc chemistry|");
        assert_eq!(
            told,
            (words(&["chemistry", "physics"]), words(&["fast", "normal"]))
        );
    }

    #[test]
    fn graphics_processors_are_counted_in_all_ways_to_write_them() {
        let of = |gres| parse_gpus(gres).map(|(_, count)| count).sum::<u64>();
        assert_eq!(
            (of("(null)"), of("gpu:2"), of("gpu"), of("gpu:a100")),
            (0, 2, 1, 1)
        );
        assert_eq!(of("gpu:a100:4(S:0-1),gpu:v100:2(IDX:0,1),mps:100"), 6);
    }
}
