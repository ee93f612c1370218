//! The runner's socket, which a worker is started with: lines of JSON
//! (`contracts/load-message.schema.json`).

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use listenfd::ListenFd;
use serde::{Deserialize, Serialize};

use crate::clock::from_s;
use crate::record::Start;

/// One thread's part of the load, with its own use of the machine.
#[derive(Debug, Serialize)]
pub struct Use {
    /// Number of the thread.
    pub worker: usize,
    /// Host name.
    pub host: String,
    /// The processor's, that it got.
    pub priority: String,
    /// Arrivals of its own.
    pub planned: u64,
    /// Requests with a record.
    pub recorded: u64,
    /// Mean use of one core.
    pub cpu_share: f64,
    /// The most of any second.
    pub cpu_share_max: f64,
}

/// A message of a worker.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Message {
    /// Ready to go.
    Ready,
    /// The end of it.
    Done {
        /// Arrivals that it came to.
        launched: u64,
        /// Requests with a record.
        recorded: u64,
        /// Requests under way at the stop.
        unfinished: u64,
        /// Records that the disk did not take.
        unwritten: u64,
        /// Error of the block, or of the disk.
        error: Option<String>,
        /// Use by thread.
        workers: Vec<Use>,
    },
}

#[derive(Deserialize)]
struct Go {
    t0_s: f64,
    start_s: f64,
}

/// Takes the socket of this number, which whoever started the process left open for it.
pub fn socket(number: u32) -> Result<UnixStream> {
    // A descriptor's number alone is no proof that it is open; `listenfd` looks at what it is. It
    // is told by the variables that it knows.
    env::remove_var("LISTEN_PID");
    env::set_var("LISTEN_FDS", "1");
    env::set_var("LISTEN_FDS_FIRST_FD", number.to_string());
    let listener = ListenFd::from_env().take_unix_listener(0);
    let socket = listener.with_context(|| format!("control socket {number}"))?;
    let socket = socket.with_context(|| format!("control socket {number}: none"))?;
    Ok(UnixStream::from(OwnedFd::from(socket)))
}

/// Sends a message to the runner; `listen` notices when the runner is gone.
pub fn send(socket: &UnixStream, message: &Message) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(b'\n');
        let mut socket = socket;
        let _ = socket.write_all(&line);
    }
}

/// Calls `on_go` with each start message until the socket ends.
pub fn listen(socket: UnixStream, on_go: impl Fn(Start)) {
    for line in BufReader::new(socket).lines() {
        match line.map(|line| serde_json::from_str::<Go>(&line)) {
            Ok(Ok(go)) => on_go(Start { t0_ns: from_s(go.t0_s), start_ns: from_s(go.start_s) }),
            Ok(Err(_)) => {} // of another version
            Err(_) => return,
        }
    }
}
