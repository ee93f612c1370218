//! Which servers can be reached: by failed connections, by probes, and by who knows better.

use std::sync::Arc;

use policy::ServerId;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Choices, Tier};

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
        self.decide(|Choices { selector, .. }, now, grants| {
            was_alive = selector.is_alive(server);
            selector.server_down(now, server, grants);
        });
        if was_alive {
            self.probe(server, false);
        }
    }

    /// A new connection to the server; one that cannot be had in time makes it dead.
    pub async fn connect(self: &Arc<Self>, server: ServerId) -> Option<TcpStream> {
        let Some(stream) = self.try_connect(server).await else {
            self.server_failed(server);
            return None;
        };
        // A socket that refuses the option still works.
        let _ = stream.set_nodelay(true);
        self.server_counters[server].connections_opened.inc();
        Some(stream)
    }

    /// Whether the server takes connections.
    pub async fn is_reachable(&self, server: ServerId) -> bool {
        self.try_connect(server).await.is_some()
    }

    async fn try_connect(&self, server: ServerId) -> Option<TcpStream> {
        let connecting = TcpStream::connect(self.server(server).address);
        let connected = timeout(self.config().connect_timeout(), connecting).await;
        connected.ok()?.ok()
    }

    /// Takes a server out at once: it gets nothing new, whatever probes say. What it has goes on.
    pub fn take_out(self: &Arc<Self>, server: ServerId) {
        self.decide(|choices, now, grants| {
            choices.taken_out[server] = true;
            choices.selector.server_down(now, server, grants);
        });
    }

    /// Lets a server that was taken out in again, once a probe, which goes now, has reached it.
    pub fn let_in(self: &Arc<Self>, server: ServerId) {
        let mut choices = self.choices();
        choices.taken_out[server] = false;
        let is_alive = choices.selector.is_alive(server);
        drop(choices);
        if !is_alive {
            self.probe(server, true);
        }
    }

    /// Whether a probe of the server is of use.
    pub fn needs_probe(&self, server: ServerId) -> bool {
        let choices = self.choices();
        !choices.taken_out[server] && !choices.selector.is_alive(server)
    }

    fn probe(&self, server: ServerId, at_once: bool) {
        // The receiver lives as long as the arbiter; at its end nobody probes any more.
        let _ = self.downs.send(Down { server, at_once });
    }

    /// A probe succeeded.
    pub fn server_up(self: &Arc<Self>, server: ServerId) {
        self.decide(|choices, now, grants| {
            if !choices.taken_out[server] {
                choices.selector.server_up(now, server, grants);
            }
        });
    }
}
