//! `cospan logs`: one component as it is, several with their names in front.

use std::io::Read;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::api::v1::Size;
use crate::api::v1::job::JobReport;
use crate::api::v1::problem::Code;
use crate::cli::args_job::{LogsArgs, StreamArg};
use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::interrupt::set_hint;
use crate::cli::out::{Out, dim, note};
use crate::client::{Client, ClientError, FilePiece, LogRequest};

/// Bytes asked for at once.
const PIECE: u32 = 256 << 10;
/// Between two looks at a component that has not begun.
const REST: Duration = Duration::from_secs(1);
/// How long a server may be away while we follow.
const AWAY: Duration = Duration::from_secs(120);
/// Pieces that wait to be printed; a slow terminal slows the download down.
const WAITING: usize = 8;
/// Of a line that does not end, more than this is not waited for.
const LONGEST_LINE: usize = 64 << 10;

/// Prints what a job printed.
pub(crate) fn run(context: &mut Context, args: &LogsArgs) -> Result<Exit, CliError> {
    let client = context.client()?;
    let id = context.resolve_one(&client, &args.id)?;
    let job = client.job(id)?;
    let names = component_names(&job, args)?;
    let stream = match args.stream {
        StreamArg::Stdout => "stdout",
        StreamArg::Stderr => "stderr",
    };
    set_hint(format!("job {id} goes on; follow it again with: cospan logs {id} -f"));
    let source = Source { client, job: id, stream, tail: args.tail, follow: args.follow };
    print_all(&mut context.out, &source, &names)?;
    Ok(Exit::Done)
}

fn component_names(job: &JobReport, args: &LogsArgs) -> Result<Vec<String>, CliError> {
    let all = || job.components.iter().map(|component| component.name.clone());
    let Some(wanted) = &args.component else { return Ok(all().collect()) };
    let known: Vec<String> = all().collect();
    if known.contains(wanted) {
        return Ok(vec![wanted.clone()]);
    }
    let remedy = match crate::config::nearest(wanted, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("its components are: {}", known.join(", ")),
    };
    Err(CliError::usage(format!("job {} has no component {wanted:?}", job.id), remedy))
}

/// What is read.
#[derive(Clone)]
struct Source {
    client: Client,
    job: u64,
    stream: &'static str,
    tail: Option<Size>,
    follow: bool,
}

/// A piece of one component's log, or why there is no more.
enum Told {
    Bytes(usize, Vec<u8>),
    Ended(usize, Result<(), CliError>),
}

fn print_all(out: &mut Out, source: &Source, names: &[String]) -> Result<(), CliError> {
    let (to, from) = sync_channel(WAITING);
    // Following goes side by side, else one after the other; so order stays readable.
    for (index, name) in names.iter().enumerate() {
        let reader = Reader { source: source.clone(), name: name.clone(), index, to: to.clone() };
        if source.follow {
            std::thread::spawn(move || reader.run());
        }
    }
    if !source.follow {
        let (source, names, to) = (source.clone(), names.to_vec(), to.clone());
        std::thread::spawn(move || {
            for (index, name) in names.into_iter().enumerate() {
                Reader { source: source.clone(), name, index, to: to.clone() }.run();
            }
        });
    }
    drop(to);
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let mut lines: Vec<Lines> = names.iter().map(|name| Lines::of(name, width)).collect();
    let mut problem = None;
    for told in from {
        match told {
            Told::Bytes(_, bytes) if names.len() == 1 => out.bytes(&bytes)?,
            Told::Bytes(index, bytes) => out.bytes(&lines[index].take(&bytes))?,
            Told::Ended(index, result) => {
                out.bytes(&lines[index].end())?;
                problem = problem.or(result.err());
            }
        }
    }
    problem.map_or(Ok(()), Err)
}

/// The lines of one of several components, on their way to be printed.
struct Lines<'n> {
    name: &'n str,
    width: usize,
    unfinished: Vec<u8>,
}

