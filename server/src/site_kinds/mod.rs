//! The kinds of site. Each has a folder or file here and a line in `adapter_of`; the functions
//! below ask it, and nobody else knows what differs by kind.

mod examination;
mod local;
pub(crate) mod site_inputs;
mod slurm;

use std::sync::Arc;

use cospan_domain::acquisition::PartitionOptionPrefixes;
use cospan_domain::units::DurationMs;
use cospan_sites::exec::CommandExecutor;
use cospan_sites::files::RootedFiles;
use cospan_sites::port::SiteError;
use cospan_sites::wrapper::parameters::SlowPollTiming;

pub use self::examination::{
    ExaminedNewSite, KindOption, LeftAttempts, NewSite, SiteExaminer, examined_kinds,
    list_kind_options,
};
use self::site_inputs::{MadeSite, SiteInputs};
use crate::config::OptionValue as _;
use crate::config::sections::{Site, SiteKind};

/// The adapter of a kind: each kind has its line.
fn adapter_of(kind: SiteKind) -> &'static dyn SiteKindAdapter {
    match kind {
        SiteKind::Local => &local::LocalKind,
        SiteKind::Slurm => &slurm::SlurmKind,
    }
}

/// All that differs by the kind of a site.
pub(crate) trait SiteKindAdapter: Sync {
    /// Time in which a submission whose outcome is unknown may still take effect.
    fn settle_time(&self) -> DurationMs;

    /// Time before a common start at which gates are opened: longer than the wrappers take to see
    /// it.
    fn gate_lead(&self) -> DurationMs;

    /// The time from which wrappers look at their gates less often, if they ever do.
    fn slow_polls(&self) -> Option<SlowPollTiming> {
        None
    }

    /// Prefixes of the options by which jobs choose partition and account at such a site, if it has
    /// them.
    fn partition_options(&self) -> Option<PartitionOptionPrefixes> {
        None
    }

    /// True if a site grants reservations unless its section says that it does not.
    fn reserves_by_default(&self) -> bool;

    /// True if the files of a site without `ssh` lie on this machine alone, whose processors and
    /// disk it shares with other sites of it.
    fn is_of_this_machine(&self) -> bool;

    /// The options of a section that are given, of those that not every kind has.
    fn given_options(&self, section: &Site) -> Vec<&'static str>;

    /// A command that is needed at the host of a site over SSH; `None`: no such site is reached
    /// over SSH.
    fn command_over_ssh(&self) -> Option<&'static str> {
        None
    }

    /// The files of a site over SSH, for sites that copy from it.
    ///
    /// # Errors
    /// Its section cannot be a site.
    fn remote_source_files(
        &self,
        _inputs: &SiteInputs<'_>,
        section: &Site,
        _exec: Arc<dyn CommandExecutor>,
    ) -> Result<Arc<dyn RootedFiles>, SiteError> {
        Err(refuse_ssh(section))
    }

    /// Makes a site. Nothing is touched there.
    ///
    /// # Errors
    /// Its section cannot be a site.
    fn make_site(&self, inputs: &SiteInputs<'_>, section: &Site) -> Result<MadeSite, SiteError>;

    /// The examiner for `cospan site add`, `check` and `clean`; `None`: there is nothing to examine.
    fn examiner(&self) -> Option<&'static dyn SiteExaminer> {
        None
    }
}

fn refuse_ssh(section: &Site) -> SiteError {
    let kind = section.kind.show();
    let name = &section.name;
    SiteError::Refused(format!(
        "site {name} is of the kind {kind}, which is not reached over SSH"
    ))
}

/// Time in which a submission may still take effect.
pub(crate) fn settle_time(kind: SiteKind) -> DurationMs {
    adapter_of(kind).settle_time()
}

/// Prefixes of the options by which jobs choose partition and account at sites of these kinds.
pub(crate) fn partition_options(
    mut kinds: impl Iterator<Item = SiteKind>,
) -> Option<PartitionOptionPrefixes> {
    kinds.find_map(|kind| adapter_of(kind).partition_options())
}

/// Time before a common start at which gates are opened.
pub(crate) fn gate_lead(kind: SiteKind) -> DurationMs {
    adapter_of(kind).gate_lead()
}

/// The same time for wrappers that were held for [`gate_patience`].
pub(crate) fn gate_lead_held(kind: SiteKind) -> DurationMs {
    let adapter = adapter_of(kind);
    let lead = adapter.gate_lead();
    match adapter.slow_polls() {
        Some(slow) => DurationMs(slow.poll.0 + lead.0),
        None => lead,
    }
}

/// Wrappers count by their own clocks, from before they are known to be held.
const PATIENCE_MARGIN_MS: u64 = 15_000;

/// A wrapper held for this long will soon look less often, whatever the kind of its site.
pub(crate) fn gate_patience() -> DurationMs {
    SiteKind::ALL
        .iter()
        .filter_map(|kind| adapter_of(*kind).slow_polls())
        .map(|slow| DurationMs(slow.after.0.saturating_sub(PATIENCE_MARGIN_MS)))
        .min()
        .unwrap_or(DurationMs(u64::MAX))
}

/// True if the site grants reservations.
pub(crate) fn can_reserve(section: &Site) -> bool {
    section
        .grants_reservations
        .unwrap_or_else(|| adapter_of(section.kind).reserves_by_default())
}

