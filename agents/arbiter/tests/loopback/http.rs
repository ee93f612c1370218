//! The HTTP arbiter in front of real servers on loopback: who is asked, who wins, who is skipped.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::http::{front, settings, settings_within};
use crate::support::upstream::{failure, nobody, ok, Behaviour, Upstream};
use crate::support::web::{get, once, Connection};
use crate::support::{errors, eventually, start};
use testkit::wait::LIMIT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

#[tokio::test]
async fn the_first_good_reply_wins_and_the_loser_is_drained_before_its_token_returns() {
    let slow = Upstream::start(Behaviour::Gated(ok("slow"))).await;
    let fast = Upstream::start(Behaviour::Reply(ok("fast"))).await;
    let arbiter = front("tad", 2, 1, &[&slow, &fast]).await;
    let reply = get(arbiter.clients, "/page").await;
    assert_eq!((reply.text(), reply.server()), ("fast".into(), "s1".into()));
    let stats = arbiter.until("the winner's token", |stats| stats.tokens.in_use == 1).await;
    let slow_one = &stats.servers[0];
    assert_eq!((slow_one.tokens_free, slow_one.in_flight), (0, 1));
    assert_eq!((stats.requests.cloned, stats.replicas_wasted), (1, 0));
    slow.gate.add_permits(2);
    let stats = arbiter.all_free().await;
    assert_eq!((stats.replicas_sent, stats.replicas_wasted), (2, 1));
    assert!(stats.wasted_us > 0);
    assert_eq!((stats.servers[0].wins, stats.servers[1].wins), (0, 1));
    get(arbiter.clients, "/page").await;
    let reused = |stats: &wire::arbiter::Stats| stats.servers[0].connections_reused == 1;
    arbiter.until("the drained connection to be used again", reused).await;
}

#[tokio::test]
async fn a_replica_is_not_sent_for_a_request_already_answered() {
    let slow = Upstream::start(Behaviour::Gated(ok("slow"))).await;
    let fast = Upstream::start(Behaviour::Reply(ok("fast"))).await;
    let arbiter = front("tad", 2, 1, &[&slow, &fast]).await;
    get(arbiter.clients, "/1").await;
    arbiter.until("the winner's token", |stats| stats.tokens.in_use == 1).await;
    assert_eq!(get(arbiter.clients, "/2").await.text(), "fast");
    let stats = arbiter.stats().await;
    assert_eq!((stats.replicas_sent, stats.replicas_not_needed), (3, 1));
    slow.gate.add_permits(9);
    arbiter.all_free().await;
    assert_eq!(slow.requests().len(), 1, "/2 never went to the slow server");
}

