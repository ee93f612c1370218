//! Time as an argument: an entry point reads the clock, everything below gets a `Moment`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One instant on two clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Time since the agent started; monotonic, for leases.
    pub uptime: Duration,
    /// Unix time, for people and records.
    pub wall_ms: u64,
}

/// The clocks of this process.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// Starts counting now.
    pub fn start() -> Clock {
        Clock { started: Instant::now() }
    }

    /// Reads both clocks.
    pub fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { uptime: self.started.elapsed(), wall_ms: wall.as_millis() as u64 }
    }
}
