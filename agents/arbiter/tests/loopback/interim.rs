//! Interim replies: 100-continue is the server's to say, 103 goes through.

use std::sync::{Arc, Mutex};

use crate::support::http::{front, settings};
use crate::support::start;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::Connection;
use testkit::stream::{Buffered, Served};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const PUT: &[u8] =
    b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";

/// A server that says this to a head, reads the body of four bytes where it is an interim reply, and
/// then says `stored`. It notes what it reads.
fn server(first: &'static str) -> (Served, Arc<Mutex<Vec<String>>>) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&notes);
    let server = Served::start(move |stream| talk(stream, first, Arc::clone(&writer)));
    (server, notes)
}

async fn talk(stream: TcpStream, first: &str, notes: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut client = Buffered::new(stream);
    loop {
        let head = client.head().await?;
        notes.lock().unwrap().push(head);
        client.stream.write_all(first.as_bytes()).await.unwrap();
        if first.is_empty() || first.starts_with("HTTP/1.1 1") {
            let body = String::from_utf8(client.take(4).await?).unwrap();
            notes.lock().unwrap().push(body);
            client.stream.write_all(&ok("stored")).await.unwrap();
        }
    }
}

async fn arbiter(server: &Served) -> crate::support::Running {
    start(&settings("tad", 1, 1), &[server.address]).await
}

#[tokio::test]
async fn the_server_says_go_on_and_its_token_is_free_until_the_body_is_here() {
    let (server, notes) = server("HTTP/1.1 100 Continue\r\n\r\n");
    let arbiter = arbiter(&server).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(PUT).await;
    assert_eq!(client.reply(false).await.unwrap().status, 100);
    let stats = arbiter.all_free().await;
    assert_eq!(stats.replicas_sent, 1);
    let mut other = Connection::open(arbiter.clients).await;
    other.send(PUT).await;
    assert_eq!(other.reply(false).await.unwrap().status, 100);
    for client in [&mut client, &mut other] {
        client.send(b"body").await;
        assert_eq!(client.reply(false).await.unwrap().text(), "stored");
    }
    let notes = notes.lock().unwrap();
    assert!(notes[0].contains("\r\nExpect: 100-continue\r\n"), "{notes:?}");
    assert_eq!(notes.iter().filter(|text| *text == "body").count(), 2);
}

#[tokio::test]
async fn a_refusal_comes_before_the_body_is_sent() {
    let (server, notes) = server("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
    let arbiter = arbiter(&server).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(PUT).await;
    assert_eq!(client.reply(false).await.unwrap().status, 413);
    assert!(client.is_closed().await, "what follows could be a body");
    assert_eq!(notes.lock().unwrap().len(), 1);
    arbiter.all_free().await;
}

#[tokio::test]
async fn a_server_that_does_not_know_the_question_gets_the_body() {
    let (server, _) = server("");
    let arbiter = arbiter(&server).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(PUT).await;
    assert_eq!(client.reply(false).await.unwrap().status, 100);
    client.send(b"body").await;
    assert_eq!(client.reply(false).await.unwrap().text(), "stored");
}

#[tokio::test]
async fn interim_replies_reach_the_client_but_not_an_old_one() {
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                    HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    let [one, two] = Upstream::pair(Behaviour::Reply(interim.to_vec())).await;
    for replicas in [1, 2] {
        let arbiter = front("round-robin", replicas, 4, &[&one, &two]).await;
        let mut client = Connection::open(arbiter.clients).await;
        for _ in 0..2 {
            let hints = client.get("/").await;
            assert_eq!((hints.status, hints.field("link").as_deref()), (103, Some("</a>")));
            assert_eq!(client.reply(false).await.unwrap().text(), "body");
        }
        let mut old = Connection::open(arbiter.clients).await;
        old.send(b"GET / HTTP/1.0\r\n\r\n").await;
        let reply = old.reply(false).await.unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, "body"));
    }
}

#[tokio::test]
async fn an_old_client_gets_what_is_in_the_chunks() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n\
                    4\r\nbody\r\n4;x=y\r\n and\r\n0\r\nT: 1\r\n\r\n";
    let [one, two] = Upstream::pair(Behaviour::Reply(chunked.to_vec())).await;
    for replicas in [1, 2] {
        let arbiter = front("round-robin", replicas, 4, &[&one, &two]).await;
        let mut old = Connection::open(arbiter.clients).await;
        old.send(b"GET / HTTP/1.0\r\n\r\n").await;
        let reply = old.reply(false).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.complete), ("body and", true));
        assert_eq!(reply.field("transfer-encoding"), None);
        assert_eq!(reply.field("trailer"), None);
        assert!(old.is_closed().await);
    }
}
