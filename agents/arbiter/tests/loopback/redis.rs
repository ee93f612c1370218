//! The Redis arbiter in front of real servers: one primary and its replicas.

use crate::support::eventually;
use crate::support::keyvalue::{
    addresses, encode, front, front_within, session, string, Client, Fault, FaultyServer, Server,
    SHORT_LIMIT_MS,
};
use crate::support::upstream::nobody;

/// Of a write while the primary is away.
const NOT_REACHED: &str = "-ERR arbiter: no server could be reached; it was not executed\r\n";

/// A primary and replicas in step.
async fn servers(replicas: usize) -> Vec<Server> {
    let mut servers = vec![Server::redis().await];
    for _ in 0..replicas {
        let replica = Server::replica_of(&servers[0]).await;
        servers.push(replica);
    }
    servers
}

/// Sets `key` on the primary and waits until all have it.
async fn set_everywhere(servers: &[Server], key: &str, value: &str) {
    let set = servers[0].direct().await.redis(&format!("SET {key} {value}")).await;
    assert_eq!(set, "+OK\r\n");
    for server in servers {
        eventually("the value on every server", || async {
            let got = server.direct().await.redis(&format!("GET {key}")).await;
            (got == string(value)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn reads_are_cloned_and_writes_go_to_the_primary() {
    let servers = servers(2).await;
    let arbiter = front("redis", 2, &addresses(&servers)).await;
    set_everywhere(&servers, "k", "v").await;
    let mut before = vec![];
    for server in &servers {
        before.push((server.calls("get").await, server.calls("set").await));
    }
    let mut client = Client::open(arbiter.clients).await;
    for number in 0..30 {
        assert_eq!(client.redis("GET k").await, string("v"));
        assert_eq!(client.redis(&format!("SET n{number} x")).await, "+OK\r\n");
    }
    arbiter.at_rest().await;
    let mut gets = 0;
    for (server, before) in servers.iter().zip(before) {
        let mine = server.calls("get").await - before.0;
        assert!(mine >= 10, "every server reads");
        gets += mine;
    }
    assert_eq!(gets, 60, "two replicas of each read");
    let stats = arbiter.stats().await;
    assert_eq!((stats.requests.received, stats.requests.answered), (60, 60));
    assert_eq!((stats.requests.cloned, stats.requests.failed), (30, 0));
    assert_eq!((stats.replicas_sent, stats.replicas_wasted), (90, 30));
    assert_eq!(servers[0].calls("set").await, 31);
}

#[tokio::test]
async fn every_class_of_command_gets_its_own_reply() {
    let servers = servers(1).await;
    let (_arbiter, mut client) = session("redis", 2, &servers).await;
    let table = [
        ("PING", "+PONG\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("CLIENT SETNAME me", "+OK\r\n"),
        ("CLIENT SETINFO lib-name test", "+OK\r\n"),
        ("RPUSH l a b c", ":3\r\n"),
        ("EVAL return{1,{2}} 0", "*2\r\n:1\r\n*1\r\n:2\r\n"),
        ("INCR l", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("WAIT 1 0", "-ERR not offered by the arbiter: ask the server itself\r\n"),
        ("SHUTDOWN", "-ERR not offered by the arbiter: ask the server itself\r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("HSET h f v", ":1\r\n"),
    ];
    for (words, expected) in table {
        assert_eq!(client.redis(words).await, expected, "{words}");
    }
    assert!(client.redis("SCAN 0").await.starts_with("*2\r\n$1\r\n0\r\n"));
    client.send(b"PING\r\nECHO inline\r\n\r\n").await;
    assert_eq!(client.reply().await, "+PONG\r\n");
    assert_eq!(client.reply().await, string("inline"));
    assert_eq!(client.redis("QUIT").await, "+OK\r\n");
    assert_eq!(client.reply().await, "<closed>");
}

#[tokio::test]
async fn resp3_clients_get_resp3_and_others_resp2() {
    let servers = servers(1).await;
    let (arbiter, mut three) = session("redis", 2, &servers).await;
    let mut two = Client::open(arbiter.clients).await;
    assert!(three.redis("HELLO 3").await.starts_with('%'));
    assert_eq!(three.redis("HELLO 9").await, "-NOPROTO unsupported protocol version\r\n");
    // Pinned by that; another one goes on unpinned.
    let mut three = Client::open(arbiter.clients).await;
    assert!(three.redis("HELLO 3").await.starts_with('%'));
    three.redis("HSET h f v").await;
    let map = "%1\r\n$1\r\nf\r\n$1\r\nv\r\n";
    eventually("the hash on both servers", || async {
        let replica = servers[1].direct().await.redis("HGETALL h").await;
        (replica != "*0\r\n").then_some(())
    })
    .await;
    for _ in 0..4 {
        assert_eq!(three.redis("HGETALL h").await, map);
        assert_eq!(two.redis("HGETALL h").await, map.replace("%1", "*2"));
        assert_eq!(three.redis("GET none").await, "_\r\n");
        assert_eq!(two.redis("GET none").await, "$-1\r\n");
    }
    // Pushes come to a client that asked for them, on a connection of its own.
    assert_eq!(three.redis("CLIENT TRACKING ON").await, "+OK\r\n");
    assert_eq!(three.redis("GET h2").await, "_\r\n");
    assert_eq!(two.redis("SET h2 x").await, "+OK\r\n");
    assert_eq!(three.reply().await, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nh2\r\n");
    assert!(three.redis("HELLO 2").await.starts_with('*'));
}

#[tokio::test]
async fn a_client_with_a_state_has_the_primary_for_itself() {
    // No replica: what is written has to be read at once.
    let servers = servers(0).await;
    let (arbiter, mut client) = session("redis", 1, &servers).await;
    let mut other = Client::open(arbiter.clients).await;
    client.redis("CLIENT SETNAME me").await;
    // All in one go: what is before the pin is answered first.
    let words = ["SET a 1", "MULTI", "INCR a", "GET a", "EXEC", "CLIENT GETNAME"];
    let all: Vec<u8> = words.iter().flat_map(|words| encode(words)).collect();
    client.send(&all).await;
    for expected in [
        "+OK\r\n",
        "+OK\r\n",
        "+QUEUED\r\n",
        "+QUEUED\r\n",
        "*2\r\n:2\r\n$1\r\n2\r\n",
        "$2\r\nme\r\n",
    ] {
        assert_eq!(client.reply().await, expected);
    }
    assert_eq!(client.redis("SELECT 3").await, "+OK\r\n");
    assert_eq!(client.redis("SET a three").await, "+OK\r\n");
    assert_eq!(other.redis("GET a").await, string("2"), "database 0");
    let mut waiting = Client::open(arbiter.clients).await;
    waiting.send(&encode("BLPOP queue 0")).await;
    let mut listening = Client::open(arbiter.clients).await;
    assert!(listening.redis("SUBSCRIBE c").await.ends_with(":1\r\n"));
    assert_eq!(other.redis("RPUSH queue job").await, ":1\r\n");
    assert_eq!(waiting.reply().await, "*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n");
    assert_eq!(other.redis("PUBLISH c news").await, ":1\r\n");
    assert_eq!(listening.reply().await, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nnews\r\n");
}

#[tokio::test]
async fn pipelined_commands_keep_their_order() {
    let servers = servers(0).await;
    let arbiter = front("redis", 1, &addresses(&servers)).await;
    let tasks = (0..4).map(|task| {
        let address = arbiter.clients;
        tokio::spawn(async move {
            let mut client = Client::open(address).await;
            for round in 0..20 {
                let mut bytes = vec![];
                for number in 0..200 {
                    let key = format!("k{task}-{number}");
                    bytes.extend(encode(&format!("SET {key} {key}-{round}")));
                    bytes.extend(encode(&format!("GET {key}")));
                    bytes.extend(encode(&format!("STRLEN {key}")));
                }
                client.send(&bytes).await;
                for number in 0..200 {
                    let value = format!("k{task}-{number}-{round}");
                    assert_eq!(client.reply().await, "+OK\r\n");
                    assert_eq!(client.reply().await, string(&value));
                    assert_eq!(client.reply().await, format!(":{}\r\n", value.len()));
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(arbiter.stats().await.requests.answered, 4 * 20 * 600);
}

#[tokio::test]
async fn values_of_megabytes_pass_and_larger_ones_are_refused() {
    let servers = servers(0).await;
    let (_arbiter, mut client) = session("redis", 1, &servers).await;
    let large = "x".repeat(8 << 20);
    client.send(&encode(&format!("SET large {large}"))).await;
    assert_eq!(client.reply().await, "+OK\r\n");
    assert_eq!(client.redis("GET large").await, string(&large));
    assert_eq!(client.redis("STRLEN large").await, ":8388608\r\n");
    // 9 values of 8 MiB are more than what is held of a reply.
    let keys = ["large"; 9].join(" ");
    let refused = client.redis(&format!("MGET {keys}")).await;
    assert_eq!(refused, "-ERR arbiter: the server's reply is larger than 64 MiB\r\n");
    assert_eq!(client.redis("STRLEN large").await, ":8388608\r\n");
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\n").await;
    let refused = client.reply().await;
    assert_eq!(refused, "-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(client.reply().await, "<closed>");
}

/// The end of such a reply comes before its client has run again: it is told once, and goes on.
#[tokio::test]
async fn a_reply_that_ends_just_beyond_what_is_held_fails_one_command() {
    let length = (64 << 20) + (4 << 20);
    let reply = format!("${length}\r\n{}\r\n", "x".repeat(length)).leak();
    let faulty = FaultyServer::start(Fault::Sends(reply.as_bytes())).await;
    let arbiter = front("redis", 1, &[faulty.address]).await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..10 {
        let refused = client.redis("GET large").await;
        assert_eq!(refused, "-ERR arbiter: the server's reply is larger than 64 MiB\r\n");
    }
}

#[tokio::test]
async fn clients_that_send_slowly_disconnect_or_send_garbage_disturb_no_other() {
    let servers = servers(0).await;
    let (arbiter, mut slow) = session("redis", 1, &servers).await;
    for byte in encode("SET k slowly") {
        slow.send(&[byte]).await;
    }
    assert_eq!(slow.reply().await, "+OK\r\n");
    for garbage in [
        &b"*1\r\n$-5\r\n"[..],
        b"*2\r\n$3\r\nGET\r\nkey\r\n",
        b"*99999999\r\n",
        b"\x16\x03\x01\x00\xff\r\n",
        b"*1\r\n$4\r\nPINGxx",
    ] {
        let mut client = Client::open(arbiter.clients).await;
        client.send(garbage).await;
        let refused = client.reply().await;
        assert!(refused.starts_with("-ERR Protocol error: "), "{refused}");
        assert_eq!(client.reply().await, "<closed>");
        // In the middle of a command, and with replies on their way.
        let mut gone = Client::open(arbiter.clients).await;
        gone.send(&encode("GET k").repeat(50)).await;
        gone.send(b"*2\r\n$3\r\nGE").await;
        drop(gone);
        assert_eq!(slow.redis("GET k").await, string("slowly"));
    }
    let hasty = front_within(SHORT_LIMIT_MS, "redis", 1, &addresses(&servers)).await;
    let mut stuck = Client::open(hasty.clients).await;
    stuck.send(b"*2\r\n$3\r\nGET\r\n").await;
    assert_eq!(stuck.reply().await, "<closed>", "a half command has a time-out");
}

#[tokio::test]
async fn a_bad_replica_never_makes_a_wrong_reply() {
    let servers = servers(0).await;
    set_everywhere(&servers, "k", "right").await;
    for fault in [
        Fault::Closes(b""),
        Fault::Closes(b"$5\r\nwro"),
        Fault::Closes(b"HTTP/1.1 200 OK\r\n\r\n"),
        Fault::Sends(b"\x00\xff\r\n"),
        Fault::Sends(b"-LOADING Redis is loading\r\n"),
        Fault::Sends(b"-MASTERDOWN Link with MASTER is down\r\n"),
        Fault::Stalls(b"$5\r\nwro"),
    ] {
        let faulty = FaultyServer::start(fault).await;
        let pair = [servers[0].address, faulty.address];
        let arbiter = front_within(fault.limit_ms(), "redis", 2, &pair).await;
        let mut client = Client::open(arbiter.clients).await;
        for _ in 0..5 {
            assert_eq!(client.redis("GET k").await, string("right"), "{fault:?}");
        }
        // All its errors are the server's, whoever answered the client.
        arbiter.until("the bad replica's errors", |stats| stats.servers[1].errors > 0).await;
        assert_eq!(arbiter.stats().await.servers[0].errors, 0);
    }
}

#[tokio::test]
async fn a_bad_server_alone_makes_an_error_and_nothing_else() {
    let table = [
        (Fault::Closes(b""), "the server closed the connection without a reply"),
        (Fault::Closes(b"$5\r\nwro"), "the server closed the connection without a reply"),
        (Fault::Sends(b"garbage\r\n"), "the server's reply was broken"),
        (Fault::Stalls(b"*2\r\n"), "the server did not reply in time"),
    ];
    for (fault, expected) in table {
        let faulty = FaultyServer::start(fault).await;
        let arbiter = front_within(fault.limit_ms(), "redis", 1, &[faulty.address]).await;
        let mut client = Client::open(arbiter.clients).await;
        let error = format!("-ERR arbiter: {expected}\r\n");
        let of_write = format!("-ERR arbiter: {expected}; it may have been executed\r\n");
        assert_eq!(client.redis("SET k v").await, of_write, "{fault:?}");
        if !matches!(fault, Fault::Stalls(_)) {
            assert_eq!(client.redis("GET k").await, error, "{fault:?}");
        }
    }
    let arbiter = front("redis", 1, &[nobody()]).await;
    let mut client = Client::open(arbiter.clients).await;
    let error = "-ERR arbiter: no server could be reached\r\n";
    assert_eq!(client.redis("GET k").await, error);
    // A pipelined batch has as many errors as commands.
    client.send(&encode("SET k v").repeat(3)).await;
    for _ in 0..3 {
        assert_eq!(client.reply().await, NOT_REACHED);
    }
    let pinned = client.redis("MULTI").await;
    assert_eq!(pinned, "-ERR arbiter: the primary could not be reached\r\n");
}

#[tokio::test]
async fn a_server_that_closes_after_each_reply_is_asked_again() {
    let faulty = FaultyServer::start(Fault::Closes(b"$1\r\nx\r\n")).await;
    let arbiter = front("redis", 1, &[faulty.address]).await;
    let mut client = Client::open(arbiter.clients).await;
    for _ in 0..20 {
        assert_eq!(client.redis("GET k").await, string("x"));
    }
}

#[tokio::test]
async fn kills_and_freezes_under_load_leave_every_reply_right() {
    let mut servers = servers(2).await;
    for number in 0..50 {
        let set = format!("SET key{number} value{number}");
        servers[0].direct().await.redis(&set).await;
    }
    set_everywhere(&servers, "last", "one").await;
    let arbiter = front_within(SHORT_LIMIT_MS, "redis", 2, &addresses(&servers)).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let (address, stopped) = (arbiter.clients, stopped.clone());
            tokio::spawn(async move {
                let mut connection = Client::open(address).await;
                let mut answered = 0;
                for number in (client..).map(|number| number % 50) {
                    if *stopped.borrow() {
                        break;
                    }
                    let reply = connection.redis(&format!("GET key{number}")).await;
                    assert_eq!(reply, string(&format!("value{number}")));
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    servers[1].kill();
    arbiter.until("a dead server", |stats| !stats.servers[1].alive).await;
    servers[2].freeze();
    arbiter.until("a frozen server", |stats| !stats.servers[2].alive).await;
    servers[2].thaw();
    arbiter.until_alive(2).await;
    stop.send(true).unwrap();
    for client in clients {
        assert!(client.await.unwrap() > 0);
    }
    // The primary is away: reads go on, writes say so, and it comes back.
    servers[0].kill();
    let mut client = Client::open(arbiter.clients).await;
    eventually("a write refused", || async {
        let mut client = Client::open(arbiter.clients).await;
        let refused = client.redis("SET k v").await;
        (refused == NOT_REACHED).then_some(())
    })
    .await;
    assert_eq!(client.redis("GET key1").await, string("value1"));
    servers[0].restart();
    arbiter.until_alive(0).await;
    assert_eq!(client.redis("SET k v").await, "+OK\r\n");
}

#[tokio::test]
async fn a_read_that_a_server_cannot_do_now_is_asked_of_another() {
    for said in [
        &b"-MASTERDOWN Link with MASTER is down\r\n"[..],
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
    ] {
        let primary = Server::redis().await;
        let (one, two) = (
            FaultyServer::start(Fault::Sends(said)).await,
            FaultyServer::start(Fault::Sends(said)).await,
        );
        let well = front("redis", 1, &[primary.address, one.address]).await;
        let mut client = Client::open(well.clients).await;
        assert_eq!(client.redis("SET k v").await, "+OK\r\n");
        for _ in 0..20 {
            assert_eq!(client.redis("GET k").await, string("v"));
        }
        let stats = well.stats().await;
        assert_eq!(stats.requests.failed, 0);
        assert!(stats.servers[1].requests > 0, "it was asked");
        let ill = front("redis", 1, &[one.address, two.address]).await;
        let mut client = Client::open(ill.clients).await;
        assert_eq!(client.redis("GET k").await.as_bytes(), said, "nobody is well");
        assert_eq!(ill.stats().await.replicas_sent, 2);
    }
}
