//! Random: any servers, whatever their load.

use crate::policy::{Rule, SelectionRule};

pub(crate) const RULE: Rule = Rule::new(
    "random",
    "nothing; any servers",
    SelectionRule::Drawn { sample_size: |r| r, best_first: |_| {} },
);
