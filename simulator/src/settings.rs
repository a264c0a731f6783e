//! Settings of a simulated control plane: the defaults of a server, except for the tick, which must
//! not be needed.

use std::collections::BTreeMap;

use cospan_actors::actor_settings::{ActorSettings, JobMemoryLimits};
use cospan_domain::units::DurationMs;

/// Returns the default settings.
pub fn default_settings() -> ActorSettings {
    ActorSettings {
        job: Default::default(),
        limits: Default::default(),
        default_policies: Default::default(),
        history_seed: Default::default(),
        quotas: BTreeMap::new(),
        powers: BTreeMap::new(),
        scores: BTreeMap::new(),
        queue: Default::default(),
        classes: Vec::new(),
        information_expiry: DurationMs::from_secs(60),
        information: Default::default(),
        site: Default::default(),
        contact: Default::default(),
        isolation_window: DurationMs::from_secs(60),
        poll_interval: DurationMs::from_secs(5),
        reconcile_interval: DurationMs::from_secs(300),
        submit_settle: BTreeMap::new(),
        transfer: Default::default(),
        bids: Default::default(),
        links: BTreeMap::new(),
        network: Default::default(),
        staging: BTreeMap::new(),
        calls_per_site: 8,
        keep_attempts: DurationMs::from_secs(3_600),
        keep_jobs: DurationMs::from_secs(86_400),
        job_memory: JobMemoryLimits::UNBOUNDED,
        intake_bound: 1_024,
        webhooks: BTreeMap::new(),
        targets: Default::default(),
        tell_for: cospan_domain::units::DurationMs::from_secs(86_400),
        fallback_tick: None,
    }
}
