//! The admin API by mutual TLS: who has no certificate of its authority gets nothing.

use crate::support::certs::{ask, Authority, Files};
use crate::support::upstream::{ok, Behaviour, Upstream};
use crate::support::{settings, start, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn guarded(authority: &Authority) -> Running {
    let one = Upstream::start(Behaviour::Reply(ok("one"))).await;
    let files = authority.server("127.0.0.1");
    let settings = settings("http", "tad", 1, 1)
        + &format!(
            "admin_tls = {{ ca = {:?}, {} }}\n",
            authority.ca,
            files.toml()
        );
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
