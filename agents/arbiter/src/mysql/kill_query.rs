//! A command without a waiting client, on which a server still works.
//!
//! Otherwise the server would continue, for example to the end of a `SLEEP(600)`. It is stopped by
//! `KILL QUERY`, on another connection with the arbiter's own login, and its reply is read to the
//! end; the token returns when the server is free. If that is impossible, the connection is closed,
//! and the token returns at once. In neither case is the connection used again, because a late kill
//! would end the next client's query.

use std::sync::Arc;

use policy::ServerId;
use tokio::time::timeout;

use super::packet;
use super::reply::Follow;
use super::server_pool::{ServerConn, ServerPool};
use crate::conn::Conn;
use crate::tier::{Flight, Lease};

/// A command under way whose client has disconnected.
pub struct KillQuery {
    /// The pool to reach the server by.
    pub pool: Arc<ServerPool>,
    /// The server.
    pub server: ServerId,
    /// The connection that executes it.
    pub conn: ServerConn,
    /// State of its reply.
    pub follow: Follow,
    /// Its token.
    pub lease: Option<Lease>,
    /// Accounting until the server is free.
    pub flight: Flight,
}

impl KillQuery {
    /// Stops the command, in a task of its own.
    pub fn end(mut self) {
        tokio::spawn(async move {
            stop(&self.pool, self.server, &mut self.conn, &mut self.follow).await;
            drop((self.conn, self.flight, self.lease));
        });
    }
}

/// Stops the server's work on this connection, and waits for it. The outcome is no observation; the
/// connection must not be reused.
pub async fn stop(pool: &ServerPool, server: ServerId, conn: &mut ServerConn, follow: &mut Follow) {
    if pool.kill_query(server, conn).await {
        let limit = pool.tier.config().request_timeout();
        // Beyond it the server is left to itself.
        let _ = timeout(limit, drain(&mut conn.conn, follow)).await;
    }
}

/// Reads a reply to its end, or to that of the connection.
async fn drain(conn: &mut Conn, follow: &mut Follow) {
    while let Ok(Some(packet)) = packet::read(conn).await {
        if follow.packet(packet.payload()).is_some() {
            return;
        }
    }
}
