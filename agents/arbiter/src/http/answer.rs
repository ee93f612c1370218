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
    /// The reply's head; its memory is used again.
    pub reply: ResponseHead,
    /// An empty buffer, to be exchanged for one that holds a reply.
    pub spare: BytesMut,
    holder: Option<Holder>,
    stop: watch::Receiver<bool>,
}

/// The fate of the connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next request may come.
    Next,
    /// The reply was complete; close.
    Close,
    /// The reply was complete, but the request was not read to its end: close without a reset.
    Linger,
    /// The reply was cut: close at once.
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

    /// For whom memory is held; asked for once, where it is needed.
    pub fn holder(&mut self) -> Holder {
        let holder = || Holder::new(self.conn.peer_ip());
        *self.holder.get_or_insert_with(holder)
    }

    /// True if the arbiter stops.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// True if the connection goes on after this request.
    pub fn keeps(&self, request: &RequestHead) -> bool {
        request.keep_alive && !self.is_stopped()
    }

    /// Writes interim replies, if there are any, to a client that knows them; false where it is gone.
    pub async fn pass_interim(
        &mut self,
        front: &Front,
        request: &RequestHead,
        interim: &[u8],
    ) -> bool {
        let limit = front.tier.config().request_timeout();
        request.minor == 0 || self.conn.write(interim, limit).await.is_ok()
    }

    /// Answers with the arbiter's own error.
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

    /// Writes the (last bytes of the) reply, head and body or two empty pieces.
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
