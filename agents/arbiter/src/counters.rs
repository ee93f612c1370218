//! Counters of the data plane: relaxed atomics, read by `/v1/stats`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter, or a gauge, which can also fall.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Subtracts one (gauges).
    pub fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Sets the value (gauges).
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of the whole arbiter; the fields are those of [`wire::arbiter::Stats`].
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub received: Counter,
    pub answered: Counter,
    pub failed: Counter,
    pub cloned: Counter,
    pub reads: Counter,
    pub reads_of_one: Counter,
    pub writes: Counter,
    pub replicas_sent: Counter,
    pub replicas_not_needed: Counter,
    pub replicas_wasted: Counter,
    pub wasted_us: Counter,
    pub client_accepted: Counter,
    pub client_open: Counter,
    pub token_wait_us_total: Counter,
    pub token_waits: Counter,
    /// Clients with a dedicated connection or server, whose reads go nowhere else.
    pub pinned_clients: Counter,
    /// Dedicated connections that were given.
    pub pins: Counter,
    pub pinned_commands: Counter,
    /// Connections that this machine could not make, for example for lack of a descriptor.
    pub local_errors: Counter,
    pub compare: CompareCounters,
}

/// Counters of comparisons; the fields are those of [`wire::arbiter::Compared`].
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct CompareCounters {
    pub equal: Counter,
    pub different: Counter,
    pub not_compared: Counter,
    pub too_large: Counter,
    pub refused: Counter,
}

/// Counters of one server; the fields are those of [`wire::arbiter::ServerStats`].
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct ServerCounters {
    pub in_flight: Counter,
    pub requests: Counter,
    pub wins: Counter,
    pub errors: Counter,
    pub last_latency_us: Counter,
    pub latency_us_sum: Counter,
    pub latency_count: Counter,
    pub connections_opened: Counter,
    pub connections_reused: Counter,
    pub compared: Counter,
    pub minority: Counter,
    pub disputed: Counter,
}
