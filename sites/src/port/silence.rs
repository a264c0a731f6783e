//! An answer of which one source is missing.

use std::fmt;

use cospan_domain::units::DurationMs;

/// A resource manager that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialAnswer {
    /// How old its latest answer is; `None`: it has not given any.
    pub age: Option<DurationMs>,
    /// Why there is no answer.
    pub why: String,
}

impl fmt::Display for PartialAnswer {
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
