//! A request to one server: all that are not reads, and reads at r = 1. The reply is streamed.
//!
//! A server that cannot be reached is passed over for the next, each at most once. What was sent is
//! not sent again (but for a read on a pooled connection that the server had closed).

use std::io;

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::time::{timeout_at, Instant};

use super::answer::{After, Client};
use super::body::{Body, Framing};
use super::exchange::{ask, open, reply_head, Failure, Link};
use super::head::RequestHead;
use super::refusal::{refusal_of, Refusal};
use super::relay::{pass_on, Sent};
use super::Front;
use crate::tier::Lease;

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
            let refusal = failure.refusal();
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
