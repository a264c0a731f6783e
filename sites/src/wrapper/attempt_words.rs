//! Words that distinguish what a wrapper wrote from what its payload could write.
//!
//! A payload runs under the account of its wrapper and can write each state file. So those that
//! end an attempt carry a word: the wrapper finds all of them in its parameters and clears these
//! before anything of the payload runs. Anything else that runs under that account can still read
//! them before, or read the wrapper's memory.

use std::fmt;

use cospan_domain::ids::{AttemptTag, JobId};
use cospan_domain::site::barred_owners_record::OWN_PROBE_JOB;

use super::parameters::push_line;

/// Makes and checks the words of a control plane's attempts.
#[derive(Clone, Default)]
pub struct AttemptAuthenticator(Option<AuthenticatorKey>);

#[derive(Clone, Copy)]
struct AuthenticatorKey {
    secret: [u8; 32],
    from: JobId,
}

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthenticatedWordKind {
    /// The word of `exit`.
    Exit,
    /// The word of a `decision` that closes the gate.
    Void,
    /// The word of `ended` if the payload succeeded. What the payload left can read that file, and
    /// finds no word there for an end that it did not have.
    Done,
    /// The word of `ended` if the payload failed.
    Failed,
}

impl AttemptAuthenticator {
    /// Makes words from this secret. Attempts of jobs before `from` may have been begun without
    /// any, by an earlier version, and need none.
    pub fn new(secret: [u8; 32], from: JobId) -> Self {
        Self(Some(AuthenticatorKey { secret, from }))
    }

    /// Needs no words and makes none: for callers that only look.
    pub fn without_words() -> Self {
        Self(None)
    }

    /// Returns the word, if there are any: 32 hexadecimal digits.
    pub(crate) fn make_word(&self, tag: AttemptTag, of: AuthenticatedWordKind) -> Option<String> {
        let AuthenticatorKey { secret, .. } = self.0?;
        let text = format!("{tag} {of:?}");
        Some(blake3::keyed_hash(&secret, text.as_bytes()).to_hex()[..32].to_owned())
    }

    /// Returns true if a file with this word, or with none, was written by a wrapper or an adapter.
    pub(crate) fn accepts_word(
        &self,
        tag: AttemptTag,
        of: AuthenticatedWordKind,
        found: Option<&str>,
    ) -> bool {
        self.0
            .is_none_or(|key: AuthenticatorKey| tag.job < key.from && tag.job != OWN_PROBE_JOB)
            || self.make_word(tag, of).as_deref() == found
    }

    /// Adds lines with all words to parameters.
    pub(crate) fn write_words(&self, out: &mut Vec<u8>, tag: AttemptTag) {
        let lines = [
            (
                "words",
                AuthenticatedWordKind::Exit,
                AuthenticatedWordKind::Void,
            ),
            (
                "ended_words",
                AuthenticatedWordKind::Done,
                AuthenticatedWordKind::Failed,
            ),
        ];
        for (key, first, second) in lines {
            if let (Some(first), Some(second)) =
                (self.make_word(tag, first), self.make_word(tag, second))
            {
                push_line(out, key, &format!("{first} {second}"));
            }
        }
    }
}

/// The secret must never be printed.
impl fmt::Debug for AttemptAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seal")
            .field(&self.0.map(|key| key.from))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_and_each_file_has_a_word_of_its_own() {
        let seal = AttemptAuthenticator::new([7; 32], JobId(3));
        let tags = ["cabcdefgh-5-0-1", "cabcdefgh-5-0-2", "cabcdefgi-5-0-1"];
        let tags = tags.map(|tag| tag.parse::<AttemptTag>().unwrap());
        let words = tags.map(|tag| {
            [AuthenticatedWordKind::Exit, AuthenticatedWordKind::Void]
                .map(|of| seal.make_word(tag, of))
        });
        let distinct: std::collections::BTreeSet<_> = words.as_flattened().iter().collect();
        assert_eq!(distinct.len(), 6);
        assert!(seal.accepts_word(tags[0], AuthenticatedWordKind::Exit, words[0][0].as_deref()));
        assert!(!seal.accepts_word(tags[0], AuthenticatedWordKind::Exit, words[0][1].as_deref()));
        assert!(!seal.accepts_word(tags[0], AuthenticatedWordKind::Exit, None));
        let other = AttemptAuthenticator::new([8; 32], JobId(3));
        assert!(!other.accepts_word(tags[0], AuthenticatedWordKind::Exit, words[0][0].as_deref()));
    }

    #[test]
    fn attempts_from_before_there_were_words_need_none() {
        let seal = AttemptAuthenticator::new([7; 32], JobId(6));
        assert!(seal.accepts_word(
            "cabcdefgh-5-0-9".parse().unwrap(),
            AuthenticatedWordKind::Exit,
            None
        ));
        assert!(!seal.accepts_word(
            "cabcdefgh-6-0-1".parse().unwrap(),
            AuthenticatedWordKind::Exit,
            None
        ));
    }

    #[test]
    fn what_is_printed_of_it_says_nothing_of_the_secret() {
        assert_eq!(
            format!("{:?}", AttemptAuthenticator::new([0x5a; 32], JobId(6))),
            "Seal(Some(JobId(6)), ..)"
        );
    }
}
