//! Interprets the end of an attempt: the report of a batch system on its job and the files of its
//! wrapper, judged together.
//!
//! Success is what nothing contradicts. An end from outside is nobody's error, unless a node failed
//! or the site could not start the attempt, or the job took more memory than it asked for; whatever
//! its payload did when it was asked to end. An end that the wrapper made by itself stands, and so
//! does a success that was there before anybody asked it to end.

use std::fmt::{self, Write as _};

use crate::port::{EndedBySite, ErrorBlame};

/// The report of a batch system on an attempt's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchState {
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

impl BatchState {
    /// All of them, in the order of the book.
    pub const ALL: [BatchState; 16] = [
        BatchState::Waiting,
        BatchState::NeverRuns,
        BatchState::Requeued,
        BatchState::Running,
        BatchState::Completing,
        BatchState::Completed,
        BatchState::Failed,
        BatchState::Cancelled,
        BatchState::Preempted,
        BatchState::TimeLimit,
        BatchState::Deadline,
        BatchState::NodeFailed,
        BatchState::BootFailed,
        BatchState::LaunchFailed,
        BatchState::OutOfMemory,
        BatchState::Forgotten,
    ];

    /// Returns true if such a job may still do something, or be started.
    pub fn is_active(self) -> bool {
        self.is_in_queue() || matches!(self, BatchState::Running | BatchState::Completing)
    }

    /// Returns true if it is in the queue.
    pub fn is_in_queue(self) -> bool {
        matches!(
            self,
            BatchState::Waiting | BatchState::NeverRuns | BatchState::Requeued
        )
    }

    /// Returns who or what ended it from outside, if the report says so.
    fn ended_from_outside(self) -> Option<EndedBySite> {
        Some(match self {
            BatchState::NeverRuns => EndedBySite::NeverRuns,
            BatchState::Cancelled => EndedBySite::Cancelled,
            BatchState::Preempted => EndedBySite::Preempted,
            BatchState::Requeued => EndedBySite::Requeued,
            BatchState::TimeLimit | BatchState::Deadline => EndedBySite::TimeLimit,
            BatchState::NodeFailed | BatchState::BootFailed => EndedBySite::NodeFailed,
            BatchState::LaunchFailed => EndedBySite::LaunchFailed,
            BatchState::OutOfMemory => EndedBySite::OutOfMemory,
            BatchState::Forgotten
            | BatchState::Waiting
            | BatchState::Running
            | BatchState::Completing
            | BatchState::Completed
            | BatchState::Failed => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            BatchState::Forgotten => "not known any more",
            BatchState::Waiting => "waiting",
            BatchState::NeverRuns => "waiting, can never run",
            BatchState::Running => "running",
            BatchState::Completing => "being tidied up",
            BatchState::Completed => "completed",
            BatchState::Failed => "failed",
            BatchState::Cancelled => "cancelled",
            BatchState::Preempted => "preempted",
            BatchState::Requeued => "requeued",
            BatchState::TimeLimit => "time limit",
            BatchState::Deadline => "deadline",
            BatchState::NodeFailed => "node failed",
            BatchState::BootFailed => "node did not start",
            BatchState::LaunchFailed => "launch failed",
            BatchState::OutOfMemory => "out of memory",
        }
    }
}

/// The files that a wrapper left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrapperTraces {
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

impl WrapperTraces {
    /// All of them, in the order of the book.
    pub const ALL: [WrapperTraces; 13] = [
        WrapperTraces::Nothing,
        WrapperTraces::AtGate,
        WrapperTraces::Begun,
        WrapperTraces::Trouble,
        WrapperTraces::Spoiled,
        WrapperTraces::Success,
        WrapperTraces::Failure,
        WrapperTraces::Killed,
        WrapperTraces::Terminated,
        WrapperTraces::WallTime,
        WrapperTraces::Unstarted,
        WrapperTraces::TooLate,
        WrapperTraces::Void,
    ];

    /// Returns true for the end of a payload that may have come from outside.
    pub(crate) fn is_exit(self) -> bool {
        matches!(
            self,
            WrapperTraces::Success
                | WrapperTraces::Failure
                | WrapperTraces::Killed
                | WrapperTraces::Terminated
        )
    }

