//! Equal specifications share one copy in memory. Users submit the same job
//! many times in a row far more often than they submit equal jobs far apart, so
//! only the last few are compared.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use cospan_domain::job::spec::JobSpec;

/// The last few distinct specifications.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Arc<JobSpec>>>);

impl Recent {
    const KEPT: usize = 8;

    /// The same specification: an earlier copy if one of the last few is equal.
    pub fn share(&self, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) =
            recent.iter().find(|earlier| Arc::ptr_eq(earlier, &spec) || **earlier == spec)
        {
            return equal.clone();
        }
        recent.truncate(Self::KEPT - 1);
        recent.push_front(spec.clone());
        spec
    }
}
