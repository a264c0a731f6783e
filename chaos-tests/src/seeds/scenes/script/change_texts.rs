//! Durable changes in words.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_actors::journal::JournalChange;
use cospan_domain::catalogue::file_state::FileRecord;
use cospan_domain::ids::Digest;
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::Job;
use cospan_domain::placed::Placement;
use cospan_domain::site::site_state::{Breaker, OperatorSettings, SiteRecord};
use cospan_domain::transfer::copy_state::CopyRecord;
use cospan_domain::transfer::file_place::FilePlace;

use super::transcript::time_of_scene;

/// Describes a change, a line for each record.
pub(super) fn describe_change(change: &JournalChange) -> Vec<String> {
    match change {
        JournalChange::NewJobs(jobs) => vec![describe_new_jobs(jobs)],
        JournalChange::Job { new, events, .. } => {
            let events: Vec<_> = events
                .iter()
                .map(|event| describe_event(&event.what))
                .collect();
            vec![format!("job {}: {}", new.id, events.join(", "))]
        }
        JournalChange::JobArchived { job, .. } => vec![format!("job {}: archived", job.id)],
        JournalChange::Site { old, new } => {
            let unknown = SiteRecord::new(new.site.clone());
            let what = describe_site(old.as_deref().unwrap_or(&unknown), new);
            vec![format!("site {}: {what}", new.site)]
        }
        JournalChange::Copy { key, new, .. } => {
            let what = new.as_deref().map_or("gone".to_owned(), describe_copy);
            vec![format!(
                "copy of {} at {}: {what}",
                content_name(key.0),
                key.1
            )]
        }
        JournalChange::File { name, new, .. } => {
            let what = new.as_deref().map_or("forgotten".to_owned(), describe_file);
            vec![format!("name {name}: {what}")]
        }
        JournalChange::IdsReserved { next } => {
            vec![format!("numbers below {next} are set aside")]
        }
        JournalChange::Swept(keys) => vec![format!("{} keys are swept", keys.len())],
        JournalChange::Barrier => Vec::new(),
    }
}

fn describe_new_jobs(jobs: &[Arc<Job>]) -> String {
    let numbers: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    let priorities: BTreeSet<&str> = jobs.iter().map(|job| job.priority.as_str()).collect();
    let priorities: Vec<&str> = priorities.into_iter().collect();
    format!(
        "accepted with priority {}: {}",
        priorities.join(" or "),
        numbers.join(", ")
    )
}

/// Returns the event's name in words: `JobPlaced` is "placed".
pub(super) fn event_words(event: &JobEventKind) -> String {
    let mut text = String::new();
    let name = event.name();
    for letter in name.strip_prefix("Job").unwrap_or(name).chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Returns the event's name in words, and what matters of it.
fn describe_event(event: &JobEventKind) -> String {
    let text = event_words(event);
    let detail = event_detail(event);
    if detail.is_empty() {
        text
    } else {
        format!("{text} ({detail})")
    }
}

fn event_detail(event: &JobEventKind) -> String {
    match event {
        JobEventKind::JobPlaced { placements, .. } => list_sites(placements),
        JobEventKind::ReservationSought { placements, .. } => placements
            .iter()
            .map(list_sites)
            .collect::<Vec<_>>()
            .join(" or "),
        JobEventKind::ComponentMoved { placement, .. } => list_sites([placement]),
        JobEventKind::ComponentsClaimed { preempting, .. } => format!("preempting {preempting:?}"),
        JobEventKind::ClaimMissed { next_claim, detail } => {
            format!("again at {}: {detail}", time_of_scene(*next_claim))
        }
        JobEventKind::SubmissionUncertain { settled_at, .. } => {
            format!("settled at {}", time_of_scene(*settled_at))
        }
        JobEventKind::AttemptAbsent { counts, .. } => format!("counts: {counts}"),
        JobEventKind::AttemptEnded { how, .. } => brief(&format!("{how:?}")),
        JobEventKind::SiteCharged { charge, .. } => charge.detail.to_string(),
        JobEventKind::RoundAborted { why, .. } => brief(&format!("{why:?}")),
        JobEventKind::ReservationAnswered { site, outcome } => {
            format!("{site} {}", brief(&format!("{outcome:?}")))
        }
        JobEventKind::JobRequeued { not_before } => {
            format!("not before {}", time_of_scene(*not_before))
        }
        JobEventKind::PriorityChanged { to, .. } => to.to_string(),
        JobEventKind::JobHeld { reason } | JobEventKind::JobFailed { reason } => reason.to_string(),
        JobEventKind::EndTold { target, problem } => match problem {
            Some(problem) => format!("{target}, in vain: {problem}"),
            None => target.to_string(),
        },
        _ => String::new(),
    }
}

/// Returns the name of a value and its text, of what a debugger would show.
fn brief(debug: &str) -> String {
    let end = debug.find(|letter: char| !letter.is_alphanumeric());
    let name = &debug[..end.unwrap_or(debug.len())];
    match debug.split('"').nth(1) {
        Some(text) => format!("{name}: {text}"),
        None => name.to_owned(),
    }
}

fn list_sites<'a>(placements: impl IntoIterator<Item = &'a Placement>) -> String {
    let placed = placements.into_iter().map(|placement| {
        let sources = placement.sources.iter();
        let sources: Vec<_> = sources
            .map(|source| format!(" from {}", source.from))
            .collect();
        let reserved = if placement.acquisition.reservation_use().is_some() {
            " reserved"
        } else {
            ""
        };
        format!("{}{}{reserved}", placement.site, sources.concat())
    });
    placed.collect::<Vec<_>>().join(", ")
}

