//! Clients that would keep from others what all need: tokens, and memory.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::http::{settings, settings_within};
use crate::support::keyvalue::{Fault, FaultyServer};
use crate::support::program::{config, Program};
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, Connection, Reply};
use crate::support::{eventually, start, Running};
use testkit::stream::Buffered;
use testkit::wait::LIMIT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::arbiter::Stats;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A client that sends from an address of its own.
async fn from_address(last: u8, arbiter: SocketAddr) -> Connection {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    Connection(Buffered::new(socket.connect(arbiter).await.unwrap()))
}

/// Sends a body of 40 MB, so many bytes of it at once and then as many as `piece` ten times a second;
/// what it is told.
async fn dribble(mut client: Connection, at_once: usize, piece: usize) -> Reply {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40000000\r\n\r\n";
    client.send(head.as_bytes()).await;
    client.send(&vec![b'x'; at_once]).await;
    let piece = vec![b'x'; piece];
    loop {
        let reply = timeout(Duration::from_millis(100), client.reply(false)).await;
        if let Ok(reply) = reply {
            return reply.unwrap();
        }
        // What it is told may come in between, with the end of the connection.
        let _ = client.0.stream.write_all(&piece).await;
    }
}

/// The first that ends of these.
async fn first_of<T: 'static>(mut tasks: JoinSet<T>) -> (T, JoinSet<T>) {
    let first = timeout(LIMIT, tasks.join_next()).await;
    (first.expect("an end in time").unwrap().unwrap(), tasks)
}

async fn held_bytes(arbiter: &Running) -> usize {
    let metrics = get(arbiter.admin, "/metrics").await.text();
    let line = metrics.lines().find(|line| line.starts_with("arbiter_held_bytes"));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits until clients hold half of the 4 MiB that they may hold, or less.
async fn half_is_free(arbiter: &Running) {
    eventually("half of the memory", || async {
        (held_bytes(arbiter).await <= 2 << 20).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_upload_that_is_passed_on_holds_its_token_for_a_bounded_time() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    // One comes fast enough and would not end, the other comes too slowly.
    for (piece, bound) in [(64 << 10, "streaming_ms_max = 4000\n"), (1 << 10, "")] {
        let settings = settings("tad", 1, 1) + "held_mib_max = 1\n" + bound;
        let arbiter = start(&settings, &[server.address]).await;
        let client = Connection::open(arbiter.clients).await;
        let slow = tokio::spawn(dribble(client, 1 << 20, piece));
        let held = |stats: &Stats| stats.tokens.in_use == 1;
        arbiter.until("the token in use", held).await;
        assert_eq!(get(arbiter.clients, "/").await.text(), "here");
        assert_eq!(slow.await.unwrap().status, 408);
        let server = &arbiter.all_free().await.servers[0];
        assert!(server.alive && server.errors == 0, "it is not the server's fault");
    }
}

#[tokio::test]
async fn uploads_that_are_passed_on_leave_half_of_the_tokens_to_others() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let settings = settings_within(5_000, "tad", 1, 8) + "held_mib_max = 1\n";
    let arbiter = start(&settings, &[server.address]).await;
    let mut slow = JoinSet::new();
    for _ in 0..8 {
        let client = Connection::open(arbiter.clients).await;
        // Ten times the rate that is asked for.
        slow.spawn(dribble(client, 1 << 20, 64 << 10));
    }
    let half = |stats: &Stats| stats.requests.received == 8 && stats.tokens.in_use == 4;
    arbiter.until("half of the tokens in use", half).await;
    for _ in 0..5 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "here");
    }
    assert_eq!(arbiter.stats().await.tokens.in_use, 4, "they go on");
    // The others are told so when their time is up.
    let (told, slow) = first_of(slow).await;
    assert_eq!((told.status, slow.len()), (503, 7));
}

#[tokio::test]
async fn slow_uploads_leave_memory_to_others() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let settings = settings_within(5_000, "tad", 1, 1) + "held_mib_max = 4\n";
    let arbiter = start(&settings, &[server.address]).await;
    let mut slow = JoinSet::new();
    for last in 2..5 {
        let client = from_address(last, arbiter.clients).await;
        slow.spawn(dribble(client, 900_000, 1));
    }
    let (told, slow) = first_of(slow).await;
    assert_eq!(told.status, 408);
    half_is_free(&arbiter).await;
    // While there is room the others may be as slow as they are.
    assert_eq!(slow.len(), 2);
    let stats = arbiter.all_free().await;
    assert_eq!((stats.requests.failed, stats.replicas_sent), (1, 0));
}

