//! Threads that maintain a fault while it is held, by the fault's id; its undo ends them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

/// Worker threads of one machine. An agent that ends takes them along; their faults are then undone
/// from the journal.
#[derive(Debug, Default)]
pub struct Workers(Mutex<BTreeMap<String, Worker>>);

#[derive(Debug)]
struct Worker {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
    seen: Arc<dyn Any + Send + Sync>,
}

/// The flag that tells a thread to end.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Mutex<bool>,
    told: Condvar,
}

impl Stop {
    /// True if it is to end.
    pub fn is_asked(&self) -> bool {
        *lock(&self.asked)
    }

    /// Waits at most this long; returns true if it must end.
    pub fn wait(&self, most: Duration) -> bool {
        let waited = self.told.wait_timeout_while(lock(&self.asked), most, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn ask(&self) {
        *lock(&self.asked) = true;
        self.told.notify_all();
    }
}

impl Workers {
    /// Starts the thread of a fault; `seen` is the state that it shows.
    pub fn start<T: Send + Sync + 'static>(
        &self,
        id: &str,
        seen: Arc<T>,
        run: impl FnOnce(&T, &Stop) + Send + 'static,
    ) -> Result<()> {
        let stop = Arc::new(Stop::default());
        let (of_thread, shown) = (stop.clone(), seen.clone());
        let thread = thread::Builder::new()
            .name("fault".into())
            .spawn(move || run(&shown, &of_thread))
            .context("no thread to carry the fault on")?;
        let worker = Worker { stop, thread, seen };
        lock(&self.0).insert(id.to_owned(), worker);
        Ok(())
    }

    /// The state that a fault's thread shows of itself.
    pub fn seen<T: Send + Sync + 'static>(&self, id: &str) -> Option<Arc<T>> {
        let seen = lock(&self.0).get(id)?.seen.clone();
        seen.downcast().ok()
    }

    /// Returns when the fault's thread has ended, if there is one.
    pub fn stop(&self, id: &str) {
        let worker = lock(&self.0).remove(id);
        if let Some(worker) = worker {
            worker.stop.ask();
            // A thread that panicked has ended too; its dose says what it did not do.
            let _ = worker.thread.join();
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_worker_that_is_stopped_has_ended_and_is_forgotten() {
        let workers = Workers::default();
        let ended = Arc::new(AtomicBool::new(false));
        workers
            .start("f1", ended.clone(), |ended, stop| {
                while !stop.wait(Duration::from_secs(60)) {}
                ended.store(true, Ordering::SeqCst);
            })
            .unwrap();
        assert!(workers.seen::<AtomicBool>("f1").is_some());
        assert!(workers.seen::<String>("f1").is_none());
        workers.stop("f1");
        assert!(ended.load(Ordering::SeqCst));
        assert!(workers.seen::<AtomicBool>("f1").is_none());
        workers.stop("f1");
    }
}
