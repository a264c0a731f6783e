//! What Slurm says of its nodes and of the account, as what placement asks of a site.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::labels::{ANY, Labels};

use crate::agent::Answer;

/// A label that all sites under Slurm have: what is said for them alone is said for it.
const LRM: (&str, &str) = ("lrm", "slurm");

/// A line of `sinfo`: nodes of a partition that are alike.
struct Nodes<'a> {
    partition: &'a str,
    is_default: bool,
    count: u64,
    memory_mib: u64,
    gres: &'a str,
    features: &'a str,
}

impl<'a> Nodes<'a> {
    /// Partition, nodes, megabytes of memory, generic resources and features of each.
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(5, '|');
        let mut next = || fields.next();
        let (partition, count, memory) = (next()?, next()?, next()?);
        let (gres, features) = (next()?, next()?);
        Some(Self {
            partition: partition.strip_suffix('*').unwrap_or(partition),
            is_default: partition.ends_with('*'),
            count: count.parse().ok()?,
            memory_mib: memory.trim_end_matches('+').parse().unwrap_or(0),
            gres,
            features,
        })
    }
}

fn all(answer: &Answer) -> impl Iterator<Item = Nodes<'_>> {
    answer.all("nodes").filter_map(Nodes::read)
}

/// Memory and graphics processors of a partition, or of the default one.
pub(super) fn amounts(answer: &Answer, partition: Option<&str>) -> BTreeMap<Arc<str>, u64> {
    let (mut memory_mib, mut gpus) = (0_u64, 0_u64);
    let is_meant = |nodes: &Nodes<'_>| match partition {
        Some(name) => nodes.partition == name,
        None => nodes.is_default,
    };
    for nodes in all(answer).filter(is_meant) {
        memory_mib = memory_mib.saturating_add(nodes.memory_mib.saturating_mul(nodes.count));
        let each: u64 = graphics(nodes.gres).map(|(_, count)| count).sum();
        gpus = gpus.saturating_add(each.saturating_mul(nodes.count));
    }
    let memory_mb = u128::from(memory_mib) * (1 << 20) / 1_000_000;
    let memory_mb = u64::try_from(memory_mb).unwrap_or(u64::MAX);
    let told = [("memory_mb", memory_mb), ("gpus", gpus)];
    told.into_iter().filter(|(_, count)| *count > 0).map(|(name, n)| (name.into(), n)).collect()
}

/// Its partitions, the features and kinds of GPU of its nodes, and the account's accounts and
/// qualities of service: any, where Slurm tells of none.
pub(super) fn labels(answer: &Answer) -> Labels {
    let mut labels = Labels::new();
    let mut add = |key: &str, value: &str| {
        labels.entry(key.into()).or_default().insert(value.into());
    };
    add(LRM.0, LRM.1);
    for nodes in all(answer) {
        add("partition", nodes.partition);
        listed(nodes.features).for_each(|feature| add("feature", feature));
        graphics(nodes.gres).filter_map(|(kind, _)| kind).for_each(|kind| add("gpu", kind));
    }
    let mut told = [("account", false), ("qos", false)];
    for line in answer.all("assoc") {
        let fields = line.split('|').zip(&mut told);
        for (values, (key, is_told)) in fields {
            for value in listed(values) {
                add(key, value);
                *is_told = true;
            }
        }
    }
    told.iter().filter(|(_, is_told)| !is_told).for_each(|(key, _)| add(key, ANY));
    labels
}

fn listed(values: &str) -> impl Iterator<Item = &str> {
    values.split(',').map(str::trim).filter(|value| !value.is_empty() && *value != "(null)")
}

/// Kinds of graphics processors among a node's resources, and how many of each:
/// `gpu:2`, `gpu:tesla:2(S:0-1),other:1`.
pub(super) fn graphics(gres: &str) -> impl Iterator<Item = (Option<&str>, u64)> {
    // What stands in parentheses has commas of its own.
    let mut depth = 0_i32;
    let ends = move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    gres.split(ends).filter_map(|one| {
        let plain = one.split('(').next().unwrap_or_default();
        let parts: Vec<&str> = plain.split(':').collect();
        match parts[..] {
            ["gpu"] => Some((None, 1)),
            ["gpu", last] => {
                last.parse().map_or(Some((Some(last), 1)), |count| Some((None, count)))
            }
            ["gpu", kind, count] => Some((Some(kind), count.parse().unwrap_or(1))),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "nodes normal*|3|64000|(null)|skylake,ib\n\
                        nodes normal*|2|128000+|gpu:tesla:2(S:0,1),tmp:1|skylake\n\
                        nodes urgent|1|64000|gpu:4|(null)\n\
                        nodes odd\n";

    fn values(labels: &Labels, key: &str) -> Vec<String> {
        labels.get(key).into_iter().flatten().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_partition_has_is_added_up() {
        let of = |partition| amounts(&Answer(SAID.to_owned()), partition);
        let megabytes = |mib: u64| (mib << 20) / 1_000_000;
        let normal =
            [("gpus".into(), 4), ("memory_mb".into(), megabytes(3 * 64_000 + 2 * 128_000))];
        assert_eq!(of(None), normal.into());
        assert_eq!(of(Some("urgent")).get("gpus"), Some(&4));
        assert_eq!(of(Some("nowhere")), BTreeMap::new());
    }

    #[test]
    fn partitions_features_and_kinds_of_gpu_are_labels() {
        let found = labels(&Answer(SAID.to_owned()));
        assert_eq!(values(&found, "lrm"), ["slurm"]);
        assert_eq!(values(&found, "partition"), ["normal", "urgent"]);
        assert_eq!(values(&found, "feature"), ["ib", "skylake"]);
        assert_eq!(values(&found, "gpu"), ["tesla"]);
    }

    #[test]
    fn accounts_are_those_that_slurm_tells_of_and_any_where_it_tells_of_none() {
        let of = |said: &str| {
            let labels = labels(&Answer(said.to_owned()));
            (values(&labels, "account"), values(&labels, "qos"))
        };
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(of(""), (words(&["*"]), words(&["*"])));
        let told = of("assoc physics|normal,fast\nassoc chemistry|");
        assert_eq!(told, (words(&["chemistry", "physics"]), words(&["fast", "normal"])));
    }

    #[test]
    fn graphics_processors_are_counted_in_all_ways_to_write_them() {
        let of = |gres| graphics(gres).map(|(_, count)| count).sum::<u64>();
        assert_eq!((of("(null)"), of("gpu:2"), of("gpu"), of("gpu:a100")), (0, 2, 1, 1));
        assert_eq!(of("gpu:a100:4(S:0-1),gpu:v100:2(IDX:0,1),mps:100"), 6);
    }
}
