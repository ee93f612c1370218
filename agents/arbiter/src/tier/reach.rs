//! Which servers can be reached: by failed connections, by probes, and by who knows better.

use std::sync::Arc;

use policy::ServerId;

use super::{Brain, Tier};

/// A server that is to be probed until it answers.
#[derive(Debug, Clone, Copy)]
pub struct Down {
    /// The server.
    pub server: ServerId,
    /// The first probe goes at once: somebody says that it is back.
    pub at_once: bool,
}

impl Tier {
    /// A connection to the server failed: it is skipped until a probe succeeds.
    pub fn server_failed(self: &Arc<Self>, server: ServerId) {
        self.server_counters[server].errors.inc();
        let mut was_alive = false;
        self.decide(|Brain { selector, .. }, now, grants| {
            was_alive = selector.is_alive(server);
            selector.server_down(now, server, grants);
        });
        if was_alive {
            self.probe(server, false);
        }
    }

    /// Takes a server out at once: it gets nothing new, whatever probes say. What it has goes on.
    pub fn take_out(self: &Arc<Self>, server: ServerId) {
        self.decide(|brain, now, grants| {
            brain.taken_out[server] = true;
            brain.selector.server_down(now, server, grants);
        });
    }

    /// Lets a server that was taken out in again, once a probe, which goes now, has reached it.
    pub fn let_in(self: &Arc<Self>, server: ServerId) {
        let mut brain = self.brain();
        brain.taken_out[server] = false;
        let is_alive = brain.selector.is_alive(server);
        drop(brain);
        if !is_alive {
            self.probe(server, true);
        }
    }

    /// Whether a probe of the server is of use.
    pub fn needs_probe(&self, server: ServerId) -> bool {
        let brain = self.brain();
        !brain.taken_out[server] && !brain.selector.is_alive(server)
    }

    fn probe(&self, server: ServerId, at_once: bool) {
        // The receiver lives as long as the arbiter; at its end nobody probes any more.
        let _ = self.downs.send(Down { server, at_once });
    }

    /// A probe succeeded.
    pub fn server_up(self: &Arc<Self>, server: ServerId) {
        self.decide(|brain, now, grants| {
            if !brain.taken_out[server] {
                brain.selector.server_up(now, server, grants);
            }
        });
    }
}
