//! Measurements of a tier beyond counters: arrival rates, latencies by the second, processing
//! time per request, how long tokens are held. Nothing here allocates per request.
//!
//! | module | what |
//! |---|---|
//! | `processing` | core time per request of one server, from arrivals and departures (pure) |
//! | `windows` | requests and latencies of the last 60 seconds (pure) |

pub mod processing;
pub mod windows;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use policy::{ServerId, TimeUs};
use wire::arbiter::{LatencyReport, Recent};

use self::processing::Shares;
use self::windows::Windows;
use crate::counters::Counter;
use crate::lock;

/// Measurements of a tier. Locks are held for tens of nanoseconds, once a second for tens of
/// microseconds.
pub struct Meter {
    windows: Mutex<Windows>,
    servers: Vec<ServerMeter>,
    /// Leases that were returned.
    pub token_holds: Counter,
    /// Total time for which they were held.
    pub token_hold_us: Counter,
}

/// Measurements of one server.
pub struct ServerMeter {
    shares: Mutex<Shares>,
    /// Replicas that ended without failing.
    pub processing_count: Counter,
    /// Their processing time [core ns].
    pub processing_ns: Counter,
    /// Total time of replicas at the server, with every outcome.
    pub busy_us: Counter,
}

impl Meter {
    /// Nothing measured, of `servers` servers with `cores` cores each.
    pub fn new(servers: usize, cores: f64) -> Self {
        let server = |_| ServerMeter {
            shares: Mutex::new(Shares::new(cores)),
            processing_count: Counter::default(),
            processing_ns: Counter::default(),
            busy_us: Counter::default(),
        };
        Self {
            windows: Mutex::default(),
            servers: (0..servers).map(server).collect(),
            token_holds: Counter::default(),
            token_hold_us: Counter::default(),
        }
    }

    /// A client connected.
    pub fn connection(&self, now: TimeUs) {
        self.windows().connection(now);
    }

    /// Counts requests that were sent and answered together, after `latency_us`.
    pub fn requests(&self, now: TimeUs, latency_us: u64, count: u32) {
        self.windows().requests(now, latency_us, count);
    }

    /// Counts a lease that was returned after `held_us`.
    pub fn released(&self, held_us: u64) {
        self.token_holds.inc();
        self.token_hold_us.add(held_us);
    }

    /// Notes a replica's arrival at a server. Pass the result to [`Meter::left`].
    pub fn arrived(&self, now: TimeUs, server: ServerId) -> f64 {
        lock(&self.servers[server].shares).enter(now)
    }

    /// Notes a replica's departure after `stay_us`; a failed one has no processing time.
    pub fn left(&self, now: TimeUs, server: ServerId, entered: f64, stay_us: u64, failed: bool) {
        let server = &self.servers[server];
        let core_us = lock(&server.shares).leave(now, entered);
        server.busy_us.add(stay_us);
        if !failed {
            server.processing_count.inc();
            server.processing_ns.add((core_us * 1e3) as u64);
        }
    }

    /// Sums of one server.
    pub fn server(&self, server: ServerId) -> &ServerMeter {
        &self.servers[server]
    }

    /// Total time of replicas at servers.
    pub fn busy_us(&self) -> u64 {
        self.servers.iter().map(|server| server.busy_us.get()).sum()
    }

    /// Figures of the last 60 seconds.
    pub fn recent(&self, now: TimeUs) -> Recent {
        self.windows().recent(now)
    }

    /// Each of the last 60 seconds, and all latencies since the start.
    pub fn latency(&self, now: TimeUs) -> LatencyReport {
        let mut windows = self.windows();
        LatencyReport { windows: windows.each(now), buckets: windows.buckets(now) }
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        lock(&self.windows)
    }
}

/// Whole microseconds.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
