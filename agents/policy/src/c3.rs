//! C3's replica ranking (Suresh, Canini, Schmid, Feldmann: C3, NSDI 2015, section 3.1):
//!
//! psi = R - 1/mu + q^3 / mu,   q = 1 + outstanding * clients + queue
//!
//! with R the smoothed response time, 1/mu the smoothed service time and `queue` the queue that the
//! server reports. Our servers report nothing. Every request of the tier goes through this arbiter,
//! so `clients` is 1 and the queue is the outstanding requests (`queue` is 0); 1/mu is estimated by
//! latency over replicas in flight. There is no rate control of C3: tokens and the bounded queue
//! replace it. An error counts as infinite.

use crate::policy::{Rule, SelectionRule};
use crate::server::Server;

pub(crate) const RULE: Rule = Rule::new(
    "c3",
    "smoothed response time and the cube of the queue",
    // Positive numbers are ordered as their bits are.
    SelectionRule::Ranked(|server, _| score(server).to_bits()),
);

/// Cost of a server; lower is better.
fn score(server: &Server) -> f64 {
    if server.is_suspect() {
        return f64::MAX;
    }
    let queue = (1 + server.in_use) as f64;
    if server.smooth_us() == 0.0 {
        return queue;
    }
    let service_us = server.service_us();
    server.smooth_us() + service_us * (queue * queue * queue - 1.0)
}
