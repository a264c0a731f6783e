//! Follows several streams side by side.

use std::io::Read;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::lines::StreamLines;
use super::{LogSelection, StreamSource, is_missing, print_stream_bytes};
use crate::cli::exit::CliError;
use crate::cli::print::{AnswerPrinter, print_note};
use cospan_client::ClientError;

/// Time between two looks at a component that has not begun.
const REST: Duration = Duration::from_secs(1);
/// Longest absence of the server while we follow.
const AWAY: Duration = Duration::from_secs(120);
/// Most pieces that wait to be printed; a slow terminal slows the download down.
const WAITING: usize = 8;
/// Most streams that are followed at the same time: a server keeps only so many open for one key.
const AT_ONCE: usize = 32;

/// A piece of one stream, or the reason why it ended.
enum StreamPart {
    Bytes(usize, Vec<u8>),
    Ended(usize, Result<(), CliError>),
}

/// Prints everything that is there and everything that comes, until the jobs have ended.
pub(super) fn print_following(
    out: &mut AnswerPrinter,
    wanted: &LogSelection,
    ids: &[u64],
) -> Result<(), CliError> {
    let sources = all_sources(wanted, ids)?;
    let (to, from) = sync_channel(WAITING);
    for (index, source) in sources.iter().enumerate() {
        let reader = StreamReader {
            source: source.clone(),
            index,
            to: to.clone(),
        };
        std::thread::spawn(move || reader.run_reader());
    }
    drop(to);
    let mut lines: Vec<StreamLines> = sources
        .iter()
        .map(|source| StreamLines::of(source.label.as_deref()))
        .collect();
    let mut problem = None;
    for told in from {
        match told {
            StreamPart::Bytes(index, bytes) => {
                print_stream_bytes(out, &sources[index], &lines[index].take_printable(&bytes))?
            }
            StreamPart::Ended(index, result) => {
                print_stream_bytes(out, &sources[index], &lines[index].take_rest())?;
                problem = problem.or(result.err());
            }
        }
    }
    problem.map_or(Ok(()), Err)
}

fn all_sources(wanted: &LogSelection, ids: &[u64]) -> Result<Vec<StreamSource>, CliError> {
    let mut sources = Vec::new();
    for &id in ids {
        sources.extend(wanted.job_sources(id)?);
        if sources.len() > AT_ONCE {
            return Err(CliError::usage_error(
                format!("more than {AT_ONCE} streams cannot be followed at once"),
                "name fewer jobs, --component NAME or --stream stdout; or leave --follow out",
            ));
        }
    }
    Ok(sources)
}

/// A reader of one stream.
struct StreamReader {
    source: StreamSource,
    index: usize,
    to: SyncSender<StreamPart>,
}

/// The printing side is gone: the user has seen enough.
struct PrinterGone;

impl StreamReader {
    fn run_reader(self) {
        if let Ok(result) = self.follow_attempts() {
            // If nobody receives any more, nobody misses the message.
            let _ = self.to.send(StreamPart::Ended(
                self.index,
                result.map_err(CliError::from),
            ));
        }
    }

    fn forward_bytes(&self, bytes: &[u8]) -> Result<(), PrinterGone> {
        self.to
            .send(StreamPart::Bytes(self.index, bytes.to_vec()))
            .map_err(|_| PrinterGone)
    }

    /// Reads everything that is there and comes, of one attempt after the other, until the job has
    /// ended.
    fn follow_attempts(&self) -> Result<Result<(), ClientError>, PrinterGone> {
        let mut attempt = 0;
        let mut offset = 0;
        let mut reached = Instant::now();
        let name = &self.source.component;
        loop {
            // Asked before reading, so that the output of a job that ends meanwhile is read to its
            // end.
            let step = match self.find_latest_attempt() {
                Ok((latest, ended)) => {
                    if latest != attempt {
                        offset = self.source.first_offset(Some(latest)).unwrap_or(0);
                        if attempt != 0 && !self.source.apart {
                            print_note(&format!("{name}: attempt {latest} begins"));
                        }
                        attempt = latest;
                    }
                    self.follow_attempt(attempt, &mut offset)?.map(|()| ended)
                }
                Err(error) => Err(error),
            };
            match step {
                Ok(true) => return Ok(Ok(())),
                Ok(false) => reached = Instant::now(),
                Err(error) if error.is_temporary() && reached.elapsed() < AWAY => {
                    print_note(&format!("{name}: {error}; still following"));
                }
                Err(error) => return Ok(Err(error)),
            }
            std::thread::sleep(REST);
        }
    }

    /// Returns the latest attempt, and true if the job has ended.
    fn find_latest_attempt(&self) -> Result<(u32, bool), ClientError> {
        let job = self.source.client.job(self.source.job)?;
        let component = job
            .components
            .iter()
            .find(|component| component.name == self.source.component);
        Ok((
            component.map_or(0, |component| component.attempt),
            job.phase.is_final(),
        ))
    }

    fn follow_attempt(
        &self,
        attempt: u32,
        offset: &mut u64,
    ) -> Result<Result<(), ClientError>, PrinterGone> {
        if attempt == 0 {
            return Ok(Ok(()));
        }
        let client = &self.source.client;
        let request = self.source.log_request(Some(attempt), *offset, 0);
        let mut download = match client.follow_log(&request) {
            Ok(download) => download,
            // The attempt never ran, so it printed nothing.
            Err(error) if is_missing(&error) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        let mut piece = vec![0; 64 << 10];
        loop {
            match download.bytes.read(&mut piece) {
                Ok(0) => return Ok(Ok(())),
                Ok(n) => {
                    *offset += n as u64;
                    self.forward_bytes(&piece[..n])?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(client.broken_connection_error(&error))),
            }
        }
    }
}
