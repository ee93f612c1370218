//! Power of two choices with peak-EWMA (Mitzenmacher, The power of two choices in randomized load
//! balancing, 2001; the estimate is Finagle's and linkerd's): of two servers drawn at random the
//! one with the lower cost, latency times (replicas under way + 1). The latency jumps to a peak at
//! once and fades from it exponentially. For `r` replicas the best `r` of `r + 1` drawn.

use crate::server::Server;
use crate::TimeUs;

/// How many servers are drawn for `r` replicas.
pub(crate) fn sample_size(r: usize) -> usize {
    r + 1
}

/// Lower is better. A server never seen costs little, but not nothing for each replica under way.
pub(crate) fn cost(server: &Server, now: TimeUs, decay_us: u64) -> f64 {
    if server.is_suspect() {
        return f64::MAX;
    }
    let latency_us = server.peak_us(now, decay_us).max(1.0);
    latency_us * (server.in_use + 1) as f64
}
