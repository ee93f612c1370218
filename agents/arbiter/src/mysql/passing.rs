//! A command of a session with one server, and its reply: passed on as it arrives, watched at both
//! ends.

use std::io::{self, ErrorKind::TimedOut};
use std::time::Duration;

use bytes::Buf;
use tokio::time::Instant;

use super::packet::{self, Packet};
use super::reply::{End, Follow, Shape};
use super::types::{Outcome, Statement, Task};
use crate::conn::Conn;
use crate::tier::Flight;
/// Size from which complete packets of a reply are sent before the reply is complete.
const PART_BYTES: usize = 64 * 1024;

/// Passes the first `length` bytes from the server to the client.
pub async fn pass(
    server: &mut Conn,
    length: usize,
    client: &mut Conn,
    limit: Duration,
) -> io::Result<()> {
    let written = client.write(&server.buffer[..length], limit).await;
    server.buffer.advance(length);
    server.shrink_buffer();
    written
}

/// A command that is sent to a server, with its reply.
pub struct Passing<'a> {
    /// Accounting of its time at the server.
    pub flight: Flight,
    /// The command.
    pub task: &'a Task,
    /// The prepared statement, if there is one.
    pub statement: Statement,
    /// Time-out of each step.
    pub limit: Duration,
    /// Deadline for the next part of the reply.
    pub deadline: Instant,
}

/// A complete reply.
pub struct Reply {
    /// Its end.
    pub end: End,
    /// Its state; none for a command without a reply.
    pub follow: Option<Follow>,
    /// The server's number of a statement it prepared, and the first packet of that reply.
    pub prepared: Option<(u32, Vec<u8>)>,
    /// Bytes that the client does not have yet.
    pub bytes: usize,
}

/// A reply that is not served to its end.
pub struct Stopped {
    /// The part of it that the client has.
    pub outcome: Outcome,
    /// Set if the server still works on it.
    pub unfinished: Option<Follow>,
}

impl Passing<'_> {
    /// Passes all but the last bytes of the reply on: the server is free before the client has
    /// them.
    pub async fn run(
        &mut self,
        server: &mut Conn,
        command: &Packet,
        shape: Shape,
        client: &mut Conn,
    ) -> Result<Reply, Stopped> {
        if server.write(command.bytes(), self.limit).await.is_err() {
            return Err(self.lost(Outcome::Gone));
        }
        let Some(mut follow) = Follow::new(shape) else {
            return Ok(Reply { end: End::Good, follow: None, prepared: None, bytes: 0 });
        };
        let (mut whole, mut otherwise) = (0, Outcome::Gone);
        let mut prepared = None;
        loop {
            while let Some(length) = packet::whole(&server.buffer[whole..]) {
                if let Statement::Prepare(id) = std::mem::take(&mut self.statement) {
                    let first = &mut server.buffer[..length];
                    let number = packet::renumber(first, id);
                    prepared = number.map(|number| (number, first[packet::HEADER..].to_vec()));
                }
                let end = follow.packet(&server.buffer[whole + packet::HEADER..whole + length]);
                whole += length;
                match end {
                    None => {}
                    Some(End::Broken) => return Err(self.lost(otherwise)),
                    Some(end) => {
                        self.observe(&end);
                        return Ok(Reply { end, follow: Some(follow), prepared, bytes: whole });
                    }
                }
            }
            if whole >= PART_BYTES {
                let passed = pass(server, whole, client, self.limit).await;
                (whole, otherwise) = (0, Outcome::Cut);
                if passed.is_err() {
                    return Err(Stopped { outcome: Outcome::Cut, unfinished: Some(follow) });
                }
                // A large reply may take its time, as long as it goes on.
                self.deadline = Instant::now() + self.limit;
            }
            let outcome = match client.while_here(server.fill_by(self.deadline)).await {
                Some(Ok(1..)) => continue,
                // It says nothing of the server that the client is gone.
                None => Outcome::Cut,
                Some(Err(error)) if error.kind() == TimedOut => {
                    self.flight.bad();
                    if otherwise == Outcome::Gone {
                        Outcome::TimedOut
                    } else {
                        otherwise
                    }
                }
                Some(_) => return Err(self.lost(otherwise)),
            };
            server.buffer.advance(whole);
            return Err(Stopped { outcome, unfinished: Some(follow) });
        }
    }

    /// Ends the reply, because the server will not continue.
    fn lost(&self, outcome: Outcome) -> Stopped {
        self.flight.bad();
        Stopped { outcome, unfinished: None }
    }

    /// Reports the end to the policy.
    fn observe(&self, end: &End) {
        match (end, self.task) {
            (End::Good, Task::Race | Task::Alone) => {
                self.flight.good();
                self.flight.won();
            }
            // Settings take no time anywhere: they say nothing of a server's speed.
            (End::Good, Task::Session(_) | Task::Sticky) => self.flight.won(),
            (End::Error(error), _) if !error.is_of_the_server() => {}
            (End::Error(_) | End::Broken, _) => {
                self.flight.bad();
            }
        }
    }
}
