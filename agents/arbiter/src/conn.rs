//! A socket with its read buffer and its timer.
//!
//! In the steady state of a busy connection nothing is allocated: the buffer is reused, and the
//! timer is set again only when it ends early (most deadlines are met and never checked). An idle
//! connection returns its buffer, so many of them cost little.

use std::future::{pending, poll_fn, Future};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::{pin, Pin};
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout, Instant, Sleep};

use crate::stream;

const READ_SIZE: usize = 16 * 1024;
/// Minimum free room behind a message's first bytes; with less the buffer grows.
const ROOM_MIN: usize = 4 * 1024;
/// Bytes that a peer may send ahead of its turn; then reading pauses.
const AHEAD_MAX: usize = 64 * 1024;
/// A buffer above this size is released as soon as it is empty.
const KEPT_MAX: usize = 4 * READ_SIZE;

/// A connection with its buffer and its timer.
pub struct Conn {
    stream: TcpStream,
    /// Bytes that were read and not yet used.
    pub buffer: BytesMut,
    alarm: Alarm,
}

impl Conn {
    /// Takes over a connected socket.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::new(), alarm: Alarm::default() }
    }

    /// Returns the socket; bytes that were read and not used are lost.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Reads more into the buffer; returns 0 at the end of the connection. Cancel-safe.
    pub async fn fill(&mut self) -> io::Result<usize> {
        read(&mut self.stream, &mut self.buffer).await
    }

    /// As `fill`, but not beyond `deadline`.
    ///
    /// # Errors
    /// Those of the socket, and `TimedOut`.
    pub async fn fill_by(&mut self, deadline: Instant) -> io::Result<usize> {
        let reading = read(&mut self.stream, &mut self.buffer);
        let read = self.alarm.limit(deadline, reading).await;
        read.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Awaits the future; none at the deadline. Uses this connection's timer.
    pub async fn limit<F: Future>(&mut self, deadline: Instant, future: F) -> Option<F::Output> {
        self.alarm.limit(deadline, future).await
    }

    /// Awaits the future; none if the peer disconnects before it. Bytes that the peer sends
    /// meanwhile stay in the buffer.
    pub async fn while_here<F: Future>(&mut self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = gone(&mut self.stream, &mut self.buffer) => None,
        }
    }

    /// As `while_here`, up to `deadline`: then the inner option is none.
    pub async fn limit_while_here<F: Future>(
        &mut self,
        deadline: Instant,
        future: F,
    ) -> Option<Option<F::Output>> {
        let Self { stream, buffer, alarm } = self;
        let here = async {
            tokio::select! {
                biased;
                output = future => Some(output),
                () = gone(stream, buffer) => None,
            }
        };
        match alarm.limit(deadline, here).await {
            Some(Some(output)) => Some(Some(output)),
            Some(None) => None,
            None => Some(None),
        }
    }

    /// Releases the buffer's memory if it is empty.
    pub fn release_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// As `release_buffer`, but only for a buffer that one large message made large.
    pub fn shrink_buffer(&mut self) {
        if self.buffer.capacity() > KEPT_MAX {
            self.release_buffer();
        }
    }

    /// Writes everything, each step within `limit`.
    ///
    /// # Errors
    /// Those of the socket, and `TimedOut`.
    pub async fn write(&mut self, bytes: &[u8], limit: Duration) -> io::Result<()> {
        self.write_both(bytes, &[], limit).await
    }

    /// Writes both pieces, in one call if the socket takes them.
    ///
    /// # Errors
    /// Those of the socket, and `TimedOut`.
    pub async fn write_both(
        &mut self,
        mut first: &[u8],
        mut second: &[u8],
        limit: Duration,
    ) -> io::Result<()> {
        while !first.is_empty() || !second.is_empty() {
            // Most writes are taken at once and need no deadline.
            let tried = match self.try_write(first, second) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let slices = [IoSlice::new(first), IoSlice::new(second)];
                    let writing = self.stream.write_vectored(&slices);
                    let written = self.alarm.limit(Instant::now() + limit, writing).await;
                    written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
                }
                tried => tried,
            };
            let written = tried?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let of_first = written.min(first.len());
            first = &first[of_first..];
            second = &second[written - of_first..];
        }
        Ok(())
    }

    /// As `write_both`; false if the peer sends something, or closes, before it has taken all.
    ///
    /// # Errors
    /// Those of the socket, and `TimedOut`.
    pub async fn write_unanswered(
        &mut self,
        mut first: &[u8],
        mut second: &[u8],
        limit: Duration,
    ) -> io::Result<bool> {
        while !first.is_empty() || !second.is_empty() {
            let written = match self.try_write(first, second) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let writing = write_or_hear(&mut self.stream, first, second);
                    match self.alarm.limit(Instant::now() + limit, writing).await {
                        Some(Ok(None)) => return Ok(false),
                        Some(Ok(Some(0))) => return Err(io::ErrorKind::WriteZero.into()),
                        Some(Ok(Some(written))) => written,
                        Some(Err(error)) => return Err(error),
                        None => return Err(io::ErrorKind::TimedOut.into()),
                    }
                }
                Err(error) => return Err(error),
            };
            let of_first = written.min(first.len());
            first = &first[of_first..];
            second = &second[written - of_first..];
        }
        Ok(true)
    }

    /// Writes without waiting; returns the bytes that the socket took.
    pub fn write_now(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match self.try_write(first, second) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            tried => tried,
        }
    }

    /// Writes as much as the socket takes, and waits until it takes some. With nothing to write,
    /// waits for the end of the connection. Cancel-safe.
    ///
    /// # Errors
    /// Those of the socket, `UnexpectedEof`, and `TimedOut`.
    pub async fn write_some(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<usize> {
        if bytes.is_empty() {
            gone(&mut self.stream, &mut self.buffer).await;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let writing = self.stream.write(bytes);
        let written = self.alarm.limit(deadline, writing).await;
        written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// One piece takes the kernel a little less than a list of one.
    fn try_write(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        if second.is_empty() {
            return self.stream.try_write(first);
        }
        let slices = [IoSlice::new(first), IoSlice::new(second)];
        self.stream.try_write_vectored(&slices)
    }

    /// Waits until the peer closes or sends something.
    pub async fn spoken(&mut self) {
        // Polled, it takes no place in the socket's list of waiters: this is part of every wait for
        // a command.
        poll_fn(|cx| stream::poll_spoken(&self.stream, cx)).await;
    }

    /// Address of the peer, for messages.
    pub fn peer(&self) -> String {
        let ip = self.peer_ip();
        ip.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string())
    }

    /// IP address of the peer; none if the connection is lost.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        stream::peer_ip(&self.stream)
    }

    /// True if nothing can be read: the peer has neither closed nor sent unrequested bytes.
    pub fn is_silent(&mut self) -> bool {
        self.buffer.is_empty() && stream::is_silent(&self.stream)
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

/// Writes as much as the socket takes; none if the peer sends something, or closes, before.
async fn write_or_hear(
    stream: &mut TcpStream,
    first: &[u8],
    second: &[u8],
) -> io::Result<Option<usize>> {
    poll_fn(|cx| {
        if stream::poll_spoken(stream, cx).is_ready() {
            return Poll::Ready(Ok(None));
        }
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        let written = Pin::new(&mut *stream).poll_write_vectored(cx, &pieces);
        written.map_ok(Some)
    })
    .await
}

/// Waits until the peer has closed. Keeps what it sends, so that the end behind it is seen.
async fn gone(stream: &mut TcpStream, buffer: &mut BytesMut) {
    while buffer.len() < AHEAD_MAX {
        if !matches!(read(stream, buffer).await, Ok(1..)) {
            return;
        }
    }
    pending().await
}

async fn read(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<usize> {
    // Until there is something to read, an idle connection needs no buffer.
    if buffer.capacity() == 0 {
        poll_fn(|cx| stream.poll_read_ready(cx)).await?;
    }
    if buffer.is_empty() || buffer.capacity() - buffer.len() < ROOM_MIN {
        buffer.reserve(READ_SIZE);
    }
    stream.read_buf(buffer).await
}

/// One timer for successive deadlines. It fires at the earliest deadline since it was set; if a
/// later one was asked for, it is set again.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Awaits the future; none at the deadline. The future is polled first.
    async fn limit<F: Future>(&mut self, deadline: Instant, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if deadline < sleep.deadline() {
                sleep.as_mut().reset(deadline);
            }
            while sleep.as_mut().poll(context).is_ready() {
                if Instant::now() >= deadline {
                    // Set anew before it is polled again.
                    self.0 = None;
                    return Poll::Ready(None);
                }
                sleep.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }
}
