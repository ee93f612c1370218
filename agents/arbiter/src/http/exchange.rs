//! One request sent to one server, up to the head of its reply.

use std::io;

use bytes::Buf;
use policy::ServerId;
use tokio::time::Instant;

use super::head::{RequestHead, ResponseHead};
use super::refusal::Refusal;
use super::Front;
use crate::conn::Conn;
use crate::siblings::{self, Stamp};

/// Interim replies (1xx) that a server may send before the real one.
const INTERIM_MAX: usize = 8;

/// Why there is no usable reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server could not be reached; nothing was sent.
    Connect,
    /// The connection ended before the first byte of a reply.
    Silent,
    /// The request's time was up.
    TimedOut,
    /// The reply broke off, or is not HTTP/1.1.
    Broken,
}

impl Failure {
    /// What the client gets for it.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Connect => Refusal::new(502, "no server could be reached"),
            Self::Silent => Refusal::new(502, "the server closed the connection without a reply"),
            Self::TimedOut => Refusal::new(504, "the server did not reply in time"),
            Self::Broken => Refusal::new(502, "the server's reply was broken"),
        }
    }
}

/// A connection to a server.
pub struct Link {
    /// The socket.
    pub conn: Conn,
    /// Came from the pool, so that the server may have closed it meanwhile.
    pub reused: bool,
}

/// A pooled connection, or a new one. A failure marks the server dead.
///
/// # Errors
/// [`Failure::Connect`].
pub async fn open(front: &Front, server: ServerId, may_reuse: bool) -> Result<Link, Failure> {
    let counters = &front.tier.server_counters[server];
    if may_reuse {
        if let Some(conn) = front.pool.take(server) {
            counters.connections_reused.inc();
            return Ok(Link { conn, reused: true });
        }
    }
    let stream = front.tier.connect(server).await.ok_or(Failure::Connect)?;
    Ok(Link {
        conn: Conn::new(stream),
        reused: false,
    })
}

/// Sends a read and waits for its reply's head. Where a pooled connection turns out to be closed
/// before any reply, a new one is tried once: a read may be sent again.
///
/// # Errors
/// [`Failure`].
pub async fn ask(
    front: &Front,
    server: ServerId,
    link: &mut Link,
    request: &RequestHead,
    stamp: Option<Stamp>,
    deadline: Instant,
    reply: &mut ResponseHead,
) -> Result<(), Failure> {
    match ask_once(front, &mut link.conn, request, stamp, deadline, reply).await {
        Err(Failure::Silent) if link.reused => {
            *link = open(front, server, false).await?;
            ask_once(front, &mut link.conn, request, stamp, deadline, reply).await
        }
        other => other,
    }
}

async fn ask_once(
    front: &Front,
    conn: &mut Conn,
    request: &RequestHead,
    stamp: Option<Stamp>,
    deadline: Instant,
    reply: &mut ResponseHead,
) -> Result<(), Failure> {
    let limit = front.tier.config().request_timeout();
    let head = &request.forward;
    let written = match stamp {
        None => conn.write(head, limit).await,
        Some(stamp) => {
            // Before the empty line that ends the head.
            let fields = &head[..head.len() - 2];
            let last = format!("{}: {stamp}\r\n\r\n", siblings::HEADER);
            conn.write_both(fields, last.as_bytes(), limit).await
        }
    };
    written.map_err(|error| failure(&error, Failure::Silent))?;
    reply_head(conn, request.is_head, deadline, reply).await
}

/// Waits for a reply's head, stepping over interim replies.
///
/// # Errors
/// [`Failure`].
pub async fn reply_head(
    conn: &mut Conn,
    to_head: bool,
    deadline: Instant,
    reply: &mut ResponseHead,
) -> Result<(), Failure> {
    let mut silent = Failure::Silent;
    let mut interim = 0;
    loop {
        if !conn.buffer.is_empty() {
            match reply.read(&conn.buffer, to_head) {
                Ok(Some(length)) => {
                    conn.buffer.advance(length);
                    if reply.status >= 200 {
                        return Ok(());
                    }
                    interim += 1;
                    if interim > INTERIM_MAX {
                        return Err(Failure::Broken);
                    }
                    continue;
                }
                Ok(None) => {}
                Err(_) => return Err(Failure::Broken),
            }
        }
        match conn.fill_by(deadline).await {
            Ok(0) => return Err(silent),
            Ok(_) => silent = Failure::Broken,
            Err(error) => return Err(failure(&error, silent)),
        }
    }
}

fn failure(error: &io::Error, otherwise: Failure) -> Failure {
    if error.kind() == io::ErrorKind::TimedOut {
        Failure::TimedOut
    } else {
        otherwise
    }
}

/// Keeps the connection for the next request where nothing is outstanding on it.
pub fn keep(front: &Front, server: ServerId, link: Link, head: &ResponseHead) {
    if head.keep_alive && link.conn.buffer.is_empty() {
        front.pool.put(server, link.conn);
    }
}
