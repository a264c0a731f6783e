//! Every kind of fault that can be injected, listed once: the code that draws, injects, counts or
//! asks about faults takes the kinds from here.

/// Declares the enum of the kinds, with the names that tables show.
macro_rules! kinds {
    ($($place:ident { $($(#[$doc:meta])* $kind:ident = $name:literal,)* })*) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind {
            $($($(#[$doc])* $kind,)*)*
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &[FaultKind] = &[$($(FaultKind::$kind,)*)*];

            /// Returns the name of the kind, for tables.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(FaultKind::$kind => $name,)*)*
                }
            }

            /// Returns the place of the fault.
            pub fn place(self) -> FaultTarget {
                match self {
                    $($(FaultKind::$kind)|* => FaultTarget::$place,)*
                }
            }
        }
    };
}

/// The place at which a fault takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTarget {
    /// A call to a site, on its way there or back.
    Call,
    /// A site, or a link from it.
    Site,
    /// The control plane, which is killed.
    Death,
    /// The disk of its store.
    Disk,
    /// The actions of users.
    User,
    /// An actor.
    Actor,
    /// Calls of a server in a rehearsal, and no others.
    Rehearsal,
}

kinds! {
    Call {
        /// The request never arrives; the caller learns nothing before its deadline.
        RequestLost = "request-lost",
        /// The call was carried out; the reply never comes back.
        ReplyLost = "reply-lost",
        /// The request arrives after the caller has given up, and is carried out then.
        Late = "late",
        /// The request arrives twice, the second time some seconds later; the reply may be lost.
        Doubled = "doubled",
        /// The site refuses without a reason.
        Refused = "refused",
        /// The connection is refused: the call is certainly not carried out.
        NotSent = "not-sent",
        /// A status is cut short: it omits some attempts.
        Truncated = "truncated",
        /// A status shows no idle processors although there are some, or more than there are.
        WrongIdle = "wrong-idle",
        /// The call was carried out; the reply cannot be read.
        Garbage = "garbage",
        /// The answer says that the call was carried out, but it was not.
        NoEffect = "no-effect",
        /// A reservation is offered for another start than requested.
        WrongStart = "wrong-start",
        /// The adapter of the site panics.
        AdapterPanics = "adapter-panics",
    }
    Site {
        /// A node dies.
        NodeDown = "node-down",
        /// Every node dies.
        SiteDown = "site-down",
        /// The site does not answer.
        Silent = "silent",
        /// The site cannot be reached.
        CutOff = "cut-off",
        /// The site accepts requests and carries out none of them.
        Frozen = "frozen",
        /// The site rejects our account.
        Revoked = "revoked",
        /// The site shows an old status.
        Stale = "stale",
        /// The batch system loses what it acknowledged last.
        Forgets = "forgets",
        /// The batch system starts nothing.
        Drained = "drained",
        /// The site's clock is wrong.
        SiteClock = "site-clock",
        /// The site loses all reservations without a word.
        LosesLeases = "loses-leases",
        /// A link carries less, or nothing.
        Link = "link",
        /// Content arrives damaged over a link.
        Corrupts = "corrupts",
        /// The site's disk takes no copy.
        DiskFull = "disk-full",
    }
    Death {
        /// Killed before a call to a site.
        KilledBeforeCall = "killed-before-call",
        /// Killed right after a site has carried a call out.
        KilledAfterCall = "killed-after-call",
        /// Killed before an append.
        KilledBeforeAppend = "killed-before-append",
        /// Killed right after an append is durable.
        KilledAfterAppend = "killed-after-append",
        /// Killed right after one gate of a round was opened, before the next.
        KilledBetweenGates = "killed-between-gates",
    }
    Disk {
        /// A sync fails.
        SyncFails = "sync-fails",
        /// Unsynced records are missing after a death.
        LostSuffix = "lost-suffix",
        /// The record that was being written at a death is partly there.
        TornTail = "torn-tail",
        /// A record cannot be written.
        WriteFails = "write-fails",
        /// The store has no room.
        StoreFull = "store-full",
    }
    User {
        /// Users submit again what was accepted.
        SubmittedAgain = "submitted-again",
        /// Users cancel a job.
        Cancel = "cancel",
        /// Users abandon a job.
        Abandon = "abandon",
        /// Users freeze a job.
        Freeze = "freeze",
        /// Users thaw a job.
        Thaw = "thaw",
        /// Users raise a priority.
        Raise = "raise",
        /// The intake has no room for a command.
        IntakeFull = "intake-full",
    }
    Actor {
        /// An actor takes no message for a while.
        ActorStalls = "actor-stalls",
        /// An actor takes no message for a while, and senders find its mailbox full.
        MailboxFull = "mailbox-full",
        /// An actor panics; only in a build with crash points.
        ActorPanics = "actor-panics",
    }
    Rehearsal {
        /// The site has no room for one more batch job.
        SiteFull = "site-full",
    }
}

impl FaultKind {
    /// Lists the kinds of faults of a place.
    pub fn kinds_of_target(place: FaultTarget) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL
            .iter()
            .copied()
            .filter(move |kind| kind.place() == place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_of_trouble_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), FaultKind::ALL.len());
    }
}
