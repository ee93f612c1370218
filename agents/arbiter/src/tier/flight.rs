//! A replica from its sending to its end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use policy::{Observation, ServerId};

use super::Tier;
use crate::meter::micros;

/// A replica under way; reports its end to policy and counters.
pub struct Flight {
    pub(super) tier: Arc<Tier>,
    pub(super) server: ServerId,
    pub(super) sent: Instant,
    /// Reading of the meter at its arrival.
    pub(super) entered: f64,
    pub(super) failed: AtomicBool,
}

impl Flight {
    /// Ends with a complete good reply. Returns the latency.
    pub fn good(&self) -> Duration {
        let now = Instant::now();
        let latency = now - self.sent;
        let us = micros(latency);
        let counters = &self.tier.server_counters[self.server];
        counters.last_latency_us.set(us);
        counters.latency_us_sum.add(us);
        counters.latency_count.inc();
        self.observe(now, Observation::LatencyUs(us));
        latency
    }

    /// Ends with no reply, a broken one, or a server's error.
    pub fn bad(&self) -> Duration {
        self.tier.server_counters[self.server].errors.inc();
        self.failed.store(true, Relaxed);
        let now = Instant::now();
        let spent = now - self.sent;
        let after_us = micros(spent);
        self.observe(now, Observation::Error { after_us });
        spent
    }

    /// Ends with a request's error, which is no observation of the server.
    pub fn neutral(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Time since it was sent.
    pub fn age(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Counts its reply as the client's.
    pub fn won(&self) {
        self.tier.server_counters[self.server].wins.inc();
    }

    /// Counts its reply as too late, after `latency`.
    pub fn wasted(&self, latency: Duration) {
        self.tier.counters.replicas_wasted.inc();
        self.tier.counters.wasted_us.add(micros(latency));
    }

    fn observe(&self, now: Instant, seen: Observation) {
        let now = self.tier.us_at(now);
        self.tier.choices().selector.observe(now, self.server, seen);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let (tier, server) = (&self.tier, self.server);
        tier.server_counters[server].in_flight.dec();
        let (gone, failed) = (Instant::now(), self.failed.load(Relaxed));
        let stay_us = micros(gone - self.sent);
        tier.meter.left(tier.us_at(gone), server, self.entered, stay_us, failed);
    }
}
