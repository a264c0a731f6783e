//! Turns at work that one owner can make as long as it likes, such as the reading of whole files.
//! Nobody waits for what another owner has begun.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cospan_domain::ids::KeyName;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

/// The turns that owners share.
const SHARED: usize = 4;
/// The most turns that one owner has at a time.
const OF_ONE_OWNER: usize = SHARED / 2;
/// An owner that has no turn need not wait for a shared one, up to this many turns in all.
const IN_ALL: usize = 16;

/// The owner of work; `None` for work of the control plane itself.
pub type TurnOwner = Option<KeyName>;

/// Gives turns to owners. Owners that wait are served one after the other, and each in the order
/// in which it asked.
#[derive(Clone, Default)]
pub struct FairTurns(Arc<Mutex<TurnTable>>);

/// A turn. It ends when it is dropped.
pub struct TurnPermit {
    turns: FairTurns,
    owner: TurnOwner,
}

#[derive(Default)]
struct TurnTable {
    taken: BTreeMap<TurnOwner, usize>,
    waiting: BTreeMap<TurnOwner, VecDeque<oneshot::Sender<TurnPermit>>>,
    /// The owner that got the latest turn.
    latest: TurnOwner,
}

impl TurnTable {
    fn may_take_turn(&self, owner: &TurnOwner) -> bool {
        let in_all: usize = self.taken.values().sum();
        match self.taken.get(owner) {
            None => in_all < IN_ALL,
            Some(own) => *own < OF_ONE_OWNER && in_all < SHARED,
        }
    }

    /// Takes a turn for the next owner in the round that waits and may have one.
    fn take_next_waiting(&mut self) -> Option<(TurnOwner, oneshot::Sender<TurnPermit>)> {
        self.waiting.retain(|_, line| {
            line.retain(|place| !place.is_closed());
            !line.is_empty()
        });
        let (before, after): (Vec<_>, Vec<_>) = self
            .waiting
            .keys()
            .cloned()
            .partition(|owner| *owner <= self.latest);
        let mut round = after.into_iter().chain(before);
        let owner = round.find(|owner| self.may_take_turn(owner))?;
        let place = self.waiting.get_mut(&owner)?.pop_front()?;
        *self.taken.entry(owner.clone()).or_default() += 1;
        self.latest = owner.clone();
        Some((owner, place))
    }

    fn return_turn(&mut self, owner: &TurnOwner) {
        if let Some(taken) = self.taken.get_mut(owner) {
            *taken -= 1;
        }
        self.taken.retain(|_, taken| *taken > 0);
    }
}

impl FairTurns {
    /// Waits for a turn. Who drops the future gives up its place in the line.
    ///
    /// # Errors
    ///
    /// Never as long as this value lives.
    pub async fn take_turn(&self, owner: TurnOwner) -> Result<TurnPermit, RecvError> {
        let (place, turn) = oneshot::channel();
        self.lock()
            .waiting
            .entry(owner)
            .or_default()
            .push_back(place);
        self.hand_out_turns();
        turn.await
    }

    fn hand_out_turns(&self) {
        loop {
            let next = self.lock().take_next_waiting();
            let Some((owner, place)) = next else { return };
            let turns = self.clone();
            // Who has stopped waiting meanwhile drops the turn, which gives it back.
            drop(place.send(TurnPermit { turns, owner }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FairTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FairTurns")
            .field(&self.lock().taken)
            .finish()
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.turns.lock().return_turn(&self.owner);
        self.turns.hand_out_turns();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn owner(name: &str) -> TurnOwner {
        Some(KeyName::new(name).expect("a name"))
    }

    fn take(turns: &FairTurns, name: &str) -> Option<TurnPermit> {
        let turn = turns.take_turn(owner(name)).now_or_never()?;
        Some(turn.expect("the turns live"))
    }

    #[test]
    fn an_owner_never_has_all_turns_and_everybody_else_gets_one_at_once() {
        let turns = FairTurns::default();
        let mut held: Vec<TurnPermit> = (0..OF_ONE_OWNER)
            .map(|_| take(&turns, "anna").expect("a turn"))
            .collect();
        assert!(take(&turns, "anna").is_none());
        for number in held.len()..IN_ALL {
            held.push(take(&turns, &format!("k{number}")).expect("a turn of its own"));
        }
        assert!(take(&turns, "otto").is_none(), "there is a bound in all");
        held.pop();
        assert!(take(&turns, "otto").is_some());
    }

    #[test]
    fn owners_that_wait_are_served_in_a_round_however_often_one_asks() {
        let turns = FairTurns::default();
        let mut held: Vec<TurnPermit> = ["anna", "otto", "rosa", "udo"]
            .map(|name| take(&turns, name).expect("a turn"))
            .into();
        let mut waiting = ["anna", "anna", "otto"].map(|name| {
            let mut turn = Box::pin(turns.take_turn(owner(name)));
            assert!(turn.as_mut().now_or_never().is_none(), "{name}");
            turn
        });
        held.pop();
        let first = waiting[0].as_mut().now_or_never();
        assert!(first.is_some(), "anna is the next after udo");
        drop(first);
        assert!(waiting[1].as_mut().now_or_never().is_none());
        assert!(waiting[2].as_mut().now_or_never().is_some());
    }

    #[test]
    fn who_waits_no_more_takes_no_turn() {
        let turns = FairTurns::default();
        let mut held: Vec<TurnPermit> = (0..OF_ONE_OWNER)
            .map(|_| take(&turns, "anna").expect("a turn"))
            .collect();
        let mut given_up = Box::pin(turns.take_turn(owner("anna")));
        assert!(given_up.as_mut().now_or_never().is_none());
        let mut handed = Box::pin(turns.take_turn(owner("anna")));
        assert!(handed.as_mut().now_or_never().is_none());
        drop(given_up);
        held.pop();
        // It got the turn, and never looks.
        drop(handed);
        assert!(take(&turns, "anna").is_some());
        assert_eq!(turns.lock().taken.values().sum::<usize>(), 1);
    }
}
