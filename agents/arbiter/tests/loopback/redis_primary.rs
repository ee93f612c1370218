//! The primary that the servers name, with real Redis servers that are killed and promoted.

use crate::support::keyvalue::{addresses, string, Client, Server};
use crate::support::{eventually, settings, start, Running};
use wire::arbiter::{Primary, Stats};

const NOBODY: &str = "-ERR arbiter: no server says that it is the primary; it was not executed\r\n";
const SEVERAL: &str =
    "-ERR arbiter: more than one server says that it is the primary; it was not executed\r\n";
const LOST: &str = "-ERR arbiter: the primary of this connection is lost;";

/// A primary with a replica, and an arbiter that has detected it. The replica comes first.
async fn tier() -> ([Server; 2], Running) {
    let primary = Server::redis().await;
    let servers = [Server::replica_of(&primary).await, primary];
    let settings = settings("redis", "round-robin", 1, 64) + "redis.primary = \"detected\"\n";
    let arbiter = start(&settings, &addresses(&servers)).await;
    until_primary(&arbiter, Some("s1")).await;
    (servers, arbiter)
}

async fn until_primary(arbiter: &Running, wanted: Option<&str>) -> Primary {
    let is_wanted = |stats: &Stats| {
        let primary = stats.primary.as_ref().unwrap();
        primary.server.as_deref() == wanted
    };
    arbiter.until("the primary", is_wanted).await.primary.unwrap()
}

async fn promote(server: &Server) {
    assert_eq!(server.direct().await.redis("REPLICAOF NO ONE").await, "+OK\r\n");
}

async fn demote(server: &Server, primary: &Server) {
    let command = format!("REPLICAOF 127.0.0.1 {}", primary.address.port());
    assert_eq!(server.direct().await.redis(&command).await, "+OK\r\n");
}

#[tokio::test]
async fn writes_go_to_the_server_that_says_it_is_the_primary() {
    let (servers, arbiter) = tier().await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.redis("SET k v").await, "+OK\r\n");
    assert_eq!(servers[1].calls("set").await, 1);
    assert_eq!(client.redis("MULTI").await, "+OK\r\n");
    assert_eq!(client.redis("INCR n").await, "+QUEUED\r\n");
    assert_eq!(client.redis("EXEC").await, "*1\r\n:1\r\n");
    assert_eq!(arbiter.stats().await.primary.unwrap().changes, 0);
}

#[tokio::test]
async fn writes_continue_at_a_promoted_replica_and_are_refused_until_then() {
    let (mut servers, arbiter) = tier().await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.redis("SET k old").await, "+OK\r\n");
    eventually("the value at the replica", || async {
        (servers[0].direct().await.redis("GET k").await == string("old")).then_some(())
    })
    .await;
    servers[1].kill();
    until_primary(&arbiter, None).await;
    assert_eq!(client.redis("SET k lost").await, NOBODY);
    // Reads, and new clients of either version, need no primary.
    let mut other = Client::open(arbiter.clients).await;
    assert!(other.redis("HELLO 3").await.starts_with('%'));
    assert_eq!(other.redis("GET k").await, string("old"));
    assert_eq!(servers[0].calls("set").await, 1, "of its primary");

    promote(&servers[0]).await;
    let primary = until_primary(&arbiter, Some("s0")).await;
    assert_eq!(primary.changes, 1);
    assert_eq!(client.redis("SET k new").await, "+OK\r\n");
    assert_eq!(client.redis("GET k").await, string("new"));
    assert_eq!(servers[0].calls("set").await, 2, "each once");

    // The old one comes back as a replica, and nothing changes.
    servers[1].restart();
    servers[1].ready().await;
    demote(&servers[1], &servers[0]).await;
    arbiter.until_alive(1).await;
    eventually("a replica in step", || async {
        (servers[1].direct().await.redis("GET k").await == string("new")).then_some(())
    })
    .await;
    until_primary(&arbiter, Some("s0")).await;
    assert_eq!(client.redis("SET k newer").await, "+OK\r\n");
}

#[tokio::test]
async fn two_primaries_are_refused_until_one_is_demoted() {
    let (servers, arbiter) = tier().await;
    let mut client = Client::open(arbiter.clients).await;
    promote(&servers[0]).await;
    until_primary(&arbiter, None).await;
    assert_eq!(client.redis("SET k v").await, SEVERAL);
    assert_eq!(client.redis("MULTI").await, SEVERAL.replace("; it was not executed", ""));
    demote(&servers[1], &servers[0]).await;
    until_primary(&arbiter, Some("s0")).await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.redis("SET k v").await, "+OK\r\n");
}

#[tokio::test]
async fn a_pinned_client_is_told_that_its_primary_is_lost() {
    let (mut servers, arbiter) = tier().await;
    let mut waiting = Client::open(arbiter.clients).await;
    waiting.send(b"BLPOP queue 0\r\n").await;
    let mut within = Client::open(arbiter.clients).await;
    assert_eq!(within.redis("MULTI").await, "+OK\r\n");
    assert_eq!(within.redis("INCR n").await, "+QUEUED\r\n");
    arbiter.until("two pinned", |stats| stats.pinned.clients == 2).await;
    // A demotion closes nothing by itself.
    promote(&servers[0]).await;
    demote(&servers[1], &servers[0]).await;
    for client in [&mut waiting, &mut within] {
        let reply = client.reply().await;
        // Redis itself ends what waits at a server that is demoted.
        if !reply.starts_with("-UNBLOCKED") {
            assert!(reply.starts_with(LOST), "{reply}");
            assert_eq!(client.reply().await, "<closed>");
        }
    }
    until_primary(&arbiter, Some("s0")).await;
    let mut within = Client::open(arbiter.clients).await;
    assert_eq!(within.redis("WATCH n").await, "+OK\r\n");
    assert_eq!(within.redis("MULTI").await, "+OK\r\n");
    servers[0].kill();
    let reply = within.reply().await;
    assert!(reply.starts_with(LOST), "{reply}");
    assert_eq!(within.reply().await, "<closed>");
}

#[tokio::test]
async fn a_demoted_server_s_error_has_the_servers_asked_again() {
    let (servers, arbiter) = tier().await;
    let mut client = Client::open(arbiter.clients).await;
    demote(&servers[1], &servers[0]).await;
    // Either the server refuses it, or the arbiter does; neither executes it.
    let reply = client.redis("SET k v").await;
    assert!(reply.starts_with("-READONLY ") || reply == NOBODY, "{reply}");
    until_primary(&arbiter, None).await;
    assert_eq!(client.redis("SET k v").await, NOBODY);
    promote(&servers[0]).await;
    until_primary(&arbiter, Some("s0")).await;
    assert_eq!(client.redis("SET k v").await, "+OK\r\n");
    assert_eq!(client.redis("GET k").await, string("v"));
}

#[tokio::test]
async fn without_detection_the_first_server_is_the_primary_whatever_it_says() {
    let primary = Server::redis().await;
    let servers = [Server::replica_of(&primary).await, primary];
    let arbiter = start(&settings("redis", "round-robin", 1, 64), &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert!(client.redis("SET k v").await.starts_with("-READONLY "));
    let primary = arbiter.stats().await.primary.unwrap();
    assert_eq!((primary.server.as_deref(), primary.changes), (Some("s0"), 0));
}
