//! Clients that send slowly, take slowly or go away: they hold nothing of the tier.

use std::time::Duration;

use crate::support::http::{front, settings, settings_within};
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::{get, Connection};
use crate::support::{start, Running};
use tokio::time::{sleep, Instant};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// More than the kernel keeps of one connection.
const LARGE: usize = 24 << 20;

async fn large_pair() -> [Upstream; 2] {
    Upstream::pair(Behaviour::Reply(ok(&"x".repeat(LARGE)))).await
}

/// One token per server, `replicas` servers.
async fn tad(replicas: usize, servers: &[Upstream; 2], more: &str) -> Running {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let settings = settings("tad", replicas, 1) + more;
    start(&settings, &addresses[..replicas]).await
}

#[tokio::test]
async fn a_slow_upload_holds_no_token() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    let arbiter = front("tad", 1, 1, &[&server]).await;
    let mut slow = vec![];
    for _ in 0..8 {
        let mut client = Connection::open(arbiter.clients).await;
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na";
        client.send(head).await;
        slow.push(client);
    }
    let received = |stats: &wire::arbiter::Stats| stats.requests.received == 8;
    let stats = arbiter.until("the uploads", received).await;
    assert_eq!((stats.tokens.in_use, stats.replicas_sent), (0, 0));
    assert_eq!(get(arbiter.clients, "/").await.text(), "here");
    for client in &mut slow {
        client.send(b"bc").await;
        assert_eq!(client.reply(false).await.unwrap().text(), "here");
    }
    let posted = server.requests().into_iter();
    let posted = posted.filter(|request| request.ends_with("\r\n\r\nabc"));
    assert_eq!(posted.count(), 8);
}

#[tokio::test]
async fn an_upload_that_takes_longer_than_a_request_may_is_answered() {
    let server = Upstream::start(Behaviour::Reply(ok("at last"))).await;
    const LIMIT_MS: u64 = 4_000;
    let settings = settings_within(LIMIT_MS, "tad", 1, 1);
    let arbiter = start(&settings, &[server.address]).await;
    let mut client = Connection::open(arbiter.clients).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head.as_bytes()).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(LIMIT_MS + 500) {
        client.send(b"1\r\nx\r\n").await;
        sleep(Duration::from_millis(50)).await;
    }
    client.send(b"0\r\n\r\n").await;
    assert_eq!(client.reply(false).await.unwrap().text(), "at last");
}

#[tokio::test]
async fn an_upload_that_stops_is_told_so() {
    let server = Upstream::start(Behaviour::Reply(ok("here"))).await;
    for body in [1, 1_500_000] {
        // The larger one is not held: a server has its beginning.
        let settings = settings_within(3_000, "tad", 1, 1) + "held_mib_max = 1\n";
        let arbiter = start(&settings, &[server.address]).await;
        let mut client = Connection::open(arbiter.clients).await;
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n";
        client.send(head).await;
        client.send(&vec![b'x'; body]).await;
        let reply = client.reply(false).await.unwrap();
        assert_eq!(reply.status, 408, "{body}");
        assert!(client.is_closed().await);
        let stats = arbiter.all_free().await;
        assert_eq!(stats.replicas_sent, u64::from(body > 1));
        assert_eq!(stats.servers[0].errors, 0, "it is not the server's fault");
        assert_eq!(get(arbiter.clients, "/").await.text(), "here");
    }
}

#[tokio::test]
async fn a_large_upload_is_passed_on_beyond_what_is_held() {
    let server = Upstream::start(Behaviour::Reply(ok("stored"))).await;
    let arbiter = start(&(settings("tad", 1, 1) + "held_mib_max = 1\n"), &[server.address]).await;
    let body = "y".repeat(5_000_000);
    let mut client = Connection::open(arbiter.clients).await;
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(head.as_bytes()).await;
    client.send(body.as_bytes()).await;
    assert_eq!(client.reply(false).await.unwrap().text(), "stored");
    assert!(server.requests()[0].ends_with(&format!("\r\n\r\n{body}")));
    assert_eq!(client.get("/").await.text(), "stored", "the connection goes on");
}

#[tokio::test]
async fn a_slow_download_holds_no_token() {
    let servers = large_pair().await;
    for replicas in [1, 2] {
        let arbiter = tad(replicas, &servers, "").await;
        let mut slow = Connection::open(arbiter.clients).await;
        slow.send(GET).await;
        let sent =
            |stats: &wire::arbiter::Stats| stats.replicas_sent > 0 && stats.tokens.in_use == 0;
        arbiter.until("the whole reply from the server", sent).await;
        let reply = get(arbiter.clients, "/").await;
        assert_eq!(reply.body.len(), LARGE, "r = {replicas}");
        let reply = slow.reply(false).await.unwrap();
        assert!(reply.complete && reply.body.len() == LARGE);
        assert_eq!(arbiter.all_free().await.requests.failed, 0);
    }
}

#[tokio::test]
async fn a_reply_beyond_what_is_held_frees_its_token_while_the_server_waits() {
    let servers = large_pair().await;
    for replicas in [1, 2] {
        let arbiter = tad(replicas, &servers, "held_mib_max = 1\n").await;
        let mut slow = Connection::open(arbiter.clients).await;
        slow.send(GET).await;
        let waits = |stats: &wire::arbiter::Stats| {
            let in_flight: u64 = stats.servers.iter().map(|server| server.in_flight).sum();
            in_flight > 0 && stats.tokens.in_use == 0
        };
        arbiter.until("a server that waits for its client", waits).await;
        let reply = slow.reply(false).await.unwrap();
        assert!(reply.complete && reply.body == vec![b'x'; LARGE], "r = {replicas}");
    }
}

#[tokio::test]
async fn a_request_whose_client_goes_away_is_ended() {
    let servers = Upstream::pair(Behaviour::Gated(ok("late"))).await;
    for replicas in [1, 2] {
        let arbiter = tad(replicas, &servers, "").await;
        for more in [&b""[..], b"GET /next HT"] {
            let before = arbiter.stats().await.replicas_sent;
            let mut client = Connection::open(arbiter.clients).await;
            client.send(&[GET, more].concat()).await;
            let sent =
                |stats: &wire::arbiter::Stats| stats.replicas_sent == before + replicas as u64;
            arbiter.until("the request at the servers", sent).await;
            drop(client);
            let stats = arbiter.all_free().await;
            assert!(stats.servers.iter().all(|server| server.in_flight == 0));
            assert_eq!(stats.servers[0].errors, 0, "it is not the server's fault");
        }
        let next = tokio::spawn(get(arbiter.clients, "/"));
        for server in &servers {
            server.gate.add_permits(9);
        }
        assert_eq!(next.await.unwrap().text(), "late");
        arbiter.all_free().await;
        for server in &servers {
            while server.gate.try_acquire().map(|permit| permit.forget()).is_ok() {}
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_waits_for_no_token() {
    let server = Upstream::start(Behaviour::Gated(ok("late"))).await;
    let arbiter = front("tad", 1, 1, &[&server]).await;
    let first = tokio::spawn(get(arbiter.clients, "/first"));
    let mut gone = Connection::open(arbiter.clients).await;
    arbiter.until("the first request", |stats| stats.tokens.in_use == 1).await;
    gone.send(GET).await;
    arbiter.until("the second request", |stats| stats.requests.received == 2).await;
    drop(gone);
    arbiter.until("the second one's end", |stats| stats.requests.failed == 1).await;
    server.gate.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "late");
    arbiter.all_free().await;
    assert_eq!(server.requests().len(), 1);
}
