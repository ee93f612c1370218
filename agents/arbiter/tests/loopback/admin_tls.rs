//! The admin API by mutual TLS: who has no certificate of its authority gets nothing.

use std::path::Path;
use std::process::Command;

use crate::support::certs::{ask, Authority, Files};
use crate::support::program::Program;
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::{settings, start, Running};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The line of a configuration.
fn admin_tls(ca: &Path, files: &Files) -> String {
    format!("admin_tls = {{ ca = {ca:?}, {} }}\n", files.toml())
}

async fn guarded(authority: &Authority) -> Running {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let files = authority.server("127.0.0.1");
    let settings = settings("http", "tad", 1, 1) + &admin_tls(&authority.ca, &files);
    start(&settings, &[one.address]).await
}

/// The reply, or why there is none: a client may learn only when it reads that it was refused.
async fn try_ask(
    arbiter: &Running,
    authority: &Authority,
    own: Option<&Files>,
) -> std::io::Result<String> {
    let connected = authority.connect(arbiter.admin, "127.0.0.1", own).await;
    ask(&mut connected?, "GET", "/health").await
}

#[tokio::test]
async fn only_a_client_of_the_authority_is_let_in() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let arbiter = guarded(&authority).await;
    let good = authority.client();
    // A server's certificate is for serving, not for control.
    let wrong = [
        None,
        Some(stranger.client()),
        Some(authority.server("web-1")),
    ];
    for own in &wrong {
        let refused = try_ask(&arbiter, &authority, own.as_ref()).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    let reply = try_ask(&arbiter, &authority, Some(&good)).await.unwrap();
    assert!(reply.ends_with("{\"alive\":1,\"servers\":1}"), "{reply}");
    let mut plain = TcpStream::connect(arbiter.admin).await.unwrap();
    plain
        .write_all(b"GET /v1/stats HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let mut bytes = vec![];
    // An alert and the end, or a reset.
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP"));
}

#[tokio::test]
async fn who_says_nothing_holds_nobody_up_and_changes_are_made() {
    let authority = Authority::new();
    let arbiter = guarded(&authority).await;
    let own = authority.client();
    let _silent = [
        TcpStream::connect(arbiter.admin).await.unwrap(),
        TcpStream::connect(arbiter.admin).await.unwrap(),
    ];
    let mut client = authority
        .connect(arbiter.admin, "127.0.0.1", Some(&own))
        .await
        .unwrap();
    let body = "{\"policy\":\"random\"}";
    let request = format!(
        "PUT /v1/policy HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut reply = vec![];
    client.read_to_end(&mut reply).await.unwrap();
    let reply = String::from_utf8(reply).unwrap();
    assert!(reply.contains("\"policy\":\"random\""), "{reply}");
}

/// A file that says so, with a server that nobody asks.
fn file(tls: &str) -> NamedTempFile {
    let text = format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"t\"\n{}{tls}\n\
         [[servers]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n",
        settings("http", "tad", 1, 1)
    );
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn at_sighup_a_new_certificate_is_shown_and_a_bad_one_is_not() {
    let authority = Authority::new();
    let files = authority.server("old.test");
    let file = file(&admin_tls(&authority.ca, &files));
    let mut program = Program::start(&file);
    let (admin, own) = (program.admin, authority.client());
    let meet = |name: &'static str| authority.connect(admin, name, Some(&own));
    let mut before = meet("old.test").await.unwrap();
    assert!(meet("new.test").await.is_err());
    // The same files, with another name in them.
    let fresh = authority.server("new.test");
    std::fs::copy(&fresh.cert, &files.cert).unwrap();
    program.signal("HUP");
    let said = program.lines.next().unwrap().unwrap();
    assert!(
        said.contains("the old configuration goes on") && said.contains("admin_tls"),
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
    for client in [&mut meet("new.test").await.unwrap(), &mut before] {
        let reply = ask(client, "GET", "/health").await.unwrap();
        assert!(reply.ends_with("{\"alive\":1,\"servers\":1}"), "{reply}");
    }
}

#[test]
fn files_that_cannot_work_are_refused_with_their_key() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (good, other) = (authority.server("a.test"), stranger.server("a.test"));
    let check = |ca: &Path, cert: &Path, key: &Path| {
        let (cert, key) = (cert.to_owned(), key.to_owned());
        let file = file(&admin_tls(ca, &Files { cert, key }));
        let output = Command::new(env!("CARGO_BIN_EXE_arbiter"))
            .args(["--check", "--config"])
            .arg(file.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (ca, missing): (&Path, &Path) = (&authority.ca, Path::new("/dev/null/a.pem"));
    assert_eq!(check(ca, &good.cert, &good.key), (Some(0), String::new()));
    for (ca, cert, key, expected) in [
        (ca, missing, &*other.key, "admin_tls.cert: /dev/null/a.pem"),
        (ca, &*good.cert, &*good.cert, "admin_tls.key"),
        (ca, &*good.cert, &*other.key, "admin_tls: expected"),
        (&*good.key, &*good.cert, &*good.key, "admin_tls.ca"),
    ] {
        let (code, message) = check(ca, cert, key);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
