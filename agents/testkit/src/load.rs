//! Clients that check every reply.
//!
//! A checked reply has the status, the key, the length and every byte that belong to its request. An
//! error of the server or of the arbiter is an answer too, and counted; anything else is *wrong*.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::keyed::{append_framed, body, is_chunked};
use crate::random::Random;
use crate::stream::{field, Buffered};

/// A reply that takes longer is wrong: the arbiter must have given up long before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Between two acts of a misusing client, and before a client connects again.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);
/// Wrong replies that are described.
const DESCRIBED_MAX: usize = 10;

/// The clients' results.
#[derive(Debug, Default)]
pub struct Tally {
    /// Replies that were right in every byte.
    pub checked: AtomicU64,
    /// Errors of a server or of the arbiter, proper replies all of them: by what they say.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// Such errors during an outage.
    pub errors_in_outages: Mutex<BTreeMap<String, u64>>,
    /// Set while all servers, or MySQL's primary, are dead or not yet in use again.
    pub outage: AtomicBool,
    /// A server was killed, and one hung. Only the arbiters beside tell.
    pub faulted: AtomicBool,
    /// Replies that broke off visibly.
    pub cut: AtomicU64,
    /// Requests whose connection ended without a reply.
    pub unanswered: AtomicU64,
    /// Connections made.
    pub connections: AtomicU64,
    /// Acts of misusing clients, each answered as it should be.
    pub misused: AtomicU64,
    /// Uploads that stalled, each refused as it should be.
    pub stalled: AtomicU64,
    /// Large replies of which a little was read, slowly, and right.
    pub read_slowly: AtomicU64,
    /// Replies that cannot be.
    pub wrong: AtomicU64,
    /// The first of them.
    pub described: Mutex<Vec<String>>,
    /// Set to end all clients.
    pub stop: AtomicBool,
}

/// A tally at one moment.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Counts {
    pub checked: u64,
    pub errors_by_cause: BTreeMap<String, u64>,
    pub errors_in_outages_by_cause: BTreeMap<String, u64>,
    pub cut: u64,
    pub unanswered: u64,
    pub connections: u64,
    pub misused: u64,
    pub stalled: u64,
    pub read_slowly: u64,
    pub wrong: u64,
    pub described: Vec<String>,
}

impl Counts {
    /// Errors while a server was there, and replies that broke off.
    pub fn spoilt(&self) -> u64 {
        self.errors_by_cause.values().sum::<u64>() + self.cut
    }

    /// All requests that something came back for.
    pub fn replies(&self) -> u64 {
        let in_outages: u64 = self.errors_in_outages_by_cause.values().sum();
        self.checked + self.spoilt() + in_outages
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// The numbers now.
    pub fn counts(&self) -> Counts {
        Counts {
            checked: self.checked.load(Relaxed),
            errors_by_cause: lock(&self.errors).clone(),
            errors_in_outages_by_cause: lock(&self.errors_in_outages).clone(),
            cut: self.cut.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
            connections: self.connections.load(Relaxed),
            misused: self.misused.load(Relaxed),
            stalled: self.stalled.load(Relaxed),
            read_slowly: self.read_slowly.load(Relaxed),
            wrong: self.wrong.load(Relaxed),
            described: lock(&self.described).clone(),
        }
    }

    pub(crate) fn error(&self, cause: String) {
        let errors = if self.outage.load(Relaxed) { &self.errors_in_outages } else { &self.errors };
        *lock(errors).entry(cause).or_default() += 1;
    }

    pub(crate) fn wrong(&self, error: String) {
        self.wrong.fetch_add(1, Relaxed);
        let mut described = lock(&self.described);
        if described.len() < DESCRIBED_MAX {
            described.push(error);
        }
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }
}

/// Manner of sending of a checking client.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Requests sent before the first reply is read.
    pub pipelined: usize,
    /// One byte at a time.
    pub bytewise: bool,
}

