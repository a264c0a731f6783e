//! The description of a site, and its condition.

use async_trait::async_trait;
use cospan_domain::acquisition::SitePartitions;
use cospan_domain::ids::HostName;
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationUs;

use super::SiteError;

/// The capabilities of a site, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteCapabilities {
    /// A component that cannot start at once may wait in its own queue, for hours if need be.
    pub queues: bool,
    /// The queue is the only way to it: nothing is claimed there.
    pub queues_only: bool,
    /// It grants reservations of processors for later ([`super::Site::reservations`]).
    pub reservations: bool,
}

/// The description of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteDescription {
    /// All resources that it has, in use or not.
    pub total: Resources,
    /// The most that one component can get; `total` if the site does not say.
    pub largest_component: Resources,
    /// The labels of the site.
    pub labels: SiteLabels,
    /// The capabilities of the site.
    pub capabilities: SiteCapabilities,
    /// The partitions of the site; `None` if it has none.
    pub lanes: Option<SitePartitions>,
    /// Name and version of its batch system, for people.
    pub manager: String,
}

/// Says what a site is, and how it is.
#[async_trait]
pub trait SiteMonitor: Send + Sync {
    /// Describes the site: called at connect and now and then.
    async fn describe(&self) -> Result<SiteDescription, SiteError>;

    /// Measures how long a small message from here to a host takes there and back, at best. An
    /// error is no information about either end; sites of some kinds cannot measure.
    async fn round_trip(&self, _to: &HostName) -> Result<DurationUs, SiteError> {
        Err(SiteError::Refused("it measures no round trips".to_owned()))
    }

    /// Returns hints that something may have changed since the last status: the number grows.
    /// Nothing may depend on them; most sites have none.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }

    /// Returns why nothing can be begun there although it answers, as the latest status found.
    fn trouble(&self) -> Option<String> {
        None
    }
}
