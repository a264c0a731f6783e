//! Every kind of trouble that can strike, listed once: whoever draws it, brings it, counts
//! it, or asks whether it struck takes it from here.

/// Writes the list down as an enum, with the names that tables show.
macro_rules! kinds {
    ($($place:ident { $($(#[$doc:meta])* $kind:ident = $name:literal,)* })*) => {
        /// A kind of trouble.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind {
            $($($(#[$doc])* $kind,)*)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[FaultKind] = &[$($(FaultKind::$kind,)*)*];

            /// Its name, for tables.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(FaultKind::$kind => $name,)*)*
                }
            }

            /// Where it strikes.
            pub fn place(self) -> FaultTarget {
                match self {
                    $($(FaultKind::$kind)|* => FaultTarget::$place,)*
                }
            }
        }
    };
}

/// Where trouble strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTarget {
    /// One call to a site, on its way there or back.
    Call,
    /// A site, or a link from it.
    Site,
    /// The control plane, which is killed.
    Death,
    /// The disk of its store.
    Disk,
    /// What users do.
    User,
    /// An actor.
    Actor,
    /// Calls of a server that rehearses, and of nobody else.
    Rehearsal,
}

kinds! {
    Call {
        /// The request never arrives; the caller learns nothing before its deadline.
        RequestLost = "request-lost",
        /// It was carried out; the reply never comes back.
        ReplyLost = "reply-lost",
        /// It arrives after the caller has given up, and is carried out then.
        Late = "late",
        /// It arrives twice, the second time some seconds later; the reply may be lost.
        Doubled = "doubled",
        /// The site refuses without a reason.
        Refused = "refused",
        /// The connection is refused: certainly not done.
        NotSent = "not-sent",
        /// A status is cut short: it tells nothing of some attempts.
        Truncated = "truncated",
        /// A status shows no idle processors although there are some, or more than there are.
        WrongIdle = "wrong-idle",
        /// It was carried out; what came back cannot be read.
        Garbage = "garbage",
        /// The answer is that it was done, and it was not.
        NoEffect = "no-effect",
        /// A reservation is granted for another start than was asked for.
        WrongStart = "wrong-start",
        /// The adapter of the site panics.
        AdapterPanics = "adapter-panics",
    }
    Site {
        /// A node dies.
        NodeDown = "node-down",
        /// Every node dies.
        SiteDown = "site-down",
        /// The site answers no more.
        Silent = "silent",
        /// No way leads to the site.
        CutOff = "cut-off",
        /// It takes requests and carries out none of them.
        Frozen = "frozen",
        /// It does not let our account in.
        Revoked = "revoked",
        /// It shows what was so some time ago.
        Stale = "stale",
        /// Its scheduler loses what it acknowledged last.
        Forgets = "forgets",
        /// Its scheduler starts nothing.
        Drained = "drained",
        /// Its clock is wrong.
        SiteClock = "site-clock",
        /// It loses all reservations without a word.
        LosesLeases = "loses-leases",
        /// A link carries less, or nothing.
        Link = "link",
        /// What a link carries arrives damaged.
        Corrupts = "corrupts",
        /// Its disk takes no copy.
        DiskFull = "disk-full",
    }
    Death {
        /// In front of a call to a site.
        KilledBeforeCall = "killed-before-call",
        /// Right after a site has carried a call out.
        KilledAfterCall = "killed-after-call",
        /// In front of an append.
        KilledBeforeAppend = "killed-before-append",
        /// Right after an append is durable.
        KilledAfterAppend = "killed-after-append",
        /// Right after one gate of a round was opened, before the next.
        KilledBetweenGates = "killed-between-gates",
    }
    Disk {
        /// A sync fails.
        SyncFails = "sync-fails",
        /// What was not synced at a death is not there.
        LostSuffix = "lost-suffix",
        /// Of a record that was being written at a death there is a part.
        TornTail = "torn-tail",
        /// A record cannot be written.
        WriteFails = "write-fails",
        /// There is no room.
        StoreFull = "store-full",
    }
    User {
        /// They submit again what was taken.
        SubmittedAgain = "submitted-again",
        /// They cancel.
        Cancel = "cancel",
        /// They abandon.
        Abandon = "abandon",
        /// They freeze.
        Freeze = "freeze",
        /// They thaw.
        Thaw = "thaw",
        /// They raise the priority.
        Raise = "raise",
        /// The intake has no room for what they ask.
        IntakeFull = "intake-full",
    }
    Actor {
        /// It takes no message for a while.
        ActorStalls = "actor-stalls",
        /// The same, and senders find its mailbox full.
        MailboxFull = "mailbox-full",
        /// It panics; only in a build with crash points.
        ActorPanics = "actor-panics",
    }
    Rehearsal {
        /// The site has no room for one more batch job.
        SiteFull = "site-full",
    }
}

impl FaultKind {
    /// The kinds that strike there.
    pub fn of(place: FaultTarget) -> impl Iterator<Item = FaultKind> {
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
