//! Interprets the end of an attempt: the report of a batch system on its job and the files of its
//! wrapper, judged together.
//!
//! Success is what nothing contradicts. An end from outside is nobody's error, unless a node failed
//! or the site could not start the attempt, or the job took more memory than it asked for; whatever
//! its payload did when it was asked to end. An end that the wrapper made by itself stands, and so
//! does a success that was there before anybody asked it to end.

use std::fmt::{self, Write as _};

use crate::port::{ErrorBlame, SiteEndReason};

/// The report of a batch system on an attempt's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchJobState {
    /// The batch system does not know it any more.
    Forgotten,
    /// In the queue, and may begin.
    Waiting,
    /// In the queue, for a reason that no waiting removes.
    NeverRuns,
    /// The job's processes run, or are stopped for a while.
    Running,
    /// It is being tidied up; the reason for its end is not reported yet.
    Completing,
    /// It ended by itself, and its wrapper reported success.
    Completed,
    /// It ended by itself, and its wrapper reported no success.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Another job got its processors.
    Preempted,
    /// It was ended, and put back into the queue.
    Requeued,
    /// It exceeded its time.
    TimeLimit,
    /// It could not be over by the time that was requested.
    Deadline,
    /// A node failed.
    NodeFailed,
    /// A node did not start.
    BootFailed,
    /// It could not be started on its nodes.
    LaunchFailed,
    /// It took more memory than it asked for.
    OutOfMemory,
}

impl BatchJobState {
    /// All of them, in the order of the book.
    pub const ALL: [BatchJobState; 16] = [
        BatchJobState::Waiting,
        BatchJobState::NeverRuns,
        BatchJobState::Requeued,
        BatchJobState::Running,
        BatchJobState::Completing,
        BatchJobState::Completed,
        BatchJobState::Failed,
        BatchJobState::Cancelled,
        BatchJobState::Preempted,
        BatchJobState::TimeLimit,
        BatchJobState::Deadline,
        BatchJobState::NodeFailed,
        BatchJobState::BootFailed,
        BatchJobState::LaunchFailed,
        BatchJobState::OutOfMemory,
        BatchJobState::Forgotten,
    ];

    /// Returns true if such a job may still do something, or be started.
    pub fn is_active(self) -> bool {
        self.is_in_queue() || matches!(self, BatchJobState::Running | BatchJobState::Completing)
    }

    /// Returns true if it is in the queue.
    pub fn is_in_queue(self) -> bool {
        matches!(
            self,
            BatchJobState::Waiting | BatchJobState::NeverRuns | BatchJobState::Requeued
        )
    }

    /// Returns who or what ended it from outside, if the report says so.
    fn outside_end_reason(self) -> Option<SiteEndReason> {
        Some(match self {
            BatchJobState::NeverRuns => SiteEndReason::NeverRuns,
            BatchJobState::Cancelled => SiteEndReason::Cancelled,
            BatchJobState::Preempted => SiteEndReason::Preempted,
            BatchJobState::Requeued => SiteEndReason::Requeued,
            BatchJobState::TimeLimit | BatchJobState::Deadline => SiteEndReason::TimeLimit,
            BatchJobState::NodeFailed | BatchJobState::BootFailed => SiteEndReason::NodeFailed,
            BatchJobState::LaunchFailed => SiteEndReason::LaunchFailed,
            BatchJobState::OutOfMemory => SiteEndReason::OutOfMemory,
            BatchJobState::Forgotten
            | BatchJobState::Waiting
            | BatchJobState::Running
            | BatchJobState::Completing
            | BatchJobState::Completed
            | BatchJobState::Failed => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            BatchJobState::Forgotten => "not known any more",
            BatchJobState::Waiting => "waiting",
            BatchJobState::NeverRuns => "waiting, can never run",
            BatchJobState::Running => "running",
            BatchJobState::Completing => "being tidied up",
            BatchJobState::Completed => "completed",
            BatchJobState::Failed => "failed",
            BatchJobState::Cancelled => "cancelled",
            BatchJobState::Preempted => "preempted",
            BatchJobState::Requeued => "requeued",
            BatchJobState::TimeLimit => "time limit",
            BatchJobState::Deadline => "deadline",
            BatchJobState::NodeFailed => "node failed",
            BatchJobState::BootFailed => "node did not start",
            BatchJobState::LaunchFailed => "launch failed",
            BatchJobState::OutOfMemory => "out of memory",
        }
    }
}

/// The files that a wrapper left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrapperFileState {
    /// Not even its directory.
    Nothing,
    /// It came to its gate at most.
    AtGate,
    /// The payload began, and no more is known.
    Begun,
    /// The reason why the site could not run it.
    Trouble,
    /// A state file that is there and cannot be read, or was not written by the wrapper:
    /// the end of one that is over.
    Spoiled,
    /// The gate was closed for ever.
    Void,
    /// The payload exited with code 0.
    Success,
    /// The payload exited with another code, or a signal ended it.
    Failure,
    /// TERM or KILL ended it: the signals by which batch systems end jobs.
    Killed,
    /// The wrapper ended it because it was asked to.
    Terminated,
    /// The wrapper ended it at the job's wall time.
    WallTime,
    /// The wrapper found that the payload could not be started.
    Unstarted,
    /// The wrapper came to its open gate after the last moment, and started nothing.
    TooLate,
}

