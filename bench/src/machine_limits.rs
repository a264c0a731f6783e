//! The floors: the most that the machine can do.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::{Context, Result};
use cospan_domain::ids::Epoch;
use cospan_storage::port::{
    AppendOutcome, CommitReport, JournalUnit, KeyChange, StoreKey, UnitToken,
};
use cospan_storage::{EngineKind, StoreOptions};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// The time for which each floor is measured.
const LENGTH: Duration = Duration::from_secs(1);

pub(super) fn file_system(path: &Path) -> Result<String> {
    let path = path.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/mounts")?;
    let below = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let mount = fields.next()?;
        let kind = fields.next()?;
        path.starts_with(mount).then_some((mount.len(), kind))
    });
    Ok(below
        .max()
        .map_or_else(|| "unknown".into(), |(_, kind)| kind.to_owned()))
}

/// Appends of 4 KiB per second, each made durable.
pub(super) fn fdatasync_per_s(place: &Path) -> Result<f64> {
    let mut file = File::create(place.join("fdatasync"))?;
    let block = [7; 4_096];
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < LENGTH {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// Runs of `/bin/true` per second, one after the other.
pub(super) fn spawn_per_s() -> Result<f64> {
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < LENGTH {
        Command::new("/bin/true")
            .stdin(Stdio::null())
            .status()
            .context("no /bin/true")?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

type AppendWaiters = Arc<Mutex<BTreeMap<u64, oneshot::Sender<bool>>>>;

struct BaselineServerState {
    journal: Arc<dyn cospan_storage::port::Journal>,
    epoch: Epoch,
    next: AtomicU64,
    waiting: AppendWaiters,
}

/// The floor of a submission: a POST whose body becomes durable in the same store, in groups, and
/// nothing else. Serves until it is killed.
///
/// # Errors
/// The store or the address cannot be had.
pub fn serve_floor(directory: &Path, port: u16) -> Result<()> {
    let waiting = AppendWaiters::default();
    let answered = waiting.clone();
    let sink = Arc::new(move |report: CommitReport| {
        let CommitReport::Group(group) = report else {
            return;
        };
        let mut waiting = answered.lock().unwrap_or_else(PoisonError::into_inner);
        for (token, outcome) in group.outcomes {
            let durable = matches!(outcome, AppendOutcome::Committed(_));
            waiting.remove(&token.0).map(|reply| reply.send(durable));
        }
    });
    let opened = cospan_storage::open(directory, &StoreOptions::new(EngineKind::Sled), sink)?;
    let next = AtomicU64::new(0);
    let floor = BaselineServerState {
        journal: opened.journal,
        epoch: opened.epoch,
        next,
        waiting,
    };
    let floor = web::Data::new(floor);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    actix_web::rt::System::new().block_on(async move {
        HttpServer::new(move || {
            let app = App::new().app_data(floor.clone());
            app.route("/", web::post().to(append_body))
                .route("/readyz", web::get().to(HttpResponse::Ok))
        })
        .disable_signals()
        .workers(2)
        .listen(listener)?
        .run()
        .await
    })?;
    Ok(())
}

async fn append_body(floor: web::Data<BaselineServerState>, body: web::Bytes) -> HttpResponse {
    let number = floor.next.fetch_add(1, Ordering::Relaxed);
    let (reply, answer) = oneshot::channel();
    floor
        .waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(number, reply);
    let key = StoreKey::from(format!("j/{number:016x}").as_str());
    let change = KeyChange {
        key,
        expected: None,
        value: Some(body.as_ref().into()),
    };
    floor.journal.append(
        floor.epoch,
        UnitToken(number),
        JournalUnit {
            changes: vec![change],
        },
    );
    match answer.await {
        Ok(true) => HttpResponse::Created().body("{}"),
        Ok(false) | Err(_) => HttpResponse::InternalServerError().finish(),
    }
}
