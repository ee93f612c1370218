//! The time of one choice among M servers, per policy: acquire, observe and release of one request
//! while others are under way. One line of JSON per policy and r; `bench/choice.py` reads them.
//!
//! `cargo run --release -p policy --example select_ns -- SERVERS TURNS`

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::VecDeque;
use std::time::Instant;

use policy::{Ask, Grant, Observation, Policy, Selector, Settings};

/// Requests of one turn.
const REQUESTS: u64 = 200_000;
/// Between requests [us]: ten thousand a second.
const GAP_US: u64 = 100;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |name: &str| -> usize {
        let argument = arguments.next();
        let value = argument.and_then(|text| text.parse().ok());
        value.unwrap_or_else(|| panic!("expected {name}: a whole number"))
    };
    let (servers, turns) = (number("SERVERS"), number("TURNS"));
    for policy in Policy::all() {
        for r in [1, 2] {
            let ns: Vec<String> = (0..turns)
                .map(|turn| format!("{:.1}", turn_ns(policy, servers, r, turn as u64)))
                .collect();
            println!(
                "{{\"policy\": \"{}\", \"servers\": {servers}, \"r\": {r}, \"ns\": [{}]}}",
                policy.name(),
                ns.join(", ")
            );
        }
    }
}

/// Nanoseconds per request; each is under way until M others have come after it, and latencies
/// differ between servers and requests.
fn turn_ns(policy: Policy, servers: usize, r: usize, seed: u64) -> f64 {
    let mut selector =
        Selector::new(Settings { tokens_per_server: 4, seed, ..Settings::new(policy, servers) });
    let mut under_way: VecDeque<Grant> = VecDeque::with_capacity(4 * servers);
    let mut grants = Vec::with_capacity(servers);
    let mut noise = seed.wrapping_mul(2_654_435_761) + 1;
    let start = Instant::now();
    for request in 0..REQUESTS {
        let now = request * GAP_US;
        selector.acquire(&Ask::new(now, request, r), &mut grants).unwrap();
        under_way.extend(grants.drain(..));
        while under_way.len() > servers {
            let grant = under_way.pop_front().unwrap();
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let us = 500 + 100 * (grant.server as u64 % 7) + (noise >> 55);
            selector.observe(now, grant.server, Observation::LatencyUs(us));
            selector.release(now, grant.server, &mut grants);
            under_way.extend(grants.drain(..));
        }
    }
    start.elapsed().as_nanos() as f64 / REQUESTS as f64
}
