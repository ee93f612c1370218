//! The HTTP arbiter in trouble that clients make, smuggling above all, and with too few servers.
//! Trouble that servers make is in `http.rs`; both together, under load, in `soak.rs`.

use crate::rfc;
use crate::support::http::{front, settings};
use crate::support::start;
use crate::support::upstream::{nobody, ok, Behaviour, Upstream};
use crate::support::web::{get, once, Connection};

const GET: &str = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_once_and_never_reaches_a_server() {
    let server = Upstream::start(Behaviour::Reply(ok("seen"))).await;
    let arbiter = front("tad", 1, 4, &[&server]).await;
    let huge = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(129));
    let more = [(huge, 431), (many, 431), ("\u{16}\u{3}\u{1}\0".into(), 400)];
    for (head, status) in rfc::refused().chain(more) {
        let mut client = Connection::open(arbiter.clients).await;
        client.send((head.clone() + GET).as_bytes()).await;
        let reply = client.reply(false).await.unwrap();
        assert_eq!(reply.status, status, "{head:.80}");
        let is_closed = client.is_closed().await;
        assert!(is_closed, "{head:.80}: what follows is no request");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_body_with_broken_chunks_is_refused_and_never_reaches_a_server() {
    let server = Upstream::start(Behaviour::Reply(ok("seen"))).await;
    let arbiter = front("tad", 1, 4, &[&server]).await;
    let extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(300));
    let trailers = format!("0\r\n{}\r\n", "T: 1\r\n".repeat(2000));
    for body in [
        "+5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        extension.as_str(),
        trailers.as_str(),
        "0\r\nT: 1\n\r\n",
    ] {
        let mut client = Connection::open(arbiter.clients).await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}{body}{GET}").as_bytes()).await;
        let reply = client.reply(false).await.unwrap();
        assert_eq!(reply.status, 400, "{body:?}");
        assert!(client.is_closed().await, "{body:?}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn chunks_extensions_and_trailers_pass_both_ways() {
    let body = "5;a=b\r\nhello\r\n0\r\nT: 1\r\n\r\n";
    let reply = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    for replicas in [1, 2] {
        let servers = Upstream::pair(Behaviour::Reply(reply.clone().into())).await;
        let arbiter = front("tad", replicas, 4, &[&servers[0], &servers[1]]).await;
        let mut client = Connection::open(arbiter.clients).await;
        for method in ["GET", "POST"] {
            let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n");
            let sent = match method {
                "GET" => format!("{head}\r\n"),
                _ => format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}"),
            };
            client.send(sent.as_bytes()).await;
            let whole = client.raw(b"T: 1\r\n\r\n").await;
            assert!(whole.ends_with(&format!("\r\n\r\n{body}")), "{whole}");
        }
        let requests: Vec<String> = servers.iter().flat_map(Upstream::requests).collect();
        let posted = requests.iter().find(|request| request.starts_with("POST"));
        assert!(posted.unwrap().ends_with(body), "{requests:?}");
    }
}

#[tokio::test]
async fn a_client_that_sends_byte_by_byte_is_answered() {
    let [server, other] = Upstream::pair(Behaviour::Reply(ok("patience"))).await;
    for replicas in [1, 2] {
        let arbiter = front("tad", replicas, 4, &[&server, &other]).await;
        let mut client = Connection::open(arbiter.clients).await;
        client.0.stream.set_nodelay(true).unwrap();
        let post = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3\r\nabc\r\n0\r\n\r\n";
        for request in [GET, post, GET] {
            for byte in request.bytes() {
                client.send(&[byte]).await;
                tokio::task::yield_now().await;
            }
            assert_eq!(client.reply(false).await.unwrap().text(), "patience");
        }
    }
}

#[tokio::test]
async fn clients_that_hang_up_leave_nothing_behind() {
    let [server, other] = Upstream::pair(Behaviour::Reply(ok(&"x".repeat(3_000_000)))).await;
    for replicas in [1, 2] {
        let arbiter = front("tad", replicas, 4, &[&server, &other]).await;
        for request in [
            &GET[..10],
            GET,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        ] {
            let mut client = Connection::open(arbiter.clients).await;
            client.send(request.as_bytes()).await;
        }
        let stats = arbiter
            .until("all to be over", |stats| {
                let is_idle = stats.servers.iter().all(|server| server.in_flight == 0);
                stats.connections.client_accepted == 4
                    && stats.connections.client_open == 0
                    && stats.tokens.in_use == 0
                    && is_idle
            })
            .await;
        assert_eq!(stats.requests.answered, 0, "{stats:?}");
        assert_eq!(get(arbiter.clients, "/").await.body.len(), 3_000_000);
    }
}

#[tokio::test]
async fn r_above_the_servers_alive_is_served_by_those_there_are() {
    let server = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let dead = [nobody(), nobody()];
    let arbiter = start(&settings("tad", 3, 2), &[dead[0], server.address, dead[1]]).await;
    for _ in 0..5 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "one");
    }
    let alive = |stats: &wire::arbiter::Stats| {
        stats.servers.iter().filter(|server| server.alive).count() == 1
    };
    arbiter.until("two servers to be known dead", alive).await;
    drop(server);
    let request = GET.replace("Host", "Connection: close\r\nHost");
    let reply = once(arbiter.clients, request.as_bytes());
    assert!([502, 503].contains(&reply.await.status), "all servers are down");
}
