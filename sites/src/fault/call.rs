//! Kinds of calls, as faults are aimed at them.

/// Kinds of calls, as faults are aimed at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is a call of the port")]
pub enum Call {
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
}

impl Call {
    /// All kinds.
    pub const ALL: [Call; 16] = [
        Call::Describe,
        Call::Status,
        Call::Submit,
        Call::FindByTag,
        Call::DecideGate,
        Call::Cancel,
        Call::RemoveAttempt,
        Call::ListAttempts,
        Call::Inspect,
        Call::StartCopy,
        Call::CopyStatus,
        Call::StopCopy,
        Call::HasContent,
        Call::DeleteContent,
        Call::Read,
        Call::RoundTrip,
    ];

    /// Its name in control files, plans and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Call::Describe => "describe",
            Call::Status => "status",
            Call::Submit => "submit",
            Call::FindByTag => "find-by-tag",
            Call::DecideGate => "decide-gate",
            Call::Cancel => "cancel",
            Call::RemoveAttempt => "remove-attempt",
            Call::ListAttempts => "list-attempts",
            Call::Inspect => "inspect",
            Call::StartCopy => "start-copy",
            Call::CopyStatus => "copy-status",
            Call::StopCopy => "stop-copy",
            Call::HasContent => "has-content",
            Call::DeleteContent => "delete-content",
            Call::Read => "read",
            Call::RoundTrip => "round-trip",
        }
    }

    /// Whether it changes anything at the site; else it only asks.
    pub fn acts(self) -> bool {
        matches!(
            self,
            Call::Submit
                | Call::DecideGate
                | Call::Cancel
                | Call::RemoveAttempt
                | Call::StartCopy
                | Call::StopCopy
                | Call::DeleteContent
        )
    }
}
