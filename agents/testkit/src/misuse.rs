//! Clients that misuse the protocol, and know how they have to be refused.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::load::{Tally, PATIENCE, PAUSE};
use crate::random::Random;

/// A misusing client, until the tally says stop: hangs up, sends garbage, sends too much.
pub async fn misuse(address: SocketAddr, seed: u64, tally: &Tally) {
    let mut random = Random::new(seed);
    while tally.goes_on() {
        sleep(PAUSE).await;
        let key = random.bits();
        let get = format!("GET /{key:016x} HTTP/1.1\r\nHost: soak\r\n\r\n");
        let (bytes, expected): (Vec<u8>, &[&str]) = match random.below(7) {
            // Hangs up: in the request, before the reply, in a body.
            0 => (get[..get.len() / 2].into(), &[]),
            1 => (get.into(), &[]),
            2 => (b"POST /0 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc".into(), &[]),
            3 => ((0..200).map(|_| random.bits() as u8 | 0x80).collect(), &["400"]),
            4 => (format!("GET /{} HTTP/1.1\r\n", "x".repeat(70_000)).into(), &["431"]),
            5 => (
                format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(300)).into(),
                &["431"],
            ),
            _ => (
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\
                  \r\n\r\n0\r\n\r\nGET /0 HTTP/1.1\r\nHost: a\r\n\r\n"
                    .into(),
                &["400"],
            ),
        };
        match timeout(PATIENCE, act(address, &bytes, expected)).await {
            Ok(Ok(())) => drop(tally.misused.fetch_add(1, Relaxed)),
            Ok(Err(error)) => tally.wrong(error),
            Err(_) => tally.wrong("a misusing client was not answered within 20 s".to_owned()),
        }
    }
}

/// One act; where a status is expected it has to be the only reply, and the connection ends.
pub(crate) async fn act(
    address: SocketAddr,
    bytes: &[u8],
    expected: &[&str],
) -> Result<(), String> {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return Ok(());
    };
    // The arbiter may have refused, and closed, before all of it was sent.
    let _ = stream.write_all(bytes).await;
    let Some(status) = expected.first() else {
        return Ok(());
    };
    let mut reply = Vec::new();
    let result = stream.read_to_end(&mut reply).await;
    let reply = String::from_utf8_lossy(&reply);
    // The arbiter's own replies hold no other line of this kind.
    let replies = reply.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count();
    if replies == 1 && reply.starts_with(&format!("HTTP/1.1 {status} ")) && result.is_ok() {
        return Ok(());
    }
    let text: String = String::from_utf8_lossy(bytes).chars().take(60).collect();
    Err(format!("{text:?}: expected one {status}, got {reply:?}, {result:?}"))
}