fn describe_site(old: &SiteRecord, new: &SiteRecord) -> String {
    let mut parts = Vec::new();
    if old.consecutive_errors != new.consecutive_errors {
        parts.push(format!("{} errors in a row", new.consecutive_errors));
    }
    if old.breaker != new.breaker {
        parts.push(describe_breaker(&new.breaker));
    }
    if old.operator != new.operator {
        parts.push(describe_operator(&new.operator));
    }
    for barred in &new.kept_off {
        if !old.kept_off.contains(barred) {
            let until = time_of_scene(barred.until);
            parts.push(format!("jobs of {} stay away until {until}", barred.owner));
        }
    }
    match (&old.own_probe, &new.own_probe) {
        (None, Some(probe)) => parts.push(format!("probe of our own, as {} erred", probe.owner)),
        (Some(_), None) => parts.push("probe of our own is over".to_owned()),
        _ => {}
    }
    for owed in &new.owed {
        if !old.owed.contains(owed) {
            parts.push(format!("owes the message \"{}\"", owed.text));
        }
    }
    for owed in &old.owed {
        if !new.owed.contains(owed) {
            parts.push(format!("message \"{}\" is out", owed.text));
        }
    }
    if parts.is_empty() {
        parts.push("record written".to_owned());
    }
    parts.join(", ")
}

fn describe_breaker(breaker: &Breaker) -> String {
    match breaker {
        Breaker::Closed => "usable".to_owned(),
        Breaker::Open { probe_at, .. } => {
            format!("unusable, to be probed at {}", time_of_scene(*probe_at))
        }
        Breaker::HalfOpen {
            allowed, running, ..
        } => format!("probing, {} of {allowed} attempts", running.len()),
    }
}

fn describe_operator(operator: &OperatorSettings) -> String {
    let mut parts = Vec::new();
    if operator.draining.is_some() {
        parts.push("drained".to_owned());
    }
    if operator.frozen.is_some() {
        parts.push("frozen".to_owned());
    }
    for window in &operator.windows {
        let until = time_of_scene(window.until);
        parts.push(format!("{} until {until}", window.reason));
    }
    if let Some(forced) = &operator.forced {
        let usable = if forced.usable { "usable" } else { "unusable" };
        parts.push(format!(
            "forced {usable} until {}",
            time_of_scene(forced.until)
        ));
    }
    format!("orders: [{}]", parts.join(", "))
}

/// Names a content of a script's file, which is made of the file's number.
pub(super) fn content_name(digest: Digest) -> String {
    let first = digest.0[0];
    let hex: String = digest.0[..3]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if digest.0 == [first; 32] {
        format!("file-{}", i32::from(first) - 1)
    } else {
        hex
    }
}

fn describe_copy(copy: &CopyRecord) -> String {
    let from = copy
        .current_try()
        .map(|order| format!(" from {}", order.source.site));
    let unneeded = if copy.is_needed() { "" } else { ", unneeded" };
    let error = copy.trouble.last_error.as_deref();
    let error = error.map(|error| format!(" ({error})"));
    format!(
        "{}{}{unneeded}{}",
        copy.phase.as_str(),
        from.unwrap_or_default(),
        error.unwrap_or_default()
    )
}

pub(super) fn describe_file(file: &FileRecord) -> String {
    let Some(entry) = &file.entry else {
        return "stands for nothing".to_owned();
    };
    let replicas = entry.replicas.iter();
    let replicas: Vec<_> = replicas
        .map(|(site, place)| match place {
            FilePlace::User(path) => format!("{site} {path}"),
            FilePlace::Store(_) => format!("{site} store"),
            FilePlace::Output(tag, path) => format!("{site} job {} {path}", tag.job),
        })
        .collect();
    format!(
        "{} at [{}]",
        content_name(entry.content.digest),
        replicas.join(", ")
    )
}
