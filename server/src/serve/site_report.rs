//! A site as the API shows it.

use std::collections::BTreeMap;

use cospan_actors::actor_settings::ActorSettings;
use cospan_actors::api::SiteOverview;
use cospan_actors::link_measurements::LinkFigures;
use cospan_domain::acquisition::SiteExperience;
use cospan_domain::resources::Resources;
use cospan_domain::site::availability::{SiteObstacle, list_obstacles};
use cospan_domain::site::barred_owners_record::OwnerBan;
use cospan_domain::site::site_state::{Breaker, SiteRecord};
use cospan_domain::units::{DurationUs, PerMillion, Timestamp};

use cospan_api::v1::Instant;
use cospan_api::v1::partition::LaneReport;
use cospan_api::v1::preferences::ScoreNumber;
use cospan_api::v1::site::{Counts, LinkReport, SiteReport, WindowReport};

/// Adds what the configuration says of a site.
pub(super) fn with_configured_values(report: SiteReport, settings: &ActorSettings) -> SiteReport {
    let quota = settings.quotas.iter();
    let quota = quota
        .filter(|(name, _)| name.as_str() == report.name)
        .map(|(_, quota)| quota.share)
        .find(|share| *share < PerMillion::ONE);
    let mut powers = settings.powers.iter();
    let power = powers.find(|(name, _)| name.as_str() == report.name);
    let mut scores = settings.scores.iter();
    let scores = scores.find(|(name, _)| name.as_str() == report.name);
    SiteReport {
        quota_millionths: quota.map(|share| share.0),
        mflops_per_processor: power.map(|(_, power)| power.0),
        benchmarks: scores
            .into_iter()
            .flat_map(|(_, scores)| scores)
            .map(|(name, score)| (name.to_string(), ScoreNumber(*score)))
            .collect(),
        ..report
    }
}

/// The report on one site.
pub(super) fn site_report(site: &SiteOverview, now: Timestamp) -> SiteReport {
    let record = &site.record;
    let last = &site.report;
    let description = last.description.as_deref();
    let reasons = list_obstacles(record, last.contact, site.held, true, now);
    let idle = last.idle.as_ref();
    let known = description.and_then(|description| description.lanes.as_ref());
    let times = known.into_iter().flat_map(|lanes| &lanes.times);
    let smallest_nodes = known.into_iter().flat_map(|lanes| &lanes.smallest_nodes);
    let labels = description.map(|d| &d.labels).into_iter().flatten();
    let operator = &record.operator;
    SiteReport {
        name: site.name.to_string(),
        state: last.state_text(site.state).into(),
        reason: match (reasons.first(), last.silent_since) {
            (Some(SiteObstacle::Unreachable { .. }), _) if last.out_of_order => {
                last.trouble.as_deref().map(str::to_owned)
            }
            (None, Some(since)) => Some(describe_silence(since, last.trouble.as_deref())),
            (None, None) => barred_owners(record, now),
            (first, _) => first.map(|reason| describe_obstacle(reason, last.trouble.as_deref())),
        },
        total: description
            .map(|d| resource_counts(&d.total))
            .unwrap_or_default(),
        idle: idle
            .map(|(_, idle)| resource_counts(idle))
            .unwrap_or_default(),
        held: Counts::default(),
        labels: labels
            .map(|(key, values)| {
                (
                    key.to_string(),
                    values.iter().map(ToString::to_string).collect(),
                )
            })
            .collect(),
        manager: description.map(|d| d.manager.clone()),
        age_ms: idle.map(|(asked_at, _)| now.since(*asked_at).0),
        consecutive_errors: record.consecutive_errors,
        last_error: record.last_error().map(|error| error.detail.to_string()),
        next_probe_at: match record.breaker {
            Breaker::Open { probe_at, .. } => Some(probe_at.into()),
            Breaker::Closed | Breaker::HalfOpen { .. } => None,
        },
        maintenance: operator
            .windows
            .iter()
            .map(|window| WindowReport {
                from: window.from.into(),
                until: window.until.into(),
                reason: window.reason.to_string(),
                by: Some(window.by.to_string()),
            })
            .collect(),
        orders: [("drain", &operator.draining), ("freeze", &operator.frozen)]
            .into_iter()
            .filter_map(|(order, given)| Some((order.to_owned(), given.as_ref()?.by.to_string())))
            .collect(),
        components: site.held,
        injected_faults: Vec::new(),
        default_partition: known
            .and_then(|lanes| lanes.own.partition.as_deref().map(str::to_owned)),
        default_times_ms: times
            .map(|(name, time)| (name.to_string(), time.0))
            .collect(),
        smallest_nodes: smallest_nodes
            .map(|(name, processors)| (name.to_string(), *processors))
            .collect(),
        lanes: partition_reports(&last.obtainable, now),
        quota_millionths: None,
        mflops_per_processor: None,
        benchmarks: BTreeMap::new(),
        links: Vec::new(),
        timeline: None,
        needs: None,
    }
}

