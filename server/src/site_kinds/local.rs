//! Sites of the kind `local`: processes on this machine.

use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::units::DurationMs;
use cospan_sites::local_site::{LocalSite, LocalSiteConfig};
use cospan_sites::port::SiteError;

use super::site_inputs::{MadeSite, SiteInputs, SiteRoot, absolute_path};
use super::{SiteKindAdapter, can_reserve};
use crate::config::sections::Site as Section;

pub(super) struct LocalKind;

impl SiteKindAdapter for LocalKind {
    fn settle_time(&self) -> DurationMs {
        DurationMs::from_secs(1)
    }

    /// Wrappers on this machine see it at once.
    fn gate_lead(&self) -> DurationMs {
        DurationMs::ZERO
    }

    fn reserves_by_default(&self) -> bool {
        true
    }

    fn is_of_this_machine(&self) -> bool {
        true
    }

    fn given_options(&self, _section: &Section) -> Vec<&'static str> {
        Vec::new()
    }

    fn make_site(&self, inputs: &SiteInputs<'_>, section: &Section) -> Result<MadeSite, SiteError> {
        let name = section.name.clone();
        let root = absolute_path(&section.root);
        let total = inputs
            .totals
            .get(&name)
            .cloned()
            .unwrap_or_else(|| section.total_resources());
        let mut local = LocalSiteConfig::new(name, root, total, inputs.agent.clone());
        local.labels = section.labels.clone();
        local.reservations = can_reserve(section);
        local.ping = inputs.config.sites.ping.clone();
        local.neighbours = inputs.neighbour_roots(&section.name);
        local.seal = inputs.seal.clone();
        local.owner = Some(inputs.instance);
        local.data_directory = absolute_path(inputs.data);
        let site = Arc::new(LocalSite::new(local)?);
        Ok(MadeSite {
            root: Arc::new(LocalRoot(site.clone())),
            site,
        })
    }
}

struct LocalRoot(Arc<LocalSite>);

#[async_trait(?Send)]
impl SiteRoot for LocalRoot {
    async fn make_root(&self) -> Result<(), SiteError> {
        self.0.make_root()
    }

    async fn take_root(&self) -> Result<(), SiteError> {
        let site = self.0.clone();
        // Its file system may hang.
        let taken = actix_web::rt::task::spawn_blocking(move || site.take_root()).await;
        taken.unwrap_or_else(|error| Err(SiteError::OutcomeUnknown(error.to_string())))
    }
}
