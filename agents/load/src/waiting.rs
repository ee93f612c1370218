//! Sleep of a loop: until an event, until a time, or until it is stopped.
//!
//! `epoll`'s own time-out counts in milliseconds; a timer of the kernel (`timerfd`) ends within a
//! tenth of one. Where a request is due the timer is set earlier by about that, and the rest of the
//! wait is spent looking: see [`lead_ns`].

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::{monotonic_ns, SECOND};

const TIMER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// A wait that is shorter is not worth a sleep.
const SLEEP_NS_MIN: i64 = 15_000;
/// Maximum lead over a request [ns]: a sleep of an idle processor may end that late.
const LEAD_NS_MAX: i64 = 400_000;
/// Share of the mean time between two requests that may be spent polling.
const LOOKING_SHARE: f64 = 0.05;

/// Lead of a wake-up over a request [ns] by the mean time between two requests: 400 µs up to 125
/// requests a second, 50 µs at 1,000, 5 µs at 10,000.
pub fn lead_ns(gap_ns: f64) -> i64 {
    ((gap_ns * LOOKING_SHARE) as i64).min(LEAD_NS_MAX)
}

/// Ends a loop from another thread.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stop {
    /// Stops the loop: it sends no more and abandons requests under way.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        // A loop that has ended cannot be woken.
        let _ = self.waker.wake();
    }

    /// True if it is to stop.
    pub fn is_stopped(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

/// Waits for sockets, a time, or the stop.
#[derive(Debug)]
pub struct Waiting {
    poll: Poll,
    timer: TimerFd,
    armed_ns: i64,
    lead_ns: i64,
    /// Handle that stops the loop.
    pub stop: Stop,
}

impl Waiting {
    /// Starts without sockets; `lead_ns` is a result of that function.
    pub fn new(lead_ns: i64) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        let number = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&number), TIMER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let flag = Arc::new(AtomicBool::new(false));
        Ok(Self { poll, timer, armed_ns: 0, lead_ns, stop: Stop { flag, waker } })
    }

    /// Registry of connections, by slot.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Sleeps until an event, or `wake_ns`, or shortly before `due_ns`; then it looks for events and
    /// comes back at once.
    pub fn wait(&mut self, events: &mut Events, due_ns: i64, wake_ns: i64) -> io::Result<()> {
        let wake_ns = due_ns.saturating_sub(self.lead_ns).min(wake_ns);
        let timeout = if wake_ns - monotonic_ns() <= SLEEP_NS_MIN {
            Some(Duration::ZERO)
        } else {
            if self.armed_ns != wake_ns {
                let at = TimeSpec::new(wake_ns / SECOND, wake_ns % SECOND);
                let absolute = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
                self.timer.set(Expiration::OneShot(at), absolute)?;
                self.armed_ns = wake_ns;
            }
            None
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// The slot of the connection that an event is of; none for the timer and the stop.
pub fn slot_of(token: Token) -> Option<usize> {
    Some(token.0).filter(|_| token != TIMER && token != WAKER)
}

#[cfg(test)]
mod tests {
    use super::lead_ns;

    #[test]
    fn a_twentieth_of_the_time_is_spent_looking_at_most() {
        let at = |per_s: f64| lead_ns(1e9 / per_s);
        assert_eq!([at(1.0), at(125.0), at(1e3), at(1e4)], [400_000, 400_000, 50_000, 5_000]);
        assert_eq!(lead_ns(f64::INFINITY), 400_000, "one request alone");
        assert_eq!(lead_ns(0.0), 0, "all at once");
    }
}
