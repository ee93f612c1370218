//! A line of JSON for each invocation. Times are of the host's monotonic clock.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::client::calls::{Method, Reply};
use crate::core::call::Account;

/// Identity of an invocation.
#[derive(Debug, Serialize)]
pub struct Invocation {
    /// Number among this program's clients.
    pub client: i32,
    /// Number that the servers gave the client.
    pub id: i32,
    /// Number of the request.
    pub number: i64,
    /// The method that was invoked.
    pub method: Method,
    /// Start of the invocation.
    pub start_s: f64,
}

/// One invocation.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    invocation: &'a Invocation,
    latency_ms: f64,
    outcome: &'a str,
    sent: u32,
    needless: bool,
    server: &'a str,
    detection_ms: f64,
    waiting_ms: f64,
    naming_ms: f64,
    lock_ms: f64,
    connecting_ms: f64,
    again_ms: f64,
}

/// The file.
#[derive(Debug)]
pub struct Records(Mutex<BufWriter<File>>);

impl Records {
    /// A new file.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self(Mutex::new(BufWriter::new(File::create(path)?))))
    }

    /// Writes an invocation.
    pub fn write(
        &self,
        invocation: &Invocation,
        account: &Account,
        reply: Option<&Reply>,
    ) -> std::io::Result<()> {
        let parts = account.parts.unwrap_or_default();
        let line = Line {
            invocation,
            latency_ms: 1e3 * account.latency_s,
            outcome: match reply {
                Some(reply) if reply.is_right => "ok",
                Some(_) => "wrong",
                None => "gave_up",
            },
            sent: account.sent,
            needless: account.is_needless,
            server: reply.map_or("", |reply| &reply.server),
            detection_ms: 1e3 * parts.detection_s,
            waiting_ms: 1e3 * parts.waiting_s,
            naming_ms: 1e3 * parts.naming_s,
            lock_ms: 1e3 * parts.lock_s,
            connecting_ms: 1e3 * parts.connecting_s,
            again_ms: 1e3 * parts.again_s,
        };
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *file, &line)?;
        file.write_all(b"\n")
    }

    /// Writes all records to the file.
    pub fn flush(&self) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
