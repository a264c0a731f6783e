//! The port between the control plane and one site.
//!
//! A site hands out a trait object for each of its parts. Whoever wraps a site implements the parts
//! that it changes, and hands out the others of the site inside.

mod attempt_observation;
mod call_kind;
mod copy_calls;
mod file_calls;
mod gate_calls;
mod partial_answer;
mod queue_calls;
mod reservation_calls;
mod site_error;
mod site_monitor;
mod upload_calls;

use cospan_domain::ids::SiteName;
pub use cospan_domain::runner::EndWarning;
pub use cospan_domain::transfer::file_place::FilePlace;

pub use attempt_observation::{
    AttemptAtGate, AttemptObservation, ErrorBlame, ExitCause, PayloadExit, QueuedAttempt,
    RunningPayload, SiteEndReason, SiteStatus,
};
pub use call_kind::SiteCallKind;
pub use copy_calls::{CopyBlame, CopyRequest, CopySource, CopyStatus, SiteCopies};
pub use file_calls::{
    FileExcerpt, InspectedFile, InspectionProgress, PayloadStream, ReadableFile, SiteFiles,
};
pub use gate_calls::{Gate, GateDecision, GateState, GoDecision, RoundPeer};
pub use partial_answer::BatchSystemSilence;
pub use queue_calls::{
    AcceptedAttempt, AttemptSubmitRequest, FoundSubmission, SiteQueue, TagLookupAnswer,
};
pub use reservation_calls::{
    FreeSlot, ObservedReservation, ReservationsByTag, SiteReservations, TaggedReservationRequest,
};
pub use site_error::SiteError;
pub use site_monitor::{SiteCapabilities, SiteDescription, SiteMonitor};
pub use upload_calls::{UPLOADS, UploadStep};

/// A site. Calls may run at the same time; each ends within its own deadline and
/// reports what is known. Dropping a call's future must not leave the site in a state
/// that a later call cannot find out.
pub trait Site: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &SiteName;

    /// Returns what says how it is.
    fn monitor(&self) -> &dyn SiteMonitor;

    /// Returns its queue.
    fn queue(&self) -> &dyn SiteQueue;

    /// Returns the gates of its attempts.
    fn gate(&self) -> &dyn Gate;

    /// Returns its files.
    fn files(&self) -> &dyn SiteFiles;

    /// Returns the copies that are made to it.
    fn copies(&self) -> &dyn SiteCopies;

    /// Returns its reservations, if it grants any.
    fn reservations(&self) -> Option<&dyn SiteReservations> {
        None
    }
}
