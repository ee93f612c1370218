//! The pages that other nodes have in memory, by their messages.

use std::collections::HashMap;

use super::members::{Members, NODES_MAX};
use super::message::Key;

/// The nodes that have each page.
pub struct Directory {
    holders: HashMap<Key, Members>,
    keys_of: [usize; NODES_MAX],
}

impl Default for Directory {
    fn default() -> Self {
        Self { holders: HashMap::new(), keys_of: [0; NODES_MAX] }
    }
}

impl Directory {
    /// The nodes that have this page.
    pub fn holders(&self, key: &str) -> Members {
        self.holders.get(key).copied().unwrap_or_default()
    }

    /// Notes that `peer` has a page.
    pub fn add(&mut self, peer: usize, key: Key) {
        let holders = self.holders.entry(key).or_default();
        self.keys_of[peer] += usize::from(!holders.contains(peer));
        *holders = holders.with(peer);
    }

    /// Notes that `peer` no longer has a page.
    pub fn remove(&mut self, peer: usize, key: &str) {
        let Some(holders) = self.holders.get_mut(key) else {
            return;
        };
        self.keys_of[peer] -= usize::from(holders.contains(peer));
        *holders = holders.without(peer);
        if holders.is_empty() {
            self.holders.remove(key);
        }
    }

    /// Forgets all pages of `peer`.
    pub fn forget(&mut self, peer: usize) {
        self.keys_of[peer] = 0;
        self.holders.retain(|_, holders| {
            *holders = holders.without(peer);
            !holders.is_empty()
        });
    }

    /// Number of pages of `peer`.
    pub fn keys_of(&self, peer: usize) -> usize {
        self.keys_of[peer]
    }

    /// Returns all pages of `peer`.
    pub fn pages_of(&self, peer: usize) -> impl Iterator<Item = &Key> {
        let entries = self.holders.iter().filter(move |(_, holders)| holders.contains(peer));
        entries.map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_forgotten_takes_no_other_with_it() {
        let mut directory = Directory::default();
        for (peer, key) in [(1, "a"), (2, "a"), (1, "b"), (1, "b")] {
            directory.add(peer, key.into());
        }
        assert_eq!(directory.keys_of(1), 2);
        directory.forget(1);
        directory.remove(1, "a");
        assert_eq!(directory.holders("a"), Members::only(2));
        assert!(directory.holders("b").is_empty());
        assert_eq!((directory.keys_of(1), directory.keys_of(2)), (0, 1));
    }
}
