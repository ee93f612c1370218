//! A server that is out for its failures is tried again at nobody's expense: of two servers one is
//! bad, and from its ejection on no client gets an error or waits for it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use testkit::wait::{LIMIT, POLL};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, Instant};
use wire::arbiter::Stats;

use crate::support::keyvalue::{string, Client, Fault, FaultyServer, Server};
use crate::support::mariadb::{self, connect, number, servers, MariaDb};
use crate::support::upstream::{failure, ok, Behaviour, Upstream};
use crate::support::web::{get, once, Reply};
use crate::support::{settings, start, Running};
use policy::Policy;

/// One failure takes a server out; it is soon due again.
const STRICT: &str = "guardrails.consecutive_failures = 1\nguardrails.ejected_ms_first = 50\n";
/// A good server answers within it on any host.
const TIMEOUT: &str = "request_timeout_ms = 6000\n";
const PROBES: u64 = 2;
/// Time within which requests, one after the other, lead to a state; all policies at once.
const ASKED_FOR_MAX: Duration = LIMIT.saturating_mul(3);
/// A server that hangs holds what it was sent for seconds, and with it descriptors of this process:
/// while it has so many of a case, nobody asks.
const UNDER_WAY_MAX: u64 = 4;

/// Asks until the statistics are as wanted.
async fn ask_until<F: Future<Output = ()>>(
    arbiter: &Running,
    what: &str,
    wanted: impl Fn(&Stats) -> bool,
    ask: impl Fn() -> F,
) {
    let deadline = Instant::now() + ASKED_FOR_MAX;
    loop {
        let stats = arbiter.stats().await;
        if wanted(&stats) {
            return;
        }
        assert!(Instant::now() < deadline, "expected {what} within {ASKED_FOR_MAX:?}: {stats:#?}");
        let under_way: u64 = stats.servers.iter().map(|server| server.in_flight).sum();
        if under_way < UNDER_WAY_MAX {
            ask().await;
        } else {
            sleep(POLL).await;
        }
    }
}

