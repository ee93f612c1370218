//! The queue of a link: batches that were sent to the server, and behind them those that wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use policy::ServerId;

use super::slot::{Slot, Verdict, NOBODY};
use super::window::Window;
use super::{Failure, HELD_MAX};
use crate::comparing::digest;
use crate::tier::{Flight, Lease};
use crate::voting::ReplyVote;

/// Maximum batches that wait on one link.
const PENDING_MAX: usize = 20_000;
/// Maximum bytes per write, unless one batch is larger.
const WRITE_MAX: usize = 256 * 1024;

/// The batches of one link.
#[derive(Default)]
pub struct Queue {
    pending: VecDeque<Pending>,
    /// Batches at the end of `pending` that are not sent yet, and their bytes.
    unsent: usize,
    out: BytesMut,
}

/// End of a batch's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this number of replies.
    Replies(usize),
    /// After this number of fences, the last of which is the arbiter's own.
    Fences(usize),
}

/// A batch that is queued or sent.
pub struct Pending {
    /// The slot of the client that waits.
    pub slot: Arc<Slot>,
    /// The round.
    pub ticket: u64,
    /// End of the reply.
    pub until: Until,
    /// Held until the reply is complete.
    pub lease: Option<Lease>,
    /// Accounting, from the moment of queueing.
    pub flight: Flight,
    /// The vote, if its reply is compared with others.
    pub ballot: Option<Arc<ReplyVote>>,
    /// Number of commands.
    pub commands: u64,
    /// Number of bytes.
    pub bytes: usize,
    /// Tick of the link at which it was sent; 0 before.
    pub given: u64,
}

impl Queue {
    /// Queues a batch, given in pieces.
    #[allow(clippy::result_large_err)]
    pub fn push(&mut self, pieces: &[&[u8]], batch: Pending) -> Result<(), Pending> {
        if self.pending.len() >= PENDING_MAX || self.out.len() > HELD_MAX {
            return Err(batch);
        }
        for piece in pieces {
            self.out.extend_from_slice(piece);
        }
        self.pending.push_back(batch);
        self.unsent += 1;
        Ok(())
    }

    /// Takes the bytes to be written next, as far as the window allows.
    pub fn take(&mut self, window: &mut Window, tick: u64, writing: &mut BytesMut) {
        let (mut bytes, mut taken) = (0, 0);
        let first = self.given();
        for batch in self.pending.range_mut(first..) {
            let is_enough = bytes > 0 && bytes + batch.bytes > WRITE_MAX;
            if is_enough || !window.give(batch.commands) {
                break;
            }
            batch.given = tick;
            bytes += batch.bytes;
            taken += 1;
        }
        self.unsent -= taken;
        if bytes == self.out.len() {
            // The usual case: the buffers change places.
            writing.clear();
            std::mem::swap(writing, &mut self.out);
        } else if bytes > 0 {
            *writing = self.out.split_to(bytes);
        }
    }

    /// Removes batches that have waited longer than `limit` to be sent.
    pub fn drop_unsent(&mut self, limit: Duration) -> Vec<Pending> {
        let first = self.given();
        // In the order in which they were queued: the oldest come first.
        let late = self.pending.range(first..);
        let late = late.take_while(|batch| batch.flight.age() > limit);
        let (count, bytes) =
            late.fold((0, 0), |(count, bytes), batch| (count + 1, bytes + batch.bytes));
        self.out.advance(bytes);
        self.unsent -= count;
        self.pending.drain(first..first + count).collect()
    }

    /// Number of batches sent.
    fn given(&self) -> usize {
        self.pending.len() - self.unsent
    }

    /// Batches that were sent, the oldest first.
    pub fn each_given(&mut self) -> impl Iterator<Item = &mut Pending> {
        let given = self.given();
        self.pending.iter_mut().take(given)
    }

    /// Removes the oldest batch that was sent.
    pub fn pop_given(&mut self) -> Option<Pending> {
        let is_given = self.given() > 0;
        is_given.then(|| self.pending.pop_front()).flatten()
    }

    /// The oldest batch.
    pub fn oldest(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// Empties the queue: the sent batches and the others.
    pub fn take_all(&mut self) -> (VecDeque<Pending>, VecDeque<Pending>) {
        let first = self.given();
        let mut given = std::mem::take(self).pending;
        let unsent = given.split_off(first);
        (given, unsent)
    }
}

impl Pending {
    /// Tells the client now; the reply will be discarded.
    pub fn give_up(&mut self, server: ServerId, failure: Failure) {
        self.slot.fail(self.ticket, server, failure);
        self.ticket = NOBODY;
        // Anything that still comes is too late, or not the whole reply.
        let ballot = self.ballot.take();
        if let (Some(ballot), Failure::TooLarge | Failure::TooMuch) = (ballot, failure) {
            ballot.too_large();
        }
    }

    /// Ends the batch without a reply.
    pub fn fail(self, server: ServerId, failure: Failure) {
        let spent = match failure {
            // The size is of the command's making; a full queue, memory, descriptors are ours.
            Failure::TooLarge | Failure::TooMuch | Failure::Busy | Failure::Local => {
                self.flight.neutral()
            }
            _ => self.flight.bad(),
        };
        if !self.slot.fail(self.ticket, server, failure) {
            self.flight.wasted(spent);
        }
    }

    /// Ends the batch with its reply.
    pub fn complete(self, server: ServerId, reply: &[u8], is_server_error: bool) {
        let latency = if is_server_error { self.flight.bad() } else { self.flight.good() };
        match self.slot.fill(self.ticket, server, reply, is_server_error) {
            Verdict::Won => self.flight.won(),
            Verdict::Kept => {}
            Verdict::Late => self.flight.wasted(latency),
        }
        if let Some(ballot) = self.ballot.filter(|_| !is_server_error) {
            if reply.len() > ballot.rules.bytes_max {
                ballot.too_large();
            } else {
                ballot.vote(server, digest(reply));
            }
        }
    }
}
