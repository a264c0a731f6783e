//! What a copy asks the shell to do, and when to look again.

use std::collections::BTreeSet;

use crate::ids::{Digest, SiteName};
use crate::planted::{Bug, bug};
use crate::transfer::decide::expires_at;
use crate::transfer::parameters::CopyParameters;
use crate::transfer::state::{CopyPhase, CopyRecord, MAX_LEFTOVERS, Nonce, Try};
use crate::units::Timestamp;

/// What the shell is to do for a copy. Each may be done again: the site's port makes
/// every one of them harmless to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEffect {
    /// Its time has come: tell `LookAgain`.
    Look,
    /// Choose a source other than these, and tell `Begin` or `NoSource`.
    ChooseSource {
        /// Sites that failed as sources.
        excluded: BTreeSet<SiteName>,
        /// The try whose partial data can be used again, if its source is chosen.
        resume: Option<Try>,
    },
    /// Order the site to copy, and tell `StartAnswered`.
    StartCopy(Try),
    /// Ask how it is doing, now and then, and tell `Observed`.
    WatchCopy(Try),
    /// Stop it, keep its data, and tell `StopConfirmed`.
    StopCopy(Try),
    /// Stop it if it runs, discard its data, and tell `DiscardConfirmed`.
    DiscardPartial(Try),
    /// It was to be deleted and is needed again: ask whether it is still there, once no try and
    /// no earlier order to delete can take effect any more, and tell `FoundThere` or
    /// `FoundMissing`.
    CheckContent(Nonce),
    /// Delete the content, and tell `DeleteConfirmed` with this nonce.
    DeleteContent {
        /// What.
        digest: Digest,
        /// Tells this deletion from an earlier one.
        nonce: Nonce,
    },
}

impl CopyEffect {
    /// Names of all kinds that ask something of a site; crash points are generated from them.
    pub const NAMES: [&'static str; 5] = [
        "StartCopy",
        "WatchCopy",
        "StopCopy",
        "DiscardPartial",
        "DeleteContent",
    ];

    /// Its name.
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

/// Effects that are due.
pub fn due(record: &CopyRecord, parameters: &CopyParameters, now: Timestamp) -> Vec<CopyEffect> {
    let expired = expires_at(record, parameters).filter(|at| *at <= now);
    let discards = record.leftovers.iter().map(|(nonce, source)| {
        CopyEffect::DiscardPartial(Try {
            source: source.clone(),
            nonce: *nonce,
        })
    });
    expired
        .map(|_| CopyEffect::Look)
        .into_iter()
        .chain(of_phase(record, now))
        .chain(discards)
        .collect()
}

fn of_phase(record: &CopyRecord, now: Timestamp) -> Option<CopyEffect> {
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
        CopyPhase::Deleting { nonce, .. } if record.is_needed() && !deletes_needed() => {
            Some(CopyEffect::CheckContent(*nonce))
        }
        CopyPhase::Deleting { nonce, .. } => Some(CopyEffect::DeleteContent {
            digest: record.content.digest,
            nonce: *nonce,
        }),
    }
}

/// Whether it is planted that a copy is deleted while it is needed.
pub fn deletes_needed() -> bool {
    bug(Bug::DeleteOvertaken) || bug(Bug::DeleteNeeded)
}

/// When something becomes due by the clock alone.
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
        .chain(expires_at(record, parameters))
        .filter(|wake| now < *wake)
        .min()
}
