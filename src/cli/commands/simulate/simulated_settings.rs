//! Settings of a simulated control plane: those of a server, except for those that would only cost
//! time.

use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::ids::IdentifierError;
use cospan_domain::job::spec::JobSpecLimits;
use cospan_domain::site::site_parameters::SiteParameters;
use cospan_domain::units::DurationMs;

use cospan_server::config::Config;
use cospan_server::serve;

/// Sites report every change, so they are asked rarely.
const POLL: DurationMs = DurationMs::from_secs(600);
const RECONCILE: DurationMs = DurationMs::from_secs(86_400);

/// The settings of a server of this configuration, without its sites and links: those come from the
/// grid file.
///
/// The name of the policy is none.
pub(super) fn simulated_settings(config: &Config) -> Result<ActorSettings, IdentifierError> {
    let actors = serve::settings_from_config::actor_settings(config)?;
    Ok(ActorSettings {
        // All jobs of a log belong to one user here.
        site: SiteParameters {
            tells_owners_apart: false,
            ..actors.site
        },
        // A log has jobs that ran, whatever the limits of a server would be.
        limits: JobSpecLimits {
            max_components: u32::MAX,
            max_wall_time: DurationMs(u64::MAX),
        },
        // Each job has the class that its log or model gives it.
        classes: Vec::new(),
        poll_interval: POLL,
        information_expiry: POLL,
        reconcile_interval: RECONCILE,
        submit_settle: Default::default(),
        links: Default::default(),
        staging: Default::default(),
        webhooks: Default::default(),
        targets: Default::default(),
        tell_for: cospan_domain::units::DurationMs::from_secs(86_400),
        fallback_tick: None,
        ..actors
    })
}
