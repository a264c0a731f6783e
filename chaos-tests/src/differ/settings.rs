//! The control plane's settings, the same for a configuration file and for the simulator, chosen so
//! that little time is spent waiting.

use std::collections::BTreeMap;

use anyhow::Result;
use cospan_actors::actor_settings::ActorSettings;
use cospan_domain::ids::SiteName;
use cospan_domain::units::{BitsPerSecond, DurationMs};

use super::differ_scenario::{BANDWIDTH_BITS_PER_S, DifferScenario, site_name};

/// Sections of the configuration file. The control plane does not decide how long real transfers
/// take, so its measurements of them count in neither world.
pub(super) const SECTIONS: &str = r#"
[queue]
scan_interval = "1s"
[claim]
claim_timeout = "10m"
go_grace = "10m"
hold_slack = "1h"
hold_max = "1h"
claim_backoff = "200ms"
site_backoff = "200ms"
backoff_max = "2s"
[sites]
poll_interval = "200ms"
unreachable_after = "10m"
[placement]
bandwidth_expiry = "0s"
"#;

/// Time that a local site has to make a submission take effect, as the server has it.
const LOCAL_SETTLE: DurationMs = DurationMs::from_secs(1);

/// Returns the bandwidth of each link, for a configuration file.
pub(super) fn bandwidth_section() -> String {
    format!("{BANDWIDTH_BITS_PER_S}bit/s")
}

/// Returns the same settings for the simulator.
pub(super) fn settings(scenario: &DifferScenario) -> Result<ActorSettings> {
    let mut settings = cospan_simulator::settings::default_settings();
    settings.queue.scan_interval = DurationMs(1_000);
    settings.job.claim_timeout = DurationMs::from_secs(600);
    settings.job.go_grace = DurationMs::from_secs(600);
    settings.job.hold_slack = DurationMs::from_secs(3_600);
    settings.job.hold_max = DurationMs::from_secs(3_600);
    settings.job.claim_backoff = DurationMs(200);
    settings.job.site_backoff = DurationMs(200);
    settings.job.backoff_max = DurationMs(2_000);
    settings.poll_interval = DurationMs(200);
    settings.contact.unreachable_after = DurationMs::from_secs(600);
    settings.network.rates.expiry = DurationMs::ZERO;
    // Defaults of the configuration file where the simulator has others.
    settings.transfer.ready_keep = DurationMs::from_secs(600);
    settings.keep_attempts = DurationMs::from_secs(7 * 86_400);
    let names = sites(scenario)?;
    settings.submit_settle = names
        .iter()
        .map(|name| (name.clone(), LOCAL_SETTLE))
        .collect();
    settings.links = links(&names);
    Ok(settings)
}

/// Lists the names of all sites.
pub(super) fn sites(scenario: &DifferScenario) -> Result<Vec<SiteName>> {
    (0..scenario.processors.len())
        .map(|site| Ok(SiteName::new(&site_name(site))?))
        .collect()
}

fn links(names: &[SiteName]) -> BTreeMap<(SiteName, SiteName), BitsPerSecond> {
    let pairs = names
        .iter()
        .flat_map(|from| names.iter().map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from != to);
    pairs
        .map(|(from, to)| {
            (
                (from.clone(), to.clone()),
                BitsPerSecond(BANDWIDTH_BITS_PER_S),
            )
        })
        .collect()
}
