//! Replies of replicas held against each other, HTTP: what counts as the same, who is counted, and
//! what a client gets.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::http::{settings, settings_within};
use crate::support::liar::{Answer, ScriptedServer};
use crate::support::upstream::{failure, nobody, ok, Behaviour, Upstream};
use crate::support::web::{get, once, Connection};
use crate::support::{start, Running};
use testkit::random::Random;
use wire::arbiter::{Compared, Stats};

async fn front(mode: &str, replicas: usize, servers: &[SocketAddr]) -> Running {
    with(&format!("compare.mode = \"{mode}\""), replicas, servers).await
}

async fn with(compare: &str, replicas: usize, servers: &[SocketAddr]) -> Running {
    start(&(settings("round-robin", replicas, 64) + compare), servers).await
}

/// With a server that says nothing: a request has an end.
async fn within_limit(mode: &str, servers: &[SocketAddr]) -> Running {
    let settings = settings_within(5_000, "round-robin", servers.len(), 64);
    start(&(settings + &format!("compare.mode = \"{mode}\"")), servers).await
}

/// Equal, different, not compared.
fn verdicts(stats: &Stats) -> (u64, u64, u64) {
    let it = &stats.compare;
    assert_eq!(it.compared, it.equal + it.different);
    (it.equal, it.different, it.not_compared)
}

async fn until(arbiter: &Running, expected: (u64, u64, u64)) -> Stats {
    let what = format!("verdicts {expected:?}");
    let are_they = |stats: &Stats| verdicts(stats) == expected;
    arbiter.until(&what, are_they).await
}

/// Servers that answer so, and their addresses.
async fn scripted_servers<const N: usize>(
    answers: [Vec<u8>; N],
) -> (Vec<ScriptedServer>, [SocketAddr; N]) {
    let mut servers = vec![];
    for answer in answers {
        servers.push(ScriptedServer::saying(answer).await);
    }
    let addresses = std::array::from_fn(|place| servers[place].address);
    (servers, addresses)
}

/// The counts of a GET that two servers answer so.
async fn counted(one: &[u8], other: &[u8]) -> Stats {
    let (_servers, addresses) = scripted_servers([one.to_vec(), other.to_vec()]).await;
    let arbiter = front("count", 2, &addresses).await;
    get(arbiter.clients, "/").await;
    let all = |stats: &Stats| {
        let (equal, different, not_compared) = verdicts(stats);
        equal + different + not_compared == 1
    };
    arbiter.until("a verdict", all).await
}

