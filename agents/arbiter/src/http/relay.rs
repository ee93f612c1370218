//! The delivery of a server's reply to the client: streamed, or whole.
//!
//! A server's reply is read as fast as the server sends. The part that the client has not taken yet
//! waits here (`waiting`), up to the limits of held memory. Beyond them the server waits for the
//! client; that is no work of the server, so its token is returned then. Otherwise it is returned
//! with the server's last byte.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::time::Instant;

use super::answer::{After, Client};
use super::body::{Body, Framing};
use super::exchange::{keep, Link};
use super::head::{is_good, RequestHead, ResponseHead};
use super::waiting::Waiting;
use super::Front;
use crate::memory::{Held, UNCOUNTED};
use crate::tier::{Flight, Lease};

/// A request that was sent to a server.
pub struct Sent {
    /// The server.
    pub server: ServerId,
    /// The server's token, while it works.
    pub lease: Option<Lease>,
    /// The connection to it.
    pub link: Link,
    /// Accounting of this replica.
    pub flight: Flight,
    /// True if the server did not get the whole request.
    pub is_cut: bool,
    /// True if the client's body was not read to its end.
    pub unread_body: bool,
}

/// A reply, complete or as far as it has arrived.
pub struct Reply {
    /// The server that sent it.
    pub server: ServerId,
    /// Interim replies before it.
    pub interim: Vec<u8>,
    /// The head.
    pub head: ResponseHead,
    /// The body, without its framing.
    pub body: BytesMut,
    /// Memory of the body; released when dropped.
    pub memory: Option<Held>,
}

/// The side that cut a reply.
enum Broken {
    Client,
    Server,
}

/// Streams the reply to the client: its head, the beginning of its body, and the rest as it
/// arrives, without a copy if the client keeps up.
pub async fn pass_on(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    mut sent: Sent,
    reply: (ResponseHead, Body),
    begun: (BytesMut, Option<Held>),
) -> After {
    let (mut head, body) = reply;
    // HTTP/1.0 knows no chunks: it gets what is in them, up to the connection's end.
    let unframes = request.minor == 0 && head.framing == Framing::Chunked;
    let has_end = head.framing != Framing::UntilClose && !unframes;
    let keeps = client.keeps(request) && !sent.unread_body && has_end;
    let name = &front.tier.servers()[sent.server].name;
    let streams = request.streams || head.is_events;
    head.close_for(name, request, keeps, None);
    let mut stream = Stream {
        front,
        body,
        unframed: unframes.then(|| Body::new(Framing::Chunked)),
        waiting: Waiting::new(front),
        streams,
    };
    let begun = stream.begin(client, &mut head, begun);
    let (server, mut lease) = (sent.server, sent.lease.filter(|_| !streams));
    let streamed = match begun {
        Ok(()) => stream.run(client, &mut head, &mut sent.link, &mut lease).await,
        Err(broken) => Err(broken),
    };
    let Stream { mut waiting, .. } = stream;
    let Sent { mut link, flight, .. } = sent;
    let last = match streamed {
        Ok(last) => last,
        Err(Broken::Client) => {
            front.tier.counters.failed.inc();
            return After::Abort;
        }
        Err(Broken::Server) => {
            if !streams {
                flight.bad();
            }
            drop((flight, lease, link));
            front.tier.counters.failed.inc();
            // The bytes so far go out; the missing rest tells the client that it was cut.
            waiting.add(&head.forward);
            let _ = waiting.pass_all(client).await;
            return After::Abort;
        }
    };
    // How long a stream goes on says nothing of its server.
    if !streams || head.status >= 500 {
        account(&flight, head.status);
    }
    flight.won();
    // The connection goes back with another buffer while this one is written to the client.
    let is_whole = link.conn.buffer.len() == last && !sent.is_cut;
    let mut tail = std::mem::replace(&mut link.conn.buffer, std::mem::take(&mut client.spare));
    if is_whole {
        keep(front, server, link, &head);
    }
    // Drained: a client that is slow to take the rest holds nothing of the server's.
    drop((flight, lease));
    let unread_body = sent.unread_body;
    if !waiting.is_empty() {
        // The head is among it.
        waiting.add(&tail[..last]);
        (client.spare, client.reply) = (BytesMut::new(), head);
        return waiting.finish(client, keeps, unread_body).await;
    }
    let bytes = (&head.forward[..], &tail[..last]);
    let after = client.finish(front, bytes, keeps, unread_body).await;
    tail.clear();
    (client.spare, client.reply) = (tail, head);
    after
}

