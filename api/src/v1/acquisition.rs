//! The way in which a job acquires its processors, as its user writes it.

use cospan_domain::acquisition::{AcquisitionMode, AcquisitionOptions, QueueTimeLimits};
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::Length;

/// The way in which the job acquires its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquisitionDocument {
    /// `auto`: claim idle processors; where none are idle, let components wait in the queues of the
    /// sites that have one. `immediate`: only claim idle processors. `queued`: wait in queues from
    /// the beginning.
    #[serde(default)]
    pub mode: AcquisitionModeName,
    /// Time from the placement of a job that waits in queues until each component must have its
    /// processors. Then the job is placed again. 24 hours if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "12h")]
    pub patience: Option<Length>,
    /// Longest time that a component that starts early holds its processors for the others. Then it
    /// gives them back, and is submitted again to begin when the others are expected. 10 minutes if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub max_hold: Option<Length>,
}

/// The ways to acquire processors that a job allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcquisitionModeName {
    /// Idle processors, else queues.
    #[default]
    Auto,
    /// Only idle processors.
    Immediate,
    /// Queues from the beginning.
    Queued,
}

impl AcquisitionDocument {
    /// Returns the key of a length that is zero, if there is one.
    pub(super) fn zero_length_key(&self) -> Option<&'static str> {
        let given = [
            ("acquisition.patience", self.patience),
            ("acquisition.max_hold", self.max_hold),
        ];
        let zero =
            |length: &Option<Length>| length.is_some_and(|given| given.0 == DurationMs::ZERO);
        given
            .into_iter()
            .find(|(_, length)| zero(length))
            .map(|(key, _)| key)
    }
}

impl From<AcquisitionDocument> for AcquisitionOptions {
    fn from(document: AcquisitionDocument) -> Self {
        let defaults = QueueTimeLimits::default();
        let mode = match document.mode {
            AcquisitionModeName::Auto => AcquisitionMode::Auto,
            AcquisitionModeName::Immediate => AcquisitionMode::Immediate,
            AcquisitionModeName::Queued => AcquisitionMode::Queued,
        };
        let deadline = document
            .patience
            .map_or(defaults.deadline, |length| length.0);
        let max_hold = document
            .max_hold
            .map_or(defaults.max_hold, |length| length.0);
        Self {
            mode,
            limits: QueueTimeLimits { deadline, max_hold },
        }
    }
}

impl From<AcquisitionOptions> for AcquisitionDocument {
    fn from(options: AcquisitionOptions) -> Self {
        let limits = options.limits;
        let defaults = QueueTimeLimits::default();
        Self {
            mode: match options.mode {
                AcquisitionMode::Auto => AcquisitionModeName::Auto,
                AcquisitionMode::Immediate => AcquisitionModeName::Immediate,
                AcquisitionMode::Queued => AcquisitionModeName::Queued,
            },
            patience: (limits.deadline != defaults.deadline).then_some(Length(limits.deadline)),
            max_hold: (limits.max_hold != defaults.max_hold).then_some(Length(limits.max_hold)),
        }
    }
}
