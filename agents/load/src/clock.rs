//! Clocks in nanoseconds. The monotonic one is that of the runner, Python's `time.monotonic()`.

use nix::time::{clock_gettime, ClockId};

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;

/// The kernel's monotonic clock.
pub fn monotonic_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Processor time of the calling thread.
pub fn thread_cpu_ns() -> i64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of the process, all threads.
pub fn process_cpu_ns() -> i64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Seconds since 1970.
pub fn wall_s() -> f64 {
    read(ClockId::CLOCK_REALTIME) as f64 / SECOND as f64
}

/// Seconds of a plan or a message, as nanoseconds.
pub fn from_s(seconds: f64) -> i64 {
    (seconds * SECOND as f64).round() as i64
}

/// The kernel has had these clocks for twenty years: one that cannot be read stands still at 0.
fn read(clock: ClockId) -> i64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() * SECOND + time.tv_nsec())
}
