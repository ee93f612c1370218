//! The body of a request: read before a server is asked for, so that a client that sends slowly
//! holds nothing of the tier.
//!
//! What is held is bounded, for each client and for all together. A body beyond that is passed on as
//! it comes, with a server waiting for it: then it has to come at a least rate.

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
use crate::memory::{Held, UNCOUNTED};

/// Most of one body that is held.
pub const HELD_MAX: usize = 32 * 1024 * 1024;
/// What a body has to come with while a server waits for it: so much in such a time of waiting.
const PACE_BYTES: usize = 320 * 1024;
const PACE_TIME: Duration = Duration::from_secs(5);

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

impl Upload {
    /// Nothing of the body was read yet.
    pub fn new(request: &RequestHead) -> Self {
        Self {
            held: BytesMut::new(),
            rest: Body::new(request.framing),
            memory: None,
        }
    }

    /// Whether all of it is here.
    pub fn is_whole(&self) -> bool {
        self.rest.is_done()
    }

    /// Reads on until all of it is here, or as much as may be held.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn fill(&mut self, front: &Front, client: &mut Client) -> Result<(), Broken> {
        let limit = front.tier.config().request_timeout();
        while !self.rest.is_done() && self.may_hold_more(front) {
            let deadline = Instant::now() + limit;
            let next = self.rest.next(&mut client.conn, deadline).await;
            let length = next.map_err(|error| broken(&error))?.unwrap_or(0);
            self.held.extend_from_slice(&client.conn.buffer[..length]);
            client.conn.buffer.advance(length);
        }
        Ok(())
    }

    fn may_hold_more(&mut self, front: &Front) -> bool {
        let wanted = self.held.len() + UNCOUNTED;
        if self.held.len() < UNCOUNTED {
            return true;
        }
        let memory = &front.tier.memory;
        let share = self.memory.get_or_insert_with(|| Held::new(memory));
        wanted <= HELD_MAX && share.cover(wanted)
    }

    /// Sends head, what is held, and the rest as it comes. False where the server answers, or
    /// closes, before it has all.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn send(
        &mut self,
        client: &mut Client,
        link: &mut Link,
        head: &[u8],
        limit: Duration,
    ) -> Result<bool, Broken> {
        if !taken(link.conn.write_unanswered(head, &self.held, limit).await)? {
            return Ok(false);
        }
        self.held = BytesMut::new();
        self.memory = None;
        let (mut came, mut waited) = (0, Duration::ZERO);
        while !self.rest.is_done() {
            let since = Instant::now();
            let next = tokio::select! {
                biased;
                next = self.rest.next(&mut client.conn, since + (PACE_TIME - waited)) => next,
                () = link.conn.spoken() => return Ok(false),
            };
            waited += since.elapsed();
            let is_late = matches!(&next, Err(error) if error.kind() == io::ErrorKind::TimedOut);
            let length = match next {
                Ok(length) => length.unwrap_or(0),
                Err(_) if is_late => 0,
                Err(error) => return Err(broken(&error)),
            };
            came += length;
            if waited >= PACE_TIME {
                if came < PACE_BYTES {
                    return Err(broken(&io::ErrorKind::TimedOut.into()));
                }
                (came, waited) = (0, Duration::ZERO);
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
