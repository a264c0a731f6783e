//! Errors in settings, of whatever part.

use thiserror::Error;

/// A setting outside its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{setting} is {given}; it must be {rule}")]
pub struct ParameterError {
    /// Name of the setting.
    pub setting: &'static str,
    pub given: String,
    /// The rule that it breaks.
    pub rule: String,
}

impl ParameterError {
    /// Reports that `setting` has the value `given`, but must be as `rule` says.
    pub fn new(setting: &'static str, given: impl ToString, rule: impl Into<String>) -> Self {
        Self {
            setting,
            given: given.to_string(),
            rule: rule.into(),
        }
    }
}
