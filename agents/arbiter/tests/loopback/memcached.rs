//! The memcached arbiter in front of real servers that hold the same cache.

use crate::support::keyvalue::{
    addresses, front, front_within, session, Client, Fault, FaultyServer, Server, SHORT_LIMIT_MS,
};
use crate::support::upstream::nobody;
use crate::support::{eventually, settings, start};

async fn servers(count: usize) -> Vec<Server> {
    let mut servers = vec![];
    for _ in 0..count {
        servers.push(Server::memcached().await);
    }
    servers
}

/// A server's contents, asked around the arbiter.
async fn held(server: &Server, key: &str) -> Option<String> {
    let lines = server.direct().await.list(&format!("get {key}")).await;
    lines.get(1).filter(|_| lines.len() == 3).cloned()
}

async fn set(client: &mut Client, key: &str, value: &str) -> String {
    client.ask(&format!("set {key} 0 0 {}\r\n{value}", value.len())).await
}

#[tokio::test]
async fn writes_reach_all_servers_and_reads_are_cloned() {
    let servers = servers(3).await;
    let (arbiter, mut client) = session("memcached", 2, &servers).await;
    for number in 0..20 {
        let (key, value) = (format!("key{number}"), format!("value{number}"));
        assert_eq!(set(&mut client, &key, &value).await, "STORED");
        for server in &servers {
            assert_eq!(held(server, &key).await.as_deref(), Some(&*value));
        }
        let head = format!("VALUE {key} 0 {}", value.len());
        let got = client.list(&format!("get none {key}")).await;
        assert_eq!(got, [&head[..], &value, "END"]);
    }
    let stats = arbiter.until("the losers", |stats| stats.replicas_wasted == 20).await;
    assert_eq!((stats.requests.received, stats.requests.answered), (40, 40));
    assert_eq!((stats.requests.cloned, stats.requests.failed), (20, 0));
    assert_eq!(stats.replicas_sent, 20 * 3 + 20 * 2);
    assert!(stats.servers.iter().all(|server| server.requests >= 30));
}

