//! The secret of a key.

use std::fmt;

use super::KeyError;

/// The prefix of every token, so that scanners for leaked secrets recognise it.
const PREFIX: &str = "cospan_";

/// The secret of one key. It is shown once; afterwards only its hash is known.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretToken(String);

impl SecretToken {
    /// Longest text that can be a token.
    pub const MAX_BYTES: usize = 128;

    /// Draws a new token: 256 random bits from the operating system.
    ///
    /// # Errors
    ///
    /// The operating system gives no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        let mut bits = [0u8; 32];
        getrandom::fill(&mut bits).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        let hex: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(format!("{PREFIX}{hex}")))
    }

    /// Accepts a text as a token, from a user or a file.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.trim();
        let plausible = !text.is_empty()
            && text.len() <= Self::MAX_BYTES
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        plausible.then(|| Self(text.to_owned()))
    }

    /// Returns the secret text.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Returns the hash, which is kept.
    pub fn hash(&self) -> blake3::Hash {
        hash_token(self.0.as_bytes())
    }
}

/// Hashes a token. A plain hash suffices: the token has 256 random bits, so guessing is hopeless at
/// any speed.
pub(super) fn hash_token(token: &[u8]) -> blake3::Hash {
    blake3::hash(token)
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretToken(secret)")
    }
}
