//! Lines of a log: decompression by magic bytes, line numbers, and cuts.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::{LogError, WorkloadLogSettings};

/// The longest line a log may have; longer ones would be held in memory whole.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// RFC 1952, section 2.3.1.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// The .xz file format, version 1.2.1, section 2.1.1.1.
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Enough for the largest dictionary `xz -9` uses (64 MiB), with room to spare.
const XZ_MEMORY_KIB_MAX: u32 = 128 * 1024;

/// Returns the plain bytes of `raw`, whichever of the three forms it has.
pub(super) fn decode_source<'a>(mut raw: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut start = Vec::with_capacity(XZ_MAGIC.len());
    raw.by_ref()
        .take(XZ_MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    let is_gzip = start.starts_with(GZIP_MAGIC);
    let is_xz = start.starts_with(XZ_MAGIC);
    let whole = BufReader::new(Cursor::new(start).chain(raw));
    Ok(if is_gzip {
        Box::new(BufReader::new(MultiGzDecoder::new(whole)))
    } else if is_xz {
        Box::new(BufReader::new(XzReader::new_mem_limit(
            whole,
            true,
            XZ_MEMORY_KIB_MAX,
        )))
    } else {
        Box::new(whole)
    })
}

/// Returns true if `error` means that the stream breaks off, not that it is damaged.
pub(super) fn is_cut_off_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// The next line, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextLogLine {
    /// A line; see [`LogLines::line_text`].
    Line {
        /// False for a last line without line end.
        ended: bool,
    },
    /// The compressed stream breaks off here; half a line is dropped.
    Cut,
    /// The end of the log.
    End,
}

/// The numbered lines of a log.
pub(super) struct LogLines<'a> {
    source: Box<dyn BufRead + 'a>,
    buffer: Vec<u8>,
    number: u64,
    last: Option<NextLogLine>,
    again: bool,
}

impl<'a> LogLines<'a> {
    pub(super) fn new(
        raw: impl Read + 'a,
        reading: &WorkloadLogSettings,
    ) -> Result<Self, LogError> {
        let source = decode_source(raw).map_err(|source| unreadable_error(reading, 0, source))?;
        Ok(Self {
            source,
            buffer: Vec::new(),
            number: 0,
            last: None,
            again: false,
        })
    }

    /// Goes to the next line. After a cut or the end, stays there.
    pub(super) fn next_line(
        &mut self,
        reading: &WorkloadLogSettings,
    ) -> Result<NextLogLine, LogError> {
        let found = match self.last {
            Some(found) if self.again => found,
            Some(end @ (NextLogLine::Cut | NextLogLine::End)) => end,
            Some(NextLogLine::Line { .. }) | None => self.read_line(reading)?,
        };
        self.again = false;
        self.last = Some(found);
        Ok(found)
    }

    /// Makes the next [`LogLines::next_line`] return the same result again.
    pub(super) fn step_back(&mut self) {
        self.again = true;
    }

    /// Returns the present line, without its end; bytes that are not UTF-8 are replaced.
    pub(super) fn line_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.buffer.trim_ascii())
    }

    /// Returns the present line's number, from 1.
    pub(super) fn line_number(&self) -> u64 {
        self.number
    }

    fn read_line(&mut self, reading: &WorkloadLogSettings) -> Result<NextLogLine, LogError> {
        self.buffer.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        match self
            .source
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.buffer)
        {
            Ok(0) => Ok(NextLogLine::End),
            Ok(bytes) => {
                self.number += 1;
                if bytes > LINE_BYTES_MAX {
                    let file = reading.file.clone();
                    return Err(LogError::LineTooLong {
                        file,
                        line: self.number,
                    });
                }
                Ok(NextLogLine::Line {
                    ended: self.buffer.ends_with(b"\n"),
                })
            }
            Err(error) if is_cut_off_error(&error) => {
                self.number += u64::from(!self.buffer.is_empty());
                Ok(NextLogLine::Cut)
            }
            Err(error) => Err(unreadable_error(reading, self.number, error)),
        }
    }
}

/// A source that knows whether it ended in the middle of a line; for readers that split it into
/// lines themselves.
pub(super) struct LineEndTracker<'a> {
    source: Box<dyn BufRead + 'a>,
    last_byte: u8,
    is_done: bool,
}

impl<'a> LineEndTracker<'a> {
    pub(super) fn new(source: Box<dyn BufRead + 'a>) -> Self {
        Self {
            source,
            last_byte: b'\n',
            is_done: false,
        }
    }

    /// Returns true once the end was reached and the last line has no line end.
    pub(super) fn is_done_without_line_end(&self) -> bool {
        self.is_done && self.last_byte != b'\n'
    }
}

impl Read for LineEndTracker<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        match buffer[..count].last() {
            Some(byte) => self.last_byte = *byte,
            None => self.is_done = true,
        }
        Ok(count)
    }
}

/// Makes the error for a source that fails after `line`.
pub(super) fn unreadable_error(
    reading: &WorkloadLogSettings,
    line: u64,
    source: io::Error,
) -> LogError {
    LogError::Unreadable {
        file: reading.file.clone(),
        line,
        source,
    }
}