/// Each policy, at one replica and at two.
async fn in_each_case<F>(case: impl Fn(&'static str, usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut cases = JoinSet::new();
    for policy in Policy::all().map(Policy::name) {
        for replicas in [1, 2] {
            cases.spawn(case(policy, replicas));
        }
    }
    while let Some(done) = cases.join_next().await {
        done.unwrap();
    }
}

fn is_out(server: usize) -> impl Fn(&Stats) -> bool {
    move |stats| stats.servers[server].ejected
}

fn is_probed(stats: &Stats) -> bool {
    stats.guarded.probes >= PROBES
}

async fn post(arbiter: &Running) -> Reply {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    once(arbiter.clients, post.as_bytes()).await
}

async fn bad_web_server(policy: &'static str, replicas: usize, behaviour: Behaviour) {
    let bad = Upstream::start(behaviour.clone()).await;
    let well = Upstream::start(Behaviour::Reply(ok("well"))).await;
    let text = settings("http", policy, replicas, 4) + STRICT + TIMEOUT;
    let arbiter = start(&text, &[bad.address, well.address]).await;
    ask_until(&arbiter, "an ejection", is_out(0), || async {
        get(arbiter.clients, "/").await;
    })
    .await;
    ask_until(&arbiter, "probes", is_probed, || async {
        for reply in [get(arbiter.clients, "/").await, post(&arbiter).await] {
            let got = (reply.status, reply.text());
            assert_eq!(got, (200, "well".to_owned()), "{policy}, {replicas}");
        }
    })
    .await;
    let posted = |request: &String| request.starts_with("POST");
    assert!(!bad.requests().iter().any(posted), "{policy}, {replicas}");
    if !matches!(behaviour, Behaviour::Gated(_)) {
        return;
    }
    bad.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    let is_back = |stats: &Stats| !stats.servers[0].ejected;
    ask_until(&arbiter, "its return", is_back, || async {
        assert_eq!(get(arbiter.clients, "/").await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn no_http_client_gets_an_error_of_a_server_that_hangs_and_is_found_again() {
    in_each_case(|policy, replicas| bad_web_server(policy, replicas, Behaviour::Gated(ok("well"))))
        .await;
}

#[tokio::test]
async fn no_http_client_gets_an_error_of_a_server_that_fails() {
    in_each_case(|policy, replicas| bad_web_server(policy, replicas, Behaviour::Reply(failure())))
        .await;
}

/// True if a read is answered with the value that both servers of a key-value tier have.
async fn is_answered(arbiter: &Running, protocol: &str) -> bool {
    let mut client = Client::open(arbiter.clients).await;
    if protocol == "redis" {
        return client.redis("GET k").await == string("v");
    }
    client.send(b"get k\r\n").await;
    client.line().await == "VALUE k 0 1"
}

/// From the ejection of the second server on, which stays bad, every read is answered.
async fn bad_kv_server(arbiter: &Running, protocol: &str, case: &str) {
    ask_until(arbiter, "an ejection", is_out(1), || async {
        is_answered(arbiter, protocol).await;
    })
    .await;
    ask_until(arbiter, "probes", is_probed, || async {
        assert!(is_answered(arbiter, protocol).await, "{case}");
    })
    .await;
}

/// An arbiter in front of a server that is well and another.
async fn kv(protocol: &str, policy: &str, replicas: usize, servers: [SocketAddr; 2]) -> Running {
    let text = settings(protocol, policy, replicas, 64) + STRICT + TIMEOUT;
    start(&text, &servers).await
}

#[tokio::test]
async fn no_redis_client_gets_an_error_of_a_replica_that_lost_its_primary_and_is_found_again() {
    let primary = Server::redis().await;
    let replica = Server::replica_of(&primary).await;
    let servers = [primary.address, replica.address];
    assert_eq!(primary.direct().await.redis("SET k v").await, "+OK\r\n");
    let mut direct = replica.direct().await;
    direct.redis("CONFIG SET replica-serve-stale-data no").await;
    direct.redis("REPLICAOF 127.0.0.1 1").await;
    assert!(direct.redis("GET k").await.starts_with("-MASTERDOWN"));
    let arbiters = Arc::new(Mutex::new(vec![]));
    in_each_case(|policy, replicas| {
        let arbiters = Arc::clone(&arbiters);
        async move {
            let arbiter = kv("redis", policy, replicas, servers).await;
            bad_kv_server(&arbiter, "redis", &format!("{policy}, {replicas}")).await;
            arbiters.lock().unwrap().push(arbiter);
        }
    })
    .await;
    let of = format!("REPLICAOF 127.0.0.1 {}", primary.address.port());
    assert_eq!(direct.redis(&of).await, "+OK\r\n");
    let arbiters = std::mem::take(&mut *arbiters.lock().unwrap());
    for arbiter in arbiters {
        let is_back = |stats: &Stats| !stats.servers[1].ejected;
        ask_until(&arbiter, "its return", is_back, || async {
            assert!(is_answered(&arbiter, "redis").await);
        })
        .await;
    }
}

#[tokio::test]
async fn no_memcached_client_gets_an_error_of_a_server_that_fails() {
    let well = Server::memcached().await;
    let bad = FaultyServer::start(Fault::Sends(b"SERVER_ERROR out of memory\r\n")).await;
    let servers = [well.address, bad.address];
    let stored = well.direct().await.ask("set k 0 0 1\r\nv").await;
    assert_eq!(stored, "STORED");
    in_each_case(|policy, replicas| async move {
        let arbiter = kv("memcached", policy, replicas, servers).await;
        bad_kv_server(&arbiter, "memcached", &format!("{policy}, {replicas}")).await;
    })
    .await;
}

#[tokio::test]
async fn a_mariadb_that_was_too_slow_is_found_again_by_the_reads_of_sessions() {
    let servers: [MariaDb; 2] = servers().await;
    for replicas in [1, 2] {
        servers[0].run("UPDATE wiki.delay SET seconds = 30").await;
        let more = STRICT.to_owned() + TIMEOUT;
        let arbiter = mariadb::start_with("round-robin", replicas, 4, &more, &servers).await;
        let sql = "SELECT @@port FROM delay WHERE SLEEP(seconds) = 0";
        let read = || async {
            let mut conn = connect(&arbiter).await;
            let read: Result<Option<u64>, _> = conn.query_first(sql).await;
            read.ok().flatten()
        };
        ask_until(&arbiter, "an ejection", is_out(0), || async {
            read().await;
        })
        .await;
        let well = u64::from(servers[1].address.port());
        if replicas > 1 {
            ask_until(&arbiter, "probes", is_probed, || async {
                assert_eq!(read().await, Some(well));
            })
            .await;
        }
        servers[0].run("UPDATE wiki.delay SET seconds = 0").await;
        let is_back = |stats: &Stats| !stats.servers[0].ejected;
        ask_until(&arbiter, "its return", is_back, || async {
            read().await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_session_that_writes_first_does_not_do_so_at_a_server_that_is_probed() {
    let servers: [MariaDb; 2] = servers().await;
    servers[0].run("UPDATE wiki.delay SET seconds = 30").await;
    let more = STRICT.to_owned() + TIMEOUT;
    let arbiter = mariadb::start_with("round-robin", 2, 4, &more, &servers).await;
    ask_until(&arbiter, "an ejection", is_out(0), || async {
        let mut conn = connect(&arbiter).await;
        let sql = "SELECT @@port FROM delay WHERE SLEEP(seconds) = 0";
        number(&mut conn, sql).await;
    })
    .await;
    ask_until(&arbiter, "probes", is_probed, || async {
        let mut conn = connect(&arbiter).await;
        let write = "SELECT 'Written' FROM page FOR UPDATE";
        conn.query_drop(write).await.unwrap();
    })
    .await;
    let written = servers[0].statements("'Written'").await;
    assert_eq!(written, Vec::<String>::new());
}
