//! Memory that clients make the arbiter hold: requests that come slowly, replies that are taken
//! slowly.
//!
//! A bound per client does not bound the whole: ten clients that ask for 40 MB and read nothing took
//! 417 MiB. So what a connection holds beyond a little of its own is counted for all threads
//! together, and refused beyond `held_mib_max`: whoever asks then gets less of a buffer, or an error.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// What every connection may hold uncounted.
pub const UNCOUNTED: usize = 64 * 1024;
/// Counted in steps, so that most growth touches nothing shared.
const STEP: usize = 64 * 1024;

/// The memory of all connections.
#[derive(Debug)]
pub struct Memory {
    held: AtomicUsize,
    most: usize,
}

impl Memory {
    /// Up to `most` bytes may be held.
    pub fn new(most: usize) -> Arc<Self> {
        let held = AtomicUsize::new(0);
        Arc::new(Self { held, most })
    }

    /// Counted now.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }
}

/// The share of one connection; given back when dropped.
#[derive(Debug)]
pub struct Held {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Held {
    /// Nothing yet.
    pub fn new(memory: &Arc<Memory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            bytes: 0,
        }
    }

    /// Whether this connection may hold so many bytes in all. They are counted if so; if not, what
    /// was counted stays.
    pub fn cover(&mut self, bytes: usize) -> bool {
        let wanted = if bytes <= UNCOUNTED {
            0
        } else {
            bytes.next_multiple_of(STEP)
        };
        if wanted == self.bytes {
            return true;
        }
        if wanted < self.bytes {
            self.memory.held.fetch_sub(self.bytes - wanted, Relaxed);
            self.bytes = wanted;
            return true;
        }
        let more = wanted - self.bytes;
        let most = self.memory.most;
        let taken = self
            .memory
            .held
            .fetch_update(Relaxed, Relaxed, |held| {
                Some(held + more).filter(|sum| *sum <= most)
            })
            .is_ok();
        if taken {
            self.bytes = wanted;
        }
        taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_are_bounded_and_come_back() {
        let memory = Memory::new(10 * STEP);
        let (mut one, mut two) = (Held::new(&memory), Held::new(&memory));
        assert!(one.cover(UNCOUNTED) && memory.held() == 0);
        assert!(one.cover(6 * STEP) && two.cover(4 * STEP - 1));
        assert_eq!(memory.held(), 10 * STEP);
        assert!(!two.cover(5 * STEP), "the bound");
        assert_eq!(memory.held(), 10 * STEP, "a refusal changes nothing");
        assert!(one.cover(2 * STEP) && two.cover(5 * STEP));
        drop(one);
        assert_eq!(memory.held(), 5 * STEP);
        drop(two);
        assert_eq!(memory.held(), 0);
    }
}
