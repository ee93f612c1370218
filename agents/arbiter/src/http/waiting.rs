//! The part of a reply that its client has not taken yet.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, BytesMut};
use tokio::time::Instant;

use super::answer::{After, Client};
use super::Front;
use crate::memory::{Held, UNCOUNTED};
use crate::min_rate::MinRate;

/// Maximum bytes of one reply that wait for its client.
const WAITING_MAX: usize = 32 * 1024 * 1024;
/// Size of the pieces in which they are held, so that taken bytes are released at once.
const PIECE: usize = 64 * 1024;

/// Bytes of a reply that wait for the client.
pub struct Waiting<'a> {
    front: &'a Front,
    pieces: VecDeque<BytesMut>,
    length: usize,
    memory: Option<Held>,
    pace: MinRate,
    /// Time since which they have waited.
    since: Instant,
    /// Deadline for the client to take some.
    stuck_by: Instant,
}

impl<'a> Waiting<'a> {
    /// Starts with nothing.
    pub fn new(front: &'a Front) -> Self {
        let now = Instant::now();
        Self {
            front,
            pieces: VecDeque::new(),
            length: 0,
            memory: None,
            pace: MinRate::of_taker(front.tier.config()),
            since: now,
            stuck_by: now,
        }
    }

    /// Takes over the account of the bytes that are added next.
    pub fn is_counted_by(&mut self, memory: Option<Held>) {
        self.memory = memory;
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// True if more may be added.
    pub fn has_room(&mut self, client: &mut Client) -> bool {
        if self.is_empty() {
            return true;
        }
        let all = &self.front.tier.memory;
        let memory = self.memory.get_or_insert_with(|| Held::of(all, client.holder()));
        let bytes = self.length + UNCOUNTED;
        bytes <= WAITING_MAX && memory.cover(bytes)
    }

    /// Writes two pieces after the waiting bytes, as far as the client takes them now.
    pub fn write(&mut self, client: &mut Client, pieces: [&[u8]; 2]) -> io::Result<()> {
        let mut written = 0;
        if self.is_empty() {
            written = client.conn.write_now(pieces[0], pieces[1])?;
        }
        for piece in pieces {
            let taken = written.min(piece.len());
            written -= taken;
            self.add(&piece[taken..]);
        }
        Ok(())
    }

    /// Adds bytes to those that wait.
    pub fn add(&mut self, mut bytes: &[u8]) {
        self.begin(bytes.len());
        while !bytes.is_empty() {
            let last = self.pieces.back_mut();
            let Some(last) = last.filter(|last| last.len() < last.capacity()) else {
                self.pieces.push_back(BytesMut::with_capacity(PIECE));
                continue;
            };
            let length = bytes.len().min(last.capacity() - last.len());
            last.extend_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
        }
    }

    /// As `add`, without a copy.
    pub fn add_whole(&mut self, bytes: BytesMut) {
        self.begin(bytes.len());
        if !bytes.is_empty() {
            self.pieces.push_back(bytes);
        }
    }

    fn begin(&mut self, more: usize) {
        if self.is_empty() {
            self.since = Instant::now();
            self.stuck_by = self.since + self.front.tier.config().request_timeout();
        }
        self.length += more;
    }

    /// Waits until the client takes some, or, with nothing to take, until its connection ends.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Those of the client's socket; `TimedOut` where it takes nothing for long, or too little for
    /// what it holds while memory is scarce.
    pub async fn pass_some(&mut self, client: &mut Client) -> io::Result<()> {
        let until = self.stuck_by.min(self.since + self.pace.left());
        let first = self.pieces.front().map_or(&[][..], |piece| &piece[..]);
        let taken = match client.conn.write_some(first, until).await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut && until < self.stuck_by => 0,
            taken => taken?,
        };
        let waited = self.since.elapsed();
        self.since += waited;
        if taken > 0 {
            self.stuck_by = self.since + self.front.tier.config().request_timeout();
            self.remove(taken);
        }
        let keeps = self.pace.keeps(taken, waited);
        if !keeps && self.memory.is_some() && self.front.tier.memory.is_scarce() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn remove(&mut self, bytes: usize) {
        self.length -= bytes;
        if let Some(first) = self.pieces.front_mut() {
            first.advance(bytes);
            if first.is_empty() {
                self.pieces.pop_front();
            }
        }
        if let Some(memory) = &mut self.memory {
            // If more is not had, what was counted stays.
            memory.cover(self.length);
        }
    }

    /// Waits until the client has taken all.
    pub async fn pass_all(&mut self, client: &mut Client) -> io::Result<()> {
        while !self.is_empty() {
            self.pass_some(client).await?;
        }
        Ok(())
    }

    /// As `pass_all`, at the end of the reply.
    pub async fn finish(mut self, client: &mut Client, keep: bool, unread_body: bool) -> After {
        if self.pass_all(client).await.is_err() {
            self.front.tier.counters.failed.inc();
            return After::Abort;
        }
        let none = (&[][..], &[][..]);
        client.finish(self.front, none, keep, unread_body).await
    }
}
