//! The world as shared by several sites and one driver.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cospan_domain::units::Timestamp;
use tokio::sync::{Notify, watch};

use crate::world::SimulatedWorld;

/// The world behind a lock, with the subscribers to its changes.
pub struct WorldHandle {
    world: Mutex<SimulatedWorld>,
    changes: Vec<watch::Sender<u64>>,
    sooner: Notify,
}

impl WorldHandle {
    /// Shares a world.
    pub fn new(world: SimulatedWorld) -> Arc<Self> {
        let changes = world
            .sites()
            .iter()
            .map(|_| watch::Sender::new(0))
            .collect();
        Arc::new(Self {
            world: Mutex::new(world),
            changes,
            sooner: Notify::new(),
        })
    }

    /// Acts on the world at `now`, and wakes the subscribers of changed sites.
    pub fn act_at<T>(&self, now: Timestamp, act: impl FnOnce(&mut SimulatedWorld) -> T) -> T {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.advance_to(now);
        let expected = world.next_event();
        let result = act(&mut world);
        for site in world.take_touched() {
            self.changes[site.index()].send_modify(|count| *count += 1);
        }
        let next = world.next_event();
        drop(world);
        if next.is_some_and(|next| expected.is_none_or(|expected| next < expected)) {
            self.sooner.notify_one();
        }
        result
    }

    /// Reads the world without advancing it.
    pub fn read<T>(&self, read: impl FnOnce(&SimulatedWorld) -> T) -> T {
        read(&self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn subscribe_changes(&self, site: usize) -> watch::Receiver<u64> {
        self.changes[site].subscribe()
    }

    /// Advances the world by itself for as long as the future is polled.
    pub(super) async fn drive_world(self: Arc<Self>, now: impl Fn() -> Timestamp) {
        loop {
            let next = self.act_at(now(), |world| world.next_event());
            let pause = async {
                match next {
                    Some(at) => tokio::time::sleep(Duration::from_millis(at.since(now()).0)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = pause => {}
                () = self.sooner.notified() => {}
            }
        }
    }
}
