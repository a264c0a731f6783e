//! Whom a submission asks within a site: a partition (or queue) on the account of somebody. What
//! one gets there says nothing of the others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ids::SiteName;
use crate::job::spec::{Override, OverrideScope};
use crate::labels::Labels;
use crate::resources::Resources;
use crate::units::DurationMs;

/// A partition of a site, and an account that is charged there; `None`: as the site has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionAccount {
    /// The partition, or partitions, as they are asked for.
    pub partition: Option<Arc<str>>,
    /// The account.
    pub account: Option<Arc<str>>,
}

/// What a site knows of its lanes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SitePartitions {
    /// Whom jobs ask there that do not say it themselves.
    pub own: PartitionAccount,
    /// How long those may run that do not say it themselves, by partition.
    pub times: BTreeMap<Arc<str>, DurationMs>,
    /// What each partition gives.
    pub partitions: BTreeMap<Arc<str>, Partition>,
}

/// What a partition gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// All that may be used of it, in use or not.
    pub total: Resources,
    /// The longest that a job may ask for; `None`: as long as it likes.
    pub longest: Option<DurationMs>,
}

/// How options of a resource manager begin that choose a lane; their value follows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Those that choose the partition.
    pub partition: &'static [&'static str],
    /// Those that choose the account.
    pub account: &'static [&'static str],
    /// Those that choose a reservation that is there already.
    pub reservation: &'static [&'static str],
}

impl PartitionOptions {
    /// What these options choose; of several the last counts.
    pub fn read(&self, options: &[Arc<str>]) -> PartitionAccount {
        let last = |words: &[&str]| {
            let mut latest = options.iter().rev();
            latest.find_map(|option| words.iter().find_map(|word| option.strip_prefix(word)))
        };
        let partition = last(self.reservation).map(PartitionAccount::in_reservation);
        let last = |words| last(words).map(Arc::from);
        PartitionAccount {
            partition: partition.or_else(|| last(self.partition)),
            account: last(self.account),
        }
    }

    /// What a component's overrides choose where, in order of application.
    pub fn chosen(
        &self,
        at: &BTreeMap<OverrideScope, Override>,
    ) -> Vec<(OverrideScope, PartitionAccount)> {
        let chosen = at
            .iter()
            .map(|(place, change)| (place, self.read(&change.lrm_options)));
        let chosen = chosen.filter(|(_, lane)| *lane != PartitionAccount::default());
        chosen.map(|(place, lane)| (place.clone(), lane)).collect()
    }
}

impl SitePartitions {
    /// The longest that a job may ask for; of several partitions the longest of any of them.
    /// `None`: as long as it likes, as far as is known.
    pub fn longest(&self, lane: &PartitionAccount) -> Option<DurationMs> {
        let each = lane
            .partition
            .as_deref()?
            .split(',')
            .map(|name: &str| self.partitions.get(name)?.longest);
        each.collect::<Option<Vec<DurationMs>>>()?.into_iter().max()
    }

    /// The partition, or partitions, that a lane asks for, if these are not the site's own and
    /// anything is known of them.
    pub fn elsewhere<'l>(&self, lane: &'l PartitionAccount) -> Option<&'l Arc<str>> {
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

    /// All that may be used of a partition; of several what [`most_of_any`] says.
    pub fn total(&self, partitions: &str) -> Resources {
        most_of_any(partitions, |name| Some(&self.partitions.get(name)?.total))
    }
}

/// Of partitions that are asked for together the most of each resource that any of them has.
pub fn most_of_any<'r>(partitions: &str, of: impl Fn(&str) -> Option<&'r Resources>) -> Resources {
    let mut most = Resources::default();
    partitions
        .split(',')
        .filter_map(of)
        .for_each(|one| most.raise_to(one));
    most
}

impl PartitionAccount {
    /// What a reservation is among partitions: it has processors of its own, too, and what is
    /// idle there is nobody else's.
    pub fn in_reservation(name: &str) -> Arc<str> {
        format!("reservation {name}").into()
    }

    /// The reservation that such a partition is.
    pub fn reservation_of(partition: &str) -> Option<&str> {
        partition.strip_prefix("reservation ")
    }

    /// The same, unless something else is chosen.
    pub fn or(&self, chosen: &PartitionAccount) -> PartitionAccount {
        PartitionAccount {
            partition: chosen.partition.clone().or_else(|| self.partition.clone()),
            account: chosen.account.clone().or_else(|| self.account.clone()),
        }
    }

    /// The lane of a component at a site whose own is this one.
    pub fn of(
        &self,
        chosen: &[(OverrideScope, PartitionAccount)],
        site: &SiteName,
        labels: &Labels,
    ) -> PartitionAccount {
        let there = chosen
            .iter()
            .filter(|(place, _)| place.holds_at(site, labels));
        there.fold(self.clone(), |lane, (_, own)| lane.or(own))
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

    const WORDS: PartitionOptions = PartitionOptions {
        partition: &["--partition=", "-p"],
        account: &["--account=", "-A"],
        reservation: &["--reservation="],
    };

    fn lane(partition: &str, account: Option<&str>) -> PartitionAccount {
        PartitionAccount {
            partition: Some(partition.into()),
            account: account.map(Into::into),
        }
    }

    #[test]
    fn the_last_option_chooses_and_others_choose_nothing() {
        let read = |options: &[&str]| {
            WORDS.read(
                &options
                    .iter()
                    .map(|option| (*option).into())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            read(&["-pshort", "--exclusive", "--partition=long"]),
            lane("long", None)
        );
        assert_eq!(
            read(&["-Aphysics", "-plong"]),
            lane("long", Some("physics"))
        );
        assert_eq!(
            read(&["--exclusive", "--account"]),
            PartitionAccount::default()
        );
        let reserved = read(&["--reservation=course", "-plong"]);
        assert_eq!(
            reserved,
            lane("reservation course", None),
            "wherever that is"
        );
    }

    #[test]
    fn a_component_asks_as_its_site_does_unless_it_says_otherwise_there() {
        let options = |option: &str| Override {
            lrm_options: vec![option.into()],
            ..Override::default()
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
        let chosen = WORDS.chosen(&at);
        assert_eq!(chosen.len(), 2, "{chosen:?}");
        let slurm = Labels::from([("lrm".into(), ["slurm".into()].into())]);
        let own = lane("normal", Some("physics"));
        assert_eq!(
            own.of(&chosen, &site("B"), &slurm),
            lane("short", Some("physics"))
        );
        assert_eq!(
            own.of(&chosen, &site("C"), &slurm),
            lane("long", Some("physics"))
        );
        assert_eq!(own.of(&chosen, &site("B"), &Labels::new()), own);
    }
}
