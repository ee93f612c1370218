//! A request to one server: all that are not reads, and reads at r = 1. The reply is streamed.
//!
//! A server that cannot be reached is passed over for the next, each at most once. What was sent is
//! not sent again (but for a read on a pooled connection that the server had closed).

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use policy::{Refused, ServerId};
use tokio::time::{timeout_at, Instant};

use super::body::{Body, Framing};
use super::client::{After, Client};
use super::exchange::{ask, keep, open, reply_head, Failure, Link};
use super::head::{RequestHead, ResponseHead};
use super::refusal::Refusal;
use super::Front;
use crate::tier::{Flight, Lease};

/// Serves one request.
pub async fn run(front: &Front, client: &mut Client, request: &RequestHead) -> After {
    let deadline = Instant::now() + front.tier.config().request_timeout();
    let (lease, link) = match reach(front, request, deadline).await {
        Ok(reached) => reached,
        Err(refusal) => {
            return client
                .refuse(front, request, refusal, has_body(request))
                .await
        }
    };
    exchange(front, client, request, lease, link, deadline).await
}

fn has_body(request: &RequestHead) -> bool {
    !matches!(request.framing, Framing::Empty | Framing::Length(0))
}

/// A server and a connection to it.
async fn reach(
    front: &Front,
    request: &RequestHead,
    deadline: Instant,
) -> Result<(Lease, Link), Refusal> {
    let mut tried: Vec<ServerId> = Vec::new();
    loop {
        let mut leases = match front.tier.acquire_for(request.stamp, 1, &tried) {
            Ok(leases) => leases,
            Err(refused) => return Err(refusal_of(refused, !tried.is_empty())),
        };
        let Ok(Some(lease)) = timeout_at(deadline, leases.next()).await else {
            return Err(Refusal::new(503, "no server came free in time"));
        };
        if let Some(stamp) = request.stamp {
            front.tier.holds(stamp, lease.server);
        }
        // A non-read on a connection that the server is just closing could not be sent again.
        match open(front, lease.server, request.is_read).await {
            Ok(link) => return Ok((lease, link)),
            Err(_) => tried.push(lease.server),
        }
    }
}

/// What the client gets when no server may be asked.
pub fn refusal_of(refused: Refused, tried_some: bool) -> Refusal {
    match refused {
        Refused::NoServer if tried_some => Refusal::new(502, "no server could be reached"),
        Refused::NoServer => Refusal::new(503, "no server is alive"),
        Refused::QueueFull => Refusal::new(503, "too many requests wait for a server"),
    }
}

/// What the client gets for a server's failure.
pub fn refusal_for(failure: Failure) -> Refusal {
    match failure {
        Failure::Connect => Refusal::new(502, "no server could be reached"),
        Failure::Silent => Refusal::new(502, "the server closed the connection without a reply"),
        Failure::TimedOut => Refusal::new(504, "the server did not reply in time"),
        Failure::Broken => Refusal::new(502, "the server's reply was broken"),
    }
}

/// A request that was sent to a server.
pub struct Sent {
    /// The server.
    pub lease: Lease,
    /// The connection to it.
    pub link: Link,
    /// The accounts of this replica.
    pub flight: Flight,
    /// The client's body was not read to its end.
    pub unread_body: bool,
}

async fn exchange(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    lease: Lease,
    mut link: Link,
    deadline: Instant,
) -> After {
    let flight = front.tier.sent(lease.server);
    let mut unread_body = false;
    let mut reply = std::mem::take(&mut client.reply);
    let asked = if request.is_read {
        let server = lease.server;
        ask(
            front, server, &mut link, request, None, deadline, &mut reply,
        )
        .await
    } else {
        match send(front, client, request, &mut link, deadline).await {
            Ok(complete) => {
                unread_body = !complete;
                reply_head(&mut link.conn, request.is_head, deadline, &mut reply).await
            }
            Err(Sending::ToServer(failure)) => {
                unread_body = has_body(request);
                Err(failure)
            }
            Err(Sending::FromClient) => {
                flight.neutral();
                front.tier.counters.failed.inc();
                return After::Abort;
            }
        }
    };
    let known = asked.and_then(|()| match (request.minor, reply.framing) {
        // HTTP/1.0 knows no chunks.
        (0, Framing::Chunked) => Err(Failure::Broken),
        _ => Ok(Body::new(reply.framing)),
    });
    match known {
        Ok(body) => {
            let sent = Sent {
                lease,
                link,
                flight,
                unread_body,
            };
            pass_on(front, client, request, sent, (reply, body), BytesMut::new()).await
        }
        Err(failure) => {
            flight.bad();
            client.reply = reply;
            let refusal = refusal_for(failure);
            client.refuse(front, request, refusal, unread_body).await
        }
    }
}