impl<'n> Lines<'n> {
    fn of(name: &'n str, width: usize) -> Self {
        Self { name, width, unfinished: Vec::new() }
    }

    /// What can be printed now that this has come.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.unfinished.extend_from_slice(bytes);
        let newline = self.unfinished.iter().rposition(|byte| *byte == b'\n');
        let mut ready = newline.map_or(0, |at| at + 1);
        if self.unfinished.len() - ready > LONGEST_LINE {
            ready = self.unfinished.len();
        }
        let rest = self.unfinished.split_off(ready);
        let ready = std::mem::replace(&mut self.unfinished, rest);
        labelled(self.name, self.width, &ready)
    }

    /// What is left when no more comes.
    fn end(&mut self) -> Vec<u8> {
        labelled(self.name, self.width, &std::mem::take(&mut self.unfinished))
    }
}

fn labelled(name: &str, width: usize, lines: &[u8]) -> Vec<u8> {
    let label = dim(&format!("{name:width$} | "));
    let mut text = Vec::with_capacity(lines.len() * 2);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(label.as_bytes());
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
    text
}

/// Reads the log of one component.
struct Reader {
    source: Source,
    name: String,
    index: usize,
    to: SyncSender<Told>,
}

/// The printing side is gone: the user has seen enough.
struct Gone;

impl Reader {
    fn run(self) {
        let result = if self.source.follow { self.follow() } else { self.read() };
        if let Ok(result) = result {
            // If nobody listens any more, nobody misses it.
            let _ = self.to.send(Told::Ended(self.index, result.map_err(CliError::from)));
        }
    }

    fn tell(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.to.send(Told::Bytes(self.index, bytes.to_vec())).map_err(|_| Gone)
    }

