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
    found: Mutex<Found>,
    over: Condvar,
}

#[derive(Default)]
struct Found {
    stopped: bool,
    reading: Reading,
    looks: u64,
    /// Time of the last look's end since the beginning.
    held: Duration,
    problem: Option<String>,
}

impl Meter {
    /// Starts looking.
    pub fn start((scale, reader): (Scale, Box<dyn DoseReader>)) -> Meter {
        let shared = Arc::new(Shared {
            found: Mutex::new(Found { reading: reader.reading(), ..Found::default() }),
            over: Condvar::new(),
        });
        let of_thread = shared.clone();
        let started =
            thread::Builder::new().name("dose".into()).spawn(move || watch(&of_thread, reader));
        if let Err(error) = started {
            shared.lock().problem = Some(format!("no thread to measure with: {error}"));
        }
        Meter { shared, scale }
    }

    /// The dose so far.
    pub fn dose(&self) -> Dose {
        let found = self.shared.lock();
        Dose {
            asked: found.reading.asked,
            measured: found.reading.measured,
            unit: self.scale.unit.into(),
            how: self.scale.how.into(),
            bit: found.reading.bit,
            samples: found.reading.samples.unwrap_or(found.looks),
            seconds: found.reading.seconds.unwrap_or(found.held.as_secs_f64()),
            problem: found.problem.clone(),
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
    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(shared: &Shared, mut reader: Box<dyn DoseReader>) {
    let began = Instant::now();
    let mut pause = SECOND_LOOK_AFTER;
    loop {
        let looked = reader.look(began.elapsed());
        let mut found = shared.lock();
        if found.stopped {
            return;
        }
        if looked.is_ok() {
            found.looks += 1;
            found.held = began.elapsed();
        }
        found.problem = looked.err().map(|error| format!("{error:#}"));
        found.reading = reader.reading();
        let waited = shared.over.wait_timeout_while(found, pause, |found| !found.stopped);
        if waited.unwrap_or_else(PoisonError::into_inner).0.stopped {
            return;
        }
        pause = LOOK_EVERY;
    }
}
