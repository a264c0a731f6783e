//! Newtypes, one per name and number, so that they cannot be confused.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// The reason why a text is not the identifier that it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind} {text:?} {problem}")]
pub struct IdentifierError {
    /// The kind of identifier that was expected.
    pub kind: &'static str,
    /// The text as given.
    pub text: String,
    /// The reason why it is not valid.
    pub problem: String,
}

fn invalid(kind: &'static str, text: &str, problem: impl Into<String>) -> IdentifierError {
    IdentifierError {
        kind,
        text: text.chars().take(80).collect(),
        problem: problem.into(),
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdentifierError;

            fn from_str(text: &str) -> Result<Self, IdentifierError> {
                text.parse().map($name).map_err(|_| {
                    invalid(stringify!($name), text, "is not a whole number")
                })
            }
        }
    };
}

number! {
    /// A job's number, given at submission and never used again.
    JobId(u64)
}
number! {
    /// Position of a component in its job, from 0.
    ComponentIndex(u32)
}
number! {
    /// Number of a round of a job, from 1; 0 before the first.
    Round(u32)
}
number! {
    /// Number of an attempt of a component, from 1; 0 before the first.
    Attempt(u32)
}
number! {
    /// Position of a committed unit in the journal.
    Seq(u64)
}
number! {
    /// Number of a run of an instance over its store; a later one fences off an earlier.
    Epoch(u64)
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr, $valid:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and wraps it.
            ///
            /// # Errors
            /// Empty, too long, or with a character that is not allowed.
            pub fn new(text: &str) -> Result<Self, IdentifierError> {
                let valid: fn(usize, char) -> bool = $valid;
                if text.is_empty() {
                    return Err(invalid($kind, text, "is empty"));
                }
                if text.len() > $max {
                    return Err(invalid($kind, text, format!("is longer than {} bytes", $max)));
                }
                match text.chars().enumerate().find(|&(i, c)| !valid(i, c)) {
                    None => Ok(Self(text.into())),
                    Some((at, c)) => Err(invalid(
                        $kind,
                        text,
                        format!("has {c:?} at position {at}; allowed: {}", $rule),
                    )),
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdentifierError;

            fn from_str(text: &str) -> Result<Self, IdentifierError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// Name of a site: letters, digits, `-`, `_` and `.`, starting with a letter.
    SiteName, "site name", 63,
    |i, c| c.is_ascii_alphabetic() || (i > 0 && (c.is_ascii_digit() || "-_.".contains(c))),
    "letters, digits, - _ . and a letter first"
}
name! {
    /// Name or address of a host, as an argument of a command: no blanks, and never an option.
    HostName, "host name", 253,
    |i, c| c.is_ascii_alphanumeric() || "_.:%".contains(c) || (i > 0 && c == '-'),
    "letters, digits, - _ . : % and no - first"
}
name! {
    /// Name of a component within its job.
    ComponentName, "component name", 63,
    |i, c| c.is_ascii_alphanumeric() || (i > 0 && "-_.".contains(c)),
    "letters, digits, - _ . and a letter or digit first"
}
name! {
    /// Logical name of a file, by which jobs name it wherever its replicas are.
    LogicalName, "logical file name", 255,
    |i, c| !c.is_control() && c != '\\' && !(i == 0 && (c == '/' || c == '-')),
    "anything but control characters and backslash, and neither / nor - first"
}
name! {
    /// Name of a key; it owns the jobs that were submitted with it.
    KeyName, "key name", 63,
    |i, c| c.is_ascii_alphanumeric() || (i > 0 && "-_.@".contains(c)),
    "letters, digits, - _ . @ and a letter or digit first"
}
name! {
    /// Name of a placement policy.
    PolicyName, "policy name", 63,
    |_, c| c.is_ascii_lowercase() || c == '-',
    "lower-case letters and -"
}
impl PolicyName {
    /// Wraps a policy name that is known at compile time to be valid.
    pub(crate) fn from_known(name: &'static str) -> Self {
        debug_assert!(Self::new(name).is_ok(), "{name:?} is no name of a policy");
        Self(name.into())
    }
}

name! {
    /// Name of a runner.
    RunnerName, "runner name", 63,
    |_, c| c.is_ascii_lowercase() || c == '-',
    "lower-case letters and -"
}
name! {
    /// Name of a receiver of messages, as the operator configured it.
    TargetName, "notification target", 63,
    |i, c| c.is_ascii_alphanumeric() || (i > 0 && "-_.".contains(c)),
    "letters, digits, - _ . and a letter or digit first"
}
name! {
    /// Name of a reservation that jobs share; never a number, which would be a job's.
    ReservationName, "reservation name", 63,
    |i, c| c.is_ascii_alphabetic() || (i > 0 && (c.is_ascii_digit() || "-_.".contains(c))),
    "letters, digits, - _ . and a letter first"
}
name! {
    /// The number that a site's batch system gave to a submission; opaque to us.
    LrmId, "resource manager id", 255,
    |_, c| !c.is_control() && c != ' ',
    "anything printable without spaces"
}
name! {
    /// A client's own name for a request, so that a repeated one is recognised.
    IdempotencyKey, "idempotency key", 255,
    |_, c| c.is_ascii_graphic(),
    "printable ASCII without spaces"
}

/// Tells instances apart that share a site: 8 characters of `[a-z2-7]`, drawn with the store, and
/// drawn anew when a store is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstanceId([u8; 8]);

/// Orders as the text does, in one comparison: tags are looked up by it all the time.
impl Ord for InstanceId {
    fn cmp(&self, other: &Self) -> Ordering {
        u64::from_be_bytes(self.0).cmp(&u64::from_be_bytes(other.0))
    }
}

impl PartialOrd for InstanceId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl InstanceId {
    const ALPHABET: &'static [u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

    /// Makes one from 40 random bits; higher bits are ignored.
    pub fn from_random(bits: u64) -> Self {
        Self(std::array::from_fn(|i| {
            Self::ALPHABET[((bits >> (5 * i)) & 31) as usize]
        }))
    }

    /// The eight characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("invalid0")
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for InstanceId {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, IdentifierError> {
        match <[u8; 8]>::try_from(text.as_bytes()) {
            Ok(bytes) if bytes.iter().all(|b| Self::ALPHABET.contains(b)) => Ok(Self(bytes)),
            _ => Err(invalid(
                "instance id",
                text,
                "is not 8 characters of a-z and 2-7",
            )),
        }
    }
}

/// The tag by which an attempt is recognised at its site:
/// `c<instance>-<job>-<component>-<attempt>`.
///
/// At most 63 bytes of `[a-z0-9-]`, starting with a letter, because Grid Engine
/// refuses names that begin with a digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptTag {
    /// The control plane that submitted it.
    pub instance: InstanceId,
    /// The job of the attempt.
    pub job: JobId,
    /// The component of the attempt.
    pub component: ComponentIndex,
    /// The number of the attempt in that component.
    pub attempt: Attempt,
}

impl fmt::Display for AttemptTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "c{}-{}-{}-{}",
            self.instance, self.job, self.component, self.attempt
        )
    }
}

