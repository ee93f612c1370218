//! The agent tells the store what to do over a Unix socket: a line of JSON each way.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::io_faults::{Counts, Desk, IoFault};

const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The agent's request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    Set(IoFault),
    /// Clears the fault with this id.
    Clear(String),
    Look(String),
}

/// The reply: the counts of the fault, if it is in force.
pub type Answer = Option<Counts>;

/// Answers until the process ends.
pub fn serve(listener: &UnixListener, desk: &Arc<Desk>) {
    for stream in listener.incoming().flatten() {
        // The agent hears of it by an answer that does not come.
        let _ = answer(stream, desk);
    }
}

fn answer(stream: UnixStream, desk: &Desk) -> Result<()> {
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let answer: Answer = match serde_json::from_str(&line)? {
        Request::Set(trouble) => {
            let id = trouble.id.clone();
            desk.set(trouble);
            desk.counts(&id)
        }
        Request::Clear(id) => {
            let last = desk.counts(&id);
            desk.clear(&id);
            last
        }
        Request::Look(id) => desk.counts(&id),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    (&stream).write_all(text.as_bytes()).context("the answer")
}

/// Asks the store at this socket.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer> {
    let stream = UnixStream::connect(socket)
        .with_context(|| format!("no store answers at {}", socket.display()))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    (&stream).write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).context("the store did not answer")?;
    serde_json::from_str(&line).with_context(|| format!("the store answered `{}`", line.trim()))
}
