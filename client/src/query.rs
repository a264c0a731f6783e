//! Paths and queries of requests.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that need no encoding in a path or query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The same, with slashes.
const PLAIN_PATH: &AsciiSet = &PLAIN.remove(b'/');

/// Encodes a text as one part of a path, or as a value of a query.
pub(super) fn encode_part(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Encodes a text as several parts of a path.
pub(super) fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, PLAIN_PATH).to_string()
}

/// A path with a query, built piece by piece.
pub(super) struct QueryBuilder(pub(super) String, char);

impl QueryBuilder {
    /// Starts with this path, without a query.
    pub(super) fn from_path(path: &str) -> Self {
        Self(path.into(), '?')
    }

    /// Adds this value.
    pub(super) fn with_parameter(mut self, key: &str, value: impl ToString) -> Self {
        // Writing to a String cannot fail.
        let _ = write!(
            self.0,
            "{}{key}={}",
            self.1,
            encode_part(&value.to_string())
        );
        self.1 = '&';
        self
    }

    /// Adds this value, if there is one.
    pub(super) fn with_optional_parameter(self, key: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with_parameter(key, value),
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_names_cannot_change_the_path_or_query() {
        assert_eq!(encode_part("a/b?c=d&e#f %"), "a%2Fb%3Fc%3Dd%26e%23f%20%25");
        assert_eq!(encode_path("data/x y.dat"), "data/x%20y.dat");
        let query = QueryBuilder::from_path("/v1/jobs")
            .with_parameter("limit", 5)
            .with_optional_parameter("site", Some("a&b"));
        assert_eq!(
            query.with_optional_parameter("owner", None::<&str>).0,
            "/v1/jobs?limit=5&site=a%26b"
        );
    }
}
