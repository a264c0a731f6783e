//! From the configuration to the settings of actors, sites, store and HTTP edge.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cospan_actors::actor_settings::{
    ActorSettings, BidSettings, NetworkSettings, SiteQuerySettings, StagingLimits,
};
use cospan_domain::acquisition::{BenchmarkScores, ClaimTimeLimits};
use cospan_domain::claim::{ClaimParameters, MinClaimInterval};
use cospan_domain::ids::{KeyName, PolicyName, SiteName, TargetName};
use cospan_domain::job::job_parameters::JobParameters;
use cospan_domain::job::spec::JobSpecLimits;
use cospan_domain::placement::{BidBandwidthChoice, PlacementDefaults, QuotaBasis, SiteQuota};
use cospan_domain::queue::{QueueParameters, StarvationGuardParameters};
use cospan_domain::site::contact::ContactParameters;
use cospan_domain::site::site_parameters::SiteParameters;
use cospan_domain::transfer::copy_parameters::CopyParameters;
use cospan_domain::transfer::measured_bandwidth::BandwidthParameters;
use cospan_domain::units::{DurationMs, Mflops};

use super::{configured_links, job_memory};
use crate::chaos::RehearsalLimits;
use crate::config::sections::{Basis, BidKind, PriorityRule, SiteKind};
use crate::config::value::AutoOrGiven;
use crate::config::{Config, SecretUrl};
use crate::http::{HttpSettings, TlsFiles};
use crate::site_kinds;
use crate::uploads::UploadSettings;

/// Period after which everything is marked dirty, as a last resort.
const FALLBACK_TICK: DurationMs = DurationMs::from_secs(30);
/// Time between two sweeps for attempts that nobody owns.
const RECONCILE: DurationMs = DurationMs::from_secs(300);

/// Settings of the actors.
pub fn actor_settings(
    config: &Config,
) -> Result<ActorSettings, cospan_domain::ids::IdentifierError> {
    let sites = &config.sites;
    let settle = config
        .site
        .iter()
        .map(|site| (site.name.clone(), site_kinds::settle_time(site.kind)));
    let job = job_parameters(config);
    Ok(ActorSettings {
        limits: spec_limits(config),
        default_policies: PlacementDefaults {
            rigid: PolicyName::new(&config.placement.policy)?,
            flexible: PolicyName::new(&config.placement.flexible_policy)?,
            weights: config.placement.weights,
            local_rate: config.placement.local_bandwidth,
            lanes: site_kinds::partition_options(config.site.iter().map(|site| site.kind)),
            beyond_wall_time: job.holding_beyond_wall_time(),
            site_keys: site_keys(config),
        },
        job,
        history_seed: config.placement.history_seed.0.clone(),
        quotas: site_quotas(config),
        powers: site_powers(config),
        scores: site_scores(config),
        queue: queue_parameters(config),
        classes: config
            .priority
            .iter()
            .map(PriorityRule::as_class_rule)
            .collect(),
        information_expiry: config.placement.is_expiry,
        information: catalogue_settings(config),
        site: SiteParameters {
            site_error_threshold: sites.site_error_threshold,
            probe_interval: sites.probe_interval,
            probe_interval_max: sites.probe_interval_max,
            no_show: config.reservations.no_show,
            ..SiteParameters::default()
        },
        contact: ContactParameters {
            unreachable_after: sites.unreachable_after,
            ..ContactParameters::default()
        },
        isolation_window: sites.isolation_window,
        poll_interval: sites.poll_interval,
        reconcile_interval: RECONCILE,
        submit_settle: settle.collect(),
        transfer: CopyParameters {
            ready_keep: config.store.keep_copies,
            partial_keep: config.store.keep_partials,
            max_output_tries: config.store.output_tries,
            ..CopyParameters::default()
        },
        bids: BidSettings {
            in_messages: config.placement.bid_messages,
            timeout: config.placement.bid_timeout,
            interval: config.placement.bid_interval,
        },
        links: configured_links::bandwidths(config),
        network: network_settings(config),
        staging: staging_bounds(config),
        calls_per_site: sites.exec_limit as usize,
        keep_attempts: config.store.keep_attempts,
        keep_jobs: config.store.keep_finished,
        job_memory: job_memory::admission_bounds(config),
        intake_bound: config.limits.max_intake as usize,
        webhooks: site_webhooks(config),
        targets: notify_targets(config),
        tell_for: config.notify.give_up_after,
        fallback_tick: Some(FALLBACK_TICK),
    })
}

