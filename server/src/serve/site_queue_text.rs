//! The components of a job that wait in the queues of their sites, in words.

use cospan_domain::job::job_state::{AttemptState, Component, Job};

use cospan_api::v1::Instant;

/// Describes the position of each component; `None` if none of them waits in a queue.
pub(super) fn describe_site_queues(job: &Job) -> Option<String> {
    if !job
        .components
        .iter()
        .any(|component: &Component| component.acquisition().waits_in_site_queue())
    {
        return None;
    }
    let each: Vec<String> = job
        .indexed_components()
        .map(|(index, component): (_, &Component)| {
            let name = job.component_name(index).unwrap_or_default();
            let site = component
                .placement
                .as_ref()
                .map(|p| p.site.to_string())
                .unwrap_or_default();
            format!("{name} {}", describe_position(component, &site))
        })
        .collect();
    Some(format!(
        "it waits in the queues of its sites: {}",
        each.join("; ")
    ))
}

fn describe_position(component: &Component, site: &str) -> String {
    let deferred = component.not_before.map(Instant);
    match &component.run {
        AttemptState::Submitted {
            waits: Some(waits), ..
        } => {
            let since = Instant(waits.since);
            match (waits.expected_start, deferred) {
                (Some(at), _) => {
                    let told = waits
                        .told_at
                        .map(|told| format!(", as it said at {}", Instant(told)));
                    let told = told.unwrap_or_default();
                    format!(
                        "at {site} since {since}, expected to start at {}{told}",
                        Instant(at)
                    )
                }
                (None, Some(at)) => format!("at {site}, submitted to begin at {at}"),
                (None, None) => {
                    format!("at {site} since {since}, which gives no expected start")
                }
            }
        }
        AttemptState::AtGate { since, .. } => {
            format!("holds its processors at {site} since {}", Instant(*since))
        }
        AttemptState::Submitted { .. } => format!("is submitted at {site}"),
        _ if component.given_back => format!("gives its processors back at {site}"),
        _ => format!("is about to be submitted at {site}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cospan_domain::acquisition::{Acquisition, QueueTimeLimits};
    use cospan_domain::ids::LrmId;
    use cospan_domain::job::job_state::{JobPhase, SiteQueueWait};
    use cospan_domain::units::Timestamp;

    use super::*;
    use crate::serve::verdict_report::tests::placed_at;

    fn in_queue(run: AttemptState) -> Job {
        let mut job = placed_at(
            "leiden",
            JobPhase::Claiming {
                since: Timestamp(0),
            },
        );
        let limits = QueueTimeLimits::default();
        job.components[0].placement.as_mut().unwrap().acquisition = Acquisition::Queue(limits);
        job.components[0].run = run;
        job
    }

    fn waits(expected_start: Option<Timestamp>) -> AttemptState {
        let waits = Some(SiteQueueWait {
            since: Timestamp(0),
            expected_start,
            told_at: Some(Timestamp(30_000)),
        });
        AttemptState::Submitted {
            lrm_id: LrmId::new("7").unwrap(),
            at: Timestamp(0),
            absences: 0,
            waits,
        }
    }

    #[test]
    fn who_waits_in_a_queue_is_told_when_its_site_expects_it() {
        let told = |run| describe_site_queues(&in_queue(run)).unwrap();
        assert!(told(waits(Some(Timestamp(60_000)))).ends_with(
            "at leiden since 1970-01-01T00:00:00.000Z, expected to start at \
             1970-01-01T00:01:00.000Z, as it said at 1970-01-01T00:00:30.000Z"
        ));
        assert!(told(waits(None)).ends_with("which gives no expected start"));
        let host: Arc<str> = "node".into();
        let lrm_id = LrmId::new("7").unwrap();
        let since = Timestamp(0);
        let held = told(AttemptState::AtGate {
            lrm_id,
            host,
            since,
            clock: None,
        });
        assert!(
            held.contains("holds its processors at leiden since"),
            "{held}"
        );
    }

    #[test]
    fn a_claim_of_idle_processors_is_no_wait_in_a_queue() {
        let job = placed_at(
            "leiden",
            JobPhase::Claiming {
                since: Timestamp(0),
            },
        );
        assert_eq!(describe_site_queues(&job), None);
    }
}