enum Sending {
    ToServer(Failure),
    FromClient,
}

/// Sends head and body; false when the server replied before it had all.
async fn send(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    link: &mut Link,
    deadline: Instant,
) -> Result<bool, Sending> {
    let limit = front.tier.config().request_timeout();
    let to_server = |error: io::Error| {
        let timed_out = error.kind() == io::ErrorKind::TimedOut;
        Sending::ToServer(if timed_out {
            Failure::TimedOut
        } else {
            Failure::Silent
        })
    };
    link.conn
        .write(&request.forward, limit)
        .await
        .map_err(to_server)?;
    if request.expects_continue && has_body(request) {
        let go_on = client
            .conn
            .write(b"HTTP/1.1 100 Continue\r\n\r\n", limit)
            .await;
        go_on.map_err(|_| Sending::FromClient)?;
    }
    let mut body = Body::new(request.framing);
    while !body.is_done() {
        // A reply before the end (413, say) ends the sending: the server may read no further.
        let piece = tokio::select! {
            biased;
            piece = body.next(&mut client.conn, deadline) => piece,
            () = link.conn.spoken() => return Ok(false),
        };
        let Ok(piece) = piece else {
            return Err(Sending::FromClient);
        };
        let length = piece.unwrap_or(0);
        if link
            .conn
            .write(&client.conn.buffer[..length], limit)
            .await
            .is_err()
        {
            // It may have replied before it closed.
            return Ok(false);
        }
        client.conn.buffer.advance(length);
    }
    Ok(true)
}

/// Streams the reply to the client: its head, the `held` beginning of its body, and the rest as it
/// comes, straight from the server connection's buffer.
pub async fn pass_on(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    sent: Sent,
    reply: (ResponseHead, Body),
    held: BytesMut,
) -> After {
    let Sent {
        lease,
        mut link,
        flight,
        unread_body,
    } = sent;
    let (mut head, mut body) = reply;
    let limit = front.tier.config().request_timeout();
    let keeps = client.keeps(request) && !unread_body && head.framing != Framing::UntilClose;
    let name = &front.tier.server(lease.server).name;
    head.close_for(name, request, keeps, None);
    if begin(client, &mut head, held, limit).await.is_err() {
        flight.neutral();
        front.tier.counters.failed.inc();
        return After::Abort;
    }
    let last = loop {
        match body.next(&mut link.conn, Instant::now() + limit).await {
            Ok(None) => break 0,
            Ok(Some(length)) if body.is_done() => break length,
            Ok(Some(length)) => {
                let piece = &link.conn.buffer[..length];
                let written = client.conn.write_both(&head.forward, piece, limit);
                if written.await.is_err() {
                    flight.neutral();
                    front.tier.counters.failed.inc();
                    return After::Abort;
                }
                head.forward.clear();
                link.conn.buffer.advance(length);
            }
            Err(_) => {
                flight.bad();
                front.tier.counters.failed.inc();
                // What came goes out; the missing rest tells the client that it was cut.
                let _ = client.conn.write(&head.forward, limit).await;
                return After::Abort;
            }
        }
    };
    if head.status < 500 {
        flight.good();
    } else {
        flight.bad();
    }
    flight.won();
    // The connection goes back with another buffer while this one is written to the client.
    let is_whole = link.conn.buffer.len() == last;
    let mut tail = std::mem::replace(&mut link.conn.buffer, std::mem::take(&mut client.spare));
    if !unread_body && is_whole {
        keep(front, lease.server, link, &head);
    }
    // Drained: a client that is slow to take the rest holds nothing of the server's.
    drop((flight, lease));
    let bytes = (&head.forward[..], &tail[..last]);
    let after = client.finish(front, bytes, keeps, unread_body).await;
    tail.clear();
    (client.spare, client.reply) = (tail, head);
    after
}

/// Writes the head with what was held back, if anything was. Not by way of the head's buffer: that
/// one stays with the client's connection, and would stay as large as this.
async fn begin(
    client: &mut Client,
    head: &mut ResponseHead,
    held: BytesMut,
    limit: Duration,
) -> io::Result<()> {
    if !held.is_empty() {
        client.conn.write_both(&head.forward, &held, limit).await?;
        head.forward.clear();
    }
    Ok(())
}
