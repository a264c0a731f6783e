//! Counts the events of jobs in the metrics.

use cospan_domain::ids::{ComponentIndex, SiteName};
use cospan_domain::job::accounting::JobAccounting;
use cospan_domain::job::job_event::{JobEvent, JobEventKind};
use cospan_domain::job::job_state::{AbortCause, Job, JobPhase};
use cospan_domain::units::DurationMs;
use prometheus::Histogram;

use super::reservation_metrics;
use crate::metrics::ControlPlaneMetrics;

/// Counts what happened to a job in one step. A step may lead through several phases: each event
/// counts, not where the job stood before and stands now.
pub(crate) fn count_job_step(
    metrics: &ControlPlaneMetrics,
    old: &Job,
    new: &Job,
    events: &[JobEvent],
) {
    events
        .iter()
        .for_each(|event| count_job_event(metrics, old, new, event));
    if new.is_final() && !old.is_final() {
        let cost = JobAccounting::from_job(new);
        metrics
            .gained_processor_seconds
            .inc_by(cost.gained_processor_ms / 1_000);
        metrics
            .wasted_processor_seconds
            .inc_by(cost.wasted_processor_ms / 1_000);
        // A job that was never placed has no figures.
        if cost.placement_time.is_some() {
            observe_job_cost(metrics, &cost);
        }
    }
}

/// Observes the cost of a job that has ended.
fn observe_job_cost(metrics: &ControlPlaneMetrics, cost: &JobAccounting) {
    metrics
        .costs
        .total_placement_seconds
        .observe(cost.total_placement_time.as_secs_f64());
    if let Some(delay) = cost.start_delay_ms {
        let length = DurationMs(delay.unsigned_abs()).as_secs_f64();
        metrics
            .costs
            .start_delay_seconds
            .observe(if delay < 0 { -length } else { length });
    }
    if let Some(gained) = cost.gained_time {
        metrics.costs.gained_seconds.observe(gained.as_secs_f64());
    }
    metrics
        .costs
        .wasted_processor_seconds
        .observe(DurationMs(cost.wasted_processor_ms).as_secs_f64());
    metrics.costs.sites.observe(f64::from(cost.sites_combined));
    metrics
        .costs
        .transfer_bytes
        .observe(cost.transfer_volume.0 as f64);
}

fn count_job_event(metrics: &ControlPlaneMetrics, old: &Job, new: &Job, event: &JobEvent) {
    reservation_metrics::count_reservation_event(&metrics.reservations, old, new, event);
    match &event.what {
        JobEventKind::JobPlaced { .. } => {
            observe_time(&metrics.placement_seconds, new.instants.placement_time);
        }
        JobEventKind::GoDecided { .. } => {
            let placed = new.instants.placed.unwrap_or(event.at);
            observe_time(&metrics.claim_seconds, event.at.since(placed));
        }
        JobEventKind::JobStarted => {
            let decided = if let JobPhase::Starting { since } = old.phase {
                since
            } else {
                event.at
            };
            observe_time(&metrics.start_seconds, event.at.since(decided));
            observe_time(&metrics.wait_seconds, event.at.since(new.submitted_at));
        }
        JobEventKind::RoundAborted { why, .. } => {
            metrics
                .rounds_aborted
                .with_label_values(&[abort_cause_name(why)])
                .inc();
        }
        JobEventKind::ComponentFailed { component, why, .. } => {
            let site =
                site_of_component(old, *component).or_else(|| site_of_component(new, *component));
            let labels = [abort_cause_name(why), site.map_or("", SiteName::as_str)];
            metrics.components_failed.with_label_values(&labels).inc();
        }
        JobEventKind::JobFinished => {
            let succeeded = new.instants.succeeded.unwrap_or(event.at);
            let started = new.instants.started.unwrap_or(succeeded);
            observe_time(&metrics.run_seconds, succeeded.since(started));
            observe_time(&metrics.response_seconds, event.at.since(new.submitted_at));
            count_job_end(metrics, "finished");
        }
        JobEventKind::JobFailed { .. } => count_job_end(metrics, "failed"),
        JobEventKind::JobCancelled { .. } => count_job_end(metrics, "cancelled"),
        _ => {}
    }
}

fn observe_time(histogram: &Histogram, time: DurationMs) {
    histogram.observe(time.as_secs_f64());
}

fn count_job_end(metrics: &ControlPlaneMetrics, how: &str) {
    metrics.jobs_ended.with_label_values(&[how]).inc();
}

/// Returns the site of a component; one that failed in this step was there before it.
fn site_of_component(job: &Job, component: ComponentIndex) -> Option<&SiteName> {
    let component = job.components.get(component.0 as usize)?;
    component
        .placement
        .as_ref()
        .map(|placement| &placement.site)
}

