//! The rules for the comparison of a read's replies; `voting` compares them.
//!
//! A reply's digest is SHA-256, so equal digests mean equal replies, also if a server tries to
//! forge one, and a reply is read once, in constant memory.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use wire::arbiter::{Compare, CompareMode};

/// A digest of a reply; equal for equal replies.
pub type Digest = [u8; 32];

/// Digest of complete bytes.
pub fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// Number of `replicas` that have to give the same reply: more than half.
pub fn majority_of(replicas: usize) -> usize {
    replicas / 2 + 1
}

/// The current rules of comparison.
pub struct Comparing {
    mode: AtomicU8,
    rules: RwLock<Arc<Compare>>,
}

impl Comparing {
    /// Starts with these rules.
    pub fn new(rules: Compare) -> Self {
        Self { mode: AtomicU8::new(rules.mode as u8), rules: RwLock::new(Arc::new(rules)) }
    }

    /// The current mode. Reads cost no more than this while it is off.
    pub fn mode(&self) -> CompareMode {
        let now = self.mode.load(Relaxed);
        let known = CompareMode::ALL.into_iter().find(|&it| it as u8 == now);
        known.unwrap_or_default()
    }

    /// The current rules.
    pub fn rules(&self) -> Arc<Compare> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rules for later reads.
    pub fn set(&self, rules: Compare) {
        let mut held = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        self.mode.store(rules.mode as u8, Relaxed);
        *held = Arc::new(rules);
    }
}
