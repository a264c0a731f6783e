//! The queue of a site, and the attempts that go through it.

use std::sync::Arc;

use async_trait::async_trait;
use cospan_domain::content::Content;
use cospan_domain::ids::{AttemptTag, Digest, Epoch, LrmId, RelPath, Round};
use cospan_domain::job::spec::Program;
use cospan_domain::reservation::ReservationTag;
use cospan_domain::resources::Resources;
use cospan_domain::runner::EndWarning;
use cospan_domain::units::{DurationMs, Timestamp};

use super::{SiteError, SiteStatus};

/// Everything that an adapter needs to submit one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptSubmitRequest {
    /// The identity of the attempt at the site; it is in the job's name and comment.
    pub tag: AttemptTag,
    /// The round it belongs to.
    pub round: Round,
    /// The control plane's epoch.
    pub epoch: Epoch,
    /// Processors and other resources.
    pub resources: Resources,
    /// The program, with the site's overrides applied.
    pub program: Program,
    /// Digest of the executable if it is staged.
    pub staged_executable: Option<Digest>,
    /// Inputs: content in the site's store, and the path of each below the work directory.
    pub inputs: Vec<(Content, RelPath)>,
    /// The outputs that are collected, below the work directory: on the
    /// disk before it has succeeded.
    pub outputs: Vec<RelPath>,
    /// Options for the batch system as they are.
    pub lrm_options: Vec<Arc<str>>,
    /// The reservation that it uses.
    pub reservation: Option<ReservationTag>,
    /// It must not start earlier than this long after the submission.
    pub begin_in: DurationMs,
    /// The longest time at the gate.
    pub hold_max: DurationMs,
    /// The longest run from the opening of the gate.
    pub wall_time: DurationMs,
    /// The signal that the payload gets before its wall time is over.
    pub warning: Option<EndWarning>,
    /// The component's latest attempt here that began, if the job is restarted: the payload gets
    /// the path of its work directory, as long as that is there.
    pub earlier: Option<AttemptTag>,
    /// True if the payload finds a file that lists the hosts of all components.
    pub lists_hosts: bool,
    /// The job's name, for people who look at the site's own queue.
    pub name: Option<Arc<str>>,
}

impl AttemptSubmitRequest {
    /// Asks for one processor for this long, and nothing else; at the gate for ten minutes.
    pub fn with_one_processor(tag: AttemptTag, program: Program, wall_time: DurationMs) -> Self {
        Self {
            tag,
            round: Round(1),
            epoch: Epoch(1),
            resources: Resources::processors(1),
            program,
            staged_executable: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            lrm_options: Vec::new(),
            reservation: None,
            begin_in: DurationMs::ZERO,
            hold_max: DurationMs::from_secs(600),
            wall_time,
            warning: None,
            earlier: None,
            lists_hosts: false,
            name: None,
        }
    }
}

/// A submission that the site acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedAttempt {
    /// The number that the batch system gave.
    pub lrm_id: LrmId,
}

/// A submission found under a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSubmission {
    /// The number that the batch system gave.
    pub lrm_id: LrmId,
    /// The time of the submission, by the site's clock.
    pub submitted_at: Timestamp,
}

/// The answer to a look-up by tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagLookupAnswer {
    /// The submissions that were found; absence counts only under the rules of the protocol.
    pub found: Vec<FoundSubmission>,
}

/// The queue of a site, and the attempts that go through it.
#[async_trait]
pub trait SiteQueue: Send + Sync {
    /// Returns true if it answers only while no other control plane can use it: then the attempts
    /// of a control plane whose store was taken over are nobody's.
    fn is_ours_alone(&self) -> bool {
        false
    }

    /// Checks an option that a job hands to the batch system, and asks nobody; `None` if the site
    /// hands on no options.
    ///
    /// # Errors
    /// The reason why jobs may not have it.
    fn check_option(&self, _option: &Arc<str>) -> Option<Result<(), String>> {
        None
    }

    /// Returns the load, and the state of the attempts asked about, in one query. A failure is no
    /// information about anything.
    async fn status(&self, tags: &[AttemptTag]) -> Result<SiteStatus, SiteError>;

    /// Submits one attempt. Repeating it with a tag that the site knows must
    /// not start a second payload.
    async fn submit(&self, order: &AttemptSubmitRequest) -> Result<AcceptedAttempt, SiteError>;

    /// Looks for submissions under a tag.
    async fn find_by_tag(&self, tag: AttemptTag) -> Result<TagLookupAnswer, SiteError>;

    /// Ends an attempt, at whatever stage: the job of the batch system and all processes. `Ok` says
    /// that the request was accepted, not that the attempt is over: see
    /// [`SiteQueue::status`].
    async fn cancel(&self, tag: AttemptTag, lrm_id: Option<&LrmId>) -> Result<(), SiteError>;

    /// Takes one of several submissions under a tag out of the queue of the batch system: the one
    /// with this number, if it has this tag and has not been started. One that has been started
    /// leaves by itself, unless it is the one that has the directory: a request that comes late
    /// must not end the attempt.
    async fn withdraw(&self, tag: AttemptTag, lrm_id: &LrmId) -> Result<(), SiteError>;

    /// Removes everything that an ended attempt left.
    async fn remove_attempt(&self, tag: AttemptTag) -> Result<(), SiteError>;

    /// Lists all attempts of any instance that left something at the site.
    async fn list_attempts(&self) -> Result<Vec<AttemptTag>, SiteError>;
}
