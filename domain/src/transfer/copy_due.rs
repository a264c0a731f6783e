//! The effects of a copy that are due, and the time of the next.

use std::collections::BTreeSet;

use crate::ids::{Digest, SiteName};
use crate::transfer::copy_decide::unneeded_expiry;
use crate::transfer::copy_parameters::CopyParameters;
use crate::transfer::copy_state::{CopyPhase, CopyRecord, CopyTry, MAX_LEFTOVERS, TryNonce};
use crate::units::Timestamp;

/// An effect, which the shell carries out for a copy. The site's port makes each of them harmless
/// to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEffect {
    /// Send `LookAgain`: its time has come.
    Look,
    /// Choose a source other than these, and send `Begin` or `NoSource`.
    ChooseSource {
        /// Sites that failed as sources.
        excluded: BTreeSet<SiteName>,
        /// The try whose partial data can be used again, if its source is chosen.
        resume: Option<CopyTry>,
    },
    /// Request the copy from the site, and send `StartAnswered`.
    StartCopy(CopyTry),
    /// Ask for its state now and then, and send `Observed`.
    WatchCopy(CopyTry),
    /// Stop it, keep its data, and send `StopConfirmed`.
    StopCopy(CopyTry),
    /// Stop it if it runs, discard its data, and send `DiscardConfirmed`.
    DiscardPartial(CopyTry),
    /// Ask if it is still there, for it was to be deleted and is needed again. Only once no try and
    /// no earlier request to delete can take effect any more. Send `FoundThere` or `FoundMissing`.
    CheckContent(TryNonce),
    /// Delete the content, and send `DeleteConfirmed` with this nonce.
    DeleteContent {
        digest: Digest,
        /// Tells this deletion from an earlier one.
        nonce: TryNonce,
    },
}

impl CopyEffect {
    /// The names of all kinds that make a call to a site; crash points are generated from them.
    pub const NAMES: [&'static str; 5] = [
        "StartCopy",
        "WatchCopy",
        "StopCopy",
        "DiscardPartial",
        "DeleteContent",
    ];

    pub fn name(&self) -> &'static str {
        match self {
            CopyEffect::Look => "Look",
            CopyEffect::ChooseSource { .. } => "ChooseSource",
            CopyEffect::StartCopy(_) => Self::NAMES[0],
            CopyEffect::WatchCopy(_) => Self::NAMES[1],
            CopyEffect::StopCopy(_) => Self::NAMES[2],
            CopyEffect::DiscardPartial(_) => Self::NAMES[3],
            CopyEffect::CheckContent(_) => "CheckContent",
            CopyEffect::DeleteContent { .. } => Self::NAMES[4],
        }
    }
}

/// Lists the effects that are due.
pub fn due(record: &CopyRecord, parameters: &CopyParameters, now: Timestamp) -> Vec<CopyEffect> {
    let expired = unneeded_expiry(record, parameters).filter(|at| *at <= now);
    let discards = record.leftovers.iter().map(|(nonce, source)| {
        CopyEffect::DiscardPartial(CopyTry {
            source: source.clone(),
            nonce: *nonce,
        })
    });
    expired
        .map(|_| CopyEffect::Look)
        .into_iter()
        .chain(due_in_phase(record, now))
        .chain(discards)
        .collect()
}

fn due_in_phase(record: &CopyRecord, now: Timestamp) -> Option<CopyEffect> {
    match &record.phase {
        CopyPhase::Absent | CopyPhase::Ready { .. } => None,
        CopyPhase::Waiting {
            not_before, resume, ..
        } => {
            let ready = *not_before <= now && record.leftovers.len() < MAX_LEFTOVERS;
            (ready && record.is_needed()).then(|| CopyEffect::ChooseSource {
                excluded: record.trouble.excluded.clone(),
                resume: resume.clone(),
            })
        }
        CopyPhase::Copying {
            order,
            started: false,
            ..
        } => Some(CopyEffect::StartCopy(order.clone())),
        CopyPhase::Copying {
            order,
            started: true,
            ..
        } => Some(CopyEffect::WatchCopy(order.clone())),
        CopyPhase::Stopping { order, .. } => Some(CopyEffect::StopCopy(order.clone())),
        // A try that still runs would put back what was deleted or found missing.
        CopyPhase::Deleting { .. } if !record.leftovers.is_empty() => None,
        CopyPhase::Deleting { nonce, .. } if record.is_needed() => {
            Some(CopyEffect::CheckContent(*nonce))
        }
        CopyPhase::Deleting { nonce, .. } => Some(CopyEffect::DeleteContent {
            digest: record.content.digest,
            nonce: *nonce,
        }),
    }
}

/// Returns the time when something becomes due by the clock alone.
pub fn next_wake(
    record: &CopyRecord,
    parameters: &CopyParameters,
    now: Timestamp,
) -> Option<Timestamp> {
    let retry = match &record.phase {
        CopyPhase::Waiting { not_before, .. } if record.is_needed() => Some(*not_before),
        _ => None,
    };
    retry
        .into_iter()
        .chain(unneeded_expiry(record, parameters))
        .filter(|wake| now < *wake)
        .min()
}
