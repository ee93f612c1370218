//! A flood of connections that say nothing, at a real listener on loopback.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, TcpStream as Silent};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::routing::get;
use axum::Router;
use socket2::{Domain, Socket, Type};
use testkit::mtls::{ask, Authority};
use testkit::wait::eventually;
use tokio::net::TcpListener;
use tokio::time::timeout;

const FROM_ONE_ADDRESS: usize = 200;
/// Time that the runner waits for an answer.
const RUNNER_LIMIT: Duration = Duration::from_secs(5);

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
            let mut connections = VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                connections.extend(open(from, to));
                count.fetch_add(1, Ordering::Relaxed);
                if connections.len() > FROM_ONE_ADDRESS {
                    connections.pop_front();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Attacker { over, opened, thread: Some(thread) }
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
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let (cert, key) = authority.server("127.0.0.1").write(folder.path(), "server");
    let ca = authority.write(folder.path());
    let acceptor = mtls::Files { ca, cert, key }.acceptor("tls").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(|| async { "well" }));
    tokio::spawn(mtls::serve(listener, Some(acceptor), router));
    let own = authority.client();
    // The last one shares the runner's address.
    let sources = [2, 3, 4, 1].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let attackers = sources.map(|source| Attacker::start(source, at));
    let opened = || attackers.each_ref().map(|attacker| attacker.opened.load(Ordering::Relaxed));
    eventually("more connections of each than one address may hold", || async {
        opened().iter().all(|count| *count > FROM_ONE_ADDRESS / 2).then_some(())
    })
    .await;
    for _ in 0..20 {
        let call = async {
            let mut stream = authority.connect(at, "127.0.0.1", Some(&own)).await?;
            ask(&mut stream, "GET", "/").await
        };
        let answer = timeout(RUNNER_LIMIT, call).await.unwrap().unwrap();
        assert!(answer.ends_with("\r\n\r\nwell"), "{answer}");
    }
}
