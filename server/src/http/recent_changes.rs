//! The latest committed changes, kept for those who follow them.
//!
//! One ring for all followers instead of a queue for each: a follower is a position in the ring, so
//! a slow one costs nothing, and notices by itself that it was overtaken. The ring is filled only
//! while somebody follows, and for a while after, so that a follower who comes back can continue.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cospan_domain::ids::Seq;
use futures_util::StreamExt;
use tokio::sync::watch;

use super::control_plane_port::{ControlPlanePort, JobChange, JobChangeStream, SubscriptionItem};

/// Time between two checks of a hub without followers whether to continue.
const PATIENCE: Duration = Duration::from_secs(60);
/// Checks after which it stops.
const PATIENCE_ROUNDS: u32 = 10;
/// Most changes handed out at once.
const BATCH: usize = 64;

/// The latest committed changes.
#[derive(Debug)]
pub(super) struct RecentChanges {
    ring: Mutex<ChangeRing>,
    kept: usize,
    grown: watch::Sender<Seq>,
}

#[derive(Debug, Default)]
struct ChangeRing {
    running: bool,
    /// The ring has every change after this position, up to the present.
    floor: Seq,
    changes: VecDeque<Arc<JobChange>>,
}

/// The next item for a follower.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextChanges {
    /// These changes, including all of the last position.
    Changes(Vec<Arc<JobChange>>),
    /// It was overtaken and continues after this position.
    Resync(Seq),
    /// Nothing yet.
    Nothing,
}

impl RecentChanges {
    pub(super) fn new(kept: usize) -> Self {
        Self {
            ring: Mutex::default(),
            kept: kept.max(1),
            grown: watch::Sender::new(Seq(0)),
        }
    }

    fn lock_ring(&self) -> MutexGuard<'_, ChangeRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the ring is being filled, and returns the present position. Must be called
    /// on a thread that runs actix.
    pub(super) fn start_filling(self: &Arc<Self>, backend: &Arc<dyn ControlPlanePort>) -> Seq {
        let mut ring = self.lock_ring();
        if !ring.running {
            // Subscribe first, then read: all changes sent before are in the view.
            let changes = backend.subscribe();
            let floor = backend.view().seq;
            *ring = ChangeRing {
                running: true,
                floor,
                changes: VecDeque::new(),
            };
            self.grown.send_replace(floor);
            actix_web::rt::spawn(fill_ring(self.clone(), backend.clone(), changes));
        }
        ring.changes.back().map_or(ring.floor, |change| change.seq)
    }

    /// A receiver that is notified whenever the ring has grown.
    pub(super) fn watch_growth(&self) -> watch::Receiver<Seq> {
        self.grown.subscribe()
    }

    /// The changes after a position.
    pub(super) fn changes_after(&self, seen: Seq) -> NextChanges {
        let ring = self.lock_ring();
        let head = ring.changes.back().map_or(ring.floor, |change| change.seq);
        if seen < ring.floor || seen > head {
            return NextChanges::Resync(head);
        }
        let from = ring.changes.partition_point(|change| change.seq <= seen);
        let mut batch: Vec<Arc<JobChange>> =
            ring.changes.range(from..).take(BATCH).cloned().collect();
        let Some(last) = batch.last().map(|change| change.seq) else {
            return NextChanges::Nothing;
        };
        // A position is handed out whole, so that a follower can resume after it.
        let rest = ring.changes.range(from + batch.len()..);
        batch.extend(rest.take_while(|change| change.seq == last).cloned());
        NextChanges::Changes(batch)
    }

    fn push_change(&self, change: JobChange) {
        let seq = change.seq;
        let mut ring = self.lock_ring();
        if seq <= ring.floor {
            return;
        }
        ring.changes.push_back(Arc::new(change));
        while ring.changes.len() > self.kept {
            let Some(gone) = ring.changes.pop_front() else {
                break;
            };
            ring.floor = gone.seq;
        }
        // Half a position is useless.
        let floor = ring.floor;
        while ring
            .changes
            .front()
            .is_some_and(|change| change.seq <= floor)
        {
            ring.changes.pop_front();
        }
        drop(ring);
        self.grown.send_replace(seq);
    }

