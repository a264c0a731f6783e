//! `cospan logs`: one stream unchanged, several with their names in front.

mod follow;
mod lines;

use crate::cli::args_job::{LogsArgs, StreamArg};
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::interrupt::set_interrupt_hint;
use crate::cli::print::{AnswerPrinter, print_note};
use cospan_api::v1::Size;
use cospan_api::v1::job::JobReport;
use cospan_api::v1::problem::Code;
use cospan_client::{Client, ClientError, FilePiece, LogRequest};
use cospan_printing::terminal;
use cospan_printing::terminal::table_cell;
use lines::StreamLines;

/// Number of bytes in one request.
const PIECE: u32 = 256 << 10;

pub(crate) fn run(context: &mut CommandContext, args: &LogsArgs) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let ids = context.resolve_ids(&client, &args.ids)?;
    let streams = match args.stream {
        Some(stream) => vec![stream],
        None => vec![StreamArg::Stdout, StreamArg::Stderr],
    };
    let wanted = LogSelection {
        client,
        jobs: ids.len(),
        streams,
        component: args.component.clone(),
        tail: args.tail,
    };
    if let [id] = ids.as_slice() {
        set_interrupt_hint(format!(
            "job {id} goes on; follow it again with: cospan logs {id} -f"
        ));
    }
    if args.follow {
        follow::print_following(&mut context.out, &wanted, &ids)?;
    } else {
        print_existing_logs(&mut context.out, &wanted, &ids)?;
    }
    if args.stream.is_none() {
        tell_failures(&wanted.client, &ids);
    }
    Ok(CliExitCode::Done)
}

/// Says why jobs failed: what they printed does not tell if it was not the program that failed.
fn tell_failures(client: &Client, ids: &[u64]) {
    for &id in ids {
        if let Ok(phase) = client.phase(id)
            && phase.state == "failed"
            && let Some(reason) = phase.reason
        {
            print_note(&table_cell(&format!("job {id} failed: {reason}")));
        }
    }
}

/// The selection of streams to print of each job.
struct LogSelection {
    client: Client,
    jobs: usize,
    streams: Vec<StreamArg>,
    component: Option<String>,
    tail: Option<Size>,
}

impl LogSelection {
    /// Lists the selected streams of a job.
    fn job_sources(&self, id: u64) -> Result<Vec<StreamSource>, CliError> {
        let job = self.client.job(id)?;
        let names = component_names(&job, self.component.as_deref())?;
        let width = names.iter().map(String::len).max().unwrap_or(0);
        let mut sources = Vec::new();
        for name in &names {
            for stream in &self.streams {
                let shown = (names.len() > 1).then(|| format!("{name:width$}"));
                sources.push(StreamSource {
                    client: self.client.clone(),
                    job: id,
                    component: name.clone(),
                    stream: *stream,
                    tail: self.tail,
                    label: self.stream_label(id, shown, *stream),
                    apart: self.streams.len() > 1 && *stream == StreamArg::Stderr,
                });
            }
        }
        Ok(sources)
    }

