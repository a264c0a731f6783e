//! Partitions (or queues) of a site, each with the account that pays. What one partition gives says
//! nothing about the others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ids::SiteName;
use crate::job::spec::{OverrideScope, ProgramOverride};
use crate::labels::SiteLabels;
use crate::resources::Resources;
use crate::units::DurationMs;

/// A partition of a site, and the account that is charged there. `None` means the site's default.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionAccount {
    /// The partition, or several, as the submission names them.
    pub partition: Option<Arc<str>>,
    pub account: Option<Arc<str>>,
}

/// The partitions of a site, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SitePartitions {
    /// The partition and account of jobs that name none.
    pub own: PartitionAccount,
    /// The default wall time of each partition, for jobs that ask for none.
    pub times: BTreeMap<Arc<str>, DurationMs>,
    /// The capacity and limits of each partition.
    pub partitions: BTreeMap<Arc<str>, Partition>,
    /// The processors of the smallest node of each partition.
    pub smallest_nodes: BTreeMap<Arc<str>, u32>,
}

/// The capacity and limits of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// All resources that may be used, in use or not.
    pub total: Resources,
    /// The longest wall time that a job may ask for; `None`: no limit.
    pub longest: Option<DurationMs>,
}

/// The prefixes of a batch system's options that choose a partition; the value follows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOptionPrefixes {
    /// Prefixes that choose the partition.
    pub partition: &'static [&'static str],
    /// Prefixes that choose the account.
    pub account: &'static [&'static str],
    /// Prefixes that choose an existing reservation.
    pub reservation: &'static [&'static str],
}

impl PartitionOptionPrefixes {
    /// Reads what these options choose; of several the last one counts.
    pub fn parse_options(&self, options: &[Arc<str>]) -> PartitionAccount {
        let partition = last_option_value(options, self.reservation)
            .map(PartitionAccount::reservation_partition_name);
        PartitionAccount {
            partition: partition
                .or_else(|| last_option_value(options, self.partition).map(Arc::from)),
            account: last_option_value(options, self.account).map(Arc::from),
        }
    }

    /// Lists what a component's overrides choose and where, in the order in which they apply.
    pub fn partition_choices(
        &self,
        at: &BTreeMap<OverrideScope, ProgramOverride>,
    ) -> Vec<(OverrideScope, PartitionAccount)> {
        let chosen = at
            .iter()
            .map(|(place, change)| (place, self.parse_options(&change.lrm_options)));
        let chosen = chosen.filter(|(_, lane)| *lane != PartitionAccount::default());
        chosen.map(|(place, lane)| (place.clone(), lane)).collect()
    }
}

/// The value of the last option that begins with one of these words.
fn last_option_value<'a>(options: &'a [Arc<str>], words: &[&str]) -> Option<&'a str> {
    let mut latest = options.iter().rev();
    latest.find_map(|option| words.iter().find_map(|word| option.strip_prefix(word)))
}

impl SitePartitions {
    /// Returns the longest wall time that a job may ask for; of several partitions the longest of
    /// any. `None`: no limit is known.
    pub fn longest_time_in(&self, lane: &PartitionAccount) -> Option<DurationMs> {
        let each = lane
            .partition
            .as_deref()?
            .split(',')
            .map(|name: &str| self.partitions.get(name)?.longest);
        each.collect::<Option<Vec<DurationMs>>>()?.into_iter().max()
    }

    /// Returns the partition, or partitions, that the submission asks for, if they are known and
    /// are not the site's own.
    pub fn foreign_partition<'l>(&self, lane: &'l PartitionAccount) -> Option<&'l Arc<str>> {
        let asked = lane
            .partition
            .as_ref()
            .filter(|name| Some(*name) != self.own.partition.as_ref());
        asked.filter(|names| {
            names
                .split(',')
                .any(|name| self.partitions.contains_key(name))
        })
    }

    /// Returns all that may be used of a partition; for several see [`max_of_partitions`].
    pub fn usable_total(&self, partitions: &str) -> Resources {
        max_of_partitions(partitions, |name| Some(&self.partitions.get(name)?.total))
    }
}

