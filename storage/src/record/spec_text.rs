//! Specifications as text, with the last ones that were read and written.

use std::collections::VecDeque;
use std::sync::Arc;

use cospan_domain::ids::JobId;
use cospan_domain::job::spec::JobSpec;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::common_texts::LoadedCommonTexts;
use super::frame::damaged_record_error;
use super::json::{self, WrittenJson};
use super::keys;
use super::v1::WireConversion;
use super::v1::spec::JobSpec as Wire;
use crate::port::StoreError;

/// A specification as written when some of its texts are stored elsewhere.
#[derive(Debug, Clone)]
pub(super) struct CutSpec {
    pub(super) text: String,
    pub(super) common: u64,
}

/// The specification that was read last. Users submit the same job many times in a row, and reading
/// its specification is most of the work of a start.
#[derive(Default)]
pub(super) struct LastReadSpec {
    text: String,
    spec: Option<Arc<JobSpec>>,
}

impl LastReadSpec {
    pub(super) fn read_or_reuse(
        &mut self,
        text: &RawValue,
        id: JobId,
        commons: Option<(&mut LoadedCommonTexts, JobId)>,
    ) -> Result<Arc<JobSpec>, StoreError> {
        if let Some((texts, first)) = commons {
            let mut wire = parse_spec(text.get(), id)?;
            texts.fill_spec(&mut wire, first)?;
            return spec_from_wire(wire, id).map(Arc::new);
        }
        if let Some(spec) = self.spec.as_ref().filter(|_| self.text == text.get()) {
            return Ok(spec.clone());
        }
        let spec = Arc::new(spec_from_wire(parse_spec(text.get(), id)?, id)?);
        text.get().clone_into(&mut self.text);
        self.spec = Some(spec.clone());
        Ok(spec)
    }
}

pub(super) fn parse_spec(text: &str, id: JobId) -> Result<Wire, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| damaged_record_error(&keys::spec_key(id), error.to_string()))
}

fn spec_from_wire(wire: Wire, id: JobId) -> Result<JobSpec, StoreError> {
    JobSpec::from_wire(wire).map_err(|problem| damaged_record_error(&keys::job_prefix(id), problem))
}

/// The specifications that were written last, as text. Users submit the same job many times in a
/// row, and writing its specification is most of the work of storing it.
#[derive(Debug, Default)]
pub struct SpecTextCache(VecDeque<(Arc<JobSpec>, String)>);

impl SpecTextCache {
    /// Number of remembered specifications.
    const KEPT: usize = 8;
    /// Largest remembered specification, in bytes.
    const MOST_BYTES: usize = 16 * 1_024;

    pub(super) fn write_or_reuse(
        &mut self,
        spec: &Arc<JobSpec>,
    ) -> serde_json::Result<WrittenJson<'_>> {
        let known = self
            .0
            .iter()
            .position(|(other, _)| Arc::ptr_eq(other, spec));
        let at = match known {
            Some(at) => at,
            None => {
                let text = spec_to_text(&(**spec).to_wire())?;
                self.0.retain(|(_, text)| text.len() <= Self::MOST_BYTES);
                self.0.truncate(Self::KEPT - 1);
                self.0.push_front((spec.clone(), text));
                0
            }
        };
        Ok(WrittenJson(&self.0[at].1))
    }
}

/// Returns a specification as text.
pub(super) fn spec_to_text(wire: &Wire) -> serde_json::Result<String> {
    /// Size that most of them need.
    const ROOM: usize = 1_024;
    let mut text = Vec::with_capacity(ROOM);
    json::append_json(&mut text, wire)?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}