#[tokio::test]
async fn what_is_not_a_read_is_sent_once() {
    let servers = Upstream::pair(Behaviour::Reply(ok("done"))).await;
    let arbiter = front("round-robin", 2, 1, &[&servers[0], &servers[1]]).await;
    let head = "Host: a\r\nConnection: close\r\n";
    for request in [
        format!("POST /1 HTTP/1.1\r\n{head}Content-Length: 5\r\n\r\nhello"),
        format!(
            "PUT /2 HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        ),
        format!("DELETE /3 HTTP/1.1\r\n{head}\r\n"),
        format!("GET /4 HTTP/1.1\r\n{head}Content-Length: 5\r\n\r\nhello"),
    ] {
        let reply = once(arbiter.clients, request.as_bytes()).await;
        assert_eq!(reply.text(), "done");
    }
    let mut requests = servers[0].requests();
    requests.extend(servers[1].requests());
    for (path, body) in
        [(" /1 ", "hello"), (" /2 ", "5\r\nhello\r\n0\r\n\r\n"), (" /3 ", ""), (" /4 ", "hello")]
    {
        let mut mine = requests.iter().filter(|request| request.contains(path));
        let text = mine.next().unwrap();
        assert!(mine.next().is_none(), "{path} was sent once");
        assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{path}: {text}");
    }
    assert_eq!(arbiter.stats().await.requests.cloned, 0);
}

#[tokio::test]
async fn a_dead_server_is_skipped_and_probed_back_in() {
    let good = Upstream::start(Behaviour::Reply(ok("good"))).await;
    let dead = nobody();
    for policy in ["round-robin", "tad"] {
        let arbiter = start(&settings(policy, 1, 2), &[good.address, dead]).await;
        for _ in 0..6 {
            assert_eq!(get(arbiter.clients, "/").await.text(), "good", "{policy}");
        }
        let skipped = arbiter.server(1).await;
        assert_eq!((skipped.alive, skipped.errors), (false, 1), "{policy}");
        let back = Upstream::start_at(dead, Behaviour::Reply(ok("back")));
        arbiter.until_alive(1).await;
        eventually("a reply from the server that is back", || async {
            (get(arbiter.clients, "/").await.text() == "back").then_some(())
        })
        .await;
        drop(back);
    }
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let server = Upstream::start(Behaviour::Reply(ok("same"))).await;
    let arbiter = front("round-robin", 1, 1, &[&server]).await;
    let mut client = Connection::open(arbiter.clients).await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "same");
    }
    let stats = arbiter.stats().await;
    assert_eq!(stats.connections.client_accepted, 1);
    let server = &stats.servers[0];
    let used = (server.connections_opened, server.connections_reused);
    assert_eq!(used, (1, 9));
    assert_eq!((stats.requests.received, stats.requests.answered), (10, 10));
}

#[tokio::test]
async fn a_server_that_closes_after_each_reply_costs_connections_and_no_request() {
    let server = Upstream::start(Behaviour::ReplyAndClose(ok("bye"))).await;
    for replicas in [1, 2] {
        let other = Upstream::start(Behaviour::ReplyAndClose(ok("bye"))).await;
        let arbiter = front("round-robin", replicas, 1, &[&server, &other]).await;
        for _ in 0..20 {
            assert_eq!(get(arbiter.clients, "/").await.text(), "bye");
        }
        assert_eq!(arbiter.stats().await.requests.failed, 0);
    }
}

#[tokio::test]
async fn a_server_that_dies_in_mid_reply_does_not_win() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this".to_vec();
    let dying = Upstream::start(Behaviour::ReplyAndClose(cut.clone())).await;
    let good = Upstream::start(Behaviour::Gated(ok("whole"))).await;
    let arbiter = front("round-robin", 2, 1, &[&dying, &good]).await;
    let client = tokio::spawn(get(arbiter.clients, "/"));
    arbiter.until("the failure", |stats| stats.servers[0].errors == 1).await;
    good.gate.add_permits(1);
    assert_eq!(client.await.unwrap().text(), "whole");

    let alone = front("round-robin", 1, 1, &[&dying]).await;
    let reply = get(alone.clients, "/").await;
    assert!(!reply.complete, "the client sees that it is cut");
    assert_eq!(alone.stats().await.requests.failed, 1);
}

#[tokio::test]
async fn an_error_does_not_win_while_another_replica_may() {
    let failing = Upstream::start(Behaviour::Reply(failure())).await;
    let slow = Upstream::start(Behaviour::Gated(ok("well"))).await;
    let arbiter = front("round-robin", 2, 1, &[&failing, &slow]).await;
    let client = tokio::spawn(get(arbiter.clients, "/"));
    arbiter.until("the error", |stats| stats.servers[0].errors == 1).await;
    slow.gate.add_permits(1);
    assert_eq!(client.await.unwrap().text(), "well");

    let other = Upstream::start(Behaviour::Reply(failure())).await;
    let arbiter = front("round-robin", 2, 1, &[&failing, &other]).await;
    let reply = get(arbiter.clients, "/").await;
    let best = (500, "failed".to_owned());
    assert_eq!((reply.status, reply.text()), best, "of the errors");
}

