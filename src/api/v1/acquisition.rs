//! How a job's processors are got, as its user writes it.

use cospan_domain::acquire::{AcquisitionMode, AcquisitionOptions, QueueLimits};
use cospan_domain::units::DurationMs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quantity::Length;

/// How its processors are got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquisitionDocument {
    /// `auto`: what is idle is claimed, and where nothing is, components wait in the queues of
    /// sites that have one; `immediate`: only what is idle; `queued`: in queues, at once.
    #[serde(default)]
    pub mode: AcquisitionModeName,
    /// From the placement of a job that waits in queues until each component must have its
    /// processors; then it is placed anew. 24 hours if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "12h")]
    pub patience: Option<Length>,
    /// How long a component that starts early holds its processors for the others; then it
    /// gives them back, and is submitted again to begin when the others are expected. 10 minutes
    /// if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub max_hold: Option<Length>,
}

/// Which ways to get processors a job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcquisitionModeName {
    /// What is idle, else in queues.
    #[default]
    Auto,
    /// Only what is idle.
    Immediate,
    /// In queues, at once.
    Queued,
}

impl AcquisitionDocument {
    /// The key of a length that is zero, if there is one.
    pub(super) fn zero(&self) -> Option<&'static str> {
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
        let defaults = QueueLimits::default();
        let given = |length: Option<Length>, or: DurationMs| length.map_or(or, |length| length.0);
        let mode = match document.mode {
            AcquisitionModeName::Auto => AcquisitionMode::Auto,
            AcquisitionModeName::Immediate => AcquisitionMode::Immediate,
            AcquisitionModeName::Queued => AcquisitionMode::Queued,
        };
        let deadline = given(document.patience, defaults.deadline);
        let max_hold = given(document.max_hold, defaults.max_hold);
        Self {
            mode,
            limits: QueueLimits { deadline, max_hold },
        }
    }
}

impl From<AcquisitionOptions> for AcquisitionDocument {
    fn from(options: AcquisitionOptions) -> Self {
        let limits = options.limits;
        let defaults = QueueLimits::default();
        let shown = |length: DurationMs, or: DurationMs| (length != or).then_some(Length(length));
        Self {
            mode: match options.mode {
                AcquisitionMode::Auto => AcquisitionModeName::Auto,
                AcquisitionMode::Immediate => AcquisitionModeName::Immediate,
                AcquisitionMode::Queued => AcquisitionModeName::Queued,
            },
            patience: shown(limits.deadline, defaults.deadline),
            max_hold: shown(limits.max_hold, defaults.max_hold),
        }
    }
}