impl FromStr for AttemptTag {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, IdentifierError> {
        parse_attempt_tag(text).ok_or_else(|| {
            invalid(
                "tag",
                text,
                "is not c<instance>-<job>-<component>-<attempt>",
            )
        })
    }
}

fn parse_attempt_tag(text: &str) -> Option<AttemptTag> {
    let mut parts = text.strip_prefix('c')?.split('-');
    let tag = AttemptTag {
        instance: parts.next()?.parse().ok()?,
        job: parts.next()?.parse().ok()?,
        component: parts.next()?.parse().ok()?,
        attempt: parts.next()?.parse().ok()?,
    };
    (parts.next().is_none() && tag.to_string() == text).then_some(tag)
}

/// BLAKE3 digest of a file's content, or of a directory's manifest. A file is its digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, IdentifierError> {
        let bytes = text.as_bytes();
        let mut digest = [0; 32];
        let mut nibbles = bytes.iter().map(|b| (*b as char).to_digit(16));
        let complete = bytes.len() == 64
            && digest.iter_mut().all(|byte| {
                match (nibbles.next().flatten(), nibbles.next().flatten()) {
                    (Some(high), Some(low)) => {
                        *byte = (high * 16 + low) as u8;
                        true
                    }
                    _ => false,
                }
            });
        complete
            .then_some(Digest(digest))
            .ok_or_else(|| invalid("digest", text, "is not 64 hexadecimal digits"))
    }
}

