//! Small HTTP servers that behave well or badly, and remember what they were sent.

// A failing test may end in a panic here. The fields say what they are.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::stream::{field, find, Served};

/// The behaviour of a server for a request.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Sends these bytes.
    Reply(Vec<u8>),
    /// Sends these bytes and closes.
    ReplyAndClose(Vec<u8>),
    /// Sends these bytes once the gate lets it.
    Gated(Vec<u8>),
    /// Sends the bytes before it has read the request's body, and closes.
    Early(Vec<u8>),
    /// Reads on and never says a word.
    Silent,
}

/// A complete 200 with this body.
pub fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A complete 500.
pub fn failure() -> Vec<u8> {
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\nfailed".to_vec()
}

pub struct Upstream {
    pub address: SocketAddr,
    pub gate: Arc<Semaphore>,
    requests: Arc<Mutex<Vec<String>>>,
    _server: Served,
}

impl Upstream {
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), behaviour)
    }

    /// Two of the same behaviour.
    pub async fn pair(behaviour: Behaviour) -> [Self; 2] {
        [Self::start(behaviour.clone()).await, Self::start(behaviour).await]
    }

    pub fn start_at(address: SocketAddr, behaviour: Behaviour) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let requests = Arc::new(Mutex::new(vec![]));
        let (its, seen) = (Arc::clone(&gate), Arc::clone(&requests));
        let server = Served::start_at(address, move |stream| {
            talk(stream, behaviour.clone(), its.clone(), seen.clone())
        });
        Self { address: server.address, gate, requests, _server: server }
    }

    /// Every request so far, head and body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// An address where nobody listens, and nobody will that lets the system choose a port: a port
/// that the system had given could be given again at once. Each call gives another.
pub fn nobody() -> SocketAddr {
    // Below those that Linux gives, 32768 and up.
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let place = (std::process::id() * 37 + NEXT.fetch_add(1, Relaxed)) % COUNT;
        let address = SocketAddr::from(([127, 0, 0, 1], (FIRST + place) as u16));
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of 127.0.0.1 is free from {FIRST} on");
}

async fn talk(
    mut stream: TcpStream,
    behaviour: Behaviour,
    gate: Arc<Semaphore>,
    requests: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut buffer = vec![];
    loop {
        let wanted =
            if matches!(behaviour, Behaviour::Early(_)) { head_length } else { message_length };
        let length = loop {
            if let Some(length) = wanted(&buffer) {
                break length;
            }
            let mut bytes = vec![0; 65536];
            let read = stream.read(&mut bytes).await?;
            if read == 0 {
                return Ok(());
            }
            buffer.extend_from_slice(&bytes[..read]);
        };
        let request: Vec<u8> = buffer.drain(..length).collect();
        requests.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
        let is_head = request.starts_with(b"HEAD ");
        match &behaviour {
            Behaviour::Reply(reply) if is_head => {
                let head = head_length(reply).unwrap();
                stream.write_all(&reply[..head]).await?;
            }
            Behaviour::Reply(reply) => stream.write_all(reply).await?,
            Behaviour::ReplyAndClose(reply) => return stream.write_all(reply).await,
            Behaviour::Gated(reply) => {
                gate.acquire().await.unwrap().forget();
                stream.write_all(reply).await?;
            }
            Behaviour::Early(reply) => {
                stream.write_all(reply).await?;
                return stream.shutdown().await;
            }
            Behaviour::Silent => {}
        }
    }
}

fn head_length(bytes: &[u8]) -> Option<usize> {
    find(bytes, b"\r\n\r\n").map(|place| place + 4)
}

fn message_length(bytes: &[u8]) -> Option<usize> {
    let head = head_length(bytes)?;
    let text = String::from_utf8_lossy(&bytes[..head]);
    let body = match field(&text, "transfer-encoding") {
        Some(_) => chunks_length(&bytes[head..])?,
        None => field(&text, "content-length").map_or(0, |length| length.parse().unwrap()),
    };
    (bytes.len() >= head + body).then_some(head + body)
}

/// Up to the end of the trailers; good for bodies that hold no line of a single 0 themselves.
fn chunks_length(body: &[u8]) -> Option<usize> {
    let last = if body.starts_with(b"0\r\n") { 0 } else { find(body, b"\r\n0\r\n")? + 2 };
    // The line feed before the trailers' end is that of the last line, be it the size's.
    head_length(&body[last..]).map(|end| last + end)
}
