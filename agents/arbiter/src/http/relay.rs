//! The way of a server's reply to the client: streamed as it comes, or whole.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::time::Instant;

use super::answer::{After, Client};
use super::body::{Body, Framing};
use super::exchange::{keep, Link};
use super::head::{RequestHead, ResponseHead};
use super::Front;
use crate::tier::{Flight, Lease};

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

/// A complete reply, or as much of it as has come.
pub struct Reply {
    /// Whose it is.
    pub server: ServerId,
    /// Its head.
    pub head: ResponseHead,
    /// Its body, without its framing.
    pub body: BytesMut,
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

/// Writes a complete reply to the client.
pub async fn pass_whole(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    reply: Reply,
) -> After {
    let Reply {
        server,
        mut head,
        body,
    } = reply;
    if head.status >= 500 {
        front.tier.server_counters[server].wins.inc();
    }
    let keep = client.keeps(request);
    let name = &front.tier.server(server).name;
    head.close_for(name, request, keep, Some(body.len()));
    let bytes = (&head.forward[..], &body[..]);
    client.finish(front, bytes, keep, false).await
}
