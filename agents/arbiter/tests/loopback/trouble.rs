//! The HTTP arbiter in trouble that clients make, smuggling above all, and with too few servers.
//! Trouble that servers make is in `http.rs`; both together, under load, in `soak.rs`.

use crate::support::http::{front, settings};
use crate::support::start;
use crate::support::upstream::{nobody, ok, Behaviour, Upstream};
use crate::support::web::{get, once, Connection};

const GET: &str = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";

/// Requests that two readers could take for different ones, each with another behind it, and what
/// they must be answered with.
fn ambiguous() -> Vec<(&'static str, Vec<u8>, u16)> {
    let post = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\n");
    let fields = [
        ("CL.TE", "Content-Length: 6\r\nTransfer-Encoding: chunked"),
        ("TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 4"),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6"),
        ("equal lengths", "Content-Length: 5\r\nContent-Length: 5"),
        ("a list of lengths", "Content-Length: 5, 5"),
        ("a signed length", "Content-Length: +5"),
        ("a negative length", "Content-Length: -5"),
        ("a hexadecimal length", "Content-Length: 0x5"),
        ("a length with a space", "Content-Length: 1 0"),
        ("an empty length", "Content-Length:"),
        ("a huge length", "Content-Length: 99999999999999999999"),
        (
            "TE.TE: two",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow",
        ),
        (
            "TE.TE: twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ),
        ("TE.TE: a list", "Transfer-Encoding: chunked, identity"),
        ("TE.TE: chunked last", "Transfer-Encoding: gzip, chunked"),
        ("TE.TE: x", "Transfer-Encoding: xchunked"),
        ("TE.TE: quoted", "Transfer-Encoding: \"chunked\""),
        ("TE.TE: a comma", "Transfer-Encoding: ,chunked"),
        ("TE.TE: a semicolon", "Transfer-Encoding: chunked;"),
        ("TE.TE: vertical tab", "Transfer-Encoding: \u{b}chunked"),
        ("TE.TE: a space before", "Transfer-Encoding : chunked"),
        ("TE.TE: a tab before", "Transfer-Encoding\t: chunked"),
        ("TE.TE: a folded value", "Transfer-Encoding:\r\n chunked"),
        (
            "TE.TE: hidden by a bare LF",
            "X: y\nTransfer-Encoding: chunked",
        ),
        (
            "TE.TE: hidden by a bare CR",
            "X: y\rTransfer-Encoding: chunked",
        ),
        ("an empty coding", "Transfer-Encoding:"),
        ("a length with a space before", "Content-Length : 5"),
        ("a length hidden by a bare LF", "X: y\nContent-Length: 5"),
        ("a length hidden by a bare CR", "X: y\rContent-Length: 5"),
        ("a folded field", "X: y\r\n z"),
        ("a field folded after a bare LF", "X: y\n z"),
        ("a field folded by a tab", "X: y\r\n\tz"),
        ("NUL in a value", "X: a\0b"),
        ("NUL in a name", "X\0: b"),
        ("no colon", "X"),
        ("no name", ": x"),
        ("two hosts", "Host: b"),
    ];
    let lines = [
        ("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        (
            "a space before the first field",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            400,
        ),
        ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400),
        ("CR CR LF", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400),
        (
            "NUL in the target",
            "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
            400,
        ),
        (
            "chunks in HTTP/1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("another version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("no version", "GET /\r\n\r\n", 400),
        ("CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("garbage", "\u{16}\u{3}\u{1}\u{2}\0\u{1}", 400),
    ];
    let huge = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000));
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "A: b\r\n".repeat(129)
    );
    let fields = fields.map(|(name, fields)| (name, post(fields).into_bytes(), 400));
    let lines = lines.map(|(name, text, status)| (name, text.as_bytes().to_vec(), status));
    let mut all: Vec<_> = fields.into_iter().chain(lines).collect();
    all.push(("a huge head", huge.into(), 431));
    all.push(("too many fields", many.into(), 431));
    all
}

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_once_and_never_reaches_a_server() {
    let server = Upstream::start(Behaviour::Reply(ok("seen"))).await;
    let arbiter = front("tad", 1, 4, &[&server]).await;
    for (name, mut bytes, status) in ambiguous() {
        bytes.extend_from_slice(GET.as_bytes());
        let mut client = Connection::open(arbiter.clients).await;
        client.send(&bytes).await;
        let reply = client.reply(false).await.unwrap();
        assert_eq!(reply.status, status, "{name}");
        assert!(
            client.is_closed().await,
            "{name}: what follows is no request"
        );
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
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        extension.as_str(),
        trailers.as_str(),
        "0\r\nT: 1\n\r\n",
        "0\r\nT: 1\r\n U: 2\r\n\r\n",
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
        let seen: Vec<String> = servers.iter().flat_map(Upstream::requests).collect();
        let posted = seen.iter().find(|request| request.starts_with("POST"));
        assert!(posted.unwrap().ends_with(body), "{seen:?}");
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
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let dead = [nobody(), nobody()];
    let arbiter = start(&settings("tad", 3, 2), &[dead[0], one.address, dead[1]]).await;
    for _ in 0..5 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "one");
    }
    let alive = |stats: &wire::arbiter::Stats| {
        stats.servers.iter().filter(|server| server.alive).count() == 1
    };
    arbiter.until("two servers to be known dead", alive).await;
    drop(one);
    let request = GET.replace("Host", "Connection: close\r\nHost");
    let reply = once(arbiter.clients, request.as_bytes());
    assert!(
        [502, 503].contains(&reply.await.status),
        "all servers are down"
    );
}