#[tokio::test]
async fn tad_sends_nothing_to_a_server_that_fails_fast() {
    let failing = Upstream::start(Behaviour::Reply(failure())).await;
    let well = Upstream::start(Behaviour::Reply(ok("well"))).await;
    let arbiter = front("tad", 1, 4, &[&failing, &well]).await;
    let first = get(arbiter.clients, "/").await;
    assert_eq!(first.status, 500, "unseen, so it is tried");
    for _ in 0..10 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "well");
    }
    assert_eq!(failing.requests().len(), 1);
}

/// Of eleven requests, the number that one of two servers gets which takes this time for the first,
/// and the longest time of the others.
async fn asked_of_slow(policy: &str, slow_for: Duration) -> (usize, Duration) {
    let slow = Upstream::start(Behaviour::Gated(ok("slow"))).await;
    let fast = Upstream::start(Behaviour::Reply(ok("fast"))).await;
    let arbiter = front(policy, 1, 4, &[&slow, &fast]).await;
    let first = tokio::spawn(get(arbiter.clients, "/"));
    eventually("the slow server's first request", || async {
        (slow.requests().len() == 1).then_some(())
    })
    .await;
    // This is how slow it is; nothing waits for it.
    tokio::time::sleep(slow_for).await;
    slow.gate.add_permits(100);
    assert_eq!(first.await.unwrap().text(), "slow");
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let start = Instant::now();
        get(arbiter.clients, "/").await;
        longest = longest.max(start.elapsed());
    }
    (slow.requests().len(), longest)
}

#[tokio::test]
async fn tad_avoids_the_slow_server_and_round_robin_does_not() {
    for (policy, to_slow) in [("tad", 1), ("round-robin", 6)] {
        let mut slow_for = Duration::from_millis(200);
        loop {
            let (asked, longest) = asked_of_slow(policy, slow_for).await;
            if longest < slow_for {
                assert_eq!(asked, to_slow, "{policy}");
                break;
            }
            // The host made the fast server slower still: there was nothing to avoid.
            slow_for *= 2;
            assert!(slow_for < LIMIT, "{policy}: {longest:?} for a reply that is there");
        }
    }
}

/// A server of one worker, which stays with a connection until that is closed, and has a short queue.
fn one_worker() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = [0; 1024];
        while let Ok((mut stream, _)) = listener.accept().await {
            while stream.read(&mut bytes).await.is_ok_and(|length| length > 0) {
                stream.write_all(&ok("page")).await.unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn connections_that_are_kept_do_not_keep_a_full_server_from_coming_back() {
    let server = one_worker();
    let settings = settings("round-robin", 1, 4) + "\nconnect_timeout_ms = 300";
    let arbiter = start(&settings, &[server]).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "page");
    // The worker is with the arbiter's idle connection; others fill the queue.
    let mut others = vec![];
    while let Ok(Ok(other)) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(server)).await
    {
        others.push(other);
        assert!(others.len() < 10, "the queue is short");
    }
    // A request that is no read goes by no connection that has been idle for two looks at them, a second apart.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let write = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let refused = once(arbiter.clients, write.as_bytes()).await;
    assert_eq!(refused.status, 502, "it needs a connection of its own");
    assert!(!arbiter.server(0).await.alive);
    drop(others);
    arbiter.until_alive(0).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "page");
}

#[tokio::test]
async fn without_a_server_the_client_is_told_at_once() {
    let arbiter = start(&settings("tad", 1, 1), &[nobody(), nobody()]).await;
    let first = get(arbiter.clients, "/").await;
    assert_eq!(first.status, 502, "both were tried");
    let second = get(arbiter.clients, "/").await;
    assert_eq!(second.status, 503, "both are known to be dead");
    assert_eq!(arbiter.stats().await.requests.failed, 2);
}

#[tokio::test]
async fn a_silent_server_is_a_504_and_an_observed_error() {
    let silent = Upstream::start(Behaviour::Silent).await;
    for replicas in [1, 2] {
        let other = Upstream::start(Behaviour::Silent).await;
        let settings = settings_within(1_000, "tad", replicas, 1);
        let arbiter = start(&settings, &[silent.address, other.address]).await;
        assert_eq!(get(arbiter.clients, "/").await.status, 504);
        assert_eq!(errors(&arbiter.all_free().await), replicas as u64);
    }
}

