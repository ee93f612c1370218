//! Takes records from the loops and writes them, on a thread that delays no request.
//!
//! A killed worker loses the records of the last tenth of a second. On a full disk the lines wait
//! in memory (at most as many as arrivals) and are tried again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;

use crate::plan::Plan;
use crate::record::{Lines, Record, Start};
use crate::tally::Tally;

/// Pause before a failed write is repeated.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// Records that could not be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Records.
    pub count: u64,
    /// Error of the last write.
    pub error: Option<String>,
}

/// Takes records from the loops and writes them.
pub struct Recorder {
    plan: Arc<Plan>,
    lines: Lines,
    file: Option<File>,
    waiting: Vec<u8>,
    error: Option<String>,
    tally: Option<Arc<Mutex<Tally>>>,
}

impl Recorder {
    /// Appends to the file at `path`, if there is one, and counts in `tally`, if there is one.
    pub fn open(
        plan: Arc<Plan>,
        path: Option<&Path>,
        tally: Option<Arc<Mutex<Tally>>>,
    ) -> io::Result<Self> {
        let append = |path| OpenOptions::new().append(true).create(true).open(path);
        Ok(Self {
            lines: Lines::new(&plan),
            file: path.map(append).transpose()?,
            plan,
            waiting: vec![],
            error: None,
            tally,
        })
    }

    /// Writes records until all loops have ended. Returns what is unwritten then.
    pub fn run(mut self, start: Start, records: &Receiver<Vec<Record>>) -> Unwritten {
        loop {
            let batch = if self.error.is_some() {
                records.recv_timeout(TRY_AGAIN)
            } else {
                records.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match batch {
                Ok(records) => self.take(start, &records),
                Err(RecvTimeoutError::Timeout) => self.write(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.write();
        Unwritten {
            count: self.waiting.iter().filter(|byte| **byte == b'\n').count() as u64,
            error: self.error,
        }
    }

    fn take(&mut self, start: Start, batch: &[Record]) {
        if let Some(tally) = &self.tally {
            // A thread that panicked has ended the worker.
            if let Ok(mut tally) = tally.lock() {
                tally.take(&self.plan, start, batch);
            }
        }
        if self.file.is_some() {
            for record in batch {
                self.lines.append(&mut self.waiting, &self.plan, start, record);
            }
            self.write();
        }
    }

    /// Writes what waits; a failure is kept, and nothing is dropped.
    fn write(&mut self) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut count = 0;
        while count < self.waiting.len() {
            match file.write(&self.waiting[count..]) {
                Ok(bytes) => count += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(error_name(&error));
                    self.waiting.drain(..count);
                    return;
                }
            }
        }
        self.error = None;
        self.waiting.clear();
    }
}

/// Name of a system error.
fn error_name(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

/// A recorder at work.
pub type Recording = thread::JoinHandle<Unwritten>;
