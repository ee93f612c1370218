//! TAD, token-based arbitration: sPARE section 4.
//!
//! Each server has C tokens in one central pool, a queue: tokens are looked at from its head and
//! return at its tail. A request that wants `r` replicas looks at up to n + r = M tokens of
//! *different* servers (a token of a server already looked at is skipped) and takes the `r` whose
//! servers were fastest when last observed; of equals, the one nearer to the head. If h < r are
//! there it takes the h, and the remaining r - h as tokens return.
//!
//! Because the look-up skips further tokens of a server already seen and goes on to M different
//! ones, it sees exactly the earliest token of each server that has any. So the pool is kept as one
//! queue of stamps per server, the stamps in pool order: a choice costs O(M), not O(M C). The tests
//! compare it with the literal queue.

use std::collections::VecDeque;

use crate::ServerId;

/// Whether to avoid the server, and how slow it is.
pub(crate) type Rank = (bool, u64);

/// The central token pool.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// Per server: the place in the pool's order of each of its free tokens, ascending.
    free: Vec<VecDeque<u64>>,
    next_stamp: u64,
    /// Scratch of `choose`: (rank, stamp, server).
    candidates: Vec<(Rank, u64, ServerId)>,
}

impl Pool {
    pub(crate) fn new(servers: usize) -> Self {
        Self {
            free: vec![VecDeque::new(); servers],
            next_stamp: 0,
            candidates: Vec::with_capacity(servers),
        }
    }

    pub(crate) fn free(&self, server: ServerId) -> usize {
        self.free[server].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.iter().all(VecDeque::is_empty)
    }

    /// A token comes (back) to the tail.
    pub(crate) fn push(&mut self, server: ServerId) {
        self.free[server].push_back(self.next_stamp);
        self.next_stamp += 1;
    }

    /// Takes the token of `server` that is last in the pool (fewer tokens from now on).
    pub(crate) fn shrink(&mut self, server: ServerId) {
        self.free[server].pop_back();
    }

    /// Takes all tokens of a server out (it is dead).
    pub(crate) fn clear(&mut self, server: ServerId) {
        self.free[server].clear();
    }

    /// Takes up to `r` tokens of different usable servers, the fastest by `rank`, into `chosen`.
    pub(crate) fn choose(
        &mut self,
        r: usize,
        usable: impl Fn(ServerId) -> bool,
        rank: impl Fn(ServerId) -> Rank,
        chosen: &mut Vec<ServerId>,
    ) {
        self.candidates.clear();
        for (server, stamps) in self.free.iter().enumerate() {
            if let (Some(stamp), true) = (stamps.front(), usable(server)) {
                self.candidates.push((rank(server), *stamp, server));
            }
        }
        self.candidates.sort_unstable();
        for &(_, _, server) in self.candidates.iter().take(r) {
            self.free[server].pop_front();
            chosen.push(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The pool as the paper tells it: one queue, scanned from its head.
    #[derive(Default)]
    struct Literal(VecDeque<ServerId>);

    impl Literal {
        fn choose(&mut self, servers: usize, r: usize, rank: &[u64]) -> Vec<ServerId> {
            let mut seen: Vec<(u64, usize, ServerId)> = Vec::new();
            for (place, &server) in self.0.iter().enumerate() {
                if seen.len() == servers {
                    break;
                }
                if !seen.iter().any(|&(_, _, other)| other == server) {
                    seen.push((rank[server], place, server));
                }
            }
            seen.sort_unstable();
            seen.truncate(r);
            for &(_, _, server) in &seen {
                let place = self.0.iter().position(|&other| other == server).unwrap();
                self.0.remove(place);
            }
            seen.into_iter().map(|(_, _, server)| server).collect()
        }
    }

    proptest! {
        #[test]
        fn equals_a_scan_of_one_queue(
            steps in prop::collection::vec((any::<bool>(), 0..5usize, 1..4usize), 0..200),
            ranks in prop::collection::vec(0..4u64, 5),
        ) {
            let mut pool = Pool::new(5);
            let mut literal = Literal::default();
            for (returns, server, r) in steps {
                if returns {
                    pool.push(server);
                    literal.0.push_back(server);
                } else {
                    let mut chosen = Vec::new();
                    pool.choose(r, |_| true, |server| (false, ranks[server]), &mut chosen);
                    prop_assert_eq!(chosen, literal.choose(5, r, &ranks));
                }
            }
        }
    }
}
