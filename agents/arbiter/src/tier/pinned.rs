//! A client whose reads go to one server only, because of its commands; counted to show the part of
//! the traffic that is not replicated.

use std::sync::Arc;

use super::Tier;

/// A pinned client, counted while it lives.
pub struct Pinned(Arc<Tier>);

impl Pinned {
    /// Counts one more.
    pub fn new(tier: &Arc<Tier>) -> Self {
        tier.counters.pinned_clients.inc();
        tier.counters.pins.inc();
        Self(Arc::clone(tier))
    }

    /// Counts a request of it.
    pub fn asks(&self) {
        self.0.counters.pinned_commands.inc();
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.counters.pinned_clients.dec();
    }
}
