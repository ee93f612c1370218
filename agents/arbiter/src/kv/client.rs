//! What every client's connection has, whatever is spoken on it.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::watch;
use tokio::time::timeout;

use super::front::Front;
use super::slot::Slot;
use super::socket::Socket;
use super::Dialect;
use crate::memory::Held;
use crate::stream::Stream;

/// A buffer that grew beyond this is not kept.
const KEPT_MAX: usize = 64 * 1024;
/// More output than this is written before the next batch is sent.
const OUTPUT_MAX: usize = 256 * 1024;

/// A client.
pub struct Client<D> {
    /// The servers.
    pub front: Arc<Front<D>>,
    /// Its socket.
    pub socket: Socket,
    /// Where it waits, and what it gets.
    pub slot: Arc<Slot>,
    writing: BytesMut,
    /// Of the socket's buffer.
    held: Held,
}

/// Why the connection does not go on after the commands in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Everything is said.
    Close,
    /// Everything is said, but the client may still be sending.
    Linger,
    /// The client is gone, or does not take its replies.
    Gone,
    /// The commands in the buffer are for a connection of its own.
    Pin,
}

impl<D: Dialect> Client<D> {
    /// A client that has just connected.
    pub fn new(front: Arc<Front<D>>, stream: Stream) -> Self {
        let held = || Held::new(&front.tier.memory);
        Self {
            socket: Socket::new(stream),
            slot: Arc::new(Slot::new(held())),
            writing: BytesMut::new(),
            held: held(),
            front,
        }
    }

    /// Waits for bytes; false at the end. A client may be idle for as long as it likes, but not in
    /// the middle of a command; one whose command finds no memory is told, and goes.
    pub async fn more(&mut self, stop: &mut watch::Receiver<bool>) -> bool {
        if !self.read(stop).await {
            return false;
        }
        if self.held.cover(self.socket.buffer.len()) {
            return true;
        }
        let limit = self.front.tier.config().request_timeout();
        // It may be gone; there is nobody else to tell.
        let _ = self.socket.write(D::TOO_MUCH, limit).await;
        false
    }

    async fn read(&mut self, stop: &mut watch::Receiver<bool>) -> bool {
        if !self.socket.buffer.is_empty() {
            let limit = self.front.tier.config().request_timeout();
            return matches!(timeout(limit, self.socket.fill()).await, Ok(Ok(1..)));
        }
        if *stop.borrow() {
            return false;
        }
        tokio::select! {
            biased;
            read = self.socket.fill() => matches!(read, Ok(1..)),
            _ = stop.changed() => false,
        }
    }

    /// Writes where there is much to write.
    pub async fn write_much(&mut self) -> Result<(), End> {
        if self.slot.output_len() > OUTPUT_MAX {
            return self.write().await;
        }
        Ok(())
    }

    /// Writes what there is.
    pub async fn write(&mut self) -> Result<(), End> {
        self.writing.clear();
        self.slot.take_output(&mut self.writing);
        let limit = self.front.tier.config().request_timeout();
        let written = self.socket.write(&self.writing, limit).await;
        if self.writing.capacity() > KEPT_MAX {
            self.writing = BytesMut::new();
        }
        self.slot.written();
        written.map_err(|_| End::Gone)
    }
}