fn job_parameters(config: &Config) -> JobParameters {
    let claim = &config.claim;
    JobParameters {
        claim: ClaimParameters {
            l: claim.l,
            l_step: claim.l_step,
            l_min: claim.l_min,
            threshold: claim.threshold,
            min_claim_step: match claim.min_claim_step {
                AutoOrGiven::Auto => MinClaimInterval::Auto,
                AutoOrGiven::Given(step) => MinClaimInterval::Fixed(step),
            },
            max_claim_tries: claim.max_claim_tries,
        },
        claim_timeout: claim.claim_timeout,
        hold_slack: claim.hold_slack,
        hold_max: claim.hold_max,
        claims_at: site_claim_limits(config),
        go_lead: longest_of_kinds(config, site_kinds::gate_lead),
        go_lead_held: longest_of_kinds(config, site_kinds::gate_lead_held),
        gate_patience: site_kinds::gate_patience(),
        go_grace: claim.go_grace,
        settle: config.sites.settle,
        claim_backoff: claim.claim_backoff,
        site_backoff: claim.site_backoff,
        avoid_for: claim.avoid_for,
        backoff_max: claim.backoff_max,
        max_input_losses: claim.max_input_losses,
        reservation_share: config.reservations.most_share,
        reservation_ahead: config.reservations.most_ahead,
        reservation_notice: config.reservations.notice,
        reservation_candidates: config.reservations.candidates,
        missing_benchmark_factor: config.reservations.missing_benchmark_factor,
        ..JobParameters::default()
    }
}

/// Limits of claims at sites that have limits of their own.
fn site_claim_limits(config: &Config) -> BTreeMap<SiteName, ClaimTimeLimits> {
    let own = config
        .site
        .iter()
        .filter(|s| s.claim_timeout.is_some() || s.hold_max.is_some());
    let limits = own.map(|site| {
        let ready_within = site.claim_timeout.unwrap_or(config.claim.claim_timeout);
        let max_hold = site.hold_max.unwrap_or(config.claim.hold_max);
        (
            site.name.clone(),
            ClaimTimeLimits {
                ready_within,
                max_hold,
            },
        )
    });
    limits.collect()
}

/// The longest lead of all kinds: sites of all kinds start together.
fn longest_of_kinds(config: &Config, of: fn(SiteKind) -> DurationMs) -> DurationMs {
    config
        .site
        .iter()
        .map(|site| of(site.kind))
        .max()
        .unwrap_or_default()
}

fn site_quotas(config: &Config) -> BTreeMap<SiteName, SiteQuota> {
    let basis = match config.placement.quota_basis {
        Basis::Level => QuotaBasis::Level,
        Basis::Share => QuotaBasis::Share,
    };
    let quotas = config.site.iter().map(|site| {
        let share = site.quota;
        (site.name.clone(), SiteQuota { share, basis })
    });
    quotas.collect()
}

fn site_powers(config: &Config) -> BTreeMap<SiteName, Mflops> {
    let sites = config.site.iter();
    sites
        .filter_map(|site| Some((site.name.clone(), site.gflops_per_processor?)))
        .collect()
}

fn site_scores(config: &Config) -> BTreeMap<SiteName, BenchmarkScores> {
    let sites = config
        .site
        .iter()
        .filter(|site| !site.benchmarks.is_empty());
    sites
        .map(|site| (site.name.clone(), site.benchmarks.clone()))
        .collect()
}

fn spec_limits(config: &Config) -> JobSpecLimits {
    JobSpecLimits {
        max_components: config.limits.max_components,
        max_wall_time: config.limits.max_wall_time,
    }
}

fn queue_parameters(config: &Config) -> QueueParameters {
    let queue = &config.queue;
    QueueParameters {
        n_h: queue.n_h,
        n_l: queue.n_l,
        n1: queue.n1,
        n2: queue.n2,
        n3: queue.n3,
        n4: queue.n4,
        scan_interval: queue.scan_interval,
        promote_after: queue.promotion_tries,
        max_placement_tries: queue.max_placement_tries,
        events: queue.events,
        starvation_guard: StarvationGuardParameters {
            after: queue.hoard_after,
            share: queue.hoard_share,
            time: queue.hoard_time,
        },
        ..QueueParameters::default()
    }
}

fn catalogue_settings(config: &Config) -> SiteQuerySettings {
    let sites = config.site.iter();
    let own = sites.filter_map(|site| Some((site.name.clone(), site.query_timeout?)));
    SiteQuerySettings {
        refresh_ahead: config.placement.refresh_ahead,
        query_timeout: config.sites.query_timeout,
        query_timeouts: own.collect(),
    }
}

fn site_keys(config: &Config) -> BTreeMap<SiteName, Arc<[KeyName]>> {
    let kept = config
        .site
        .iter()
        .filter_map(|site| Some((site, site.keys.as_ref()?)));
    kept.map(|(site, keys)| (site.name.clone(), keys.as_slice().into()))
        .collect()
}