impl WrapperFileState {
    /// All of them, in the order of the book.
    pub const ALL: [WrapperFileState; 13] = [
        WrapperFileState::Nothing,
        WrapperFileState::AtGate,
        WrapperFileState::Begun,
        WrapperFileState::Trouble,
        WrapperFileState::Spoiled,
        WrapperFileState::Success,
        WrapperFileState::Failure,
        WrapperFileState::Killed,
        WrapperFileState::Terminated,
        WrapperFileState::WallTime,
        WrapperFileState::Unstarted,
        WrapperFileState::TooLate,
        WrapperFileState::Void,
    ];

    /// Returns true for the end of a payload that may have come from outside.
    pub(crate) fn may_be_ended_from_outside(self) -> bool {
        matches!(
            self,
            WrapperFileState::Success
                | WrapperFileState::Failure
                | WrapperFileState::Killed
                | WrapperFileState::Terminated
        )
    }

    fn as_str(self) -> &'static str {
        match self {
            WrapperFileState::Nothing => "nothing",
            WrapperFileState::AtGate => "came to its gate",
            WrapperFileState::Begun => "began",
            WrapperFileState::Trouble => "trouble",
            WrapperFileState::Spoiled => "unreadable",
            WrapperFileState::Void => "void",
            WrapperFileState::Success => "code 0",
            WrapperFileState::Failure => "code, signal",
            WrapperFileState::Killed => "TERM or KILL",
            WrapperFileState::Terminated => "told to end",
            WrapperFileState::WallTime => "wall time",
            WrapperFileState::Unstarted => "could not start",
            WrapperFileState::TooLate => "too late",
        }
    }
}

/// The meaning of both together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// Nothing is there, and never was or is removed.
    Absent,
    /// Not decided yet: one of both is about to say more.
    Untold,
    /// It waits in the queue.
    Queued,
    /// It is where its files say.
    Standing,
    /// It never ran and never will, because its gate is closed.
    Void,
    /// It never ran, because it would have begun without the others.
    TooLate,
    /// It succeeded.
    Succeeded,
    /// The job's own error, as its exit says.
    Failed,
    /// It was ended, or kept from running, from outside.
    Ended(SiteEndReason),
    /// The site's error: lost without a valid record.
    Lost,
}

impl AttemptEnd {
    /// Returns whose error it is, if it is one or ends an attempt without success.
    pub fn whose_error(self) -> Option<ErrorBlame> {
        match self {
            AttemptEnd::Failed => Some(ErrorBlame::Job),
            AttemptEnd::Lost => Some(ErrorBlame::Site),
            AttemptEnd::TooLate | AttemptEnd::Void => Some(ErrorBlame::Nobody),
            AttemptEnd::Ended(why) => Some(why.whose_error()),
            AttemptEnd::Absent
            | AttemptEnd::Untold
            | AttemptEnd::Queued
            | AttemptEnd::Standing
            | AttemptEnd::Succeeded => None,
        }
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blame = match self.whose_error() {
            Some(ErrorBlame::Job) => "job",
            Some(ErrorBlame::Site) => "site",
            Some(ErrorBlame::Nobody) => "nobody",
            None => "",
        };
        match self {
            AttemptEnd::Absent => f.write_str("absent"),
            AttemptEnd::Untold => f.write_str("not known yet"),
            AttemptEnd::Queued => f.write_str("waits"),
            AttemptEnd::Standing => f.write_str("goes on"),
            AttemptEnd::Succeeded => f.write_str("**succeeded**"),
            AttemptEnd::Void | AttemptEnd::TooLate => write!(f, "{blame}: never ran"),
            AttemptEnd::Failed => f.write_str(blame),
            AttemptEnd::Ended(why) => write!(f, "{blame}: {}", why.as_str()),
            AttemptEnd::Lost => write!(f, "{blame}: lost"),
        }
    }
}

