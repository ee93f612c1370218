//! The list of servers changed by SIGHUP, with the program and real servers.

use std::net::SocketAddr;

use crate::support::keyvalue::{Client, Server};
use crate::support::program::Program;
use crate::support::upstream::{nobody, ok, Behaviour, Upstream};
use crate::support::web::{get, put, Connection};
use crate::support::{eventually, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A program and the file that it was started with.
struct Reloaded {
    program: Program,
    file: tempfile::NamedTempFile,
    settings: String,
}

fn text(settings: &str, servers: &[(&str, SocketAddr)]) -> String {
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"t\"\n\
         connect_timeout_ms = 500\n{settings}\n"
    );
    for (name, address) in servers {
        text += &format!("[[servers]]\nname = \"{name}\"\naddress = \"{address}\"\n");
    }
    text
}

impl Reloaded {
    fn start(settings: String, servers: &[(&str, SocketAddr)]) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text(&settings, servers)).unwrap();
        Self {
            program: Program::start(&file),
            file,
            settings,
        }
    }

    /// Its reply to other servers.
    fn reload(&mut self, servers: &[(&str, SocketAddr)]) -> String {
        std::fs::write(self.file.path(), text(&self.settings, servers)).unwrap();
        self.program.signal("HUP");
        self.program.lines.next().unwrap().unwrap()
    }

    async fn stats(&self) -> wire::arbiter::Stats {
        serde_json::from_slice(&get(self.program.admin, "/v1/stats").await.body).unwrap()
    }

    async fn until(&self, what: &str, wanted: impl Fn(&wire::arbiter::Stats) -> bool) {
        eventually(what, || async { wanted(&self.stats().await).then_some(()) }).await;
    }

    /// Waits until the server is in use.
    async fn until_alive(&self, name: &str) {
        let alive = |stats: &wire::arbiter::Stats| {
            let mut servers = stats.servers.iter();
            servers.any(|server| server.name == name && server.alive)
        };
        self.until("the new server", alive).await;
    }
}

fn of(policy: &str, replicas: usize) -> String {
    settings("http", policy, replicas, 4)
}

#[tokio::test]
async fn a_new_server_comes_in_when_it_answers_and_a_removed_one_gets_nothing_more() {
    for policy in ["round-robin", "tad", "peak-ewma"] {
        let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
        let two = Upstream::start(Behaviour::Reply(ok("two"))).await;
        let three = Upstream::start(Behaviour::Reply(ok("three"))).await;
        let mut arbiter = Reloaded::start(of(policy, 1), &[("a", one.address), ("b", two.address)]);
        // One client's connection, which does not notice.
        let mut client = Connection::open(arbiter.program.clients).await;
        for _ in 0..10 {
            assert_eq!(client.get("/").await.status, 200);
        }
        let said = arbiter.reload(&[("a", one.address), ("c", three.address)]);
        assert!(said.contains("is in force"), "{said}");
        arbiter.until_alive("c").await;
        let before = two.requests().len();
        let mut texts = vec![];
        for _ in 0..20 {
            texts.push(client.get("/").await.text());
        }
        assert!(texts.contains(&"three".to_owned()), "{policy}: {texts:?}");
        assert_eq!(two.requests().len(), before, "{policy}");
        let stats = arbiter.stats().await;
        let names: Vec<_> = stats.servers.iter().map(|it| &it.name[..]).collect();
        assert_eq!(names, ["a", "c"]);
        let unknown = put(arbiter.program.admin, "/v1/servers/b", "{\"up\":true}").await;
        assert_eq!(unknown.status, 404, "it is no more");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_yet_gets_nothing_until_it_does() {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let address = nobody();
    let mut arbiter = Reloaded::start(of("round-robin", 1), &[("a", one.address)]);
    arbiter.reload(&[("a", one.address), ("b", address)]);
    for _ in 0..6 {
        assert_eq!(get(arbiter.program.clients, "/").await.text(), "one");
    }
    let errors = arbiter.stats().await.servers[1].errors;
    assert_eq!(errors, 0, "no request was spent on it");
    let _two = Upstream::start_at(address, Behaviour::Reply(ok("two")));
    arbiter.until_alive("b").await;
}

#[tokio::test]
async fn what_is_under_way_at_a_removed_server_is_finished_and_its_place_is_given_away() {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let gated = Upstream::start(Behaviour::Gated(ok("the last"))).await;
    let three = Upstream::start(Behaviour::Reply(ok("three"))).await;
    let servers = [("a", gated.address), ("b", one.address)];
    let mut arbiter = Reloaded::start(of("round-robin", 1), &servers);
    let mut client = Connection::open(arbiter.program.clients).await;
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    eventually("the request at the server", || async {
        (gated.requests().len() == 1).then_some(())
    })
    .await;
    assert!(arbiter
        .reload(&[("b", one.address)])
        .contains("is in force"));
    // Of four places its own is not free as long as somebody waits there.
    let fresh = [
        ("b", one.address),
        ("c", three.address),
        ("d", nobody()),
        ("e", nobody()),
    ];
    let said = arbiter.reload(&fresh);
    assert!(
        said.contains("servers: expected at most 2 new ones"),
        "{said}"
    );
    assert_eq!(get(arbiter.program.clients, "/").await.text(), "one");
    gated.gate.add_permits(1);
    let reply = client.reply(false).await.unwrap();
    assert_eq!(
        (reply.text(), reply.server()),
        ("the last".into(), "a".into())
    );
    arbiter
        .until("the request's end", |stats| stats.tokens.in_use == 0)
        .await;
    let said = arbiter.reload(&fresh);
    assert!(said.contains("is in force"), "{said}");
    arbiter.until_alive("c").await;
    let stats = arbiter.stats().await;
    let new = stats.servers.iter().find(|it| it.name == "c").unwrap();
    assert_eq!(
        (new.requests, new.wins),
        (0, 0),
        "counted from its own beginning"
    );
}

#[tokio::test]
async fn a_server_that_moves_keeps_its_name_and_its_old_connections_are_not_used_again() {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let two = Upstream::start(Behaviour::Reply(ok("two"))).await;
    let mut arbiter = Reloaded::start(of("tad", 1), &[("a", one.address)]);
    let mut client = Connection::open(arbiter.program.clients).await;
    assert_eq!(client.get("/").await.text(), "one");
    arbiter.reload(&[("a", two.address)]);
    arbiter.until_alive("a").await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.text(), "two");
    }
    assert_eq!(one.requests().len(), 1);
    assert!(
        arbiter.stats().await.servers[0].wins >= 4,
        "it is who it was"
    );
}

