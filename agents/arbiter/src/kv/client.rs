//! The parts of a client's connection that Redis and memcached share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{timeout, Instant};

use super::front::Front;
use super::slot::Slot;
use super::socket::Socket;
use super::Dialect;
use crate::memory::{Held, UNCOUNTED};
use crate::min_rate::MinRate;

/// A buffer above this size is not kept.
const KEPT_MAX: usize = 64 * 1024;
/// With more output than this, it is written before the next batch is sent.
const OUTPUT_MAX: usize = 256 * 1024;

/// A client that shares connections to the servers.
pub struct Client<D: Dialect> {
    /// The servers.
    pub front: Arc<Front<D>>,
    /// Its socket.
    pub socket: Socket,
    /// The client's slot in the rounds, with its replies.
    pub slot: Arc<Slot>,
    writing: BytesMut,
    /// Memory of the socket's buffer.
    held: Held,
    /// Minimum rate at which a command must arrive.
    pace: MinRate,
    is_slow: bool,
}

/// Reason for ending the connection after the commands in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All replies are written.
    Close,
    /// All replies are written, but the client may still be sending.
    Linger,
    /// The client disconnected, or does not take its replies.
    Gone,
    /// The commands in the buffer need a dedicated connection.
    Pin,
}

impl<D: Dialect> Client<D> {
    /// A client that has just connected.
    pub fn new(front: Arc<Front<D>>, stream: TcpStream) -> Self {
        let held = || Held::new(&front.tier.memory);
        Self {
            socket: Socket::new(stream),
            slot: Arc::new(Slot::new(held())),
            writing: BytesMut::new(),
            held: held(),
            pace: MinRate::of_sender(front.tier.config()),
            is_slow: false,
            front,
        }
    }

    /// Waits for bytes; false at the end. A client may be idle between commands, but not within
    /// one. A client whose command finds no memory, or keeps memory from others, gets an error, and
    /// is disconnected.
    pub async fn more(&mut self, stop: &mut watch::Receiver<bool>) -> bool {
        if !self.read(stop).await {
            return false;
        }
        let bytes = self.socket.buffer.len();
        let keeps_others = self.is_slow && bytes > UNCOUNTED && self.front.tier.memory.is_scarce();
        if !keeps_others && self.held.cover(bytes) {
            return true;
        }
        let limit = self.front.tier.config().request_timeout();
        // It may be gone; there is nobody else to tell.
        let _ = self.socket.write(D::TOO_MUCH, limit).await;
        false
    }

    async fn read(&mut self, stop: &mut watch::Receiver<bool>) -> bool {
        if !self.socket.buffer.is_empty() {
            return self.read_on().await;
        }
        self.pace.begin();
        self.is_slow = false;
        if *stop.borrow() {
            return false;
        }
        tokio::select! {
            biased;
            read = self.socket.fill() => matches!(read, Ok(1..)),
            _ = stop.changed() => false,
        }
    }

    /// As `read`, within a command.
    async fn read_on(&mut self) -> bool {
        let limit = self.front.tier.config().request_timeout();
        let since = Instant::now();
        let Ok(Ok(read @ 1..)) = timeout(limit, self.socket.fill()).await else {
            return false;
        };
        self.is_slow = !self.pace.keeps(read, since.elapsed());
        true
    }

    /// Writes if there is much output.
    pub async fn write_much(&mut self) -> Result<(), End> {
        if self.slot.output_len() > OUTPUT_MAX {
            return self.write().await;
        }
        Ok(())
    }

    /// Writes the output.
    pub async fn write(&mut self) -> Result<(), End> {
        self.writing.clear();
        self.slot.take_output(&mut self.writing);
        let limit = self.front.tier.config().request_timeout();
        let written = if self.writing.len() > UNCOUNTED {
            self.write_at_a_pace(limit).await
        } else {
            self.socket.write(&self.writing, limit).await
        };
        if self.writing.capacity() > KEPT_MAX {
            self.writing = BytesMut::new();
        }
        self.slot.written();
        written.map_err(|_| End::Gone)
    }

    /// Writes as the socket does, with the memory accounted; an error also if the client reads too
    /// slowly while memory is scarce.
    async fn write_at_a_pace(&mut self, limit: Duration) -> io::Result<()> {
        let tier = &self.front.tier;
        let mut pace = MinRate::of_taker(tier.config());
        let mut rest = &self.writing[..];
        while !rest.is_empty() {
            let since = Instant::now();
            let written = self.socket.write_some(rest, limit).await?;
            rest = &rest[written..];
            if !pace.keeps(written, since.elapsed()) && tier.memory.is_scarce() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}