#[tokio::test]
async fn what_may_differ_does_not_count_and_all_else_does() {
    let head = "HTTP/1.1 200 OK\r\n";
    #[rustfmt::skip] // a table
    let same = [
        // Framing.
        ("Content-Length: 4\r\n\r\nbody",
         "Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n3;x=y\r\nody\r\n0\r\n\r\n"),
        ("Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        // Who and when; order and case of names.
        ("Date: now\r\nServer: a\r\nX-A: 1\r\nx-b: 2\r\nContent-Length: 1\r\n\r\nx",
         "X-B: 2\r\nDate: then\r\nServer: b\r\nAge: 3\r\nx-a:  1 \r\nContent-Length: 1\r\n\r\nx"),
        ("ETag: \"1\"\r\nContent-Length: 0\r\n\r\n", "Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"),
    ];
    for (one, other) in same {
        let [one, other] = [one, other].map(|rest| head.to_owned() + rest);
        let stats = counted(one.as_bytes(), other.as_bytes()).await;
        assert_eq!(verdicts(&stats), (1, 0, 0), "{one} {other}");
    }
    #[rustfmt::skip] // a table
    let unlike = [
        ("Content-Length: 4\r\n\r\nbody", "Content-Length: 4\r\n\r\nbodi"),
        ("Content-Length: 4\r\n\r\nbody", "Content-Length: 3\r\n\r\nbod"),
        ("Content-Length: 0\r\n\r\n", "X-Price: 1\r\nContent-Length: 0\r\n\r\n"),
        ("X-A: 1\r\nX-A: 2\r\nContent-Length: 0\r\n\r\n",
         "X-A: 2\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n"),
        ("Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "Content-Length: 1\r\n\r\nx"),
    ];
    for (one, other) in unlike {
        let [one, other] = [one, other].map(|rest| head.to_owned() + rest);
        let stats = counted(one.as_bytes(), other.as_bytes()).await;
        assert_eq!(verdicts(&stats), (0, 1, 0), "{one} {other}");
        // Two do not tell who is wrong.
        let first = &stats.servers[0].compare;
        assert_eq!((first.disputed, first.minority), (1, 0));
    }
    let other = b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx";
    let stats = counted(&ok("x"), other).await;
    assert_eq!(verdicts(&stats), (0, 1, 0), "the status");
}

#[tokio::test]
async fn what_is_no_complete_good_reply_is_not_compared() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody";
    let truncated =
        ScriptedServer::start(|_| Answer { closes: true, ..Answer::whole(cut.to_vec()) }).await;
    let good = ScriptedServer::saying(ok("body")).await;
    let failing = ScriptedServer::saying(failure()).await;
    for bad in [truncated.address, failing.address, nobody()] {
        let arbiter = front("count", 2, &[good.address, bad]).await;
        assert_eq!(get(arbiter.clients, "/").await.text(), "body");
        until(&arbiter, (0, 0, 1)).await;
    }
}

#[tokio::test]
async fn counting_does_not_keep_the_client_waiting_and_reads_the_loser_to_its_end() {
    let slow = Upstream::start(Behaviour::Gated(ok("lie!"))).await;
    let fast = Upstream::start(Behaviour::Reply(ok("true"))).await;
    let arbiter = front("count", 2, &[slow.address, fast.address]).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "true");
    assert_eq!(verdicts(&arbiter.stats().await), (0, 0, 0), "not known yet");
    slow.gate.add_permits(1);
    until(&arbiter, (0, 1, 0)).await;
    let stats = arbiter.all_free().await;
    assert_eq!((stats.replicas_sent, stats.replicas_wasted), (2, 1));
}

#[tokio::test]
async fn a_loser_that_says_nothing_any_more_ends_with_its_time() {
    let silent = Upstream::start(Behaviour::Silent).await;
    let fast = Upstream::start(Behaviour::Reply(ok("true"))).await;
    let arbiter = within_limit("count", &[silent.address, fast.address]).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "true");
    until(&arbiter, (0, 0, 1)).await;
    arbiter.all_free().await;
}

#[tokio::test]
async fn of_three_the_one_in_the_minority_is_known() {
    let truth = ok("true");
    let (_servers, addresses) = scripted_servers([truth.clone(), ok("lie!"), truth]).await;
    let arbiter = front("count", 3, &addresses).await;
    for _ in 0..10 {
        get(arbiter.clients, "/").await;
    }
    let stats = until(&arbiter, (0, 10, 0)).await;
    let minority: Vec<_> = stats.servers.iter().map(|it| it.compare.minority).collect();
    assert_eq!(minority, [0, 10, 0]);
    assert!(stats.servers.iter().all(|it| it.compare.compared == 10));
    let page = get(arbiter.admin, "/metrics").await.text();
    for line in [
        "arbiter_compared_total{tier=\"test\",verdict=\"different\"} 10",
        "arbiter_server_minority_total{tier=\"test\",server=\"s1\"} 10",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}: {page}");
    }
}

#[tokio::test]
async fn head_and_304_are_compared_without_a_body_and_with_their_length() {
    let reply = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    for (lengths, expected) in [([5, 5], (1, 0, 0)), ([5, 6], (0, 1, 0))] {
        let (_servers, addresses) =
            scripted_servers(lengths.map(|it| reply(it).into_bytes())).await;
        let arbiter = front("count", 2, &addresses).await;
        let head = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert_eq!(once(arbiter.clients, head).await.status, 200);
        until(&arbiter, expected).await;
    }
    let cached = b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n";
    assert_eq!(verdicts(&counted(cached, cached).await), (1, 0, 0));
    assert_eq!(verdicts(&counted(cached, &ok("fresh")).await), (0, 1, 0));
}

