//! Limits of this machine and bursts: neither is taken for the death of a server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::http::settings;
use crate::support::program::{config, Program};
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, Connection};
use crate::support::{eventually, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use wire::arbiter::Stats;

/// Those of an arbiter that comes to its limit.
const DESCRIPTORS: usize = 120;

async fn stats(program: &Program) -> Stats {
    let reply = get(program.admin, "/v1/stats").await;
    serde_json::from_slice(&reply.body).unwrap()
}

#[tokio::test]
async fn clients_leave_descriptors_for_the_servers() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let file = config("127.0.0.1:0", &server.address.to_string());
    let program = Program::start_within(&file, "100");
    let mut clients = vec![];
    for _ in 0..150 {
        clients.push(Connection::open(program.clients).await);
    }
    // The first ones are in, the last ones wait in the kernel's queue.
    for client in &mut clients[..8] {
        assert_eq!(client.get("/").await.text(), "here");
    }
    let stats = stats(&program).await;
    assert!(stats.servers[0].alive && stats.connections.client_open < 100, "{stats:?}");
    assert_eq!((stats.requests.failed, stats.servers[0].errors), (0, 0));
    // Those before them gone, the last ones get their turn.
    let mut last = clients.pop().unwrap();
    drop(clients);
    assert_eq!(last.get("/").await.text(), "here");
}

#[tokio::test]
async fn without_a_descriptor_a_server_is_asked_later_and_not_dead() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let file = config("127.0.0.1:0", &server.address.to_string());
    let text = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), text.replace("tokens = 1\n", "tokens = 500\n")).unwrap();
    let program = Program::start_within(&file, &DESCRIPTORS.to_string());
    let mut clients = vec![];
    for _ in 0..20 {
        clients.push(Connection::open(program.clients).await);
    }
    eventually("all clients", || async {
        let stats = stats(&program).await;
        (stats.connections.client_open == 20).then_some(())
    })
    .await;
    let admins = hold_all(&program).await;
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    }
    let reply = clients[0].reply(false);
    let early = tokio::time::timeout(Duration::from_millis(300), reply).await;
    assert!(early.is_err(), "there was no descriptor left: {early:?}");
    drop(admins);
    for client in &mut clients {
        assert_eq!(client.reply(false).await.unwrap().text(), "here");
    }
    let stats = stats(&program).await;
    assert_eq!((stats.requests.failed, stats.servers[0].errors), (0, 0), "{stats:?}");
    assert!(stats.servers[0].alive);
}

/// Connections to the admin API that leave the arbiter no descriptor to accept one with.
async fn hold_all(program: &Program) -> Vec<Connection> {
    let mut held = vec![];
    for _ in 0..DESCRIPTORS {
        held.push(Connection::open(program.admin).await);
    }
    let folder = format!("/proc/{}/fd", program.child.id());
    eventually("an arbiter without a descriptor", || async {
        let names = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name());
        let numbers = names.map(|name| name.to_str().unwrap().parse::<usize>().unwrap());
        // It may have inherited some beyond its limit.
        (numbers.filter(|number| *number < DESCRIPTORS).count() == DESCRIPTORS).then_some(())
    })
    .await;
    held
}

/// A server with a short queue, which takes a connection every few milliseconds.
fn short_queue() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(4).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    stream.write_all(&ok("page")).await.unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_burst_that_overflows_a_server_s_queue_is_answered() {
    // Less than the second after which the kernel tries again.
    let settings = settings("round-robin", 1, 4) + "connect_timeout_ms = 900\n";
    let arbiter = start(&settings, &[short_queue()]).await;
    let mut clients = vec![];
    for _ in 0..100 {
        clients.push(Connection::open(arbiter.clients).await);
    }
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    }
    for client in &mut clients {
        assert_eq!(client.reply(false).await.unwrap().text(), "page");
    }
    let stats = arbiter.stats().await;
    assert_eq!((stats.requests.failed, stats.servers[0].errors), (0, 0));
    eventually("the server in use", || async { arbiter.server(0).await.alive.then_some(()) }).await;
}