/// Interprets the end of an attempt. `settled`: files had time to appear, and
/// the batch system to say why.
pub fn interpret_end(word: BatchJobState, left: WrapperFileState, settled: bool) -> AttemptEnd {
    match (left, word) {
        // It cannot begin any more, and must be taken out of the queue all the same.
        (WrapperFileState::Void, word) if word.is_in_queue() => AttemptEnd::Queued,
        (WrapperFileState::Void, _) => AttemptEnd::Void,
        (WrapperFileState::WallTime | WrapperFileState::Unstarted, _) => AttemptEnd::Failed,
        (WrapperFileState::TooLate, _) => AttemptEnd::TooLate,
        (WrapperFileState::Nothing, BatchJobState::Waiting | BatchJobState::Requeued) => {
            AttemptEnd::Queued
        }
        // A controller that was killed forgot that it started this: nobody puts a job back into the
        // queue that was submitted not to be.
        (WrapperFileState::Success, BatchJobState::Waiting | BatchJobState::NeverRuns) => {
            end_if_sure(settled, AttemptEnd::Succeeded)
        }
        (WrapperFileState::Failure, BatchJobState::Waiting | BatchJobState::NeverRuns) => {
            end_if_sure(settled, AttemptEnd::Failed)
        }
        // Its wrapper waited a moment for a request to end, and there was none: that controller
        // starts it anew, and calls it cancelled because its node will not.
        (WrapperFileState::Success, BatchJobState::Cancelled) => AttemptEnd::Succeeded,
        // It ran, or waited at its gate, and its directory is taken for any that comes again.
        (left, word) if word.is_in_queue() && left != WrapperFileState::Nothing => {
            end_if_sure(settled, AttemptEnd::Ended(SiteEndReason::Requeued))
        }
        (left, BatchJobState::Running | BatchJobState::Completing)
            if !left.may_be_ended_from_outside() =>
        {
            AttemptEnd::Standing
        }
        (WrapperFileState::Nothing, BatchJobState::Forgotten) => AttemptEnd::Absent,
        // Slurm also reports this for a job whose payload killed its wrapper.
        (WrapperFileState::Spoiled | WrapperFileState::Begun, BatchJobState::LaunchFailed) => {
            interpret_own_end(left, word, settled)
        }
        (left, word) => match word.outside_end_reason() {
            // A job in the queue has no files that could come late, but reasons pass.
            Some(why) if left.may_be_ended_from_outside() => AttemptEnd::Ended(why),
            Some(why) => end_if_sure(settled, AttemptEnd::Ended(why)),
            None => interpret_own_end(left, word, settled),
        },
    }
}

/// Interprets the end of an attempt that nobody is reported to have ended.
fn interpret_own_end(left: WrapperFileState, word: BatchJobState, settled: bool) -> AttemptEnd {
    // While it is tidied up, an end from outside may still be reported.
    let stands = settled || !word.is_active();
    match left {
        // A wrapper that wrote this ends well: it was ended right after that, or never wrote it.
        WrapperFileState::Success if word == BatchJobState::Failed => AttemptEnd::Lost,
        WrapperFileState::Success => end_if_sure(stands, AttemptEnd::Succeeded),
        // A payload's own exit would look different: somebody asked it to end.
        WrapperFileState::Terminated if word == BatchJobState::Forgotten => {
            AttemptEnd::Ended(SiteEndReason::Cancelled)
        }
        // Its wrapper heard of no such request. Accounts may say that there was one.
        WrapperFileState::Killed if word == BatchJobState::Forgotten => {
            end_if_sure(settled, AttemptEnd::Failed)
        }
        WrapperFileState::Failure | WrapperFileState::Killed | WrapperFileState::Terminated => {
            end_if_sure(stands, AttemptEnd::Failed)
        }
        WrapperFileState::Spoiled => {
            end_if_sure(settled, AttemptEnd::Ended(SiteEndReason::Spoiled))
        }
        // A batch system that reports this knows its nodes: all is well with them. Only the payload
        // runs beside the wrapper, and could end it.
        WrapperFileState::Begun if word != BatchJobState::Forgotten => {
            end_if_sure(settled, AttemptEnd::Ended(SiteEndReason::WrapperKilled))
        }
        _ => end_if_sure(settled, AttemptEnd::Lost),
    }
}

fn end_if_sure(is_sure: bool, end: AttemptEnd) -> AttemptEnd {
    if is_sure { end } else { AttemptEnd::Untold }
}

/// Formats the table of the book.
pub fn format_end_table() -> String {
    let mut out = "| the batch system says |".to_owned();
    let columns = WrapperFileState::ALL;
    columns
        .iter()
        .for_each(|left| write_table_cell(&mut out, left.as_str()));
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(columns.len()));
    for word in BatchJobState::ALL {
        out.push_str("\n| ");
        out.push_str(word.as_str());
        out.push_str(" |");
        for left in columns {
            let early = interpret_end(word, left, false);
            let late = interpret_end(word, left, true);
            let wait = if early == late { "" } else { "… " };
            write_table_cell(&mut out, &format!("{wait}{late}"));
        }
    }
    out.push('\n');
    out
}

fn write_table_cell(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, " {text} |");
}
