//! Real MariaDB servers, each in a directory of its own, ended when dropped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use mysql_async::{Conn, Opts, OptsBuilder};
use tempfile::TempDir;
use tokio::time::{sleep, timeout, Instant};

use crate::upstream::nobody;

/// A server that was started lets somebody in within this time.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The account that [`options`] logs in with.
const ACCOUNT: &str = "
CREATE DATABASE wiki;
CREATE USER wiki@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('wiki-read');
GRANT ALL ON *.* TO wiki@'%';
";

/// A server.
pub struct MariaDb {
    /// The address that it listens at.
    pub address: SocketAddr,
    arguments: &'static [&'static str],
    directory: TempDir,
    child: Child,
}

impl MariaDb {
    /// Starts a server with a database `wiki`, which these statements fill, a line each, and with these
    /// further arguments, and waits until it lets the user in.
    ///
    /// # Errors
    /// When a program is missing, or it does not get ready in 60 s.
    pub async fn start(init: &str, arguments: &'static [&'static str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("data");
        let copied = Command::new("cp").arg("-r").args([&template()?, &data]).status()?;
        ensure!(copied.success(), "cp: {copied}");
        std::fs::write(directory.path().join("init.sql"), format!("{ACCOUNT}{init}"))?;
        let address = nobody();
        let child = spawn(directory.path(), address, true, arguments)?;
        let server = Self { address, arguments, directory, child };
        server.ready().await?;
        Ok(server)
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again where it was, with the data that it had.
    pub fn restart(&mut self) -> Result<()> {
        self.child = spawn(self.directory.path(), self.address, false, self.arguments)?;
        Ok(())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection around the arbiter, within 60 s.
    pub async fn direct(&self) -> Result<Conn> {
        let login = timeout(READY_WITHIN, Conn::new(options(self.address))).await;
        Ok(login.with_context(|| format!("no login within {READY_WITHIN:?}"))??)
    }

    /// Waits until it lets the user in.
    ///
    /// # Errors
    /// When it does not within 60 s.
    pub async fn ready(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.direct().await {
                Ok(conn) => return Ok(conn.disconnect().await?),
                Err(error) if start.elapsed() > READY_WITHIN => {
                    let log = std::fs::read_to_string(self.directory.path().join("log"))?;
                    return Err(error.context(format!("a MariaDB that does not get ready: {log}")));
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.kill();
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

fn program(name: &str) -> Result<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
        .with_context(|| format!("{name} is missing: apt-get install mariadb-server-core"))
}

/// An empty data directory, made once in a process and copied for each server.
fn template() -> Result<PathBuf> {
    static TEMPLATE: OnceLock<Result<TempDir, String>> = OnceLock::new();
    let template = TEMPLATE.get_or_init(|| empty().map_err(|error| format!("{error:#}")));
    let directory = template.as_ref().map_err(|error| anyhow!("{error}"))?;
    Ok(directory.path().join("data"))
}

fn empty() -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    let output = Command::new(program("mariadb-install-db")?)
        .args(["--no-defaults", "--skip-test-db", "--user=root"])
        .args(["--auth-root-authentication-method=normal"])
        .arg("--innodb-log-file-size=4M")
        // At its start a server removes the temporary tables of all others in the same folder.
        .env("TMPDIR", directory.path())
        .arg(format!("--datadir={}", directory.path().join("data").display()))
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mariadb-install-db: {stderr}");
    Ok(directory)
}

fn spawn(directory: &Path, address: SocketAddr, init: bool, arguments: &[&str]) -> Result<Child> {
    let log = std::fs::File::create(directory.join("log"))?;
    let mut command = Command::new(program("mariadbd")?);
    command
        .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
        .args(["--skip-name-resolve", "--performance-schema=OFF"])
        .args(["--innodb-buffer-pool-size=8M", "--max-connections=2000"])
        .arg("--max-allowed-packet=64M")
        .args(arguments)
        .arg(format!("--port={}", address.port()))
        .arg(format!("--datadir={}", directory.join("data").display()))
        .arg(format!("--tmpdir={}", directory.display())) // as in `empty`
        .arg(format!("--socket={}", directory.join("socket").display()));
    if init {
        let file = directory.join("init.sql");
        command.arg(format!("--init-file={}", file.display()));
    }
    Ok(command.stdout(Stdio::null()).stderr(log).spawn()?)
}
