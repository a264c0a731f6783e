//! Kinds of calls of the port, as they are counted and as faults are aimed at them.

/// Kinds of calls of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is a call of the port")]
pub enum CallKind {
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

impl CallKind {
    /// All kinds.
    pub const ALL: [CallKind; 18] = [
        CallKind::Describe,
        CallKind::Status,
        CallKind::Submit,
        CallKind::FindByTag,
        CallKind::DecideGate,
        CallKind::Cancel,
        CallKind::RemoveAttempt,
        CallKind::ListAttempts,
        CallKind::Inspect,
        CallKind::StartCopy,
        CallKind::CopyStatus,
        CallKind::StopCopy,
        CallKind::HasContent,
        CallKind::DeleteContent,
        CallKind::Read,
        CallKind::RoundTrip,
        CallKind::Reserve,
        CallKind::Upload,
    ];

    /// Returns its name in metrics, control files, plans and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            CallKind::Describe => "describe",
            CallKind::Status => "status",
            CallKind::Submit => "submit",
            CallKind::FindByTag => "find-by-tag",
            CallKind::DecideGate => "decide-gate",
            CallKind::Cancel => "cancel",
            CallKind::RemoveAttempt => "remove-attempt",
            CallKind::ListAttempts => "list-attempts",
            CallKind::Inspect => "inspect",
            CallKind::StartCopy => "start-copy",
            CallKind::CopyStatus => "copy-status",
            CallKind::StopCopy => "stop-copy",
            CallKind::HasContent => "has-content",
            CallKind::DeleteContent => "delete-content",
            CallKind::Read => "read",
            CallKind::RoundTrip => "round-trip",
            CallKind::Reserve => "reserve",
            CallKind::Upload => "upload",
        }
    }

    /// Returns true if it changes anything at the site; the others only query.
    pub fn changes_site(self) -> bool {
        matches!(
            self,
            CallKind::Submit
                | CallKind::DecideGate
                | CallKind::Cancel
                | CallKind::RemoveAttempt
                | CallKind::StartCopy
                | CallKind::StopCopy
                | CallKind::DeleteContent
                | CallKind::Reserve
                | CallKind::Upload
        )
    }

    /// Returns true if it may read and hash whole files: that takes long, and
    /// must not hold up the rest.
    pub fn is_long(self) -> bool {
        matches!(self, CallKind::Inspect | CallKind::Read | CallKind::Upload)
    }
}
