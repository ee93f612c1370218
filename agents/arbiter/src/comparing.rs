//! The rules for the comparison of a read's replies; `voting` compares them.
//!
//! A reply's digest is SHA-256, so equal digests mean equal replies, also if a server tries to
//! forge one, and a reply is read once, in constant memory.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use wire::arbiter::{Compare, CompareMode};

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

/// The rules now.
pub struct Comparing {
    mode: AtomicU8,
    rules: RwLock<Arc<Compare>>,
}

impl Comparing {
    /// By these rules.
    pub fn new(rules: Compare) -> Self {
        Self { mode: AtomicU8::new(rules.mode as u8), rules: RwLock::new(Arc::new(rules)) }
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
}
