//! How a loop sleeps: until something comes, until a time, or until it is told to stop.
//!
//! `epoll`'s own time-out counts in milliseconds; a timer of the kernel (`timerfd`) ends within a
//! tenth of one. A wait that is shorter than a sleep costs is spent looking.

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
const SPIN_NS: i64 = 15_000;

/// Ends a loop from another thread.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stop {
    /// It launches no more and gives up what is under way.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
        // A loop that has ended cannot be woken.
        let _ = self.waker.wake();
    }

    /// Whether it is to stop.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Waiting {
    poll: Poll,
    timer: TimerFd,
    armed_ns: i64,
    /// What ends the loop.
    pub stop: Stop,
}

impl Waiting {
    /// Nothing is waited for yet.
    ///
    /// # Errors
    /// When the kernel gives no more descriptors.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        let number = timer.as_fd().as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&number), TIMER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let asked = Arc::new(AtomicBool::new(false));
        Ok(Self {
            poll,
            timer,
            armed_ns: 0,
            stop: Stop { asked, waker },
        })
    }

    /// Where connections are registered, each by its slot.
    pub fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Sleeps until an event or `wake_ns`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wait(&mut self, events: &mut Events, wake_ns: i64) -> io::Result<()> {
        let timeout = if wake_ns - monotonic_ns() <= SPIN_NS {
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
