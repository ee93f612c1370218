//! Why a scenario is refused.

use thiserror::Error;

/// A value that cannot be simulated: where, what was expected, what came.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: expected {expected}, but got {came}")]
pub struct Refused {
    place: String,
    expected: String,
    came: String,
}

impl Refused {
    /// From anything that can be shown.
    pub fn new(place: impl Into<String>, expected: impl Into<String>, came: impl ToString) -> Self {
        Self {
            place: place.into(),
            expected: expected.into(),
            came: came.to_string(),
        }
    }
}

impl Refused {
    /// With the place where the place is.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.place = format!("{place}.{}", self.place);
        self
    }
}
