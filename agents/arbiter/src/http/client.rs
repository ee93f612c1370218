//! A client's connection: request after request, each answered before the next is read (pipelined
//! requests wait in the buffer).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Buf;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::body::Framing;
use super::head::{parse_request, RequestHead, ResponseHead};
use super::refusal::Refusal;
use super::{direct, race, Front};
use crate::conn::Conn;

/// How long a client may keep an idle connection.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long a client may take for one head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// See the module.
pub struct Client {
    /// The socket.
    pub conn: Conn,
    stop: watch::Receiver<bool>,
}

/// What becomes of the connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next request may come.
    Next,
    /// The reply was complete; close.
    Close,
    /// The reply was complete, but the request was not read to its end: close without a reset.
    Linger,
    /// The reply was cut: close at once.
    Abort,
}

/// Serves a client until it goes, breaks the protocol, or the arbiter stops.
pub async fn serve(front: Arc<Front>, stream: TcpStream, stop: watch::Receiver<bool>) {
    let mut client = Client {
        conn: Conn::new(stream),
        stop,
    };
    loop {
        let after = match client.next_request().await {
            Ok(Some(request)) => client.answer(&front, &request).await,
            Ok(None) => After::Close,
            Err(refusal) => {
                let reply = refusal.reply(false, true);
                // The client may be gone; there is nobody else to tell.
                let _ = client.conn.write(&reply, HEAD_TIME_MAX).await;
                After::Linger
            }
        };
        match after {
            After::Next => {}
            After::Linger => return client.conn.linger().await,
            After::Close | After::Abort => return,
        }
    }
}

impl Client {
    /// The next request's head; none when the connection ends between requests.
    async fn next_request(&mut self) -> Result<Option<RequestHead>, Refusal> {
        if self.conn.buffer.is_empty() && !self.first_bytes().await {
            return Ok(None);
        }
        let whole_head = async {
            loop {
                // An empty line before a request is tolerated (RFC 9112, 2.2).
                if self.conn.buffer.starts_with(b"\r\n") {
                    self.conn.buffer.advance(2);
                }
                if let Some((head, length)) = parse_request(&self.conn.buffer)? {
                    self.conn.buffer.advance(length);
                    return Ok(Some(head));
                }
                if !matches!(self.conn.fill().await, Ok(1..)) {
                    return Ok(None);
                }
            }
        };
        match timeout(HEAD_TIME_MAX, whole_head).await {
            Ok(head) => head,
            Err(_) => Err(Refusal::new(
                408,
                "the request's head took longer than 10 s",
            )),
        }
    }

    /// Waits between requests; false when no more come.
    async fn first_bytes(&mut self) -> bool {
        if *self.stop.borrow() {
            return false;
        }
        tokio::select! {
            read = timeout(IDLE_MAX, self.conn.fill()) => matches!(read, Ok(Ok(1..))),
            _ = self.stop.changed() => false,
        }
    }

    async fn answer(&mut self, front: &Arc<Front>, request: &RequestHead) -> After {
        front.tier.counters.received.inc();
        let r = front.tier.replicas();
        let received = Instant::now();
        let after = if request.is_read && r > 1 {
            front.tier.counters.cloned.inc();
            race::run(front, self, request, r).await
        } else {
            direct::run(front, self, request).await
        };
        front.tier.request_ended(received);
        after
    }

    /// Whether the connection goes on after this request.
    pub fn keeps(&self, request: &RequestHead) -> bool {
        request.keep_alive && !*self.stop.borrow()
    }

    /// Answers with the arbiter's own error.
    pub async fn refuse(
        &mut self,
        front: &Front,
        request: &RequestHead,
        refusal: Refusal,
        unread_body: bool,
    ) -> After {
        front.tier.counters.failed.inc();
        let keep = self.keeps(request) && request.minor == 1 && !unread_body;
        let reply = refusal.reply(request.is_head, !keep);
        self.write_last(front, &reply, keep, unread_body).await
    }

    /// Writes the (last bytes of the) reply.
    pub async fn finish(
        &mut self,
        front: &Front,
        bytes: &[u8],
        keep: bool,
        unread_body: bool,
    ) -> After {
        let after = self.write_last(front, bytes, keep, unread_body).await;
        if after == After::Abort {
            front.tier.counters.failed.inc();
        } else {
            front.tier.counters.answered.inc();
        }
        after
    }

    async fn write_last(
        &mut self,
        front: &Front,
        bytes: &[u8],
        keep: bool,
        unread_body: bool,
    ) -> After {
        let limit = front.tier.config().request_timeout();
        match self.conn.write(bytes, limit).await {
            Err(_) => After::Abort,
            Ok(()) if unread_body => After::Linger,
            Ok(()) if keep => After::Next,
            Ok(()) => After::Close,
        }
    }
}

/// The reply's head for the client: what goes end to end, who answered, how it ends.
/// `held` is the length of a body that is complete.
pub fn reply_head_bytes(
    head: &ResponseHead,
    server: &str,
    request: &RequestHead,
    keep: bool,
    held: Option<usize>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.forward.len() + 96 + held.unwrap_or(0));
    out.extend_from_slice(&head.forward);
    out.extend_from_slice(format!("x-sparecraft-server: {server}\r\n").as_bytes());
    if let (Framing::UntilClose, Some(length)) = (head.framing, held) {
        out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
    }
    if !keep {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if request.minor == 0 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}
