//! A set of nodes, by their place in the list of all.

/// The most nodes a cluster can have: one bit each.
pub const NODES_MAX: usize = 64;

/// A set of nodes, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Members(pub u64);

impl Members {
    /// One node alone.
    pub fn only(node: usize) -> Self {
        Self(1 << node)
    }

    /// The first `count` nodes.
    pub fn all(count: usize) -> Self {
        (0..count).fold(Self::default(), |set, node| set.with(node))
    }

    /// True for a member.
    pub fn contains(self, node: usize) -> bool {
        node < NODES_MAX && self.0 & (1 << node) != 0
    }

    /// The set and this node.
    pub fn with(self, node: usize) -> Self {
        Self(self.0 | 1 << node)
    }

    /// The set without this node.
    pub fn without(self, node: usize) -> Self {
        Self(self.0 & !(1 << node))
    }

    /// True if all are among the first `count`.
    pub fn is_within(self, count: usize) -> bool {
        self.0 & !Self::all(count).0 == 0
    }

    /// True if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of members.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns all members, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..NODES_MAX).filter(move |&node| self.contains(node))
    }

    /// The node after `node` around the ring; itself if it is alone.
    pub fn successor(self, node: usize) -> usize {
        let mut around = (1..=NODES_MAX).map(|step| (node + step) % NODES_MAX);
        around.find(|&n| self.contains(n)).unwrap_or(node)
    }

    /// The node before `node` around the ring; itself if it is alone.
    pub fn predecessor(self, node: usize) -> usize {
        let mut around = (1..=NODES_MAX).map(|step| (node + NODES_MAX - step) % NODES_MAX);
        around.find(|&n| self.contains(n)).unwrap_or(node)
    }

    /// Steps around the ring from `from` to `to`.
    pub fn distance(self, from: usize, to: usize) -> usize {
        let between = (1..NODES_MAX).map(|step| (from + step) % NODES_MAX);
        let passed = between.take_while(|&node| node != to);
        1 + passed.filter(|&node| self.contains(node)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_closes() {
        let ring = Members::all(5).without(1);
        assert_eq!(ring.iter().collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!((ring.successor(0), ring.successor(4)), (2, 0));
        assert_eq!((ring.predecessor(0), ring.predecessor(2)), (4, 0));
        assert_eq!((ring.distance(4, 0), ring.distance(0, 3)), (1, 2));
        assert_eq!(Members::only(3).successor(3), 3);
    }
}