/// Partitions in which processors could be obtained lately.
fn partition_reports(obtainable: &SiteExperience, now: Timestamp) -> Vec<LaneReport> {
    let mut obtainable = obtainable.clone();
    obtainable.forget_expired(now);
    obtainable
        .list_experience()
        .map(|(lane, known)| LaneReport::of(lane, known))
        .collect()
}

/// Owners whose jobs are barred from a site that takes those of all others.
fn barred_owners(record: &SiteRecord, now: Timestamp) -> Option<String> {
    let errors = record.consecutive_errors;
    let told = record.barred_owners(now).map(|(owner, ban)| match ban {
        OwnerBan::Probed => format!(
            "our own probe is on its way: the last {errors} errors all came from jobs of {owner}, \
             which stay away until it is back"
        ),
        OwnerBan::KeptOff { until } => {
            format!(
                "jobs of {owner} stay away until {}: they failed one after the other",
                Instant(until)
            )
        }
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn describe_silence(since: Timestamp, trouble: Option<&str>) -> String {
    let trouble = trouble.map(|told| format!(": {told}")).unwrap_or_default();
    format!("has not answered since {}{trouble}", Instant(since))
}

/// Describes what keeps work from a site; for a site that does not answer also its error.
fn describe_obstacle(reason: &SiteObstacle, trouble: Option<&str>) -> String {
    match (reason, trouble) {
        (
            SiteObstacle::NeverAnswered
            | SiteObstacle::Unreachable { .. }
            | SiteObstacle::CredentialsExpired { .. },
            Some(trouble),
        ) => format!("{reason}: {trouble}"),
        _ => reason.to_string(),
    }
}

/// The report on one link.
pub(super) fn link_report(link: &LinkFigures) -> LinkReport {
    let measured = link.measured.as_ref();
    let latency = link.measured_latency.as_ref();
    LinkReport {
        from: link.from.to_string(),
        bandwidth_bps: link.bandwidth.0,
        configured_bps: link.configured.0,
        measured_bps: measured.map(|measured| measured.bandwidth.0),
        measured_at: measured.map(|measured| measured.at.into()),
        transfers: measured.map(|measured| measured.transfers),
        latency_us: link.latency.map(|latency| latency.0),
        configured_latency_us: link.configured_latency.map(|ms| DurationUs::from(ms).0),
        latency_measured_at: latency.map(|measured| measured.at.into()),
        latency_measurements: latency.map(|measured| measured.measurements),
    }
}

fn resource_counts(resources: &Resources) -> Counts {
    let others = resources
        .others
        .iter()
        .map(|(name, count)| (name.to_string(), *count));
    others
        .chain([("processors".to_owned(), u64::from(resources.processors))])
        .collect()
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::SiteName;
    use cospan_domain::transfer::measured_latency::MeasuredLatency;
    use cospan_domain::units::{BitsPerSecond, DurationMs};

    use super::*;

    #[test]
    fn a_link_is_reported_with_the_latency_that_counts_and_its_origin() {
        let site = |name| SiteName::new(name).unwrap();
        let standing = LinkFigures {
            from: site("delft"),
            to: site("leiden"),
            bandwidth: BitsPerSecond(8),
            configured: BitsPerSecond(8),
            measured: None,
            latency: Some(DurationUs(420)),
            configured_latency: Some(DurationMs(9)),
            measured_latency: Some(MeasuredLatency {
                latency: DurationUs(420),
                at: Timestamp(5),
                measurements: 2,
            }),
        };
        let report = link_report(&standing);
        assert_eq!(
            (report.latency_us, report.configured_latency_us),
            (Some(420), Some(9_000))
        );
        assert_eq!(report.latency_measured_at, Some(Timestamp(5).into()));
        assert_eq!(
            (report.latency_measurements, report.measured_at),
            (Some(2), None)
        );
    }
}
