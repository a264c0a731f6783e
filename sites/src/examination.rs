//! The findings of an examination of a site, whatever its kind.

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Bytes;

/// The judgement on something that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingVerdict {
    /// It is as it should be.
    Good,
    /// It works, but somebody should look at it.
    Odd,
    /// It does not work.
    Bad,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFinding {
    /// The thing that was checked.
    pub what: &'static str,
    /// The judgement.
    pub verdict: FindingVerdict,
    /// The facts, in words.
    pub found: String,
    /// Advice for the operator; empty if nothing needs to be done.
    pub advice: String,
}

/// Returns true if something does not work.
pub fn is_any_bad(findings: &[SiteFinding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.verdict == FindingVerdict::Bad)
}

/// The remains of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRemains {
    /// The attempt.
    pub tag: AttemptTag,
    /// The disk space that they take.
    pub bytes: Bytes,
    /// True if the batch system has a job of it that is not over.
    pub is_live: bool,
}
