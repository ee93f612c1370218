//! A client's connection: request after request, each answered before the next is read (pipelined
//! requests wait in the buffer).

use std::future::Future;
use std::io;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{After, Client};
use super::head::{RequestHead, HEAD_MAX};
use super::refusal::Refusal;
use super::upload::{Broken, Upload};
use super::{race, single_server, Front};

/// Maximum time of an idle connection.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Idle time after which a connection's buffers are released.
const BUFFERS_KEPT: Duration = Duration::from_secs(1);
/// Maximum time for reading one head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Serves a client until it disconnects, violates the protocol, or the arbiter stops.
pub async fn serve(front: Arc<Front>, stream: TcpStream, stop: watch::Receiver<bool>) {
    let mut waiting = stop.clone();
    let mut stopping = pin!(async move {
        // An error means that the sender is gone, which is a stop as well.
        let _ = waiting.changed().await;
    });
    let mut client = Client::new(stream, stop);
    let mut request = RequestHead::default();
    loop {
        let after = match client.next_request(&mut request, stopping.as_mut()).await {
            Ok(true) => {
                let paths = &front.tier.config().streamed_paths;
                let is_under = |start: &String| request.path().starts_with(start.as_bytes());
                request.streams |= request.is_read && paths.iter().any(is_under);
                client.answer(&front, &request).await
            }
            Ok(false) => After::Close,
            Err(refusal) => {
                let reply = refusal.reply(false, true);
                // The client may be gone; there is nobody else to tell.
                let _ = client.conn.write(&reply, HEAD_TIME_MAX).await;
                After::Linger
            }
        };
        match after {
            After::Next => continue,
            After::Linger => client.conn.linger().await,
            After::Close | After::Abort => {}
        }
        return;
    }
}

impl Client {
    /// Reads the head of the next request; false if the connection ends before its end.
    async fn next_request(
        &mut self,
        request: &mut RequestHead,
        stopping: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<bool, Refusal> {
        if self.conn.buffer.is_empty() && !self.first_bytes(stopping).await {
            return Ok(false);
        }
        let mut deadline = None;
        loop {
            // An empty line before a request is tolerated (RFC 9112, 2.2).
            if self.conn.buffer.starts_with(b"\r\n") {
                self.conn.buffer.advance(2);
            }
            if let Some(length) = request.read(&self.conn.buffer)? {
                self.conn.buffer.advance(length);
                return Ok(true);
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + HEAD_TIME_MAX);
            if !self.next_line(deadline).await? {
                return Ok(false);
            }
        }
    }

    /// Reads until a new line may be complete, so that a client that sends byte by byte does not
    /// have the whole head parsed for each.
    async fn next_line(&mut self, deadline: Instant) -> Result<bool, Refusal> {
        loop {
            let known = self.conn.buffer.len();
            match self.conn.fill_by(deadline).await {
                Ok(1..) if self.conn.buffer[known..].contains(&b'\n') => return Ok(true),
                Ok(1..) if known < HEAD_MAX => {}
                Ok(1..) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    let reason = "the request's head took longer than 10 s";
                    return Err(Refusal::new(408, reason));
                }
                Ok(0) | Err(_) => return Ok(false),
            }
        }
    }

    /// Waits between requests; false if there is none.
    async fn first_bytes(&mut self, mut stopping: Pin<&mut impl Future<Output = ()>>) -> bool {
        if self.is_stopped() {
            return false;
        }
        self.conn.shrink_buffer();
        let since = Instant::now();
        let mut deadline = since + BUFFERS_KEPT;
        loop {
            let read = tokio::select! {
                biased;
                read = self.conn.fill_by(deadline) => read,
                () = &mut stopping => return false,
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    if deadline == since + IDLE_MAX {
                        return false;
                    }
                    self.conn.release_buffer();
                    self.spare = BytesMut::new();
                    self.reply.forward = Vec::new();
                    deadline = since + IDLE_MAX;
                }
                read => return matches!(read, Ok(1..)),
            }
        }
    }

    async fn answer(&mut self, front: &Arc<Front>, request: &RequestHead) -> After {
        front.tier.counters.received.inc();
        if let Some(reply) = &request.own_reply {
            let unread_body = request.has_body();
            let keep = self.keeps(request) && !unread_body;
            let head = reply.with_connection(keep, request.minor);
            let bytes = (&head[..], &reply.body[..]);
            return self.finish(front, bytes, keep, unread_body).await;
        }
        let mut upload = Upload::new(request);
        // A client that waits to be told to go on says nothing before.
        if !request.expects_continue {
            match upload.fill(front, self).await {
                Ok(()) => {}
                Err(Broken::Refused(refusal)) => {
                    return self.refuse(front, request, refusal, true).await;
                }
                Err(Broken::Gone | Broken::Server(_)) => {
                    front.tier.counters.failed.inc();
                    return After::Abort;
                }
            }
        }
        match request.is_safe {
            true => front.tier.counters.reads.inc(),
            false => front.tier.counters.writes.inc(),
        }
        let received = Instant::now();
        let (r, races) = if request.is_read && !request.streams {
            let r = front.tier.read_replicas(received.into());
            (r, r > 1 || front.tier.is_probe_due(received.into()))
        } else {
            (1, false)
        };
        let after = if races {
            front.tier.counters.cloned.inc();
            race::run(front, self, request, r).await
        } else {
            single_server::run(front, self, request, upload, received).await
        };
        front.tier.request_ended(received.into());
        after
    }
}
