//! The reason for refusing a scenario.

use thiserror::Error;

/// A value that cannot be simulated: the place, a value that would do, and the one that is there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: expected {expected} (got {got})")]
pub struct Refused {
    place: String,
    expected: String,
    got: String,
}

impl Refused {
    /// From anything that can be shown.
    pub fn new(place: impl Into<String>, expected: impl Into<String>, got: impl ToString) -> Self {
        Self {
            place: place.into(),
            expected: expected.into(),
            got: got.to_string(),
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