/// The name of a cause in metrics and reports.
pub fn abort_cause_name(why: &AbortCause) -> &'static str {
    match why {
        AbortCause::ClaimLost { .. } => "claim-lost",
        AbortCause::InputLost { .. } => "input-lost",
        AbortCause::SiteError { .. } => "site-error",
        AbortCause::StartMissed { .. } => "start-missed",
        AbortCause::Unreachable { .. } => "unreachable",
        AbortCause::Application { .. } => "application",
        AbortCause::Cancelled => "cancelled",
        AbortCause::Preempted { .. } => "preempted",
        AbortCause::ReservationChanged { .. } => "reservation-changed",
        AbortCause::Barred { .. } => "barred",
        AbortCause::Unfit { .. } => "unfit",
        AbortCause::Drained { .. } => "drained",
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::job_state::Component;
    use cospan_domain::placed::Placement;
    use cospan_domain::units::{Bytes, Timestamp};
    use prometheus::Registry;

    use super::*;
    use crate::transfer::testing::{content, queued_job, site};

    #[test]
    fn what_a_job_cost_is_counted_once_it_has_ended() {
        let metrics = ControlPlaneMetrics::new(&Registry::new()).expect("metrics");
        let mut old = queued_job(1, content(1));
        old.instants.placed = Some(Timestamp(9_000));
        old.instants.claimed = Some(Timestamp(11_000));
        old.instants.total_placement_time = DurationMs(7_000);
        old.instants.first_start_estimate = Some(Timestamp(20_000));
        old.instants.start_estimate = Some(Timestamp(17_000));
        old.instants.wasted_processor_ms = 5_000;
        old.instants.transfer_volume = Bytes(800);
        let placement = |name: &str| Placement {
            site: site(name),
            sources: Vec::new(),
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        old.components = ["Delft", "Leiden", "Delft"]
            .map(|name| Component {
                placement: Some(placement(name)),
                ..Component::default()
            })
            .into();
        let new = Job {
            phase: JobPhase::Finished {
                at: Timestamp(30_000),
            },
            ..old.clone()
        };
        count_job_step(&metrics, &old, &old, &[]);
        count_job_step(&metrics, &old, &new, &[]);
        count_job_step(&metrics, &new, &new, &[]);
        let of = |histogram: &Histogram| (histogram.get_sample_count(), histogram.get_sample_sum());
        assert_eq!(of(&metrics.costs.total_placement_seconds), (1, 7.0));
        assert_eq!(of(&metrics.costs.start_delay_seconds), (1, -3.0));
        assert_eq!(of(&metrics.costs.gained_seconds), (1, 2.0));
        assert_eq!(of(&metrics.costs.wasted_processor_seconds), (1, 5.0));
        assert_eq!(of(&metrics.costs.sites), (1, 2.0));
        assert_eq!(of(&metrics.costs.transfer_bytes), (1, 800.0));
        let never = queued_job(2, content(1));
        let failed = Job {
            phase: JobPhase::Failed {
                at: Timestamp(1),
                reason: "no site".into(),
            },
            ..never.clone()
        };
        count_job_step(&metrics, &never, &failed, &[]);
        assert_eq!(of(&metrics.costs.sites).0, 1, "it was never placed");
    }

    #[test]
    fn a_component_that_fails_alone_is_counted_by_cause_at_its_site() {
        let metrics = ControlPlaneMetrics::new(&Registry::new()).expect("metrics");
        let mut old = queued_job(1, content(1));
        let placement = Placement {
            site: site("Delft"),
            sources: Vec::new(),
            transfer_time: DurationMs::ZERO,
            share: None,
            acquisition: Default::default(),
        };
        let placed = Component {
            placement: Some(placement),
            ..Component::default()
        };
        old.components = vec![Component::default(), placed];
        let mut new = old.clone();
        new.components[1].placement = None;
        let component = ComponentIndex(1);
        let whys = [
            AbortCause::Application {
                component,
                detail: "exit code 3".into(),
            },
            AbortCause::SiteError {
                component,
                detail: "lost".into(),
            },
            AbortCause::Application {
                component,
                detail: "exit code 4".into(),
            },
        ];
        let events = whys.map(|why| JobEvent {
            at: Timestamp(1),
            what: JobEventKind::ComponentFailed {
                component,
                why,
                next_claim: Timestamp(2),
            },
        });
        count_job_step(&metrics, &old, &new, &events);
        let of = |cause| {
            metrics
                .components_failed
                .with_label_values(&[cause, "Delft"])
                .get()
        };
        assert_eq!(
            (of("application"), of("site-error"), of("unreachable")),
            (2, 1, 0)
        );
    }
}