/// True if its files lie on this machine alone.
pub(crate) fn is_of_this_machine(section: &Site) -> bool {
    section.ssh.is_none() && adapter_of(section.kind).is_of_this_machine()
}

/// An option that is given at a site of a kind that does not have it.
pub(crate) struct OptionOfOtherKind {
    pub(crate) key: &'static str,
    /// The kinds that have it.
    pub(crate) kinds: Vec<SiteKind>,
}

/// Options that are given, and belong to other kinds of site.
pub(crate) fn options_of_other_kinds(section: &Site) -> Vec<OptionOfOtherKind> {
    let own = adapter_of(section.kind).given_options(section);
    let mut found: Vec<OptionOfOtherKind> = Vec::new();
    for kind in SiteKind::ALL {
        for key in adapter_of(*kind).given_options(section) {
            if own.contains(&key) {
                continue;
            }
            match found.iter_mut().find(|option| option.key == key) {
                Some(option) => option.kinds.push(*kind),
                None => found.push(OptionOfOtherKind {
                    key,
                    kinds: vec![*kind],
                }),
            }
        }
    }
    found
}

/// The command that must exist at the host of a site.
///
/// # Errors
/// Sites of this kind are not reached over SSH.
pub(crate) fn command_over_ssh(section: &Site) -> Result<&'static str, SiteError> {
    adapter_of(section.kind)
        .command_over_ssh()
        .ok_or_else(|| refuse_ssh(section))
}

/// The files of a site over SSH, for sites that copy from it.
///
/// # Errors
/// Its section cannot be a site.
pub(crate) fn remote_source_files(
    inputs: &SiteInputs<'_>,
    section: &Site,
    exec: Arc<dyn CommandExecutor>,
) -> Result<Arc<dyn RootedFiles>, SiteError> {
    adapter_of(section.kind).remote_source_files(inputs, section, exec)
}

/// Makes a site from its section. Nothing is touched there.
///
/// # Errors
/// Its section cannot be a site.
pub(crate) fn make_site(inputs: &SiteInputs<'_>, section: &Site) -> Result<MadeSite, SiteError> {
    adapter_of(section.kind).make_site(inputs, section)
}

/// The examiner of sites of this kind, if there is something to examine.
pub fn examiner_of(kind: SiteKind) -> Option<&'static dyn SiteExaminer> {
    adapter_of(kind).examiner()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::sections::SiteAcquisition;
    use crate::config::{Config, print_reference};

    fn site_of_kind(kind: SiteKind) -> Site {
        let kind = kind.show();
        let text = format!(
            "[[site]]\nname = \"delft\"\nkind = {kind}\nroot = \"/srv/delft\"\nprocessors = 8\n"
        );
        let parsed = Config::parse(Path::new("x"), &text).unwrap().config;
        parsed.site.into_iter().next().unwrap()
    }

    #[test]
    fn gates_open_before_wrappers_look_and_earlier_where_they_look_seldom() {
        assert_eq!(gate_patience(), DurationMs::from_secs(45));
        for (kind, lead, held) in [(SiteKind::Local, 0, 0), (SiteKind::Slurm, 1_500, 6_500)] {
            assert_eq!(gate_lead(kind), DurationMs(lead));
            assert_eq!(gate_lead_held(kind), DurationMs(held));
        }
    }

    #[test]
    fn an_option_belongs_to_the_kinds_that_have_it() {
        for kind in SiteKind::ALL {
            let mut site = site_of_kind(*kind);
            assert!(options_of_other_kinds(&site).is_empty());
            site.partition = Some("short".to_owned());
            site.acquisition = SiteAcquisition::Queued;
            let others = options_of_other_kinds(&site);
            if *kind == SiteKind::Slurm {
                assert!(others.is_empty());
            } else {
                let keys: Vec<&str> = others.iter().map(|option| option.key).collect();
                assert_eq!(keys, ["partition", "acquisition"]);
                assert_eq!(others[0].kinds, [SiteKind::Slurm]);
            }
        }
    }

    #[test]
    fn a_kind_grants_reservations_unless_the_section_says_otherwise() {
        let mut local = site_of_kind(SiteKind::Local);
        assert!(can_reserve(&local) && is_of_this_machine(&local));
        local.grants_reservations = Some(false);
        assert!(!can_reserve(&local));
        let slurm = site_of_kind(SiteKind::Slurm);
        assert!(!can_reserve(&slurm) && !is_of_this_machine(&slurm));
    }

    #[test]
    fn every_option_of_the_command_line_is_one_of_a_section() {
        let reference = print_reference();
        for option in list_kind_options() {
            assert_eq!(option.flag, option.key.replace('_', "-"));
            let is_known = reference.contains(&format!("`{}`", option.key));
            assert!(is_known, "{}", option.key);
        }
    }

    #[test]
    fn a_site_over_ssh_is_of_a_kind_that_says_what_it_needs_there() {
        let mut site = site_of_kind(SiteKind::Local);
        site.ssh = Some("far".to_owned());
        let refused = command_over_ssh(&site).unwrap_err().to_string();
        assert!(refused.contains("\"local\""), "{refused}");
        assert!(command_over_ssh(&site_of_kind(SiteKind::Slurm)).is_ok());
    }
}
