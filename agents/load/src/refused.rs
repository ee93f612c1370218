//! A plan, or a part of one, that is refused.

use thiserror::Error;

/// A plan that cannot be carried out: what was expected, what came.
#[derive(Debug, Error)]
#[error("expected {expected}; came {came}")]
pub struct Refused {
    expected: String,
    came: String,
}

impl Refused {
    /// Says it.
    pub fn new(expected: impl Into<String>, came: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            came: came.into(),
        }
    }
}
