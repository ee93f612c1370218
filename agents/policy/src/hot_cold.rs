//! The hot-cold lexicographic rule of Prequal (Wydrowski et al., Load is not what you should
//! balance, NSDI 2024, section 4): a server is hot when its requests in flight are above a high
//! quantile of those of its peers; the cold one with the lowest latency is taken, or if all are hot
//! the one with the fewest in flight. A choice looks at 16 servers (Prequal's pool of probes).
//!
//! Passive: nothing is probed. In flight is what this arbiter has under way, the latency is the
//! smoothed one at about the load that the server has now (Prequal's servers report just that).
//! A server whose last reply was an error comes after the hot ones.

use crate::server::Server;
use crate::ServerId;

/// Servers looked at, at least.
const SAMPLE: usize = 16;
/// The quantile beyond which a server is hot: 2^-0.25, as in the paper.
const HOT_BEYOND: f64 = 0.84;

/// How many servers are drawn for `r` replicas.
pub(crate) fn sample_size(r: usize) -> usize {
    SAMPLE.max(2 * r)
}

/// What counts as hot among these servers: more in flight than this.
pub(crate) fn hot_beyond(
    servers: &[Server],
    sample: &[ServerId],
    scratch: &mut Vec<usize>,
) -> usize {
    scratch.clear();
    scratch.extend(sample.iter().map(|&server| servers[server].in_use));
    if scratch.is_empty() {
        return 0;
    }
    let place = (HOT_BEYOND * (scratch.len() - 1) as f64) as usize;
    *scratch.select_nth_unstable(place).1
}

/// Lower is better: the class, then latency (cold) or requests in flight (hot, failing).
pub(crate) fn cost(server: &Server, hot_beyond: usize) -> (u8, f64) {
    let in_flight = server.in_use as f64;
    if server.is_suspect() {
        (2, in_flight)
    } else if server.in_use > hot_beyond {
        (1, in_flight)
    } else {
        (0, server.at_load_us())
    }
}
