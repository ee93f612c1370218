//! Requests and replies that carry a key, so that a reply of another request, or a piece of one, is
//! noticed; and a server of them.
//!
//! `GET /KEY`, `HEAD /KEY`, `POST /KEY`; a body is [`body`] of the key, the request's [`body`] of its
//! complement. Of each thousand requests some have a [`Fault`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::random::Random;
use crate::stream::{find, is_framed, Buffered, Threaded};

/// A reply of this size does not fit into what the arbiter holds back.
const LARGE_BYTES: usize = 1_500_000;

/// The body that belongs to a key: mostly 16 B to 2 KiB, one in 4096 large.
pub fn body(key: u64) -> Vec<u8> {
    let length =
        if (key >> 20) % 4096 == 0 { LARGE_BYTES } else { 16 + ((key >> 32) % 2032) as usize };
    let mut body = Vec::with_capacity(length + 8);
    let mut word = key;
    while body.len() < length {
        body.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    body.truncate(length);
    body
}

/// A key whose body is large and in one piece, made of any other.
pub fn large_key(key: u64) -> u64 {
    (key & !(0xfff << 20)) | 1
}

/// True if a message about this key comes in chunks.
pub fn is_chunked(key: u64) -> bool {
    key & 3 == 0
}

/// Appends a body with the framing's field and the empty line before it.
pub fn append_framed(out: &mut Vec<u8>, body: &[u8], chunked: bool) {
    if !chunked {
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        return out.extend_from_slice(body);
    }
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    for piece in body.chunks(1 + body.len() / 3) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\nX-Trailer: end\r\n\r\n");
}

/// The ways in which one request can fail.
#[derive(Debug, Clone, Copy)]
enum Fault {
    DieInMidReply,
    Stall,
    Garbage,
    CloseAfterReply,
    AnnounceClose,
    FailFast,
    Slow,
    SendSlowly,
}

const FAULTS: [Fault; 8] = [
    Fault::DieInMidReply,
    Fault::Stall,
    Fault::Garbage,
    Fault::CloseAfterReply,
    Fault::AnnounceClose,
    Fault::FailFast,
    Fault::Slow,
    Fault::SendSlowly,
];

/// Behaviour of a server.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Faults per thousand requests.
    pub faults_per_mille: u64,
    /// Length of a stall.
    pub stall: Duration,
    /// Seed of the faults.
    pub seed: u64,
}

/// Such a server.
pub struct Server {
    /// The address that it listens at.
    pub address: SocketAddr,
    hangs: Arc<AtomicBool>,
    _thread: Threaded,
}

impl Server {
    /// Starts a server; port 0 finds one.
    ///
    /// # Errors
    /// When the address is taken or no thread can be started.
    pub fn start(address: SocketAddr, behaviour: Behaviour) -> Result<Self> {
        let hangs = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&hangs);
        let thread = Threaded::start(address, |listener| serve(listener, behaviour, flag))?;
        Ok(Self { address: thread.address, hangs, _thread: thread })
    }

    /// While it hangs, connections are taken and nothing is answered.
    pub fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Relaxed);
    }
}

async fn serve(listener: TcpListener, behaviour: Behaviour, hangs: Arc<AtomicBool>) {
    let mut random = Random::new(behaviour.seed);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let talk = Talk {
            client: Buffered::new(stream),
            behaviour: behaviour.clone(),
            random: Random::new(random.bits()),
            hangs: Arc::clone(&hangs),
        };
        tokio::spawn(async move {
            // An error is a connection that ended: by the other side, or by a fault.
            let _ = talk.go_on().await;
        });
    }
}

struct Talk {
    client: Buffered,
    behaviour: Behaviour,
    random: Random,
    hangs: Arc<AtomicBool>,
}

struct Request {
    key: u64,
    is_head: bool,
    body: Option<Vec<u8>>,
}

impl Talk {
    async fn go_on(mut self) -> Result<()> {
        self.client.stream.set_nodelay(true)?;
        while let Some(request) = self.request().await? {
            while self.hangs.load(Relaxed) {
                sleep(Duration::from_millis(20)).await;
            }
            let is_faulty = self.random.below(1000) < self.behaviour.faults_per_mille;
            let fault = is_faulty.then(|| FAULTS[self.random.below(8) as usize]);
            if !self.answer(&request, fault).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers; false when the connection ends with it.
    async fn answer(&mut self, request: &Request, fault: Option<Fault>) -> Result<bool> {
        let reply = reply(request, fault);
        match fault {
            Some(Fault::DieInMidReply) => {
                let half = &reply[..reply.len() / 2];
                self.client.stream.write_all(half).await?;
                return Ok(false);
            }
            Some(Fault::Stall) => {
                sleep(self.behaviour.stall).await;
                return Ok(false);
            }
            Some(Fault::Garbage) => {
                let garbage = b"this is not HTTP\r\n\r\n";
                self.client.stream.write_all(garbage).await?;
                return Ok(false);
            }
            Some(Fault::Slow) => sleep(Duration::from_millis(20)).await,
            Some(Fault::SendSlowly) => {
                for piece in reply.chunks(1 + reply.len() / 3) {
                    self.client.stream.write_all(piece).await?;
                    sleep(Duration::from_millis(2)).await;
                }
                return Ok(true);
            }
            Some(Fault::CloseAfterReply | Fault::AnnounceClose) => {
                self.client.stream.write_all(&reply).await?;
                return Ok(false);
            }
            Some(Fault::FailFast) | None => {}
        }
        self.client.stream.write_all(&reply).await?;
        Ok(true)
    }

    async fn request(&mut self) -> Result<Option<Request>> {
        let Some(head) = self.client.head().await else {
            return Ok(None);
        };
        let target = head.split(' ').nth(1).context("no target")?;
        let key = u64::from_str_radix(target.trim_start_matches('/'), 16)?;
        let is_head = head.starts_with("HEAD ");
        let body = if is_framed(&head) {
            Some(self.client.body(&head).await.context("cut")?)
        } else {
            None
        };
        Ok(Some(Request { key, is_head, body }))
    }
}

fn reply(request: &Request, fault: Option<Fault>) -> Vec<u8> {
    let key = request.key;
    let upload = request.body.as_ref();
    let is_as_sent = upload.map_or(true, |upload| *upload == body(!key));
    let (status, content) = match fault {
        // The checking client takes this status for what it is: a request that came through wrong.
        _ if !is_as_sent => ("409 Conflict", Vec::new()),
        Some(Fault::FailFast) => ("500 Internal Server Error", b"overloaded".to_vec()),
        _ => ("200 OK", body(key)),
    };
    let mut out = format!("HTTP/1.1 {status}\r\nX-Key: {key:016x}\r\n").into_bytes();
    if matches!(fault, Some(Fault::AnnounceClose)) {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    append_framed(&mut out, &content, is_chunked(key));
    if request.is_head {
        let end = find(&out, b"\r\n\r\n").map_or(out.len(), |end| end + 4);
        out.truncate(end);
    }
    out
}
