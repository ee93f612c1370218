//! Replies that come as they come: server-sent events, long polls, bodies that are sent slowly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::support::web::Connection;
use crate::support::{errors, settings, start, Running};

const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Transfer-Encoding: chunked\r\n\r\n6\r\ndata:1\r\n";

/// Time that a request may take; a good server begins its reply within it on any host.
const LIMIT_MS: u64 = 3_000;
/// Longer than that.
const LONGER: Duration = Duration::from_millis(LIMIT_MS + 200);

/// Servers that send `head`, and another chunk for each permit of the gate.
struct Sending {
    addresses: Vec<SocketAddr>,
    gate: Arc<Semaphore>,
}

impl Sending {
    async fn start(count: usize, head: &'static str) -> Self {
        let (mut addresses, gate) = (vec![], Arc::new(Semaphore::new(0)));
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap());
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(send(stream, head, Arc::clone(&gate)));
                }
            });
        }
        Self { addresses, gate }
    }

    async fn front(&self, replicas: usize, more: &str) -> Running {
        let settings = settings("http", "round-robin", replicas, 1);
        let more = format!("request_timeout_ms = {LIMIT_MS}\n{more}");
        start(&(settings + &more), &self.addresses).await
    }
}

async fn send(mut stream: TcpStream, head: &str, gate: Arc<Semaphore>) -> Option<()> {
    let mut request = [0; 4096];
    stream.read(&mut request).await.ok().filter(|read| *read > 0)?;
    stream.write_all(head.as_bytes()).await.ok()?;
    loop {
        gate.acquire().await.ok()?.forget();
        stream.write_all(b"6\r\ndata:2\r\n").await.ok()?;
    }
}

async fn ask(arbiter: &Running, path: &str, accept: &str) -> Connection {
    let mut client = Connection::open(arbiter.clients).await;
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    client.send(head.as_bytes()).await;
    client
}

#[tokio::test]
async fn events_pass_as_they_come_and_charge_nobody() {
    for accept in ["text/event-stream", "*/*"] {
        let servers = Sending::start(2, EVENTS).await;
        let arbiter = servers.front(2, "").await;
        let mut clients = vec![];
        for _ in 0..6 {
            let mut client = ask(&arbiter, "/", accept).await;
            client.raw(b"data:1\r\n").await;
            clients.push(client);
        }
        tokio::time::sleep(LONGER).await;
        // Enough for those that wait for a client that has gone, too.
        servers.gate.add_permits(100);
        for client in &mut clients {
            client.raw(b"data:2\r\n").await;
        }
        drop(clients);
        let stats = arbiter.all_free().await;
        assert_eq!(stats.guarded.ejections, 0, "{accept}");
        assert_eq!(errors(&stats), 0);
    }
}

#[tokio::test]
async fn a_long_poll_waits_at_one_server_without_its_token() {
    let servers = Sending::start(1, "").await;
    let arbiter = servers.front(1, "streamed_paths = [\"/poll\"]\n").await;
    let _waiting = ask(&arbiter, "/poll/7", "*/*").await;
    let waits =
        |stats: &wire::arbiter::Stats| stats.servers[0].in_flight == 1 && stats.tokens.in_use == 0;
    arbiter.until("a poll that waits", waits).await;
    tokio::time::sleep(LONGER).await;
    let stats = arbiter.stats().await;
    assert_eq!((stats.servers[0].in_flight, stats.servers[0].errors), (1, 0));
    let mut other = ask(&arbiter, "/other", "*/*").await;
    assert_eq!(other.reply(false).await.unwrap().status, 504);
}

#[tokio::test]
async fn a_server_that_keeps_sending_is_not_late() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata:1\r\n";
    let servers = Sending::start(2, head).await;
    let arbiter = servers.front(2, "").await;
    let gate = Arc::clone(&servers.gate);
    let sending = tokio::spawn(async move {
        loop {
            gate.add_permits(2);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut client = ask(&arbiter, "/", "*/*").await;
    let text = client.raw(b"data:2\r\n").await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    drop(client);
    assert_eq!(errors(&arbiter.at_rest().await), 0);
    sending.abort();
}
