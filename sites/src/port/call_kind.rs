//! Kinds of calls of the port, as they are counted and as faults are aimed at them.

/// Kinds of calls of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is a call of the port")]
pub enum SiteCallKind {
    Describe,
    Status,
    Submit,
    FindByTag,
    DecideGate,
    Cancel,
    RemoveAttempt,
    ListAttempts,
    Inspect,
    StartCopy,
    CopyStatus,
    StopCopy,
    HasContent,
    DeleteContent,
    Read,
    RoundTrip,
    Reserve,
    Upload,
}

impl SiteCallKind {
    /// All kinds.
    pub const ALL: [SiteCallKind; 18] = [
        SiteCallKind::Describe,
        SiteCallKind::Status,
        SiteCallKind::Submit,
        SiteCallKind::FindByTag,
        SiteCallKind::DecideGate,
        SiteCallKind::Cancel,
        SiteCallKind::RemoveAttempt,
        SiteCallKind::ListAttempts,
        SiteCallKind::Inspect,
        SiteCallKind::StartCopy,
        SiteCallKind::CopyStatus,
        SiteCallKind::StopCopy,
        SiteCallKind::HasContent,
        SiteCallKind::DeleteContent,
        SiteCallKind::Read,
        SiteCallKind::RoundTrip,
        SiteCallKind::Reserve,
        SiteCallKind::Upload,
    ];

    /// Returns its name in metrics, control files, plans and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteCallKind::Describe => "describe",
            SiteCallKind::Status => "status",
            SiteCallKind::Submit => "submit",
            SiteCallKind::FindByTag => "find-by-tag",
            SiteCallKind::DecideGate => "decide-gate",
            SiteCallKind::Cancel => "cancel",
            SiteCallKind::RemoveAttempt => "remove-attempt",
            SiteCallKind::ListAttempts => "list-attempts",
            SiteCallKind::Inspect => "inspect",
            SiteCallKind::StartCopy => "start-copy",
            SiteCallKind::CopyStatus => "copy-status",
            SiteCallKind::StopCopy => "stop-copy",
            SiteCallKind::HasContent => "has-content",
            SiteCallKind::DeleteContent => "delete-content",
            SiteCallKind::Read => "read",
            SiteCallKind::RoundTrip => "round-trip",
            SiteCallKind::Reserve => "reserve",
            SiteCallKind::Upload => "upload",
        }
    }

    /// Returns true if it changes anything at the site; the others only query.
    pub fn changes_site(self) -> bool {
        matches!(
            self,
            SiteCallKind::Submit
                | SiteCallKind::DecideGate
                | SiteCallKind::Cancel
                | SiteCallKind::RemoveAttempt
                | SiteCallKind::StartCopy
                | SiteCallKind::StopCopy
                | SiteCallKind::DeleteContent
                | SiteCallKind::Reserve
                | SiteCallKind::Upload
        )
    }

    /// Returns true if it may read and hash whole files: that takes long, and
    /// must not hold up the rest.
    pub fn is_long(self) -> bool {
        matches!(
            self,
            SiteCallKind::Inspect | SiteCallKind::Read | SiteCallKind::Upload
        )
    }
}
