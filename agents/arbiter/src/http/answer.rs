//! The end of an exchange: the last bytes to the client, the counters, and the further use of the
//! connection.

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::head::{RequestHead, ResponseHead};
use super::refusal::Refusal;
use super::Front;
use crate::conn::Conn;
use crate::memory::Holder;

/// A client's connection.
pub struct Client {
    /// The socket.
    pub conn: Conn,
    /// Head of the reply; its memory is reused.
    pub reply: ResponseHead,
    /// An empty buffer, to be exchanged for one that holds a reply.
    pub spare: BytesMut,
    holder: Option<Holder>,
    stop: watch::Receiver<bool>,
}

/// The next step of a connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Read the next request.
    Next,
    /// Close: the reply was complete.
    Close,
    /// Close without a reset: the reply was complete, but the request was not read to its end.
    Linger,
    /// Close at once: the reply was cut.
    Abort,
}

impl Client {
    /// Takes over a connected socket; `stop` becomes true when the arbiter stops.
    pub fn new(stream: TcpStream, stop: watch::Receiver<bool>) -> Self {
        Self {
            holder: None,
            conn: Conn::new(stream),
            reply: ResponseHead::default(),
            spare: BytesMut::new(),
            stop,
        }
    }

    /// The client for whom memory is held; determined at first use.
    pub fn holder(&mut self) -> Holder {
        let holder = || Holder::new(self.conn.peer_ip());
        *self.holder.get_or_insert_with(holder)
    }

    /// True if the arbiter is stopping.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// True if the connection stays open after this request.
    pub fn keeps(&self, request: &RequestHead) -> bool {
        request.keep_alive && !self.is_stopped()
    }

    /// Writes interim replies to a client that knows them; false if it has disconnected.
    pub async fn pass_interim(
        &mut self,
        front: &Front,
        request: &RequestHead,
        interim: &[u8],
    ) -> bool {
        let limit = front.tier.config().request_timeout();
        request.minor == 0 || self.conn.write(interim, limit).await.is_ok()
    }

    /// Replies with an error of the arbiter's own.
    pub async fn refuse(
        &mut self,
        front: &Front,
        request: &RequestHead,
        refusal: Refusal,
        unread_body: bool,
    ) -> After {
        front.tier.counters.failed.inc();
        let keep = self.keeps(request) && request.minor == 1 && !unread_body;
        let reply = refusal.reply(request.is_head, !keep);
        self.write_last(front, (&reply, &[]), keep, unread_body).await
    }

    /// Writes the last bytes of the reply: head and body, or two empty pieces.
    pub async fn finish(
        &mut self,
        front: &Front,
        bytes: (&[u8], &[u8]),
        keep: bool,
        unread_body: bool,
    ) -> After {
        let after = self.write_last(front, bytes, keep, unread_body).await;
        if after == After::Abort {
            front.tier.counters.failed.inc();
        } else {
            front.tier.counters.answered.inc();
        }
        after
    }

    async fn write_last(
        &mut self,
        front: &Front,
        bytes: (&[u8], &[u8]),
        keep: bool,
        unread_body: bool,
    ) -> After {
        let limit = front.tier.config().request_timeout();
        match self.conn.write_both(bytes.0, bytes.1, limit).await {
            Err(_) => After::Abort,
            Ok(()) if unread_body => After::Linger,
            Ok(()) if keep => After::Next,
            Ok(()) => After::Close,
        }
    }
}