/// A path below some root: relative, UTF-8, without `.` or `..` parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Arc<str>);

impl RelPath {
    /// Checks the text and wraps it.
    ///
    /// # Errors
    /// Empty, absolute, longer than 1,024 bytes, with a NUL, or with an empty,
    /// `.` or `..` part.
    pub fn new(text: &str) -> Result<Self, IdentifierError> {
        let problem = if text.is_empty() {
            "is empty"
        } else if text.len() > 1024 {
            "is longer than 1024 bytes"
        } else if text.starts_with('/') {
            "is absolute; give it relative to the directory it belongs to"
        } else if text.contains('\0') {
            "has a NUL character"
        } else if text
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == "..")
        {
            "has an empty, . or .. part"
        } else {
            return Ok(Self(text.into()));
        };
        Err(invalid("path", text, problem))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for RelPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RelPath {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, IdentifierError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_back_as_it_was_written() {
        let tag = AttemptTag {
            instance: InstanceId::from_random(0x1234_5678_9abc),
            job: JobId(u64::MAX),
            component: ComponentIndex(999),
            attempt: Attempt(u32::MAX),
        };
        let text = tag.to_string();
        assert!(text.len() <= 63, "{text}");
        assert_eq!(text.parse(), Ok(tag));
    }

    #[test]
    fn instances_are_in_the_order_of_their_texts() {
        let mut instances: Vec<_> = (0..999)
            .map(|i| InstanceId::from_random(i * i * i))
            .collect();
        let mut texts: Vec<_> = instances.iter().map(InstanceId::to_string).collect();
        instances.sort();
        texts.sort();
        assert!(instances.iter().map(InstanceId::to_string).eq(texts));
    }

    #[test]
    fn a_host_is_never_taken_for_an_option_or_for_two_words() {
        for text in [
            "fs0.das2.nl",
            "10.141.0.1",
            "fe80::1%eth0",
            "::1",
            "node_1-a",
        ] {
            assert_eq!(
                HostName::new(text).map(|host| host.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "", "-f", "--flood", "fs0 fs1", "fs0\t", "fs0\n", "$(id)", "fs0;id", "a/b",
        ] {
            assert!(HostName::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_tag_with_anything_odd_about_it_is_nobodys() {
        for text in [
            "",
            "c",
            "cabcdefgh-1-2",
            "cabcdefgh-1-2-3-4",
            "cabcdefgh-01-2-3",
            "xabcdefgh-1-2-3",
            "cABCDEFGH-1-2-3",
        ] {
            assert!(text.parse::<AttemptTag>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_that_could_leave_its_root_is_refused() {
        for text in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "./a",
            "a/",
            "a\0b",
        ] {
            assert!(RelPath::new(text).is_err(), "{text:?}");
        }
        assert!(RelPath::new("a/b..c/d").is_ok());
    }

    #[test]
    fn a_digest_is_read_back_as_it_was_written() {
        let digest = Digest(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!("ab".parse::<Digest>().is_err());
        assert!("g".repeat(64).parse::<Digest>().is_err());
    }

    #[test]
    fn names_say_which_character_is_wrong() {
        let error = SiteName::new("delft site").unwrap_err();
        assert!(error.to_string().contains("' ' at position 5"), "{error}");
        assert!(SiteName::new("1st").is_err());
        assert!(SiteName::new(&"a".repeat(64)).is_err());
    }
}
