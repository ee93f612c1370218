//! The token pool of TAD (sPARE section 4.1): C tokens per server in one queue.
//!
//! A look-up skips further tokens of a server already seen and goes on to M different ones, so it
//! sees exactly the earliest token of each server that has any. So the pool is kept as one queue of
//! stamps per server, the stamps in pool order, and the earliest of each server is its place in the
//! tournament. `tests/choices/literal_pool.rs` compares it with the literal queue.

use std::collections::VecDeque;

use crate::ServerId;

/// The free tokens of all servers.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// Per server: the place in the pool's order of each of its free tokens, ascending.
    free: Vec<VecDeque<u64>>,
    total: usize,
    next_stamp: u64,
}

impl Pool {
    pub(crate) fn new(servers: usize) -> Self {
        Self { free: vec![VecDeque::new(); servers], total: 0, next_stamp: 0 }
    }

    pub(crate) fn free(&self, server: ServerId) -> usize {
        self.free[server].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The place of the server's earliest token in the pool.
    pub(crate) fn earliest(&self, server: ServerId) -> Option<u64> {
        self.free[server].front().copied()
    }

    /// Takes it out.
    pub(crate) fn take(&mut self, server: ServerId) {
        self.total -= usize::from(self.free[server].pop_front().is_some());
    }

    /// Adds tokens at the tail or takes the last ones until the server has `share` of them.
    pub(crate) fn level(&mut self, server: ServerId, share: usize) {
        while self.step(server, share) {}
    }

    /// Does one step of [`Pool::level`]; false if there was none.
    pub(crate) fn step(&mut self, server: ServerId, share: usize) -> bool {
        match self.free[server].len().cmp(&share) {
            std::cmp::Ordering::Less => {
                self.free[server].push_back(self.next_stamp);
                self.next_stamp += 1;
                self.total += 1;
            }
            std::cmp::Ordering::Greater => {
                self.total -= usize::from(self.free[server].pop_back().is_some());
            }
            std::cmp::Ordering::Equal => return false,
        }
        true
    }
}
