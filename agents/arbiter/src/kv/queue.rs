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

/// Batches that may wait on one link.
const PENDING_MAX: usize = 20_000;
/// Written at a time, where it is not one batch.
const WRITE_MAX: usize = 256 * 1024;

/// The batches of one link.
#[derive(Default)]
pub struct Queue {
    pending: VecDeque<Pending>,
    /// How many at the end of `pending` are still here, and their bytes.
    unsent: usize,
    out: BytesMut,
}

/// The end of a batch's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so many replies.
    Replies(usize),
    /// After so many fences, the last of which is the arbiter's own.
    Fences(usize),
}

/// A batch on its way.
pub struct Pending {
    /// The client that waits.
    pub slot: Arc<Slot>,
    /// For which round.
    pub ticket: u64,
    /// The end of the reply.
    pub until: Until,
    /// Held until the reply is complete.
    pub lease: Option<Lease>,
    /// The accounts, from the moment when it was queued.
    pub flight: Flight,
    /// The vote, where its reply is compared with others.
    pub ballot: Option<Arc<ReplyVote>>,
    /// How many commands it is.
    pub commands: u64,
    /// How many bytes they are.
    pub bytes: usize,
    /// The link's tick at which the server was given it; until then 0.
    pub given: u64,
}

impl Queue {
    /// Queues a batch, which is these pieces.
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

    /// Takes the bytes of what is to be written next, as far as it fits into the window.
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

    /// Takes away what has waited for longer than `limit` to be given to the server.
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

    /// How many the server was given.
    fn given(&self) -> usize {
        self.pending.len() - self.unsent
    }

    /// Those that the server was given, the oldest first.
    pub fn each_given(&mut self) -> impl Iterator<Item = &mut Pending> {
        let given = self.given();
        self.pending.iter_mut().take(given)
    }

    /// Takes the oldest that the server was given.
    pub fn pop_given(&mut self) -> Option<Pending> {
        let is_given = self.given() > 0;
        is_given.then(|| self.pending.pop_front()).flatten()
    }

    /// The oldest of all.
    pub fn oldest(&self) -> Option<&Pending> {
        self.pending.front()
    }

    /// Empties it: those that the server was given, and those that it was not.
    pub fn take_all(&mut self) -> (VecDeque<Pending>, VecDeque<Pending>) {
        let first = self.given();
        let mut given = std::mem::take(self).pending;
        let unsent = given.split_off(first);
        (given, unsent)
    }
}

impl Pending {
    /// Its client is told now; what else comes of it, nobody waits for.
    pub fn give_up(&mut self, server: ServerId, failure: Failure) {
        self.slot.fail(self.ticket, server, failure);
        self.ticket = NOBODY;
        // Anything that still comes is too late, or not the whole reply.
        let ballot = self.ballot.take();
        if let (Some(ballot), Failure::TooLarge | Failure::TooMuch) = (ballot, failure) {
            ballot.too_large();
        }
    }

    /// There will be no reply.
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

    /// This is its reply.
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
