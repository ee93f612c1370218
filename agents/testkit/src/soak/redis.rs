//! The soak of the Redis arbiter, beside the other's: real servers, a primary and its replicas, are
//! killed and stopped, and every reply is checked.
//!
//! A key has one value ever, whoever sets it: its [`body`]. So a reply to another command, or a piece
//! of one, is noticed, though a replica may lag and a server that was killed comes back empty.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::clients::{self, Clients};
use super::subject::{hang, Subject};
use super::{Plan, ProtocolReport};
use crate::keyed::body;
use crate::load::{Tally, PATIENCE, PAUSE};
use crate::random::Random;
use crate::stream::Buffered;
use crate::upstream::nobody;

const SERVERS: usize = 3;
const KEYS: u64 = 4_096;
/// Clients by how many commands they send before they read; some have a connection of their own.
const CLIENTS: [(usize, usize, bool); 4] =
    [(6, 1, false), (6, 16, false), (2, 4, true), (2, 1, true)];
/// Pause after each batch; the other arbiter needs the processor more.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
/// A client's batches until it goes, in the middle of a command.
const BATCHES: usize = 100;
const SETTINGS: &str = "policy = \"tad\"\nreplicas = 2\ntokens = 64\nrequest_timeout_ms = 500\n\
                        [guardrails]\nejected_ms_first = 200\nejected_ms_max = 1000";

/// Starts a primary, or a replica of one.
fn start(folder: &Path, address: SocketAddr, primary: Option<SocketAddr>) -> Result<Child> {
    let mut command = Command::new("redis-server");
    let port = address.port().to_string();
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--repl-diskless-sync-delay", "0"]);
    if let Some(primary) = primary {
        let replica_of = format!("127.0.0.1 {}", primary.port());
        command.args(["--replicaof", &replica_of]);
    }
    command.current_dir(folder).kill_on_drop(true);
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    spawned.context("redis-server: cannot start; is the package there?")
}

/// Runs it until the tally says stop. The tally is its own.
///
/// # Errors
/// When something cannot be started, or the arbiter does not end well.
pub async fn run(plan: &Plan, tally: &Arc<Tally>) -> Result<ProtocolReport> {
    let folder = tempfile::tempdir()?;
    let addresses: Vec<_> = (0..SERVERS).map(|_| nobody()).collect();
    let primary_of = |place: usize| (place > 0).then_some(addresses[0]);
    let start_one = |place: usize| start(folder.path(), addresses[place], primary_of(place));
    let mut servers = (0..SERVERS).map(start_one).collect::<Result<Vec<_>>>()?;
    let subject = Subject::start(plan, "redis", folder.path(), &addresses, SETTINGS).await?;
    let mut others = Clients::start(plan, &clients::REDIS, subject.clients, tally)?;
    let mut clients = JoinSet::new();
    let mut number = plan.seed << 16;
    for (count, pipelined, is_pinned) in CLIENTS {
        for _ in 0..count {
            number += 1;
            let (tally, address) = (Arc::clone(tally), subject.clients);
            let session = (pipelined, is_pinned);
            clients.spawn(async move { check(address, session, number, &tally).await });
        }
    }
    let (mut random, mut kills, mut hangs) = (Random::new(plan.seed), 0, 0);
    while tally.goes_on() {
        others.ensure_running()?;
        let victim = random.below(SERVERS as u64) as usize;
        if random.below(2) == 0 {
            servers[victim].kill().await?;
            kills += 1;
            sleep(Duration::from_millis(300)).await;
            servers[victim] = start_one(victim)?;
        } else {
            let pid = servers[victim].id().context("a server ended")?;
            hang(pid, &mut random).await?;
            hangs += 1;
        }
        tally.faulted.store(kills > 0 && hangs > 0, Relaxed);
        sleep(Duration::from_millis(700)).await;
    }
    clients.join_all().await;
    let clients = others.end().await?;
    subject.end().await?;
    let counts = tally.counts();
    Ok(ProtocolReport { counts, clients, kills, hangs })
}

