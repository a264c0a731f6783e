//! A disk that fails: one fatal report, nothing acknowledged is lost, no unit
//! is there by halves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cospan_domain::ids::InstanceId;
use cospan_storage::contract::client::{ContractClient, put, put_if};
use cospan_storage::contract::{StoreUnderTest, client::channel_sink};
use cospan_storage::fault::{self, DiskFault, FaultDisk};
use cospan_storage::port::{
    AppendOutcome, CommitReport, CommitReportSink, JournalUnit, StoreError, StoredValue, UnitToken,
};
use cospan_storage::{OpenedStore, contract_tests};
use proptest::prelude::*;

#[derive(Default)]
struct OnFaultDisk {
    disk: FaultDisk,
    threaded: bool,
}

impl OnFaultDisk {
    fn threaded() -> Self {
        Self {
            threaded: true,
            ..Self::default()
        }
    }
}

impl StoreUnderTest for OnFaultDisk {
    fn open(
        &self,
        sink: CommitReportSink,
        load: &mut dyn FnMut(StoredValue),
    ) -> Result<OpenedStore, StoreError> {
        let instance = InstanceId::from_random(7);
        if self.threaded {
            fault::open_threaded(&self.disk, instance, sink, load)
        } else {
            fault::open(&self.disk, instance, sink, load)
        }
    }
}

contract_tests!(in_line, OnFaultDisk::default());
contract_tests!(with_a_thread, OnFaultDisk::threaded());

#[test]
fn what_was_to_strike_does_not_once_the_disk_is_spared() {
    both(|subject| {
        subject.disk.plan_fault_after(0, DiskFault::Full);
        subject.disk.set_capacity(Some(0));
        subject.disk.clear_faults();
        let mut client = ContractClient::open(subject);
        client.commit(vec![put_if("j/1", 0, "a")]);
        assert_eq!(subject.disk.struck_faults(), []);
    });
}

fn both(test: impl Fn(&OnFaultDisk)) {
    test(&OnFaultDisk::default());
    test(&OnFaultDisk::threaded());
}

/// Commits one unit, lets the fault strike the next, and gives back what the
/// store said and what is there afterwards.
fn struck(subject: &OnFaultDisk, fault: DiskFault) -> (String, Vec<String>) {
    let mut client = ContractClient::open(subject);
    client.commit(vec![put_if("j/1", 0, "a"), put_if("j/2", 0, "a")]);
    subject.disk.plan_fault_after(0, fault);
    let lost = client.append(vec![put_if("j/1", 1, "b"), put_if("j/2", 1, "b")]);
    let reason = client.wait_for_failure();
    let late = client.append(vec![put("j/3", "c")]);
    client.journal.close();
    client.handle_reports();
    assert_eq!(
        (client.outcome_of(lost), client.outcome_of(late)),
        (None, None)
    );
    assert_eq!(subject.disk.struck_faults(), [fault]);
    drop(client);
    let values = ContractClient::open(subject).scan_texts("").into_iter();
    (
        reason,
        values
            .map(|(key, version, value)| format!("{key} {version} {value}"))
            .collect(),
    )
}

const BEFORE: [&str; 2] = ["j/1 1 a", "j/2 1 a"];
const AFTER: [&str; 2] = ["j/1 2 b", "j/2 2 b"];

#[test]
fn a_write_error_is_fatal_and_leaves_no_half_unit() {
    both(|subject| {
        let (reason, values) = struck(subject, DiskFault::WriteError { written: 128 });
        assert!(
            reason.contains("the fault disk cannot be written: input/output"),
            "{reason}"
        );
        assert_eq!(values, BEFORE);
    });
}

#[test]
fn a_sync_error_is_fatal_and_the_unit_is_there_or_not() {
    both(|subject| {
        let (reason, values) = struck(subject, DiskFault::SyncError { kept: false });
        assert!(reason.contains("cannot be made durable"), "{reason}");
        assert_eq!(values, BEFORE);
    });
    both(|subject| {
        assert_eq!(
            struck(subject, DiskFault::SyncError { kept: true }).1,
            AFTER
        )
    });
}

#[test]
fn a_lost_or_torn_tail_is_cut_off() {
    for kept in [0, 1, 100, 255] {
        both(|subject| assert_eq!(struck(subject, DiskFault::PowerCut { kept }).1, BEFORE));
    }
}

#[test]
fn a_full_disk_is_fatal_and_says_what_to_do() {
    both(|subject| {
        let (reason, values) = struck(subject, DiskFault::Full);
        assert!(reason.contains("is full; free some space"), "{reason}");
        assert_eq!(values, BEFORE);
    });
}

#[test]
fn a_disk_that_fills_up_works_again_once_there_is_space() {
    both(|subject| {
        let mut client = ContractClient::open(subject);
        let disk = &subject.disk;
        disk.set_capacity(Some(client.journal.size().disk_bytes as usize + 50));
        client.append(vec![put("j/1", &"x".repeat(300))]);
        assert!(client.wait_for_failure().contains("full"));
        drop(client);
        let refused = subject.open(channel_sink().0, &mut |_| {});
        assert!(refused.is_err_and(|error| error.to_string().contains("full")));
        disk.set_capacity(None);
        ContractClient::open(subject).commit(vec![put("j/1", &"x".repeat(300))]);
    });
}

#[test]
fn a_slow_disk_says_how_long_it_took() {
    both(|subject| {
        let (sink, reports) = channel_sink();
        let opened = subject.open(sink, &mut |_| {}).unwrap();
        subject.disk.set_commit_time(3_000);
        let begun = std::time::Instant::now();
        opened.journal.append(
            opened.epoch,
            UnitToken(1),
            JournalUnit {
                changes: vec![put("j/1", "a")],
            },
        );
        let CommitReport::Group(group) = reports.recv().unwrap() else {
            panic!()
        };
        assert_eq!(group.flush_us, 3_000);
        assert!(matches!(
            group.outcomes[..],
            [(UnitToken(1), AppendOutcome::Committed(_))]
        ));
        if subject.threaded {
            assert!(begun.elapsed().as_micros() >= 3_000);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    /// Whatever strikes, and however often: unit k makes `count` k; what is there
    /// is some unit's state, and not before the last one that was acknowledged.
    #[test]
    fn no_acknowledged_unit_is_lost_by_any_fault(seed: u64) {
        let subject = OnFaultDisk::default();
        subject.disk.draw_faults(seed, 400, 0.1);
        let mut last = 0;
        for _ in 0..100 {
            let (sink, reports) = channel_sink();
            let mut count = 0;
            let mut keys = 0;
            let opened = subject.open(sink, &mut |stored| {
                keys += 1;
                count = stored.version.0.max(count);
            });
            let Ok(opened) = opened else { continue };
            prop_assert!(count >= last, "{} was acknowledged, {} is there", last, count);
            if last >= 60 {
                break;
            }
            prop_assert_eq!(keys, if count == 0 { 0 } else { count + 1 });
            last = count;
            for k in count + 1..count + 8 {
                let changes = vec![
                    put_if("count", k - 1, &k.to_string()),
                    put_if(&format!("n/{k}"), 0, &"v".repeat(k as usize % 90)),
                ];
                opened.journal.append(opened.epoch, UnitToken(k), JournalUnit { changes });
            }
            while let Ok(CommitReport::Group(group)) = reports.try_recv() {
                for (token, outcome) in group.outcomes {
                    prop_assert!(matches!(outcome, AppendOutcome::Committed(_)), "{:?}", outcome);
                    last = token.0;
                }
            }
        }
        prop_assert!(last >= 50, "{}", last);
    }
}
