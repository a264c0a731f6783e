//! What an attempt's end means: what a batch system says of its job and what its wrapper left,
//! judged together.
//!
//! Success is what nothing contradicts. What was ended from outside is nobody's error, unless a
//! node failed or the site could not start it, or the job took more memory than it asked for;
//! whatever its payload did when it was told to end. What the wrapper ended by itself stands, and
//! so does a success that was there before anybody told it to end.

use std::fmt::{self, Write as _};

use crate::port::{Blame, EndedBySite};

/// What a batch system says of an attempt's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// It does not know it any more.
    Forgotten,
    /// In the queue, and may begin.
    Waiting,
    /// In the queue, for a reason that no waiting removes.
    NeverRuns,
    /// Its processes run, or are stopped for a while.
    Running,
    /// It is being tidied up; why it ended is not said yet.
    Completing,
    /// It ended by itself, and its wrapper said that all is well.
    Completed,
    /// It ended by itself, and its wrapper did not.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its processors went to another job.
    Preempted,
    /// It was ended, and put back into the queue.
    Requeued,
    /// It ran longer than it was given.
    TimeLimit,
    /// It could not be over by the time that was asked for.
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

impl Word {
    /// All of them, in the order of the book.
    pub const ALL: [Word; 16] = [
        Word::Waiting,
        Word::NeverRuns,
        Word::Requeued,
        Word::Running,
        Word::Completing,
        Word::Completed,
        Word::Failed,
        Word::Cancelled,
        Word::Preempted,
        Word::TimeLimit,
        Word::Deadline,
        Word::NodeFailed,
        Word::BootFailed,
        Word::LaunchFailed,
        Word::OutOfMemory,
        Word::Forgotten,
    ];

    /// Whether a job of which this is said may still do something, or be started.
    pub fn is_active(self) -> bool {
        self.is_in_queue() || matches!(self, Word::Running | Word::Completing)
    }

    /// Whether it is in the queue.
    pub fn is_in_queue(self) -> bool {
        matches!(self, Word::Waiting | Word::NeverRuns | Word::Requeued)
    }

    /// Who or what ended it from outside, if that is what is said.
    fn outside(self) -> Option<EndedBySite> {
        Some(match self {
            Word::NeverRuns => EndedBySite::NeverRuns,
            Word::Cancelled => EndedBySite::Cancelled,
            Word::Preempted => EndedBySite::Preempted,
            Word::Requeued => EndedBySite::Requeued,
            Word::TimeLimit | Word::Deadline => EndedBySite::TimeLimit,
            Word::NodeFailed | Word::BootFailed => EndedBySite::NodeFailed,
            Word::LaunchFailed => EndedBySite::LaunchFailed,
            Word::OutOfMemory => EndedBySite::OutOfMemory,
            Word::Forgotten
            | Word::Waiting
            | Word::Running
            | Word::Completing
            | Word::Completed
            | Word::Failed => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Word::Forgotten => "not known any more",
            Word::Waiting => "waiting",
            Word::NeverRuns => "waiting, can never run",
            Word::Running => "running",
            Word::Completing => "being tidied up",
            Word::Completed => "completed",
            Word::Failed => "failed",
            Word::Cancelled => "cancelled",
            Word::Preempted => "preempted",
            Word::Requeued => "requeued",
            Word::TimeLimit => "time limit",
            Word::Deadline => "deadline",
            Word::NodeFailed => "node failed",
            Word::BootFailed => "node did not start",
            Word::LaunchFailed => "launch failed",
            Word::OutOfMemory => "out of memory",
        }
    }
}

/// What a wrapper left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Not even its directory.
    Nothing,
    /// It came to its gate at most.
    AtGate,
    /// Its payload began, and no more is known.
    Begun,
    /// Why the site could not run it.
    Trouble,
    /// A state file that is there and cannot be read, or was not written by the wrapper: the
    /// last word of one that is over.
    Spoiled,
    /// Its gate was closed for ever.
    Void,
    /// Its payload exited with code 0.
    Success,
    /// Its payload exited with another code, or a signal ended it.
    Failure,
    /// A signal ended it with which batch systems end jobs: TERM or KILL.
    Killed,
    /// The wrapper ended it because it was told to.
    Terminated,
    /// The wrapper ended it at the job's wall time.
    WallTime,
    /// The wrapper found that it could not be started.
    Unstarted,
    /// The wrapper came to its open gate after the last moment, and started nothing.
    TooLate,
}

impl Left {
    /// All of them, in the order of the book.
    pub const ALL: [Left; 13] = [
        Left::Nothing,
        Left::AtGate,
        Left::Begun,
        Left::Trouble,
        Left::Spoiled,
        Left::Success,
        Left::Failure,
        Left::Killed,
        Left::Terminated,
        Left::WallTime,
        Left::Unstarted,
        Left::TooLate,
        Left::Void,
    ];

    /// How a payload ended that may have been ended from outside.
    pub(crate) fn is_exit(self) -> bool {
        matches!(
            self,
            Left::Success | Left::Failure | Left::Killed | Left::Terminated
        )
    }

    fn as_str(self) -> &'static str {
        match self {
            Left::Nothing => "nothing",
            Left::AtGate => "came to its gate",
            Left::Begun => "began",
            Left::Trouble => "trouble",
            Left::Spoiled => "unreadable",
            Left::Void => "void",
            Left::Success => "code 0",
            Left::Failure => "code, signal",
            Left::Killed => "TERM or KILL",
            Left::Terminated => "told to end",
            Left::WallTime => "wall time",
            Left::Unstarted => "could not start",
            Left::TooLate => "too late",
        }
    }
}

