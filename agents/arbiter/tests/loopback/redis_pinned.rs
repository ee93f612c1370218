//! Redis clients with a connection of their own: how many, how long, and what they may not say.

use std::net::SocketAddr;

use crate::support::keyvalue::{addresses, string, Client, Server};
use crate::support::{eventually, settings, start, Running};

const NO_SUCH_COMMAND: &str = "-ERR unknown command 'NOT_OFFERED_BY_THE_ARBITER'";
const NOT_OFFERED: &str = "-ERR not offered by the arbiter: ask the server itself\r\n";

async fn front(more: &str, servers: &[Server]) -> Running {
    let settings = settings("redis", "round-robin", 1, 64) + more;
    start(&settings, &addresses(servers)).await
}

/// A client that is pinned at once.
async fn pinned(arbiter: SocketAddr) -> Client {
    let mut client = Client::open(arbiter).await;
    assert_eq!(client.redis("SELECT 1").await, "+OK\r\n");
    client
}

#[tokio::test]
async fn an_idle_one_is_closed_and_its_place_and_connection_are_free() {
    let servers = [Server::redis().await];
    let arbiter = front("pinned_max = 1\npinned_idle_ms = 200\n", &servers).await;
    for _ in 0..3 {
        let mut client = pinned(arbiter.clients).await;
        assert_eq!(client.reply().await, "<closed>");
        drop(client);
        arbiter.all_gone().await;
        eventually("the end of the server's connection", || async {
            let info = servers[0].direct().await.redis("INFO clients").await;
            // The one that asks.
            info.contains("connected_clients:1\r\n").then_some(())
        })
        .await;
    }
    let mut half = pinned(arbiter.clients).await;
    half.send(b"*2\r\n$3\r\nGET\r\n").await;
    assert_eq!(half.reply().await, "<closed>", "half a command is none");
}

#[tokio::test]
async fn one_that_waits_or_speaks_is_not_idle() {
    let servers = [Server::redis().await];
    let arbiter = front("pinned_idle_ms = 4000\n", &servers).await;
    let mut waiting = Client::open(arbiter.clients).await;
    // Earlier replies do not end its waiting.
    waiting.send(b"SELECT 0\r\nGET none\r\nSELECT 1\r\nSELECT 0\r\nBLPOP queue 0\r\n").await;
    for expected in ["+OK\r\n", "$-1\r\n", "+OK\r\n", "+OK\r\n"] {
        assert_eq!(waiting.reply().await, expected);
    }
    let mut listening = Client::open(arbiter.clients).await;
    assert!(listening.redis("SUBSCRIBE c").await.ends_with(":1\r\n"));
    let mut within = Client::open(arbiter.clients).await;
    assert_eq!(within.redis("MULTI").await, "+OK\r\n");
    assert_eq!(within.redis("INCR n").await, "+QUEUED\r\n");
    let mut speaking = pinned(arbiter.clients).await;
    // An idle connection, made later than all of these, is the clock.
    let mut idle = pinned(arbiter.clients).await;
    let clock = tokio::spawn(async move { idle.reply().await });
    while !clock.is_finished() {
        assert_eq!(speaking.redis("GET none").await, "$-1\r\n");
    }
    assert_eq!(clock.await.unwrap(), "<closed>");
    let mut other = Client::open(arbiter.clients).await;
    assert_eq!(other.redis("RPUSH queue job").await, ":1\r\n");
    assert_eq!(waiting.reply().await, "*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n");
    assert_eq!(other.redis("PUBLISH c news").await, ":1\r\n");
    assert!(listening.reply().await.ends_with(&string("news")));
    assert_eq!(within.redis("EXEC").await, "*1\r\n:1\r\n");
    // The first two need theirs no more; the others keep them.
    let free = |stats: &wire::arbiter::Stats| stats.pinned.clients == 2;
    arbiter.until("two that are free", free).await;
}