/// A checking client, until the tally says stop.
async fn check(address: SocketAddr, session: (usize, bool), seed: u64, tally: &Tally) {
    let (pipelined, is_pinned) = session;
    let mut random = Random::new(seed);
    while tally.goes_on() {
        sleep(PAUSE).await;
        let Ok(stream) = TcpStream::connect(address).await else {
            continue;
        };
        tally.connections.fetch_add(1, Relaxed);
        let mut session = Session(Buffered::new(stream));
        if is_pinned && session.ask(&[Request::Pin], tally).await.is_none() {
            continue;
        }
        for _ in 0..BATCHES {
            let requests: Vec<_> = (0..pipelined).map(|_| Request::draw(&mut random)).collect();
            if !tally.goes_on() || session.ask(&requests, tally).await.is_none() {
                break;
            }
            sleep(BATCH_PAUSE).await;
        }
        // It goes; whether this still arrives is all the same.
        let _ = session.0.stream.write_all(b"*3\r\n$3\r\nSET\r\n$9").await;
    }
}

#[derive(Debug, Clone, Copy)]
enum Request {
    /// The command that gives the client a connection of its own.
    Pin,
    Set(u64),
    Get(u64),
}

impl Request {
    fn draw(random: &mut Random) -> Self {
        let key = Random::new(random.below(KEYS)).bits();
        match random.below(4) {
            0 => Self::Set(key),
            _ => Self::Get(key),
        }
    }

    fn append(self, out: &mut Vec<u8>) {
        let (name, key) = match self {
            Self::Pin => return out.extend_from_slice(b"*2\r\n$5\r\nWATCH\r\n$1\r\nk\r\n"),
            Self::Set(key) => ("*3\r\n$3\r\nSET", key),
            Self::Get(key) => ("*2\r\n$3\r\nGET", key),
        };
        out.extend_from_slice(format!("{name}\r\n$16\r\n{key:016x}\r\n").as_bytes());
        if matches!(self, Self::Set(_)) {
            let value = body(key);
            out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
            out.extend_from_slice(&value);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// True if this can be its reply.
    fn fits(self, reply: &Reply) -> bool {
        match (self, reply) {
            (Self::Set(_) | Self::Pin, Reply::Line(line)) => line == "+OK",
            (Self::Get(_), Reply::Line(line)) => line == "$-1",
            (Self::Get(key), Reply::String(value)) => *value == body(key),
            (_, Reply::String(_)) => false,
        }
    }
}

/// True if it is an error of the arbiter, or of a server that has just started.
fn is_error(line: &str) -> bool {
    let starts = ["-ERR arbiter: ", "-LOADING ", "-MASTERDOWN "];
    starts.iter().any(|start| line.starts_with(start))
}

#[derive(Debug)]
enum Reply {
    Line(String),
    String(Vec<u8>),
}

struct Session(Buffered);

impl Session {
    /// Sends these and checks their replies; none when the connection has ended.
    async fn ask(&mut self, requests: &[Request], tally: &Tally) -> Option<()> {
        let mut out = Vec::new();
        for request in requests {
            request.append(&mut out);
        }
        self.0.stream.write_all(&out).await.ok()?;
        for request in requests {
            let Ok(reply) = timeout(PATIENCE, self.reply()).await else {
                tally.wrong(format!("{request:?}: no reply within 20 s"));
                return None;
            };
            let Some(reply) = reply else {
                tally.unanswered.fetch_add(1, Relaxed);
                return None;
            };
            match reply {
                Reply::Line(line) if is_error(&line) => tally.error(line),
                reply if request.fits(&reply) => drop(tally.checked.fetch_add(1, Relaxed)),
                reply => {
                    let reply: String = format!("{reply:?}").chars().take(200).collect();
                    tally.wrong(format!("{request:?}: {reply}"));
                    return None;
                }
            }
        }
        Some(())
    }

    /// The next reply; none where the connection ends before its end.
    async fn reply(&mut self) -> Option<Reply> {
        let line = self.0.until(b"\r\n").await?;
        let line = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
        let length = line.strip_prefix('$').map(str::parse::<usize>);
        let Some(Ok(length)) = length else {
            return Some(Reply::Line(line));
        };
        let mut value = self.0.take(length + 2).await?;
        value.truncate(length);
        Some(Reply::String(value))
    }
}
