//! Clients that are slow: an upload that stalls until it is refused, a large reply that is taken a few
//! kilobytes a second and then left.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use crate::keyed::{body, large_key};
use crate::load::{Tally, PATIENCE, PAUSE};
use crate::misuse::act;
use crate::random::Random;
use crate::stream::{field, find};

/// Lengths of uploads, of which half is sent.
const UPLOADS_BYTES: [usize; 3] = [1_000, 100_000, 2_000_000];
/// Bytes taken at a time, number of times, and pause after each: 8 kB a second.
const TAKEN_BYTES: usize = 2 * 1024;
const TAKEN_TIMES: usize = 6;
const TAKEN_PAUSE: Duration = Duration::from_millis(250);
/// The kernel's buffer for a slow client: more than it takes, and far less than the reply.
const RECEIVED_BYTES_MAX: u32 = 32 * 1024;

/// A client that stalls, until the tally says stop: half of a body, then nothing until it is told that
/// this was too slow and the connection ends.
pub async fn stall(address: SocketAddr, seed: u64, tally: &Tally) {
    let mut random = Random::new(seed);
    while tally.goes_on() {
        sleep(PAUSE).await;
        let length = UPLOADS_BYTES[random.below(UPLOADS_BYTES.len() as u64) as usize];
        let key = random.bits();
        let head =
            format!("POST /{key:016x} HTTP/1.1\r\nHost: soak\r\nContent-Length: {length}\r\n");
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.resize(bytes.len() + length / 2, b'x');
        match timeout(PATIENCE, act(address, &bytes, &["408"])).await {
            Ok(Ok(())) => drop(tally.stalled.fetch_add(1, Relaxed)),
            Ok(Err(error)) => tally.wrong(error),
            Err(_) => tally.wrong("a stalled upload was not refused within 20 s".to_owned()),
        }
    }
}

/// A client that reads slowly, until the tally says stop. What it takes is checked.
pub async fn read_slowly(address: SocketAddr, seed: u64, tally: &Tally) {
    let mut random = Random::new(seed);
    while tally.goes_on() {
        sleep(PAUSE).await;
        let key = large_key(random.bits());
        match timeout(PATIENCE, take_slowly(address, key)).await {
            Ok(Some(bytes)) => match judge(key, &bytes) {
                Ok(()) => drop(tally.read_slowly.fetch_add(1, Relaxed)),
                Err(error) => tally.wrong(error),
            },
            Ok(None) => {}
            Err(_) => tally.wrong("a slow reader got nothing within 20 s".to_owned()),
        }
    }
}

/// The beginning of the reply to a GET; none where there is no reply, or an error, or it breaks off.
async fn take_slowly(address: SocketAddr, key: u64) -> Option<Vec<u8>> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.set_recv_buffer_size(RECEIVED_BYTES_MAX).ok()?;
    let mut stream = socket.connect(address).await.ok()?;
    let get = format!("GET /{key:016x} HTTP/1.1\r\nHost: soak\r\n\r\n");
    stream.write_all(get.as_bytes()).await.ok()?;
    let mut bytes = Vec::new();
    for _ in 0..TAKEN_TIMES {
        let mut piece = [0; TAKEN_BYTES];
        let read = stream.read(&mut piece).await.ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        // The checking clients judge the effect of a fault on it.
        let is_error = bytes.starts_with(b"HTTP/1.1 50");
        (!is_error).then_some(())?;
        sleep(TAKEN_PAUSE).await;
    }
    Some(bytes)
}

/// True if it is the beginning of the reply to this key.
fn judge(key: u64, bytes: &[u8]) -> Result<(), String> {
    let end = find(bytes, b"\r\n\r\n").map_or(bytes.len(), |end| end + 4);
    let head = String::from_utf8_lossy(&bytes[..end]);
    let is_mine = field(&head, "x-key").is_some_and(|value| value == format!("{key:016x}"));
    if head.starts_with("HTTP/1.1 200 ") && is_mine && body(key).starts_with(&bytes[end..]) {
        return Ok(());
    }
    Err(format!("key {key:016x}: a slow reader got another reply: {head:?}"))
}
