//! Random: any servers, whatever their load.

use crate::policy::{Finds, Rule};

pub(crate) const RULE: Rule = Rule::new(
    "random",
    "nothing; any servers",
    Finds::Drawn {
        sample_size: |r| r,
        best_first: |_| {},
    },
);
