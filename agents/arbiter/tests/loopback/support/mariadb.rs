//! Real MariaDB servers that log what they are sent, and arbiters in front of them.

use std::net::SocketAddr;
use std::ops::Deref;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
pub use testkit::mariadb::options;
use testkit::wait::within_limit;

use super::{eventually, settings, start, Running};

const INIT: &str = "
CREATE DATABASE other;
CREATE TABLE wiki.page (id INT PRIMARY KEY AUTO_INCREMENT, title VARCHAR(200)) ENGINE=InnoDB;
INSERT INTO wiki.page (title) VALUES ('One'), ('Two'), ('Three');
CREATE TABLE wiki.delay (seconds DOUBLE);
INSERT INTO wiki.delay VALUES (0);
";

pub struct MariaDb(testkit::mariadb::MariaDb);

impl Deref for MariaDb {
    type Target = testkit::mariadb::MariaDb;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl MariaDb {
    /// Starts a server whose log goes to a table, so that tests can see what it was really sent.
    pub async fn start() -> Self {
        Self::start_with(&["--general-log=1", "--log-output=TABLE"]).await
    }

    /// Starts a server with these arguments.
    pub async fn start_with(arguments: &'static [&'static str]) -> Self {
        let started = testkit::mariadb::MariaDb::start(INIT, arguments).await;
        Self(started.unwrap())
    }

    /// A connection around the arbiter.
    pub async fn direct(&self) -> Conn {
        self.0.direct().await.unwrap()
    }

    /// Kills the server as a crash would.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        self.0.restart().unwrap();
    }

    /// Waits until it lets somebody in.
    pub async fn until_ready(&self) {
        eventually("a server that lets us in", || async {
            Conn::new(options(self.address)).await.ok()
        })
        .await;
    }

    /// Runs a statement around the arbiter.
    pub async fn run(&self, sql: &str) {
        within_limit(sql, self.direct().await.query_drop(sql)).await.unwrap();
    }

    /// Every statement and command that contains `text`, in order, as the server saw it.
    pub async fn statements(&self, text: &str) -> Vec<String> {
        let sql = "SELECT CONCAT(command_type, ' ', argument) FROM mysql.general_log \
                   ORDER BY event_time";
        let mut conn = self.direct().await;
        let all: Vec<String> = within_limit("the log", conn.query(sql)).await.unwrap();
        all.into_iter()
            .filter(|line| line.contains(text) && !line.contains("general_log"))
            .collect()
    }
}

/// As many servers, ready.
pub async fn servers<const N: usize>() -> [MariaDb; N] {
    let mut started = Vec::new();
    for _ in 0..N {
        started.push(MariaDb::start().await);
    }
    started.try_into().unwrap_or_else(|_| unreachable!())
}

/// An arbiter in front of them.
pub async fn front(policy: &str, replicas: usize, tokens: usize, servers: &[MariaDb]) -> Running {
    start_with(policy, replicas, tokens, "", servers).await
}

/// An arbiter in front of them, with more settings.
pub async fn start_with(
    policy: &str,
    replicas: usize,
    tokens: usize,
    more: &str,
    servers: &[MariaDb],
) -> Running {
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let text = settings("mysql", policy, replicas, tokens) + more;
    start(&text, &addresses).await
}

/// Servers, an arbiter in front of them, and a client of it.
pub async fn session<const N: usize>(
    policy: &str,
    replicas: usize,
    tokens: usize,
    more: &str,
) -> ([MariaDb; N], Running, Conn) {
    let servers = servers().await;
    let arbiter = start_with(policy, replicas, tokens, more, &servers).await;
    let conn = connect(&arbiter).await;
    (servers, arbiter, conn)
}

/// A client of it.
pub async fn connect(arbiter: &Running) -> Conn {
    within_limit("a login to the arbiter", Conn::new(options(arbiter.clients))).await.unwrap()
}

/// Keeps everybody from a table of a server, until it is dropped or unlocked.
pub async fn lock(server: &MariaDb, table: &str) -> Conn {
    let mut lock = server.direct().await;
    let locking = lock.query_drop(format!("LOCK TABLES wiki.{table} WRITE"));
    within_limit("a lock of a table", locking).await.unwrap();
    lock
}

/// The one number of a reply.
pub async fn number(conn: &mut Conn, sql: &str) -> u64 {
    within_limit(sql, conn.query_first(sql)).await.unwrap().unwrap()
}

/// A server's error code.
pub fn code(error: &Error) -> u16 {
    match error {
        Error::Server(error) => error.code,
        other => panic!("expected an error of the server, got {other:?}"),
    }
}

/// Waits until the server has seen this text.
pub async fn until_statement(server: &MariaDb, text: &str) -> Vec<String> {
    eventually(text, || async {
        let statements = server.statements(text).await;
        (!statements.is_empty()).then_some(statements)
    })
    .await
}

/// Waits until the session is connected to every server: one that connects late skips the reads
/// that were answered before, but never a session statement.
pub async fn connected_to_all(conn: &mut Conn, servers: &[MariaDb]) {
    conn.query_drop("SET max_sort_length = 2048").await.unwrap();
    for server in servers {
        until_statement(server, "SET max_sort_length").await;
    }
}
