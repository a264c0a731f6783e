//! Indices as batch systems write them for arrays: `0-99`, `1,3,5-8`, `0-100:10`, `0-99%4`.

use std::fmt;
use std::str::FromStr;

use crate::runner::RunnerError;

/// Indices, with a limit of how many may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepIndices {
    text: String,
    spans: Vec<IndexSpan>,
    at_once: Option<u32>,
}

/// `first`, then every `step`th, up to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexSpan {
    first: u64,
    last: u64,
    step: u64,
}

impl IndexSpan {
    fn index_count(self) -> u64 {
        (self.last - self.first) / self.step + 1
    }

    fn each_index(self) -> impl Iterator<Item = u64> {
        (0..self.index_count()).map(move |index| self.first + index * self.step)
    }
}

impl SweepIndices {
    /// The number of indices.
    pub fn count(&self) -> u64 {
        self.spans
            .iter()
            .map(|span| span.index_count())
            .fold(0, u64::saturating_add)
    }

    /// Returns the smallest and the largest.
    pub fn bounds(&self) -> (u64, u64) {
        let first = self.spans.iter().map(|span| span.first).min();
        let last = self
            .spans
            .iter()
            .map(|span| span.first + (span.index_count() - 1) * span.step)
            .max();
        (first.unwrap_or_default(), last.unwrap_or_default())
    }

    /// The step of a single range; 1 for anything else.
    pub fn step(&self) -> u64 {
        match self.spans[..] {
            [span] => span.step,
            _ => 1,
        }
    }

    /// The limit given with them.
    pub fn run_limit(&self) -> Option<u32> {
        self.at_once
    }

    /// Lists each, in the order given.
    pub fn list_indices(&self) -> impl Iterator<Item = u64> + '_ {
        self.spans.iter().flat_map(|span| span.each_index())
    }
}

impl fmt::Display for SweepIndices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for SweepIndices {
    type Err = RunnerError;

    fn from_str(text: &str) -> Result<Self, RunnerError> {
        let wrong = |problem| RunnerError::Indices {
            text: text.to_owned(),
            problem,
        };
        let (list, at_once) = match text.split_once('%') {
            None => (text, None),
            Some((list, limit)) => (list, Some(parse_number(limit).map_err(wrong)?)),
        };
        let at_once = match at_once {
            Some(0) => return Err(RunnerError::ZeroLimit),
            Some(limit) => Some(u32::try_from(limit).map_err(|_| wrong("the limit is too large"))?),
            None => None,
        };
        let spans: Result<Vec<IndexSpan>, &'static str> = list.split(',').map(parse_span).collect();
        Ok(Self {
            text: text.to_owned(),
            spans: spans.map_err(wrong)?,
            at_once,
        })
    }
}

fn parse_span(text: &str) -> Result<IndexSpan, &'static str> {
    let (range, step) = match text.split_once(':') {
        None => (text, 1),
        Some((range, step)) => (range, parse_number(step)?),
    };
    let (first, last) = match range.split_once('-') {
        None => (parse_number(range)?, parse_number(range)?),
        Some((first, last)) => (parse_number(first)?, parse_number(last)?),
    };
    if step == 0 {
        return Err("a step of 0 leads nowhere");
    }
    if last < first {
        return Err("a range goes backwards");
    }
    Ok(IndexSpan { first, last, step })
}

/// All indices are below this, so that no sum of them overflows.
const MOST: u64 = 1 << 53;

fn parse_number(text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a number is missing");
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("there is something that is no number");
    }
    text.parse()
        .ok()
        .filter(|number| *number < MOST)
        .ok_or("a number is too large")
}
