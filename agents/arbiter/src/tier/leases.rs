//! Servers that a request may use: given out by the tier, given back when dropped.

use std::sync::Arc;
use std::time::Instant;

use policy::{Hedge, RequestId, ServerId};
use smallvec::SmallVec;
use tokio::sync::mpsc;

use super::Tier;
use crate::meter::micros;

/// The right to use a server, given back when dropped.
pub struct Lease {
    pub(super) tier: Arc<Tier>,
    /// The server.
    pub server: ServerId,
    pub(super) since: Instant,
    /// True if it is a probe of a server that is out, beside others.
    pub probes: bool,
    /// One that came with it.
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

/// The servers that one request gets, now and later. Dropping it cancels what it waits for.
pub struct Leases {
    pub(super) tier: Arc<Tier>,
    pub(super) request: RequestId,
    pub(super) ready: SmallVec<[Lease; 4]>,
    /// The channel of grants that come later.
    pub(super) receiver: Option<mpsc::UnboundedReceiver<Lease>>,
    pub(super) waiting: usize,
    /// Set while not even the first server is there.
    pub(super) waits_since: Option<Instant>,
    pub(super) delayed: Option<Hedge>,
}

impl Leases {
    /// The replicas that may follow where the request is not answered in time.
    pub fn delayed(&self) -> Option<Hedge> {
        self.delayed
    }

    /// One more server than was asked for at first, none of `used`, if one is free now and the
    /// guardrails have room for it.
    pub fn one_more(&self, used: &[ServerId]) -> Option<Lease> {
        self.tier.one_more(self.request, used)
    }

    /// How many are still to come.
    pub fn to_come(&self) -> usize {
        self.ready.len() + self.waiting
    }

    /// The next server of those that were free when they were asked for.
    pub fn at_once(&mut self) -> Option<Lease> {
        (!self.ready.is_empty()).then(|| self.ready.remove(0))
    }

    /// The next server; none when all have come. May be dropped and called again.
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