    fn skip_lost(&self, now: Seq) {
        let mut ring = self.lock_ring();
        ring.changes.clear();
        ring.floor = now;
        drop(ring);
        self.grown.send_replace(now);
    }

    /// Stops unless somebody follows.
    fn stop_if_unused(&self) -> bool {
        let mut ring = self.lock_ring();
        if self.grown.receiver_count() > 0 {
            return false;
        }
        *ring = ChangeRing::default();
        true
    }
}

async fn fill_ring(
    hub: Arc<RecentChanges>,
    backend: Arc<dyn ControlPlanePort>,
    changes: JobChangeStream,
) {
    let mut changes = pin!(changes);
    let mut lonely = 0;
    let mut patience = actix_web::rt::time::interval(PATIENCE);
    loop {
        tokio::select! {
            biased;
            followed = changes.next() => match followed {
                Some(SubscriptionItem::Change(change)) => hub.push_change(change),
                Some(SubscriptionItem::Lost) => hub.skip_lost(backend.view().seq),
                None => break,
            },
            _ = patience.tick() => {
                lonely = if hub.grown.receiver_count() > 0 { 0 } else { lonely + 1 };
                if lonely >= PATIENCE_ROUNDS && hub.stop_if_unused() {
                    return;
                }
            }
        }
    }
    // The control plane has gone; there will be no more changes.
    hub.lock_ring().running = false;
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::JobId;

    use super::*;

    fn change(seq: u64) -> JobChange {
        JobChange {
            seq: Seq(seq),
            job: JobId(seq),
            owner: "alice".parse().unwrap(),
            submitted: false,
            events: Vec::new(),
        }
    }

    fn seqs(next: NextChanges) -> Vec<u64> {
        match next {
            NextChanges::Changes(changes) => changes.iter().map(|change| change.seq.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_follower_gets_every_change_after_its_position_once() {
        let hub = RecentChanges::new(100);
        (1..=10).for_each(|seq| hub.push_change(change(seq)));
        assert_eq!(seqs(hub.changes_after(Seq(7))), [8, 9, 10]);
        assert_eq!(hub.changes_after(Seq(10)), NextChanges::Nothing);
    }

    #[test]
    fn a_follower_that_was_overtaken_is_told() {
        let hub = RecentChanges::new(5);
        (1..=10).for_each(|seq| hub.push_change(change(seq)));
        assert_eq!(hub.changes_after(Seq(4)), NextChanges::Resync(Seq(10)));
        assert_eq!(seqs(hub.changes_after(Seq(5))), [6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_position_from_the_future_or_another_store_is_no_position() {
        let hub = RecentChanges::new(5);
        hub.push_change(change(1));
        assert_eq!(hub.changes_after(Seq(2)), NextChanges::Resync(Seq(1)));
    }

    #[test]
    fn a_position_is_handed_out_and_dropped_as_a_whole() {
        let hub = RecentChanges::new(100);
        hub.push_change(change(1));
        (0..200).for_each(|_| hub.push_change(change(2)));
        // The bound cuts into position 2, which therefore goes as a whole.
        assert_eq!(hub.changes_after(Seq(1)), NextChanges::Resync(Seq(2)));
        hub.push_change(change(3));
        assert_eq!(seqs(hub.changes_after(Seq(2))), [3]);
        let hub = RecentChanges::new(1000);
        (0..200).for_each(|_| hub.push_change(change(2)));
        hub.push_change(change(3));
        assert_eq!(seqs(hub.changes_after(Seq(0))).len(), 200);
    }

    #[test]
    fn lost_changes_send_everybody_to_read_anew() {
        let hub = RecentChanges::new(100);
        (1..=3).for_each(|seq| hub.push_change(change(seq)));
        hub.skip_lost(Seq(9));
        assert_eq!(hub.changes_after(Seq(3)), NextChanges::Resync(Seq(9)));
        hub.push_change(change(8));
        hub.push_change(change(10));
        assert_eq!(seqs(hub.changes_after(Seq(9))), [10]);
    }
}