/// What both together mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is there, and never was or is removed.
    Absent,
    /// Not to be said yet: one of both is about to say more.
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
    /// The site's error: lost without a word that counts.
    Lost,
}

impl Verdict {
    /// Whose error it is, if it is one or ends an attempt without success.
    pub fn blame(self) -> Option<Blame> {
        match self {
            Verdict::Failed => Some(Blame::Job),
            Verdict::Lost => Some(Blame::Site),
            Verdict::TooLate | Verdict::Void => Some(Blame::Nobody),
            Verdict::Ended(why) => Some(why.blame()),
            Verdict::Absent
            | Verdict::Untold
            | Verdict::Queued
            | Verdict::Standing
            | Verdict::Succeeded => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blame = match self.blame() {
            Some(Blame::Job) => "job",
            Some(Blame::Site) => "site",
            Some(Blame::Nobody) => "nobody",
            None => "",
        };
        match self {
            Verdict::Absent => f.write_str("absent"),
            Verdict::Untold => f.write_str("not known yet"),
            Verdict::Queued => f.write_str("waits"),
            Verdict::Standing => f.write_str("goes on"),
            Verdict::Succeeded => f.write_str("**succeeded**"),
            Verdict::Void | Verdict::TooLate => write!(f, "{blame}: never ran"),
            Verdict::Failed => f.write_str(blame),
            Verdict::Ended(why) => write!(f, "{blame}: {}", why.as_str()),
            Verdict::Lost => write!(f, "{blame}: lost"),
        }
    }
}

/// What an attempt's end means. `settled`: what is awaited has had its time, files to appear
/// and the batch system to say why.
pub fn verdict(word: Word, left: Left, settled: bool) -> Verdict {
    let told = |verdict| if settled { verdict } else { Verdict::Untold };
    match (left, word) {
        // It cannot begin any more, and must be taken out of the queue all the same.
        (Left::Void, word) if word.is_in_queue() => Verdict::Queued,
        (Left::Void, _) => Verdict::Void,
        (Left::WallTime | Left::Unstarted, _) => Verdict::Failed,
        (Left::TooLate, _) => Verdict::TooLate,
        (Left::Nothing, Word::Waiting | Word::Requeued) => Verdict::Queued,
        // A controller that was killed forgot that it started this: nobody puts back into the
        // queue what was submitted not to be.
        (Left::Success, Word::Waiting | Word::NeverRuns) => told(Verdict::Succeeded),
        (Left::Failure, Word::Waiting | Word::NeverRuns) => told(Verdict::Failed),
        // Its wrapper listened for a moment whether it was told to end, and was not: that controller
        // starts it anew, and calls it cancelled because its node will not.
        (Left::Success, Word::Cancelled) => Verdict::Succeeded,
        // It ran, or waited at its gate, and its directory is taken for whoever comes again.
        (left, word) if word.is_in_queue() && left != Left::Nothing => {
            told(Verdict::Ended(EndedBySite::Requeued))
        }
        (left, Word::Running | Word::Completing) if !left.is_exit() => Verdict::Standing,
        (Left::Nothing, Word::Forgotten) => Verdict::Absent,
        // Slurm says so too of a job whose payload killed its wrapper.
        (Left::Spoiled | Left::Begun, Word::LaunchFailed) => by_itself(left, word, settled),
        (left, word) => match word.outside() {
            // What is in the queue has no files that could come late, but reasons pass.
            Some(why) if left.is_exit() => Verdict::Ended(why),
            Some(why) => told(Verdict::Ended(why)),
            None => by_itself(left, word, settled),
        },
    }
}

/// One that nobody is said to have ended.
fn by_itself(left: Left, word: Word, settled: bool) -> Verdict {
    let told = |verdict| if settled { verdict } else { Verdict::Untold };
    // While it is tidied up, that it was ended from outside may still be said.
    let stands = |verdict| {
        if word.is_active() {
            told(verdict)
        } else {
            verdict
        }
    };
    match left {
        // A wrapper that wrote this ends well: it was ended right behind it, or never wrote it.
        Left::Success if word == Word::Failed => Verdict::Lost,
        Left::Success => stands(Verdict::Succeeded),
        // Whoever told it to end did not do so through a payload's own exit. The signal may have
        // come to the payload before its wrapper heard of it.
        Left::Terminated | Left::Killed if word == Word::Forgotten => {
            Verdict::Ended(EndedBySite::Cancelled)
        }
        Left::Failure | Left::Killed | Left::Terminated => stands(Verdict::Failed),
        Left::Spoiled => told(Verdict::Ended(EndedBySite::Spoiled)),
        // Whoever says so knows of its nodes: with them all is well. Who runs beside a payload, and
        // could end the wrapper, is that payload.
        Left::Begun if word != Word::Forgotten => told(Verdict::Ended(EndedBySite::WrapperKilled)),
        _ => told(Verdict::Lost),
    }
}

/// The table of the book.
pub fn to_markdown() -> String {
    let mut out = "| the batch system says |".to_owned();
    let columns = Left::ALL;
    columns
        .iter()
        .for_each(|left| cell(&mut out, left.as_str()));
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(columns.len()));
    for word in Word::ALL {
        out.push_str("\n| ");
        out.push_str(word.as_str());
        out.push_str(" |");
        for left in columns {
            let (early, late) = (verdict(word, left, false), verdict(word, left, true));
            let wait = if early == late { "" } else { "… " };
            cell(&mut out, &format!("{wait}{late}"));
        }
    }
    out.push('\n');
    out
}

fn cell(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, " {text} |");
}
