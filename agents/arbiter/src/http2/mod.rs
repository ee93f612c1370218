//! HTTP/2 towards clients: each stream is a client of its own, with one request.
//!
//! What it asks is said in HTTP/1.1, through a pipe in memory, to the code that serves every client
//! (`http::client`), and what comes back is said in HTTP/2. So a request has one path, whatever its
//! client speaks: choice, cloning, limits, log and all. It costs two copies of what passes. A stream
//! that the client resets ends its pipe, as a client that goes away.
//!
//! What a request or reply makes a stream hold is counted from the first byte (`memory`). Beside
//! that a stream takes `STREAM_BYTES`: `STREAMS_OWN` of them are a connection's own, each one more is
//! counted too, and refused where that much is not to be had, so that the client may ask again. So a
//! client that reads nothing takes about 4 MiB that nobody counts.
//!
//! Not passed on: trailers, interim replies, `Expect` (the body is taken at once), and pushes, which
//! servers of HTTP/1.1 do not make.
//!
//! | module | what |
//! |---|---|
//! | `heads` | requests and replies in the other version's words |

mod heads;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::Request;
use bytes::{Buf, Bytes, BytesMut};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{
    duplex, split, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf,
    ReadHalf, WriteHalf,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::http::body::{Body, Framing};
use crate::http::client::IDLE_MAX;
use crate::http::head::HEAD_MAX;
use crate::http::{self, Front};
use crate::memory::{Held, Holder};
use crate::stream::Stream;

/// What an HTTP/2 client says first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Requests of one client at a time.
const STREAMS_MAX: u32 = 100;
/// Of these, so many take no memory from other clients.
const STREAMS_OWN: usize = 16;
/// What a stream takes: two ways of a pipe and its reader, the buffers of a request's and a
/// server's connection, what is read of a reply and what of it is written. Heads come on top.
const STREAM_BYTES: usize = 6 * PIPE_BYTES;
/// What a client may send of one request, and of all, before it is passed on.
const WINDOW: u32 = 256 * 1024;
const WINDOW_OF_ALL: u32 = 1024 * 1024;
/// In each direction of a pipe, and written of one reply before the client takes any.
const PIPE_BYTES: usize = 32 * 1024;
/// Read of a reply at a time: a frame's usual size.
const READ_SIZE: usize = 16 * 1024;
/// How long a client may take to begin.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Serves a client until it goes, is idle for long (it is told first), or the arbiter stops. `said` was read already.
pub async fn serve(
    front: Arc<Front>,
    stream: Stream,
    said: BytesMut,
    mut stop: watch::Receiver<bool>,
) {
    let side = Side {
        client: (stream.peer(), stream.is_tls()),
        front,
        stop: stop.clone(),
    };
    let holder = Holder::new(side.client.0.parse().ok(), 0);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW_OF_ALL)
        .max_header_list_size(HEAD_MAX as u32)
        .max_send_buffer_size(PIPE_BYTES);
    let beginning = builder.handshake::<_, Bytes>(Rewound { said, stream });
    let Ok(Ok(mut connection)) = timeout(HANDSHAKE_MAX, beginning).await else {
        return;
    };
    let mut requests = JoinSet::new();
    let mut is_ending = false;
    loop {
        let is_idle = requests.is_empty();
        tokio::select! {
            accepted = connection.accept() => {
                // An error, too, is the connection's end.
                let Some(Ok((request, respond))) = accepted else { return };
                let memory = Held::of(&side.front.tier.memory, holder);
                let memory = (requests.len() >= STREAMS_OWN).then_some(memory);
                requests.spawn(exchange(request, respond, side.clone(), memory));
            }
            Some(_) = requests.join_next() => {}
            _ = stop.changed(), if !is_ending => {
                is_ending = true;
                connection.graceful_shutdown();
            }
            () = sleep(IDLE_MAX), if is_idle => {
                // One that was told to end, and has not even answered h2's PING, is not waited for.
                if is_ending {
                    return;
                }
                is_ending = true;
                connection.graceful_shutdown();
            }
        }
    }
}

/// Why an exchange does not get to its end.
enum Cut {
    /// The client has gone, or reset the stream.
    Gone,
    /// The client is told so.
    Reset(Reason),
}

impl From<h2::Error> for Cut {
    fn from(_: h2::Error) -> Self {
        Self::Gone
    }
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self::Reset(Reason::INTERNAL_ERROR)
    }
}

/// What is behind all streams of a connection.
#[derive(Clone)]
struct Side {
    front: Arc<Front>,
    /// Its address, and whether it came by TLS.
    client: (String, bool),
    stop: watch::Receiver<bool>,
}

impl Side {
    /// A pipe to the code that serves a client.
    fn pipe(self) -> DuplexStream {
        let (pipe, other) = duplex(PIPE_BYTES);
        let inner = Stream::piped(other, self.client);
        tokio::spawn(http::client::serve(self.front, inner, self.stop));
        pipe
    }
}

