//! The threads that do the I/O, so that one that takes long holds up none that come after it.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use super::io_faults::{Ask, Desk, Fate};

/// Maximum I/Os under way; one that waits for a fault's end has a thread of its own.
const WORKERS: usize = 16;

type Job = Box<dyn FnOnce(std::result::Result<(), i32>) + Send>;

/// A pool of I/O threads.
pub struct Workers {
    jobs: Sender<Job>,
    desk: Arc<Desk>,
}

impl Workers {
    pub fn start(desk: Arc<Desk>) -> Result<Workers> {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..WORKERS {
            let waiting = waiting.clone();
            thread::Builder::new()
                .name("store".into())
                .spawn(move || work(&waiting))
                .context("no thread for the store")?;
        }
        Ok(Workers { jobs, desk })
    }

    /// Does an I/O when the fault in force lets it; it is told an error number where it may not.
    pub fn submit(
        &self,
        ask: Ask,
        job: impl FnOnce(std::result::Result<(), i32>) + Send + 'static,
    ) {
        match self.desk.ask(ask, Instant::now()) {
            // It fails only where all workers are gone, and then nothing is left to do.
            Fate::GoesOn => drop(self.jobs.send(Box::new(job))),
            Fate::Fails(error) => job(Err(error)),
            Fate::Waits { start, delay, turn } => {
                let desk = self.desk.clone();
                thread::spawn(move || {
                    desk.wait(start, delay, turn);
                    job(Ok(()));
                });
            }
        }
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(Ok(())),
            Err(_) => return,
        }
    }
}
