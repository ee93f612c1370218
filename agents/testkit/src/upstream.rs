//! Small HTTP servers that behave well or badly, and remember what they were sent.

// A failing test may end in a panic here. The fields say what they are.
#![allow(clippy::unwrap_used, missing_docs)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
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
        let (server_gate, server_requests) = (Arc::clone(&gate), Arc::clone(&requests));
        let server = Served::start_at(address, move |stream| {
            talk(stream, behaviour.clone(), server_gate.clone(), server_requests.clone())
        });
        Self { address: server.address, gate, requests, _server: server }
    }

    /// Every request so far, head and body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// An address where nobody listens, and nobody else will: its port stays bound until this thread,
/// which is the test's, ends. A server that sets SO_REUSEADDR, as servers do, can listen there all
/// the same. Each call gives another.
pub fn nobody() -> SocketAddr {
    thread_local! {
        static HELD: RefCell<Vec<TcpSocket>> = const { RefCell::new(Vec::new()) };
    }
    let held = TcpSocket::new_v4().unwrap();
    held.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    // Only now: before, it could have been given a port that another holds in this way.
    held.set_reuseaddr(true).unwrap();
    let address = held.local_addr().unwrap();
    HELD.with_borrow_mut(|sockets| sockets.push(held));
    address
}

async fn talk(
    mut stream: TcpStream,
    behaviour: Behaviour,
    gate: Arc<Semaphore>,
    requests: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut buffer = vec![];
    loop {
        let length_of =
            if matches!(behaviour, Behaviour::Early(_)) { head_length } else { message_length };
        let length = loop {
            if let Some(length) = length_of(&buffer) {
                break length;
            }
            let mut bytes = vec![0; 65536];
            let count = stream.read(&mut bytes).await?;
            if count == 0 {
                return Ok(());
            }
            buffer.extend_from_slice(&bytes[..count]);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn can_bind(address: SocketAddr) -> bool {
        TcpSocket::new_v4().unwrap().bind(address).is_ok()
    }

    #[test]
    fn an_address_of_nobody_is_held_as_long_as_the_thread_that_has_it() {
        let held_and_left = || {
            let thread = std::thread::spawn(|| {
                let address = nobody();
                (address, can_bind(address))
            });
            let (address, was_free) = thread.join().unwrap();
            assert!(!was_free, "{address}");
            can_bind(address)
        };
        // Another process may be given the port in between.
        assert!((0..10).any(|_| held_and_left()));
    }
}
