//! What a script asks to be shown: what users and operators would see.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use cospan_actors::coallocator::StartEstimate;
use cospan_actors::journal::JournalChange;
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_actors::transfer::unlisted_copy_sites;
use cospan_domain::ids::{Digest, JobId, SiteName};
use prometheus::core::Collector;

use super::super::super::counters::shown_states;
use super::super::stage::StagedScene;
use super::change_texts::describe_file;
use super::script_setup::target_address;
use super::script_words::ScriptWords;
use super::transcript::time_of_scene;

/// Lists what a line asks for.
///
/// # Errors
/// There is no such thing.
pub(super) async fn show_facts(
    scene: &StagedScene,
    mut words: ScriptWords<'_>,
) -> Result<Vec<String>> {
    let plane = &scene.plane_run.plane;
    let facts = match words.next().unwrap_or_default() {
        "job" => show_job(scene, JobId(words.read()?)).await?,
        "site" => show_site(scene, &words.read()?)?,
        "links" if words.take("to") => show_links(scene, &words.read()?),
        "copy" => {
            let file: u8 = words.read()?;
            anyhow::ensure!(words.take("at"), "a copy where?");
            let shown = plane.copy_progress(Digest([file + 1; 32]), &words.read()?);
            vec![shown.map_or("no copy is under way".to_owned(), |shown| {
                format!(
                    "{} at {}, expected at {}",
                    shown.done,
                    time_of_scene(shown.at),
                    time_of_scene(shown.expected)
                )
            })]
        }
        "names" => show_names(scene),
        "messages" => show_messages(scene),
        "counts" => {
            let mut lines = Vec::new();
            while let Some(name) = words.next() {
                lines.extend(show_counts(scene.metrics(), name)?);
            }
            lines
        }
        other => bail!("nobody can be shown {other:?}"),
    };
    words.end()?;
    Ok(facts)
}

async fn show_job(scene: &StagedScene, id: JobId) -> Result<Vec<String>> {
    let plane = &scene.plane_run.plane;
    let owner = plane.job_owner(id).map(|key| key.to_string());
    let owner = owner.unwrap_or("nobody".to_owned());
    let Ok(job) = scene.job_record(id) else {
        return Ok(vec![format!("job {id} of {owner} is gone")]);
    };
    let explained = plane.explain_job(&job);
    let mut lines = vec![format!(
        "job {id} of {owner} is {}, priority {}, waits for {:?}",
        job.phase.kind().as_str(),
        job.priority,
        explained.wait
    )];
    if let Some(at) = explained.next_claim {
        lines.push(format!("it is claimed at {}", time_of_scene(at)));
    }
    match explained.estimate {
        StartEstimate::Within {
            from, until, basis, ..
        } => {
            let from = time_of_scene(from);
            let until = time_of_scene(until);
            lines.push(format!("it may start from {from} to {until}: {basis}"));
        }
        StartEstimate::Unknown(why) => lines.push(format!("nobody knows when it starts: {why}")),
        StartEstimate::None => {}
    }
    if job.spec.priority != job.priority {
        let promoted = if job.promoted { ", and rose" } else { "" };
        lines.push(format!("it began as {}{promoted}", job.spec.priority));
    }
    if let Some(by) = &job.frozen_by {
        lines.push(format!("it was frozen by {by}"));
    }
    if let Some(told) = explained.silence.warning(&job) {
        lines.push(told);
    }
    if let Some(standing) = plane.queue_standing(id).await {
        lines.push(format!(
            "it is {:?} behind {} others of {}, after {} tries",
            standing.condition, standing.ahead, standing.priority, standing.tries
        ));
    }
    let setbacks = &job.setbacks;
    if *setbacks != Default::default() {
        lines.push(format!("{setbacks:?}"));
    }
    Ok(lines)
}

fn show_site(scene: &StagedScene, site: &SiteName) -> Result<Vec<String>> {
    let overview = scene.plane_run.plane.site_overview(site);
    let overview = overview.with_context(|| format!("there is no site {site}"))?;
    let states = shown_states(scene.metrics(), site.as_str());
    let record = &overview.record;
    let live = &scene.plane_run.plane.shared().live;
    let mut line = format!(
        "site {site} is {}, {} errors in a row",
        states.join(" and "),
        record.consecutive_errors
    );
    if overview.report.idle.is_none() {
        line.push_str(", and nobody knows what is idle there");
    }
    if let Some(most) = live.most_processors_left(site, scene.now()) {
        line.push_str(&format!(", and is believed to have at most {most}"));
    }
    Ok(vec![line])
}

