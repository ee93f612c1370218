//! Any protocol over TCP: a connection is passed through, byte by byte, to one server.
//!
//! A request is a connection. It waits for a server (and for its token, if the policy has tokens)
//! and keeps it to its end. A server that cannot be reached is dead, and another one is tried;
//! nothing of the client was read until then. The request is answered, and its latency measured, at
//! the server's first byte: from the client's connection, and for the policy from the connection to
//! the server. Later bytes and pauses do not count, except a silence of both sides for longer than
//! `idle_timeout_ms`, which means that one of them has vanished.

use std::sync::Arc;
use std::time::Instant;

use policy::ServerId;
use tokio::net::TcpStream;
use tokio::time::{timeout_at, Instant as Deadline};

use crate::splice::{join, Broken, Sent};
use crate::tier::{Flight, Lease, Tier, Unreached, Wanted};

/// Serves a client to its end.
pub async fn serve(tier: Arc<Tier>, mut client: TcpStream) {
    let received = Instant::now();
    tier.counters.received.inc();
    let deadline = Instant::now() + tier.config().request_timeout();
    let reached = timeout_at(deadline.into(), reach(&tier, deadline.into())).await;
    let Ok(Some((lease, mut server))) = reached else {
        tier.counters.failed.inc();
        return tier.request_ended(received);
    };
    let mut request =
        Request { flight: tier.sent(lease.server), tier: &tier, received, is_answered: false };
    let idle_max = tier.config().idle_timeout();
    let ended = join(&mut client, &mut server, idle_max, || request.answered()).await;
    request.end(ended);
}

/// Connects to a server of the policy's choice.
async fn reach(tier: &Arc<Tier>, deadline: Deadline) -> Option<(Lease, TcpStream)> {
    let mut refusing: Vec<ServerId> = Vec::new();
    loop {
        let lease = tier.acquire(Wanted::One, &refusing).ok()?.next().await?;
        match tier.connect(lease.server, deadline).await {
            Ok(stream) => return Some((lease, stream)),
            Err(Unreached::Local) => return None,
            Err(_) => refusing.push(lease.server),
        }
    }
}

/// A connection with its accounting.
struct Request<'a> {
    flight: Flight,
    tier: &'a Tier,
    received: Instant,
    is_answered: bool,
}

impl Request<'_> {
    fn answered(&mut self) {
        if !self.is_answered {
            self.is_answered = true;
            self.flight.good();
            self.flight.won();
            self.tier.counters.answered.inc();
            self.tier.request_ended(self.received);
        }
    }

    /// Ends it; as failed if the client got no answer and did not end it.
    fn end(self, ended: Result<Sent, Broken>) {
        let is_servers = ended == Err(Broken::Server)
            || matches!(ended, Ok(Sent { to_server, to_client: 0 }) if to_server > 0);
        if is_servers {
            self.flight.bad();
        }
        if !self.is_answered {
            let counters = &self.tier.counters;
            let is_failed = is_servers || ended == Err(Broken::Idle);
            let fate = if is_failed { &counters.failed } else { &counters.answered };
            fate.inc();
            self.tier.request_ended(self.received);
        }
    }
}
