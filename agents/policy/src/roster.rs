//! Available servers, as a dense list to draw from: any r of them in O(r), any change in O(1).

use crate::rng::Rng;
use crate::ServerId;

const NOWHERE: u32 = u32::MAX;

/// The servers that can be had.
#[derive(Debug, Clone)]
pub(crate) struct Roster {
    list: Vec<u32>,
    /// Each server's place in the list.
    places: Vec<u32>,
}

impl Roster {
    pub(crate) fn new(servers: usize) -> Self {
        Self { list: Vec::with_capacity(servers), places: vec![NOWHERE; servers] }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn has(&self, server: ServerId) -> bool {
        self.places[server] != NOWHERE
    }

    pub(crate) fn insert(&mut self, server: ServerId) {
        if !self.has(server) {
            self.places[server] = self.list.len() as u32;
            self.list.push(server as u32);
        }
    }

    pub(crate) fn remove(&mut self, server: ServerId) {
        if !self.has(server) {
            return;
        }
        let place = self.places[server] as usize;
        self.swap(place, self.list.len() - 1);
        self.list.pop();
        self.places[server] = NOWHERE;
    }

    /// Brings a server drawn from those at `drawn` and beyond to the place `drawn`: called with 0,
    /// 1, 2 ... it is a Fisher-Yates shuffle that stops where the caller has enough.
    pub(crate) fn draw(&mut self, drawn: usize, rng: &mut Rng) -> Option<ServerId> {
        let count = self.list.len().checked_sub(drawn).filter(|&count| count > 0)?;
        self.swap(drawn, drawn + rng.below(count));
        Some(self.list[drawn] as ServerId)
    }

    fn swap(&mut self, first: usize, second: usize) {
        self.list.swap(first, second);
        self.places[self.list[first] as usize] = first as u32;
        self.places[self.list[second] as usize] = second as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::Roster;
    use crate::rng::Rng as Draws;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn draws_every_server_of_the_list_once(
            changes in prop::collection::vec((any::<bool>(), 0..9usize), 0..60),
            seed in any::<u64>(),
        ) {
            let mut roster = Roster::new(9);
            let mut members = BTreeSet::new();
            for (comes, server) in changes {
                if comes {
                    roster.insert(server);
                    members.insert(server);
                } else {
                    roster.remove(server);
                    members.remove(&server);
                }
                let mut rng = Draws::new(seed);
                let draws: Vec<_> = (0..).map_while(|n| roster.draw(n, &mut rng)).collect();
                prop_assert_eq!(draws.len(), members.len());
                prop_assert_eq!(&draws.into_iter().collect::<BTreeSet<_>>(), &members);
                prop_assert!((0..9).all(|server| roster.has(server) == members.contains(&server)));
            }
        }
    }
}
