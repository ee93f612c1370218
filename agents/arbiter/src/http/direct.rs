//! A request to one server: all that are not reads, and reads at r = 1. The reply is streamed.
//!
//! A server that cannot be reached is passed over for the next, each at most once. What was sent is
//! not sent again (but for a read on a pooled connection that the server had closed).

use std::io;

use policy::{Refused, ServerId};
use tokio::time::{timeout, timeout_at, Instant};

use super::body::{Body, Framing};
use super::client::{reply_head_bytes, After, Client};
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
        let mut leases = match front.tier.acquire(1, &tried) {
            Ok(leases) => leases,
            Err(refused) => return Err(refusal_of(refused, !tried.is_empty())),
        };
        let Ok(Some(lease)) = timeout_at(deadline, leases.next()).await else {
            return Err(Refusal::new(503, "no server came free in time"));
        };
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
struct Sent {
    lease: Lease,
    link: Link,
    flight: Flight,
    /// The client's body was not read to its end.
    unread_body: bool,
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
    let asked = if request.is_read {
        ask(front, lease.server, &mut link, request, deadline).await
    } else {
        match send(front, client, request, &mut link, deadline).await {
            Ok(complete) => {
                unread_body = !complete;
                reply_head(&mut link.conn, request.is_head, deadline).await
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
    match asked {
        // HTTP/1.0 knows no chunks.
        Ok(head) if request.minor > 0 || head.framing != Framing::Chunked => {
            let sent = Sent {
                lease,
                link,
                flight,
                unread_body,
            };
            stream(front, client, request, sent, head).await
        }
        failed => {
            flight.bad();
            let refusal = refusal_for(failed.err().unwrap_or(Failure::Broken));
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
            piece = timeout_at(deadline, body.next_piece(&mut client.conn)) => piece,
            () = link.conn.spoken() => return Ok(false),
        };
        let Ok(Ok(piece)) = piece else {
            return Err(Sending::FromClient);
        };
        if let Some(piece) = piece {
            if link.conn.write(&piece, limit).await.is_err() {
                // It may have replied before it closed.
                return Ok(false);
            }
        }
    }
    Ok(true)
}

async fn stream(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    sent: Sent,
    head: ResponseHead,
) -> After {
    let Sent {
        lease,
        mut link,
        flight,
        unread_body,
    } = sent;
    let limit = front.tier.config().request_timeout();
    let keep_client = client.keeps(request) && !unread_body && head.framing != Framing::UntilClose;
    let name = &front.tier.server(lease.server).name;
    let mut out = reply_head_bytes(&head, name, request, keep_client, None);
    let mut body = Body::new(head.framing);
    loop {
        match timeout(limit, body.next_piece(&mut link.conn)).await {
            Ok(Ok(Some(piece))) => out.extend_from_slice(&piece),
            Ok(Ok(None)) => break,
            Ok(Err(_)) | Err(_) => {
                flight.bad();
                front.tier.counters.failed.inc();
                // What came goes out; the missing rest tells the client that it was cut.
                let _ = client.conn.write(&out, limit).await;
                return After::Abort;
            }
        }
        if !body.is_done() {
            if client.conn.write(&out, limit).await.is_err() {
                flight.neutral();
                front.tier.counters.failed.inc();
                return After::Abort;
            }
            out.clear();
        }
    }
    let is_good = head.status < 500;
    let _ = if is_good { flight.good() } else { flight.bad() };
    flight.won();
    if !unread_body {
        keep(front, lease.server, link, &head);
    }
    // Drained: a client that is slow to take the rest holds nothing of the server's.
    drop((flight, lease));
    client.finish(front, &out, keep_client, unread_body).await
}
