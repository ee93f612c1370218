//! Measures one fault in a separate thread, so that no undo waits for a measurement.
//!
//! It measures when the fault is in, a quarter of a second later and then each second, with a few
//! milliseconds of CPU time at most. A measurement that ends after the undo began is discarded,
//! because it may have seen the restored machine.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use wire::agent::Dose;

use crate::faults::dose::{DoseReader, Reading, Scale};

const SECOND_LOOK_AFTER: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keeps the reading so far.
pub struct Meter {
    shared: Arc<Shared>,
    scale: Scale,
}

struct Shared {
    progress: Mutex<Progress>,
    over: Condvar,
}

#[derive(Default)]
struct Progress {
    stopped: bool,
    reading: Reading,
    looks: u64,
    /// Time of the last look's end since the beginning.
    elapsed: Duration,
    problem: Option<String>,
}

impl Meter {
    /// Starts looking.
    pub fn start((scale, reader): (Scale, Box<dyn DoseReader>)) -> Meter {
        let shared = Arc::new(Shared {
            progress: Mutex::new(Progress { reading: reader.reading(), ..Progress::default() }),
            over: Condvar::new(),
        });
        let thread_shared = shared.clone();
        let result =
            thread::Builder::new().name("dose".into()).spawn(move || watch(&thread_shared, reader));
        if let Err(error) = result {
            shared.lock().problem = Some(format!("no thread to measure with: {error}"));
        }
        Meter { shared, scale }
    }

    /// The dose so far.
    pub fn dose(&self) -> Dose {
        let progress = self.shared.lock();
        Dose {
            asked: progress.reading.asked,
            measured: progress.reading.measured,
            unit: self.scale.unit.into(),
            how: self.scale.how.into(),
            bit: progress.reading.bit,
            samples: progress.reading.samples.unwrap_or(progress.looks),
            seconds: progress.reading.seconds.unwrap_or(progress.elapsed.as_secs_f64()),
            problem: progress.problem.clone(),
        }
    }

    /// Ends it without waiting for a look; returns the dose so far.
    pub fn stop(self) -> Dose {
        self.shared.lock().stopped = true;
        self.shared.over.notify_all();
        self.dose()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(shared: &Shared, mut reader: Box<dyn DoseReader>) {
    let start = Instant::now();
    let mut pause = SECOND_LOOK_AFTER;
    loop {
        let result = reader.look(start.elapsed());
        let mut progress = shared.lock();
        if progress.stopped {
            return;
        }
        if result.is_ok() {
            progress.looks += 1;
            progress.elapsed = start.elapsed();
        }
        progress.problem = result.err().map(|error| format!("{error:#}"));
        progress.reading = reader.reading();
        let wait = shared.over.wait_timeout_while(progress, pause, |progress| !progress.stopped);
        if wait.unwrap_or_else(PoisonError::into_inner).0.stopped {
            return;
        }
        pause = LOOK_EVERY;
    }
}
