//! The rules by which replies of a read's replicas are held against each other, and what counts for
//! ejection; `voting` holds them.
//!
//! A reply's digest is SHA-256: equal digests are equal replies, whatever a server makes of its reply,
//! and a reply is read once, in constant memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use policy::ServerId;
use sha2::{Digest as _, Sha256};
use wire::arbiter::{Compare, CompareMode};

use crate::lock;

/// A digest: equal for replies that are the same.
pub type Digest = [u8; 32];

/// Of bytes that are there as a whole.
pub fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// How many of `replicas` have to give the same reply: more than half.
pub fn majority_of(replicas: usize) -> usize {
    replicas / 2 + 1
}

/// The rules now, and what counts for ejection.
pub struct Comparing {
    mode: AtomicU8,
    rules: RwLock<Arc<Compare>>,
    /// Of each server: when it was in the minority lately.
    minorities: Vec<Mutex<VecDeque<Instant>>>,
}

impl Comparing {
    /// By these rules.
    pub fn new(rules: Compare, servers: usize) -> Self {
        Self {
            mode: AtomicU8::new(rules.mode as u8),
            rules: RwLock::new(Arc::new(rules)),
            minorities: (0..servers).map(|_| Mutex::default()).collect(),
        }
    }

    /// The mode now. All that a read costs while it is off.
    pub fn mode(&self) -> CompareMode {
        let now = self.mode.load(Relaxed);
        let known = CompareMode::ALL.into_iter().find(|&it| it as u8 == now);
        known.unwrap_or_default()
    }

    /// The rules now.
    pub fn rules(&self) -> Arc<Compare> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Other rules, for the reads that follow.
    pub fn set(&self, rules: Compare) {
        let mut held = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        self.mode.store(rules.mode as u8, Relaxed);
        *held = Arc::new(rules);
    }

    /// A server was in the minority; whether that was once too often.
    pub fn is_outlier(&self, server: ServerId, now: Instant, rules: &Compare) -> bool {
        if rules.ejects_after == 0 {
            return false;
        }
        let window = Duration::from_millis(rules.ejects_within_ms);
        let mut times = lock(&self.minorities[server]);
        times.push_back(now);
        while times.front().is_some_and(|&seen| now - seen > window) {
            times.pop_front();
        }
        let is_outlier = times.len() >= rules.ejects_after as usize;
        if is_outlier {
            times.clear();
        }
        is_outlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_the_rule_says_within_the_window_make_an_outlier_and_then_it_begins_anew() {
        let rules = Compare {
            ejects_after: 3,
            ejects_within_ms: 1_000,
            ..Compare::default()
        };
        let comparing = Comparing::new(rules.clone(), 2);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let seen: Vec<_> = [0, 10, 1_500, 1_600, 1_700, 1_800, 1_900]
            .map(|ms| comparing.is_outlier(1, at(ms), &rules))
            .to_vec();
        assert_eq!(seen, [false, false, false, false, true, false, false]);
        let never = Compare::default();
        assert!((0..100).all(|_| !comparing.is_outlier(0, start, &never)));
    }
}
