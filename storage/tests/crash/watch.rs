//! Reads a trace of `strace -f -y`: what was written, synced and acknowledged, in what order.

use std::collections::BTreeMap;

/// What the trace has shown so far of one file.
pub(crate) struct Watch {
    /// Whether a call tells somebody that something is durable.
    acknowledges: fn(&str) -> bool,
    /// Written since the last sync began, or never synced.
    dirty: bool,
    /// Written since the last acknowledgement.
    written: bool,
    /// Calls under way, by thread.
    unfinished: BTreeMap<String, Call>,
    pub(crate) acknowledged: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
}

impl Watch {
    /// A watch that has seen nothing yet.
    pub(crate) fn new(acknowledges: fn(&str) -> bool) -> Self {
        let unfinished = BTreeMap::new();
        Self {
            acknowledges,
            dirty: false,
            written: false,
            unfinished,
            acknowledged: 0,
        }
    }

    /// The next line of the trace; `file` as it names the store's file.
    pub(crate) fn line(&mut self, line: &str, file: &str) {
        let Some((thread, call)) = line.split_once(' ') else {
            return;
        };
        let call = call.trim_start();
        if call.contains("resumed>") {
            if let Some(call) = self.unfinished.remove(thread) {
                self.end(call);
            }
            return;
        }
        if (self.acknowledges)(call) {
            self.acknowledge(line);
            return;
        }
        let kind = match call.split_once('(') {
            Some((name, rest)) if rest.contains(file) => match name {
                "fdatasync" | "fsync" => Call::Sync,
                _ => Call::Write,
            },
            _ => return,
        };
        self.begin(kind);
        if call.contains("<unfinished") {
            self.unfinished.insert(thread.into(), kind);
        } else {
            self.end(kind)
        }
    }

    fn begin(&mut self, call: Call) {
        match call {
            Call::Write => (self.dirty, self.written) = (true, true),
            // A write that ends after this makes it dirty again.
            Call::Sync => self.dirty = self.unfinished.values().any(|call| *call == Call::Write),
        }
    }

    fn end(&mut self, call: Call) {
        if call == Call::Write {
            self.dirty = true;
        }
    }

    fn acknowledge(&mut self, line: &str) {
        let syncing = self.unfinished.values().any(|call| *call == Call::Sync);
        assert!(self.written, "acknowledged without a write: {line}");
        assert!(
            !self.dirty && !syncing,
            "acknowledged before it was synced: {line}"
        );
        self.written = false;
        self.acknowledged += 1;
    }
}
