//! WebSocket: requests to change the protocol, and what passes after a server has switched.

use std::net::SocketAddr;

use crate::support::http::settings;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, once, Connection};
use crate::support::{start, Running};
use testkit::stream::{field, Buffered};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const ASKS: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                    Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHES: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                        Connection: Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A server that gives its connections, with the head of their first request, to the test.
async fn server() -> (SocketAddr, mpsc::UnboundedReceiver<(String, Buffered)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (met, meets) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let met = met.clone();
            tokio::spawn(async move {
                let mut stream = Buffered::new(stream);
                if let Some(head) = stream.head().await {
                    // The test may be over.
                    let _ = met.send((head, stream));
                }
            });
        }
    });
    (address, meets)
}

async fn front(servers: &[SocketAddr]) -> Running {
    let replicas = servers.len();
    start(&settings("round-robin", replicas, 1), servers).await
}

#[tokio::test]
async fn after_a_switch_bytes_pass_both_ways_and_the_token_is_free() {
    let (address, mut meets) = server().await;
    let arbiter = front(&[address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    // The client does not wait for the switch; nor does the server wait for anything.
    client
        .send(&[ASKS.as_bytes(), &[0x81, 0, 255]].concat())
        .await;
    let (head, mut server) = meets.recv().await.unwrap();
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("via", "1.1 sparecraft"),
    ] {
        assert_eq!(field(&head, name), Some(value), "{head}");
    }
    server
        .stream
        .write_all(&[SWITCHES.as_bytes(), &[0x82, 0]].concat())
        .await
        .unwrap();
    let reply = client.0.head().await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 101 "), "{reply}");
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("x-sparecraft-server", "s0"),
    ] {
        assert_eq!(field(&reply, name), Some(value), "{reply}");
    }
    assert_eq!(client.0.take(2).await.unwrap(), [0x82, 0]);
    assert_eq!(server.take(3).await.unwrap(), [0x81, 0, 255]);
    let stats = arbiter.all_free().await;
    assert_eq!((stats.requests.answered, stats.servers[0].wins), (1, 1));
    assert_eq!(stats.servers[0].in_flight, 0);
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let (sent, expected) = (large.clone(), large.len());
    let sending = tokio::spawn(async move {
        server.stream.write_all(&sent).await.unwrap();
        server
    });
    assert!(client.0.take(expected).await.unwrap() == large);
    let mut server = sending.await.unwrap();
    client.send(b"last").await;
    client.0.stream.shutdown().await.unwrap();
    assert_eq!(server.rest().await, b"last");
    server.stream.write_all(b"goodbye").await.unwrap();
    drop(server);
    assert_eq!(client.0.rest().await, b"goodbye");
}

#[tokio::test]
async fn a_connection_without_a_byte_is_closed_on_both_sides() {
    let (address, mut meets) = server().await;
    let text = settings("round-robin", 1, 1) + "idle_timeout_ms = 300\n";
    let arbiter = start(&text, &[address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(ASKS.as_bytes()).await;
    let (_, mut server) = meets.recv().await.unwrap();
    server.stream.write_all(SWITCHES.as_bytes()).await.unwrap();
    assert!(client.0.head().await.unwrap().starts_with("HTTP/1.1 101 "));
    assert!(client.is_closed().await);
    assert_eq!(server.rest().await, b"");
    let gone = |stats: &wire::arbiter::Stats| stats.connections.client_open == 0;
    arbiter.until("the client's end", gone).await;
}

#[tokio::test]
async fn it_is_asked_of_one_server_whatever_the_replicas() {
    let ((one, mut of_one), (two, mut of_two)) = (server().await, server().await);
    let arbiter = front(&[one, two]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(ASKS.as_bytes()).await;
    let (_, mut server) = of_one.recv().await.unwrap();
    server.stream.write_all(SWITCHES.as_bytes()).await.unwrap();
    assert!(client.0.head().await.unwrap().starts_with("HTTP/1.1 101 "));
    assert!(of_two.try_recv().is_err());
    assert_eq!(arbiter.stats().await.replicas_sent, 1);
    drop(server);
    assert!(client.is_closed().await, "it ends with its server");
}

#[tokio::test]
async fn a_server_that_does_not_switch_answers_as_ever() {
    let one = Upstream::start(Behaviour::Reply(ok("no"))).await;
    let arbiter = front(&[one.address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(ASKS.as_bytes()).await;
    assert_eq!(client.reply(false).await.unwrap().text(), "no");
    assert_eq!(client.get("/").await.text(), "no", "the connection goes on");
}

#[tokio::test]
async fn what_asks_for_no_websocket_is_asked_for_none() {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let arbiter = front(&[one.address]).await;
    for (request, what) in [
        (ASKS.replace("WebSocket", "h2c"), "another protocol"),
        (ASKS.replace(", Upgrade", ""), "not for this connection"),
        (ASKS.replace("HTTP/1.1", "HTTP/1.0"), "HTTP/1.0"),
        (ASKS.replace("GET", "HEAD"), "no GET"),
    ] {
        assert_eq!(
            once(arbiter.clients, request.as_bytes()).await.status,
            200,
            "{what}"
        );
        let told = one.requests().pop().unwrap();
        assert_eq!(field(&told, "upgrade"), None, "{what}");
        assert_eq!(field(&told, "connection"), None, "{what}");
    }
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_a_broken_reply() {
    let without = SWITCHES.replace("Upgrade: websocket\r\n", "");
    for (request, reply) in [(ASKS, &without[..]), ("", SWITCHES)] {
        let one = Upstream::start(Behaviour::Reply(reply.into())).await;
        let arbiter = front(&[one.address]).await;
        let status = match request {
            "" => get(arbiter.clients, "/").await.status,
            asks => once(arbiter.clients, asks.as_bytes()).await.status,
        };
        assert_eq!(status, 502);
    }
}
