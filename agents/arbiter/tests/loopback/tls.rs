//! TLS towards clients and servers, with certificates made here and real handshakes.

use std::io;

use crate::support::certs::{ask, Authority};
use crate::support::keyvalue::{encode, string, Server};
use crate::support::program::Program;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::web::get;
use crate::support::{settings, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn tls(files: &crate::support::certs::Files) -> String {
    format!("tls = {{ {} }}\n", files.toml())
}

#[tokio::test]
async fn clients_come_by_tls_and_servers_are_told_so() {
    let authority = Authority::new();
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let two = Upstream::start(Behaviour::Reply(ok("one"))).await;
    for replicas in [1, 2] {
        let settings = settings("http", "round-robin", replicas, 4)
            + "forwarded = \"replace\"\n"
            + &tls(&authority.server("arbiter.test"));
        let arbiter = start(&settings, &[one.address, two.address]).await;
        let mut client = authority
            .connect(arbiter.clients, "arbiter.test", None)
            .await
            .unwrap();
        let reply = ask(&mut client, "GET", "/").await.unwrap();
        assert!(
            reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("one"),
            "{reply}"
        );
    }
    let told = one.requests().swap_remove(0);
    assert!(told.contains("\r\nX-Forwarded-Proto: https\r\n"), "{told}");
}

#[tokio::test]
async fn a_client_that_does_not_speak_tls_or_trusts_another_holds_nobody_up() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let settings = settings("http", "tad", 1, 1) + &tls(&authority.server("arbiter.test"));
    let arbiter = start(&settings, &[one.address]).await;
    let mut silent = TcpStream::connect(arbiter.clients).await.unwrap();
    let mut plain = TcpStream::connect(arbiter.clients).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let mut bytes = vec![];
    // An alert and the end, or a reset.
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP"));
    let distrusts = stranger
        .connect(arbiter.clients, "arbiter.test", None)
        .await;
    assert_eq!(distrusts.err().unwrap().kind(), io::ErrorKind::InvalidData);
    let mut client = authority
        .connect(arbiter.clients, "arbiter.test", None)
        .await
        .unwrap();
    assert!(ask(&mut client, "GET", "/").await.unwrap().ends_with("one"));
    assert_eq!(one.requests().len(), 1);
    silent.write_all(b"x").await.unwrap();
}

/// Larger than what sockets and the arbiter take at once.
fn large() -> String {
    (0..4_000_000u32)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect()
}

#[tokio::test]
async fn large_bodies_pass_both_ways_whole() {
    let authority = Authority::new();
    let body = large();
    let one = Upstream::start(Behaviour::Reply(ok(&body))).await;
    let behind = authority
        .in_front_of(one.address, &authority.server("127.0.0.1"), false)
        .await;
    let settings = settings("http", "tad", 1, 1)
        + &tls(&authority.server("arbiter.test"))
        + &format!("server_tls = {{ ca = {:?} }}\n", authority.ca);
    let arbiter = start(&settings, &[behind]).await;
    let mut client = authority
        .connect(arbiter.clients, "arbiter.test", None)
        .await
        .unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(body.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let mut reply = vec![];
    client.read_to_end(&mut reply).await.unwrap();
    assert!(reply.ends_with(body.as_bytes()), "{} bytes", reply.len());
    assert!(one.requests()[0].ends_with(&body));
}

#[tokio::test]
async fn servers_prove_who_they_are_and_their_connections_are_kept() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let good = authority.server("web.test");
    for (by, files, name, is_met) in [
        (&authority, &good, "web.test", true),
        (&authority, &good, "other.test", false),
        (&stranger, &stranger.server("web.test"), "web.test", false),
    ] {
        let behind = by.in_front_of(one.address, files, false).await;
        let settings = settings("http", "tad", 1, 1)
            + &format!(
                "server_tls = {{ ca = {:?}, name = {name:?} }}\n",
                authority.ca
            );
        let arbiter = start(&settings, &[behind]).await;
        for _ in 0..3 {
            let status = get(arbiter.clients, "/").await.status;
            assert_eq!(status == 200, is_met, "{name}: {status}");
        }
        let server = arbiter.server(0).await;
        assert_eq!(server.alive, is_met);
        assert_eq!(server.connections_opened, u64::from(is_met));
    }
    assert_eq!(one.requests().len(), 3);
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let authority = Authority::new();
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let behind = authority
        .in_front_of(one.address, &authority.server("127.0.0.1"), true)
        .await;
    let own = format!(", {}", authority.client().toml());
    for (own, is_met) in [("", false), (&own[..], true)] {
        let settings = settings("http", "tad", 1, 1)
            + &format!("server_tls = {{ ca = {:?}{own} }}\n", authority.ca);
        let arbiter = start(&settings, &[behind]).await;
        let reply = get(arbiter.clients, "/").await;
        assert_eq!(reply.text() == "one", is_met, "{}", reply.status);
    }
}

