//! Values that are refused: their key, what would do, and what is there.

use std::ops::RangeInclusive;

use thiserror::Error;

/// A value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: expected {expected} (got {got})")]
pub struct Impossible {
    /// The key.
    pub key: String,
    /// A value that would do.
    pub expected: String,
    /// The value that is there.
    pub got: String,
}

impl Impossible {
    /// Creates it from anything that can be displayed.
    pub fn new(key: impl Into<String>, expected: impl Into<String>, got: impl ToString) -> Self {
        Self { key: key.into(), expected: expected.into(), got: got.to_string() }
    }

    /// Adds the place of its table to the key.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.key = format!("{place}.{}", self.key);
        self
    }
}

/// Refuses a value beyond a range of this unit.
///
/// # Errors
/// [`Impossible`], also for what is no number.
pub fn in_range<T: PartialOrd + ToString>(
    key: impl Into<String>,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<(), Impossible> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start().to_string(), range.end().to_string());
    let expected = match least == most {
        true => format!("{least}{unit}"),
        false => format!("{least} to {most}{unit}"),
    };
    Err(Impossible::new(key, expected, value))
}