/// Returns, for partitions that are asked for together, the most of each resource that any one has.
pub fn max_of_partitions<'r>(
    partitions: &str,
    of: impl Fn(&str) -> Option<&'r Resources>,
) -> Resources {
    let mut most = Resources::default();
    partitions
        .split(',')
        .filter_map(of)
        .for_each(|one| most.raise_to(one));
    most
}

impl PartitionAccount {
    /// Returns the name by which a reservation is listed among the partitions. Like a partition it
    /// has processors of its own, and nobody else gets what is idle there.
    pub fn reservation_partition_name(name: &str) -> Arc<str> {
        format!("reservation {name}").into()
    }

    /// Returns the reservation that such a partition name stands for.
    pub fn reservation_in_partition_name(partition: &str) -> Option<&str> {
        partition.strip_prefix("reservation ")
    }

    /// Returns this choice, with whatever `chosen` sets in place of its own.
    pub fn overridden_by(&self, chosen: &PartitionAccount) -> PartitionAccount {
        PartitionAccount {
            partition: chosen.partition.clone().or_else(|| self.partition.clone()),
            account: chosen.account.clone().or_else(|| self.account.clone()),
        }
    }

    /// Returns the partition and account of a component at a site whose default is `self`.
    pub fn resolve_at(
        &self,
        chosen: &[(OverrideScope, PartitionAccount)],
        site: &SiteName,
        labels: &SiteLabels,
    ) -> PartitionAccount {
        let there = chosen
            .iter()
            .filter(|(place, _)| place.applies_to_site(site, labels));
        there.fold(self.clone(), |lane, (_, own)| lane.overridden_by(own))
    }
}

impl fmt::Display for PartitionAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.partition.as_deref().unwrap_or("its default partition"))?;
        match &self.account {
            Some(account) => write!(f, " (account {account})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: PartitionOptionPrefixes = PartitionOptionPrefixes {
        partition: &["--partition=", "-p"],
        account: &["--account=", "-A"],
        reservation: &["--reservation="],
    };

    fn partition_account(partition: &str, account: Option<&str>) -> PartitionAccount {
        PartitionAccount {
            partition: Some(partition.into()),
            account: account.map(Into::into),
        }
    }

    #[test]
    fn the_last_option_chooses_and_others_choose_nothing() {
        let read = |options: &[&str]| {
            WORDS.parse_options(
                &options
                    .iter()
                    .map(|option| (*option).into())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            read(&["-pshort", "--exclusive", "--partition=long"]),
            partition_account("long", None)
        );
        assert_eq!(
            read(&["-Aphysics", "-plong"]),
            partition_account("long", Some("physics"))
        );
        assert_eq!(
            read(&["--exclusive", "--account"]),
            PartitionAccount::default()
        );
        let reserved = read(&["--reservation=course", "-plong"]);
        assert_eq!(
            reserved,
            partition_account("reservation course", None),
            "wherever that is"
        );
    }

    #[test]
    fn a_component_asks_as_its_site_does_unless_it_says_otherwise_there() {
        let options = |option: &str| ProgramOverride {
            lrm_options: vec![option.into()],
            ..ProgramOverride::default()
        };
        let site = |name: &str| SiteName::new(name).unwrap();
        let at = BTreeMap::from([
            (
                OverrideScope::Label("lrm".into(), "slurm".into()),
                options("-pshort"),
            ),
            (OverrideScope::Site(site("B")), options("--exclusive")),
            (OverrideScope::Site(site("C")), options("-plong")),
        ]);
        let chosen = WORDS.partition_choices(&at);
        assert_eq!(chosen.len(), 2, "{chosen:?}");
        let slurm = SiteLabels::from([("lrm".into(), ["slurm".into()].into())]);
        let own = partition_account("normal", Some("physics"));
        assert_eq!(
            own.resolve_at(&chosen, &site("B"), &slurm),
            partition_account("short", Some("physics"))
        );
        assert_eq!(
            own.resolve_at(&chosen, &site("C"), &slurm),
            partition_account("long", Some("physics"))
        );
        assert_eq!(own.resolve_at(&chosen, &site("B"), &SiteLabels::new()), own);
    }
}
