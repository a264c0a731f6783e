//! Long texts that jobs of one request share: each is kept once, in a record of its own, for as
//! long as the store. Otherwise the runs of a sweep would repeat everything that their user wrote
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::JobSpec;

use super::frame::{self, PartialRecord, damaged_record_error};
use super::job::visit_values;
use super::v1::program_words::StoredWord;
use super::v1::spec::JobSpec as Wire;
use super::v1::{RecordProblem, WireConversion};
use super::{RecordError, keys};
use crate::port::{Journal, KeyChange, StoreError, StoreKey, StoredValue};

/// The texts that several jobs of a request share, or that one job repeats.
#[derive(Debug, Default)]
pub(super) struct RequestCommonTexts {
    /// The first job of the request, after which they are named.
    first: JobId,
    /// Their numbers, by the address of their bytes.
    numbers: BTreeMap<*const u8, u32>,
    texts: Vec<Arc<str>>,
}

impl RequestCommonTexts {
    /// Finds the texts that jobs of one submission share.
    pub(super) fn from_jobs(jobs: &[&Job]) -> Self {
        let Some(first) = jobs.first() else {
            return Self::default();
        };
        let mut seen = BTreeMap::new();
        let mut texts = BTreeMap::new();
        let mut uses = Vec::new();
        for text in jobs.iter().flat_map(|job| job.spec.long_texts()) {
            // Most often they are the same allocation; comparing whole texts takes longer.
            let at = *seen.entry(text.as_ptr()).or_insert_with(|| {
                *texts.entry(text.clone()).or_insert_with(|| {
                    uses.push((text.clone(), 0));
                    uses.len() - 1
                })
            });
            uses[at].1 += 1;
        }
        let mut commons = Self {
            first: first.id,
            ..Self::default()
        };
        let mut given = BTreeMap::new();
        for (at, (text, count)) in uses.into_iter().enumerate() {
            if count > 1 {
                given.insert(at, commons.texts.len() as u32);
                commons.texts.push(text);
            }
        }
        let numbered = seen
            .into_iter()
            .filter_map(|(bytes, at)| Some((bytes, *given.get(&at)?)));
        commons.numbers = numbered.collect();
        commons
    }

    /// Adds the changes that store the texts.
    pub(super) fn write_texts(&self, to: &mut Vec<KeyChange>) -> Result<(), RecordError> {
        (0..).zip(&self.texts).try_for_each(|(number, text)| {
            frame::write_record(to, &keys::common_key(self.first, number), text, 0, None)
        })
    }

    /// Returns a specification without these texts, the first job of the request, and the number of
    /// bytes left out; `None` if it has none of them.
    pub(super) fn cut_spec(&self, spec: &JobSpec) -> Option<(Wire, JobId, usize)> {
        if self.numbers.is_empty()
            || !spec
                .long_texts()
                .any(|text: &Arc<str>| self.numbers.contains_key(&text.as_ptr()))
        {
            return None;
        }
        let mut wire: Wire = spec.to_wire();
        let mut bytes: usize = 0;
        wire.visit_words(&mut |word| {
            if let StoredWord::Text(text) = word
                && let Some(number) = self.numbers.get(&text.as_ptr())
            {
                bytes += text.len();
                *word = StoredWord::Common(*number);
            }
        });
        Some((wire, self.first, bytes))
    }
}

/// Texts read from the store, for the jobs that have them.
#[derive(Debug, Default)]
pub(super) struct LoadedCommonTexts {
    parts: BTreeMap<(JobId, u32), PartialRecord>,
    texts: BTreeMap<(JobId, u32), Arc<str>>,
}

impl LoadedCommonTexts {
    /// Reads those texts of a request from the store that a specification names. The request may
    /// have far more, for other jobs.
    pub(super) fn read_named_texts(
        wire: &mut Wire,
        journal: &dyn Journal,
        first: JobId,
    ) -> Result<Self, StoreError> {
        let mut numbers = BTreeSet::new();
        wire.visit_words(&mut |word| {
            if let StoredWord::Common(number) = word {
                numbers.insert(*number);
            }
        });
        let mut found = Self::default();
        for number in numbers {
            let what = keys::common_key(first, number);
            visit_values(journal, &what, &mut |stored, _, _| found.take_value(stored))?;
        }
        Ok(found)
    }

    /// Takes the next value.
    pub(super) fn take_value(&mut self, stored: &StoredValue) -> Result<(), StoreError> {
        let Some((of, chunk)) = parse_common_text_key(&stored.key) else {
            let problem = "it names no text".into();
            return Err(damaged_record_error(&format!("{:?}", stored.key), problem));
        };
        self.parts
            .entry(of)
            .or_default()
            .take_value(&stored.key, chunk, &stored.value)
    }

    /// Puts the texts into a specification.
    pub(super) fn fill_spec(&mut self, wire: &mut Wire, first: JobId) -> Result<(), StoreError> {
        let mut problem = None;
        wire.visit_words(&mut |word| {
            if let StoredWord::Common(number) = word {
                match self.read_text(first, *number) {
                    Ok(text) => *word = StoredWord::Text(text),
                    Err(error) => problem = Some(error),
                }
            }
        });
        problem.map_or(Ok(()), Err)
    }

    fn read_text(&mut self, first: JobId, number: u32) -> Result<Arc<str>, StoreError> {
        if let Some(text) = self.texts.get(&(first, number)) {
            return Ok(text.clone());
        }
        let what = keys::common_key(first, number);
        let parts = self.parts.remove(&(first, number));
        let parts = parts
            .ok_or_else(|| damaged_record_error(&what, RecordProblem::from("it is missing")))?;
        let text: Arc<str> = parts.read_record(&what)?;
        self.texts.insert((first, number), text.clone());
        Ok(text)
    }
}

/// Parses a key: the request of the text, its number, and the number of the value within its
/// record.
pub(super) fn parse_common_text_key(key: &StoreKey) -> Option<((JobId, u32), usize)> {
    let (base, chunk) = keys::split_chunk(key)?;
    Some((keys::parse_common_key(base)?, chunk))
}
