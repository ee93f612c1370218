//! Real Redis and memcached servers, each ended when dropped; faulty servers; a plain client.

use std::future::Future;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::stream::{Buffered, Served};
use testkit::wait::{within_limit, LIMIT, POLL};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::upstream::nobody;
use super::{eventually, settings, start, Running};

/// A server in a process of its own.
pub struct Server {
    pub address: SocketAddr,
    command: Vec<String>,
    child: Child,
    /// The folder that it may write to.
    directory: TempDir,
}

impl Server {
    /// A Redis primary.
    pub async fn redis() -> Self {
        Self::start(|port| redis(port, &[])).await
    }

    /// A Redis replica that has caught up with its primary.
    pub async fn replica_of(primary: &Self) -> Self {
        Self::replica_behind(primary.address).await
    }

    /// As `replica_of`, of a primary that is reached by another's port.
    pub async fn replica_behind(primary: SocketAddr) -> Self {
        let of = format!("127.0.0.1 {}", primary.port());
        let replica = Self::start(|port| redis(port, &["--replicaof", &of])).await;
        eventually("a replica in step", || async {
            let info = Client::open(replica.address).await.redis("INFO replication").await;
            info.contains("master_link_status:up").then_some(())
        })
        .await;
        replica
    }

    /// A memcached.
    pub async fn memcached() -> Self {
        let command = |port: u16| {
            format!("memcached -u nobody -l 127.0.0.1 -p {port} -U 0 -m 64 -I 16m -t 1")
                .split(' ')
                .map(str::to_owned)
                .collect()
        };
        Self::start(command).await
    }

    async fn start(command: impl Fn(u16) -> Vec<String>) -> Self {
        let address = nobody();
        let directory = tempfile::tempdir().unwrap();
        let command = command(address.port());
        let server = Self { address, child: spawn(&command, &directory), command, directory };
        server.ready().await;
        server
    }

    pub async fn ready(&self) {
        eventually("a server that answers", || async {
            let stream = TcpStream::connect(self.address).await.ok()?;
            let mut client = Client::of(stream);
            client.try_send(b"version\r\nPING\r\n").await?;
            // Either of the two is known to it.
            client.try_line().await.map(drop)
        })
        .await;
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        self.child = spawn(&self.command, &self.directory);
    }