    fn request(&self, attempt: Option<u32>, offset: u64, limit: u32) -> LogRequest<'_> {
        let Source { job, stream, .. } = self.source;
        LogRequest { job, component: &self.name, stream, attempt, offset, limit }
    }

    /// Where to begin in a log of this size now.
    fn beginning(&self, attempt: Option<u32>) -> Result<u64, ClientError> {
        match self.source.tail {
            None => Ok(0),
            Some(Size(tail)) => {
                let piece = self.source.client.log(&self.request(attempt, 0, 1))?;
                Ok(piece.size.saturating_sub(tail.0))
            }
        }
    }

    /// All there is now.
    fn read(&self) -> Result<Result<(), ClientError>, Gone> {
        let offset = match self.beginning(None) {
            Ok(offset) => offset,
            Err(error) => return Ok(Err(error)),
        };
        let ask = |offset, limit| self.source.client.log(&self.request(None, offset, limit));
        read_what_is_there(offset, ask, |bytes| self.tell(bytes))
    }

    /// All there is and comes, of one attempt after the other, until the job has ended.
    fn follow(&self) -> Result<Result<(), ClientError>, Gone> {
        let mut attempt = 0;
        let mut offset = 0;
        let mut reached = Instant::now();
        loop {
            // Asked before reading, so that a job that ends meanwhile is read to its end.
            let step = match self.latest() {
                Ok((latest, ended)) => {
                    if latest != attempt {
                        offset = self.beginning(Some(latest)).unwrap_or(0);
                        if attempt != 0 {
                            note(&format!("{}: attempt {latest} begins", self.name));
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
                Err(error) if error.is_passing() && reached.elapsed() < AWAY => {
                    note(&format!("{}: {error}; still following", self.name));
                }
                Err(error) => return Ok(Err(error)),
            }
            std::thread::sleep(REST);
        }
    }

    /// The latest attempt, and whether the job has ended.
    fn latest(&self) -> Result<(u32, bool), ClientError> {
        let job = self.source.client.job(self.source.job)?;
        let component = job.components.iter().find(|component| component.name == self.name);
        Ok((component.map_or(0, |component| component.attempt), job.phase.is_final()))
    }

    fn follow_attempt(
        &self,
        attempt: u32,
        offset: &mut u64,
    ) -> Result<Result<(), ClientError>, Gone> {
        if attempt == 0 {
            return Ok(Ok(()));
        }
        let client = &self.source.client;
        let mut download = match client.follow_log(&self.request(Some(attempt), *offset, 0)) {
            Ok(download) => download,
            // It never ran, so it printed nothing.
            Err(error) if error.is(Code::NotFound) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        let mut piece = vec![0; 64 << 10];
        loop {
            match download.bytes.read(&mut piece) {
                Ok(0) => return Ok(Ok(())),
                Ok(n) => {
                    *offset += n as u64;
                    self.tell(&piece[..n])?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(client.broken(&error))),
            }
        }
    }
}

/// Reads up to where the log ended at the first look: what is printed faster than it is read
/// would never end.
fn read_what_is_there(
    mut offset: u64,
    ask: impl Fn(u64, u32) -> Result<FilePiece, ClientError>,
    tell: impl Fn(&[u8]) -> Result<(), Gone>,
) -> Result<Result<(), ClientError>, Gone> {
    let mut end = None;
    loop {
        let left = end.map_or(u64::MAX, |end: u64| end.saturating_sub(offset));
        let limit = u32::try_from(left).unwrap_or(PIECE).min(PIECE);
        if limit == 0 {
            return Ok(Ok(()));
        }
        match ask(offset, limit) {
            Ok(piece) if piece.bytes.is_empty() => return Ok(Ok(())),
            Ok(piece) => {
                end.get_or_insert(piece.size);
                offset += piece.bytes.len() as u64;
                tell(&piece.bytes)?;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn a_line_without_end_is_printed_in_parts_and_never_kept_whole() {
        let mut lines = Lines::of("a", 1);
        let (mut printed, mut most) = (0, 0);
        for _ in 0..100 {
            printed += lines.take(&[b'x'; 40 << 10]).iter().filter(|byte| **byte == b'x').count();
            most = most.max(lines.unfinished.len());
        }
        assert!(most <= LONGEST_LINE, "{most} bytes were kept");
        printed += lines.end().iter().filter(|byte| **byte == b'x').count();
        assert_eq!(printed, 100 * (40 << 10), "and nothing is lost");
    }

    #[test]
    fn parts_of_a_line_wait_for_its_end() {
        let mut lines = Lines::of("a", 1);
        assert_eq!(lines.take(b"one, "), b"");
        let whole = anstream::adapter::strip_bytes(&lines.take(b"two\nthr")).into_vec();
        assert_eq!(whole, b"a | one, two\n");
        let rest = anstream::adapter::strip_bytes(&lines.end()).into_vec();
        assert_eq!(rest, b"a | thr\n");
    }

    #[test]
    fn a_log_that_outgrows_its_reader_ends_where_it_ended_at_the_first_look() {
        let (size, read) = (Cell::new(3 * u64::from(PIECE) + 7), RefCell::new(Vec::new()));
        let ask = |offset: u64, limit: u32| {
            let now = size.get();
            size.set(now + 2 * u64::from(PIECE));
            let most = (now - offset).min(limit.into());
            Ok(FilePiece { bytes: vec![b'x'; most as usize], size: now })
        };
        let tell = |bytes: &[u8]| {
            read.borrow_mut().extend_from_slice(bytes);
            // Nobody reads so much.
            if read.borrow().len() > 64 << 20 { Err(Gone) } else { Ok(()) }
        };
        assert!(matches!(read_what_is_there(0, ask, tell), Ok(Ok(()))));
        assert_eq!(read.borrow().len() as u64, 3 * u64::from(PIECE) + 7);
    }

    #[test]
    fn every_line_of_several_components_says_whose_it_is() {
        let text = labelled("ab", 4, b"one\ntwo");
        let plain = anstream::adapter::strip_bytes(&text).into_vec();
        assert_eq!(String::from_utf8(plain).unwrap(), "ab   | one\nab   | two\n");
        assert_eq!(labelled("ab", 4, b""), b"");
    }
}
