//! Active health checks, of servers that say that they are ill, and of such that take no connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

use crate::support::web::get;
use crate::support::{eventually, settings, start, Running};
use arbiter::config::Config;
use axum::http::StatusCode;
use axum::routing::get as route;
use axum::Router;
use tokio::net::TcpListener;

/// A server that answers `/` always and `/health` as it is told, and counts who asks for that.
struct Patient {
    address: SocketAddr,
    status: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl Patient {
    async fn start(name: &'static str, status: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let status = Arc::new(AtomicUsize::new(status));
        let asked = Arc::new(AtomicUsize::new(0));
        let (says, counts) = (Arc::clone(&status), Arc::clone(&asked));
        let health = move || {
            counts.fetch_add(1, SeqCst);
            let status = StatusCode::from_u16(says.load(SeqCst) as u16).unwrap();
            async move { (status, "health") }
        };
        let router = Router::new()
            .route("/health", route(health))
            .route("/", route(move || async move { name }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            status,
            asked,
        }
    }

    fn says(&self, status: usize) {
        self.status.store(status, SeqCst);
    }

    /// Until it was asked so many times more.
    async fn until_asked(&self, more: usize) {
        let before = self.asked.load(SeqCst);
        eventually("checks", || async {
            (self.asked.load(SeqCst) >= before + more).then_some(())
        })
        .await;
    }
}

async fn front(check: &str, servers: &[SocketAddr]) -> Running {
    let settings = settings("http", "round-robin", 1, 4);
    start(
        &format!("{settings}health_check = {{ {check} }}\n"),
        servers,
    )
    .await
}

const CHECK: &str = "path = \"/health\", interval_ms = 250, timeout_ms = 250";

#[tokio::test]
async fn a_server_that_says_it_is_ill_gets_nothing_until_it_is_well() {
    let (one, two) = (
        Patient::start("one", 200).await,
        Patient::start("two", 200).await,
    );
    let arbiter = front(CHECK, &[one.address, two.address]).await;
    one.until_asked(2).await;
    assert!(arbiter.server(0).await.alive);
    one.says(503);
    arbiter
        .until("its death", |stats| !stats.servers[0].alive)
        .await;
    for _ in 0..6 {
        assert_eq!(get(arbiter.clients, "/").await.text(), "two");
    }
    one.says(204);
    arbiter.until_alive(0).await;
    let requests = arbiter.stats().await.requests;
    assert_eq!(requests.failed, 0, "no client has seen anything");
}

#[tokio::test]
async fn fewer_bad_checks_than_fall_in_a_row_change_nothing() {
    let one = Patient::start("one", 200).await;
    let arbiter = front(&format!("{CHECK}, fall = 100"), &[one.address]).await;
    one.says(500);
    one.until_asked(10).await;
    assert!(arbiter.server(0).await.alive);
}

#[tokio::test]
async fn a_dead_server_needs_rise_good_checks_in_a_row() {
    let (one, two) = (
        Patient::start("one", 500).await,
        Patient::start("two", 200).await,
    );
    let check = format!("{CHECK}, rise = 4, fall = 1");
    let arbiter = front(&check, &[one.address, two.address]).await;
    arbiter
        .until("its death", |stats| !stats.servers[0].alive)
        .await;
    one.says(200);
    let before = one.asked.load(SeqCst);
    arbiter.until_alive(0).await;
    assert!(one.asked.load(SeqCst) >= before + 4);
}

#[tokio::test]
async fn the_expected_status_is_what_the_file_says() {
    let one = Patient::start("one", 404).await;
    let check = format!("{CHECK}, fall = 2, status_min = 404, status_max = 404");
    let arbiter = front(&check, &[one.address]).await;
    one.until_asked(3).await;
    assert!(arbiter.server(0).await.alive);
    one.says(200);
    arbiter
        .until("its death", |stats| !stats.servers[0].alive)
        .await;
}

#[tokio::test]
async fn a_server_that_is_silent_is_ill() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let two = Patient::start("two", 200).await;
    let arbiter = front(CHECK, &[listener.local_addr().unwrap(), two.address]).await;
    // Its connections are taken, by the kernel, and nobody says a word on them.
    arbiter
        .until("its death", |stats| !stats.servers[0].alive)
        .await;
    assert_eq!(get(arbiter.clients, "/").await.text(), "two");
}

#[tokio::test]
async fn with_tcp_a_connection_is_the_check_and_no_client_is_spent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = settings("tcp", "round-robin", 1, 4);
    let check = "health_check = { interval_ms = 250, timeout_ms = 250, rise = 1 }\n";
    let arbiter = start(&(settings + check), &[address]).await;
    listener.accept().await.unwrap();
    drop(listener);
    arbiter
        .until("its death", |stats| !stats.servers[0].alive)
        .await;
    assert_eq!(arbiter.stats().await.requests.received, 0);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    let _listener = socket.listen(64).unwrap();
    arbiter.until_alive(0).await;
}

#[test]
fn checks_that_cannot_work_are_refused() {
    let file = |protocol: &str, check: &str| {
        let text = format!(
            "listen = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:2\"\ntier = \"t\"\n{}\
             health_check = {{ {check} }}\n[[servers]]\nname = \"a\"\naddress = \"127.0.0.1:3\"\n",
            settings(protocol, "tad", 1, 1)
        );
        Config::parse(&text, "a.toml")
    };
    assert!(file("http", CHECK).is_ok() && file("tcp", "").is_ok());
    for (protocol, check, key) in [
        ("redis", "", "health_check: expected"),
        ("tcp", "path = \"/\"", "health_check.path: expected none"),
        ("http", "path = \"x\"", "health_check.path: expected a path"),
        (
            "http",
            "interval_ms = 10, timeout_ms = 11",
            "health_check.timeout_ms",
        ),
        (
            "http",
            "status_min = 300, status_max = 299",
            "health_check.status_max",
        ),
        (
            "http",
            "rise = 0",
            "health_check.rise: expected 1 to 100, got 0",
        ),
        ("http", "fall = 0", "health_check.fall"),
        ("http", "falls = 1", "unknown field `falls`"),
    ] {
        let refusal = file(protocol, check).unwrap_err().to_string();
        assert!(refusal.contains(key), "{refusal}");
    }
}
