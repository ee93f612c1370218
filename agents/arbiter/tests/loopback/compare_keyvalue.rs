//! Replies of replicas held against each other, Redis and memcached: real servers, one of them behind
//! a proxy that alters what it says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Mutex;

use crate::support::keyvalue::{addresses, string, Client, Fault, FaultyServer, Server};
use crate::support::liar::Altering;
use crate::support::{eventually, settings, start, Running};
use testkit::random::Random;
use wire::arbiter::Stats;

async fn front(protocol: &str, mode: &str, replicas: usize, servers: &[SocketAddr]) -> Running {
    let more = format!("compare.mode = \"{mode}\"\n");
    let settings = settings(protocol, "round-robin", replicas, 64) + &more;
    start(&settings, servers).await
}

async fn ended(arbiter: &Running, reads: u64) -> Stats {
    let all = |stats: &Stats| stats.compare.compared + stats.compare.not_compared >= reads;
    arbiter.until("all verdicts", all).await
}

/// A primary that has `k`, and two replicas; the last is reached through a proxy.
async fn redis(alters: impl Fn() -> bool + Send + Sync + 'static) -> (Vec<Server>, Altering) {
    let mut servers = vec![Server::redis().await];
    for _ in 0..2 {
        let replica = Server::replica_of(&servers[0]).await;
        servers.push(replica);
    }
    servers[0].direct().await.redis("SET k value").await;
    for server in &servers {
        eventually("the value", || async {
            let got = server.direct().await.redis("GET k").await;
            (got == string("value")).then_some(())
        })
        .await;
    }
    let altering = Altering::start(servers[2].address, ("value", "valve"), alters).await;
    (servers, altering)
}

async fn memcached(count: usize) -> Vec<Server> {
    let mut servers = vec![];
    for _ in 0..count {
        let server = Server::memcached().await;
        let stored = server.direct().await.ask("set k 0 0 5\r\nvalue").await;
        assert_eq!(stored, "STORED");
        servers.push(server);
    }
    servers
}

#[tokio::test]
async fn every_altered_value_of_redis_is_seen_when_counting() {
    // The chance of one in five, drawn beforehand.
    let random = Mutex::new(Random::new(7));
    let (servers, altering) = redis(move || random.lock().unwrap().below(5) == 0).await;
    let pair = [servers[0].address, altering.address];
    let arbiter = front("redis", "count", 2, &pair).await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..300 {
        client.redis("GET k").await;
    }
    let stats = ended(&arbiter, 300).await;
    let altered = altering.altered.load(SeqCst);
    assert!(altered > 30, "{altered}");
    let counts = (stats.compare.different, stats.compare.equal);
    assert_eq!(counts, (altered, 300 - altered));
    assert_eq!(stats.servers[1].compare.disputed, altered);
}

#[tokio::test]
async fn an_altered_value_of_redis_never_reaches_the_client_where_two_of_three_agree() {
    let (servers, altering) = redis(|| true).await;
    let three = [servers[0].address, altering.address, servers[1].address];
    let arbiter = front("redis", "refuse", 3, &three).await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..100 {
        assert_eq!(client.redis("GET k").await, string("value"));
    }
    let stats = ended(&arbiter, 100).await;
    assert_eq!((stats.compare.refused, stats.servers[1].wins), (0, 0));
    assert_eq!(stats.servers[1].compare.minority, stats.compare.different);
    assert_eq!(stats.compare.different, altering.altered.load(SeqCst));
    assert_eq!(stats.compare.different, 100);
    let only = front("redis", "refuse", 2, &three[..2]).await;
    let mut client = Client::open(only.clients).await;
    let refused = client.redis("GET k").await;
    let expected = "-ERR arbiter: the replicas' replies differ";
    assert!(refused.starts_with(expected), "{refused}");
    let written = client.redis("SET k other").await;
    assert_eq!(written, "+OK\r\n", "writes are not compared");
}

