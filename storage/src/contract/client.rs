//! A client that appends and waits for outcomes, as an actor would.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cospan_domain::ids::{Epoch, InstanceId, Seq};

use super::StoreUnderTest;
use crate::port::{
    AppendOutcome, CommitReport, CommitReportSink, Journal, JournalUnit, KeyChange, KeyVersion,
    StoreKey, StoredValue, UnitToken,
};

/// Longest time that anything may take before the case fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// An opened store with its reports.
pub struct ContractClient {
    pub journal: Arc<dyn Journal>,
    pub epoch: Epoch,
    pub instance: InstanceId,
    /// Values that were loaded while opening.
    pub loaded: Vec<StoredValue>,
    reports: Receiver<CommitReport>,
    decided: BTreeMap<UnitToken, AppendOutcome>,
    /// Tokens in the order of their outcomes.
    pub order: Vec<UnitToken>,
    next: u64,
}

/// A sink that puts reports into a channel.
pub fn channel_sink() -> (CommitReportSink, Receiver<CommitReport>) {
    let (sender, reports) = channel();
    let sender: Mutex<Sender<CommitReport>> = Mutex::new(sender);
    // A client that is gone wants no reports.
    (
        Arc::new(move |report| drop(sender.lock().unwrap().send(report))),
        reports,
    )
}

impl ContractClient {
    pub fn open(subject: &dyn StoreUnderTest) -> Self {
        let (sink, reports) = channel_sink();
        let mut loaded = Vec::new();
        let opened = subject
            .open(sink, &mut |stored| loaded.push(stored))
            .unwrap();
        Self {
            journal: opened.journal,
            epoch: opened.epoch,
            instance: opened.instance,
            loaded,
            reports,
            decided: BTreeMap::new(),
            order: Vec::new(),
            next: 0,
        }
    }

    /// Closes, and opens the same store again.
    pub fn reopen(self, subject: &dyn StoreUnderTest) -> Self {
        self.journal.close();
        drop(self);
        Self::open(subject)
    }

    /// Appends without waiting.
    pub fn append(&mut self, changes: Vec<KeyChange>) -> UnitToken {
        let epoch = self.epoch;
        self.append_with_epoch(epoch, changes)
    }

    pub fn append_with_epoch(&mut self, epoch: Epoch, changes: Vec<KeyChange>) -> UnitToken {
        self.next += 1;
        let token = UnitToken(self.next);
        self.journal.append(epoch, token, JournalUnit { changes });
        token
    }

    /// Waits for the outcome of a unit.
    pub fn wait_for_outcome(&mut self, token: UnitToken) -> AppendOutcome {
        while !self.decided.contains_key(&token) {
            let report = self
                .reports
                .recv_timeout(DEADLINE)
                .expect("no outcome in time");
            self.handle_report(report);
        }
        self.decided[&token].clone()
    }

    /// Handles every report that is already there.
    pub fn handle_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.handle_report(report);
        }
    }

    /// Waits until the store fails, and returns the reason.
    pub fn wait_for_failure(&mut self) -> String {
        loop {
            match self
                .reports
                .recv_timeout(DEADLINE)
                .expect("no failure in time")
            {
                CommitReport::Fatal(reason) => return reason,
                report => self.handle_report(report),
            }
        }
    }

    fn handle_report(&mut self, report: CommitReport) {
        match report {
            CommitReport::Group(group) => {
                for (token, outcome) in group.outcomes {
                    self.order.push(token);
                    let twice = self.decided.insert(token, outcome);
                    assert_eq!(twice, None, "{token:?} was decided twice");
                }
            }
            CommitReport::Fatal(reason) => panic!("the store failed: {reason}"),
        }
    }

    /// Returns the outcome of a unit, if it is decided.
    pub fn outcome_of(&self, token: UnitToken) -> Option<&AppendOutcome> {
        self.decided.get(&token)
    }

    /// Appends and waits for the outcome.
    pub fn append_and_wait(&mut self, changes: Vec<KeyChange>) -> AppendOutcome {
        let token = self.append(changes);
        self.wait_for_outcome(token)
    }

    /// Appends, waits, and expects it to be committed.
    pub fn commit(&mut self, changes: Vec<KeyChange>) -> Seq {
        match self.append_and_wait(changes) {
            AppendOutcome::Committed(seq) => seq,
            outcome => panic!("not committed but {outcome:?}"),
        }
    }

    /// Returns everything below a prefix.
    pub fn scan(&self, prefix: &str) -> Vec<StoredValue> {
        let mut found = Vec::new();
        let visit = &mut |stored| {
            found.push(stored);
            ControlFlow::Continue(())
        };
        self.journal.scan(prefix.as_bytes(), visit).unwrap();
        found
    }

    /// Returns everything below a prefix, as text.
    pub fn scan_texts(&self, prefix: &str) -> Vec<(String, u64, String)> {
        self.scan(prefix)
            .into_iter()
            .map(|stored: StoredValue| {
                let key = String::from_utf8_lossy(&stored.key.0).into_owned();
                let value = String::from_utf8_lossy(&stored.value).into_owned();
                (key, stored.version.0, value)
            })
            .collect()
    }
}

/// Puts a value, whatever the version is.
pub fn put(key: &str, value: &str) -> KeyChange {
    KeyChange {
        key: StoreKey::from(key),
        expected: None,
        value: Some(value.as_bytes().into()),
    }
}

/// Puts a value if the key has this version.
pub fn put_if(key: &str, version: u64, value: &str) -> KeyChange {
    KeyChange {
        expected: Some(KeyVersion(version)),
        ..put(key, value)
    }
}

/// Deletes a key if it has this version.
pub fn delete_if(key: &str, version: u64) -> KeyChange {
    KeyChange {
        value: None,
        ..put_if(key, version, "")
    }
}

/// Returns a key in the form of [`Client::texts`].
pub fn text_row(key: &str, version: u64, value: &str) -> (String, u64, String) {
    (key.into(), version, value.into())
}
