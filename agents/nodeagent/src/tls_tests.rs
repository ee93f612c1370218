//! A flood of connections, and bodies that do not come, at a real listener on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpStream as Silent};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use axum::routing::post;
use axum::Json;
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle as Task;

use super::*;
use client::{connect, request, Authority};

#[path = "../tests/machine/client.rs"]
mod client;

const FROM_ONE_ADDRESS: usize = 200;
/// As long as the runner waits for an answer.
const RUNNER_LIMIT: Duration = Duration::from_secs(5);

/// A server on loopback that answers each body with its length.
struct Server {
    authority: Authority,
    client: (String, String),
    at: SocketAddr,
    task: Task<()>,
}

impl Server {
    async fn start() -> Server {
        let authority = Authority::new();
        let (cert, key) = authority.sign("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
            directory.path().join(name)
        };
        let files = Tls {
            ca: write("ca.pem", &authority.pem),
            cert: write("cert.pem", &cert),
            key: write("key.pem", &key),
        };
        let acceptor = acceptor(&files).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let length = |body: String| async move { Json(json!(body.len())) };
        let routes = Router::new().route("/", post(length));
        let routes = crate::body::bounded(routes, Duration::from_millis(300));
        Server {
            client: authority.client(),
            authority,
            at,
            task: tokio::spawn(serve(listener, acceptor, routes)),
        }
    }

    async fn call(&self, body: &str) -> Result<(u16, serde_json::Value), String> {
        let (pem, client) = (&self.authority.pem, Some(&self.client));
        let call = request(self.at, pem, client, "POST", "/", body.into());
        let limited = timeout(RUNNER_LIMIT, call).await;
        limited.map_err(|_| "no answer".to_owned())?
    }

    /// Sends these bytes as a client that is let in; what comes back until the connection ends.
    async fn send(&self, bytes: &str) -> String {
        let stream = connect(self.at, &self.authority.pem, Some(&self.client)).await;
        let mut stream = stream.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // An end without TLS's own goodbye is one too.
        let _ = timeout(RUNNER_LIMIT, stream.read_to_end(&mut answer)).await;
        String::from_utf8(answer).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens silent connections from one address, one after the other, and holds the newest.
struct Attacker {
    over: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    fn start(from: Ipv4Addr, to: SocketAddr) -> Attacker {
        let (over, opened) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stop, count) = (over.clone(), opened.clone());
        let thread = std::thread::spawn(move || {
            let mut held = std::collections::VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                held.extend(open(from, to));
                count.fetch_add(1, Ordering::Relaxed);
                if held.len() > FROM_ONE_ADDRESS {
                    held.pop_front();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Attacker {
            over,
            opened,
            thread: Some(thread),
        }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn open(from: Ipv4Addr, to: SocketAddr) -> Option<Silent> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    socket.connect_timeout(&to.into(), RUNNER_LIMIT).ok()?;
    Some(socket.into())
}

#[tokio::test]
async fn hundreds_of_connections_that_say_nothing_do_not_keep_the_runner_out() {
    let server = Server::start().await;
    // The last one shares the runner's address.
    let from = [2, 3, 4, 1].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let attackers = from.map(|from| Attacker::start(from, server.at));
    let opened = || {
        attackers
            .iter()
            .map(|one| one.opened.load(Ordering::Relaxed))
    };
    timeout(Duration::from_secs(60), async {
        while opened().sum::<usize>() < 2 * FROM_ONE_ADDRESS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    for _ in 0..20 {
        assert_eq!(server.call("five!").await, Ok((200, json!(5))));
    }
    assert!(
        opened().all(|count| count > 50),
        "{:?}",
        opened().collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_body_that_does_not_come_whole_in_time_or_is_too_large_ends_the_connection() {
    let server = Server::start().await;
    let head =
        |length: usize| format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
    let slow = server.send(&(head(10) + "half.")).await;
    assert!(slow.starts_with("HTTP/1.1 408 "), "{slow}");
    assert!(slow.contains("connection: close"), "{slow}");
    let large = server.send(&(head(65_537) + &"x".repeat(65_537))).await;
    assert!(large.starts_with("HTTP/1.1 413 "), "{large}");
    assert_eq!(server.call("five!").await, Ok((200, json!(5))));
}
