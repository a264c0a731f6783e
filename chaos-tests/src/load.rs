//! Keeps jobs in flight while the server is killed under them, and records what it acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::api::{Api, ApiReply};
use crate::workload::{DrawnSubmission, DrawnWorkload};

/// The answers that clients have received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientPromises {
    /// Every job number that was acknowledged for a name.
    pub acknowledged: BTreeMap<String, Vec<u64>>,
    /// Jobs whose cancellation was acknowledged as done.
    pub cancelled: Vec<u64>,
    /// Refused requests, with the answer.
    pub refused: Vec<String>,
}

#[derive(Debug, Default)]
struct CrowdState {
    promises: ClientPromises,
    /// Acknowledged jobs that are not known to be final.
    open: Vec<u64>,
    to_cancel: Vec<(Instant, u64)>,
    to_send: Vec<DrawnSubmission>,
}

impl CrowdState {
    fn acknowledge(&mut self, name: &str, id: u64) {
        let ids = self
            .promises
            .acknowledged
            .entry(name.to_owned())
            .or_default();
        if ids.is_empty() {
            self.open.push(id);
        }
        ids.push(id);
    }
}

#[derive(Debug)]
pub struct ClientCrowd {
    state: Arc<Mutex<CrowdState>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn lock(state: &Mutex<CrowdState>) -> MutexGuard<'_, CrowdState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientCrowd {
    /// Starts clients that keep `depth` jobs in flight and never give up a request.
    pub fn start(api: Api, workload: DrawnWorkload, depth: usize, seed: u64) -> Self {
        let state = Arc::new(Mutex::new(CrowdState::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut client = CrowdClient {
            api,
            workload,
            depth,
            random: StdRng::seed_from_u64(seed),
            state: state.clone(),
            stop: stop.clone(),
        };
        let thread = Some(std::thread::spawn(move || client.run()));
        Self {
            state,
            stop,
            thread,
        }
    }

    /// Marks those of the newest jobs that are final.
    pub fn record_final_jobs(&self, rows: &[serde_json::Value]) {
        let ended: Vec<u64> = rows
            .iter()
            .filter(|row| {
                matches!(
                    row["state"].as_str(),
                    Some("finished" | "failed" | "cancelled")
                )
            })
            .filter_map(|row| row["id"].as_u64())
            .collect();
        lock(&self.state).open.retain(|id| !ended.contains(id));
    }

    /// Counts the acknowledged jobs that are not known to be final.
    pub fn open(&self) -> usize {
        lock(&self.state).open.len()
    }

    /// Returns the oldest of them.
    pub fn oldest_open_job(&self) -> Option<u64> {
        lock(&self.state).open.iter().min().copied()
    }

    /// Returns the answers that clients have received so far.
    pub fn answers_received(&self) -> ClientPromises {
        lock(&self.state).promises.clone()
    }

    /// Stops sending new jobs and finishes requests under way (the server must be up).
    pub fn finish(mut self) -> ClientPromises {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            lock(&self.state)
                .promises
                .refused
                .push("the clients panicked".into());
        }
        lock(&self.state).promises.clone()
    }
}

impl Drop for ClientCrowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct CrowdClient {
    api: Api,
    workload: DrawnWorkload,
    depth: usize,
    random: StdRng,
    state: Arc<Mutex<CrowdState>>,
    stop: Arc<AtomicBool>,
}

impl CrowdClient {
    fn run(&mut self) {
        const LEFT_MAX: Duration = Duration::from_secs(60);
        let mut stopped: Option<Instant> = None;
        loop {
            let stopping = self.stop.load(Ordering::Relaxed);
            if stopping && stopped.is_none() {
                stopped = Some(Instant::now());
            }
            if stopped.is_some_and(|at| at.elapsed() > LEFT_MAX) {
                return;
            }
            self.cancel_due_jobs();
            let next = {
                let mut state = lock(&self.state);
                let waits = state.open.len() + state.to_send.len() >= self.depth;
                match state.to_send.pop() {
                    Some(drawn) => Some(drawn),
                    None if stopping => return,
                    None if waits => None,
                    None => Some(self.workload.draw(&mut self.random)),
                }
            };
            match next {
                Some(drawn) => self.submit(drawn),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn cancel_due_jobs(&mut self) {
        let now = Instant::now();
        let due: Vec<u64> = {
            let mut state = lock(&self.state);
            let (due, later) = state.to_cancel.drain(..).partition(|(at, _)| *at <= now);
            state.to_cancel = later;
            due
        }
        .into_iter()
        .map(|(_, id): (Instant, u64)| id)
        .collect();
        for id in due {
            match self.api.cancel(id) {
                Some(true) => lock(&self.state).promises.cancelled.push(id),
                Some(false) => {}
                None => {
                    let later = now + Duration::from_millis(100);
                    lock(&self.state).to_cancel.push((later, id));
                }
            }
        }
    }

    fn submit(&mut self, mut drawn: DrawnSubmission) {
        let reply = self
            .api
            .post("/v1/jobs", drawn.key.as_deref(), &drawn.document);
        let mut state = lock(&self.state);
        match reply {
            ApiReply::Answered(200 | 201, value) => {
                let jobs = value["jobs"].as_array().into_iter().flatten();
                let ids: Vec<u64> = jobs.filter_map(|job| job["id"].as_u64()).collect();
                if ids.len() != drawn.names.len() {
                    return state
                        .promises
                        .refused
                        .push(format!("{:?}: {value}", drawn.names));
                }
                for (name, id) in drawn.names.iter().zip(ids) {
                    state.acknowledge(name, id);
                    if let Some(ms) = drawn.cancel_after_ms.take() {
                        state
                            .to_cancel
                            .push((Instant::now() + Duration::from_millis(ms), id));
                    }
                }
                if std::mem::take(&mut drawn.repeated) {
                    state.to_send.push(drawn);
                }
            }
            ApiReply::Answered(429 | 503, _) => {
                state.to_send.push(drawn);
                drop(state);
                std::thread::sleep(Duration::from_millis(50));
            }
            ApiReply::Answered(status, value) => {
                state
                    .promises
                    .refused
                    .push(format!("{:?}: {status} {value}", drawn.names));
            }
            ApiReply::Silent(_) => {
                // With a key it can be repeated; without one it may have been accepted or not.
                if drawn.key.is_some() {
                    state.to_send.push(drawn);
                }
                drop(state);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
