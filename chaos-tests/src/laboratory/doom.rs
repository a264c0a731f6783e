//! The end of a control plane, as kill -9 brings it: from one moment on nothing
//! that it does reaches its store or its sites.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::tally::Tally;

/// Where exactly a control plane is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// In front of the append with this number, counted from 1: it is lost.
    BeforeAppend(u64),
    /// Right after it is durable; nobody hears of it.
    AfterAppend(u64),
    /// In front of the call to a site with this number: it is not made.
    BeforeCall(u64),
    /// Right after the site has carried it out; its answer is lost.
    AfterCall(u64),
}

impl Moment {
    fn as_str(self) -> &'static str {
        match self {
            Moment::BeforeAppend(_) => "killed-before-append",
            Moment::AfterAppend(_) => "killed-after-append",
            Moment::BeforeCall(_) => "killed-before-call",
            Moment::AfterCall(_) => "killed-after-call",
        }
    }
}

/// Whether a control plane still lives, and where it will not any more.
#[derive(Debug, Default)]
pub struct Doom {
    dead: AtomicBool,
    moment: Option<Moment>,
    appends: AtomicU64,
    calls: AtomicU64,
    told: Notify,
    tally: Arc<Tally>,
}

impl Doom {
    /// Dies at `moment`, if one is given, and when it is told to.
    pub fn at(moment: Option<Moment>, tally: Arc<Tally>) -> Arc<Self> {
        Arc::new(Self { moment, tally, ..Self::default() })
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Kills it.
    pub fn strike(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.told.notify_one();
    }

    /// Waits for its death.
    pub async fn struck(&self) {
        while !self.is_dead() {
            self.told.notified().await;
        }
    }

    /// Counts an append of this kind; whether it still happens, and whether it is the last.
    pub(super) fn append(&self, kind: &'static str) -> (bool, bool) {
        let number = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        self.pass(Moment::BeforeAppend(number), Moment::AfterAppend(number), kind)
    }

    /// Counts a call to a site, as for an append.
    pub(super) fn call(&self, kind: &'static str) -> (bool, bool) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.pass(Moment::BeforeCall(number), Moment::AfterCall(number), kind)
    }

    fn pass(&self, before: Moment, after: Moment, kind: &'static str) -> (bool, bool) {
        let reached = [before, after].into_iter().find(|here| self.moment == Some(*here));
        if let Some(moment) = reached.filter(|_| !self.is_dead()) {
            self.tally.count(moment.as_str(), kind);
        }
        if self.moment == Some(before) {
            self.strike();
        }
        (!self.is_dead(), self.moment == Some(after))
    }
}
