//! Any protocol over TCP: a connection is passed through, byte by byte, to one server.
//!
//! A request is a connection. It waits for a server (and its token, where the policy has tokens) and
//! keeps it to its end. A server that cannot be reached is dead and another is asked; of the client
//! nothing has been read until then. The request is answered, and its latency taken, when the
//! server's first byte comes: from the client's connecting, and for the policy from that to the
//! server. What follows on the connection, pauses and all, is the client's affair.

use std::sync::Arc;
use std::time::Instant;

use policy::ServerId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::{timeout_at, Instant as Deadline};

use crate::tier::{Flight, Lease, Tier, Unreached};

/// Read and not yet written, in each direction.
const COPY_BYTES: usize = 16 * 1024;

/// Whose connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Client,
    Server,
}

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
    // A socket that refuses the option still works.
    let _ = client.set_nodelay(true);
    let mut request = Request {
        flight: tier.sent(lease.server),
        tier: &tier,
        received,
        is_answered: false,
    };
    let ended = relay(&mut client, &mut server, &mut request).await;
    request.end(ended);
}

/// A server that takes the connection.
async fn reach(tier: &Arc<Tier>, deadline: Deadline) -> Option<(Lease, TcpStream)> {
    let mut refusing: Vec<ServerId> = Vec::new();
    loop {
        let lease = tier.acquire(1, &refusing).ok()?.next().await?;
        match tier.connect(lease.server, deadline).await {
            Ok(stream) => return Some((lease, stream)),
            Err(Unreached::Local) => return None,
            Err(_) => refusing.push(lease.server),
        }
    }
}

/// A connection in the accounts.
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

    /// Counts it as failed where the client got no answer and did not end it itself.
    fn end(self, ended: Result<Sent, Broken>) {
        let is_servers = ended == Err(Broken::Server)
            || matches!(ended, Ok(Sent { to_server, to_client: 0 }) if to_server > 0);
        if is_servers {
            self.flight.bad();
        }
        if !self.is_answered {
            let counters = &self.tier.counters;
            let fate = if is_servers {
                &counters.failed
            } else {
                &counters.answered
            };
            fate.inc();
            self.tier.request_ended(self.received);
        }
    }
}

/// Bytes passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    to_server: u64,
    to_client: u64,
}

/// Passes bytes on in both directions until both have ended; one that has ended lets the other go on.
async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    request: &mut Request<'_>,
) -> Result<Sent, Broken> {
    let (mut client_reads, mut client_writes) = client.split();
    let (mut server_reads, mut server_writes) = server.split();
    let up = Way {
        from: &mut client_reads,
        to: &mut server_writes,
        reads: Broken::Client,
        writes: Broken::Server,
    };
    let down = Way {
        from: &mut server_reads,
        to: &mut client_writes,
        reads: Broken::Server,
        writes: Broken::Client,
    };
    let (to_server, to_client) =
        tokio::try_join!(up.copy(|| {}), down.copy(|| request.answered()))?;
    Ok(Sent {
        to_server,
        to_client,
    })
}

/// One direction, and whose fault it is where reading or writing fails.
struct Way<'a, 'b> {
    from: &'a mut ReadHalf<'b>,
    to: &'a mut WriteHalf<'b>,
    reads: Broken,
    writes: Broken,
}

impl<'b> Way<'_, 'b> {
    async fn copy(self, mut on_bytes: impl FnMut()) -> Result<u64, Broken> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut sent = 0;
        loop {
            let read = self.from.read(&mut buffer).await;
            let read = read.map_err(|_| self.reads)?;
            if read == 0 {
                self.to.shutdown().await.map_err(|_| self.writes)?;
                return Ok(sent);
            }
            on_bytes();
            let written = self.to.write_all(&buffer[..read]).await;
            written.map_err(|_| self.writes)?;
            sent += read as u64;
        }
    }
}