#[tokio::test]
async fn what_only_some_servers_know_of_clients_pins_nobody() {
    let servers = [Server::redis().await, Server::redis().await];
    let settings = settings("redis", "round-robin", 2, 64);
    let arbiter = start(&settings, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert!(client.redis("HELLO 3").await.starts_with('%'));
    for (words, named) in [
        ("CLIENT SETINFO LIB-NAME redis-py", None),
        (
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-fqdn",
            Some("MAINT_NOTIFICATIONS"),
        ),
        ("CLIENT CAPA redirect", Some("CAPA")),
    ] {
        let expected = match named {
            Some(name) => format!("-ERR unknown subcommand '{name}'. Try CLIENT HELP.\r\n"),
            None => "+OK\r\n".to_owned(),
        };
        assert_eq!(client.redis(words).await, expected);
    }
    for _ in 0..20 {
        assert_eq!(client.redis("GET none").await, "_\r\n");
    }
    let stats = arbiter.stats().await;
    assert_eq!((stats.requests.cloned, stats.pinned.times), (20, 0));
}

#[tokio::test]
async fn a_pin_ends_with_what_made_it() {
    let servers = [Server::redis().await, Server::redis().await];
    let more = "pinned_max = 1\n";
    let settings = settings("redis", "round-robin", 2, 64) + more;
    let arbiter = start(&settings, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    let mut cloned = 0;
    for (words, commands) in [
        (&["MULTI", "INCR n", "EXEC"][..], 3),
        (&["WATCH n", "MULTI", "DISCARD"], 3),
        (&["WATCH n", "UNWATCH"], 2),
        (&["SELECT 1", "SET k v", "SELECT 0"], 3),
        (&["BLPOP none 0.01"], 1),
        (&["AUTH wrong"], 1),
        (&["NO.SUCH.COMMAND"], 1),
        (&["HELLO 3 SETNAME me", "HELLO 2"], 1),
    ] {
        let before = arbiter.stats().await.pinned;
        for command in words {
            client.redis(command).await;
        }
        let free = |stats: &wire::arbiter::Stats| stats.pinned.clients == 0;
        let stats = arbiter.until("a client that is free", free).await;
        let counts = (stats.pinned.times - before.times, stats.pinned.commands - before.commands);
        assert_eq!(counts, (1, commands), "{words:?}");
        for _ in 0..5 {
            assert_eq!(client.redis("GET none").await, "$-1\r\n", "{words:?}");
        }
        cloned += 5;
        assert_eq!(arbiter.stats().await.requests.cloned, cloned, "{words:?}");
    }
    assert_eq!(client.redis("CLIENT GETNAME").await, string("me"));
    // Pins for good.
    assert_eq!(client.redis("SELECT 1").await, "+OK\r\n");
    assert_eq!(client.redis("GET k").await, string("v"));
    let stats = arbiter.stats().await;
    assert_eq!((stats.pinned.clients, stats.requests.cloned), (1, cloned));
}

#[tokio::test]
async fn a_client_that_is_pinned_again_soon_has_the_same_connection() {
    let servers = [Server::redis().await];
    let arbiter = front("", &servers).await;
    let mut client = Client::open(arbiter.clients).await;
    let mut opened = vec![];
    for _ in 0..20 {
        for (words, expected) in [("MULTI", "+OK\r\n"), ("INCR n", "+QUEUED\r\n")] {
            assert_eq!(client.redis(words).await, expected);
        }
        assert!(client.redis("EXEC").await.starts_with("*1\r\n:"));
        opened.push(arbiter.server(0).await.connections_opened);
    }
    // On a busy host a moment may be long.
    assert!(opened[19] < 20, "{opened:?}");
    assert_eq!(client.redis("GET n").await, string("20"));
}

#[tokio::test]
async fn one_that_takes_nothing_is_idle() {
    let servers = [Server::redis().await];
    let arbiter = front("pinned_idle_ms = 2000\n", &servers).await;
    let mut client = pinned(arbiter.clients).await;
    let large = "x".repeat(32 << 20);
    assert_eq!(client.redis(&format!("SET large {large}")).await, "+OK\r\n");
    for _ in 0..3 {
        client.send(b"GET large\r\n").await;
    }
    arbiter.all_gone().await;
}

#[tokio::test]
async fn places_are_bounded_and_one_address_leaves_some_to_others() {
    let servers = [Server::redis().await];
    for (more, most, full) in [
        ("pinned_max = 8\n", 2, "pinned_per_address_max"),
        ("pinned_max = 8\npinned_per_address_max = 3\n", 3, "pinned_per_address_max"),
        ("pinned_max = 2\npinned_per_address_max = 2\n", 2, "pinned_max"),
    ] {
        let arbiter = front(more, &servers).await;
        let mut held = vec![];
        for _ in 0..most {
            held.push(pinned(arbiter.clients).await);
        }
        let mut refused = Client::open(arbiter.clients).await;
        let reply = refused.redis("SELECT 1").await;
        let start = format!("-ERR arbiter: {full} ");
        assert!(reply.starts_with(&start), "{reply}");
        let written = refused.redis("SET k v").await;
        assert_eq!(written, "+OK\r\n", "it goes on without");
        let mut elsewhere = Client::open_from([127, 0, 0, 2], arbiter.clients).await;
        let is_let_in = elsewhere.redis("SELECT 1").await == "+OK\r\n";
        assert_eq!(is_let_in, full == "pinned_per_address_max", "{more}");
        held.pop();
        let left = |stats: &wire::arbiter::Stats| stats.connections.client_open == most + 1;
        arbiter.until("a client's end", left).await;
        assert_eq!(refused.redis("SELECT 1").await, "+OK\r\n");
    }
}

#[tokio::test]
async fn what_would_hurt_everybody_is_refused_and_what_asks_is_not() {
    let servers = [Server::redis().await];
    let arbiter = front("", &servers).await;
    let mut shared = Client::open(arbiter.clients).await;
    let mut own = pinned(arbiter.clients).await;
    for words in ["client pause 60000", "CONFIG SET maxclients 1", "SAVE"] {
        assert_eq!(shared.redis(words).await, NOT_OFFERED, "{words}");
        let refused = own.redis(words).await;
        assert!(refused.starts_with(NO_SUCH_COMMAND), "{words}: {refused}");
    }
    for words in ["ACL WHOAMI", "CLIENT LIST", "CONFIG GET save", "SLOWLOG GET"] {
        let mut client = Client::open(arbiter.clients).await;
        for client in [&mut client, &mut own] {
            let reply = client.redis(words).await;
            // This Redis may be older than a word; then it says so itself.
            let is_ours = reply.starts_with(NO_SUCH_COMMAND) || reply == NOT_OFFERED;
            assert!(!is_ours, "{words}: {reply}");
        }
    }
    // In a transaction it is an error of that.
    assert_eq!(own.redis("MULTI").await, "+OK\r\n");
    assert!(own.redis("SWAPDB 0 1").await.starts_with(NO_SUCH_COMMAND));
    assert!(own.redis("EXEC").await.starts_with("-EXECABORT "));
    assert_eq!(servers[0].direct().await.redis("PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn who_quits_and_stays_keeps_no_place() {
    let servers = [Server::redis().await];
    let arbiter = front("pinned_max = 1\n", &servers).await;
    let mut stays = pinned(arbiter.clients).await;
    assert_eq!(stays.redis("QUIT").await, "+OK\r\n");
    assert_eq!(stays.reply().await, "<closed>");
    arbiter.all_gone().await;
    pinned(arbiter.clients).await;
}
