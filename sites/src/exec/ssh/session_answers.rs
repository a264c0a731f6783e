//! The parser of a session's answers.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::exec::CommandChannel;

/// The longest answer of any kind, in bytes.
const LONGEST: usize = 64 << 20;

/// The longest line about an answer, in bytes.
const LINE_MAX: u64 = 200;

/// An answer of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SshAnswer {
    pub(super) id: u64,
    /// `None` if the answer was too long to be sent.
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
}

/// The answers that come over one connection.
pub(super) struct SshAnswerReader<R> {
    from: BufReader<R>,
    lane: CommandChannel,
    nonce: String,
}

impl<R: AsyncRead + Unpin> SshAnswerReader<R> {
    pub(super) fn new(from: BufReader<R>, lane: CommandChannel, nonce: String) -> Self {
        Self { from, lane, nonce }
    }

    /// Reads the next answer; `None` at the end, and if it cannot be read.
    pub(super) async fn next_answer(&mut self) -> Option<SshAnswer> {
        match self.lane {
            CommandChannel::Control => self.read_counted_answer().await,
            CommandChannel::Bulk => self.read_delimited_answer().await,
        }
    }

    async fn read_counted_answer(&mut self) -> Option<SshAnswer> {
        let mut line = Vec::new();
        (&mut self.from)
            .take(LINE_MAX)
            .read_until(b'\n', &mut line)
            .await
            .ok()?;
        let line = std::str::from_utf8(&line).ok()?.strip_suffix('\n')?;
        let mut words = line.strip_prefix("answer ")?.split(' ');
        let id = words.next()?.parse().ok()?;
        let code = parse_exit_code(words.next()?)?;
        let length = words
            .next()?
            .parse()
            .ok()
            .filter(|length| *length <= LONGEST)?;
        let mut stdout = vec![0; length];
        self.from.read_exact(&mut stdout).await.ok()?;
        Some(SshAnswer { id, code, stdout })
    }

    async fn read_delimited_answer(&mut self) -> Option<SshAnswer> {
        let mark = format!("\n{} ", self.nonce).into_bytes();
        let mut all = Vec::new();
        loop {
            let read = self
                .from
                .fill_buf()
                .await
                .ok()
                .filter(|read| !read.is_empty())?;
            let length = read.len();
            all.extend_from_slice(read);
            self.from.consume(length);
            // There is one request at a time: its last line ends the answer.
            if all.ends_with(b"\n") {
                let tail = all.len().saturating_sub(mark.len() + 60);
                let found = all[tail..]
                    .windows(mark.len())
                    .rposition(|part| part == mark);
                if let Some(at) = found.map(|at| tail + at) {
                    let line = String::from_utf8(all.split_off(at + mark.len())).ok()?;
                    all.truncate(at);
                    let (id, last) = line.strip_suffix('\n')?.split_once(' ')?;
                    let id = id.parse().ok()?;
                    let code = parse_exit_code(last)?;
                    return Some(SshAnswer {
                        id,
                        code,
                        stdout: all,
                    });
                }
            }
            if all.len() > LONGEST {
                return None;
            }
        }
    }
}

/// Parses the exit code; `Some(None)` if the answer was too long to be sent.
#[allow(
    clippy::option_option,
    reason = "the outer one is about whether it could be read"
)]
fn parse_exit_code(word: &str) -> Option<Option<i32>> {
    if word == "long" {
        Some(None)
    } else {
        word.parse().ok().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all_answers(lane: CommandChannel, text: &[u8]) -> Vec<SshAnswer> {
        let mut answers =
            SshAnswerReader::new(BufReader::with_capacity(7, text), lane, "N".to_owned());
        let mut told = Vec::new();
        while let Some(next) = answers.next_answer().await {
            told.push(next);
        }
        told
    }

    fn make_answer(id: u64, code: Option<i32>, stdout: &[u8]) -> SshAnswer {
        SshAnswer {
            id,
            code,
            stdout: stdout.to_vec(),
        }
    }

    #[tokio::test]
    async fn answers_are_taken_by_their_length_whatever_is_in_them() {
        let text = b"answer 7 0 12\nanswer 8 0 0answer 9 137 0\nanswer 2 long 0\nnoise\n";
        let expected = [
            make_answer(7, Some(0), b"answer 8 0 0"),
            make_answer(9, Some(137), b""),
            make_answer(2, None, b""),
        ];
        assert_eq!(
            read_all_answers(CommandChannel::Control, text).await,
            expected
        );
        assert_eq!(
            read_all_answers(CommandChannel::Control, b"answer 1 0 9\nshort").await,
            []
        );
    }

    #[tokio::test]
    async fn contents_end_with_the_mark_and_may_hold_what_looks_like_it() {
        let text = b"a\0b\nN\n\nN 7 0\n";
        assert_eq!(
            read_all_answers(CommandChannel::Bulk, text).await,
            [make_answer(7, Some(0), b"a\0b\nN\n")]
        );
        assert_eq!(
            read_all_answers(CommandChannel::Bulk, b"cut off\n").await,
            []
        );
    }
}