fn show_links(scene: &StagedScene, to: &SiteName) -> Vec<String> {
    let links = scene.plane_run.plane.links_to(to);
    let shown = links.iter().map(|link| {
        let measured = link.measured.map(|measured| {
            format!(
                ", measured at {} in {} transfers",
                time_of_scene(measured.at),
                measured.transfers
            )
        });
        let bytes = link.bandwidth.0 / 8;
        let measured = measured.unwrap_or_default();
        format!("from {}: {bytes} bytes a second{measured}", link.from)
    });
    shown.collect()
}

fn show_names(scene: &StagedScene) -> Vec<String> {
    let view = scene.plane_run.plane.view();
    let shown = view.files.values().map(|file| {
        let entry = file.entry.as_ref();
        let unlisted: Vec<String> = entry
            .into_iter()
            .flat_map(|entry| unlisted_copy_sites(&view, entry))
            .map(|site| site.to_string())
            .collect();
        let copies = if unlisted.is_empty() {
            String::new()
        } else {
            format!(", copies at {}", unlisted.join(", "))
        };
        format!("{}: {}{copies}", file.name, describe_file(file))
    });
    or_nothing(shown.collect(), "no names")
}

/// Lists the messages that arrived, about sites and about the ends of jobs.
fn show_messages(scene: &StagedScene) -> Vec<String> {
    let faults = &scene.plane_run.call_faults;
    let mut lines = BTreeSet::new();
    for (_, change) in scene.changes() {
        let JournalChange::Site { new, .. } = &*change else {
            continue;
        };
        for owed in &new.owed {
            if let Some(at) = faults.arrived_at(&new.site, owed.id) {
                let at = time_of_scene(at);
                lines.insert(format!("message \"{}\" arrived at {at}", owed.text));
            }
        }
    }
    for job in scene.plane_run.plane.view().jobs.values() {
        for target in &job.spec.run.notify {
            if faults.was_end_delivered(job.id, &target_address(target)) {
                lines.insert(format!("{target} heard of the end of job {}", job.id));
            }
        }
    }
    or_nothing(lines.into_iter().collect(), "no message arrived")
}

fn or_nothing(lines: Vec<String>, nothing: &str) -> Vec<String> {
    if lines.is_empty() {
        return vec![nothing.to_owned()];
    }
    lines
}

/// Lists the values of a metric that are not 0, by their labels.
fn show_counts(metrics: &ControlPlaneMetrics, name: &str) -> Result<Vec<String>> {
    let collector: &dyn Collector = match name {
        "isolated" => &metrics.isolated,
        "held" => &metrics.held,
        "jobs" => &metrics.jobs,
        "jobs-ended" => &metrics.jobs_ended,
        "notifications" => &metrics.notifications,
        "site-errors" => &metrics.site_errors,
        "site-calls" => &metrics.site_calls,
        "rounds-aborted" => &metrics.rounds_aborted,
        "transfer-failures" => &metrics.transfer_failures,
        "transferred-bytes" => &metrics.transferred_bytes,
        "transfers" => &metrics.transfer_seconds,
        "link-bandwidth" => &metrics.link_bandwidth,
        "conflicts" => &metrics.journal_conflicts,
        "actor-restarts" => &metrics.actor_restarts,
        other => bail!("nothing counts {other:?}"),
    };
    let families = collector.collect();
    let counted = families.iter().flat_map(|family| family.get_metric());
    let mut lines = Vec::new();
    for metric in counted {
        let histogram = metric.get_histogram().get_sample_count();
        let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
        let value = value + histogram as f64;
        let labels = metric.get_label().iter();
        let labels: Vec<String> = labels
            .map(|label| format!(" {}={}", label.name(), label.value()))
            .collect();
        if value != 0.0 {
            lines.push(format!("{name}{} {value}", labels.concat()));
        }
    }
    lines.sort();
    Ok(or_nothing(lines, &format!("{name} 0")))
}
