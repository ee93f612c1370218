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
    shared: Arc<dyn Any + Send + Sync>,
}

/// The flag that tells a thread to end.
#[derive(Debug, Default)]
pub struct Stop {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// True if it is to end.
    pub fn is_stopped(&self) -> bool {
        *lock(&self.flag)
    }

    /// Waits at most this long; returns true if it must end.
    pub fn wait(&self, most: Duration) -> bool {
        let result = self.changed.wait_timeout_while(lock(&self.flag), most, |flag| !*flag);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }

    fn stop(&self) {
        *lock(&self.flag) = true;
        self.changed.notify_all();
    }
}

impl Workers {
    /// Starts the thread of a fault; `seen` is the state that it shows.
    pub fn start<T: Send + Sync + 'static>(
        &self,
        id: &str,
        shared: Arc<T>,
        run: impl FnOnce(&T, &Stop) + Send + 'static,
    ) -> Result<()> {
        let stop = Arc::new(Stop::default());
        let (thread_stop, thread_shared) = (stop.clone(), shared.clone());
        let thread = thread::Builder::new()
            .name("fault".into())
            .spawn(move || run(&thread_shared, &thread_stop))
            .context("no thread to carry the fault on")?;
        let worker = Worker { stop, thread, shared };
        lock(&self.0).insert(id.to_owned(), worker);
        Ok(())
    }

    /// The state that a fault's thread shows of itself.
    pub fn shared<T: Send + Sync + 'static>(&self, id: &str) -> Option<Arc<T>> {
        let shared = lock(&self.0).get(id)?.shared.clone();
        shared.downcast().ok()
    }

    /// Returns when the fault's thread has ended, if there is one.
    pub fn stop(&self, id: &str) {
        let worker = lock(&self.0).remove(id);
        if let Some(worker) = worker {
            worker.stop.stop();
            // A thread that panicked has ended too; its dose says what it did not do.
            let _ = worker.thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_worker_that_is_stopped_has_ended_and_is_forgotten() {
        let workers = Workers::default();
        let flag = Arc::new(AtomicBool::new(false));
        workers
            .start("f1", flag.clone(), |flag, stop| {
                while !stop.wait(Duration::from_secs(60)) {}
                flag.store(true, Ordering::SeqCst);
            })
            .unwrap();
        assert!(workers.shared::<AtomicBool>("f1").is_some());
        assert!(workers.shared::<String>("f1").is_none());
        workers.stop("f1");
        assert!(flag.load(Ordering::SeqCst));
        assert!(workers.shared::<AtomicBool>("f1").is_none());
        workers.stop("f1");
    }
}