#[tokio::test]
async fn what_is_larger_than_the_bound_is_not_compared_and_counted() {
    let (_servers, addresses) = scripted_servers(["x", "y"].map(|it| ok(&it.repeat(101)))).await;
    let bound = "compare.bytes_max = 100\ncompare.mode = ";
    let arbiter = with(&format!("{bound}\"count\""), 2, &addresses).await;
    assert_eq!(get(arbiter.clients, "/").await.body.len(), 101);
    let stats = until(&arbiter, (0, 0, 1)).await;
    assert_eq!(stats.compare.too_large, 2);
    let arbiter = with(&format!("{bound}\"refuse\""), 2, &addresses).await;
    let refused = get(arbiter.clients, "/").await;
    assert_eq!(refused.status, 502);
    let stats = until(&arbiter, (0, 0, 1)).await;
    assert_eq!((stats.compare.too_large, stats.compare.refused), (2, 1));
}

#[tokio::test]
async fn a_huge_reply_is_streamed_when_counting_and_held_up_to_the_bound_when_refusing() {
    let huge = ok(&"x".repeat(3 << 20));
    let (_servers, addresses) = scripted_servers([huge.clone(), huge]).await;
    let arbiter = front("count", 2, &addresses).await;
    assert_eq!(get(arbiter.clients, "/").await.body.len(), 3 << 20);
    until(&arbiter, (0, 0, 1)).await;
    let larger = "compare.mode = \"refuse\"\ncompare.bytes_max = 4000000";
    let arbiter = with(larger, 2, &addresses).await;
    assert_eq!(get(arbiter.clients, "/").await.body.len(), 3 << 20);
    until(&arbiter, (1, 0, 0)).await;
    arbiter.all_free().await;
}

#[tokio::test]
async fn two_that_differ_are_refused_and_a_third_decides() {
    let (_servers, addresses) = scripted_servers(["true", "lie!", "true"].map(ok)).await;
    let arbiter = front("refuse", 2, &addresses[..2]).await;
    let refused = get(arbiter.clients, "/").await;
    assert_eq!(refused.status, 502);
    assert!(refused.text().contains("differ"), "{}", refused.text());
    let stats = until(&arbiter, (0, 1, 0)).await;
    assert_eq!((stats.compare.refused, stats.requests.failed), (1, 1));
    let arbiter = front("refuse", 2, &addresses).await;
    for _ in 0..6 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "true");
    }
    let stats = arbiter.until("all votes", |stats| stats.compare.compared == 6).await;
    assert_eq!(stats.servers[1].compare.minority, stats.compare.different);
    assert!(stats.compare.different >= 3 && stats.compare.refused == 0);
    let wins: u64 = stats.servers.iter().map(|it| it.wins).sum();
    assert_eq!((wins, stats.servers[1].wins), (6, 0));
}

#[tokio::test]
async fn one_reply_alone_is_refused_and_one_that_comes_too_late_is_too() {
    let good = ScriptedServer::saying(ok("true")).await;
    let arbiter = front("refuse", 2, &[good.address, nobody()]).await;
    let refused = get(arbiter.clients, "/").await;
    assert_eq!(refused.status, 502);
    assert!(refused.text().contains("fewer"), "{}", refused.text());
    let silent = Upstream::start(Behaviour::Silent).await;
    let arbiter = within_limit("refuse", &[good.address, silent.address]).await;
    let refused = get(arbiter.clients, "/").await;
    assert_eq!(refused.status, 504);
    assert_eq!(arbiter.stats().await.compare.refused, 1);
}

#[tokio::test]
async fn an_error_of_all_servers_is_passed_on() {
    let (_servers, addresses) = scripted_servers([failure(), failure()]).await;
    let arbiter = front("refuse", 2, &addresses).await;
    assert_eq!(get(arbiter.clients, "/").await.status, 500);
    until(&arbiter, (0, 0, 1)).await;
}

/// A way to be wrong; the request is for the truth.
fn lie(random: &mut Random, truth: &str) -> Answer {
    let mut bytes = ok(truth);
    let body = bytes.len() - truth.len();
    let mut answer = Answer::whole(vec![]);
    match random.below(9) {
        0 => bytes[body + random.below(truth.len() as u64) as usize] ^= 1 << random.below(7),
        1 => bytes = ok("lie"),
        2 => bytes = ok(""),
        3 => {
            bytes.truncate(body + 1);
            answer.closes = true;
        }
        4 => bytes = failure(),
        5 => bytes = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nlie".to_vec(),
        6 => bytes = ok(&"x".repeat(2 << 20)),
        7 => bytes = b"not HTTP at all\r\n\r\n".to_vec(),
        _ => {
            bytes = ok("late lie");
            answer.after = Duration::from_millis(random.below(20));
        }
    }
    answer.bytes = bytes;
    answer
}

