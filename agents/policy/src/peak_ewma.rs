//! Power of two choices with peak-EWMA (Mitzenmacher, The power of two choices in randomized load
//! balancing, 2001; the estimate is Finagle's and linkerd's): of two servers drawn at random the
//! one with the lower cost, latency times (replicas under way + 1). The latency jumps to a peak at
//! once and fades from it exponentially. For `r` replicas the best `r` of `r + 1` drawn.

use crate::policy::{Rule, SelectionRule, OBSERVATION_AGE_MS};
use crate::server::Server;
use crate::TimeUs;

pub(crate) const RULE: Rule = Rule {
    parameters: &[OBSERVATION_AGE_MS],
    ..Rule::new(
        "peak-ewma",
        "two servers drawn, latency peaks times load",
        SelectionRule::Drawn {
            sample_size: |r| r + 1,
            best_first: |sample| {
                let (now, decay_us) = (sample.now, sample.decay_us);
                sample.least_first(|server| cost(server, now, decay_us));
            },
        },
    )
};

/// Lower is better. A server never seen costs little, but not nothing for each replica under way.
fn cost(server: &Server, now: TimeUs, decay_us: u64) -> f64 {
    if server.is_suspect() {
        return f64::MAX;
    }
    let latency_us = server.peak_us(now, decay_us).max(1.0);
    latency_us * (server.in_use + 1) as f64
}
