//! The hot-cold lexicographic rule of Prequal (Wydrowski et al., Load is not what you should
//! balance, NSDI 2024, section 4): a server is hot when its requests in flight are above a high
//! quantile of those of its peers; the cold one with the lowest latency is taken, or if all are hot
//! the one with the fewest in flight. A choice looks at 16 servers (Prequal's pool of probes).
//!
//! No probes are sent. The requests in flight are this arbiter's, and the latency is the smoothed
//! one at about the server's present load (which Prequal's servers report). A server whose last
//! reply was an error comes after the hot ones.

use crate::policy::{Rule, Sample, SelectionRule};
use crate::server::Server;

/// Servers looked at, at least.
const SAMPLE: usize = 16;
/// The quantile beyond which a server is hot: 2^-0.25, as in the paper.
const HOT_BEYOND: f64 = 0.84;

pub(crate) const RULE: Rule = Rule::new(
    "hot-cold",
    "16 servers: not those hot by requests in flight, then the fastest",
    SelectionRule::Drawn {
        sample_size: |r| SAMPLE.max(2 * r),
        best_first: |sample| {
            let hot = hot_beyond(sample);
            sample.least_first(|server| cost(server, hot));
        },
    },
);

/// The bound of hot among these servers: more in flight than this.
fn hot_beyond(sample: &mut Sample<'_>) -> usize {
    sample.scratch.clear();
    let in_use = sample.drawn.iter().map(|&server| sample.servers[server].in_use);
    sample.scratch.extend(in_use);
    if sample.scratch.is_empty() {
        return 0;
    }
    let place = (HOT_BEYOND * (sample.scratch.len() - 1) as f64) as usize;
    *sample.scratch.select_nth_unstable(place).1
}

/// Lower is better: the class, then latency (cold) or requests in flight (hot, failing).
fn cost(server: &Server, hot_beyond: usize) -> (u8, f64) {
    let in_flight = server.in_use as f64;
    if server.is_suspect() {
        (2, in_flight)
    } else if server.in_use > hot_beyond {
        (1, in_flight)
    } else {
        (0, server.at_load_us())
    }
}
