//! What a job says of how its processors are got.

use super::QueueLimits;

/// What a job says of how its processors are got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AcquisitionOptions {
    /// Which ways it may take.
    pub mode: AcquisitionMode,
    /// How long its components may wait at sites.
    pub limits: QueueLimits,
}

/// Which ways to get processors a job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AcquisitionMode {
    /// What is idle is claimed; where nothing is, it waits in the queues of sites that have one.
    #[default]
    Auto,
    /// Only what is idle.
    Immediate,
    /// In the queues of sites, at once.
    Queued,
}

impl AcquisitionMode {
    /// All of them.
    pub const ALL: [AcquisitionMode; 3] = [
        AcquisitionMode::Auto,
        AcquisitionMode::Immediate,
        AcquisitionMode::Queued,
    ];

    /// Its name in job files and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            AcquisitionMode::Auto => "auto",
            AcquisitionMode::Immediate => "immediate",
            AcquisitionMode::Queued => "queued",
        }
    }
}