/// One request and its reply, counted where it is not one of the connection's own. Dropped, it ends
/// the pipe.
async fn exchange(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    side: Side,
    mut memory: Option<Held>,
) {
    let (parts, body) = request.into_parts();
    let is_empty = body.is_end_stream();
    let Some((head, is_chunked)) = heads::request(&parts, is_empty) else {
        return respond.send_reset(Reason::PROTOCOL_ERROR);
    };
    let is_head = parts.method == ::http::Method::HEAD;
    drop(parts);
    // It is here, in the pipe, and with whoever serves it.
    let bytes = STREAM_BYTES + 3 * head.len();
    if memory.as_mut().is_some_and(|memory| !memory.cover(bytes)) {
        return respond.send_reset(Reason::REFUSED_STREAM);
    }
    let limit = side.front.tier.config().request_timeout();
    let (reads, mut writes) = split(side.pipe());
    let up = async {
        writes.write_all(&head).await?;
        drop(head);
        pass_body(body, &mut writes, is_chunked).await?;
        // The reply is what ends the exchange.
        std::future::pending::<Result<(), Cut>>().await
    };
    let down = reply(reads, &mut respond, is_head, limit);
    let ended = tokio::select! {
        ended = down => ended,
        Err(Cut::Gone) = up => Err(Cut::Gone),
    };
    if let Err(Cut::Reset(reason)) = ended {
        respond.send_reset(reason);
    }
}

/// The request's body, as it comes.
async fn pass_body(
    mut body: RecvStream,
    to: &mut WriteHalf<DuplexStream>,
    is_chunked: bool,
) -> Result<(), Cut> {
    while let Some(piece) = body.data().await {
        let piece = piece?;
        if is_chunked && !piece.is_empty() {
            to.write_all(format!("{:x}\r\n", piece.len()).as_bytes())
                .await?;
            to.write_all(&piece).await?;
            to.write_all(b"\r\n").await?;
        } else {
            to.write_all(&piece).await?;
        }
        body.flow_control().release_capacity(piece.len())?;
    }
    if is_chunked {
        to.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

/// The final reply, as it comes.
async fn reply(
    mut from: ReadHalf<DuplexStream>,
    respond: &mut SendResponse<Bytes>,
    is_head: bool,
    limit: Duration,
) -> Result<(), Cut> {
    let mut buffer = BytesMut::new();
    let (head, framing) = loop {
        if let Some((head, framing, length)) = heads::reply(&buffer, is_head) {
            buffer.advance(length);
            if !head.status().is_informational() {
                break (head, framing);
            }
            continue;
        }
        let read = tokio::select! {
            biased;
            read = read(&mut from, &mut buffer) => read?,
            _ = poll_fn(|cx| respond.poll_reset(cx)) => return Err(Cut::Gone),
        };
        if read == 0 {
            return Err(Cut::Reset(Reason::INTERNAL_ERROR));
        }
    };
    let mut body = Body::new(framing);
    let mut send = respond.send_response(head, body.is_done())?;
    while !body.is_done() {
        if buffer.is_empty() {
            let read = tokio::select! {
                biased;
                read = read(&mut from, &mut buffer) => read?,
                _ = poll_fn(|cx| send.poll_reset(cx)) => return Err(Cut::Gone),
            };
            if read == 0 {
                // What has no length ends here, and the rest was cut.
                body.end().map_err(|_| Cut::Reset(Reason::INTERNAL_ERROR))?;
                send.send_data(Bytes::new(), true)?;
                break;
            }
        }
        let data = next_data(&mut body, &mut buffer, framing)?;
        send_all(&mut send, data, body.is_done(), limit).await?;
    }
    Ok(())
}

/// Reads more, as much as is there: small pieces would be small frames.
async fn read(from: &mut ReadHalf<DuplexStream>, buffer: &mut BytesMut) -> io::Result<usize> {
    buffer.reserve(READ_SIZE);
    from.read_buf(buffer).await
}

/// The data in what has come, without its framing.
fn next_data(body: &mut Body, buffer: &mut BytesMut, framing: Framing) -> Result<Bytes, Cut> {
    let broken = |_| Cut::Reset(Reason::INTERNAL_ERROR);
    if framing == Framing::Chunked {
        let mut data = BytesMut::with_capacity(buffer.len());
        let used = body.unframe(buffer, &mut data).map_err(broken)?;
        buffer.advance(used);
        return Ok(data.freeze());
    }
    let length = body.consume(buffer).map_err(broken)?;
    Ok(buffer.split_to(length).freeze())
}

/// Sends as the client makes room, each step within `limit`.
async fn send_all(
    send: &mut SendStream<Bytes>,
    mut data: Bytes,
    is_last: bool,
    limit: Duration,
) -> Result<(), Cut> {
    if data.is_empty() && is_last {
        send.send_data(data, true)?;
        return Ok(());
    }
    while !data.is_empty() {
        send.reserve_capacity(data.len());
        let room = timeout(limit, poll_fn(|cx| send.poll_capacity(cx))).await;
        let room = match room {
            Ok(Some(room)) => room?,
            Ok(None) => return Err(Cut::Gone),
            Err(_) => return Err(Cut::Reset(Reason::CANCEL)),
        };
        let piece = data.split_to(room.min(data.len()));
        send.send_data(piece, is_last && data.is_empty())?;
    }
    Ok(())
}

/// A connection of which something was read already.
struct Rewound {
    said: BytesMut,
    stream: Stream,
}

impl AsyncRead for Rewound {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.said.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        let length = this.said.len().min(buffer.remaining());
        buffer.put_slice(&this.said.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
