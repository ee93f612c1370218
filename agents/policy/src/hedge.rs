//! Hedging (Dean and Barroso, The Tail at Scale, CACM 2013): no tokens and `tad`'s rank, one server
//! first, and another each time that a percentile of the observed latencies has passed without an
//! answer. With the number of requests in flight as rank p95 was twice as high in simulation.

use crate::policy::{Rule, SelectionRule, HEDGE_PERCENTILE, OBSERVATION_AGE_MS};
use crate::tad;

pub(crate) const RULE: Rule = Rule {
    parameters: &[HEDGE_PERCENTILE, OBSERVATION_AGE_MS],
    hedges: true,
    ..Rule::new(
        "hedge",
        "one server as `tad` ranks them, without tokens; others when it is late",
        SelectionRule::Ranked(tad::rank),
    )
};
