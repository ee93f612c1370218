//! Connections passed through, with real sockets: servers that echo, hold, die and are not there.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::upstream::nobody;
use crate::support::{settings, start, Running};
use testkit::stream::Served;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server of which every connection first says the server's name, then says back what it is sent
/// once that has ended. Dropped, it is dead, with its connections.
struct Echo {
    address: SocketAddr,
    _server: Served,
}

impl Echo {
    async fn start(name: &'static str) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), name).await
    }

    async fn start_at(address: SocketAddr, name: &'static str) -> Self {
        let server = Served::start_at(address, move |stream| echo(stream, name));
        Self { address: server.address, _server: server }
    }
}

async fn echo(mut stream: TcpStream, name: &str) -> std::io::Result<()> {
    stream.write_all(name.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    stream.write_all(&bytes).await
}

async fn front(policy: &str, tokens: usize, servers: &[SocketAddr]) -> Running {
    start(&settings("tcp", policy, 1, tokens), servers).await
}

/// A connection, and the name of the server that has it.
async fn open(arbiter: &Running) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(arbiter.clients).await.unwrap();
    let name = named(&mut stream).await;
    (stream, name)
}

async fn named(stream: &mut TcpStream) -> String {
    let mut name = [0; 3];
    stream.read_exact(&mut name).await.unwrap();
    String::from_utf8(name.to_vec()).unwrap()
}

#[tokio::test]
async fn bytes_pass_in_both_directions_and_either_may_end_first() {
    let server = Echo::start("one").await;
    let arbiter = front("round-robin", 1, &[server.address]).await;
    let (stream, _) = open(&arbiter).await;
    let (mut reads, mut writes) = stream.into_split();
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    writes.write_all(&sent).await.unwrap();
    writes.shutdown().await.unwrap();
    let mut received = Vec::new();
    reads.read_to_end(&mut received).await.unwrap();
    assert!(received == sent, "{} bytes came back", received.len());
    let ended = |stats: &wire::arbiter::Stats| stats.tokens.in_use == 0;
    let stats = arbiter.until("the connection's end", ended).await;
    let requests = stats.requests;
    assert_eq!((requests.received, requests.answered, requests.failed), (1, 1, 0));
    assert_eq!((stats.servers[0].requests, stats.servers[0].wins), (1, 1));
    assert_eq!(stats.servers[0].latency_count, 1);
}

#[tokio::test]
async fn each_connection_goes_to_one_server_as_the_policy_says() {
    let servers = [Echo::start("one").await, Echo::start("two").await];
    let arbiter = front("round-robin", 1, &servers.each_ref().map(|it| it.address)).await;
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(open(&arbiter).await.1);
    }
    assert_eq!(names, ["one", "two", "one", "two"]);
}

#[tokio::test]
async fn a_token_is_held_for_the_life_of_a_connection() {
    let server = Echo::start("one").await;
    let arbiter = front("tad-paper", 1, &[server.address]).await;
    let (first, _) = open(&arbiter).await;
    let mut second = TcpStream::connect(arbiter.clients).await.unwrap();
    let both = |stats: &wire::arbiter::Stats| stats.requests.received == 2;
    let stats = arbiter.until("the second connection", both).await;
    assert_eq!((stats.servers[0].in_flight, stats.tokens.in_use), (1, 1));
    drop(first);
    assert_eq!(named(&mut second).await, "one");
    assert_eq!(arbiter.stats().await.token_waits, 1);
}

#[tokio::test]
async fn a_connection_without_a_byte_is_closed_and_its_token_returns() {
    let server = Echo::start("one").await;
    let text = settings("tcp", "tad-paper", 1, 1) + "idle_timeout_ms = 500";
    let arbiter = start(&text, &[server.address]).await;
    let (mut first, _) = open(&arbiter).await;
    let mut second = TcpStream::connect(arbiter.clients).await.unwrap();
    assert_eq!(named(&mut second).await, "one", "when the first is closed");
    assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(second.read(&mut [0; 1]).await.unwrap(), 0);
    let stats = arbiter.all_free().await;
    assert_eq!((stats.requests.answered, stats.servers[0].errors), (2, 0));
}

#[tokio::test]
async fn a_connection_on_which_one_side_speaks_stays() {
    const IDLE_MS: u64 = 4_000;
    let server = Echo::start("one").await;
    let text = settings("tcp", "round-robin", 1, 1) + &format!("idle_timeout_ms = {IDLE_MS}");
    let arbiter = start(&text, &[server.address]).await;
    let (mut stream, _) = open(&arbiter).await;
    let (start, mut pieces) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(IDLE_MS + 500) {
        stream.write_all(b"x").await.unwrap();
        pieces += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len(), pieces);
}

