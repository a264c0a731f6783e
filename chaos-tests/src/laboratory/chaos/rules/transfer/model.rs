//! A copy as its book tells of it: what is noted of it and answered when something is said.
//! Nothing is decided first and noted later here: whatever is heard changes the note at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::content::Content;
use cospan_domain::ids::SiteName;
use cospan_domain::transfer::command::{CopyCommand, Rejection, Seen, StartAnswer};
use cospan_domain::transfer::event::{Blame, Happened};
use cospan_domain::transfer::parameters::CopyParameters;
use cospan_domain::transfer::state::{Nonce, Source, Trouble, Try};
use cospan_domain::units::Timestamp;

use super::paces::pause;

/// No further try while so many have left data that is still to be discarded.
pub(super) const CROWDED: usize = 16;

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Nothing,
    Idle,
    Ordered,
    Taken,
    Ending,
    Whole,
    Going,
}

/// What is noted of a copy.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    pub(super) settings: CopyParameters,
    pub(super) content: Content,
    pub(super) site: SiteName,
    pub(super) needed: bool,
    /// Since when nobody needs it, if nobody does.
    pub(super) released: u64,
    pub(super) stage: Stage,
    pub(super) since: u64,
    pub(super) not_before: u64,
    /// Those who need it are told that it cannot be had.
    pub(super) given_up: bool,
    /// The try that is made, or whose data the next one can go on with.
    pub(super) at_hand: Option<Try>,
    /// Names the copy that is whole, or that goes.
    pub(super) whole: Nonce,
    pub(super) latest: Option<Try>,
    pub(super) leftovers: BTreeMap<Nonce, Source>,
    pub(super) trouble: Trouble,
}

/// What happened, if anything, or why nothing can.
type Answer = Result<Option<Happened>, Rejection>;

impl Plain {
    /// One that nobody ever spoke of.
    pub(super) fn new(settings: CopyParameters, content: Content, site: SiteName) -> Self {
        Self {
            settings,
            content,
            site,
            needed: false,
            released: 0,
            stage: Stage::Nothing,
            since: 0,
            not_before: 0,
            given_up: false,
            at_hand: None,
            whole: Nonce(0),
            latest: None,
            leftovers: BTreeMap::new(),
            trouble: Trouble::default(),
        }
    }

    /// Notes what is said, and answers. Where the answer has words of its own, they are `words`.
    pub(super) fn hear(&mut self, said: &CopyCommand, now: u64, words: &Arc<str>) -> Answer {
        match said {
            CopyCommand::Need => Ok(self.need(now)),
            CopyCommand::NoLongerNeeded => Ok(self.release(now)),
            CopyCommand::Look => Ok(self.look(now)),
            CopyCommand::Begin { source, nonce } => self.begin(source, *nonce, now),
            CopyCommand::NoSource { hopeless, .. } => self.search_in_vain(*hopeless, now, words),
            CopyCommand::StartAnswered { nonce, answer } => {
                self.answered(*nonce, answer, now, words)
            }
            CopyCommand::Observed { nonce, seen } => self.observed(*nonce, seen, now, words),
            CopyCommand::StopConfirmed { nonce } => self.stopped(*nonce, now),
            CopyCommand::DiscardConfirmed { nonce } => {
                let gone = self.leftovers.remove(nonce);
                Ok(gone.map(|_| Happened::PartialDiscarded { nonce: *nonce }))
            }
            CopyCommand::DeleteConfirmed { nonce } | CopyCommand::FoundMissing { nonce }
                if self.goes(*nonce) =>
            {
                Ok(self.vanish(now))
            }
            CopyCommand::FoundMissing { nonce } if self.is_whole(*nonce) => {
                self.set_latest_aside();
                self.begin_afresh(now);
                Ok(Some(Happened::CopyLost { detail: words.clone() }))
            }
            CopyCommand::FoundThere { nonce } if self.goes(*nonce) && self.needed => {
                self.finish(*nonce, now);
                Ok(Some(Happened::DeletionRevoked))
            }
            CopyCommand::DeleteConfirmed { .. }
            | CopyCommand::FoundMissing { .. }
            | CopyCommand::FoundThere { .. } => Err(Rejection::Stale),
        }
    }

    fn enter(&mut self, stage: Stage, now: u64) {
        (self.stage, self.since) = (stage, now);
    }

    fn goes(&self, nonce: Nonce) -> bool {
        self.stage == Stage::Going && self.whole == nonce
    }

    fn is_whole(&self, nonce: Nonce) -> bool {
        self.stage == Stage::Whole && self.whole == nonce
    }

    fn is_at_hand(&self, nonce: Nonce) -> bool {
        self.at_hand.as_ref().is_some_and(|order| order.nonce == nonce)
    }

