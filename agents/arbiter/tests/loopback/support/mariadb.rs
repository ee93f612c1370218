//! Real MariaDB servers, each in a directory of its own, ended when dropped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use tempfile::TempDir;

use super::upstream::nobody;
use super::{eventually, settings, start, Running};

/// An empty data directory, made once per test program and copied for each server.
static TEMPLATE: OnceLock<TempDir> = OnceLock::new();

/// The log goes to a table, so that tests can see what a server was really sent.
const INIT: &str = "
CREATE DATABASE wiki;
CREATE DATABASE other;
CREATE TABLE wiki.page (id INT PRIMARY KEY AUTO_INCREMENT, title VARCHAR(200)) ENGINE=InnoDB;
INSERT INTO wiki.page (title) VALUES ('One'), ('Two'), ('Three');
CREATE TABLE wiki.delay (seconds DOUBLE);
INSERT INTO wiki.delay VALUES (0);
CREATE USER wiki@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('wiki-read');
GRANT ALL ON *.* TO wiki@'%';
";

pub struct MariaDb {
    pub address: SocketAddr,
    directory: TempDir,
    child: Child,
}

impl MariaDb {
    /// Starts a server and waits until it lets the user in.
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let copied = Command::new("cp")
            .arg("-r")
            .arg(template())
            .arg(directory.path().join("data"))
            .status();
        assert!(copied.unwrap().success());
        std::fs::write(directory.path().join("init.sql"), INIT).unwrap();
        let address = nobody();
        let child = spawn(directory.path(), address, true);
        let server = Self {
            address,
            directory,
            child,
        };
        server.ready().await;
        server
    }

    /// Kills the server as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        self.child = spawn(self.directory.path(), self.address, false);
    }

    async fn ready(&self) {
        eventually("a MariaDB that lets us in", || async {
            Conn::new(options(self.address))
                .await
                .ok()?
                .disconnect()
                .await
                .ok()
        })
        .await;
    }

    /// A connection around the arbiter.
    pub async fn direct(&self) -> Conn {
        Conn::new(options(self.address)).await.unwrap()
    }

    /// Runs a statement around the arbiter.
    pub async fn run(&self, sql: &str) {
        self.direct().await.query_drop(sql).await.unwrap();
    }

    /// Every statement and command that contains `text`, in order, as the server saw it.
    pub async fn seen(&self, text: &str) -> Vec<String> {
        let sql = "SELECT CONCAT(command_type, ' ', argument) FROM mysql.general_log \
                   ORDER BY event_time";
        let all: Vec<String> = self.direct().await.query(sql).await.unwrap();
        all.into_iter()
            .filter(|line| line.contains(text) && !line.contains("general_log"))
            .collect()
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The account, without the settings query that the driver would send first.
pub fn options(address: SocketAddr) -> Opts {
    OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some("wiki"))
        .pass(Some("wiki-read"))
        .db_name(Some("wiki"))
        .prefer_socket(false)
        .max_allowed_packet(Some(16 << 20))
        .wait_timeout(Some(3600))
        .into()
}

fn program(name: &str) -> PathBuf {
    ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is missing: apt-get install mariadb-server-core"))
}

fn template() -> PathBuf {
    let made = TEMPLATE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(program("mariadb-install-db"))
            .args([
                "--no-defaults",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ])
            .args(["--innodb-log-file-size=4M", "--user=root"])
            .arg(format!(
                "--datadir={}",
                directory.path().join("data").display()
            ))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        directory
    });
    made.path().join("data")
}

fn spawn(directory: &Path, address: SocketAddr, init: bool) -> Child {
    let log = std::fs::File::create(directory.join("log")).unwrap();
    let mut command = Command::new(program("mariadbd"));
    command
        .args([
            "--no-defaults",
            "--user=root",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
        ])
        .args(["--innodb-buffer-pool-size=8M", "--performance-schema=OFF"])
        .args([
            "--general-log=1",
            "--log-output=TABLE",
            "--max-connections=500",
            "--max-allowed-packet=64M",
        ])
        .arg(format!("--port={}", address.port()))
        .arg(format!("--datadir={}", directory.join("data").display()))
        // At its start a server removes the temporary tables of all others in the same folder.
        .arg(format!("--tmpdir={}", directory.display()))
        .arg(format!("--socket={}", directory.join("socket").display()));
    if init {
        command.arg(format!(
            "--init-file={}",
            directory.join("init.sql").display()
        ));
    }
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
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

/// A client of it.
pub async fn connect(arbiter: &Running) -> Conn {
    Conn::new(options(arbiter.clients)).await.unwrap()
}

/// The one number of a reply.
pub async fn number(conn: &mut Conn, sql: &str) -> u64 {
    conn.query_first(sql).await.unwrap().unwrap()
}

/// A server's error code.
pub fn code(error: &Error) -> u16 {
    match error {
        Error::Server(error) => error.code,
        other => panic!("expected an error of the server, got {other:?}"),
    }
}

/// Waits until the server has seen this text.
pub async fn seen(server: &MariaDb, text: &str) -> Vec<String> {
    eventually(text, || async {
        let seen = server.seen(text).await;
        (!seen.is_empty()).then_some(seen)
    })
    .await
}

/// Waits until the session is connected to every server: one that connects late skips the reads
/// that were answered before, but never a session statement.
pub async fn connected_to_all(conn: &mut Conn, servers: &[MariaDb]) {
    conn.query_drop("SET max_sort_length = 2048").await.unwrap();
    for server in servers {
        seen(server, "SET max_sort_length").await;
    }
}
