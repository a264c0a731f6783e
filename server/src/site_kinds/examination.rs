//! Examinations of sites without a server, for `cospan site add`, `check` and `clean`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use cospan_sites::examination::{AttemptRemains, SiteFinding};
use cospan_sites::port::{SiteError, SiteQueue};

use super::examiner_of;
use crate::config::sections::{Site, SiteKind};
use crate::site_connection::SiteConnection;

/// Examines the sites of one kind.
#[async_trait(?Send)]
pub trait SiteExaminer: Sync {
    /// Name of the batch system, for people.
    fn batch_system(&self) -> &'static str;

    /// Options of `cospan site add` that not every kind has.
    fn options(&self) -> &'static [KindOption];

    /// The section of a new site before anything was asked, in the text of the configuration.
    fn begin_section(&self, new: &NewSite) -> String;

    /// Examines a new site; `section` is what [`SiteExaminer::begin_section`] wrote. If the site is
    /// not reached, that is a finding, too. Nothing is changed there.
    async fn examine_new(
        &self,
        new: &NewSite,
        section: &Site,
        way: &SiteConnection,
    ) -> ExaminedNewSite;

    /// Examines a site of the configuration, with a short job. If it is not reached, that is a
    /// finding, too.
    async fn examine(&self, section: &Site, way: &SiteConnection) -> Vec<SiteFinding>;

    /// Opens what attempts left at a site. Nothing is asked yet.
    ///
    /// # Errors
    /// The section cannot be a site.
    fn open_left_attempts(
        &self,
        section: &Site,
        way: &SiteConnection,
    ) -> Result<Box<dyn LeftAttempts>, SiteError>;
}

/// All that attempts left at a site.
#[async_trait(?Send)]
pub trait LeftAttempts: SiteQueue {
    /// Lists the remains of attempts of any control plane. Nothing is touched;
    /// [`SiteQueue::remove_attempt`] removes those that are not live.
    ///
    /// # Errors
    /// As for [`SiteQueue::list_attempts`].
    async fn list_remains(&self) -> Result<Vec<AttemptRemains>, SiteError>;
}

/// An option of `cospan site add`.
#[derive(Debug, Clone, Copy)]
pub struct KindOption {
    /// The key in the section.
    pub key: &'static str,
    /// The name on the command line, without dashes.
    pub flag: &'static str,
    /// Stands for the value in the help.
    pub value_name: &'static str,
    /// The line in the help.
    pub help: &'static str,
    /// True if the value is the path of a file.
    pub is_path: bool,
}

/// A new site, as somebody described it.
#[derive(Debug, Clone, Default)]
pub struct NewSite {
    /// The name of the site.
    pub name: String,
    /// Host that leads there; `None`: this machine.
    pub ssh: Option<String>,
    /// Configuration file of the SSH client.
    pub ssh_config: Option<PathBuf>,
    /// Directory of the site; `None`: the ordinary one of its kind.
    pub root: Option<PathBuf>,
    /// Most processors; `None`: all.
    pub processors: Option<u32>,
    /// Values of the kind's own options, by their keys.
    pub options: BTreeMap<&'static str, String>,
}

/// The result of examining a new site.
#[derive(Debug, Clone)]
pub struct ExaminedNewSite {
    /// The judgements.
    pub findings: Vec<SiteFinding>,
    /// The section that follows; `None` if the site cannot be used.
    pub section: Option<String>,
}

/// The kinds whose sites are examined.
pub fn examined_kinds() -> Vec<SiteKind> {
    let kinds = SiteKind::ALL.iter().copied();
    kinds.filter(|kind| examiner_of(*kind).is_some()).collect()
}

/// The options of all kinds, each key once.
pub fn list_kind_options() -> Vec<KindOption> {
    let mut all: Vec<KindOption> = Vec::new();
    for examiner in SiteKind::ALL.iter().filter_map(|kind| examiner_of(*kind)) {
        for option in examiner.options() {
            if all.iter().all(|known| known.key != option.key) {
                all.push(*option);
            }
        }
    }
    all
}
