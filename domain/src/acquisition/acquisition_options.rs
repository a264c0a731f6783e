//! The options of a job for acquiring processors.

use super::QueueTimeLimits;

/// The options of a job for acquiring processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AcquisitionOptions {
    /// The ways that it may take.
    pub mode: AcquisitionMode,
    /// The longest waits of its components at sites.
    pub limits: QueueTimeLimits,
}

/// The ways in which a job may acquire processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AcquisitionMode {
    /// Claims what is idle; where nothing is, waits in the queues of sites that have one.
    #[default]
    Auto,
    /// Only claims what is idle.
    Immediate,
    /// Goes to the queues of sites at once.
    Queued,
}

impl AcquisitionMode {
    /// All modes.
    pub const ALL: [AcquisitionMode; 3] = [
        AcquisitionMode::Auto,
        AcquisitionMode::Immediate,
        AcquisitionMode::Queued,
    ];

    /// Returns its name in job files and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            AcquisitionMode::Auto => "auto",
            AcquisitionMode::Immediate => "immediate",
            AcquisitionMode::Queued => "queued",
        }
    }
}
