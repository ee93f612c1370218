//! One request sent to one server, up to the head of its reply.

use std::io;
use std::pin::pin;

use bytes::Buf;
use policy::ServerId;
use tokio::time::Instant;

use super::head::{RequestHead, ResponseHead};
use super::pool::Age;
use super::refusal::Refusal;
use super::Front;
use crate::collision_avoidance::{self, Stamp};
use crate::conn::Conn;
use crate::tier::Unreached;

/// Maximum interim replies (1xx) before the final one.
pub const INTERIM_MAX: usize = 8;

/// Reason for having no usable reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server could not be reached; nothing was sent.
    Connect,
    /// The connection ended before the first byte of a reply.
    Silent,
    /// The request timed out.
    TimedOut,
    /// The reply was cut, or is not HTTP/1.1.
    Broken,
    /// This machine has no socket or port left.
    Local,
    /// The replies are too large to be held until others agree.
    TooLarge,
    /// The replies differ without a majority.
    Disagreed,
    /// Fewer replicas replied than have to agree.
    Alone,
    /// The request timed out before enough replies agreed.
    Undecided,
}

impl Failure {
    /// The refusal for the client.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Connect => Refusal::new(502, "no server could be reached"),
            Self::Silent => Refusal::new(502, "the server closed the connection without a reply"),
            Self::TimedOut => Refusal::new(504, "the server did not reply in time"),
            Self::Broken => Refusal::new(502, "the server's reply was broken"),
            Self::Local => Refusal::new(503, "no connection is left to ask a server with"),
            Self::TooLarge => Refusal::new(502, "the replies are larger than may be compared"),
            Self::Disagreed => {
                Refusal::new(502, "the replicas' replies differ, no majority agrees")
            }
            Self::Alone => Refusal::new(502, "fewer replicas replied than have to agree"),
            Self::Undecided => Refusal::new(504, "not enough replicas agreed in time"),
        }
    }

    /// True if a read may be sent to another server: there is time, and no reply.
    pub fn may_be_retried(self) -> bool {
        matches!(self, Self::Connect | Self::Silent | Self::Broken)
    }
}

/// A request for a server.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The head.
    pub request: &'a RequestHead,
    /// The whole body.
    pub body: &'a [u8],
    /// Stamp of the replica, for the next tier.
    pub stamp: Option<Stamp>,
    /// Deadline for the head of the reply.
    pub deadline: Instant,
}

/// A connection to a server.
pub struct Link {
    /// The socket.
    pub conn: Conn,
    /// True if it came from the pool, so that the server may have closed it meanwhile.
    pub reused: bool,
}

/// Takes a pooled connection of that age, or opens a new one. Uses a connection that returns to the
/// pool first, so that few are opened when many requests arrive at once. A server that refuses one
/// is dead.
pub async fn open(
    front: &Front,
    server: ServerId,
    reuse: Option<Age>,
    deadline: Instant,
) -> Result<Link, Failure> {
    let pooled = || {
        let conn = front.pool.take(server, reuse?)?;
        front.tier.server_counters[server].connections_reused.inc();
        Some(Link { conn, reused: true })
    };
    if let Some(link) = pooled() {
        return Ok(link);
    }
    let mut connecting = pin!(front.tier.connect(server, deadline));
    loop {
        let connected = tokio::select! {
            biased;
            connected = &mut connecting => connected,
            () = front.pool.returned(server), if reuse.is_some() => match pooled() {
                Some(link) => return Ok(link),
                None => continue,
            },
        };
        return match connected {
            Ok(stream) => Ok(Link { conn: Conn::new(stream), reused: false }),
            Err(Unreached::Local) => Err(Failure::Local),
            Err(_) => Err(Failure::Connect),
        };
    }
}

/// Sends a request, and waits for the first head of the reply; true if the server took the whole
/// request before. A read is sent again once on a new connection if a pooled one was closed before
/// any reply.
pub async fn ask(
    front: &Front,
    server: ServerId,
    link: &mut Link,
    question: &Question<'_>,
    reply: &mut ResponseHead,
) -> Result<bool, Failure> {
    match ask_once(front, &mut link.conn, question, reply).await {
        Err(Failure::Silent) if link.reused && question.request.is_read => {
            *link = open(front, server, None, question.deadline).await?;
            ask_once(front, &mut link.conn, question, reply).await
        }
        Err(Failure::Silent) if link.reused => {
            front.pool.closed_in_use(server);
            Err(Failure::Silent)
        }
        other => other,
    }
}

async fn ask_once(
    front: &Front,
    conn: &mut Conn,
    question: &Question<'_>,
    reply: &mut ResponseHead,
) -> Result<bool, Failure> {
    let limit = front.tier.config().request_timeout();
    let head = &question.request.forward;
    let written = match question.stamp {
        None => conn.write_unanswered(head, question.body, limit).await,
        Some(stamp) => {
            // Before the empty line that ends the head.
            let fields = &head[..head.len() - 2];
            let last = format!("{}: {stamp}\r\n\r\n", collision_avoidance::HEADER);
            conn.write_unanswered(fields, last.as_bytes(), limit).await
        }
    };
    let takes_all = match written {
        Ok(all) => all,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Failure::TimedOut),
        // It may have replied before it closed.
        Err(_) => false,
    };
    let is_head = question.request.is_head;
    reply_head(conn, is_head, question.deadline, reply).await?;
    Ok(takes_all)
}

/// As [`ask`], up to the head of the final reply; collects the interim ones in `interim`.
pub async fn ask_for_final(
    front: &Front,
    server: ServerId,
    link: &mut Link,
    question: &Question<'_>,
    reply: &mut ResponseHead,
    interim: &mut Vec<u8>,
) -> Result<(), Failure> {
    ask(front, server, link, question, reply).await?;
    let is_head = question.request.is_head;
    for _ in 0..INTERIM_MAX {
        if reply.status >= 200 {
            return Ok(());
        }
        interim.extend_from_slice(&reply.forward);
        interim.extend_from_slice(b"\r\n");
        reply_head(&mut link.conn, is_head, question.deadline, reply).await?;
    }
    Err(Failure::Broken)
}

/// Waits for the head of a reply, which may be an interim one.
pub async fn reply_head(
    conn: &mut Conn,
    to_head: bool,
    deadline: Instant,
    reply: &mut ResponseHead,
) -> Result<(), Failure> {
    let mut silent = Failure::Silent;
    loop {
        if !conn.buffer.is_empty() {
            match reply.read(&conn.buffer, to_head) {
                Ok(Some(length)) => {
                    conn.buffer.advance(length);
                    return Ok(());
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

/// Returns the connection to the pool if nothing is outstanding on it.
pub fn keep(front: &Front, server: ServerId, link: Link, head: &ResponseHead) {
    if head.keep_alive && link.conn.buffer.is_empty() {
        front.pool.put(server, link.conn);
    }
}
