//! The effect of an event on a copy's record.

use std::sync::Arc;

use crate::transfer::copy_event::{CopyEvent, CopyEventKind, TryFaultSide};
use crate::transfer::copy_state::{
    CopyFaults, CopyPhase, CopyRecord, CopyTry, CopyUsage, TryNonce,
};
use crate::units::Timestamp;

/// Applies an event. Total: an event in the journal is never refused.
pub fn evolve(record: &mut CopyRecord, event: &CopyEvent) {
    let at = event.at;
    match &event.what {
        CopyEventKind::CopyNeeded => {
            record.usage = CopyUsage::Needed;
            if record.phase == CopyPhase::Absent {
                begin_waiting(record, at);
            }
        }
        CopyEventKind::CopyReleased => record.usage = CopyUsage::Unneeded { since: at },
        CopyEventKind::CopyOrdered(order) => begin_try(record, order, at),
        CopyEventKind::SourceMissing {
            hopeless,
            detail,
            retry_at,
        } => {
            count_failure(&mut record.trouble, detail);
            let resume = record.current_try().cloned();
            wait_for_next_try(record, resume, at, *retry_at, *hopeless);
        }
        CopyEventKind::CopyStarted => {
            if let CopyPhase::Copying { started, .. } = &mut record.phase {
                *started = true;
            }
        }
        CopyEventKind::TryFailed {
            blame,
            detail,
            retry_at,
            give_up,
        } => {
            fail_try(record, *blame, detail);
            let resume = record
                .current_try()
                .filter(|_| *blame == TryFaultSide::Process)
                .cloned();
            wait_for_next_try(record, resume, at, *retry_at, *give_up);
        }
        CopyEventKind::CopyStalled { detail } => {
            count_failure(&mut record.trouble, detail);
            begin_stopping(record, at);
        }
        CopyEventKind::StopDecided => begin_stopping(record, at),
        CopyEventKind::CopyStopped { retry_at } => {
            let resume = record.current_try().cloned();
            wait_for_next_try(record, resume, at, *retry_at, false);
        }
        CopyEventKind::CopyAbandoned => abandon_copy(record, at),
        CopyEventKind::PartialDiscarded { nonce } => {
            record.leftovers.remove(nonce);
        }
        CopyEventKind::CopyCompleted => {
            if let Some(nonce) = record.current_try().map(|order| order.nonce) {
                complete_copy(record, nonce, at);
            }
        }
        CopyEventKind::CopyLost { .. } => {
            mark_latest_leftover(record);
            begin_waiting(record, at);
        }
        CopyEventKind::CopyDeleted => finish_deleting(record, at),
        CopyEventKind::DeletionRevoked => keep_content(record, at),
        CopyEventKind::DeletionDecided => begin_deleting(record, at),
    }
}

fn complete_copy(record: &mut CopyRecord, nonce: TryNonce, at: Timestamp) {
    record.phase = CopyPhase::Ready { at, nonce };
    record.trouble = CopyFaults::default();
}

fn abandon_copy(record: &mut CopyRecord, at: Timestamp) {
    mark_partial_leftover(record);
    match &record.latest {
        None => make_absent(record),
        Some(latest) => {
            record.phase = CopyPhase::Deleting {
                since: at,
                nonce: latest.nonce,
            }
        }
    }
}

/// Makes the copy absent. Earlier faults do not matter to a later need.
fn make_absent(record: &mut CopyRecord) {
    record.phase = CopyPhase::Absent;
    record.trouble = CopyFaults::default();
}

fn begin_deleting(record: &mut CopyRecord, at: Timestamp) {
    if let CopyPhase::Ready { nonce, .. } = record.phase {
        mark_latest_leftover(record);
        record.phase = CopyPhase::Deleting { since: at, nonce };
    }
}

fn keep_content(record: &mut CopyRecord, at: Timestamp) {
    if let CopyPhase::Deleting { nonce, .. } = record.phase {
        complete_copy(record, nonce, at);
    }
}

fn finish_deleting(record: &mut CopyRecord, at: Timestamp) {
    record.latest = None;
    make_absent(record);
    if record.is_needed() {
        begin_waiting(record, at);
    }
}

fn begin_waiting(record: &mut CopyRecord, at: Timestamp) {
    record.trouble = CopyFaults::default();
    record.phase = CopyPhase::Waiting {
        since: at,
        not_before: at,
        resume: None,
        given_up: false,
    };
}

/// Begins a try. One with another nonce replaces a try that could have been resumed.
fn begin_try(record: &mut CopyRecord, order: &CopyTry, at: Timestamp) {
    if record.current_try() != Some(order) {
        mark_partial_leftover(record);
    }
    record.latest = Some(order.clone());
    record.phase = CopyPhase::Copying {
        since: at,
        order: order.clone(),
        started: false,
    };
}

fn count_failure(trouble: &mut CopyFaults, detail: &Arc<str>) {
    trouble.tries = trouble.tries.saturating_add(1);
    trouble.last_error = Some(detail.clone());
    trouble.at_destination = false;
}

fn fail_try(record: &mut CopyRecord, blame: TryFaultSide, detail: &Arc<str>) {
    count_failure(&mut record.trouble, detail);
    match blame {
        TryFaultSide::Process => {}
        TryFaultSide::Source => {
            let site = record.current_try().map(|order| order.source.site.clone());
            record.trouble.excluded.extend(site);
            mark_partial_leftover(record);
        }
        TryFaultSide::Destination => {
            record.trouble.destination = record.trouble.destination.saturating_add(1);
            record.trouble.at_destination = true;
            mark_partial_leftover(record);
        }
    }
}

/// Marks what cannot be resumed as data to discard.
fn mark_partial_leftover(record: &mut CopyRecord) {
    if let Some(order) = record.current_try().cloned() {
        record.leftovers.insert(order.nonce, order.source);
    }
}

/// Notes leftovers of the latest try: content from an earlier one was seen, so data of the latest
/// may be left.
fn mark_latest_leftover(record: &mut CopyRecord) {
    if let Some(latest) = record.latest.clone() {
        record.leftovers.insert(latest.nonce, latest.source);
    }
}

fn begin_stopping(record: &mut CopyRecord, at: Timestamp) {
    if let CopyPhase::Copying { order, .. } = &record.phase {
        record.phase = CopyPhase::Stopping {
            since: at,
            order: order.clone(),
        };
    }
}

/// Waits for the next try. A copy that is given up begins afresh then, its faults forgiven.
fn wait_for_next_try(
    record: &mut CopyRecord,
    resume: Option<CopyTry>,
    at: Timestamp,
    not_before: Timestamp,
    given_up: bool,
) {
    if given_up {
        record.trouble.destination = 0;
        record.trouble.excluded.clear();
    }
    record.phase = CopyPhase::Waiting {
        since: at,
        not_before,
        resume,
        given_up,
    };
}