#[tokio::test]
async fn the_clients_of_one_address_hold_a_quarter_of_the_memory() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let settings = settings("tad", 1, 16) + "held_mib_max = 4\n";
    let arbiter = start(&settings, &[server.address]).await;
    let mut same = JoinSet::new();
    for _ in 0..8 {
        let client = Connection::open(arbiter.clients).await;
        same.spawn(dribble(client, 900_000, 64 << 10));
    }
    // Those that find no room are passed on.
    let passed_on = |stats: &Stats| stats.tokens.in_use >= 7;
    arbiter.until("uploads that are passed on", passed_on).await;
    let held = held_bytes(&arbiter).await;
    assert!(held <= 1 << 20, "{held}");
    let mut other = from_address(2, arbiter.clients).await;
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900001\r\n\r\n";
    other.send(head).await;
    other.send(&vec![b'x'; 900_000]).await;
    eventually("what another one sends", || async {
        (held_bytes(&arbiter).await >= 900_000).then_some(())
    })
    .await;
}

#[tokio::test]
async fn slow_readers_leave_memory_to_others() {
    // More than the kernel keeps of one connection.
    let reply = ok(&"x".repeat(24 << 20));
    let server = Upstream::start(Behaviour::Reply(reply)).await;
    // Ten times what they take.
    let more = "held_mib_max = 4\nclient_kib_per_s_min = 10240\n";
    let arbiter = start(&(settings_within(5_000, "tad", 1, 1) + more), &[server.address]).await;
    let mut slow = JoinSet::new();
    for last in 2..5 {
        let mut client = from_address(last, arbiter.clients).await;
        slow.spawn(async move {
            client.send(GET).await;
            let mut bytes = vec![0; 100_000];
            while let Ok(1..) = client.0.stream.read(&mut bytes).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    let ((), slow) = first_of(slow).await;
    assert_eq!(slow.len(), 2, "the others have room");
    assert_eq!(arbiter.stats().await.requests.failed, 1);
    half_is_free(&arbiter).await;
}

#[tokio::test]
async fn clients_that_read_nothing_take_a_bounded_memory() {
    let server = Upstream::start(Behaviour::Reply(ok(&"x".repeat(40_000_000)))).await;
    let file = config("127.0.0.1:0", &server.address.to_string());
    let text = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), text.replace("\"tad\"", "\"round-robin\"")).unwrap();
    let program = Program::start(&file);
    let mut clients = vec![];
    for _ in 0..10 {
        let mut client = Connection::open(program.clients).await;
        client.send(GET).await;
        clients.push(client);
    }
    // A quarter of held_mib_max, a little for each, and the program.
    let rss_kib = program.rss_kib_settled().await;
    assert!(rss_kib < 100 * 1024, "{rss_kib} KiB");
    assert_eq!(clients.len(), 10, "all are there");
}

#[tokio::test]
async fn slow_commands_leave_memory_to_others() {
    let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$40000000\r\n";
    tokio::join!(
        slow_command("redis", "", set),
        slow_command("redis", "MULTI\r\n", set),
        slow_command("memcached", "", "set k 0 0 40000000\r\n"),
    );
}

async fn slow_command(protocol: &str, before: &'static str, command: &'static str) {
    let server = FaultyServer::start(Fault::Sends(b"+OK\r\n")).await;
    let settings = crate::support::settings(protocol, "round-robin", 1, 1);
    let arbiter = start(&(settings + "held_mib_max = 4\n"), &[server.address]).await;
    let mut slow = JoinSet::new();
    for last in 2..5 {
        let mut client = from_address(last, arbiter.clients).await;
        slow.spawn(async move {
            client.send(before.as_bytes()).await;
            client.send(command.as_bytes()).await;
            client.send(&vec![b'x'; 900_000]).await;
            // Until it is told, or cut.
            while client.0.stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    let ((), slow) = first_of(slow).await;
    assert_eq!(slow.len(), 2, "{protocol}: the others have room");
    half_is_free(&arbiter).await;
}
