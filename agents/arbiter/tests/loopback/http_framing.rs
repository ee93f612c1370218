//! The framing of HTTP messages, and refusals: real servers and clients on loopback.

use crate::support::http::{front, settings};
use crate::support::start;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, Connection};

#[tokio::test]
async fn an_ambiguous_or_garbage_reply_becomes_a_502() {
    let both =
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for reply in [&both[..], b"hello, I am not HTTP\r\n\r\n", b"HTTP/1.1 200 OK\nA: b\n\n", b""] {
        let [server, other] = Upstream::pair(Behaviour::ReplyAndClose(reply.to_vec())).await;
        for replicas in [1, 2] {
            let arbiter = front("round-robin", replicas, 1, &[&server, &other]).await;
            assert_eq!(get(arbiter.clients, "/").await.status, 502, "{reply:?} at r = {replicas}");
        }
    }
}

#[tokio::test]
async fn replies_of_every_framing_pass() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    let to_the_end = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody";
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
    for (reply, body) in [(&chunked[..], "body"), (to_the_end, "body"), (empty, "")] {
        for replicas in [1, 2] {
            let [one, two] = Upstream::pair(Behaviour::ReplyAndClose(reply.to_vec())).await;
            let arbiter = front("round-robin", replicas, 1, &[&one, &two]).await;
            let reply = get(arbiter.clients, "/").await;
            assert_eq!((reply.text().as_str(), reply.complete), (body, true));
        }
    }
}

#[tokio::test]
async fn head_is_cloned_and_has_no_body() {
    let [one, two] = Upstream::pair(Behaviour::Reply(ok("twelve bytes"))).await;
    let arbiter = front("round-robin", 2, 1, &[&one, &two]).await;
    let mut client = Connection::open(arbiter.clients).await;
    for _ in 0..3 {
        client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let reply = client.reply(true).await.unwrap();
        assert_eq!(reply.field("content-length").as_deref(), Some("12"));
        assert_eq!(client.get("/").await.text(), "twelve bytes");
    }
    assert_eq!(arbiter.stats().await.requests.cloned, 6);
}

#[tokio::test]
async fn a_reply_larger_than_the_buffer_is_streamed_whole() {
    let body: String = (0..400_000).map(|number| format!("{number:08}")).collect();
    let [one, two] = Upstream::pair(Behaviour::Reply(ok(&body))).await;
    for replicas in [1, 2] {
        let arbiter = front("round-robin", replicas, 1, &[&one, &two]).await;
        let mut client = Connection::open(arbiter.clients).await;
        for _ in 0..3 {
            assert!(client.get("/").await.text() == body, "r = {replicas}");
        }
        arbiter.all_free().await;
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Upstream::start(Behaviour::Reply(ok("x"))).await;
    let arbiter = front("round-robin", 1, 1, &[&server]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client
        .send(
            b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: a\r\n\r\n\
              \r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        )
        .await;
    for _ in 0..3 {
        assert_eq!(client.reply(false).await.unwrap().text(), "x");
    }
    let paths: Vec<String> =
        server.requests().iter().map(|request| request[..8].trim().to_owned()).collect();
    assert_eq!(paths, ["POST /1", "GET /2 H", "GET /3 H"]);
}

#[tokio::test]
async fn an_early_reply_to_a_large_body_reaches_the_client() {
    let refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig".to_vec();
    let server = Upstream::start(Behaviour::Early(refusal)).await;
    // Larger than what is held before a server is asked.
    let settings = settings("round-robin", 1, 1) + "held_mib_max = 1\n";
    let arbiter = start(&settings, &[server.address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n").await;
    client.send(&vec![b'x'; 2_000_000]).await;
    let reply = client.reply(false).await.unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (413, "big"));
    assert!(client.is_closed().await, "the rest of the body is not a request");
}

#[tokio::test]
async fn an_old_client_gets_its_reply_and_the_end_of_the_connection() {
    let server = Upstream::start(Behaviour::Reply(ok("old"))).await;
    let arbiter = front("round-robin", 1, 1, &[&server]).await;
    let mut client = Connection::open(arbiter.clients).await;
    client.send(b"GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.reply(false).await.unwrap().text(), "old");
    assert!(client.is_closed().await);
}
