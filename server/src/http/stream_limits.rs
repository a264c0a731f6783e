//! Bounds on open streams: in all, of each key and from each address, so that nobody takes the
//! places of others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use cospan_domain::ids::KeyName;

use super::failure::HttpFailure;
use super::http_settings::HttpSettings;
use cospan_api::v1::problem::{Code, Problem};

/// A party whose open streams are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StreamHolder {
    Everybody,
    Key(KeyName),
    Address(IpAddr),
}

/// The open streams.
#[derive(Debug)]
pub(super) struct StreamLimiter {
    counts: Arc<Mutex<BTreeMap<StreamHolder, usize>>>,
    at_most: usize,
    of_key: usize,
    of_address: usize,
}

/// An open stream; closed when dropped.
#[derive(Debug)]
pub(super) struct OpenStream {
    counts: Arc<Mutex<BTreeMap<StreamHolder, usize>>>,
    holders: Vec<StreamHolder>,
}

impl StreamLimiter {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        Self {
            counts: Arc::default(),
            at_most: settings.max_streams,
            of_key: settings.max_streams_per_key,
            of_address: settings.max_streams_per_address,
        }
    }

    /// Opens one more stream.
    ///
    /// # Errors
    /// One of the holders has as many as allowed.
    pub(super) fn open_stream(
        &self,
        key: &KeyName,
        address: Option<IpAddr>,
    ) -> Result<OpenStream, HttpFailure> {
        let mut holders = vec![StreamHolder::Key(key.clone())];
        holders.extend(address.map(StreamHolder::Address));
        holders.push(StreamHolder::Everybody);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = holders
            .iter()
            .find(|holder| counts.get(*holder).copied().unwrap_or(0) >= self.most_streams(holder))
        {
            return Err(self.too_many_streams(full));
        }
        for holder in &holders {
            *counts.entry(holder.clone()).or_default() += 1;
        }
        Ok(OpenStream {
            counts: self.counts.clone(),
            holders,
        })
    }

    fn most_streams(&self, holder: &StreamHolder) -> usize {
        match holder {
            StreamHolder::Everybody => self.at_most,
            StreamHolder::Key(_) => self.of_key,
            StreamHolder::Address(_) => self.of_address,
        }
    }

    fn too_many_streams(&self, full: &StreamHolder) -> HttpFailure {
        let most = self.most_streams(full);
        let detail = match full {
            StreamHolder::Everybody => {
                format!("{most} streams are open, the most allowed")
            }
            StreamHolder::Key(key) => {
                format!("the key {key} has {most} streams open, the most that one key may have")
            }
            StreamHolder::Address(_) => {
                format!("{most} streams are open from this address, the most that one may have")
            }
        };
        Problem::new(Code::TooManyStreams, detail)
            .with_retry_after(5)
            .into()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for holder in &self.holders {
            if let Some(count) = counts.get_mut(holder) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(holder);
                }
            }
        }
    }
}