#[tokio::test]
async fn a_server_that_takes_no_connection_is_dead_until_it_does() {
    let (address, second) = (nobody(), Echo::start("two").await);
    let arbiter = front("round-robin", 1, &[address, second.address]).await;
    for _ in 0..3 {
        assert_eq!(open(&arbiter).await.1, "two");
    }
    let stats = arbiter.stats().await;
    assert!(!stats.servers[0].alive && stats.servers[1].alive);
    assert_eq!((stats.requests.answered, stats.requests.failed), (3, 0));
    let _one = Echo::start_at(address, "one").await;
    let alive = |stats: &wire::arbiter::Stats| stats.servers[0].alive;
    arbiter.until("the server to be found", alive).await;
    let names = [open(&arbiter).await.1, open(&arbiter).await.1];
    assert!(names.contains(&"one".to_owned()), "{names:?}");
}

#[tokio::test]
async fn a_connection_ends_with_its_server_and_is_not_tried_elsewhere() {
    let (first, second) = (Echo::start("one").await, Echo::start("two").await);
    let arbiter = front("round-robin", 1, &[first.address, second.address]).await;
    let (mut stream, name) = open(&arbiter).await;
    assert_eq!(name, "one");
    stream.write_all(b"half of a").await.unwrap();
    drop(first);
    let mut rest = Vec::new();
    // Closed or reset, as the server's end came.
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    assert_eq!(arbiter.server(1).await.requests, 0);
    assert_eq!(open(&arbiter).await.1, "two");
}

#[tokio::test]
async fn a_server_that_closes_before_its_first_byte_has_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let arbiter = front("round-robin", 1, &[listener.local_addr().unwrap()]).await;
    let mut stream = TcpStream::connect(arbiter.clients).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    server.read_exact(&mut [0; 5]).await.unwrap();
    drop(server);
    assert_eq!(stream.read(&mut [0; 9]).await.unwrap(), 0);
    drop(stream);
    let failed = |stats: &wire::arbiter::Stats| stats.requests.failed == 1;
    let stats = arbiter.until("the failure", failed).await;
    assert_eq!((stats.servers[0].errors, stats.servers[0].wins), (1, 0));
    assert!(stats.servers[0].alive, "it does take connections");
}

#[tokio::test]
async fn a_client_without_a_server_is_disconnected() {
    let arbiter = front("round-robin", 1, &[nobody()]).await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(arbiter.clients).await.unwrap();
        let read = stream.read(&mut [0; 1]).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    assert_eq!(arbiter.stats().await.requests.failed, 2);
}

#[tokio::test]
async fn a_reader_that_lags_holds_its_server_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let arbiter = front("round-robin", 1, &[listener.local_addr().unwrap()]).await;
    let mut client = TcpStream::connect(arbiter.clients).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let (progress, mut written) = mpsc::unbounded_channel();
    const CHUNKS: usize = 1024;
    let writing = tokio::spawn(async move {
        for _ in 0..CHUNKS {
            server.write_all(&[7; 65_536]).await.unwrap();
            progress.send(()).unwrap();
        }
    });
    let stalled = Duration::from_secs(1);
    let mut chunks = 0;
    while let Ok(Some(())) = tokio::time::timeout(stalled, written.recv()).await {
        chunks += 1;
    }
    assert!(chunks < CHUNKS, "all 64 MiB are somewhere");
    let mut received = 0;
    let mut buffer = vec![0; 65_536];
    while received < CHUNKS * 65_536 {
        received += client.read(&mut buffer).await.unwrap();
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_server_taken_out_gets_no_new_connection() {
    let servers = [Echo::start("one").await, Echo::start("two").await];
    let arbiter = front("round-robin", 1, &servers.each_ref().map(|it| it.address)).await;
    let (mut stream, name) = open(&arbiter).await;
    assert_eq!(name, "one");
    arbiter.set("/v1/servers/s0", "{\"up\":false}").await;
    for _ in 0..3 {
        assert_eq!(open(&arbiter).await.1, "two");
    }
    stream.write_all(b"on").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"on", "what it had goes on");
}

#[tokio::test]
async fn more_than_one_replica_is_refused() {
    let servers = [Echo::start("one").await, Echo::start("two").await];
    let arbiter = front("round-robin", 1, &servers.each_ref().map(|it| it.address)).await;
    let body = "{\"replicas\":2}";
    arbiter.refuses("/v1/replicas", body, "replicas").await;
    assert_eq!(arbiter.stats().await.replicas, 1);
}
