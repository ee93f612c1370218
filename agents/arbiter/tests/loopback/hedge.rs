//! Delayed replicas (policy `hedge`) over Redis, memcached and MySQL; real servers.

use std::net::SocketAddr;

use crate::support::keyvalue::{addresses, encode, string, Client, Server};
use crate::support::mariadb::{lock, number, options, servers, MariaDb};
use crate::support::{settings, start, Running};
use mysql_async::prelude::Queryable;
use mysql_async::Conn;

/// The policy says when a replica is late after 20 latencies.
const WARM_UP: u64 = 200;

async fn front(protocol: &str, more: &str, servers: &[SocketAddr]) -> Running {
    start(&(settings(protocol, "hedge", 2, 8) + more), servers).await
}

/// Clients whose reads are with both servers.
struct PendingReads {
    clients: Vec<Client>,
    /// Of before.
    stats: wire::arbiter::Stats,
}

/// Freezes both servers, and sends `reads` from clients until each has its delayed replica.
async fn both_asked(arbiter: &Running, servers: &[Server], reads: &[u8]) -> PendingReads {
    let stats = arbiter.stats().await;
    servers.iter().for_each(Server::freeze);
    let mut clients = vec![];
    for _ in 0..4 {
        let mut client = Client::open(arbiter.clients).await;
        client.send(reads).await;
        clients.push(client);
    }
    let hedges = stats.guarded.hedges + 4;
    let hedged = |now: &wire::arbiter::Stats| now.guarded.hedges == hedges;
    arbiter.until("a hedge of each", hedged).await;
    PendingReads { clients, stats }
}

/// Two Redis servers with the same keys; no copying that a frozen one could hold up.
async fn redis_servers(keys: usize) -> [Server; 2] {
    let servers = [Server::redis().await, Server::redis().await];
    for server in &servers {
        let mut direct = server.direct().await;
        for number in 0..keys {
            direct.redis(&format!("SET k{number} v{number}")).await;
        }
    }
    servers
}

/// Late reads are answered by whichever server goes on, there and back. A client sent `reads`, and
/// `expected` comes back; then `again` is asked, and answered.
async fn late_reads_are_answered_elsewhere(
    arbiter: &Running,
    servers: &[Server; 2],
    reads: &[u8],
    expected: &str,
    client: &mut Client,
    again: (&[u8], &str),
) {
    for fast in [0, 1] {
        let before = both_asked(arbiter, servers, reads).await;
        servers[fast].thaw();
        for mut client in before.clients {
            let got = client.bytes(expected.len()).await.unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), expected);
        }
        let (now, other) = (arbiter.stats().await, 1 - fast);
        assert_eq!(now.servers[other].wins, before.stats.servers[other].wins);
        assert_eq!(now.requests.failed, 0);
        servers[other].thaw();
        arbiter.at_rest().await;
        // The late reply belonged to nobody.
        client.send(again.0).await;
        let got = client.bytes(again.1.len()).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), again.1);
        arbiter.at_rest().await;
    }
}

/// Each replica so far is a first one or a hedge, but for `writes` to all; the other half of the bound
/// is for a busy machine.
async fn few_were_hedged(arbiter: &Running, writes: u64) {
    let before = arbiter.at_rest().await;
    let expected = writes + WARM_UP + before.guarded.hedges;
    assert_eq!(before.replicas_sent, expected);
    assert!(before.guarded.hedges < WARM_UP / 2, "{before:?}");
}