fn truth_of(head: &str) -> String {
    let path = head.split(' ').nth(1).unwrap();
    format!("the truth of {path}")
}

#[tokio::test]
async fn with_one_liar_of_three_no_wrong_reply_is_ever_delivered() {
    // Set it to have the same lies again.
    let set = std::env::var("COMPARE_SEED").map(|seed| seed.parse().unwrap());
    let seed: u64 = set.unwrap_or_else(|_| arbiter::tier::random());
    let random = std::sync::Mutex::new(Random::new(seed));
    let liar =
        ScriptedServer::start(move |head| lie(&mut random.lock().unwrap(), &truth_of(head))).await;
    let honest = |delays: u64| {
        ScriptedServer::start(move |head| Answer {
            after: Duration::from_millis(delays),
            ..Answer::whole(ok(&truth_of(head)))
        })
    };
    let servers = [liar, honest(0).await, honest(3).await];
    let addresses: Vec<_> = servers.iter().map(|it| it.address).collect();
    // Its broken replies would have it ejected.
    let stays = "compare.mode = \"refuse\"\nguardrails.ejection = false";
    let arbiter = with(stays, 3, &addresses).await;
    let clients = (0..8).map(|client| {
        let address = arbiter.clients;
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await;
            for number in 0..50 {
                let path = format!("/{client}/{number}");
                let reply = connection.get(&path).await;
                let expected = (200, format!("the truth of {path}"));
                assert_eq!((reply.status, reply.text()), expected, "seed {seed}");
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let stats = arbiter.until("all votes", |stats| stats.compare.compared == 400).await;
    let wrong = (stats.compare.refused, stats.servers[0].wins);
    assert_eq!(wrong, (0, 0), "seed {seed}");
    let minority: Vec<_> = stats.servers.iter().map(|it| it.compare.minority).collect();
    assert!(minority[0] > 30 && minority[1..] == [0, 0], "seed {seed}: {minority:?}");
}

#[tokio::test]
async fn it_is_changed_live_and_refused_where_there_is_nothing_to_compare() {
    let (_servers, addresses) = scripted_servers(["a", "b"].map(ok)).await;
    let arbiter = front("off", 2, &addresses).await;
    get(arbiter.clients, "/").await;
    arbiter.all_free().await;
    assert_eq!(arbiter.stats().await.compare, Compared::default(), "off");
    let refuse = "{\"mode\": \"refuse\"}";
    arbiter.set("/v1/compare", refuse).await;
    assert_eq!(get(arbiter.clients, "/").await.status, 502);
    let single = r#"{"replicas": 1}"#;
    arbiter.refuses("/v1/replicas", single, "/v1/compare").await;
    arbiter.set("/v1/compare", r#"{"mode": "off"}"#).await;
    arbiter.set("/v1/replicas", single).await;
    #[rustfmt::skip] // a table
    let wrong = [
        (refuse, "compare.mode"),
        (r#"{"mode": "off", "bytes_max": 0}"#, "compare.bytes_max"),
        (r#"{"mode": "off", "ignored_fields": ["A b"]}"#, "compare.ignored_fields[0]"),
        (r#"{"mode": "sometimes"}"#, "sometimes"),
    ];
    for (body, key) in wrong {
        arbiter.refuses("/v1/compare", body, key).await;
    }
    let config = get(arbiter.admin, "/v1/config").await.text();
    assert!(config.contains("\"compare\":{\"mode\":\"off\""), "{config}");
}

#[tokio::test]
async fn a_field_that_is_named_may_differ() {
    let reply = |node: &str| {
        format!("HTTP/1.1 200 OK\r\nX-Node: {node}\r\nContent-Length: 1\r\n\r\nx").into_bytes()
    };
    let (_servers, addresses) = scripted_servers(["1", "2"].map(reply)).await;
    let named = "compare = { mode = \"refuse\", ignored_fields = [\"x-node\"] }";
    let arbiter = with(named, 2, &addresses).await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "x");
    until(&arbiter, (1, 0, 0)).await;
}
