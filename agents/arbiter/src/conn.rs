//! A socket with its read buffer.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const READ_SIZE: usize = 16 * 1024;

/// See the module.
pub struct Conn {
    stream: TcpStream,
    /// Read and not yet used.
    pub buffer: BytesMut,
}

impl Conn {
    /// Takes over a connected socket.
    pub fn new(stream: TcpStream) -> Self {
        // Without it replies of two writes wait for a delayed acknowledgement; a socket that
        // refuses the option still works.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// Reads more into the buffer; 0 at the end of the connection. May be dropped and called again.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ_SIZE);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Writes everything, each step within `limit`.
    ///
    /// # Errors
    /// Those of the socket, and `TimedOut`.
    pub async fn write(&mut self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match timeout(limit, self.stream.write(bytes)).await {
                Ok(written) => written?,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Waits until the peer closes or says something.
    pub async fn spoken(&self) {
        // An error is an end as well. What is said stays there to be read.
        let _ = self.stream.peek(&mut [0]).await;
    }

    /// The other end's address, for messages.
    pub fn peer(&self) -> String {
        self.stream
            .peer_addr()
            .map_or_else(|_| "?".to_owned(), |address| address.ip().to_string())
    }

    /// Whether nothing can be read: the peer has neither closed nor sent what nobody asked for.
    pub fn is_silent(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        let would_block = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.buffer.is_empty() && read.is_err_and(would_block)
    }

    /// Ends the connection so that the peer can still read what was written: closing a socket with
    /// unread bytes would reset it and may destroy the reply.
    pub async fn linger(mut self) {
        const LINGER: Duration = Duration::from_secs(1);
        const LINGER_BYTES: usize = 256 * 1024;
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut drained = 0;
        let drain = async {
            while drained < LINGER_BYTES {
                self.buffer.clear();
                match self.fill().await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => drained += read,
                }
            }
        };
        // Beyond the limit the peer gets the reset.
        let _ = timeout(LINGER, drain).await;
    }
}