#[tokio::test]
async fn a_third_redis_decides_between_two() {
    let (servers, altering) = redis(|| true).await;
    let three = [servers[0].address, altering.address, servers[1].address];
    let arbiter = front("redis", "refuse", 2, &three).await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..30 {
        assert_eq!(client.redis("GET k").await, string("value"));
    }
    let stats = ended(&arbiter, 30).await;
    assert!(stats.compare.different >= 10, "{stats:?}");
    assert_eq!(stats.servers[1].compare.minority, stats.compare.different);
}

#[tokio::test]
async fn what_agreeing_redis_servers_may_say_differently_is_not_compared() {
    let (servers, altering) = redis(|| true).await;
    let pair = [servers[0].address, altering.address];
    let arbiter = front("redis", "refuse", 2, &pair).await;
    let mut client = Client::open(arbiter.clients).await;
    // Pipelined with what is compared.
    client.send(b"TTL k\r\nEXISTS k\r\nKEYS *\r\n").await;
    assert_eq!(client.reply().await, ":-1\r\n");
    assert_eq!(client.reply().await, ":1\r\n");
    assert!(client.reply().await.starts_with("*1\r\n"));
    let stats = ended(&arbiter, 3).await;
    assert_eq!((stats.compare.equal, stats.compare.not_compared), (1, 2));
}

#[tokio::test]
async fn a_loser_that_dies_or_breaks_is_not_compared() {
    let (servers, _altering) = redis(|| true).await;
    for fault in [
        Fault::Closes(b"$5\r\nval"),
        Fault::Sends(b"-LOADING wait\r\n"),
        Fault::Stalls(b"$5\r\nval"),
    ] {
        let faulty = FaultyServer::start(fault).await;
        let limit_ms = fault.limit_ms();
        let more = format!("request_timeout_ms = {limit_ms}\ncompare.mode = \"count\"\n");
        let settings = settings("redis", "round-robin", 2, 64) + &more;
        let arbiter = start(&settings, &[servers[0].address, faulty.address]).await;
        let mut client = Client::open(arbiter.clients).await;
        assert_eq!(client.redis("GET k").await, string("value"), "{fault:?}");
        let stats = ended(&arbiter, 1).await;
        let counts = (stats.compare.compared, stats.compare.not_compared);
        assert_eq!(counts, (0, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn an_altered_item_of_memcached_is_seen_and_outvoted() {
    let servers = memcached(3).await;
    let turn = AtomicU64::new(0);
    let altering = Altering::start(servers[1].address, ("value", "valve"), move || {
        turn.fetch_add(1, SeqCst) % 3 == 0
    })
    .await;
    let mut three = addresses(&servers);
    three[1] = altering.address;
    let counting = front("memcached", "count", 2, &three[..2]).await;
    let mut client = Client::open(counting.clients).await;
    for _ in 0..90 {
        client.list("get k").await;
    }
    let stats = ended(&counting, 90).await;
    assert_eq!((stats.compare.different, stats.compare.equal), (30, 60));
    assert_eq!(altering.altered.load(SeqCst), 30);
    let refusing = front("memcached", "refuse", 3, &three).await;
    let mut client = Client::open(refusing.clients).await;
    for _ in 0..90 {
        assert_eq!(client.list("get k").await, ["VALUE k 0 5", "value", "END"]);
    }
    let stats = ended(&refusing, 90).await;
    assert_eq!((stats.compare.different, stats.compare.refused), (30, 0));
    let minority: Vec<_> = stats.servers.iter().map(|it| it.compare.minority).collect();
    assert_eq!(minority, [0, 30, 0]);
}

#[tokio::test]
async fn a_key_that_one_memcached_lacks_is_refused_by_two() {
    let servers = memcached(2).await;
    assert_eq!(servers[1].direct().await.ask("delete k").await, "DELETED");
    let arbiter = front("memcached", "refuse", 2, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    let refused = client.ask("get k").await;
    let expected = "SERVER_ERROR arbiter: the replicas' replies differ";
    assert!(refused.starts_with(expected), "{refused}");
    client.send(b"mg k v t\r\n").await;
    // What a cache counts is not compared.
    assert_ne!(client.line().await, "<closed>");
}