    /// Data of the try at hand is of no use any more.
    fn set_aside(&mut self) {
        self.leftovers.extend(self.at_hand.take().map(|order| (order.nonce, order.source)));
    }

    /// Data of the latest try may be beside what is whole.
    fn set_latest_aside(&mut self) {
        self.leftovers.extend(self.latest.clone().map(|order| (order.nonce, order.source)));
    }

    fn begin_afresh(&mut self, now: u64) {
        self.trouble = Trouble::default();
        (self.not_before, self.given_up, self.at_hand) = (now, false, None);
        self.enter(Stage::Idle, now);
    }

    fn finish(&mut self, nonce: Nonce, now: u64) {
        self.trouble = Trouble::default();
        (self.whole, self.at_hand) = (nonce, None);
        self.enter(Stage::Whole, now);
    }

    fn need(&mut self, now: u64) -> Option<Happened> {
        if std::mem::replace(&mut self.needed, true) {
            return None;
        }
        if self.stage == Stage::Nothing {
            self.begin_afresh(now);
        }
        Some(Happened::CopyNeeded)
    }

    fn release(&mut self, now: u64) -> Option<Happened> {
        if !std::mem::replace(&mut self.needed, false) {
            return None;
        }
        self.released = now;
        Some(Happened::CopyReleased)
    }

    /// Until when what nobody needs is left alone: what is under way for a moment, what is whole
    /// and what arrived of it for a while, what has not begun not at all.
    pub(super) fn left_alone(&self) -> Option<u64> {
        let length = match self.stage {
            Stage::Idle if self.at_hand.is_none() => 0,
            Stage::Idle => self.settings.partial_keep.0,
            Stage::Ordered | Stage::Taken => self.settings.stop_grace.0,
            Stage::Whole => self.settings.ready_keep.0,
            Stage::Nothing | Stage::Ending | Stage::Going => return None,
        };
        (!self.needed).then(|| self.released + length)
    }

    fn look(&mut self, now: u64) -> Option<Happened> {
        self.left_alone().filter(|until| *until <= now)?;
        match self.stage {
            Stage::Ordered | Stage::Taken => {
                self.enter(Stage::Ending, now);
                Some(Happened::StopDecided)
            }
            Stage::Whole => {
                self.set_latest_aside();
                self.enter(Stage::Going, now);
                Some(Happened::DeletionDecided)
            }
            // A try may have completed without a word.
            _ => {
                self.set_aside();
                let latest = self.latest.as_ref().map(|order| order.nonce);
                self.whole = latest.unwrap_or(self.whole);
                let next = if latest.is_some() { Stage::Going } else { Stage::Nothing };
                if next == Stage::Nothing {
                    self.trouble = Trouble::default();
                }
                self.enter(next, now);
                Some(Happened::CopyAbandoned)
            }
        }
    }

