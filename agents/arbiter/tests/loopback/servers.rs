//! Servers taken out and let in by `PUT /v1/servers/NAME`, over every protocol.

use std::time::Duration;

use crate::support::http::front;
use crate::support::keyvalue::{Client, Server};
use crate::support::mariadb::{connect, number, servers, MariaDb};
use crate::support::upstream::{nobody, ok, Behaviour, Upstream};
use crate::support::web::get;
use crate::support::{settings, start, Running};

async fn set(arbiter: &Running, server: &str, up: bool) {
    let (path, body) = (format!("/v1/servers/{server}"), format!("{{\"up\":{up}}}"));
    arbiter.set(&path, &body).await;
}

#[tokio::test]
async fn a_server_taken_out_gets_nothing_until_it_is_let_in() {
    let first = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let second = Upstream::start(Behaviour::Reply(ok("two"))).await;
    let arbiter = front("round-robin", 1, 4, &[&first, &second]).await;
    set(&arbiter, "s0", false).await;
    let state = arbiter.server(0).await;
    assert!(state.taken_out && !state.alive, "{state:?}");
    for _ in 0..10 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "two");
    }
    assert_eq!(first.requests(), Vec::<String>::new());
    set(&arbiter, "s0", true).await;
    arbiter.until_alive(0).await;
    for _ in 0..2 {
        get(arbiter.clients, "/").await;
    }
    assert_eq!(first.requests().len(), 1, "one in turn with the other");
    assert!(!arbiter.server(0).await.taken_out);
}

#[tokio::test]
async fn a_probe_does_not_bring_back_what_was_taken_out_and_lets_in_only_what_answers() {
    let address = nobody();
    let second = Upstream::start(Behaviour::Reply(ok("two"))).await;
    let settings = crate::support::http::settings("round-robin", 1, 4);
    let arbiter = start(&settings, &[address, second.address]).await;
    for _ in 0..2 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "two");
    }
    assert!(!arbiter.server(0).await.alive, "its connection failed");
    set(&arbiter, "s0", false).await;
    let first = Upstream::start_at(address, Behaviour::Reply(ok("one")));
    // Longer than the first two probes take to come.
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(!arbiter.server(0).await.alive, "it is there, and taken out");
    drop(first);
    set(&arbiter, "s0", true).await;
    for _ in 0..4 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "two");
    }
    assert!(!arbiter.server(0).await.alive, "let in, and not there");
    let _first = Upstream::start_at(address, Behaviour::Reply(ok("one")));
    arbiter.until_alive(0).await;
}

#[tokio::test]
async fn an_unknown_server_and_a_body_without_up_are_refused() {
    let first = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let arbiter = front("tad", 1, 4, &[&first]).await;
    let reply = arbiter.put("/v1/servers/web-9", "{\"up\":false}").await;
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("expected one of s0 (got web-9)"));
    for body in ["{}", "{\"up\":1}", "{\"up\":true,\"down\":false}"] {
        let reply = arbiter.put("/v1/servers/s0", body).await;
        assert_eq!(reply.status, 422, "{body}");
    }
    assert!(arbiter.server(0).await.alive);
}

#[tokio::test]
async fn a_cache_that_was_out_is_emptied_before_it_is_in_again() {
    let caches = [Server::memcached().await, Server::memcached().await];
    let settings = settings("memcached", "round-robin", 1, 64);
    let arbiter = start(&settings, &caches.each_ref().map(|cache| cache.address)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.ask("set k 0 0 3\r\nold").await, "STORED");
    set(&arbiter, "s0", false).await;
    assert_eq!(client.ask("set k 0 0 3\r\nnew").await, "STORED");
    for _ in 0..4 {
        assert_eq!(client.list("get k").await, ["VALUE k 0 3", "new", "END"]);
    }
    set(&arbiter, "s0", true).await;
    arbiter.until_alive(0).await;
    assert_eq!(caches[0].direct().await.list("get k").await, ["END"]);
}

#[tokio::test]
async fn a_redis_replica_that_is_out_gets_no_reads() {
    let primary = Server::redis().await;
    let replica = Server::replica_of(&primary).await;
    let settings = settings("redis", "round-robin", 1, 64);
    let arbiter = start(&settings, &[primary.address, replica.address]).await;
    set(&arbiter, "s1", false).await;
    let before = replica.calls("get").await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..6 {
        client.redis("GET k").await;
    }
    assert_eq!(replica.calls("get").await, before);
    set(&arbiter, "s1", true).await;
    arbiter.until_alive(1).await;
    for _ in 0..6 {
        client.redis("GET k").await;
    }
    assert!(replica.calls("get").await > before);
}

#[tokio::test]
async fn a_database_that_is_out_gets_no_new_connections() {
    let databases: [MariaDb; 2] = servers().await;
    let arbiter = crate::support::mariadb::front("round-robin", 1, 4, &databases).await;
    set(&arbiter, "s0", false).await;
    for _ in 0..4 {
        let port = number(&mut connect(&arbiter).await, "SELECT @@port").await;
        assert_eq!(port, u64::from(databases[1].address.port()));
    }
    set(&arbiter, "s0", true).await;
    arbiter.until_alive(0).await;
    let (mut first, mut second) = (connect(&arbiter).await, connect(&arbiter).await);
    let ports =
        [number(&mut first, "SELECT @@port").await, number(&mut second, "SELECT @@port").await];
    assert_ne!(ports[0], ports[1]);
}