#[tokio::test]
async fn a_request_without_a_token_waits_for_one() {
    let server = Upstream::start(Behaviour::Gated(ok("turn"))).await;
    let arbiter = front("tad", 1, 1, &[&server]).await;
    let first = tokio::spawn(get(arbiter.clients, "/1"));
    arbiter.until("the token to be taken", |stats| stats.tokens.in_use == 1).await;
    let second = tokio::spawn(get(arbiter.clients, "/2"));
    arbiter.until("the second request", |stats| stats.requests.received == 2).await;
    assert_eq!(server.requests().len(), 1, "one request at a time");
    server.gate.add_permits(2);
    assert_eq!(first.await.unwrap().text(), "turn");
    assert_eq!(second.await.unwrap().text(), "turn");
    let stats = arbiter.stats().await;
    assert_eq!(stats.token_waits, 1);
    assert!(stats.token_wait_us_total > 0);
}

#[tokio::test]
async fn replicas_and_policy_change_live() {
    let [one, two] = Upstream::pair(Behaviour::Reply(ok("x"))).await;
    let arbiter = front("round-robin", 1, 1, &[&one, &two]).await;
    get(arbiter.clients, "/").await;
    assert_eq!(arbiter.stats().await.replicas_sent, 1);
    arbiter.set("/v1/replicas", r#"{"replicas": 2}"#).await;
    get(arbiter.clients, "/").await;
    arbiter.until("two more replicas", |stats| stats.replicas_sent == 3).await;
    let change = r#"{"policy": "tad", "tokens": 7}"#;
    let text = arbiter.set("/v1/policy", change).await;
    let now = r#""policy":"tad","replicas":2,"tokens":7"#;
    assert!(text.contains(now), "{text}");
    let stats = arbiter.all_free().await;
    assert_eq!((stats.tokens.total, stats.servers[0].tokens_free), (14, 7));
    get(arbiter.clients, "/").await;
    arbiter.until("two more replicas", |stats| stats.replicas_sent == 5).await;
    for (path, body, text) in [
        ("/v1/replicas", r#"{"replicas": 0}"#, "expected 1 to 2"),
        ("/v1/replicas", r#"{"replicas": 3}"#, "expected 1 to 2"),
        ("/v1/replicas", r#"{"replicas": 1, "now": true}"#, "now"),
        ("/v1/policy", r#"{"policy": "fastest"}"#, "fastest"),
        ("/v1/policy", r#"{"policy": "tad", "tokens": 0}"#, "1 to"),
        ("/v1/policy", r#"{"policy": "tad", "look_ahead": 1001}"#, "0 to 1000"),
    ] {
        arbiter.refuses(path, body, text).await;
    }
    let config = get(arbiter.admin, "/v1/config").await.text();
    let unchanged = config.contains(r#""replicas":2,"tokens":7"#);
    assert!(unchanged, "{config}");
    for (change, now) in [
        (r#"{"policy": "tad-paper", "look_ahead": 0}"#, "0"),
        (r#"{"policy": "tad-paper"}"#, "1000"),
    ] {
        let text = arbiter.set("/v1/policy", change).await;
        let now = format!(r#""tokens":7,"look_ahead":{now}"#);
        assert!(text.contains(&now), "{text}");
    }
}

#[tokio::test]
async fn threads_share_the_port_and_the_tier_but_no_connection() {
    let server = Upstream::start(Behaviour::Reply(ok("x"))).await;
    let text = format!("{}\nthreads = 3", settings("tad", 1, 1));
    let arbiter = start(&text, &[server.address]).await;
    for _ in 0..64 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "x");
    }
    let stats = arbiter.until("all replies", |stats| stats.requests.answered == 64).await;
    // The kernel spreads 64 connections over three listeners.
    assert_eq!(stats.servers[0].connections_opened, 3);
    assert_eq!(stats.servers[0].connections_reused, 61);
}
