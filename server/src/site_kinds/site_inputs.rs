//! The common inputs from which the kinds make their sites, and the result.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::ids::{InstanceId, SiteName};
use cospan_domain::resources::Resources;
use cospan_sites::exec::ssh::SshExecutor;
use cospan_sites::files::SourcesBySite;
use cospan_sites::files::fetch::{FetchingSite, relay_root};
use cospan_sites::port::{Site, SiteError};
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;

use crate::config::Config;
use crate::site_connection;

/// The directory of a site.
#[async_trait(?Send)]
pub(crate) trait SiteRoot {
    /// Makes the directory a site's, once.
    ///
    /// # Errors
    /// It cannot be one, or the site was not reached.
    async fn make_root(&self) -> Result<(), SiteError>;

    /// Keeps other control planes out, where that is necessary.
    ///
    /// # Errors
    /// Another one has it, or the site was not reached.
    async fn take_root(&self) -> Result<(), SiteError>;
}

/// A site, and its directory.
pub(crate) struct MadeSite {
    pub(crate) site: Arc<dyn Site>,
    pub(crate) root: Arc<dyn SiteRoot>,
}

/// The common inputs for making all sites.
pub(crate) struct SiteInputs<'c> {
    pub(crate) config: &'c Config,
    pub(crate) data: &'c Path,
    /// Command line of the agent that copies files.
    pub(crate) agent: Vec<OsString>,
    /// Roots of the sites on this machine.
    pub(crate) roots: BTreeMap<SiteName, PathBuf>,
    /// Connections to the other sites, and to their files.
    pub(crate) ways: BTreeMap<SiteName, Arc<SshExecutor>>,
    pub(crate) sources: SourcesBySite,
    /// Resources of the sites on this machine.
    pub(crate) totals: BTreeMap<SiteName, Resources>,
    pub(crate) seal: AttemptAuthenticator,
    pub(crate) instance: InstanceId,
}

impl SiteInputs<'_> {
    /// Makes the connections to sites on other machines.
    ///
    /// # Errors
    /// A section cannot be a site over SSH.
    pub(crate) fn connect_sites(&mut self) -> Result<(), SiteError> {
        for section in self.config.site.iter().filter(|site| site.ssh.is_some()) {
            let socket = site_connection::socket_path(self.data, section)?;
            let exec = site_connection::open_ssh(section, &socket)?;
            let source = super::remote_source_files(self, section, exec.clone())?;
            self.ways.insert(section.name.clone(), exec);
            self.sources.insert(section.name.clone(), source);
        }
        Ok(())
    }

    /// Directory on this machine for content that is fetched from other sites.
    fn relay_directory(&self) -> PathBuf {
        absolute_path(self.data).join("relay")
    }

    /// Roots from which a site of this machine can copy.
    pub(crate) fn neighbour_roots(&self, of: &SiteName) -> BTreeMap<SiteName, PathBuf> {
        let relays = self
            .sources
            .keys()
            .map(|from| (from.clone(), relay_root(&self.relay_directory(), of, from)));
        self.roots
            .iter()
            .map(|(name, root)| (name.clone(), root.clone()))
            .chain(relays)
            .collect()
    }

    /// Lets a site of this machine also copy from sites that it does not see.
    pub(crate) fn with_fetching(&self, site: Arc<dyn Site>) -> Arc<dyn Site> {
        if self.sources.is_empty() {
            site
        } else {
            Arc::new(FetchingSite::new(
                site,
                self.sources.clone(),
                self.relay_directory(),
            ))
        }
    }
}

pub(crate) fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
