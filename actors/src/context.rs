//! The state that every actor can reach: clock, settings, view, live state, addresses. No actor
//! owns another, or any state that another writes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use actix::Addr;
use arc_swap::ArcSwap;
use cospan_domain::ids::{Epoch, InstanceId, KeyName, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::placement::{PlacementRequest, SitePairHistory};
use cospan_domain::queue::StarvationGuard;
use cospan_domain::units::Timestamp;
use cospan_sites::port::Site;

use crate::actor_registry::ActorRegistry;
use crate::actor_settings::ActorSettings;
use crate::clock::Clock;
use crate::committed::CommittedView;
use crate::deductions::Deductions;
use crate::journal::JournalActor;
use crate::link_measurements::LinkMeasurements;
use crate::live_state::LiveState;
use crate::metrics::ControlPlaneMetrics;
use crate::process_end::ProcessEnd;
use crate::seeded_random::RandomSource;
use crate::spec_cache::SpecCache;
use crate::staging_deductions::StagingDeductions;
use crate::supervision::{ActorId, StartActor, Supervisor};
use crate::watched_state::PublishedState;

/// The state that every actor can reach.
pub struct SharedState {
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub chance: Arc<RandomSource>,
    /// The time when this control plane was started.
    pub started_at: Timestamp,
    /// Settings, frozen.
    pub settings: Arc<ActorSettings>,
    /// The number of this control plane among others at the same sites.
    pub instance: InstanceId,
    /// The instances whose store it took over.
    pub former: Vec<InstanceId>,
    /// This run's epoch over the store.
    pub epoch: Epoch,
    /// The committed state.
    pub view: Arc<PublishedState<CommittedView>>,
    /// The sites' last reports.
    pub live: LiveState,
    /// Knowledge of the links.
    pub(crate) links: LinkMeasurements,
    /// The history table of Close-to-Files as the co-allocator left it.
    pub history: ArcSwap<SitePairHistory>,
    /// Processors that the last scan withheld for one job.
    pub starvation_guard: ArcSwap<Option<StarvationGuard>>,
    /// The addresses of all actors.
    pub actors: ActorRegistry,
    pub metrics: Arc<ControlPlaneMetrics>,
    /// The sites, by name.
    pub sites: BTreeMap<SiteName, Arc<dyn Site>>,
    pub(crate) supervisor: OnceLock<Addr<Supervisor>>,
    pub(crate) journal: OnceLock<Addr<JournalActor>>,
    /// Knowledge of the last specifications.
    pub(crate) recent: SpecCache,
    /// Input that may come to be staged any moment.
    pub(crate) promised: Arc<StagingDeductions>,
    /// Deductions from sites that no job owns yet.
    pub deductions: Arc<Deductions>,
    /// The end of the process.
    pub process: Arc<ProcessEnd>,
}

impl SharedState {
    /// The journal. It lives as long as the process.
    pub fn journal(&self) -> &Addr<JournalActor> {
        // Set before any other actor is started; see `wiring`.
        #[allow(
            clippy::expect_used,
            reason = "an order of start that cannot be otherwise"
        )]
        self.journal.get().expect("the journal is started first")
    }

    /// Starts an actor under supervision.
    pub(crate) fn start_actor(&self, id: ActorId) {
        if let Some(supervisor) = self.supervisor.get() {
            // Bounded by what is durable: one per job, copy and site.
            supervisor.do_send(StartActor(id));
        }
    }

    /// Asks those who plan for jobs that wait to look: sites may have something for them.
    pub(crate) fn request_planning(&self) {
        self.actors.request_look_of(&ActorId::CoAllocator);
        self.actors.request_look_of(&ActorId::Reserver);
    }

    /// Returns the request that a job makes of sites.
    pub(crate) fn placement_request_of(&self, job: &Job) -> Arc<PlacementRequest> {
        let request = self.recent.request_of(job, &self.settings.default_policies);
        self.add_owner_if_barred(request, &job.owner)
    }

    /// Puts its owner's name on a request, if any site may be closed to that owner alone.
    pub(crate) fn add_owner_if_barred(
        &self,
        request: Arc<PlacementRequest>,
        owner: &KeyName,
    ) -> Arc<PlacementRequest> {
        if self.live.is_barred_owner(owner) {
            Arc::new(Arc::unwrap_or_clone(request).with_owner(owner))
        } else {
            request
        }
    }
}
