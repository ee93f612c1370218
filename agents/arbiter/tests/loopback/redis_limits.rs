//! One Redis client cannot harm the others: eject the primary, stop the server, take all
//! connections or all memory, fail what is only late.

use std::time::Duration;

use crate::support::keyvalue::{
    addresses, before_steady, encode, front_within, session, string, Client, Fault, FaultyServer,
    Server, SHORT_LIMIT_MS,
};
use crate::support::program::{config, Program};
use crate::support::{settings, start};
use testkit::hold::rss_kib_of;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

const NO_SUCH_COMMAND: &str = "-ERR unknown command 'NOT_OFFERED_BY_THE_ARBITER'";

#[tokio::test]
async fn errors_of_the_command_do_not_count_against_the_primary() {
    let servers = [Server::redis().await];
    let (arbiter, mut client) = session("redis", 1, &servers).await;
    assert_eq!(client.redis("XGROUP CREATE s g $ MKSTREAM").await, "+OK\r\n");
    for _ in 0..12 {
        let busy = client.redis("XGROUP CREATE s g $ MKSTREAM").await;
        assert!(busy.starts_with("-BUSYGROUP "), "{busy}");
    }
    let stats = arbiter.stats().await;
    assert_eq!((stats.servers[0].errors, stats.guarded.ejections), (0, 0));
    assert!(stats.servers[0].alive && !stats.servers[0].ejected);
}

#[tokio::test]
async fn what_is_refused_is_refused_of_pinned_clients_too_and_in_its_place() {
    let servers = [Server::redis().await];
    let (_arbiter, mut client) = session("redis", 1, &servers).await;
    assert_eq!(client.redis("SELECT 1").await, "+OK\r\n");
    for words in ["SHUTDOWN", "shutdown NOSAVE", "REPLICAOF 127.0.0.1 1", "DEBUG SEGFAULT"] {
        let refused = client.redis(words).await;
        assert!(refused.starts_with(NO_SUCH_COMMAND), "{words}: {refused}");
    }
    // Among others, at once, and as a line.
    let mut bytes = encode("SET k v");
    bytes.extend(encode("SHUTDOWN"));
    bytes.extend(b"SHUTDOWN\r\n");
    bytes.extend(encode("GET k"));
    client.send(&bytes).await;
    assert_eq!(client.reply().await, "+OK\r\n");
    assert!(client.reply().await.starts_with(NO_SUCH_COMMAND));
    assert!(client.reply().await.starts_with(NO_SUCH_COMMAND));
    assert_eq!(client.reply().await, string("v"));
    // It speaks of the connection that the client has.
    assert_eq!(client.redis("WAIT 0 1").await, ":0\r\n");
}

#[tokio::test]
async fn a_pinned_client_s_large_command_passes_whole() {
    let servers = [Server::redis().await];
    let (_arbiter, mut client) = session("redis", 1, &servers).await;
    assert_eq!(client.redis("SELECT 1").await, "+OK\r\n");
    let large = "x".repeat(8 << 20);
    for _ in 0..3 {
        client.send(&encode(&format!("SET large {large}"))).await;
        assert_eq!(client.reply().await, "+OK\r\n");
    }
    assert_eq!(client.redis("GET large").await, string(&large));
}

#[tokio::test]
async fn asking_who_one_is_takes_no_connection() {
    let servers = [Server::redis().await];
    let settings = settings("redis", "round-robin", 1, 64) + "pinned_max = 0\n";
    let arbiter = start(&settings, &addresses(&servers)).await;
    let mut first = Client::open(arbiter.clients).await;
    let mut second = Client::open(arbiter.clients).await;
    let ids = [first.redis("CLIENT ID").await, second.redis("client id").await];
    assert!(ids.iter().all(|id| id.starts_with(':')) && ids[0] != ids[1], "{ids:?}");
    assert_eq!(first.redis("CLIENT ID").await, ids[0]);
    assert_eq!(first.redis("CLIENT GETNAME").await, "$-1\r\n");
    first.redis("CLIENT SETNAME me").await;
    assert_eq!(first.redis("CLIENT GETNAME").await, string("me"));
}

#[tokio::test]
async fn a_write_that_a_stopped_server_got_may_have_been_executed() {
    let servers = [Server::redis().await];
    let arbiter = front_within(SHORT_LIMIT_MS, "redis", 1, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(client.redis("SET k v").await, "+OK\r\n");
    servers[0].freeze();
    let error = client.redis("INCR n").await;
    servers[0].thaw();
    assert_eq!(
        error,
        "-ERR arbiter: the server did not reply in time; it may have been executed\r\n"
    );
}

#[tokio::test]
async fn a_queue_that_is_long_and_moves_is_not_thrown_away() {
    const LATE: &str = "-ERR arbiter: the server did not reply in time\r\n";
    // 80 commands take 4 s, one may take 1.5 s.
    let (replies, stats) = before_steady(Duration::from_millis(50), 1_500, |arbiter| async move {
        let mut clients = JoinSet::new();
        for _ in 0..80 {
            let address = arbiter.clients;
            clients.spawn(async move { Client::open(address).await.redis("GET k").await });
        }
        (clients.join_all().await, arbiter.stats().await)
    })
    .await;
    let (late, answered): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| *reply == LATE);
    assert!(answered.iter().all(|reply| *reply == "$1\r\nx\r\n"), "{answered:?}");
    assert!(!answered.is_empty() && !late.is_empty(), "{replies:?}");
    assert!(stats.servers[0].alive, "it has answered all the time");
    assert_eq!(stats.servers[0].connections_opened, 1);
}

#[tokio::test]
async fn clients_that_read_nothing_take_a_bounded_memory() {
    const LENGTH: usize = 40 << 20;
    let reply = format!("${LENGTH}\r\n{}\r\n", "x".repeat(LENGTH)).leak();
    let server = FaultyServer::start(Fault::Sends(reply.as_bytes())).await;
    let file = config("127.0.0.1:0", &server.address.to_string());
    let text = std::fs::read_to_string(file.path()).unwrap();
    let text = text.replace("\"http\"", "\"redis\"");
    let text = text.replace("tokens = 1\n", "tokens = 1\nheld_mib_max = 100\n");
    std::fs::write(file.path(), text.replace("\"tad\"", "\"round-robin\"")).unwrap();
    let program = Program::start(&file);
    let mut clients = vec![];
    for _ in 0..10 {
        let mut client = Client::open(program.clients).await;
        client.send(&encode("GET k")).await;
        // Its reply begins, or an error is there: nothing more of it is read.
        client.wire.stream.readable().await.unwrap();
        clients.push(client);
    }
    let rss_kib = rss_kib_of(program.child.id()).unwrap();
    assert!(rss_kib < 300 * 1024, "{rss_kib} KiB");
    let mut refused = 0;
    for mut client in clients {
        let reply = client.reply().await;
        if reply == "-ERR arbiter: too much is held for clients that read slowly\r\n" {
            refused += 1;
        } else {
            assert_eq!(reply.len(), LENGTH + 13);
        }
    }
    assert!((1..10).contains(&refused), "{refused}");
    let mut client = Client::open(program.clients).await;
    let mut byte = [0];
    client.send(&encode("GET k")).await;
    client.wire.stream.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"$", "what was read is free again");
}
