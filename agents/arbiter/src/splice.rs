//! Two joined connections: the bytes of one go to the other, until both have ended. If one has
//! ended the other may continue. If no byte moves for a long time, one of them has vanished, and
//! both end.

use std::future::{poll_fn, Future};
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{sleep, Instant, Sleep};

/// Buffer size of each direction.
const COPY_BYTES: usize = 16 * 1024;

/// The side whose connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The client's.
    Client,
    /// The server's.
    Server,
    /// Neither: both were silent for too long.
    Idle,
}

/// Bytes that were passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// To the server.
    pub to_server: u64,
    /// To the client.
    pub to_client: u64,
}

/// Copies in both directions up to their ends, or until nothing was copied for `idle_max`. Calls
/// `on_answer` for each piece from the server.
pub async fn join(
    client: &mut TcpStream,
    server: &mut TcpStream,
    idle_max: Duration,
    mut on_answer: impl FnMut(),
) -> Result<Sent, Broken> {
    let (mut up, mut down) = (Direction::new(), Direction::new());
    let mut silence = IdleTimer::new(idle_max);
    poll_fn(|cx| {
        let rising = up.poll(cx, client, server, || {});
        if let Poll::Ready(Err(end)) = rising {
            return Poll::Ready(Err(end.of(Broken::Client, Broken::Server)));
        }
        let falling = down.poll(cx, server, client, &mut on_answer);
        if let Poll::Ready(Err(end)) = falling {
            return Poll::Ready(Err(end.of(Broken::Server, Broken::Client)));
        }
        if rising.is_pending() || falling.is_pending() {
            let moved = up.read + up.sent + down.read + down.sent;
            return silence.poll(cx, moved).map(|()| Err(Broken::Idle));
        }
        Poll::Ready(Ok(Sent { to_server: up.sent, to_client: down.sent }))
    })
    .await
}

/// Measures the time without a copied byte. The timer is reset only when it fires.
struct IdleTimer {
    max: Duration,
    moved: u64,
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl IdleTimer {
    fn new(max: Duration) -> Self {
        Self { max, moved: 0, since: Instant::now(), alarm: Box::pin(sleep(max)) }
    }

    /// Ready when it has lasted too long, given the bytes copied so far.
    fn poll(&mut self, cx: &mut Context<'_>, moved: u64) -> Poll<()> {
        if moved != self.moved {
            (self.moved, self.since) = (moved, Instant::now());
        }
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let due = self.since + self.max;
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(due);
        }
    }
}

/// The end of a direction that broke.
enum End {
    From,
    To,
}

impl End {
    fn of(self, from: Broken, to: Broken) -> Broken {
        match self {
            Self::From => from,
            Self::To => to,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The source has ended.
    Ending,
    Ended,
}

/// One direction.
struct Direction {
    buffer: Vec<u8>,
    /// Bytes in the buffer that are not yet written.
    from: usize,
    to: usize,
    state: State,
    read: u64,
    sent: u64,
}

impl Direction {
    fn new() -> Self {
        Self { buffer: vec![0; COPY_BYTES], from: 0, to: 0, state: State::Open, read: 0, sent: 0 }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut TcpStream,
        to: &mut TcpStream,
        mut on_bytes: impl FnMut(),
    ) -> Poll<Result<(), End>> {
        while self.state != State::Ended {
            while self.from < self.to {
                let piece = &self.buffer[self.from..self.to];
                let written = ready!(Pin::new(&mut *to).poll_write(cx, piece));
                let written = written.map_err(|_| End::To)?;
                if written == 0 {
                    return Poll::Ready(Err(End::To));
                }
                self.from += written;
                self.sent += written as u64;
            }
            if self.state == State::Ending {
                ready!(Pin::new(&mut *to).poll_shutdown(cx)).map_err(|_| End::To)?;
                self.state = State::Ended;
                continue;
            }
            let Poll::Ready(read) = self.poll_read(cx, from) else {
                // Bytes that are written have to leave while nothing comes.
                return match Pin::new(&mut *to).poll_flush(cx) {
                    Poll::Ready(Err(_)) => Poll::Ready(Err(End::To)),
                    _ => Poll::Pending,
                };
            };
            match read.map_err(|_| End::From)? {
                0 => self.state = State::Ending,
                read => {
                    (self.from, self.to) = (0, read);
                    self.read += read as u64;
                    on_bytes();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, from: &mut TcpStream) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(from).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    }
}
