//! An answer that lacks one source.

use std::fmt;

use cospan_domain::units::DurationMs;

/// The silence of a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSystemSilence {
    /// The age of its latest answer; `None` if it has not given any.
    pub age: Option<DurationMs>,
    /// The reason why there is no answer.
    pub why: String,
}

impl fmt::Display for BatchSystemSilence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { age, why } = self;
        write!(f, "the batch system does not answer: {why}; ")?;
        match age {
            Some(age) => write!(f, "what it said last is {age} old, ")?,
            None => f.write_str("it has said nothing yet, ")?,
        }
        f.write_str("but the files of attempts are read")
    }
}
