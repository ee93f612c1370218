//! Servers in the order of their last observation, so that expired ones are found in O(1): a doubly
//! linked list over the servers' indexes.

use crate::ServerId;

/// Servers by the time of their last observation. Index M is both ends of the ring.
#[derive(Debug, Clone)]
pub(crate) struct Recency {
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Recency {
    pub(crate) fn new(servers: usize) -> Self {
        let alone: Vec<u32> = (0..=servers as u32).collect();
        Self { before: alone.clone(), after: alone }
    }

    /// The server is the one observed last.
    pub(crate) fn touch(&mut self, server: ServerId) {
        self.remove(server);
        let ring = self.before.len() - 1;
        let last = self.before[ring];
        self.after[last as usize] = server as u32;
        self.before[server] = last;
        self.after[server] = ring as u32;
        self.before[ring] = server as u32;
    }

    /// The server is not observed any more.
    pub(crate) fn remove(&mut self, server: ServerId) {
        let (before, after) = (self.before[server], self.after[server]);
        self.after[before as usize] = after;
        self.before[after as usize] = before;
        self.before[server] = server as u32;
        self.after[server] = server as u32;
    }

    /// The one whose observation is the oldest.
    pub(crate) fn oldest(&self) -> Option<ServerId> {
        let ring = self.after.len() - 1;
        let first = self.after[ring] as usize;
        (first != ring).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_list(changes in prop::collection::vec((any::<bool>(), 0..5usize), 0..80)) {
            let mut recency = Recency::new(5);
            let mut list: Vec<usize> = vec![];
            for (touched, server) in changes {
                list.retain(|&other| other != server);
                if touched {
                    recency.touch(server);
                    list.push(server);
                } else {
                    recency.remove(server);
                }
                prop_assert_eq!(recency.oldest(), list.first().copied());
            }
        }
    }
}
