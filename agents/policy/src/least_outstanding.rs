//! Least outstanding: the servers with the fewest replicas under way (join the shortest queue, as
//! the arbiter sees it: Winston, Optimality of the shortest line discipline, 1977). Of equals, the
//! one that was chosen longest ago. A server whose last reply was an error comes after all others
//! while that counts: it would be idle because it fails fast.
//!
//! The hedging policy (Dean and Barroso, The Tail at Scale, CACM 2013) chooses like this too: one
//! server at first, and another each time that a percentile of the observed latencies has gone by
//! without an answer.

use crate::server::Server;

const SUSPECT: u64 = 1 << 32;

/// Lower is better.
pub(crate) fn rank(server: &Server) -> u64 {
    server.in_use as u64 + if server.is_suspect() { SUSPECT } else { 0 }
}
