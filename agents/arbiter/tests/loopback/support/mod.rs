//! Shared by the tests: an arbiter in this process, its admin API, waiting for a condition.

#![allow(dead_code)]

pub mod app;
pub mod http;
pub mod keyvalue;
pub mod liar;
pub mod mariadb;
pub mod program;
#[allow(unused_imports)]
pub use testkit::{upstream, wait::eventually, web};

use std::net::SocketAddr;

use arbiter::config::Config;
use arbiter::server::Arbiter;
use testkit::wait::{LIMIT, POLL};
use tokio::sync::oneshot;
use tokio::time::{sleep, Instant};
use wire::arbiter::{ServerStats, Stats};

/// An arbiter that stops when dropped.
pub struct Running {
    pub clients: SocketAddr,
    pub admin: SocketAddr,
    _stop: oneshot::Sender<()>,
}

/// Settings of any protocol (TOML lines).
pub fn settings(protocol: &str, policy: &str, replicas: usize, tokens: usize) -> String {
    format!(
        "protocol = \"{protocol}\"\npolicy = \"{policy}\"\nreplicas = {replicas}\n\
         tokens = {tokens}\n"
    )
}

/// Time limits of the arbiter that a test does not set: a host that stalls for seconds makes no
/// server late, and none of them ends what a test waits for.
const PATIENT: [(&str, u32); 2] = [("request_timeout_ms", 120_000), ("connect_timeout_ms", 60_000)];

/// Starts an arbiter with `settings` (TOML lines) in front of the servers s0, s1, ...
pub async fn start(settings: &str, servers: &[SocketAddr]) -> Running {
    let mut text =
        format!("listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ntier = \"test\"\n{settings}\n");
    for (limit, value) in PATIENT.iter().filter(|(limit, _)| !settings.contains(limit)) {
        text += &format!("{limit} = {value}\n");
    }
    if settings.contains("\"mysql\"") {
        text +=
            "mysql.user = \"wiki\"\nmysql.password = \"wiki-read\"\nmysql.database = \"wiki\"\n";
    }
    for (number, address) in servers.iter().enumerate() {
        text += &format!("[[servers]]\nname = \"s{number}\"\naddress = \"{address}\"\n");
    }
    let arbiter = Arbiter::bind(Config::parse(&text, "test.toml").unwrap()).await.unwrap();
    let (clients, admin) = (arbiter.client_address().unwrap(), arbiter.admin_address().unwrap());
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(arbiter.run(async {
        let _ = stopped.await;
    }));
    Running { clients, admin, _stop: stop }
}

impl Running {
    pub async fn stats(&self) -> Stats {
        let reply = web::get(self.admin, "/v1/stats").await;
        serde_json::from_slice(&reply.body).unwrap()
    }

    pub async fn server(&self, number: usize) -> ServerStats {
        self.stats().await.servers.swap_remove(number)
    }

    pub async fn put(&self, path: &str, body: &str) -> web::Reply {
        web::put(self.admin, path, body).await
    }

    /// Waits until no request and no session holds a server.
    pub async fn all_free(&self) -> Stats {
        let free = |stats: &Stats| stats.tokens.in_use == 0;
        self.until("all tokens", free).await
    }

    /// Waits until no client is connected.
    pub async fn all_gone(&self) -> Stats {
        let gone = |stats: &Stats| stats.connections.client_open == 0;
        self.until("the clients' end", gone).await
    }

    /// Waits until no server works, and none is held.
    pub async fn at_rest(&self) -> Stats {
        let idle = |stats: &Stats| {
            let mut servers = stats.servers.iter();
            stats.tokens.in_use == 0 && servers.all(|server| server.in_flight == 0)
        };
        self.until("servers without work", idle).await
    }

    /// Makes a change.
    pub async fn set(&self, path: &str, body: &str) -> String {
        let reply = self.put(path, body).await;
        assert_eq!(reply.status, 200, "{body}: {}", reply.text());
        reply.text()
    }

    /// Asks for a change that is refused, for a reason with `word` in it.
    pub async fn refuses(&self, path: &str, body: &str, word: &str) {
        let reply = self.put(path, body).await;
        let (status, text) = (reply.status, reply.text());
        assert!(status == 422 && text.contains(word), "{body}: {text}");
    }

    /// Waits until the server is in use.
    pub async fn until_alive(&self, server: usize) -> Stats {
        let alive = |stats: &Stats| stats.servers[server].alive;
        self.until("a server to be in use", alive).await
    }

    /// Waits until the statistics are as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Stats) -> bool) -> Stats {
        let deadline = Instant::now() + LIMIT;
        loop {
            let stats = self.stats().await;
            if wanted(&stats) {
                return stats;
            }
            assert!(Instant::now() < deadline, "expected {what} within {LIMIT:?}: {stats:#?}");
            sleep(POLL).await;
        }
    }
}

/// The errors of all servers.
pub fn errors(stats: &Stats) -> u64 {
    stats.servers.iter().map(|server| server.errors).sum()
}
