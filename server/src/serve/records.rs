//! Reads from the store itself: all of it at start, and later what is not kept in memory.

use std::io::Write;
use std::sync::Arc;

use actix_web::web::Bytes;
use cospan_actors::api::{ApiRefusal, CommittedView};
use cospan_actors::journal::view_of_records;
use cospan_domain::ids::{Epoch, InstanceId, JobId};
use cospan_domain::job::job_state::Job;
use cospan_domain::units;
use cospan_storage::export::export_journal;
use cospan_storage::port::{CommitReportSink, Journal, StoreError, StoreKey};
use cospan_storage::record::{RecordLoader, events, job};
use cospan_storage::{OpenedStore, StorePlace};
use tokio::sync::mpsc;
use tracing::info;

use super::read_only::JobMemoryExcess;
use crate::http::control_plane_port::{JobHistory, PieceStream};

/// The result of reading a store.
pub(super) enum FoundRecords {
    /// All that is live, and keys of the rest.
    All(OpenedStore, Box<CommittedView>, Vec<StoreKey>),
    /// The jobs would take more memory than allowed.
    TooLarge(OpenedStore, JobMemoryExcess),
}

/// Opens the store and reads everything that is live, if its jobs take at most this much memory.
pub(super) fn open_store(
    place: &dyn StorePlace,
    sink: CommitReportSink,
    most: units::Bytes,
) -> Result<FoundRecords, StoreError> {
    let mut loader = RecordLoader::with_threads(decoder_threads(), most);
    let mut damage = None;
    let opened = place.open_and_load(sink, &mut |stored| {
        if damage.is_none() {
            damage = loader.take_stored_value(stored).err();
        }
    })?;
    damage.map_or(Ok(()), Err)?;
    let mut loaded = match loader.finish() {
        Err(StoreError::TooLarge { jobs, needed, most }) => {
            return Ok(FoundRecords::TooLarge(
                opened,
                JobMemoryExcess { jobs, needed, most },
            ));
        }
        loaded => loaded?,
    };
    let remains = std::mem::take(&mut loaded.remains);
    info!(
        jobs = loaded.jobs.len(),
        epoch = opened.epoch.0,
        "store opened"
    );
    Ok(FoundRecords::All(
        opened,
        Box::new(view_of_records(loaded)),
        remains,
    ))
}

/// Threads that decode while one reads: one per processor, but no more than keep up with the
/// reader.
fn decoder_threads() -> usize {
    const MAX: usize = 4;
    std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX))
}

fn read_refusal(error: StoreError) -> ApiRefusal {
    ApiRefusal::Conflict(error.to_string())
}

/// Reads a job from the archive.
pub(super) fn find_archived(
    store: &dyn Journal,
    id: JobId,
) -> Result<Option<Arc<Job>>, ApiRefusal> {
    let found = job::read_archived(store, id).map_err(read_refusal)?;
    Ok(found.map(|archived| Arc::new(archived.job)))
}

/// Reads a job that is not archived.
pub(super) fn find_live(store: &dyn Journal, id: JobId) -> Result<Option<Arc<Job>>, ApiRefusal> {
    Ok(job::read_job(store, id)
        .map_err(read_refusal)?
        .map(Arc::new))
}

/// Reads the store apart from the threads that serve requests: it may be slow, and a job large.
pub(super) async fn read_on_thread<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ApiRefusal> + Send + 'static,
) -> Result<T, ApiRefusal> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(ApiRefusal::Conflict(format!("the store: {error}"))))
}

/// Reads a job's history, as far as it is kept, if there is such a job; `is_live`: it is not
/// archived.
pub(super) fn read_history(
    store: &dyn Journal,
    id: JobId,
    is_live: bool,
) -> Result<Option<JobHistory>, ApiRefusal> {
    if !is_live {
        let found = job::read_archived(store, id).map_err(read_refusal)?;
        return Ok(found.map(|archived| JobHistory {
            events: archived.events,
            shortened: false,
        }));
    }
    let units = events::read_history(store, id).map_err(read_refusal)?;
    let shortened = units.first().is_some_and(|(revision, _)| *revision > 2);
    let events = units.into_iter().flat_map(|(_, events)| events).collect();
    Ok(Some(JobHistory { events, shortened }))
}

/// Exports the whole store, in the format of `store import`: a snapshot, while its writer
/// continues.
pub(super) fn export_pieces(
    store: Arc<dyn Journal>,
    instance: InstanceId,
    epoch: Epoch,
) -> PieceStream {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    actix_web::rt::task::spawn_blocking(move || {
        let mut writer = PieceWriter {
            sender,
            piece: Vec::with_capacity(PIECE_BYTES),
        };
        let exported = export_journal(&*store, instance, epoch, &mut writer)
            .map_err(|error| error.to_string())
            .and_then(|_| writer.flush().map_err(|error| error.to_string()));
        if let Err(problem) = exported {
            // The receiver is gone, or gets the reason why the export broke off.
            let _ = writer.sender.blocking_send(Err(problem));
        }
    });
    Box::pin(futures_util::stream::unfold(
        receiver,
        |mut receiver| async move { receiver.recv().await.map(|piece| (piece, receiver)) },
    ))
}

const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 16;

/// Passes bytes on in pieces, no faster than they are taken.
struct PieceWriter {
    sender: mpsc::Sender<Result<Bytes, String>>,
    piece: Vec<u8>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.sender
            .blocking_send(Ok(piece))
            .map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }
}
