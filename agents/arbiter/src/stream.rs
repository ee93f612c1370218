//! A connection's bytes, whatever they travel on.
//!
//! Each call is handed to the socket as it is: a TCP connection costs what it would cost alone.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connected socket of one of the two kinds.
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Of a TCP connection, whose writes leave at once: replies of two writes would wait for a
    /// delayed acknowledgement.
    pub fn tcp(stream: TcpStream) -> Self {
        // A socket that refuses the option still works.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }

    /// Writes what is taken now.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` where nothing is taken.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write(bytes),
            Self::Unix(unix) => unix.try_write(bytes),
        }
    }

    /// As `try_write`, of several pieces.
    ///
    /// # Errors
    /// As `try_write`.
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write_vectored(pieces),
            Self::Unix(unix) => unix.try_write_vectored(pieces),
        }
    }

    /// Ready when there may be something to read.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_read_ready(cx),
            Self::Unix(unix) => unix.poll_read_ready(cx),
        }
    }

    /// Ready when the peer has said something or closed; what was said stays to be read. An error is
    /// an end as well.
    pub fn poll_spoken(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(tcp) => tcp.poll_peek(cx, &mut ReadBuf::new(&mut [0])).map(|_| ()),
            Self::Unix(unix) => loop {
                if ready!(unix.poll_read_ready(cx)).is_err() {
                    return Poll::Ready(());
                }
                let peek = || SockRef::from(unix).peek(&mut [MaybeUninit::uninit()]);
                match unix.try_io(Interest::READABLE, peek) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return Poll::Ready(()),
                }
            },
        }
    }

    /// True if the peer has neither closed nor said anything. If it has, it may be lost.
    pub fn is_silent(&self) -> bool {
        let read = match self {
            Self::Tcp(tcp) => tcp.try_read(&mut [0]),
            Self::Unix(unix) => unix.try_read(&mut [0]),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The other end's IP address; none on a unix socket.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        let address = match self {
            Self::Tcp(tcp) => tcp.peer_addr(),
            Self::Unix(_) => return None,
        };
        address.ok().map(|address| address.ip())
    }

    /// The other end's IP address, for messages; `unknown` on a unix socket.
    pub fn peer(&self) -> String {
        let ip = self.peer_ip();
        ip.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Unix(unix) => Pin::new(unix).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Unix(unix) => Pin::new(unix).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, pieces),
            Self::Unix(unix) => Pin::new(unix).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Unix(unix) => Pin::new(unix).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
        }
    }
}
