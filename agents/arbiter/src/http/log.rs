//! The access log: one line of JSON for each request, written by a thread of its own.
//!
//! A disk that is slow must not hold requests up: lines that find the queue full are dropped, and
//! the next one says how many. Each request has an identity (`X-Request-ID`), the client's own or a
//! new one, which the server gets too, so that its log can be laid beside this one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

const FIELD: &str = "X-Request-ID";
/// Longest identity that is taken over from a client.
const ID_MAX: usize = 128;
/// Lines that wait to be written.
const QUEUE_MAX: usize = 10_000;

/// See the module.
pub struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    dropped: AtomicU64,
    next_id: AtomicU64,
}

/// One request.
#[derive(Serialize)]
struct Line<'a> {
    unix_s: f64,
    id: &'a str,
    client: &'a str,
    method: &'a str,
    target: &'a str,
    /// Absent where the client got none.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    duration_us: u64,
    #[serde(skip_serializing_if = "is_zero")]
    lines_dropped: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What became of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Of the reply, if there was one.
    pub status: Option<u16>,
    /// Whose it was.
    pub server: Option<policy::ServerId>,
}

impl AccessLog {
    /// Opens the file, to write at its end. `first_id` is where identities begin.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path, first_id: u64) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        let (lines, queue) = sync_channel(QUEUE_MAX);
        std::thread::Builder::new()
            .name("arbiter-log".to_owned())
            .spawn(move || write(&queue, BufWriter::new(file)))?;
        Ok(Self {
            lines,
            dropped: AtomicU64::new(0),
            next_id: AtomicU64::new(first_id),
        })
    }

    /// The identity in a request's head; a new one is added where there is none that will do.
    pub fn identify(&self, head: &mut Vec<u8>) -> String {
        if let Some(id) = identity(head) {
            return id;
        }
        let id = format!("{:016x}", self.next_id.fetch_add(1, Relaxed));
        head.truncate(head.len().saturating_sub(2));
        head.extend_from_slice(format!("{FIELD}: {id}\r\n\r\n").as_bytes());
        id
    }

    /// Queues a line. `head` is the request's, as the server got it.
    pub fn say(
        &self,
        (id, client): (&str, &str),
        head: &[u8],
        (status, server): (Option<u16>, Option<&str>),
        duration: Duration,
    ) {
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = Line {
            unix_s: since.unwrap_or_default().as_secs_f64(),
            id,
            client,
            method: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            status,
            server,
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            lines_dropped: self.dropped.swap(0, Relaxed),
        };
        // Numbers and texts can always be written as JSON.
        let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
        bytes.push(b'\n');
        if self.lines.try_send(bytes).is_err() {
            self.dropped.fetch_add(1 + line.lines_dropped, Relaxed);
        }
    }
}

fn identity(head: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(head).ok()?;
    let value = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case(FIELD).then_some(value)
    })?;
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic());
    ((1..=ID_MAX).contains(&value.len()) && is_plain).then(|| value.to_owned())
}

/// Writes what comes, and what was written through whenever nothing more waits.
fn write(queue: &Receiver<Vec<u8>>, mut file: BufWriter<File>) {
    while let Ok(first) = queue.recv() {
        let mut written = file.write_all(&first);
        while let Ok(next) = queue.try_recv() {
            written = written.and_then(|()| file.write_all(&next));
        }
        if let Err(error) = written.and_then(|()| file.flush()) {
            eprintln!("arbiter: the access log cannot be written: {error}");
        }
    }
}
