//! TAD, token-based arbitration, to the letter of sPARE section 4.1 (Birke et al.).
//!
//! Each server has C tokens in one central pool, a queue: tokens are looked at from its head and
//! return at its tail. A request that wants `r` replicas looks at up to n + r tokens of *different*
//! servers (a token of a server already looked at is skipped; n is `look_ahead`, and n + r = M where
//! it is not stated) and takes the `r` whose servers were fastest when last observed; of equals, the
//! one nearer to the head. If h < r are there it takes the h, and the remaining r - h as tokens
//! return. A MySQL session keeps its tokens until its connection ends, if its tier has no primary.
//!
//! To the letter: the last observed latency never expires, and an error is a reply like any other,
//! so only the guardrails stop a server that fails fast from looking fast.

use crate::policy::{Rule, SelectionRule, LOOK_AHEAD, TOKENS};

pub(crate) const RULE: Rule = Rule {
    parameters: &[TOKENS, LOOK_AHEAD],
    uses_tokens: true,
    holds_connections: true,
    ..Rule::new(
        "tad-paper",
        "tokens; the last latency seen counts for ever",
        // 0 for a server never seen.
        SelectionRule::Ranked(|server, _| server.last_us),
    )
};
