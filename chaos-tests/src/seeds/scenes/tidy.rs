//! Conditions that must hold whenever everything is at rest: the view is what a fresh fold of its
//! records gives, and metrics show what there is.

use std::collections::{BTreeMap, BTreeSet};

use cospan_actors::api::CommittedView;
use cospan_domain::ids::{Digest, JobId, LogicalName, SiteName};
use cospan_domain::job::demands::{ComponentHolding, list_holdings, needed_content};
use cospan_domain::job::job_state::{JobPhase, PhaseKind};
use cospan_domain::job::spec::Priority;
use cospan_domain::units::{Bytes, DurationMs};

use super::stage::StagedScene;

/// Actors that report how much they have taken in and not finished.
const WITH_DEPTH: [&str; 6] = [
    "intake",
    "information",
    "co-allocator",
    "reserver",
    "claimer",
    "notifier",
];

/// Notes whatever is not in order a moment from now.
pub(super) async fn check_at_rest(scene: &StagedScene) {
    scene.pass(DurationMs(1)).await;
    let view = scene.plane_run.plane.view();
    check_folded(scene, &view);
    check_counted(scene, &view);
    let metrics = &scene.plane_run.plane.shared().metrics;
    for actor in WITH_DEPTH {
        let depth = metrics.mailbox_depth.with_label_values(&[actor]).get();
        scene.check_same(
            &format!("what the {actor} has not finished at rest"),
            depth,
            0,
        );
    }
}

/// Checks that what the view derives is what its records say.
pub(super) fn check_folded(scene: &StagedScene, view: &CommittedView) {
    check_holds(scene, view);
    check_needs(scene, view);
    let untold = view.jobs.values().filter(|job| job.has_unsent_messages());
    let untold: BTreeSet<JobId> = untold.map(|job| job.id).collect();
    scene.check_same(
        "whose end is to be told",
        view.untold.iter().copied().collect(),
        untold,
    );
    check_catalogued(scene, view);
    scene.check(view.is_derived_state_correct(), || {
        "the view says that it is not what it should be".into()
    });
}

fn check_holds(scene: &StagedScene, view: &CommittedView) {
    let mut should: BTreeMap<(SiteName, JobId, u32), ComponentHolding> = BTreeMap::new();
    for job in view.jobs.values() {
        for holding in list_holdings(job) {
            should.insert((holding.site.clone(), job.id, holding.component.0), holding);
        }
    }
    let mut is: BTreeMap<(SiteName, JobId, u32), ComponentHolding> = BTreeMap::new();
    for (site, held) in &view.holdings {
        scene.check(!held.is_empty(), || {
            format!("nothing is held at {site}, and it is listed")
        });
        for ((job, component), holding) in held {
            is.insert(
                (site.clone(), *job, component.0),
                ComponentHolding::clone(holding),
            );
        }
    }
    scene.check_same("what jobs hold", is, should);
}

fn check_needs(scene: &StagedScene, view: &CommittedView) {
    let mut jobs: BTreeMap<(Digest, SiteName), BTreeSet<JobId>> = BTreeMap::new();
    let mut staged: BTreeMap<SiteName, BTreeMap<Digest, Bytes>> = BTreeMap::new();
    for job in view.jobs.values() {
        for (content, site) in needed_content(job) {
            jobs.entry((content.digest, site.clone()))
                .or_default()
                .insert(job.id);
            staged
                .entry(site)
                .or_default()
                .insert(content.digest, content.size);
        }
    }
    let is = view
        .needs
        .iter()
        .map(|(key, jobs)| (key.clone(), jobs.iter().copied().collect()));
    scene.check_same("who needs what", is.collect(), jobs);
    let bytes = view
        .staged
        .iter()
        .map(|(site, staged)| (site.clone(), staged.bytes))
        .collect();
    let sums = staged.iter().map(|(site, contents)| {
        let sum = contents.values().map(|bytes| bytes.0).sum();
        (site.clone(), Bytes(sum))
    });
    scene.check_same(
        "bytes needed by site",
        bytes,
        sums.collect::<BTreeMap<_, _>>(),
    );
    let contents = view.staged.iter().map(|(site, staged)| {
        let contents = staged
            .contents
            .iter()
            .map(|(digest, size)| (*digest, *size));
        (site.clone(), contents.collect())
    });
    scene.check_same("contents needed by site", contents.collect(), staged);
}

fn check_catalogued(scene: &StagedScene, view: &CommittedView) {
    let mut names: BTreeMap<Digest, BTreeSet<LogicalName>> = BTreeMap::new();
    for file in view.files.values() {
        if let Some(entry) = &file.entry {
            names
                .entry(entry.content.digest)
                .or_default()
                .insert(file.name.clone());
        }
    }
    let is = view
        .names
        .iter()
        .map(|(digest, names)| (*digest, names.iter().cloned().collect()));
    scene.check_same("names of contents", is.collect(), names);
    let mut cuts: BTreeMap<Digest, BTreeSet<(Digest, SiteName)>> = BTreeMap::new();
    for (key, copy) in &view.copies {
        if let Some(chunk) = copy.chunk {
            cuts.entry(chunk.of.digest).or_default().insert(key.clone());
        }
    }
    let is = view
        .cuts
        .iter()
        .map(|(digest, cuts)| (*digest, cuts.iter().cloned().collect()));
    scene.check_same("chunks of files", is.collect(), cuts);
}

/// Checks that gauges of jobs and queues are what the view has.
fn check_counted(scene: &StagedScene, view: &CommittedView) {
    let metrics = &scene.plane_run.plane.shared().metrics;
    for phase in PhaseKind::ALL {
        let gauge = metrics.jobs.with_label_values(&[phase.as_str()]).get();
        let jobs = view.jobs.values();
        let jobs = jobs.filter(|job| job.phase.kind() == phase);
        scene.check_same(phase.as_str(), gauge, jobs.count() as i64);
    }
    for class in Priority::ALL {
        let waiting = view.jobs.values().filter(|job| {
            let has_turn = job
                .spec
                .run
                .task
                .as_ref()
                .is_none_or(|task| task.at_once.is_none());
            has_turn && job.priority == class && matches!(job.phase, JobPhase::Queued { .. })
        });
        let waiting = waiting.count() as i64;
        let gauge = metrics
            .queue_length
            .with_label_values(&[class.as_str()])
            .get();
        let limited = view.jobs.values().any(|job| {
            job.spec
                .run
                .task
                .as_ref()
                .is_some_and(|task| task.at_once.is_some())
        });
        scene.check(limited || gauge == waiting, || {
            format!("the queue of class {class} shows {gauge}, not {waiting}")
        });
    }
    let held = view.jobs.values().filter(|job| job.held.is_some());
    scene.check_same("jobs held", metrics.held.get(), held.count() as i64);
}
