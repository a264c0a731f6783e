//! The attempts of a run at their sites, as the world saw them.

use std::collections::BTreeMap;

use crate::experiment::AttemptKey;
use crate::world::world_history::{WorldLedgerEntry, WorldLedgerEvent};
use cospan_domain::ids::{AttemptTag, Round, SiteName};
use cospan_domain::units::Timestamp;

use super::report::{AttemptRow, GanttBar, LoadKind};

/// Builds a row for each attempt that a site took, by job, component and number.
pub(super) fn attempt_rows(
    entries: &[WorldLedgerEntry],
    rounds: &BTreeMap<AttemptKey, Round>,
    site_of: impl Fn(&SiteName) -> usize,
) -> Vec<AttemptRow> {
    let mut rows: BTreeMap<AttemptTag, AttemptRow> = BTreeMap::new();
    for WorldLedgerEntry {
        at,
        site,
        tag,
        deed,
    } in entries
    {
        if let WorldLedgerEvent::Submitted { processors } = deed {
            let row = AttemptRow {
                job: tag.job.0,
                component: tag.component.0,
                attempt: tag.attempt.0,
                round: rounds
                    .get(&(tag.job, tag.component, tag.attempt))
                    .map(|round| round.0),
                site: site_of(site),
                processors: *processors,
                submitted: *at,
                held: None,
                began: None,
                ended: None,
                why: None,
            };
            rows.insert(*tag, row);
        } else if let Some(row) = rows.get_mut(tag) {
            apply_event(row, *at, deed);
        }
    }
    rows.into_values().collect()
}

fn apply_event(row: &mut AttemptRow, at: Timestamp, deed: &WorldLedgerEvent) {
    match deed {
        WorldLedgerEvent::Started => drop(row.held.get_or_insert(at)),
        WorldLedgerEvent::Began => row.began = Some(at),
        WorldLedgerEvent::Left
        | WorldLedgerEvent::Withdrawn
        | WorldLedgerEvent::Forgotten
        | WorldLedgerEvent::KilledByNode => {
            row.ended.get_or_insert(at);
        }
        _ => {}
    }
    if row.why.is_none() {
        row.why = end_reason(deed);
    }
}

/// The reason why an attempt ended, if the event ends it.
fn end_reason(deed: &WorldLedgerEvent) -> Option<String> {
    Some(match deed {
        WorldLedgerEvent::Exited(0) => "done".to_owned(),
        WorldLedgerEvent::Exited(code) => format!("exit code {code}"),
        WorldLedgerEvent::Voided => "given back".to_owned(),
        WorldLedgerEvent::HeldTooLong => "held too long".to_owned(),
        WorldLedgerEvent::NotStarted => "not started".to_owned(),
        WorldLedgerEvent::Terminated => "ended on request".to_owned(),
        WorldLedgerEvent::WallTime => "wall time".to_owned(),
        WorldLedgerEvent::KilledByNode => "node failed".to_owned(),
        WorldLedgerEvent::Withdrawn => "withdrawn".to_owned(),
        WorldLedgerEvent::Forgotten => "forgotten".to_owned(),
        _ => return None,
    })
}

/// The bars of an attempt: the time at its gate, then that of its payload.
pub(super) fn attempt_bars(
    row: &AttemptRow,
    run_ended: Timestamp,
) -> impl Iterator<Item = GanttBar> {
    let job = Some(row.job);
    let component = Some(row.component);
    let processors = row.processors;
    let ended = row.ended.unwrap_or(run_ended);
    let bar = move |kind, from: Option<Timestamp>, to| {
        let bar = GanttBar {
            from: from?,
            to,
            processors,
            kind,
            job,
            component,
        };
        (bar.to > bar.from).then_some(bar)
    };
    let held = bar(LoadKind::GridHold, row.held, row.began.unwrap_or(ended));
    held.into_iter()
        .chain(bar(LoadKind::GridRun, row.began, ended))
}
