//! Measures the time to build the state of many jobs from their values: for the decoding alone, and
//! for opening a store of each engine, with its check.
//!
//! `cargo run --release -p cospan-storage --example decode_rate [jobs] [directory]`

#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cospan_domain::content::Content;
use cospan_domain::ids::{ComponentName, Digest, JobId, KeyName, LogicalName, RelPath, Round};
use cospan_domain::job::job_state::{Component, Job, JobPhase, SetbackCounts};
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, FileReference, InputSpec, JobSpec, Priority, Program,
    RequestType, UnreachableAction,
};
use cospan_domain::placed::{ContentSource, Placement};
use cospan_domain::resources::Resources;
use cospan_domain::units::{Bytes, DurationMs, Timestamp};
use cospan_storage::port::{JournalUnit, KeyChange, KeyVersion, StoreKey, StoredValue, UnitToken};
use cospan_storage::record::RecordLoader;
use cospan_storage::record::job::{submission_changes, update_changes};
use cospan_storage::{EngineKind, StoreOptions, open, open_and_load};

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse())?;
    let mut values = BTreeMap::new();
    // Four in five wait; the others are placed.
    for id in 0..count {
        let job = build_job(id)?;
        let mut changes = submission_changes(&job)?;
        if id % 5 == 0 {
            changes.extend(update_changes(&job, &place_job(&job)?, &[])?);
        }
        for change in changes {
            if let Some(value) = change.value {
                let version = KeyVersion(1);
                values.insert(
                    change.key.clone(),
                    StoredValue {
                        key: change.key,
                        version,
                        value,
                    },
                );
            }
        }
    }
    let bytes: usize = values.values().map(|stored| stored.value.len()).sum();
    println!(
        "{count} jobs, {} values, {} bytes a job",
        values.len(),
        bytes as u64 / count
    );
    for _ in 0..3 {
        let stored: Vec<StoredValue> = values.values().cloned().collect();
        let begun = Instant::now();
        let cpu = cpu_seconds();
        let mut loader = RecordLoader::default();
        for stored in stored {
            loader.take_stored_value(stored)?;
        }
        let loaded = loader.finish()?;
        let took = begun.elapsed().as_secs_f64();
        let cpu = cpu_seconds() - cpu;
        println!(
            "{} jobs decoded in {took:.3} s, {cpu:.3} s of processor",
            loaded.jobs.len()
        );
    }
    let base = std::env::args().nth(2).unwrap_or_else(|| ".".into());
    let base = tempfile::Builder::new()
        .prefix("decode-rate")
        .tempdir_in(base)?;
    for engine in EngineKind::ALL {
        measure_opening(*engine, &base.path().join(engine.as_str()), &values)?;
    }
    Ok(())
}

/// Fills a store, and measures the time to open it again.
fn measure_opening(
    engine: EngineKind,
    path: &Path,
    values: &BTreeMap<StoreKey, StoredValue>,
) -> Result<(), Box<dyn Error>> {
    let options = StoreOptions::new(engine);
    let opened = open(path, &options, Arc::new(|_| {}))?;
    for stored in values.values().cloned() {
        let change = KeyChange {
            key: stored.key,
            expected: None,
            value: Some(stored.value),
        };
        opened.journal.append(
            opened.epoch,
            UnitToken(0),
            JournalUnit {
                changes: vec![change],
            },
        );
    }
    opened.journal.close();
    drop(opened);
    for _ in 0..2 {
        let begun = Instant::now();
        let cpu = cpu_seconds();
        let mut loader = RecordLoader::with_threads(1, Bytes(u64::MAX));
        let mut problem = Ok(());
        let opened = open_and_load(path, &options, Arc::new(|_| {}), &mut |stored| {
            if problem.is_ok() {
                problem = loader.take_stored_value(stored);
            }
        })?;
        problem?;
        let jobs = loader.finish()?.jobs.len();
        let took = begun.elapsed().as_secs_f64();
        let cpu = cpu_seconds() - cpu;
        let name = engine.as_str();
        println!("{name}: opened and {jobs} jobs loaded in {took:.3} s, {cpu:.3} s of processor");
        opened.journal.close();
    }
    Ok(())
}

/// Returns the processor time of this thread in seconds; other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        / 1e9
}

fn build_job(id: u64) -> Result<Job, Box<dyn Error>> {
    let components = (0..3).map(component).collect::<Result<_, _>>()?;
    let spec = JobSpec {
        name: Some("simulation".into()),
        request: RequestType::NonFixed,
        components,
        policy: None,
        priority: Priority::Low,
        wall_time: DurationMs::from_secs(3_600),
        rerunnable: true,
        on_unreachable: UnreachableAction::RerunAfter(DurationMs::from_secs(1_800)),
        max_placement_tries: None,
        max_claim_tries: None,
        max_retries: 3,
        run: Default::default(),
    };
    Ok(Job {
        id: JobId(id),
        spec: Arc::new(spec),
        owner: KeyName::new("alice")?,
        idempotency: None,
        submitted_at: Timestamp(1_700_000_000_000),
        priority: Priority::Low,
        frozen_by: None,
        held: None,
        phase: JobPhase::Queued {
            since: Timestamp(1_700_000_000_000),
            not_before: Timestamp(0),
        },
        round: Round(0),
        inputs_here: false,
        start_at: None,
        components: Vec::new(),
        setbacks: SetbackCounts::default(),
        next_claim: None,
        preempting: Vec::new(),
        promoted: false,
        instants: Default::default(),
        placed_by: None,
        wish: Default::default(),
        reservation: None,
        told: Default::default(),
        revision: 1,
    })
}

fn component(index: u8) -> Result<ComponentSpec, Box<dyn Error>> {
    let content = Content {
        digest: Digest([index; 32]),
        size: Bytes(1 << 20),
    };
    let file = FileReference {
        name: LogicalName::new("data/input")?,
        bound: Some(content),
    };
    Ok(ComponentSpec {
        name: ComponentName::new(&format!("part{index}"))?,
        site: None,
        resources: Resources::processors(4),
        constraints: Vec::new(),
        program: Program {
            executable: ExecutableSource::AtSite("/usr/bin/solver".into()),
            arguments: vec!["--steps".into(), "1000".into()],
            environment: [("OMP_NUM_THREADS".into(), "4".into())].into(),
            directory: None,
            setup: Vec::new(),
        }
        .into(),
        inputs: vec![InputSpec {
            file,
            path: RelPath::new("input.dat")?,
            feed: Default::default(),
        }],
        outputs: Vec::new(),
        at: BTreeMap::new(),
        restart: None,
        start_after: DurationMs::ZERO,
    })
}

fn place_job(job: &Job) -> Result<Job, Box<dyn Error>> {
    let at = Timestamp(1_700_000_060_000);
    Ok(Job {
        revision: 2,
        round: Round(1),
        phase: JobPhase::Placed {
            at,
            start_estimate: at,
        },
        components: (0..3)
            .map(|index: u8| -> Result<Component, Box<dyn Error>> {
                let content = Content {
                    digest: Digest([index; 32]),
                    size: Bytes(1 << 20),
                };
                let sources = vec![ContentSource {
                    content,
                    from: "leiden".parse()?,
                    chunk: None,
                }];
                let transfer_time = DurationMs(1_000);
                let placement = Placement {
                    site: "delft".parse()?,
                    sources,
                    transfer_time,
                    share: None,
                    acquisition: Default::default(),
                };
                Ok(Component {
                    placement: Some(placement),
                    ..Component::default()
                })
            })
            .collect::<Result<_, _>>()?,
        ..job.clone()
    })
}
