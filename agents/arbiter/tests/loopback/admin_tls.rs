//! The admin API by mutual TLS: who has no certificate of its authority gets nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::{settings, start, Running};
use tempfile::{NamedTempFile, TempDir};
use testkit::mtls::{ask, Authority, Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The line of a configuration.
fn admin_tls(ca: &Path, cert: &Path, key: &Path) -> String {
    format!("admin_tls = {{ ca = {ca:?}, cert = {cert:?}, key = {key:?} }}\n")
}

async fn guarded(authority: &Authority) -> (Running, TempDir) {
    let (one, folder) =
        (Upstream::start(Behaviour::Reply(ok("one"))).await, tempfile::tempdir().unwrap());
    let (cert, key) = authority.server("127.0.0.1").write(folder.path(), "server");
    let tls = admin_tls(&authority.write(folder.path()), &cert, &key);
    let arbiter = start(&(settings("http", "tad", 1, 1) + &tls), &[one.address]).await;
    (arbiter, folder)
}

/// The reply, or why there is none: a client may learn only when it reads that it was refused.
async fn try_ask(
    arbiter: &Running,
    authority: &Authority,
    own: Option<&Identity>,
) -> std::io::Result<String> {
    let connected = authority.connect(arbiter.admin, "127.0.0.1", own).await;
    ask(&mut connected?, "GET", "/health").await
}

#[tokio::test]
async fn only_a_client_of_the_authority_is_let_in() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (arbiter, _folder) = guarded(&authority).await;
    let good = authority.client();
    // A server's certificate is for serving, not for control.
    let wrong = [None, Some(stranger.client()), Some(authority.server("web-1"))];
    for own in &wrong {
        let refused = try_ask(&arbiter, &authority, own.as_ref()).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    let reply = try_ask(&arbiter, &authority, Some(&good)).await.unwrap();
    assert!(reply.ends_with("{\"alive\":1,\"servers\":1}"), "{reply}");
    let mut plain = TcpStream::connect(arbiter.admin).await.unwrap();
    plain.write_all(b"GET /v1/stats HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut bytes = vec![];
    // An alert and the end, or a reset.
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP"));
}

#[tokio::test]
async fn who_says_nothing_holds_nobody_up_and_changes_are_made() {
    let authority = Authority::new();
    let (arbiter, _folder) = guarded(&authority).await;
    let own = authority.client();
    let _silent = [
        TcpStream::connect(arbiter.admin).await.unwrap(),
        TcpStream::connect(arbiter.admin).await.unwrap(),
    ];
    let mut client = authority.connect(arbiter.admin, "127.0.0.1", Some(&own)).await.unwrap();
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

#[test]
fn files_that_cannot_work_are_refused_with_their_key() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let good = authority.server("a.test").write(folder.path(), "good");
    let other = Authority::new().server("a.test");
    let other = other.write(folder.path(), "other");
    let check = |ca: &Path, cert: &Path, key: &Path| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"t\"\n{}{}\n\
             [[servers]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n",
            settings("http", "tad", 1, 1),
            admin_tls(ca, cert, key)
        );
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_arbiter"))
            .args(["--check", "--config"])
            .arg(file.path())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), message)
    };
    let (ca, missing) = (authority.write(folder.path()), PathBuf::from("/dev/null/a.pem"));
    assert_eq!(check(&ca, &good.0, &good.1), (Some(0), String::new()));
    for (ca, cert, key, expected) in [
        (&ca, &missing, &other.1, "admin_tls.cert: /dev/null/a.pem"),
        (&ca, &good.0, &good.0, "admin_tls.key"),
        (&ca, &good.0, &other.1, "admin_tls: expected"),
        (&good.1, &good.0, &good.1, "admin_tls.ca"),
    ] {
        let (code, message) = check(ca, cert, key);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
