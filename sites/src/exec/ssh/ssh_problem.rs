//! Faults that keep a site from being reached over SSH, and what its operator can do about them.

use std::io;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshProblemKind {
    /// There is no client of SSH on this machine.
    NoClient,
    /// The name of the host is not known.
    Name,
    /// Nobody answers there.
    Network,
    /// The host's key is not known here.
    HostKeyUnknown,
    /// The host has another key than it had.
    HostKeyChanged,
    /// Our credentials have expired.
    Expired,
    /// The host does not let us in.
    Denied,
    /// The host allows too few sessions on one connection.
    Sessions,
    /// Start files at the other end, or its shell, are at fault.
    Shell,
    /// Something else.
    Other,
}

/// Parts of messages, the more particular ones first.
const SIGNS: [(&str, SshProblemKind); 26] = [
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        SshProblemKind::HostKeyChanged,
    ),
    ("host key for", SshProblemKind::HostKeyChanged),
    (
        "Host key verification failed",
        SshProblemKind::HostKeyUnknown,
    ),
    ("host key is known", SshProblemKind::HostKeyUnknown),
    ("certificate has expired", SshProblemKind::Expired),
    ("Certificate invalid: expired", SshProblemKind::Expired),
    ("Ticket expired", SshProblemKind::Expired),
    ("Credentials cache", SshProblemKind::Expired),
    ("credentials have expired", SshProblemKind::Expired),
    ("No Kerberos credentials available", SshProblemKind::Expired),
    ("agent refused operation", SshProblemKind::Expired),
    ("Permission denied", SshProblemKind::Denied),
    ("Too many authentication failures", SshProblemKind::Denied),
    ("No more authentication methods", SshProblemKind::Denied),
    ("Session open refused", SshProblemKind::Sessions),
    ("Could not resolve hostname", SshProblemKind::Name),
    ("Connection refused", SshProblemKind::Network),
    ("timed out", SshProblemKind::Network),
    ("No route to host", SshProblemKind::Network),
    ("Network is unreachable", SshProblemKind::Network),
    ("Connection reset", SshProblemKind::Network),
    ("Connection closed", SshProblemKind::Network),
    ("Broken pipe", SshProblemKind::Network),
    ("start files", SshProblemKind::Shell),
    ("its shell ended", SshProblemKind::Shell),
    ("/bin/sh", SshProblemKind::Shell),
];

/// A fault, and the message about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshProblem {
    /// The kind of the fault.
    pub kind: SshProblemKind,
    /// The message, without the lines that say nothing.
    pub said: String,
}

impl SshProblem {
    /// Interprets a message of the client.
    pub fn from_message(said: &str) -> Self {
        let sign = SIGNS.iter().find(|(part, _)| said.contains(part));
        // Other lines around a sign are no news.
        let lines = said.split("; ").map(|line| line.trim_matches(['@', ' ']));
        let telling: Vec<&str> = lines
            .filter(|line: &&str| SIGNS.iter().any(|(part, _)| line.contains(part)))
            .take(2)
            .collect();
        let said = if telling.is_empty() {
            said.to_owned()
        } else {
            telling.join("; ")
        };
        Self {
            kind: sign.map_or(SshProblemKind::Other, |(_, kind)| *kind),
            said,
        }
    }

    pub(super) fn from_missing_client(error: &io::Error) -> Self {
        Self {
            kind: SshProblemKind::NoClient,
            said: format!("ssh cannot be started: {error}"),
        }
    }

    /// Returns true if a person must first prove who we are, or who the host is.
    pub(super) fn is_about_trust(&self) -> bool {
        match self.kind {
            SshProblemKind::HostKeyUnknown
            | SshProblemKind::HostKeyChanged
            | SshProblemKind::Expired
            | SshProblemKind::Denied => true,
            SshProblemKind::NoClient
            | SshProblemKind::Name
            | SshProblemKind::Network
            | SshProblemKind::Sessions
            | SshProblemKind::Shell
            | SshProblemKind::Other => false,
        }
    }

    /// Returns what to do, for somebody who gets there by typing `by_hand`.
    pub fn advise(&self, by_hand: &str) -> String {
        match self.kind {
            SshProblemKind::NoClient => "install OpenSSH's client (the program ssh)".to_owned(),
            SshProblemKind::Name => format!(
                "correct `ssh` of the site, or add a Host section to the SSH configuration of the \
                 account that runs the server; `{by_hand} true` must work"
            ),
            SshProblemKind::Network => format!(
                "see if the login node is up and may be reached from here: `{by_hand} true`"
            ),
            SshProblemKind::HostKeyUnknown => format!(
                "log in once by hand and compare the key with the one that the site publishes: \
                 `{by_hand}`"
            ),
            SshProblemKind::HostKeyChanged => format!(
                "ask the site's operators whether its key really changed; only then take out the \
                 old one (ssh-keygen -R) and log in once by hand: `{by_hand}`"
            ),
            SshProblemKind::Expired => format!(
                "renew what lets you in (a certificate, a ticket: kinit, a key: ssh-add), as the \
                 account that runs the server; `{by_hand} true` must work without a question. Jobs \
                 wait until then"
            ),
            SshProblemKind::Denied => format!(
                "as the account that runs the server make `{by_hand} true` work without a \
                 question: renew what has expired, add the key to the agent (ssh-add), or to \
                 authorized_keys at the site. Jobs wait until then"
            ),
            SshProblemKind::Sessions => {
                "ask for MaxSessions of at least 3 at the site's sshd, or give the \
                               site a Host section of its own"
                    .to_owned()
            }
            SshProblemKind::Shell => format!(
                "`{by_hand} /bin/sh -s` must give a POSIX shell: start files that ask, wait or \
                 leave must not do so without a terminal"
            ),
            SshProblemKind::Other => format!("see what `{by_hand} true` says"),
        }
    }

    /// Says what went wrong at this host, and what to do.
    pub fn explain_at(&self, host: &str, by_hand: &str) -> String {
        format!(
            "no connection to {host}: {}; {}",
            self.said,
            self.advise(by_hand)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_says_is_known_for_what_it_means() {
        for (said, kind) in [
            (
                "me@there: Permission denied (publickey).",
                SshProblemKind::Denied,
            ),
            (
                "Host key verification failed.",
                SshProblemKind::HostKeyUnknown,
            ),
            (
                "@@@@; @ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @; Host key \
                 verification failed.",
                SshProblemKind::HostKeyChanged,
            ),
            (
                "ssh: Could not resolve hostname nowhere: Name or service not known",
                SshProblemKind::Name,
            ),
            (
                "ssh: connect to host 127.0.0.2 port 1: Connection refused",
                SshProblemKind::Network,
            ),
            (
                "mux_client_request_session: session request failed: Session open refused by peer",
                SshProblemKind::Sessions,
            ),
            ("something new", SshProblemKind::Other),
        ] {
            assert_eq!(SshProblem::from_message(said).kind, kind, "{said}");
        }
    }

    #[test]
    fn operators_are_told_what_to_type() {
        let trouble = SshProblem::from_message("me@there: Permission denied (publickey).");
        let told = trouble.explain_at("there", "ssh there");
        assert!(told.contains("`ssh there true`"), "{told}");
    }
}