#[tokio::test]
async fn any_protocol_passes_through_tls_and_either_side_may_end_first() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![];
        stream.read_to_end(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    });
    let settings = settings("tcp", "round-robin", 1, 1) + &tls(&authority.server("arbiter.test"));
    let arbiter = start(&settings, &[address]).await;
    let client = authority
        .connect(arbiter.clients, "arbiter.test", None)
        .await
        .unwrap();
    let (mut reads, mut writes) = tokio::io::split(client);
    let sent = large();
    let sending = sent.clone();
    let writing = tokio::spawn(async move {
        writes.write_all(sending.as_bytes()).await.unwrap();
        writes.shutdown().await.unwrap();
    });
    let mut received = vec![];
    reads.read_to_end(&mut received).await.unwrap();
    writing.await.unwrap();
    assert!(received == sent.as_bytes(), "{} bytes", received.len());
}

#[tokio::test]
async fn redis_clients_come_by_tls_pinned_or_not() {
    let authority = Authority::new();
    let server = Server::redis().await;
    let settings = settings("redis", "round-robin", 1, 64) + &tls(&authority.server("r.test"));
    let arbiter = start(&settings, &[server.address]).await;
    let mut client = authority
        .connect(arbiter.clients, "r.test", None)
        .await
        .unwrap();
    let value = large();
    for (words, reply) in [
        (format!("SET k {value}"), "+OK\r\n".to_owned()),
        ("GET k".to_owned(), string(&value)),
        ("SELECT 1".to_owned(), "+OK\r\n".to_owned()),
        (format!("SET l {value}"), "+OK\r\n".to_owned()),
        ("GET l".to_owned(), string(&value)),
    ] {
        client.write_all(&encode(&words)).await.unwrap();
        client.flush().await.unwrap();
        let mut bytes = vec![0; reply.len()];
        client.read_exact(&mut bytes).await.unwrap();
        assert!(bytes == reply.as_bytes(), "{:.20}", words);
    }
}

#[tokio::test]
async fn at_sighup_a_new_certificate_is_shown_and_a_bad_one_is_not() {
    let authority = Authority::new();
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let files = authority.server("old.test");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"t\"\n{}{}\
         [[servers]]\nname = \"a\"\naddress = \"{}\"\n",
        settings("http", "tad", 1, 1),
        tls(&files),
        one.address
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut program = Program::start(&file);
    let clients = program.clients;
    let meet = |name: &'static str| authority.connect(clients, name, None);
    let mut before = meet("old.test").await.unwrap();
    assert!(meet("new.test").await.is_err());
    // The same files, with another name in them.
    let fresh = authority.server("new.test");
    std::fs::copy(&fresh.cert, &files.cert).unwrap();
    program.signal("HUP");
    let said = program.lines.next().unwrap().unwrap();
    assert!(
        said.contains("the old configuration goes on") && said.contains("tls"),
        "{said}"
    );
    assert!(
        meet("old.test").await.is_ok(),
        "the key is not that certificate's"
    );
    std::fs::copy(&fresh.key, &files.key).unwrap();
    program.signal("HUP");
    let said = program.lines.next().unwrap().unwrap();
    assert!(said.contains("is in force"), "{said}");
    let mut after = meet("new.test").await.unwrap();
    assert!(ask(&mut after, "GET", "/").await.unwrap().ends_with("one"));
    assert!(
        ask(&mut before, "GET", "/").await.unwrap().ends_with("one"),
        "it stays"
    );
}

#[tokio::test]
async fn files_that_cannot_work_are_refused_with_their_key() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (good, other) = (authority.server("a.test"), stranger.server("a.test"));
    let missing = std::path::Path::new("/dev/null/a.pem");
    let check = |protocol: &str, more: &str| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"t\"\n{}{more}\n\
             [[servers]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n",
            settings(protocol, "tad", 1, 1)
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_arbiter"))
            .args(["--check", "--config"])
            .arg(file.path())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(check("http", &tls(&good)), (Some(0), String::new()));
    let (cert, key) = (&good.cert, &other.key);
    for (protocol, more, expected) in [
        (
            "http",
            format!("tls = {{ cert = {missing:?}, key = {key:?} }}"),
            "tls.cert: /dev/null/a.pem",
        ),
        (
            "http",
            format!("tls = {{ cert = {cert:?}, key = {cert:?} }}"),
            "tls.key",
        ),
        (
            "http",
            format!("tls = {{ cert = {cert:?}, key = {key:?} }}"),
            "tls: expected",
        ),
        (
            "http",
            format!("server_tls = {{ ca = {key:?} }}"),
            "server_tls.ca",
        ),
        (
            "http",
            format!("server_tls = {{ ca = {cert:?}, cert = {cert:?} }}"),
            "server_tls: expected both",
        ),
        (
            "http",
            format!("server_tls = {{ ca = {cert:?}, name = \"a b\" }}"),
            "server_tls.name",
        ),
        (
            "mysql",
            format!(
                "{}mysql = {{ user = \"a\", password = \"\", database = \"\" }}",
                tls(&good)
            ),
            "tls: expected none with mysql",
        ),
        (
            "mysql",
            format!(
                "server_tls = {{ ca = {key:?} }}\n\
                 mysql = {{ user = \"a\", password = \"\", database = \"\" }}"
            ),
            "server_tls: expected none with mysql",
        ),
    ] {
        let (code, message) = check(protocol, &more);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