/// A reply that is being streamed.
struct Stream<'a> {
    front: &'a Front,
    body: Body,
    /// Removes the framing of chunks, for a client that knows none.
    unframed: Option<Body>,
    waiting: Waiting<'a>,
    /// True if it may be silent for long.
    streams: bool,
}

impl Stream<'_> {
    /// Writes the head with the bytes that were held back.
    fn begin(
        &mut self,
        client: &mut Client,
        head: &mut ResponseHead,
        begun: (BytesMut, Option<Held>),
    ) -> Result<(), Broken> {
        let (bytes, memory) = begun;
        if bytes.is_empty() {
            return Ok(());
        }
        self.waiting.is_counted_by(memory);
        self.put(client, head, &bytes)?;
        if self.waiting.is_empty() {
            self.waiting.is_counted_by(None);
        }
        Ok(())
    }

    /// Writes a piece after the head.
    fn put(
        &mut self,
        client: &mut Client,
        head: &mut ResponseHead,
        piece: &[u8],
    ) -> Result<(), Broken> {
        let mut data = BytesMut::new();
        let piece = match &mut self.unframed {
            None => piece,
            Some(body) => {
                let result = body.unframe(piece, &mut data);
                result.map_err(|_| Broken::Server)?;
                &data[..]
            }
        };
        let written = self.waiting.write(client, [&head.forward[..], piece]);
        head.forward.clear();
        written.map_err(|_| Broken::Client)
    }

    /// Reads the reply to its end. Returns the number of bytes left in the link's buffer.
    async fn run(
        &mut self,
        client: &mut Client,
        head: &mut ResponseHead,
        link: &mut Link,
        lease: &mut Option<Lease>,
    ) -> Result<usize, Broken> {
        let config = self.front.tier.config();
        let limit = match self.streams {
            true => config.idle_timeout(),
            false => config.request_timeout(),
        };
        if self.streams && !self.body.is_done() && !head.forward.is_empty() {
            // The first news may be long in coming.
            self.put(client, head, &[])?;
        }
        let mut silent_by = Instant::now() + limit;
        loop {
            let has_room = self.waiting.has_room(client);
            if !has_room {
                // The server waits for the client.
                *lease = None;
                silent_by = Instant::now() + limit;
            }
            tokio::select! {
                biased;
                piece = self.body.next(&mut link.conn, silent_by), if has_room => {
                    let Some(length) = piece.map_err(|_| Broken::Server)? else {
                        return Ok(0);
                    };
                    if self.body.is_done() && self.unframed.is_none() {
                        return Ok(length);
                    }
                    self.put(client, head, &link.conn.buffer[..length])?;
                    link.conn.buffer.advance(length);
                    silent_by = Instant::now() + limit;
                }
                passed = self.waiting.pass_some(client) => passed.map_err(|_| Broken::Client)?,
            }
        }
    }
}

/// Accounts for a complete reply: good, a server's error, or neutral (a refusal for the client's
/// rate is no work). Returns the latency.
pub fn account(flight: &Flight, status: u16) -> Duration {
    match status {
        500.. => flight.bad(),
        _ if is_good(status) => flight.good(),
        _ => flight.neutral(),
    }
}

/// Writes a complete reply to the client.
pub async fn pass_whole(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    reply: Reply,
) -> After {
    let Reply { server, interim, mut head, mut body, memory } = reply;
    if !is_good(head.status) {
        front.tier.server_counters[server].wins.inc();
    }
    if request.minor == 0 && head.framing == Framing::Chunked {
        let mut data = BytesMut::with_capacity(body.len());
        // It was followed to its end before.
        let _ = Body::new(Framing::Chunked).unframe(&body, &mut data);
        (body, head.framing) = (data, Framing::UntilClose);
    }
    let keep = client.keeps(request);
    let name = &front.tier.servers()[server].name;
    head.close_for(name, request, keep, Some(body.len()));
    if request.minor == 1 && !interim.is_empty() {
        head.forward.splice(0..0, interim);
    }
    if body.len() <= UNCOUNTED {
        let bytes = (&head.forward[..], &body[..]);
        return client.finish(front, bytes, keep, false).await;
    }
    let mut waiting = Waiting::new(front);
    waiting.is_counted_by(memory);
    waiting.add(&head.forward);
    waiting.add_whole(body);
    waiting.finish(client, keep, false).await
}
