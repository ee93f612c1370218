//! A plan, or a part of one, that is refused.

use thiserror::Error;

/// A plan that cannot be carried out: the key, a value that would do, and the one that is there.
#[derive(Debug, Error)]
#[error("{key}: expected {expected} (got {got})")]
pub struct Refused {
    key: String,
    expected: String,
    got: String,
}

impl Refused {
    /// Says it.
    pub fn new(key: &str, expected: impl Into<String>, got: impl ToString) -> Self {
        Self { key: key.to_owned(), expected: expected.into(), got: got.to_string() }
    }
}
