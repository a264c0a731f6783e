//! What is to be done for a copy by its book, when to look at it again, and what others read of
//! it.

use std::sync::Arc;

use anyhow::{Result, ensure};
use cospan_domain::machine::Machine;
use cospan_domain::transfer::CopyMachine;
use cospan_domain::transfer::due::CopyEffect;
use cospan_domain::transfer::state::{CopyPhase, CopyRecord, Try, Usage};
use cospan_domain::units::Timestamp;

use super::model::{Plain, Stage};

/// What a site is asked for, and of which crashes are made.
const ASKED: [&str; 5] = ["StartCopy", "WatchCopy", "StopCopy", "DiscardPartial", "DeleteContent"];

impl Plain {
    /// The record that says the same; `None` if there is no such record.
    pub(super) fn record(&self) -> Option<CopyRecord> {
        let since = Timestamp(self.since);
        let phase = match self.stage {
            Stage::Nothing => CopyPhase::Absent,
            Stage::Idle => CopyPhase::Waiting {
                since,
                not_before: Timestamp(self.not_before),
                resume: self.at_hand.clone(),
                given_up: self.given_up,
            },
            Stage::Ordered | Stage::Taken => CopyPhase::Copying {
                since,
                order: self.at_hand.clone()?,
                started: self.stage == Stage::Taken,
            },
            Stage::Ending => CopyPhase::Stopping { since, order: self.at_hand.clone()? },
            Stage::Whole => CopyPhase::Ready { at: since, nonce: self.whole },
            Stage::Going => CopyPhase::Deleting { since, nonce: self.whole },
        };
        let usage = match self.needed {
            true => Usage::Needed,
            false => Usage::Unneeded { since: Timestamp(self.released) },
        };
        Some(CopyRecord {
            content: self.content,
            chunk: None,
            site: self.site.clone(),
            usage,
            phase,
            trouble: self.trouble.clone(),
            latest: self.latest.clone(),
            leftovers: self.leftovers.clone(),
        })
    }

    /// What is to be done now, in this order: look, go on, tidy up.
    fn to_do(&self, now: u64) -> Vec<CopyEffect> {
        let mut all = Vec::new();
        all.extend(self.left_alone().filter(|until| *until <= now).map(|_| CopyEffect::Look));
        all.extend(self.next_step(now));
        all.extend(self.leftovers.iter().map(|(nonce, source)| {
            CopyEffect::DiscardPartial(Try { source: source.clone(), nonce: *nonce })
        }));
        all
    }

    fn next_step(&self, now: u64) -> Option<CopyEffect> {
        let digest = self.content.digest;
        match self.stage {
            Stage::Nothing | Stage::Whole => None,
            Stage::Idle => self.hindrance(now).is_none().then(|| CopyEffect::ChooseSource {
                excluded: self.trouble.excluded.clone(),
                resume: self.at_hand.clone(),
            }),
            Stage::Ordered => self.at_hand.clone().map(CopyEffect::StartCopy),
            Stage::Taken => self.at_hand.clone().map(CopyEffect::WatchCopy),
            Stage::Ending => self.at_hand.clone().map(CopyEffect::StopCopy),
            // A process that still runs would put back what is gone.
            Stage::Going if !self.leftovers.is_empty() => None,
            Stage::Going if self.needed => Some(CopyEffect::CheckContent(self.whole)),
            Stage::Going => Some(CopyEffect::DeleteContent { digest, nonce: self.whole }),
        }
    }

    /// When the clock alone gives something to do.
    pub(super) fn next_wake(&self, now: u64) -> Option<Timestamp> {
        let retry = (self.stage == Stage::Idle && self.needed).then_some(self.not_before);
        let times = [retry, self.left_alone()];
        times.into_iter().flatten().filter(|at| *at > now).min().map(Timestamp)
    }

    fn word(&self) -> &'static str {
        match self.stage {
            Stage::Nothing => "absent",
            Stage::Idle if self.given_up => "failed",
            Stage::Idle => "waiting",
            Stage::Ordered | Stage::Taken => "copying",
            Stage::Ending => "stopping",
            Stage::Whole => "ready",
            Stage::Going => "deleting",
        }
    }
}

/// The domain has to do the same for it, and tells the same of it.
pub(super) fn agree(plain: &Plain, record: &CopyRecord, now: u64) -> Result<()> {
    let (settings, at) = (&plain.settings, Timestamp(now));
    let due = CopyMachine::due(record, settings, at);
    let to_do = plain.to_do(now);
    ensure!(due == to_do, "{due:?} is due at {now}, not {to_do:?}, of {record:?}");
    let (wake, looked) = (CopyMachine::next_wake(record, settings, at), plain.next_wake(now));
    ensure!(wake == looked, "wakes at {wake:?} after {now}, not {looked:?}: {record:?}");
    for effect in &due {
        let name = effect.name();
        let asks = !matches!(
            effect,
            CopyEffect::Look | CopyEffect::ChooseSource { .. } | CopyEffect::CheckContent(_)
        );
        ensure!(is_variant(&format!("{effect:?}"), name), "{effect:?} is named {name}");
        ensure!(ASKED.contains(&name) == asks && CopyEffect::NAMES == ASKED, "{name} is asked");
    }
    read(plain, record)
}

/// Whether a value that shows itself so is of this variant.
pub(super) fn is_variant(shown: &str, name: &str) -> bool {
    shown.strip_prefix(name).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        && !name.is_empty()
}

/// Who needs it, whether it can be read, why it cannot be had, and what of it can be resumed.
fn read(plain: &Plain, record: &CopyRecord) -> Result<()> {
    let gone = plain.stage == Stage::Nothing && plain.leftovers.is_empty();
    ensure!(record.is_gone() == gone, "{record:?} is gone: {}", record.is_gone());
    ensure!(record.is_ready() == (plain.stage == Stage::Whole), "ready is {record:?}");
    ensure!(record.is_needed() == plain.needed, "needed is {record:?}");
    ensure!(record.current_try() == plain.at_hand.as_ref(), "{:?}", record.current_try());
    ensure!(record.phase.as_str() == plain.word(), "{:?}", record.phase.as_str());
    let (idle, trouble) = (plain.stage == Stage::Idle, &plain.trouble);
    let lost = record.lost();
    ensure!(lost.is_some() == (idle && plain.given_up), "{lost:?} of {record:?}");
    if let Some(lost) = lost {
        let said = trouble.last_error.as_ref().is_none_or(|error| *error == lost.detail);
        let right =
            said && !lost.detail.is_empty() && lost.at_destination == trouble.at_destination;
        ensure!(right, "{lost:?} of {record:?}");
    }
    for tries in [trouble.tries.saturating_sub(1), trouble.tries, trouble.tries + 1] {
        let failed = idle && trouble.tries >= tries;
        let error: Option<Arc<str>> = trouble.last_error.clone().filter(|_| failed);
        let stranded = record.stranded(tries);
        ensure!(stranded == error, "after {tries} {stranded:?} of {record:?}");
    }
    Ok(())
}