#[tokio::test]
async fn a_bad_list_is_refused_whole() {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let mut arbiter = Reloaded::start(of("tad", 1), &[("a", one.address)]);
    for (servers, expected) in [
        (
            vec![("b", one.address), ("c", one.address)],
            "servers[1].address",
        ),
        (vec![("b", one.address), ("b", nobody())], "servers[1].name"),
        (
            vec![("b", nobody()), ("c", nobody()), ("d", nobody())],
            "servers: expected at most",
        ),
    ] {
        let said = arbiter.reload(&servers);
        let refused = said.contains("the old configuration goes on");
        assert!(refused && said.contains(expected), "{said}");
        assert_eq!(arbiter.stats().await.servers[0].name, "a");
        assert_eq!(get(arbiter.program.clients, "/").await.text(), "one");
    }
}

#[tokio::test]
async fn a_connection_through_a_removed_server_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let two = Upstream::start(Behaviour::Silent).await;
    let mut arbiter = Reloaded::start(
        settings("tcp", "round-robin", 1, 4),
        &[("a", address), ("b", two.address)],
    );
    let mut client = TcpStream::connect(arbiter.program.clients).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    arbiter.reload(&[("b", two.address)]);
    client.write_all(b"ping").await.unwrap();
    let mut bytes = [0; 4];
    server.read_exact(&mut bytes).await.unwrap();
    server.write_all(b"pong").await.unwrap();
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"pong");
}

#[tokio::test]
async fn a_redis_replica_comes_and_goes_and_the_primary_stays_the_first() {
    let primary = Server::redis().await;
    let replica = Server::replica_of(&primary).await;
    let mut arbiter = Reloaded::start(
        settings("redis", "round-robin", 1, 64),
        &[("p", primary.address)],
    );
    let mut client = Client::open(arbiter.program.clients).await;
    client.redis("GET k").await;
    let said = arbiter.reload(&[("r", replica.address), ("p", primary.address)]);
    assert!(
        said.contains("servers[0]: expected \"p\", the primary"),
        "{said}"
    );
    arbiter.reload(&[("p", primary.address), ("r", replica.address)]);
    arbiter.until_alive("r").await;
    for _ in 0..4 {
        client.redis("GET k").await;
    }
    let asked = replica.calls("get").await;
    assert!(asked > 0);
    arbiter.reload(&[("p", primary.address)]);
    for _ in 0..4 {
        client.redis("GET k").await;
    }
    assert_eq!(replica.calls("get").await, asked);
}

#[tokio::test]
async fn a_new_cache_is_emptied_before_it_is_in() {
    let (one, two) = (Server::memcached().await, Server::memcached().await);
    assert_eq!(
        two.direct().await.ask("set k 0 0 5\r\nstale").await,
        "STORED"
    );
    let mut arbiter = Reloaded::start(
        settings("memcached", "round-robin", 1, 64),
        &[("a", one.address)],
    );
    let mut client = Client::open(arbiter.program.clients).await;
    assert_eq!(client.ask("set k 0 0 3\r\nnew").await, "STORED");
    arbiter.reload(&[("a", one.address), ("b", two.address)]);
    arbiter.until_alive("b").await;
    for _ in 0..4 {
        let found = client.list("get k").await;
        assert!(found == ["END"] || found[1] == "new", "{found:?}");
    }
}