fn staging_bounds(config: &Config) -> BTreeMap<SiteName, StagingLimits> {
    let sites = config.site.iter();
    let staging = sites.map(|site| {
        (
            site.name.clone(),
            StagingLimits {
                budget: site.staging,
                replicas: site.replicas,
            },
        )
    });
    staging
        .filter(|(_, staging)| *staging != StagingLimits::default())
        .collect()
}

fn network_settings(config: &Config) -> NetworkSettings {
    let placement = &config.placement;
    let mut latencies = configured_links::link_property(config, |link| link.latency);
    latencies.retain(|_, latency| *latency > DurationMs::ZERO);
    let sites = config.site.iter();
    let hosts = sites.filter_map(|site| Some((site.name.clone(), site.host.clone()?)));
    NetworkSettings {
        uploads: configured_links::upload_limits(config),
        bids: match placement.bid_bandwidths {
            BidKind::OneKind => BidBandwidthChoice::OneKind,
            BidKind::Latest => BidBandwidthChoice::Latest,
        },
        latencies,
        message: placement.message_size,
        hosts: hosts.collect(),
        latency_interval: placement.latency_interval,
        rates: BandwidthParameters {
            half_life: placement.bandwidth_half_life,
            expiry: placement.bandwidth_expiry,
            ..BandwidthParameters::default()
        },
    }
}

fn notify_targets(config: &Config) -> BTreeMap<TargetName, Arc<str>> {
    let targets = config.notify.targets.iter();
    // Names were checked with the configuration.
    targets
        .filter_map(|(name, url)| Some((TargetName::new(name).ok()?, url.0.as_str().into())))
        .collect()
}

fn site_webhooks(config: &Config) -> BTreeMap<Option<SiteName>, Vec<Arc<str>>> {
    let all = Some((None, config.notify.webhooks.iter().map(url_text).collect()));
    let each = config.site.iter().filter_map(|site| {
        Some((
            Some(site.name.clone()),
            vec![url_text(site.webhook.as_ref()?)],
        ))
    });
    all.into_iter().chain(each).collect()
}

fn url_text(SecretUrl(url): &SecretUrl) -> Arc<str> {
    url.as_str().into()
}

/// Bounds of injected faults.
pub(super) fn chaos_limits(config: &Config) -> RehearsalLimits {
    let chaos = &config.chaos;
    RehearsalLimits {
        max_duration: chaos.max_duration,
        max_sites_percent: chaos.max_sites_percent,
    }
}

/// Settings of the HTTP edge.
pub(super) fn http_settings(config: &Config, data: &Path) -> HttpSettings {
    let server = &config.server;
    let tls = match (&server.tls_certificate, &server.tls_key) {
        (Some(certificates), Some(key)) => Some(TlsFiles {
            certificates: certificates.clone(),
            key: key.clone(),
        }),
        _ => None,
    };
    HttpSettings {
        listen: server.listen.clone(),
        tls,
        tls_ends_at_proxy: server.tls_ends_at_proxy,
        workers: server.workers as usize,
        max_connections: server.max_connections as usize,
        max_body_bytes: usize::try_from(server.max_body.0).unwrap_or(usize::MAX),
        max_bulk_jobs: config.limits.max_jobs_per_request as usize,
        max_sweep_tasks: config.limits.max_sweep_tasks as usize,
        keep_attempts: config.store.keep_attempts,
        max_job_bytes: job_memory::admission_bounds(config).per_key,
        head_timeout: to_duration(server.head_timeout),
        body_timeout: to_duration(server.body_timeout),
        keep_alive: to_duration(server.keep_alive),
        metrics_without_key: server.metrics_public,
        max_requests_per_s_per_key: server.max_requests_per_s,
        max_failures_per_minute: server.max_failures_per_minute,
        max_streams: server.max_streams as usize,
        max_streams_per_key: server.max_streams_per_key as usize,
        max_streams_per_address: server.max_streams_per_address as usize,
        max_dry_runs: server.max_dry_runs as usize,
        dry_run_budget: to_duration(server.dry_run_budget),
        kept_changes: server.kept_changes as usize,
        stop_timeout: to_duration(server.stop_timeout),
        key_refresh: to_duration(server.key_refresh),
        spec_limits: spec_limits(config),
        uploads: UploadSettings {
            directory: Some(data.join("uploads")),
            max_bytes: config.limits.max_upload.0,
            quota_bytes: config.limits.upload_quota.0,
            quota_files: u64::from(config.limits.upload_quota_files),
            keep: to_duration(config.limits.keep_uploads),
        },
    }
}

fn to_duration(length: DurationMs) -> Duration {
    Duration::from_millis(length.0)
}