#[tokio::test]
async fn a_redis_read_that_is_late_is_answered_by_another_server() {
    let servers = redis_servers(100).await;
    let arbiter = front("redis", "", &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    for number in 0..WARM_UP {
        let key = number % 100;
        let got = client.redis(&format!("GET k{key}")).await;
        assert_eq!(got, string(&format!("v{key}")));
    }
    few_were_hedged(&arbiter, 0).await;
    let get = |n| encode(&format!("GET k{n}"));
    let all: Vec<u8> = (0..100).flat_map(get).collect();
    let values: String = (0..100).map(|n| string(&format!("v{n}"))).collect();
    let again = (&get(7)[..], &string("v7")[..]);
    let (expected, client) = (&values[..], &mut client);
    late_reads_are_answered_elsewhere(&arbiter, &servers, &all, expected, client, again).await;
}

#[tokio::test]
async fn a_memcached_read_that_is_late_is_answered_by_another_server() {
    let servers = [Server::memcached().await, Server::memcached().await];
    let arbiter = front("memcached", "", &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.ask("set k 0 0 1\r\nv").await, "STORED");
    for _ in 0..WARM_UP {
        assert_eq!(client.list("get k").await, ["VALUE k 0 1", "v", "END"]);
    }
    few_were_hedged(&arbiter, 2).await;
    // The reply of a quiet read is silence where the key is missing.
    let reads = b"get k\r\nmg none v q\r\nmg k v O5\r\nmn\r\n";
    let hit = "VALUE k 0 1\r\nv\r\nEND\r\n";
    let expected = format!("{hit}VA 1 O5\r\nv\r\nMN\r\n");
    let (again, client) = ((&b"get k\r\n"[..], hit), &mut client);
    late_reads_are_answered_elsewhere(&arbiter, &servers, reads, &expected, client, again).await;
}

#[tokio::test]
async fn the_budget_of_extra_load_bounds_the_hedges() {
    let servers = redis_servers(1).await;
    // Nearly every read is later than the first percentile.
    let budget = "hedge_percentile = 1.0\n\
                  guardrails.extra_load_max = 0.0\nguardrails.extra_load_window_ms = 600000";
    let arbiter = front("redis", budget, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..WARM_UP {
        assert_eq!(client.redis("GET k0").await, string("v0"));
    }
    // No server answers, so that all reads are late.
    servers.iter().for_each(Server::freeze);
    let mut clients = vec![];
    for _ in 0..40 {
        let mut client = Client::open(arbiter.clients).await;
        client.send(&encode("GET k0")).await;
        clients.push(client);
    }
    let used_up = |stats: &wire::arbiter::Stats| {
        stats.guarded.is_fallen_back && stats.replicas_sent == WARM_UP + 40 + 10
    };
    let stats = arbiter.until("the end of the budget", used_up).await;
    // So many are free of charge in a window.
    assert_eq!(stats.guarded.hedges, 10);
    servers.iter().for_each(Server::thaw);
    for client in &mut clients {
        assert_eq!(client.reply().await, string("v0"));
    }
}

#[tokio::test]
async fn a_mysql_read_that_is_late_is_answered_by_another_server_and_the_session_goes_with_it() {
    let servers: [MariaDb; 2] = servers().await;
    let addresses = [servers[0].address, servers[1].address];
    let arbiter = front("mysql", "", &addresses).await;
    let mut conn = Conn::new(options(arbiter.clients)).await.unwrap();
    for n in 0..WARM_UP {
        let got = number(&mut conn, &format!("SELECT {n} * 2")).await;
        assert_eq!(got, n * 2);
    }
    conn.query_drop("SET group_concat_max_len = 4242").await.unwrap();
    let before = arbiter.at_rest().await;
    // A hedge whose server came when the answer was there was not sent. The setting went to the one
    // server, or to a second that was about to leave.
    let first_ones = before.replicas_sent + before.replicas_not_needed - before.guarded.hedges;
    assert!((WARM_UP + 1..WARM_UP + 12).contains(&first_ones), "{before:?}");
    assert!(before.guarded.hedges < WARM_UP / 2, "{before:?}");
    // There and back.
    for _ in 0..2 {
        // Sticks to the server that answered last.
        let held = number(&mut conn, "SELECT @@port + 0 * CONNECTION_ID()").await;
        let (slow, fast) = if held == u64::from(servers[0].address.port()) {
            (&servers[0], &servers[1])
        } else {
            (&servers[1], &servers[0])
        };
        let lock = lock(slow, "delay").await;
        let before = arbiter.stats().await;
        let late = "SELECT @@port + @@group_concat_max_len FROM delay";
        let fast_port = u64::from(fast.address.port());
        assert_eq!(number(&mut conn, late).await, fast_port + 4242);
        let now = arbiter.stats().await;
        assert!(now.guarded.hedges > before.guarded.hedges);
        let moved = number(&mut conn, "SELECT @@port + 0 * CONNECTION_ID()").await;
        assert_eq!(moved, fast_port);
        lock.disconnect().await.unwrap();
        // The late one came back when its work was done.
        arbiter.at_rest().await;
    }
    assert_eq!(arbiter.stats().await.requests.failed, 0);
}
