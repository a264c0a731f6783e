//! What the attempts of a run did at their sites, as the world saw it.

use std::collections::BTreeMap;

use cospan_domain::ids::{Round, SiteName, Tag};
use cospan_domain::units::Timestamp;
use cospan_simulator::experiment::AttemptKey;
use cospan_simulator::world::ledger::{Deed, Entry};

use super::report::{AttemptRow, Bar, LoadKind};

/// A row for each attempt that a site took, by job, component and number.
pub(super) fn rows(
    entries: &[Entry],
    rounds: &BTreeMap<AttemptKey, Round>,
    site_of: impl Fn(&SiteName) -> usize,
) -> Vec<AttemptRow> {
    let mut rows: BTreeMap<Tag, AttemptRow> = BTreeMap::new();
    for Entry {
        at,
        site,
        tag,
        deed,
    } in entries
    {
        if let Deed::Submitted { processors } = deed {
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
            note(row, *at, deed);
        }
    }
    rows.into_values().collect()
}

fn note(row: &mut AttemptRow, at: Timestamp, deed: &Deed) {
    match deed {
        Deed::Started => drop(row.held.get_or_insert(at)),
        Deed::Began => row.began = Some(at),
        Deed::Left | Deed::Withdrawn | Deed::Forgotten | Deed::KilledByNode => {
            row.ended.get_or_insert(at);
        }
        _ => {}
    }
    if row.why.is_none() {
        row.why = why(deed);
    }
}

/// Why an attempt is over, if that is what happened to it.
fn why(deed: &Deed) -> Option<String> {
    Some(match deed {
        Deed::Exited(0) => "done".to_owned(),
        Deed::Exited(code) => format!("exit code {code}"),
        Deed::Voided => "given back".to_owned(),
        Deed::HeldTooLong => "held too long".to_owned(),
        Deed::NotStarted => "not started".to_owned(),
        Deed::Terminated => "ended on request".to_owned(),
        Deed::WallTime => "wall time".to_owned(),
        Deed::KilledByNode => "node failed".to_owned(),
        Deed::Withdrawn => "withdrawn".to_owned(),
        Deed::Forgotten => "forgotten".to_owned(),
        _ => return None,
    })
}

/// What an attempt did with its processors: held them without a payload, then ran.
pub(super) fn bars(row: &AttemptRow, run_ended: Timestamp) -> impl Iterator<Item = Bar> {
    let (job, component, processors) = (Some(row.job), Some(row.component), row.processors);
    let ended = row.ended.unwrap_or(run_ended);
    let bar = move |kind, from: Option<Timestamp>, to| {
        let bar = Bar {
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
