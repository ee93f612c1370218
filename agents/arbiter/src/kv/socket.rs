//! A client's socket. What arrives is read into a buffer of the thread and copied from there, so
//! that an idle client holds none.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{ready, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::conn::Conn;

const READ_SIZE: usize = 64 * 1024;
/// A buffer above this size is not kept.
const KEPT_MAX: usize = 4 * 1024;

thread_local! {
    static ARRIVING: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into_boxed_slice());
}

/// A connection that holds no buffer while it is idle.
pub struct Socket {
    /// The connection.
    pub stream: TcpStream,
    /// Bytes that were read and not yet used.
    pub buffer: BytesMut,
}

impl Socket {
    /// Takes over a connected socket.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// Reads more into the buffer; 0 at the end. Cancel-safe.
    pub async fn fill(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_MAX {
            self.buffer = BytesMut::new();
        }
        arrive(&mut self.stream, &mut self.buffer).await
    }

    /// Writes everything, each step within `limit`.
    ///
    /// # Errors
    /// Those of the socket, and `TimedOut`.
    pub async fn write(&mut self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write_some(bytes, limit).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes as much as the socket takes, within `limit`.
    pub async fn write_some(&mut self, bytes: &[u8], limit: Duration) -> io::Result<usize> {
        // Most writes are taken at once and need no deadline.
        let written = match self.stream.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeout(limit, self.stream.write(bytes)).await??
            }
            tried => tried?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(written)
    }

    /// As [`Conn::linger`].
    pub async fn linger(self) {
        Conn::new(self.stream).linger().await;
    }
}

/// Waits for bytes and appends them to the buffer, which holds no memory until then; 0 at the end.
/// Cancel-safe.
pub async fn arrive<R: AsyncRead + Unpin>(from: &mut R, to: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|cx| {
        ARRIVING.with_borrow_mut(|arriving| {
            let mut arriving = ReadBuf::new(arriving);
            ready!(Pin::new(&mut *from).poll_read(cx, &mut arriving))?;
            to.extend_from_slice(arriving.filled());
            Poll::Ready(Ok(arriving.filled().len()))
        })
    })
    .await
}