#[tokio::test]
async fn every_command_gets_its_own_reply() {
    let servers = servers(2).await;
    let (_arbiter, mut client) = session("memcached", 2, &servers).await;
    for (line, expected) in [
        ("add n 0 0 1\r\n5", "STORED"),
        ("add n 0 0 1\r\n6", "NOT_STORED"),
        ("incr n 10", "15"),
        ("decr n 6", "9"),
        ("incr n x", "CLIENT_ERROR invalid numeric delta argument"),
        ("append n 0 0 1\r\n7", "STORED"),
        ("prepend none 0 0 1\r\n7", "NOT_STORED"),
        ("replace none 0 0 1\r\n7", "NOT_STORED"),
        ("touch n 100", "TOUCHED"),
        ("delete none", "NOT_FOUND"),
        ("mg none v", "EN"),
        ("ms m 2 F7\r\nhi", "HD"),
        ("ms m 1 MA\r\n!", "HD"),
        ("mg m f v k", "VA 3 f7 km"),
    ] {
        assert_eq!(client.ask(line).await, expected, "{line}");
    }
    assert_eq!(client.line().await, "hi!");
    for (line, expected) in [
        ("ma m", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("ma n D5", "HD"),
        ("md m", "HD"),
        ("md m", "NF"),
        ("nonsense", "SERVER_ERROR not offered by the arbiter"),
        ("watch fetchers", "SERVER_ERROR not offered by the arbiter"),
        ("verbosity 1", "SERVER_ERROR not offered by the arbiter"),
        ("flush_all", "OK"),
        ("mg n v", "EN"),
    ] {
        assert_eq!(client.ask(line).await, expected, "{line}");
    }
    assert!(client.ask("version").await.starts_with("VERSION 1."));
    assert!(client.list("stats").await.len() > 20);
    client.send(b"quit\r\n").await;
    assert_eq!(client.line().await, "<closed>");
}

#[tokio::test]
async fn quiet_commands_and_no_ops_are_answered_in_order() {
    let servers = servers(2).await;
    let (arbiter, mut client) = session("memcached", 2, &servers).await;
    client
        .send(b"set a 0 0 1 noreply\r\n1\r\nset b 0 0 1 noreply\r\n2\r\nset c 0 0 1\r\n3\r\n")
        .await;
    assert_eq!(client.line().await, "STORED");
    client
        .send(b"mg a q k v\r\nmg x q k v\r\nmg b q k v\r\nmn\r\nmg y q v\r\nmn\r\nmg c v\r\n")
        .await;
    for expected in ["VA 1 ka", "1", "VA 1 kb", "2", "MN", "MN", "VA 1", "3"] {
        assert_eq!(client.line().await, expected);
    }
    client.send(b"ms d 1 q\r\n4\r\nmd a q\r\nmn\r\nincr b 1 noreply\r\nget a b d\r\n").await;
    for expected in ["MN", "VALUE b 0 1", "3", "VALUE d 0 1", "4", "END"] {
        assert_eq!(client.line().await, expected);
    }
    // Quiet, and with nothing after it that would bring a reply.
    client.send(b"flush_all noreply\r\n").await;
    assert_eq!(client.list("get b").await, ["END"]);
    assert_eq!(arbiter.stats().await.requests.failed, 0);
}

#[tokio::test]
async fn servers_that_disagree_lose_the_key_and_never_keep_an_old_value() {
    let servers = servers(3).await;
    let (_arbiter, mut client) = session("memcached", 1, &servers).await;
    for key in ["add", "incr", "YWI="] {
        let mut direct = servers[1].direct().await;
        let flags = if key == "YWI=" { " b" } else { "" };
        assert_eq!(direct.ask(&format!("ms {key} 1{flags}\r\n1")).await, "HD");
    }
    // The reference does not have them: one server says something else.
    assert_eq!(client.ask("add add 0 0 1\r\n7").await, "STORED");
    assert_eq!(held(&servers[1], "add").await, None);
    assert_eq!(held(&servers[2], "add").await.as_deref(), Some("7"));
    assert_eq!(client.ask("incr incr 1").await, "NOT_FOUND");
    assert_eq!(held(&servers[1], "incr").await, None);
    client.send(b"ms YWI= 1 b ME\r\n7\r\nmn\r\n").await;
    assert_eq!((client.line().await, client.line().await), ("HD".into(), "MN".into()));
    assert_eq!(held(&servers[1], "ab").await, None);
    assert_eq!(held(&servers[0], "ab").await.as_deref(), Some("7"));
}

#[tokio::test]
async fn cas_is_decided_by_one_server_and_the_others_forget() {
    let servers = servers(2).await;
    // The CAS values of the two are not the same.
    servers[0].direct().await.ask("set x 0 0 1\r\n1").await;
    let (_arbiter, mut client) = session("memcached", 2, &servers).await;
    set(&mut client, "k", "one").await;
    for _ in 0..4 {
        let lines = client.list("gets k").await;
        let cas = lines[0].rsplit(' ').next().unwrap().to_owned();
        assert_eq!(client.ask(&format!("cas k 0 0 3 {cas}\r\ntwo")).await, "STORED");
        assert_eq!(client.ask(&format!("cas k 0 0 3 {cas}\r\nbad")).await, "EXISTS");
        assert_eq!(held(&servers[0], "k").await.as_deref(), Some("two"));
        assert_eq!(held(&servers[1], "k").await, None);
        let meta = client.ask("mg k c").await;
        let cas = meta.strip_prefix("HD c").unwrap().to_owned();
        assert_eq!(client.ask(&format!("ms k 5 C{cas}\r\nthree")).await, "HD");
        assert_eq!(client.ask(&format!("md k C{cas}")).await, "EX");
        assert_eq!(held(&servers[0], "k").await.as_deref(), Some("three"));
        assert_eq!(set(&mut client, "k", "one").await, "STORED");
        assert_eq!(held(&servers[1], "k").await.as_deref(), Some("one"));
    }
}

#[tokio::test]
async fn a_server_that_missed_writes_is_emptied_before_it_is_used_again() {
    let mut servers = servers(2).await;
    let arbiter = front_within(SHORT_LIMIT_MS, "memcached", 1, &addresses(&servers)).await;
    let mut client = Client::open(arbiter.clients).await;
    assert_eq!(set(&mut client, "k", "old").await, "STORED");
    assert_eq!(set(&mut client, "other", "kept").await, "STORED");
    servers[1].freeze();
    // Answered by the other, once the frozen one is given up.
    assert_eq!(set(&mut client, "k", "new").await, "STORED");
    assert!(!arbiter.server(1).await.alive);
    assert_eq!(set(&mut client, "k", "newer").await, "STORED");
    servers[1].thaw();
    arbiter.until_alive(1).await;
    assert_eq!(held(&servers[1], "k").await, None);
    assert_eq!(held(&servers[1], "other").await, None);
    for _ in 0..6 {
        let got = client.list("get k").await;
        assert!(got == ["END"] || got[1] == "newer", "{got:?}");
    }
    // The reference dies: a CAS value of its own is refused, the other one takes over.
    client.list("gets k").await;
    servers[0].kill();
    eventually("the write to go through", || async {
        let mut client = Client::open(arbiter.clients).await;
        (set(&mut client, "k", "newest").await == "STORED").then_some(())
    })
    .await;
    let refused = client.ask("cas k 0 0 3 1\r\nbad").await;
    assert_eq!(
        refused,
        "SERVER_ERROR arbiter: the CAS value is of another server; it was not executed"
    );
    assert_eq!(held(&servers[1], "k").await.as_deref(), Some("newest"));
    servers[0].restart();
    arbiter.until_alive(0).await;
    assert_eq!(set(&mut client, "k", "last").await, "STORED");
    for server in &servers {
        assert_eq!(held(server, "k").await.as_deref(), Some("last"));
    }
}

#[tokio::test]
async fn large_values_pass_and_larger_ones_are_refused() {
    let servers = servers(2).await;
    let (_arbiter, mut client) = session("memcached", 2, &servers).await;
    let large = "x".repeat(8 << 20);
    assert_eq!(set(&mut client, "large", &large).await, "STORED");
    assert_eq!(client.list("get large").await[1], large);
    let refused = set(&mut client, "k", &"x".repeat(17 << 20)).await;
    assert_eq!(refused, "SERVER_ERROR object too large for cache");
    assert_eq!(client.ask("mg none").await, "EN", "the item was skipped");
    let refused = client.ask("set k 0 0 70000000").await;
    assert_eq!(refused, "SERVER_ERROR object too large for the arbiter");
    assert_eq!(client.line().await, "<closed>");
}

#[tokio::test]
async fn clients_that_send_slowly_disconnect_or_send_garbage_disturb_no_other() {
    let servers = servers(1).await;
    let (arbiter, mut slow) = session("memcached", 1, &servers).await;
    for byte in b"set k 0 0 4\r\nd\r\nd\r\n" {
        slow.send(&[*byte]).await;
    }
    assert_eq!(slow.line().await, "STORED");
    for garbage in [
        &b"set k 0 0\r\n"[..],
        b"set k 0 0 3\r\nabcde\r\n",
        b"\x80\x00\x00\x00",
        b"get \x01\r\n",
        b"set k 0 0 -5\r\nflush_all\r\n",
    ] {
        let mut client = Client::open(arbiter.clients).await;
        client.send(garbage).await;
        let refused = client.line().await;
        assert!(refused.contains("_ERROR "), "{refused}");
        assert_eq!(client.line().await, "<closed>");
        let mut gone = Client::open(arbiter.clients).await;
        gone.send(&b"get k\r\n".repeat(50)).await;
        gone.send(b"set k 0 0 100\r\nabc").await;
        drop(gone);
        assert_eq!(slow.list("get k").await, ["VALUE k 0 4", "d", "d", "END"]);
    }
}

#[tokio::test]
async fn bad_servers_make_errors_and_never_a_wrong_reply() {
    let table = [
        (Fault::Closes(b""), "the server closed the connection without a reply"),
        (Fault::Closes(b"VALUE k 0 5\r\nwro"), "the server closed the connection without a reply"),
        (Fault::Sends(b"+garbage\r\n"), "the server's reply was broken"),
        (Fault::Stalls(b"VALUE k 0 5\r\n"), "the server did not reply in time"),
    ];
    for (fault, expected) in table {
        let good = Server::memcached().await;
        let faulty = FaultyServer::start(fault).await;
        let arbiter = front("memcached", 2, &[good.address, faulty.address]).await;
        let mut client = Client::open(arbiter.clients).await;
        good.direct().await.ask("set k 0 0 5\r\nright").await;
        for _ in 0..5 {
            let got = client.list("get k").await;
            assert_eq!(got, ["VALUE k 0 5", "right", "END"], "{fault:?}");
        }
        let arbiter = front_within(fault.limit_ms(), "memcached", 1, &[faulty.address]).await;
        let mut client = Client::open(arbiter.clients).await;
        let error = client.ask("get k").await;
        assert_eq!(error, format!("SERVER_ERROR arbiter: {expected}"), "{fault:?}");
    }
    let arbiter = front("memcached", 1, &[nobody()]).await;
    let mut client = Client::open(arbiter.clients).await;
    client.send(b"set k 0 0 1\r\nx\r\nset k 0 0 1\r\nx\r\n").await;
    for _ in 0..2 {
        let error = client.line().await;
        assert_eq!(error, "SERVER_ERROR arbiter: no server could be reached; it was not executed");
    }
    // Silence would mean that it was stored.
    client.send(b"ms k 1 q\r\nx\r\n").await;
    assert_eq!(
        client.line().await,
        "SERVER_ERROR arbiter: no server is alive; it was not executed"
    );
    assert_eq!(client.line().await, "<closed>");
}

#[tokio::test]
async fn many_clients_write_and_read_their_own_and_servers_stay_equal() {
    let servers = servers(3).await;
    let arbiter = front("memcached", 2, &addresses(&servers)).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let address = arbiter.clients;
            tokio::spawn(async move {
                let mut client = Client::open(address).await;
                for round in 0..100 {
                    let mut bytes = String::new();
                    for number in 0..10 {
                        let value = format!("{task}-{number}-{round}");
                        let length = value.len();
                        bytes += &format!("set k{task}-{number} 0 0 {length}\r\n{value}\r\n");
                        bytes += &format!("set shared 0 0 {length}\r\n{value}\r\n");
                        bytes += &format!("mg k{task}-{number} v k\r\n");
                    }
                    client.send(bytes.as_bytes()).await;
                    for number in 0..10 {
                        let value = format!("{task}-{number}-{round}");
                        assert_eq!(client.line().await, "STORED");
                        assert_eq!(client.line().await, "STORED");
                        let head = format!("VA {} kk{task}-{number}", value.len());
                        assert_eq!((client.line().await, client.line().await), (head, value));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let shared = held(&servers[0], "shared").await;
    assert!(shared.is_some());
    for server in &servers[1..] {
        assert_eq!(held(server, "shared").await, shared, "all saw the same order");
    }
    let stats = arbiter.stats().await;
    assert_eq!((stats.requests.answered, stats.requests.failed), (24_000, 0));
}

#[tokio::test]
async fn a_life_that_gats_changes_is_changed_nowhere_only_in_part() {
    let servers = servers(2).await;
    let (_arbiter, mut client) = session("memcached", 1, &servers).await;
    for key in ["a", "b"] {
        assert_eq!(set(&mut client, key, "v").await, "STORED");
    }
    let got = client.list("gats 1000 a b").await;
    assert_eq!((got.len(), got[4].as_str()), (5, "END"));
    for key in ["a", "b"] {
        assert_eq!(held(&servers[0], key).await.as_deref(), Some("v"));
        assert_eq!(held(&servers[1], key).await, None, "or it would live on");
    }
    assert_eq!(client.list("gats 1000 none").await, ["END"]);
}

#[tokio::test]
async fn a_get_of_any_length_is_answered() {
    let servers = servers(2).await;
    let (_arbiter, mut client) = session("memcached", 2, &servers).await;
    let key = |number: usize| format!("key-{number:080}");
    for number in [0, 3_999] {
        assert_eq!(set(&mut client, &key(number), "v").await, "STORED");
    }
    let keys: Vec<String> = (0..4_000).map(key).collect();
    let got = client.list(&format!("get {}", keys.join(" "))).await;
    assert_eq!((got.len(), got[0].as_str()), (5, format!("VALUE {} 0 1", key(0)).as_str()));
    assert_eq!(set(&mut client, "a", "b").await, "STORED", "it goes on");
}

#[tokio::test]
async fn a_miss_is_asked_of_another_server_where_that_is_wanted() {
    let servers = servers(2).await;
    for (miss, found) in [("ask", 20), ("pass", 10)] {
        let settings = settings("memcached", "round-robin", 1, 64);
        let more = format!("memcached.miss = \"{miss}\"\n");
        let arbiter = start(&(settings + &more), &addresses(&servers)).await;
        let mut client = Client::open(arbiter.clients).await;
        assert_eq!(set(&mut client, "k", "v").await, "STORED");
        assert_eq!(servers[1].direct().await.ask("delete k").await, "DELETED");
        let mut hits = 0;
        for _ in 0..20 {
            hits += usize::from(client.list("get k").await.len() == 3);
        }
        assert_eq!(hits, found, "{miss}");
        assert_eq!(client.list("get none k").await.len(), 3);
        assert_eq!(client.list("get none").await, ["END"]);
    }
}
