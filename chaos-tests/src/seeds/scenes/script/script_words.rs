//! The words of one line of a script.

use std::fmt::Display;
use std::str::{FromStr, SplitWhitespace};

use anyhow::{Context, Result, ensure};
use cospan_domain::ids::JobId;
use cospan_domain::units::DurationMs;

/// The words of a line that are still to be read.
#[derive(Clone)]
pub(super) struct ScriptWords<'a>(SplitWhitespace<'a>);

impl<'a> ScriptWords<'a> {
    pub(super) fn of_line(line: &'a str) -> Self {
        Self(line.split_whitespace())
    }

    /// Reads these words if they come next.
    pub(super) fn take(&mut self, phrase: &str) -> bool {
        let mut ahead = self.clone();
        let same = phrase.split(' ').all(|word| ahead.next() == Some(word));
        if same {
            *self = ahead;
        }
        same
    }

    /// Reads the next word, without its comma.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.0.next().map(|word| word.trim_end_matches(','))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clone().next().is_none()
    }

    /// Reads the next word as a value.
    pub(super) fn read<T: FromStr<Err: Display>>(&mut self) -> Result<T> {
        let word = self.next().context("something is missing at the end")?;
        word.parse::<T>()
            .map_err(|problem| anyhow::anyhow!("{word}: {problem}"))
    }

    /// Reads a time, such as `20ms` or `4h`.
    pub(super) fn read_time(&mut self) -> Result<DurationMs> {
        let word = self.next().context("a time is missing at the end")?;
        let time = humantime::parse_duration(word).with_context(|| word.to_owned())?;
        Ok(DurationMs(u64::try_from(time.as_millis())?))
    }

    /// Reads a number of bytes, such as `30MB` or `500kB`.
    pub(super) fn read_bytes(&mut self) -> Result<u64> {
        let word = self.next().context("a size is missing at the end")?;
        let (number, factor) = match (word.strip_suffix("MB"), word.strip_suffix("kB")) {
            (Some(number), _) => (number, 1_000_000),
            (_, Some(number)) => (number, 1_000),
            _ => (word, 1),
        };
        let number: u64 = number.parse().with_context(|| word.to_owned())?;
        Ok(number * factor)
    }

    /// Reads values for as long as the words are such.
    pub(super) fn read_list<T: FromStr>(&mut self) -> Vec<T> {
        let mut values = Vec::new();
        while let Some(value) = self.clone().next().and_then(|word| word.parse::<T>().ok()) {
            values.push(value);
            self.next();
        }
        values
    }

    /// Reads numbers of jobs for as long as there are any.
    pub(super) fn read_jobs(&mut self) -> Vec<JobId> {
        self.read_list::<u64>().into_iter().map(JobId).collect()
    }

    /// Reads all that is left.
    pub(super) fn rest(self) -> String {
        self.0.collect::<Vec<_>>().join(" ")
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Result<()> {
        ensure!(self.is_empty(), "what is {:?}?", self.clone().rest());
        Ok(())
    }
}
