//! TAD with additions to sPARE. Tokens, look-ups and waiting are those of `tad_paper`; the rank
//! differs:
//!
//! - an observation ages out, and a request is its probe (else a server that was slow once is never
//!   seen to be fast again): one request in ten at most, and none of one replica waits for the probe
//!   alone, it gets the best server too (`Selector::replicas`);
//! - an error counts as infinite latency;
//! - the latency is smoothed: the last one says more of the last request than of the server;
//! - it grows with the square of the requests in flight: n requests that share a server delay the next
//!   one and each other. In proportion to n, the mean, p99 and p99.9 were higher in simulation;
//! - a server that owes answers and gives none is at least as slow as that silence is long.

use crate::policy::{Moment, Rule, SelectionRule, LOOK_AHEAD, OBSERVATION_AGE_MS, TOKENS};
use crate::server::Server;

pub(crate) const RULE: Rule = Rule {
    parameters: &[TOKENS, LOOK_AHEAD, OBSERVATION_AGE_MS],
    uses_tokens: true,
    probes: true,
    ..Rule::new(
        "tad",
        "tokens; smoothed latency times the square of what is under way, errors, silence, age",
        SelectionRule::Ranked(rank),
    )
};

/// Lower is better. Only silence makes it grow as time passes.
pub(crate) fn rank(server: &Server, at: Moment) -> u64 {
    if server.is_suspect() {
        return u64::MAX - 1;
    }
    if server.is_unknown() {
        return 0;
    }
    let sharing = (server.in_use + 1) as f64;
    let expected_us = server.smooth_us() * sharing * sharing;
    let expected_us = (expected_us as u64).clamp(1, u64::MAX - 2);
    if at.silence_counts {
        expected_us.max(server.silent_us(at.now))
    } else {
        expected_us
    }
}
