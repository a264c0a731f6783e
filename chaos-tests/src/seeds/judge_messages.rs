//! Judges whether the reports of sites and copies are processed: once the control plane has learned
//! how far an attempt is, or that input is there, its job says so soon, whatever else was being
//! written at that moment. And messages that administrators have received soon leave the list of
//! those owed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cospan_actors::api::CommittedView;
use cospan_actors::context::SharedState;
use cospan_actors::supervision::ActorId;
use cospan_domain::ids::{AttemptTag, ComponentIndex, JobId, SiteName};
use cospan_domain::job::demands::needed_digests;
use cospan_domain::job::job_state::{AttemptState, Component, Job, JobPhase};
use cospan_domain::site::site_state::{SiteNotification, SiteNotificationId};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::AttemptObservation;

use super::judge_transitions::SeenJobs;
use cospan_simulator::control_plane_run::ControlPlaneRun;

/// Time between two looks.
const EVERY: DurationMs = DurationMs(15_000);
/// Long enough for an actor that is built anew.
const TAKEN_UP: DurationMs = DurationMs(40_000);
/// Number of writes: the one under way and those that follow from it wait for each other.
const WRITES: u64 = 4;
/// Long enough for the actor of a site that dies so often that it is left alone in between.
const NOTED: DurationMs = DurationMs(600_000);

/// A report that arrived and is not yet in the record of its job or site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    /// Progress of an attempt.
    Of(AttemptTag, &'static str),
    /// All input of a job is where it was placed.
    Input(JobId),
    /// Administrators received this message about a site.
    Message(SiteName, SiteNotificationId),
}

impl News {
    /// Returns the time that may pass until it is processed.
    fn patience(&self, slowest_write: DurationMs) -> DurationMs {
        match self {
            News::Of(..) | News::Input(_) => TAKEN_UP + DurationMs(WRITES * slowest_write.0),
            News::Message(..) => NOTED,
        }
    }

    /// Returns true if it is not processed while this actor takes no messages.
    fn waits_for(&self, id: &ActorId) -> bool {
        let whose = match self {
            News::Of(tag, _) => *id == ActorId::Job(tag.job),
            News::Input(job) => *id == ActorId::Job(*job),
            News::Message(site, _) => {
                *id == ActorId::Notifier || *id == ActorId::Cluster(site.clone())
            }
        };
        whose || *id == ActorId::Journal
    }
}

/// Looks again and again, as long as it is polled.
pub(super) async fn watch_news(
    plane_run: ControlPlaneRun,
    slowest_write: DurationMs,
    seen: Rc<RefCell<SeenJobs>>,
) {
    let mut since: BTreeMap<News, Timestamp> = BTreeMap::new();
    loop {
        plane_run.sleep_until(plane_run.clock.now() + EVERY).await;
        let now = plane_run.clock.now();
        let news = overdue_news(&plane_run);
        since.retain(|old, _| news.contains(old));
        for news in news {
            let heard = *since.entry(news.clone()).or_insert(now);
            let by = heard + news.patience(slowest_write);
            if by < now && by + stalled_since(&plane_run, &news, heard) < now {
                let text = format!("what was heard is not taken up: {news:?}, by {}", heard.0);
                seen.borrow_mut().violations.push(text);
                since.insert(news, now);
            }
        }
    }
}

/// Returns the time since then in which nobody could process it.
fn stalled_since(plane_run: &ControlPlaneRun, news: &News, since: Timestamp) -> DurationMs {
    plane_run
        .lives
        .stalled_time(since, plane_run.clock.now(), |id| news.waits_for(id))
}

fn overdue_news(plane_run: &ControlPlaneRun) -> Vec<News> {
    let view = plane_run.plane.view();
    let shared = plane_run.plane.shared();
    let jobs = view
        .jobs
        .values()
        .filter(|job| !job.is_final() && job.held.is_none());
    let mut found = delivered_news(plane_run, &view);
    for job in jobs {
        let components = job.indexed_components();
        found.extend(
            components.filter_map(|(index, component)| {
                unrecorded_progress(shared, job, index, component)
            }),
        );
        found.extend(has_input(&view, job).then_some(News::Input(job.id)));
    }
    found
}

/// Lists messages that this life of the notifier knows to have arrived, and that are still owed.
fn delivered_news(plane_run: &ControlPlaneRun, view: &CommittedView) -> Vec<News> {
    let Some(born) = plane_run.lives.life_began_at(&ActorId::Notifier) else {
        return Vec::new();
    };
    let owed = view.sites.values().flat_map(|record| {
        record
            .owed
            .iter()
            .map(|owed: &SiteNotification| (record.site.clone(), owed.id))
    });
    owed.filter(|(site, id): &(SiteName, SiteNotificationId)| {
        plane_run
            .call_faults
            .arrived_at(site, *id)
            .is_some_and(|at| at >= born)
    })
    .map(|(site, id)| News::Message(site, id))
    .collect()
}

/// Returns how far an attempt is according to its site, if its job knows less.
fn unrecorded_progress(
    shared: &SharedState,
    job: &Job,
    index: ComponentIndex,
    component: &Component,
) -> Option<News> {
    if !component.run.may_live() {
        return None;
    }
    let tag = job.latest_tag(shared.instance, index);
    let report = shared
        .live
        .site_report(&component.placement.as_ref()?.site)?;
    let told = report.observed.attempts.get(&tag)?;
    let goes_on = !matches!(job.phase, JobPhase::Aborting { .. }) && !component.given_back;
    let what = match (told, &component.run) {
        (
            AttemptObservation::Exited(_)
            | AttemptObservation::Void
            | AttemptObservation::Vanished { .. },
            _,
        ) => "over",
        (AttemptObservation::Ready(_), AttemptState::Submitted { .. }) if goes_on => "at its gate",
        (
            AttemptObservation::Begun(_),
            AttemptState::AtGate { .. } | AttemptState::Opened { .. },
        ) if goes_on => "running",
        _ => return None,
    };
    Some(News::Of(tag, what))
}

/// Returns true if all input is there of a job that has its processors and waits for it. A job that
/// only has sites may learn of it when it claims.
fn has_input(view: &CommittedView, job: &Job) -> bool {
    let waits = matches!(job.phase, JobPhase::Claiming { .. });
    waits
        && !job.inputs_here
        && needed_digests(job)
            .into_iter()
            .all(|copy| view.copies.get(&copy).is_some_and(|copy| copy.is_ready()))
}