    /// Returns a label that tells a stream from the others; `None` if there are no others.
    fn stream_label(&self, id: u64, name: Option<String>, stream: StreamArg) -> Option<String> {
        let job = (self.jobs > 1).then(|| id.to_string());
        let apart = self.streams.len() > 1 && stream == StreamArg::Stderr;
        let stream = apart.then(|| stream.as_str().to_owned());
        let parts: Vec<String> = [job, name, stream].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

fn component_names(job: &JobReport, wanted: Option<&str>) -> Result<Vec<String>, CliError> {
    let known: Vec<String> = job
        .components
        .iter()
        .map(|component| component.name.clone())
        .collect();
    let Some(wanted) = wanted else {
        return Ok(known);
    };
    if known.iter().any(|name| name == wanted) {
        return Ok(vec![wanted.to_owned()]);
    }
    let remedy = match cospan_server::config::nearest_name(wanted, known.iter().map(String::as_str))
    {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("its components are: {}", known.join(", ")),
    };
    Err(CliError::usage_error(
        format!("job {} has no component {wanted:?}", job.id),
        remedy,
    ))
}

/// A stream of a component.
#[derive(Clone)]
struct StreamSource {
    client: Client,
    job: u64,
    component: String,
    stream: StreamArg,
    tail: Option<Size>,
    label: Option<String>,
    /// True if the stream goes to standard error, as the payload printed it; standard output has
    /// the other stream.
    apart: bool,
}

impl StreamSource {
    fn log_request(&self, attempt: Option<u32>, offset: u64, limit: u32) -> LogRequest<'_> {
        let job = self.job;
        let stream = self.stream.as_str();
        LogRequest {
            job,
            component: &self.component,
            stream,
            attempt,
            offset,
            limit,
        }
    }

    /// Returns where to begin in the log with its present size.
    fn first_offset(&self, attempt: Option<u32>) -> Result<u64, ClientError> {
        match self.tail {
            None => Ok(0),
            Some(Size(tail)) => {
                let piece = self.client.read_log(&self.log_request(attempt, 0, 1))?;
                Ok(piece.size.saturating_sub(tail.0))
            }
        }
    }

    /// Passes on everything that is there now.
    fn read_existing(
        &self,
        tell: impl FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let offset = self.first_offset(None)?;
        read_to_present_end(
            offset,
            |offset, limit| self.client.read_log(&self.log_request(None, offset, limit)),
            tell,
        )
    }
}

/// Prints to standard output or standard error, as the stream requires.
fn print_stream_bytes(
    out: &mut AnswerPrinter,
    source: &StreamSource,
    bytes: &[u8],
) -> Result<(), CliError> {
    if bytes.is_empty() {
        return Ok(());
    }
    if source.apart {
        terminal::print_error_bytes(bytes)
    } else {
        out.print_bytes(bytes)
    }?;
    Ok(())
}

/// Prints everything that is there now, one stream after the other.
fn print_existing_logs(
    out: &mut AnswerPrinter,
    wanted: &LogSelection,
    ids: &[u64],
) -> Result<(), CliError> {
    let mut silent = 0;
    let mut problem = None;
    for &id in ids {
        let mut printed = false;
        for component in wanted.job_sources(id)?.chunks(wanted.streams.len()) {
            match print_component(out, component)? {
                None => printed = true,
                Some(error) => problem = problem.or(Some((id, error))),
            }
        }
        silent += usize::from(!printed);
    }
    let Some((id, error)) = problem else {
        return Ok(());
    };
    // A sweep whose last runs have not begun is no failure of this command.
    let some = ids.len() > 1 && silent < ids.len();
    if !some || error.exit == CliExitCode::Unreachable {
        return Err(error);
    }
    print_note(&format!(
        "{silent} of {} jobs have no log, the first: job {id}: {error}",
        ids.len()
    ));
    Ok(())
}

/// Prints the streams of a component. Returns the reason if a stream is missing or incomplete.
fn print_component(
    out: &mut AnswerPrinter,
    streams: &[StreamSource],
) -> Result<Option<CliError>, CliError> {
    let mut errors = Vec::new();
    for source in streams {
        match print_stream(out, source) {
            Ok(()) => {}
            Err(error) if error.quiet => return Err(error),
            Err(error) => errors.push(error),
        }
    }
    // A component that has one stream need not have the other.
    let is_whole = errors.len() < streams.len();
    errors.retain(|error| !is_whole || error.exit != CliExitCode::Refused);
    Ok(errors.into_iter().next())
}

fn print_stream(out: &mut AnswerPrinter, source: &StreamSource) -> Result<(), CliError> {
    let mut lines = StreamLines::of(source.label.as_deref());
    let mut last = b'\n';
    source.read_existing(|bytes| {
        last = bytes.last().copied().unwrap_or(last);
        print_stream_bytes(out, source, &lines.take_printable(bytes))
    })?;
    print_stream_bytes(out, source, &lines.take_rest())?;
    // On a terminal the next text begins on a new line; a file stays as it is.
    if source.label.is_none() && last != b'\n' && terminal::has_live_output() {
        out.print_bytes(b"\n")?;
    }
    Ok(())
}

/// Returns true if a stream is missing: the component never began, or left nothing.
fn is_missing(error: &ClientError) -> bool {
    error.has_problem_code(Code::NotFound)
}

/// Reads up to the end of the log at the first look: a log that grows faster than it is read would
/// never end.
fn read_to_present_end(
    mut offset: u64,
    ask: impl Fn(u64, u32) -> Result<FilePiece, ClientError>,
    mut tell: impl FnMut(&[u8]) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut end = None;
    loop {
        let left = end.map_or(u64::MAX, |end: u64| end.saturating_sub(offset));
        let limit = u32::try_from(left).unwrap_or(PIECE).min(PIECE);
        if limit == 0 {
            return Ok(());
        }
        let piece = ask(offset, limit)?;
        if piece.bytes.is_empty() {
            return Ok(());
        }
        end.get_or_insert(piece.size);
        offset += piece.bytes.len() as u64;
        tell(&piece.bytes)?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_log_that_outgrows_its_reader_ends_where_it_ended_at_the_first_look() {
        let size = Cell::new(3 * u64::from(PIECE) + 7);
        let mut read = 0;
        read_to_present_end(
            0,
            |offset: u64, limit: u32| {
                let now = size.get();
                size.set(now + 2 * u64::from(PIECE));
                let most = (now - offset).min(limit.into());
                Ok(FilePiece {
                    bytes: vec![b'x'; most as usize],
                    size: now,
                })
            },
            |bytes: &[u8]| {
                read += bytes.len();
                assert!(read <= 64 << 20, "it does not end");
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(read as u64, 3 * u64::from(PIECE) + 7);
    }
}
