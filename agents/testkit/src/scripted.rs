//! An HTTP server that answers each request when a script says, and remembers when it did. What a
//! client measures can be held against that: neither a busy host nor a late timer is the client's
//! error then.

// A failing test may end in a panic here.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep_until, Instant};

use crate::stream::{Buffered, Threaded};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Times of replies. Requests ask for `/0`, `/1`, ...
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Service time of each.
    pub delays: Vec<Duration>,
    /// Start, after the first request, and length of a time without replies.
    pub stall: Option<(Duration, Duration)>,
}

/// A server on a thread of its own, until it is dropped.
pub struct Scripted {
    /// The address that it listens at, on loopback.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _thread: Threaded,
}

struct Shared {
    script: Script,
    now_ns: fn() -> i64,
    first: Mutex<Option<Instant>>,
    answered_ns: Mutex<Vec<Option<i64>>>,
}

impl Scripted {
    /// Starts it; `now_ns` is the clock of what it remembers.
    pub fn start(script: Script, now_ns: fn() -> i64) -> Self {
        let shared = Arc::new(Shared {
            answered_ns: Mutex::new(vec![None; script.delays.len()]),
            script,
            now_ns,
            first: Mutex::new(None),
        });
        let server_shared = Arc::clone(&shared);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let thread = Threaded::start(any, |listener| serve(listener, server_shared)).unwrap();
        Self { address: thread.address, shared, _thread: thread }
    }

    /// Time of each reply, on the clock that it was started with; none if there was none.
    pub fn answered_ns(&self) -> Vec<Option<i64>> {
        self.shared.answered_ns.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(talk(stream, Arc::clone(&shared)));
    }
}

async fn talk(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut client = Buffered::new(stream);
    while let Some(head) = client.head().await {
        let path = head.split(' ').nth(1).unwrap_or("/");
        let place: usize = path.trim_start_matches('/').parse().unwrap();
        sleep_until(shared.due(place)).await;
        // Noted before, so that nobody can have read it earlier.
        shared.answered_ns.lock().unwrap()[place] = Some((shared.now_ns)());
        if client.stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}

impl Shared {
    /// Time at which request `place`, which has just arrived, is answered.
    fn due(&self, place: usize) -> Instant {
        let now = Instant::now();
        let first = *self.first.lock().unwrap().get_or_insert(now);
        let due = now + self.script.delays[place];
        match self.script.stall {
            Some((from, lasts)) if due >= first + from => due.max(first + from + lasts),
            _ => due,
        }
    }
}
