//! The body of a request: read before a server is requested, so that a slow client holds no server.
//!
//! The held memory is limited, for each client and for all together. A larger body is passed on as
//! it arrives, while a server waits for it: then it must arrive at the minimum rate, and within
//! `streaming_ms_max`. Held bodies must arrive at that rate while memory is scarce.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::time::Instant;

use super::answer::Client;
use super::body::Body;
use super::exchange::{Failure, Link};
use super::head::RequestHead;
use super::refusal::Refusal;
use super::Front;
use crate::conn::Conn;
use crate::memory::{Held, UNCOUNTED};
use crate::min_rate::MinRate;

/// Maximum size of one held body.
pub const HELD_MAX: usize = 32 * 1024 * 1024;

/// A request's body: the held part, and the state of its framing.
pub struct Upload {
    /// The beginning of the body, or all of it.
    pub held: BytesMut,
    rest: Body,
    memory: Option<Held>,
}

/// Reason for a body that does not arrive.
pub enum Broken {
    /// The client disconnected.
    Gone,
    /// The client gets this refusal, and the connection ends.
    Refused(Refusal),
    /// The server did not take it.
    Server(Failure),
}

/// Limits of a streamed body.
pub struct Streaming {
    /// Time-out of each step of the server.
    pub limit: Duration,
    /// Minimum rate of the client.
    pub pace: MinRate,
    /// Deadline for the whole body.
    pub by: Instant,
}

impl Upload {
    /// Starts a body of which nothing was read yet.
    pub fn new(request: &RequestHead) -> Self {
        Self { held: BytesMut::new(), rest: Body::new(request.framing), memory: None }
    }

    /// True if the whole body is held.
    pub fn is_whole(&self) -> bool {
        self.rest.is_done()
    }

    /// Reads until the whole body is held, or as much as may be.
    pub async fn fill(&mut self, front: &Front, client: &mut Client) -> Result<(), Broken> {
        let config = front.tier.config();
        let (limit, mut pace) = (config.request_timeout(), MinRate::of_sender(config));
        let mut silent_by = Instant::now() + limit;
        while !self.rest.is_done() && self.may_hold_more(front, client) {
            let (length, keeps) = self.more(&mut client.conn, &mut pace, silent_by).await?;
            if !keeps && self.memory.is_some() && front.tier.memory.is_scarce() {
                return Err(broken(&io::ErrorKind::TimedOut.into()));
            }
            if length > 0 {
                silent_by = Instant::now() + limit;
            }
            self.held.extend_from_slice(&client.conn.buffer[..length]);
            client.conn.buffer.advance(length);
        }
        Ok(())
    }

    /// Waits for more until `by`: the number of bytes (none if the rate is due to be judged first),
    /// and whether the client keeps its rate.
    async fn more(
        &mut self,
        conn: &mut Conn,
        pace: &mut MinRate,
        by: Instant,
    ) -> Result<(usize, bool), Broken> {
        let since = Instant::now();
        let until = by.min(since + pace.left());
        let length = match self.rest.next(conn, until).await {
            Ok(length) => length.unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::TimedOut && until < by => 0,
            Err(error) => return Err(broken(&error)),
        };
        Ok((length, pace.keeps(length, since.elapsed())))
    }

    fn may_hold_more(&mut self, front: &Front, client: &mut Client) -> bool {
        let length = self.held.len();
        if length < UNCOUNTED {
            return true;
        }
        let memory = &front.tier.memory;
        let share = self.memory.get_or_insert_with(|| Held::of(memory, client.holder()));
        let bytes = length + UNCOUNTED;
        bytes <= HELD_MAX && share.cover(bytes)
    }

    /// Sends head, held bytes, and the rest as it arrives. False if the server replies, or closes,
    /// before it has all.
    pub async fn send(
        &mut self,
        client: &mut Client,
        link: &mut Link,
        head: &[u8],
        streaming: Streaming,
    ) -> Result<bool, Broken> {
        let Streaming { limit, mut pace, by } = streaming;
        if !taken(link.conn.write_unanswered(head, &self.held, limit).await)? {
            return Ok(false);
        }
        self.held = BytesMut::new();
        self.memory = None;
        while !self.rest.is_done() {
            // Whoever is never waited for is late all the same.
            if Instant::now() >= by {
                let reason = "the request's body took longer than streaming_ms_max";
                return Err(Broken::Refused(Refusal::new(408, reason)));
            }
            let (length, keeps) = tokio::select! {
                biased;
                more = self.more(&mut client.conn, &mut pace, by) => more?,
                () = link.conn.spoken() => return Ok(false),
            };
            if !keeps {
                return Err(broken(&io::ErrorKind::TimedOut.into()));
            }
            let piece = &client.conn.buffer[..length];
            if !taken(link.conn.write_unanswered(piece, &[], limit).await)? {
                return Ok(false);
            }
            client.conn.buffer.advance(length);
        }
        Ok(true)
    }
}

/// Judges a write: a server that closes may have replied before; one that takes nothing for long is
/// too slow.
fn taken(written: io::Result<bool>) -> Result<bool, Broken> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(Broken::Server(Failure::TimedOut))
        }
        Err(_) => Ok(false),
        Ok(all) => Ok(all),
    }
}

fn broken(error: &io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::TimedOut => {
            Broken::Refused(Refusal::new(408, "the request's body came too slowly"))
        }
        io::ErrorKind::InvalidData => {
            Broken::Refused(Refusal::new(400, "the request's body breaks its framing"))
        }
        _ => Broken::Gone,
    }
}
