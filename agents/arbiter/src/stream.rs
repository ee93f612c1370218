//! A connection's bytes, whatever they travel on.
//!
//! Each call is handed to the socket as it is: a TCP connection costs what it would cost alone.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll, Wake};

use socket2::SockRef;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, DuplexStream, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// Read from a pipe at a time.
const PIPE_READ: usize = 16 * 1024;

/// See the module.
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS over TCP. Written is what it has taken, encrypted or on the way: whoever reads, or flushes,
    /// also sends what is left to send.
    Tls(Box<TlsStream<TcpStream>>),
    /// A pipe in memory, of a request that came by HTTP/2.
    Piped(Box<Piped>),
}

/// See `Stream::Piped`.
pub struct Piped {
    pipe: BufReader<DuplexStream>,
    /// The client's address, and whether it came by TLS.
    client: (String, bool),
}

impl Stream {
    /// Of a TCP connection, whose writes leave at once: replies of two writes would wait for a
    /// delayed acknowledgement.
    pub fn tcp(stream: TcpStream) -> Self {
        // A socket that refuses the option still works.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }

    /// Of a connection whose handshake is done.
    pub fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self::Tls(Box::new(stream))
    }

    /// Of a request of this client, which has an address, and came by TLS or not.
    pub fn piped(pipe: DuplexStream, client: (String, bool)) -> Self {
        let pipe = BufReader::with_capacity(PIPE_READ, pipe);
        Self::Piped(Box::new(Piped { pipe, client }))
    }

    /// Whether what is said is encrypted on its way.
    pub fn is_tls(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(_) => true,
            Self::Piped(piped) => piped.client.1,
        }
    }

    /// Tells the peer that nothing more comes, as far as it can be told now; needed where an end that
    /// is not told would be taken for a cut.
    pub fn part(&mut self) {
        if let Self::Tls(tls) = self {
            // It may be gone; nobody waits for it.
            let _ = now(|cx| Pin::new(tls).poll_shutdown(cx));
        }
    }

    /// Writes what is taken now.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` where nothing is taken.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write(bytes),
            Self::Unix(unix) => unix.try_write(bytes),
            Self::Tls(tls) => now(|cx| Pin::new(tls).poll_write(cx, bytes)),
            Self::Piped(piped) => now(|cx| Pin::new(&mut piped.pipe).poll_write(cx, bytes)),
        }
    }

    /// As `try_write`, of several pieces.
    ///
    /// # Errors
    /// As `try_write`.
    pub fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write_vectored(pieces),
            Self::Unix(unix) => unix.try_write_vectored(pieces),
            Self::Tls(tls) => now(|cx| Pin::new(tls).poll_write_vectored(cx, pieces)),
            Self::Piped(piped) => {
                now(|cx| Pin::new(&mut piped.pipe).poll_write_vectored(cx, pieces))
            }
        }
    }

    /// Ready when there may be something to read.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_read_ready(cx),
            Self::Unix(unix) => unix.poll_read_ready(cx),
            Self::Tls(tls) => poll_plain(tls, cx).map(|_| Ok(())),
            Self::Piped(piped) => poll_piped(piped, cx).map(|_| Ok(())),
        }
    }

    /// Ready when the peer has said something or closed; what was said stays to be read. An error is
    /// an end as well.
    pub fn poll_spoken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(tcp) => tcp.poll_peek(cx, &mut ReadBuf::new(&mut [0])).map(|_| ()),
            Self::Unix(unix) => loop {
                if ready!(unix.poll_read_ready(cx)).is_err() {
                    return Poll::Ready(());
                }
                let peek = || SockRef::from(&*unix).peek(&mut [MaybeUninit::uninit()]);
                match unix.try_io(Interest::READABLE, peek) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return Poll::Ready(()),
                }
            },
            Self::Tls(tls) => poll_plain(tls, cx).map(|_| ()),
            Self::Piped(piped) => poll_piped(piped, cx).map(|_| ()),
        }
    }

    /// Whether the peer has neither closed nor said anything. If it has, it may be lost.
    pub fn is_silent(&mut self) -> bool {
        let read = match self {
            Self::Tcp(tcp) => tcp.try_read(&mut [0]),
            Self::Unix(unix) => unix.try_read(&mut [0]),
            Self::Tls(tls) => now(|cx| poll_plain(tls, cx)),
            Self::Piped(piped) => now(|cx| poll_piped(piped, cx)),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The other end's IP address; none on a unix socket.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        let address = match self {
            Self::Tcp(tcp) => tcp.peer_addr(),
            Self::Tls(tls) => tls.get_ref().0.peer_addr(),
            Self::Unix(_) | Self::Piped(_) => return None,
        };
        address.ok().map(|address| address.ip())
    }

    /// The other end's IP address, for messages; `unknown` on a unix socket.
    pub fn peer(&self) -> String {
        if let Self::Piped(piped) = self {
            return piped.client.0.clone();
        }
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
            Self::Tls(tls) => {
                send_rest(tls, cx);
                Pin::new(tls).poll_read(cx, buffer)
            }
            Self::Piped(piped) => Pin::new(&mut piped.pipe).poll_read(cx, buffer),
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
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            Self::Piped(piped) => Pin::new(&mut piped.pipe).poll_write(cx, bytes),
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
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, pieces),
            Self::Piped(piped) => Pin::new(&mut piped.pipe).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Unix(unix) => Pin::new(unix).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
            Self::Piped(piped) => Pin::new(&mut piped.pipe).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            Self::Piped(piped) => Pin::new(&mut piped.pipe).poll_shutdown(cx),
        }
    }
}

/// What a poll gives now.
fn now<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>) -> io::Result<T> {
    /// Whoever waits polls again, with a waker of its own.
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let waker = Arc::new(Nobody).into();
    match poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// What was encrypted and not yet taken by the socket goes on its way.
fn send_rest(tls: &mut TlsStream<TcpStream>, cx: &mut Context<'_>) {
    // An error is there again for who writes next, and reading says that the peer is gone.
    let _ = Pin::new(tls).poll_flush(cx);
}

/// Ready when plain text is there, or its end; none of it is taken.
fn poll_plain(tls: &mut TlsStream<TcpStream>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    send_rest(tls, cx);
    Pin::new(tls).poll_fill_buf(cx).map_ok(<[u8]>::len)
}

fn poll_piped(piped: &mut Piped, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    Pin::new(&mut piped.pipe)
        .poll_fill_buf(cx)
        .map_ok(<[u8]>::len)
}
