//! The secret itself.

use std::fmt;

use super::KeyError;

/// How every token begins, so that scanners for leaked secrets recognise it.
const PREFIX: &str = "cospan_";

/// The secret of one key. Shown once, then known by its hash only.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretToken(String);

impl SecretToken {
    /// Longest text that is taken for a token at all.
    pub const MAX_BYTES: usize = 128;

    /// Draws a new one: 256 random bits from the operating system.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        let mut bits = [0u8; 32];
        getrandom::fill(&mut bits).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        let hex: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(format!("{PREFIX}{hex}")))
    }

    /// Takes a text for a token, as given by a user or read from a file.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.trim();
        let plausible = !text.is_empty()
            && text.len() <= Self::MAX_BYTES
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        plausible.then(|| Self(text.to_owned()))
    }

    /// The secret text.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn hash(&self) -> blake3::Hash {
        hash(self.0.as_bytes())
    }
}

/// What is kept of a token. A plain hash suffices: the token has 256 random
/// bits, so nothing is gained by guessing slowly or quickly.
pub(super) fn hash(token: &[u8]) -> blake3::Hash {
    blake3::hash(token)
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretToken(secret)")
    }
}
