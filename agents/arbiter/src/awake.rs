//! Busy polling: a thread that has just been woken looks for more for a while before it sleeps again.
//!
//! Who wakes a sleeping thread pays for it, and the thread comes later by as much. The price is a core
//! that is busy in between.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::yield_now;

/// A runtime of one thread, which is that of its `block_on`; it stays awake for `busy_poll` after
/// each time that it was woken (0: not at all).
///
/// # Errors
/// When the system has no descriptors for it.
pub fn runtime(busy_poll: Duration) -> io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    if busy_poll.is_zero() {
        return builder.build();
    }
    let woken = Arc::new(Notify::new());
    let wakes = Arc::clone(&woken);
    let runtime = builder
        .on_thread_unpark(move || wakes.notify_one())
        .build()?;
    runtime.spawn(stay(woken, busy_poll));
    Ok(runtime)
}

/// While this yields, the runtime asks the system what has come and does not wait for it.
async fn stay(woken: Arc<Notify>, busy_poll: Duration) {
    loop {
        woken.notified().await;
        let since = Instant::now();
        while since.elapsed() < busy_poll {
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nix::time::{clock_gettime, ClockId};

    /// CPU time of this thread while its runtime is woken each 20 ms, ten times.
    fn used(busy_poll: Duration) -> Duration {
        let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        let runtime = runtime(busy_poll).unwrap();
        let before = now();
        runtime.block_on(async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        now() - before
    }

    #[test]
    fn a_thread_stays_awake_for_as_long_as_it_was_told_and_no_longer() {
        // Ten times 5 ms, of 200 that pass; without it next to nothing.
        let awake = used(Duration::from_millis(5));
        assert!(awake > Duration::from_millis(10), "{awake:?}");
        assert!(awake < Duration::from_millis(100), "{awake:?}");
        let asleep = used(Duration::ZERO);
        assert!(asleep < awake / 2, "{asleep:?} of {awake:?}");
    }
}