    /// Its connections stay open, and nothing is answered.
    ///
    /// A signal takes effect later than it is sent; this returns once every thread has stopped.
    pub fn freeze(&self) {
        self.signal("-STOP");
        let deadline = Instant::now() + LIMIT;
        while !is_stopped(self.child.id()) {
            assert!(Instant::now() < deadline, "process {} was not stopped", self.child.id());
            std::thread::sleep(POLL);
        }
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// A connection around the arbiter.
    pub async fn direct(&self) -> Client {
        Client::open(self.address).await
    }

    /// How often a Redis command was called.
    pub async fn calls(&self, command: &str) -> u64 {
        let info = self.direct().await.redis("INFO commandstats").await;
        let start = format!("cmdstat_{command}:calls=");
        info.lines()
            .find_map(|line| line.strip_prefix(&start)?.split(',').next()?.parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn redis(port: u16, more: &[&str]) -> Vec<String> {
    let port = port.to_string();
    let mut words = vec!["redis-server", "--port", &port, "--bind", "127.0.0.1"];
    words.extend(["--save", "", "--repl-diskless-sync-delay", "0"]);
    words.extend(more);
    words.into_iter().map(str::to_owned).collect()
}

fn spawn(command: &[String], directory: &TempDir) -> Child {
    let spawned = Command::new(&command[0])
        .args(&command[1..])
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    spawned.unwrap_or_else(|error| panic!("{}: {error}; is the package there?", command[0]))
}

/// Every thread of the process has taken the stop signal.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    !threads.flatten().any(|thread| {
        // A thread that has just ended has no stat; it does not run either.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('T'))
    })
}

/// The behaviour of a faulty server after a request.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Sends these bytes each time.
    Sends(&'static [u8]),
    /// Sends these bytes and closes.
    Closes(&'static [u8]),
    /// Sends these bytes and nothing any more.
    Stalls(&'static [u8]),
}

impl Fault {
    /// The `request_timeout_ms` of an arbiter in front of such a server: short only where the test
    /// waits for it.
    pub fn limit_ms(self) -> u64 {
        match self {
            Self::Stalls(_) => SHORT_LIMIT_MS,
            _ => 60_000,
        }
    }
}

/// A time limit of requests that a test waits for; a good server answers within it on any host.
pub const SHORT_LIMIT_MS: u64 = 5_000;

/// A server that answers probes and nothing else well.
pub struct FaultyServer {
    pub address: SocketAddr,
    _server: Served,
}

impl FaultyServer {
    pub async fn start(fault: Fault) -> Self {
        let server = Served::start(move |stream| answer_faultily(stream, fault));
        Self { address: server.address, _server: server }
    }
}

async fn answer_faultily(mut stream: TcpStream, fault: Fault) -> Option<()> {
    let mut bytes = [0; 65536];
    loop {
        let length = stream.read(&mut bytes).await.ok().filter(|&read| read > 0)?;
        match (&bytes[..length], fault) {
            (b"PING\r\n", _) => stream.write_all(b"+PONG\r\n").await.ok()?,
            (b"flush_all\r\n", _) => stream.write_all(b"OK\r\n").await.ok()?,
            (_, Fault::Sends(reply)) => stream.write_all(reply).await.ok()?,
            (_, Fault::Closes(reply)) => return stream.write_all(reply).await.ok(),
            (_, Fault::Stalls(reply)) => {
                stream.write_all(reply).await.ok()?;
                while stream.read(&mut bytes).await.ok()? > 0 {}
                return None;
            }
        }
    }
}

/// Carries `scene` out with a Redis arbiter in front of a server that answers one command after the
/// other, each after the same time. A host may stop that server: then the scene is played again.
pub async fn before_steady<T, F: Future<Output = T>>(
    each: Duration,
    limit_ms: u64,
    scene: impl Fn(Running) -> F,
) -> T {
    const TRIES_MAX: usize = 10;
    for _ in 0..TRIES_MAX {
        let pause_ms_max = Arc::new(AtomicU64::new(0));
        let pauses = Arc::clone(&pause_ms_max);
        let server =
            Served::start(move |stream| answer_steadily(stream, each, Arc::clone(&pauses)));
        let result = scene(front_within(limit_ms, "redis", 1, &[server.address]).await).await;
        if pause_ms_max.load(Relaxed) < limit_ms / 2 {
            return result;
        }
    }
    panic!("the host stopped the server for {} ms, {TRIES_MAX} times", limit_ms / 2);
}

async fn answer_steadily(mut stream: TcpStream, each: Duration, pause_ms_max: Arc<AtomicU64>) {
    let (mut bytes, mut due) = (vec![0; 65536], 0);
    loop {
        if let Ok(read) = stream.try_read(&mut bytes) {
            if read == 0 {
                return;
            }
            due += bytes[..read].iter().filter(|&&byte| byte == b'*').count();
        }
        let start = Instant::now();
        tokio::time::sleep(each).await;
        pause_ms_max.fetch_max(start.elapsed().as_millis() as u64, Relaxed);
        if due > 0 {
            due -= 1;
            stream.write_all(b"$1\r\nx\r\n").await.unwrap();
        }
    }
}

/// A plain client, independent of the arbiter's parsers.
pub struct Client {
    pub wire: Buffered,
}

impl Client {
    pub async fn open(address: SocketAddr) -> Self {
        Self::of(within_limit("a connection", TcpStream::connect(address)).await.unwrap())
    }

    /// As `open`, from this address.
    pub async fn open_from(own: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((own, 0).into()).unwrap();
        Self::of(socket.connect(address).await.unwrap())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        let wire = Buffered::new(stream);
        Self { wire }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.unwrap();
    }

    pub async fn try_send(&mut self, bytes: &[u8]) -> Option<()> {
        within_limit("a server that reads", self.wire.stream.write_all(bytes)).await.ok()
    }

    /// Words to a Redis, and its whole reply as it is.
    pub async fn redis(&mut self, words: &str) -> String {
        self.send(&encode(words)).await;
        self.reply().await
    }

    /// The next whole reply of a Redis; `<closed>` where there is none.
    pub async fn reply(&mut self) -> String {
        let mut reply = vec![];
        let mut left = 1;
        while left > 0 {
            let Some(line) = self.try_line().await else {
                assert!(reply.is_empty(), "cut reply");
                return "<closed>".to_owned();
            };
            reply.extend_from_slice(line.as_bytes());
            reply.extend_from_slice(b"\r\n");
            left -= 1;
            let count: i64 = line[1..].parse().unwrap_or(0);
            match line.as_bytes()[0] {
                b'*' | b'~' | b'>' => left += count.max(0),
                b'%' => left += 2 * count,
                b'$' | b'=' if count >= 0 => {
                    let length = usize::try_from(count).unwrap() + 2;
                    reply.extend(self.bytes(length).await.expect("cut string"));
                }
                _ => {}
            }
        }
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// A line to a memcached, and the first line of its reply.
    pub async fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.line().await
    }

    /// A line to a memcached, and all lines of its reply up to `END`.
    pub async fn list(&mut self, line: &str) -> Vec<String> {
        self.send(format!("{line}\r\n").as_bytes()).await;
        let mut lines = vec![];
        while !lines.last().is_some_and(|line| line == "END") {
            lines.push(self.line().await);
        }
        lines
    }

    pub async fn line(&mut self) -> String {
        self.try_line().await.unwrap_or("<closed>".to_owned())
    }

    async fn try_line(&mut self) -> Option<String> {
        let line = within_limit("a line of a reply", self.wire.until(b"\r\n")).await?;
        Some(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }

    /// So many bytes; none when the connection ends before.
    pub async fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        within_limit("the bytes of a reply", self.wire.take(length)).await
    }
}

/// Words, parted by single spaces, as a Redis command.
pub fn encode(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// A string as Redis replies it.
pub fn string(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// An arbiter in front of such servers.
pub async fn front(protocol: &str, replicas: usize, servers: &[SocketAddr]) -> Running {
    start(&settings(protocol, "round-robin", replicas, 64), servers).await
}

/// As `front`; a request may take this time.
pub async fn front_within(
    limit_ms: u64,
    protocol: &str,
    replicas: usize,
    servers: &[SocketAddr],
) -> Running {
    let limit = format!("request_timeout_ms = {limit_ms}\n");
    start(&(settings(protocol, "round-robin", replicas, 64) + &limit), servers).await
}

/// As `front`, and a client of it.
pub async fn session(protocol: &str, replicas: usize, servers: &[Server]) -> (Running, Client) {
    let arbiter = front(protocol, replicas, &addresses(servers)).await;
    let client = Client::open(arbiter.clients).await;
    (arbiter, client)
}

/// Their addresses.
pub fn addresses(servers: &[Server]) -> Vec<SocketAddr> {
    servers.iter().map(|server| server.address).collect()
}