    fn as_str(self) -> &'static str {
        match self {
            WrapperTraces::Nothing => "nothing",
            WrapperTraces::AtGate => "came to its gate",
            WrapperTraces::Begun => "began",
            WrapperTraces::Trouble => "trouble",
            WrapperTraces::Spoiled => "unreadable",
            WrapperTraces::Void => "void",
            WrapperTraces::Success => "code 0",
            WrapperTraces::Failure => "code, signal",
            WrapperTraces::Killed => "TERM or KILL",
            WrapperTraces::Terminated => "told to end",
            WrapperTraces::WallTime => "wall time",
            WrapperTraces::Unstarted => "could not start",
            WrapperTraces::TooLate => "too late",
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
    Ended(EndedBySite),
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
pub fn interpret_end(word: BatchState, left: WrapperTraces, settled: bool) -> AttemptEnd {
    match (left, word) {
        // It cannot begin any more, and must be taken out of the queue all the same.
        (WrapperTraces::Void, word) if word.is_in_queue() => AttemptEnd::Queued,
        (WrapperTraces::Void, _) => AttemptEnd::Void,
        (WrapperTraces::WallTime | WrapperTraces::Unstarted, _) => AttemptEnd::Failed,
        (WrapperTraces::TooLate, _) => AttemptEnd::TooLate,
        (WrapperTraces::Nothing, BatchState::Waiting | BatchState::Requeued) => AttemptEnd::Queued,
        // A controller that was killed forgot that it started this: nobody puts a job back into the
        // queue that was submitted not to be.
        (WrapperTraces::Success, BatchState::Waiting | BatchState::NeverRuns) => {
            tell_if(settled, AttemptEnd::Succeeded)
        }
        (WrapperTraces::Failure, BatchState::Waiting | BatchState::NeverRuns) => {
            tell_if(settled, AttemptEnd::Failed)
        }
        // Its wrapper waited a moment for a request to end, and there was none: that controller
        // starts it anew, and calls it cancelled because its node will not.
        (WrapperTraces::Success, BatchState::Cancelled) => AttemptEnd::Succeeded,
        // It ran, or waited at its gate, and its directory is taken for any that comes again.
        (left, word) if word.is_in_queue() && left != WrapperTraces::Nothing => {
            tell_if(settled, AttemptEnd::Ended(EndedBySite::Requeued))
        }
        (left, BatchState::Running | BatchState::Completing) if !left.is_exit() => {
            AttemptEnd::Standing
        }
        (WrapperTraces::Nothing, BatchState::Forgotten) => AttemptEnd::Absent,
        // Slurm also reports this for a job whose payload killed its wrapper.
        (WrapperTraces::Spoiled | WrapperTraces::Begun, BatchState::LaunchFailed) => {
            interpret_own_end(left, word, settled)
        }
        (left, word) => match word.ended_from_outside() {
            // A job in the queue has no files that could come late, but reasons pass.
            Some(why) if left.is_exit() => AttemptEnd::Ended(why),
            Some(why) => tell_if(settled, AttemptEnd::Ended(why)),
            None => interpret_own_end(left, word, settled),
        },
    }
}

/// Interprets the end of an attempt that nobody is reported to have ended.
fn interpret_own_end(left: WrapperTraces, word: BatchState, settled: bool) -> AttemptEnd {
    // While it is tidied up, an end from outside may still be reported.
    let stands = settled || !word.is_active();
    match left {
        // A wrapper that wrote this ends well: it was ended right after that, or never wrote it.
        WrapperTraces::Success if word == BatchState::Failed => AttemptEnd::Lost,
        WrapperTraces::Success => tell_if(stands, AttemptEnd::Succeeded),
        // A payload's own exit would look different: somebody asked it to end. The signal may have
        // reached the payload before its wrapper.
        WrapperTraces::Terminated | WrapperTraces::Killed if word == BatchState::Forgotten => {
            AttemptEnd::Ended(EndedBySite::Cancelled)
        }
        WrapperTraces::Failure | WrapperTraces::Killed | WrapperTraces::Terminated => {
            tell_if(stands, AttemptEnd::Failed)
        }
        WrapperTraces::Spoiled => tell_if(settled, AttemptEnd::Ended(EndedBySite::Spoiled)),
        // A batch system that reports this knows its nodes: all is well with them. Only the payload
        // runs beside the wrapper, and could end it.
        WrapperTraces::Begun if word != BatchState::Forgotten => {
            tell_if(settled, AttemptEnd::Ended(EndedBySite::WrapperKilled))
        }
        _ => tell_if(settled, AttemptEnd::Lost),
    }
}

fn tell_if(is_sure: bool, end: AttemptEnd) -> AttemptEnd {
    if is_sure { end } else { AttemptEnd::Untold }
}

/// Formats the table of the book.
pub fn to_markdown() -> String {
    let mut out = "| the batch system says |".to_owned();
    let columns = WrapperTraces::ALL;
    columns
        .iter()
        .for_each(|left| write_cell(&mut out, left.as_str()));
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(columns.len()));
    for word in BatchState::ALL {
        out.push_str("\n| ");
        out.push_str(word.as_str());
        out.push_str(" |");
        for left in columns {
            let early = interpret_end(word, left, false);
            let late = interpret_end(word, left, true);
            let wait = if early == late { "" } else { "… " };
            write_cell(&mut out, &format!("{wait}{late}"));
        }
    }
    out.push('\n');
    out
}

fn write_cell(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, " {text} |");
}