    /// Why the next try cannot begin.
    pub(super) fn hindrance(&self, now: u64) -> Option<Rejection> {
        let reasons = [
            (self.stage != Stage::Idle, Rejection::Stale),
            (!self.needed, Rejection::NotNeeded),
            (self.not_before > now, Rejection::TooEarly),
            (self.leftovers.len() >= CROWDED, Rejection::TooManyLeftovers),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
    }

    fn begin(&mut self, source: &Source, nonce: Nonce, now: u64) -> Answer {
        if let Some(reason) = self.hindrance(now) {
            return Err(reason);
        }
        if self.trouble.excluded.contains(&source.site) {
            return Err(Rejection::ExcludedSource);
        }
        let resumed = self.at_hand.as_ref().is_some_and(|order| order.source == *source);
        if !resumed {
            if self.is_at_hand(nonce) || self.leftovers.contains_key(&nonce) {
                return Err(Rejection::NonceInUse);
            }
            self.set_aside();
            self.at_hand = Some(Try { source: source.clone(), nonce });
        }
        self.latest = self.at_hand.clone();
        self.enter(Stage::Ordered, now);
        Ok(self.at_hand.clone().map(Happened::CopyOrdered))
    }

    fn search_in_vain(&mut self, hopeless: bool, now: u64, words: &Arc<str>) -> Answer {
        if let Some(reason) = self.hindrance(now) {
            return Err(reason);
        }
        self.note(words);
        let retry_at = now + pause(&self.settings, self.trouble.tries, 0);
        self.wait(retry_at, hopeless, now);
        let (detail, retry_at) = (words.clone(), Timestamp(retry_at));
        Ok(Some(Happened::SourceMissing { hopeless, detail, retry_at }))
    }

    fn note(&mut self, words: &Arc<str>) {
        self.trouble.tries += 1;
        self.trouble.last_error = Some(words.clone());
        self.trouble.at_destination = false;
    }

    /// Whoever is told that it cannot be had knows of all failures: they count no more.
    fn wait(&mut self, until: u64, given_up: bool, now: u64) {
        if given_up {
            self.trouble.excluded = BTreeSet::new();
            self.trouble.destination = 0;
        }
        (self.not_before, self.given_up) = (until, given_up);
        self.enter(Stage::Idle, now);
    }

    fn answered(
        &mut self,
        nonce: Nonce,
        answer: &StartAnswer,
        now: u64,
        words: &Arc<str>,
    ) -> Answer {
        match (self.stage, answer) {
            (Stage::Ordered | Stage::Taken, _) if !self.is_at_hand(nonce) => Err(Rejection::Stale),
            (Stage::Taken, _) => Ok(None),
            (Stage::Ordered, StartAnswer::Refused(_)) => {
                Ok(Some(self.fail(Blame::Destination, now, words)))
            }
            (Stage::Ordered, _) => {
                self.stage = Stage::Taken;
                Ok(Some(Happened::CopyStarted))
            }
            _ => Err(Rejection::Stale),
        }
    }

    /// Only that all is there holds whenever it was seen. The rest holds while the site is known
    /// to be at it.
    fn observed(&mut self, nonce: Nonce, seen: &Seen, now: u64, words: &Arc<str>) -> Answer {
        if self.is_whole(nonce) {
            return Ok(None);
        }
        let under_way = matches!(self.stage, Stage::Ordered | Stage::Taken | Stage::Ending);
        if !under_way || !self.is_at_hand(nonce) {
            return Err(Rejection::Stale);
        }
        Ok(match seen {
            Seen::Complete => {
                self.finish(nonce, now);
                Some(Happened::CopyCompleted)
            }
            _ if self.stage != Stage::Taken => None,
            Seen::Absent => Some(self.fail(Blame::Process, now, words)),
            Seen::Failed { blame, .. } => Some(self.fail(*blame, now, words)),
            Seen::Running { unchanged_for } if *unchanged_for >= self.settings.stall_timeout => {
                Some(self.stand_still(now, words))
            }
            Seen::Running { .. } => None,
        })
    }

    /// Whether the next failure is one too many for nobody to be blamed.
    fn is_suspicious(&self) -> bool {
        self.trouble.tries + 1 >= self.settings.max_process_tries
    }

    fn stand_still(&mut self, now: u64, words: &Arc<str>) -> Happened {
        if self.is_suspicious() {
            return self.fail(Blame::Source, now, words);
        }
        self.note(words);
        self.enter(Stage::Ending, now);
        Happened::CopyStalled { detail: words.clone() }
    }

    fn fail(&mut self, blame: Blame, now: u64, words: &Arc<str>) -> Happened {
        let blame = match blame {
            Blame::Process if self.is_suspicious() => Blame::Source,
            other => other,
        };
        self.note(words);
        let named = self.at_hand.as_ref().map_or(0, |order| order.nonce.0);
        let mut retry_at = now + pause(&self.settings, self.trouble.tries, named);
        let mut give_up = false;
        match blame {
            Blame::Process => {}
            Blame::Source => {
                retry_at = now;
                let site = self.at_hand.as_ref().map(|order| order.source.site.clone());
                self.trouble.excluded.extend(site);
                self.set_aside();
            }
            Blame::Destination => {
                self.trouble.at_destination = true;
                self.trouble.destination += 1;
                give_up = self.trouble.destination >= self.settings.max_destination_tries;
                self.set_aside();
            }
        }
        self.wait(retry_at, give_up, now);
        let (detail, retry_at) = (words.clone(), Timestamp(retry_at));
        Happened::TryFailed { blame, detail, retry_at, give_up }
    }

    fn stopped(&mut self, nonce: Nonce, now: u64) -> Answer {
        if self.stage != Stage::Ending || !self.is_at_hand(nonce) {
            return Err(Rejection::Stale);
        }
        let tries = self.trouble.tries;
        let length = if tries == 0 { 0 } else { pause(&self.settings, tries, nonce.0) };
        self.wait(now + length, false, now);
        Ok(Some(Happened::CopyStopped { retry_at: Timestamp(now + length) }))
    }

    /// Gone is what is not there and what nobody brings any more.
    fn vanish(&mut self, now: u64) -> Option<Happened> {
        if !self.leftovers.is_empty() {
            return None;
        }
        self.latest = None;
        self.trouble = Trouble::default();
        match self.needed {
            true => self.begin_afresh(now),
            false => self.enter(Stage::Nothing, now),
        }
        Some(Happened::CopyDeleted)
    }
}
