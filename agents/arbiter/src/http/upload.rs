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

/// Most of one body that is held.
pub const HELD_MAX: usize = 32 * 1024 * 1024;

/// A request's body: what is here of it, and where the rest is followed.
pub struct Upload {
    /// Its beginning, or all of it.
    pub held: BytesMut,
    rest: Body,
    memory: Option<Held>,
}

/// Why a body does not arrive.
pub enum Broken {
    /// The client went away.
    Gone,
    /// The client gets this, and the connection ends.
    Refused(Refusal),
    /// The server did not take it.
    Server(Failure),
}

/// How a body that is passed on may come.
pub struct Streaming {
    /// Of each step of the server.
    pub limit: Duration,
    /// Of the client.
    pub pace: MinRate,
    /// Until when all of it has to be there.
    pub by: Instant,
}

impl Upload {
    /// Nothing of the body was read yet.
    pub fn new(request: &RequestHead) -> Self {
        Self { held: BytesMut::new(), rest: Body::new(request.framing), memory: None }
    }

    /// True if all of it is here.
    pub fn is_whole(&self) -> bool {
        self.rest.is_done()
    }

    /// Reads on until all of it is here, or as much as may be held.
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

    /// Waits for more, not beyond `by`: how many bytes, none where the pace was to be looked at
    /// before, and whether the client keeps to it.
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
        let wanted = length + UNCOUNTED;
        wanted <= HELD_MAX && share.cover(wanted)
    }

    /// Sends head, what is held, and the rest as it comes. False where the server answers, or
    /// closes, before it has all.
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

/// A server that closes may have answered before; one that takes nothing for long is too slow.
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