/// A checking client, until the tally says stop.
pub async fn check(address: SocketAddr, style: Style, seed: u64, tally: &Tally) {
    let mut random = Random::new(seed);
    while tally.goes_on() {
        let Ok(stream) = TcpStream::connect(address).await else {
            sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        tally.connections.fetch_add(1, Relaxed);
        let mut session = Session(Buffered::new(stream));
        while tally.goes_on() && session.batch(style, &mut random, tally).await {}
    }
}

struct Session(Buffered);

struct Request {
    key: u64,
    is_head: bool,
}

enum Verdict {
    Right,
    /// Its text.
    Error(String),
    Cut,
    Ended,
    Wrong(String),
}

impl Session {
    /// Sends some requests and checks their replies; false when the connection has ended.
    async fn batch(&mut self, style: Style, random: &mut Random, tally: &Tally) -> bool {
        let mut out = Vec::new();
        let requests: Vec<Request> = (0..style.pipelined).map(|_| ask(random, &mut out)).collect();
        // A connection that broke while we wrote may still hold replies.
        let sent = if style.bytewise {
            self.send_bytewise(&out).await
        } else {
            self.0.stream.write_all(&out).await.is_ok()
        };
        for (place, request) in requests.iter().enumerate() {
            let verdict = match timeout(PATIENCE, self.reply(request)).await {
                Ok(verdict) => verdict,
                Err(_) => Verdict::Wrong("no reply within 20 s".to_owned()),
            };
            let is_right = matches!(verdict, Verdict::Right);
            let counter = match verdict {
                Verdict::Right => &tally.checked,
                Verdict::Cut => &tally.cut,
                Verdict::Ended => &tally.unanswered,
                Verdict::Error(cause) => {
                    tally.error(cause);
                    continue;
                }
                Verdict::Wrong(error) => {
                    tally.wrong(format!("key {:016x}: {error}", request.key));
                    return false;
                }
            };
            counter.fetch_add(1, Relaxed);
            if !is_right {
                let count = (requests.len() - place - 1) as u64;
                tally.unanswered.fetch_add(count, Relaxed);
                return false;
            }
        }
        sent
    }

    async fn send_bytewise(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            if self.0.stream.write_all(&[*byte]).await.is_err() {
                return false;
            }
            tokio::task::yield_now().await;
        }
        true
    }

    async fn reply(&mut self, request: &Request) -> Verdict {
        let Some(head) = self.0.head().await else {
            // A head is written at once; a piece of one is the end of a cut reply.
            return match self.0.is_empty() {
                true => Verdict::Ended,
                false => Verdict::Cut,
            };
        };
        if request.is_head {
            return judge(request, &head, &[]);
        }
        match self.0.body(&head).await {
            Some(body) => judge(request, &head, &body),
            None => Verdict::Cut,
        }
    }
}

/// Appends a request: mostly GET, some HEAD, some POST.
fn ask(random: &mut Random, out: &mut Vec<u8>) -> Request {
    let key = random.bits();
    let draw = random.below(100);
    let method = match draw {
        0..=4 => "POST",
        5..=9 => "HEAD",
        _ => "GET",
    };
    out.extend_from_slice(format!("{method} /{key:016x} HTTP/1.1\r\nHost: soak\r\n").as_bytes());
    if method == "POST" {
        append_framed(out, &body(!key), is_chunked(!key));
    } else {
        out.extend_from_slice(b"\r\n");
    }
    Request { key, is_head: method == "HEAD" }
}

fn judge(request: &Request, head: &str, content: &[u8]) -> Verdict {
    let status = head.get(9..12).unwrap_or_default();
    let key = format!("{:016x}", request.key);
    let is_mine = field(head, "x-key").map(|value| value == key);
    match (status, is_mine) {
        (_, Some(false)) => Verdict::Wrong(format!("the reply of another request: {head:?}")),
        ("200", Some(true)) if request.is_head || content == body(request.key) => Verdict::Right,
        ("200", Some(true)) => Verdict::Wrong(format!("{} bytes of another body", content.len())),
        ("500", Some(true)) => Verdict::Error("500 of a server".to_owned()),
        ("502" | "503" | "504", None) if request.is_head => {
            Verdict::Error(format!("{status} to HEAD"))
        }
        ("502" | "503" | "504", None) => {
            let text = String::from_utf8_lossy(content);
            let reason = text.trim_start_matches("arbiter: ").trim_end();
            Verdict::Error(format!("{status} {reason}"))
        }
        _ => Verdict::Wrong(format!("a reply that cannot be: {head:?}")),
    }
}
