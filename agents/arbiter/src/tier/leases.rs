//! Servers that a request may use: given out by the tier, given back when dropped.

use std::sync::Arc;
use std::time::Instant;

use policy::{Hedge, RequestId, ServerId};
use smallvec::SmallVec;
use tokio::sync::mpsc;

use super::Tier;
use crate::meter::micros;

/// A server's token, returned when dropped.
pub struct Lease {
    pub(super) tier: Arc<Tier>,
    /// The server.
    pub server: ServerId,
    pub(super) since: Instant,
    /// True for an additional probe of an ejected server.
    pub probes: bool,
    /// A probe that was granted with it.
    pub(super) probe: Option<Box<Lease>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (server, now) = (self.server, Instant::now());
        self.tier.meter.released(micros(now - self.since));
        self.tier.decide_at(now, |choices, now, grants| {
            choices.selector.release(now, server, grants);
        });
    }
}

/// The servers of one request, granted now and later. Dropping it cancels what it waits for.
pub struct Leases {
    pub(super) tier: Arc<Tier>,
    pub(super) request: RequestId,
    pub(super) ready: SmallVec<[Lease; 4]>,
    /// Channel of later grants.
    pub(super) receiver: Option<mpsc::UnboundedReceiver<Lease>>,
    pub(super) waiting: usize,
    /// Set while the first server is awaited.
    pub(super) waits_since: Option<Instant>,
    pub(super) delayed: Option<Hedge>,
}

impl Leases {
    /// Replicas that may follow if the request is late.
    pub fn delayed(&self) -> Option<Hedge> {
        self.delayed
    }

    /// One more server, none of `used`, if one is free and the guardrails allow it.
    pub fn one_more(&self, used: &[ServerId]) -> Option<Lease> {
        self.tier.one_more(self.request, used)
    }

    /// Number of leases to come.
    pub fn to_come(&self) -> usize {
        self.ready.len() + self.waiting
    }

    /// The next of the servers that were granted at once.
    pub fn at_once(&mut self) -> Option<Lease> {
        (!self.ready.is_empty()).then(|| self.ready.remove(0))
    }

    /// Waits for the next server; none after the last. Cancel-safe.
    pub async fn next(&mut self) -> Option<Lease> {
        if let Some(lease) = self.at_once() {
            return Some(lease);
        }
        if self.waiting == 0 {
            return None;
        }
        let mut lease = self.receiver.as_mut()?.recv().await;
        self.waiting -= 1;
        self.count_wait();
        let probe = lease.as_mut().and_then(|lease| lease.probe.take());
        self.ready.extend(probe.map(|probe| *probe));
        lease
    }

    fn count_wait(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.tier.counters.token_waits.inc();
            self.tier.counters.token_wait_us_total.add(micros(since.elapsed()));
        }
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.count_wait();
        if self.receiver.is_some() {
            let now = self.tier.now();
            let mut choices = self.tier.choices();
            choices.selector.cancel(now, self.request);
            choices.waiters.remove(&self.request);
        }
    }
}
